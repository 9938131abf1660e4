"""The lines of a Kafka 4.x controller about brokers, topics and partitions, in Kafka's words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from generators.simulator.cluster.simulation_event import SimulationEvent
from tests.simulated.broker_lines import DEBUG, INFO, WARN, Line

_PACKAGE = "org.apache.kafka.controller"
_FENCED = {"fenced": (1, 0), "unfenced": (-1, 0), "controlled_shutdown": (0, 1), "log_dir_offline": (0, 0)}
NOBODY = -1


class ControllerLines:
    """The lines of one process of a controller: changes of what it has printed before."""

    def __init__(self, controller: int, racks: Mapping[int, str]) -> None:
        self._prefix = f"[QuorumController id={controller}] "
        self._thread = f"quorum-controller-{controller}-event-handler"
        self._racks = racks
        self._epoch: int | None = None
        self._brokers: set[int] = set()
        self._topics: set[str] = set()
        self._min_isr: dict[str | None, int] = {}
        self._partitions: dict[tuple[str | None, int], dict[int, SimulationEvent]] = {}
        """By topic id, partition and partition epoch: changes that are never committed are replaced there."""

    def directories(self, event: SimulationEvent) -> Line:
        """Some of a broker's log directories have failed."""
        what = f"Directories [{_id(1)}] in broker {event.replica} marked offline, remaining directories: [{_id(2)}]"
        return self._of_partitions(WARN, what)

    def broker(self, event: SimulationEvent) -> Line:
        """A broker registers, or its registration changes."""
        about = f"brokerId={event.replica}"
        if event.detail == "started":
            how = (
                "RegisterBrokerRecord establishing a new incarnation of"
                if event.replica in self._brokers
                else "initial RegisterBrokerRecord for"
            )
            self._brokers.add(event.replica or 0)
            rack = self._racks.get(event.replica or 0)
            record = (
                f"RegisterBrokerRecord({about}, isMigratingZkBroker=false, "
                f"incarnationId={_id(event.broker_epoch or 0)}, "
                f"brokerEpoch={event.broker_epoch}, endPoints=[], features=[], "
                f"rack={_quoted(rack)}, fenced=true, "
                "inControlledShutdown=false, logDirs=[])"
            )
            return self._line("ClusterControlManager", INFO, f"Replayed {how} broker {event.replica}: {record}")
        if event.detail == "unregistered":
            record = f"UnregisterBrokerRecord({about}, brokerEpoch={event.broker_epoch})"
            return self._line("ClusterControlManager", INFO, f"Replayed {record}")
        fenced, stopping = _FENCED[event.detail or ""]
        left = _id(2) if event.detail == "log_dir_offline" else ""
        record = (
            f"BrokerRegistrationChangeRecord({about}, brokerEpoch={event.broker_epoch}, fenced={fenced}, "
            f"inControlledShutdown={stopping}, logDirs=[{left}])"
        )
        what = (
            f"Replayed BrokerRegistrationChangeRecord modifying the registration for broker {event.replica}: {record}"
        )
        return self._line("ClusterControlManager", INFO, what)

    def role(self, event: SimulationEvent) -> Iterator[Line]:
        """Its own role, or who is active."""
        epoch, self._epoch = self._epoch, event.controller_epoch
        if event.detail == "active":
            what = f"Becoming the active controller at epoch {event.controller_epoch}, next write offset 1."
            yield self._line("QuorumController", INFO, what)
        elif event.detail == "renounced":
            what = (
                f"Renouncing the leadership due to a metadata log event. We were the leader at epoch {epoch}, but in "
                f"the new epoch {event.controller_epoch}, the leader is {_node(event)}. Reverting to last stable "
                f"offset 1."
            )
            yield self._line("QuorumController", WARN, what)
        elif event.detail in ("standby", "nobody"):
            what = f"In the new epoch {event.controller_epoch}, the leader is {_node(event)}."
            yield self._line("QuorumController", INFO, what)

    def setting(self, event: SimulationEvent, min_isr: int) -> Iterator[Line]:
        """min.insync.replicas of a topic, where it has changed."""
        if self._min_isr.get(event.topic_id, 1) != min_isr:
            self._min_isr[event.topic_id] = min_isr
            resource = f"ConfigResource(type=TOPIC, name='{event.topic}')"
            what = f"Replayed ConfigRecord for {resource} which set configuration min.insync.replicas to {min_isr}"
            yield self._line("ConfigurationControlManager", INFO, what)

    def topic(self, event: SimulationEvent) -> Iterator[Line]:
        """A topic, at its first partition."""
        if event.topic_id is not None and event.topic_id not in self._topics:
            self._topics.add(event.topic_id)
            yield self._of_partitions(
                INFO, f"Replayed TopicRecord for topic {event.topic} with topic ID {event.topic_id}."
            )

    def partition(self, event: SimulationEvent) -> Iterator[Line]:
        """A new partition, or a change of its registration: its leader, its ISR, or both."""
        known = self._partitions.setdefault((event.topic_id, event.partition), {})
        epoch = event.partition_epoch or 0
        before = max((e for e in known if e < epoch), default=None)
        known[epoch] = event
        if before is None:
            yield self._of_partitions(INFO, self._made(event))
            return
        yield from self._changed(known[before], event)

    def _changed(self, before: SimulationEvent, event: SimulationEvent) -> Iterator[Line]:
        changed = [text for text in _changes(before, event) if text]
        unclean = bool(event.unclean) and not before.unclean
        what = (
            f"partition change for {event.topic}-{event.partition} with topic ID {event.topic_id}: {', '.join(changed)}"
        )
        yield self._of_partitions(INFO if unclean else DEBUG, f"UNCLEAN {what}" if unclean else what)
        yield self._of_partitions(DEBUG, _record(before, event))

    def _made(self, event: SimulationEvent) -> str:
        return (
            f"Replayed PartitionRecord for new partition {event.topic}-{event.partition} with topic ID "
            f"{event.topic_id} and "
            f"PartitionRegistration(replicas={_list(event.replicas)}, directories=[], isr={_list(event.isr)}, "
            f"removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader={event.leader}, "
            f"leaderRecoveryState={_recovery(event)}, leaderEpoch={event.leader_epoch}, "
            f"partitionEpoch={event.partition_epoch})."
        )

    def _of_partitions(self, level: str, message: str) -> Line:
        return self._line("ReplicationControlManager", level, message)

    def _line(self, manager: str, level: str, message: str) -> Line:
        return Line(level, self._thread, f"{_PACKAGE}.{manager}", self._prefix + message)


def _changes(before: SimulationEvent, after: SimulationEvent) -> Iterator[str]:
    if before.isr != after.isr:
        yield f"isr: {_list(before.isr)} -> {_list(after.isr)}"
    if before.replicas != after.replicas:
        yield f"replicas: {_list(before.replicas)} -> {_list(after.replicas)}"
    if before.leader_epoch != after.leader_epoch:
        yield f"leader: {before.leader} -> {after.leader}"
    if before.unclean != after.unclean:
        yield f"leaderRecoveryState: {_recovery(before)} -> {_recovery(after)}"
    if before.leader_epoch != after.leader_epoch:
        yield f"leaderEpoch: {before.leader_epoch} -> {after.leader_epoch}"
    yield f"partitionEpoch: {before.partition_epoch} -> {after.partition_epoch}"


def _record(before: SimulationEvent, after: SimulationEvent) -> str:
    isr = _list(after.isr) if before.isr != after.isr else "null"
    replicas = _list(after.replicas) if before.replicas != after.replicas else "null"
    leader = after.leader if before.leader_epoch != after.leader_epoch else -2
    recovery = int(bool(after.unclean)) if before.unclean != after.unclean else -1
    return (
        f"Replayed partition change PartitionChangeRecord(partitionId={after.partition}, topicId={after.topic_id}, "
        f"isr={isr}, "
        f"leader={leader}, replicas={replicas}, removingReplicas=null, addingReplicas=null, leaderRecoveryState="
        f"{recovery}, directories=null, eligibleLeaderReplicas=null, lastKnownElr=null) for topic {after.topic}"
    )


def _node(event: SimulationEvent) -> str:
    return "(none)" if event.leader is None or event.leader < 0 else str(event.leader)


def _recovery(event: SimulationEvent) -> str:
    return "RECOVERING" if event.unclean else "RECOVERED"


def _list(ids: Iterable[int] | None) -> str:
    return f"[{', '.join(map(str, ids or ()))}]"


def _id(number: int) -> str:
    """A 22-character id."""
    return f"{number:A>22}"


def _quoted(name: str | None) -> str:
    return "null" if name is None else f"'{name}'"
