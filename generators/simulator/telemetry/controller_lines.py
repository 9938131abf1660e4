"""What a Kafka 4.x controller prints of brokers, topics and partitions, word for word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generators.simulator.cluster.happening import Happening
from generators.simulator.telemetry.broker_lines import DEBUG, INFO, WARN, Line

_PACKAGE = "org.apache.kafka.controller"
_FENCED = {"fenced": (1, 0), "unfenced": (-1, 0), "controlled_shutdown": (0, 1), "log_dir_offline": (0, 0)}
NOBODY = -1


class ControllerLines:
    """What one process of a controller prints: changes of what it has printed before."""

    def __init__(self, controller: int) -> None:
        self._prefix = f"[QuorumController id={controller}] "
        self._thread = f"quorum-controller-{controller}-event-handler"
        self._epoch: int | None = None
        self._brokers: set[int] = set()
        self._topics: set[str] = set()
        self._min_isr: dict[str | None, int] = {}
        self._partitions: dict[tuple[str | None, int], dict[int, Happening]] = {}
        """By topic id, partition and partition epoch: what is made up and never committed is replaced there."""

    def directories(self, h: Happening) -> Line:
        """Some of a broker's log directories have failed."""
        what = f"Directories [{_id(1)}] in broker {h.replica} marked offline, remaining directories: [{_id(2)}]"
        return self._of_partitions(WARN, what)

    def broker(self, h: Happening) -> Line:
        """A broker registers, or its registration changes."""
        about = f"brokerId={h.replica}"
        if h.detail == "started":
            how = (
                "RegisterBrokerRecord establishing a new incarnation of"
                if h.replica in self._brokers
                else "initial RegisterBrokerRecord for"
            )
            self._brokers.add(h.replica or 0)
            record = (
                f"RegisterBrokerRecord({about}, isMigratingZkBroker=false, incarnationId={_id(h.broker_epoch or 0)}, "
                f"brokerEpoch={h.broker_epoch}, endPoints=[], features=[], rack=null, fenced=true, "
                "inControlledShutdown=false, logDirs=[])"
            )
            return self._line("ClusterControlManager", INFO, f"Replayed {how} broker {h.replica}: {record}")
        if h.detail == "unregistered":
            record = f"UnregisterBrokerRecord({about}, brokerEpoch={h.broker_epoch})"
            return self._line("ClusterControlManager", INFO, f"Replayed {record}")
        fenced, stopping = _FENCED[h.detail or ""]
        left = _id(2) if h.detail == "log_dir_offline" else ""
        record = (
            f"BrokerRegistrationChangeRecord({about}, brokerEpoch={h.broker_epoch}, fenced={fenced}, "
            f"inControlledShutdown={stopping}, logDirs=[{left}])"
        )
        what = f"Replayed BrokerRegistrationChangeRecord modifying the registration for broker {h.replica}: {record}"
        return self._line("ClusterControlManager", INFO, what)

    def role(self, h: Happening) -> Iterator[Line]:
        """What it takes itself for, or who it hears is active."""
        epoch, self._epoch = self._epoch, h.controller_epoch
        if h.detail == "active":
            what = f"Becoming the active controller at epoch {h.controller_epoch}, next write offset 1."
            yield self._line("QuorumController", INFO, what)
        elif h.detail == "renounced":
            what = (
                f"Renouncing the leadership due to a metadata log event. We were the leader at epoch {epoch}, but in "
                f"the new epoch {h.controller_epoch}, the leader is {_node(h)}. Reverting to last stable offset 1."
            )
            yield self._line("QuorumController", WARN, what)
        elif h.detail in ("standby", "nobody"):
            what = f"In the new epoch {h.controller_epoch}, the leader is {_node(h)}."
            yield self._line("QuorumController", INFO, what)

    def setting(self, h: Happening, min_isr: int) -> Iterator[Line]:
        """min.insync.replicas of a topic, where it is not what it was."""
        if self._min_isr.get(h.topic_id, 1) != min_isr:
            self._min_isr[h.topic_id] = min_isr
            resource = f"ConfigResource(type=TOPIC, name='{h.topic}')"
            what = f"Replayed ConfigRecord for {resource} which set configuration min.insync.replicas to {min_isr}"
            yield self._line("ConfigurationControlManager", INFO, what)

    def topic(self, h: Happening) -> Iterator[Line]:
        """A topic, when its first partition is heard of."""
        if h.topic_id is not None and h.topic_id not in self._topics:
            self._topics.add(h.topic_id)
            yield self._of_partitions(INFO, f"Replayed TopicRecord for topic {h.topic} with topic ID {h.topic_id}.")

    def partition(self, h: Happening) -> Iterator[Line]:
        """A partition is made, or what the controller has on record of it changes: its leader, its ISR, or both."""
        known = self._partitions.setdefault((h.topic_id, h.partition), {})
        epoch = h.partition_epoch or 0
        before = max((e for e in known if e < epoch), default=None)
        known[epoch] = h
        if before is None:
            yield self._of_partitions(INFO, self._made(h))
            return
        yield from self._changed(known[before], h)

    def _changed(self, before: Happening, h: Happening) -> Iterator[Line]:
        changed = [text for text in _changes(before, h) if text]
        unclean = bool(h.unclean) and not before.unclean
        what = f"partition change for {h.topic}-{h.partition} with topic ID {h.topic_id}: {', '.join(changed)}"
        yield self._of_partitions(INFO if unclean else DEBUG, f"UNCLEAN {what}" if unclean else what)
        yield self._of_partitions(DEBUG, _record(before, h))

    def _made(self, h: Happening) -> str:
        return (
            f"Replayed PartitionRecord for new partition {h.topic}-{h.partition} with topic ID {h.topic_id} and "
            f"PartitionRegistration(replicas={_list(h.replicas)}, directories=[], isr={_list(h.isr)}, "
            f"removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader={h.leader}, "
            f"leaderRecoveryState={_recovery(h)}, leaderEpoch={h.leader_epoch}, partitionEpoch={h.partition_epoch})."
        )

    def _of_partitions(self, level: str, message: str) -> Line:
        return self._line("ReplicationControlManager", level, message)

    def _line(self, manager: str, level: str, message: str) -> Line:
        return Line(level, self._thread, f"{_PACKAGE}.{manager}", self._prefix + message)


def _changes(a: Happening, b: Happening) -> Iterator[str]:
    if a.isr != b.isr:
        yield f"isr: {_list(a.isr)} -> {_list(b.isr)}"
    if a.replicas != b.replicas:
        yield f"replicas: {_list(a.replicas)} -> {_list(b.replicas)}"
    if a.leader_epoch != b.leader_epoch:
        yield f"leader: {a.leader} -> {b.leader}"
    if a.unclean != b.unclean:
        yield f"leaderRecoveryState: {_recovery(a)} -> {_recovery(b)}"
    if a.leader_epoch != b.leader_epoch:
        yield f"leaderEpoch: {a.leader_epoch} -> {b.leader_epoch}"
    yield f"partitionEpoch: {a.partition_epoch} -> {b.partition_epoch}"


def _record(a: Happening, b: Happening) -> str:
    isr = _list(b.isr) if a.isr != b.isr else "null"
    replicas = _list(b.replicas) if a.replicas != b.replicas else "null"
    leader = b.leader if a.leader_epoch != b.leader_epoch else -2
    recovery = int(bool(b.unclean)) if a.unclean != b.unclean else -1
    return (
        f"Replayed partition change PartitionChangeRecord(partitionId={b.partition}, topicId={b.topic_id}, isr={isr}, "
        f"leader={leader}, replicas={replicas}, removingReplicas=null, addingReplicas=null, leaderRecoveryState="
        f"{recovery}, directories=null, eligibleLeaderReplicas=null, lastKnownElr=null) for topic {b.topic}"
    )


def _node(h: Happening) -> str:
    return "(none)" if h.leader is None or h.leader < 0 else str(h.leader)


def _recovery(h: Happening) -> str:
    return "RECOVERING" if h.unclean else "RECOVERED"


def _list(ids: Iterable[int] | None) -> str:
    return f"[{', '.join(map(str, ids or ()))}]"


def _id(number: int) -> str:
    """A 22-character id."""
    return f"{number:A>22}"
