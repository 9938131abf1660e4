"""The lines of a Kafka 4.x broker about its partitions, in Kafka's words: one function per event.

Messages of kafka.cluster.Partition, state.change.logger, the replica fetcher and UnifiedLog of Kafka 4.1; what a
simulated cluster does not have (positions in segments, directories) is filled in plausibly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.telemetry.attempts import Attempt, reports
from generators.simulator.telemetry.leader_view import LeaderView
from schemas.event_types import CLEAN_START, UNCLEAN_START

TRACE, DEBUG, INFO, WARN = "TRACE", "DEBUG", "INFO", "WARN"
_PARTITION = "kafka.cluster.Partition"
STATE_LOGGER = "state.change.logger"
STOCK_LOGGER = "kafka.server.ReplicaManager"
"""A logger that only the stock files have."""
_FETCHER = "kafka.server.ReplicaFetcherThread"
_LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
_ALTER = "kafka.server.DefaultAlterPartitionManager"
_HANDLERS = 8
_RECORD_BYTES = 100
_RECOVERED = "RECOVERED"


class Line(NamedTuple):
    """One line without its time; an empty thread stands for that of the line before it."""

    level: str
    thread: str
    logger: str
    message: str


def lines(attempt: Attempt, view: LeaderView | None, tried: bool, frozen: bool) -> Iterator[Line]:
    """All lines of one event and of the attempt to raise the HW that it caused, in the order in which Kafka prints
    them.

    `view`: the leader's state after it; `frozen`: under min ISR.
    """
    event = attempt.by
    if event.kind == "isr_proposed" and view is not None:
        yield from _proposed(event, view)
    elif event.kind == "isr":
        yield from _committed(event, view)
    elif event.kind in _PLAIN:
        yield from _PLAIN[event.kind](event)
    if reports(event):
        yield _advanced(event, event)
    if view is not None and tried:
        yield from _tried(attempt, view, frozen)
    if event.kind == "fetch":
        message = f"Recorded replica {event.replica} log end offset (LEO) position {event.leo} and log start offset 0."
        yield _of_partition(event, DEBUG, _thread(event), message)


def follower_hw(event: SimulationEvent, before: int, by_cut: bool) -> Iterator[Line]:
    """A change of a follower's HW from `before`: a fall is a warning of UnifiedLog; a truncation has no answer of a
    leader."""
    if (event.hw or 0) < before:
        message = f"Non-monotonic update of high watermark from {_offset(before)} to {_offset(event.hw or 0)}"
        yield _of_log(event, WARN, message)
    if not by_cut:
        message = (
            f"Follower received high watermark {event.hw} from the leader "
            f"and updated replica high watermark to {event.hw} for partition {_name(event)}"
        )
        yield _of_fetcher(event, TRACE, message)


def created(event: SimulationEvent) -> Line:
    """The first time that a broker's process sees a partition."""
    return _of_state(event, f"Creating new partition {_name(event)} with topic id {event.topic_id}.")


def _advanced(event: SimulationEvent, hw: SimulationEvent) -> Line:
    message = f"High watermark updated from {_offset(hw.hw_before or 0)} to {_offset(hw.hw or 0)}"
    return _of_partition(event, DEBUG, _thread(event), message)


def _tried(attempt: Attempt, view: LeaderView, frozen: bool) -> Iterator[Line]:
    event = attempt.by
    thread = _thread(event)
    if attempt.hw is not None:
        yield _advanced(event, attempt.hw)
    elif frozen:
        message = f"Not increasing HWM because partition is under min ISR(ISR={_set(view.isr)}"
        yield _of_partition(event, TRACE, thread, message)
    else:
        leos = [(id, view.followers[id].leo) for id in view.others(event.broker)] + [(event.broker, view.leo)]
        least = min(leo for id, leo in leos if id in view.isr or id == event.broker)
        printed = ", ".join(f"replica {id}: {_offset(leo)}" for id, leo in leos)
        message = (
            f"Skipping update high watermark since new hw {_offset(least)} is not larger than old value. "
            f"All current LEOs are Set({printed})"
        )
        yield _of_partition(event, TRACE, thread, message)


def _leader(event: SimulationEvent) -> Iterator[Line]:
    if event.unclean:
        yield _of_state(
            event,
            f"The topic partition {_name(event)} was marked as RECOVERING. Marking the topic partition as RECOVERED.",
        )
    yield _of_state(
        event,
        f"Leader {_name(event)} with topic id Some({event.topic_id}) starts at leader epoch {event.leader_epoch} "
        f"from offset {event.leo} with partition epoch {event.partition_epoch}, high watermark {event.hw}, "
        f"ISR [{_commas(event.isr or ())}], adding replicas [] and removing replicas [] . "
        "Previous leader None and previous leader epoch was -1.",
    )


def _follower(event: SimulationEvent) -> Iterator[Line]:
    yield _of_state(
        event,
        f"Follower {_name(event)} starts at leader epoch {event.leader_epoch} from offset {event.leo} "
        f"with partition epoch {event.partition_epoch} and high watermark {event.hw}. "
        f"Current leader is {event.leader}. "
        f"Previous leader Some({event.leader}) and previous leader epoch was {event.leader_epoch}.",
    )


def _truncate(event: SimulationEvent) -> Iterator[Line]:
    if event.log_start is not None and event.log_start == event.leo:
        yield _of_log(event, INFO, f"Truncate and start at offset {event.leo}")
        return
    end = (
        f"EpochEndOffset(errorCode=0, partition={event.partition}, leaderEpoch={event.leader_epoch}, "
        f"endOffset={event.leo})"
    )
    state = f"TruncationState(offset={event.leo}, completed=true)"
    yield _of_fetcher(
        event, INFO, f"Truncating partition {_name(event)} with {state} due to leader epoch and offset {end}"
    )
    yield _of_log(event, INFO, f"Truncating to offset {event.leo}")


def _rejected(event: SimulationEvent) -> Iterator[Line]:
    state = f"CommittedPartitionState(isr={_set(event.isr or ())}, leaderRecoveryState={_RECOVERED})"
    message = (
        f"Failed to alter partition to {state} since the controller rejected the request with OPERATION_NOT_ATTEMPTED. "
        f"Partition state has been reset to the latest committed state {state}."
    )
    yield _of_partition(event, INFO, _channel(event), message)


def _proposed(event: SimulationEvent, view: LeaderView) -> Iterator[Line]:
    isr = event.isr or ()
    gone, thread = [i for i in view.isr if i not in isr], _thread(event)
    if event.detail == "shrink":
        thread = "kafka-scheduler-1"
        late = " ".join(
            f"(brokerId: {f.id}, endOffset: {f.leo}, lastCaughtUpTimeMs: {f.caught_up})"
            for f in (view.followers[id] for id in gone)
        )
        message = (
            f"Shrinking ISR from {_commas(view.isr)} to {_commas(isr)}. Leader: (highWatermark: {view.hw}, "
            f"endOffset: {view.leo}). Out of sync replicas: {late}."
        )
        yield _of_partition(event, INFO, thread, message)
    new = next((i for i in isr if i not in view.isr), -1)
    pending = (
        f"PendingShrinkIsr(outOfSyncReplicaIds={_set(gone)}" if gone else f"PendingExpandIsr(newInSyncReplicaId={new}"
    )
    members = ", ".join(f"BrokerState(brokerId={i}, brokerEpoch=-1)" for i in isr)
    message = (
        f"Submitting ISR state change {pending}, sentLeaderAndIsr=LeaderAndIsr(leader={event.broker}, "
        f"leaderEpoch={event.leader_epoch}, isrWithBrokerEpoch=[{members}], leaderRecoveryState={_RECOVERED}, "
        f"partitionEpoch={event.partition_epoch}), leaderRecoveryState={_RECOVERED}, "
        f"lastCommittedState=CommittedPartitionState(isr={_set(view.isr)}, leaderRecoveryState={_RECOVERED}))"
    )
    yield _of_partition(event, DEBUG, thread, message)


def _committed(event: SimulationEvent, view: LeaderView | None) -> Iterator[Line]:
    isr = event.isr or ()
    if event.detail == "alter_partition":
        message = (
            f"Controller successfully handled AlterPartition request for {event.topic_id}:{event.partition}: "
            f"PartitionData(partitionIndex={event.partition}, errorCode=0, leaderId={event.leader}, "
            f"leaderEpoch={event.leader_epoch}, isr={_list(isr)}, leaderRecoveryState=0, "
            f"partitionEpoch={event.partition_epoch})"
        )
        yield Line(DEBUG, _channel(event), _ALTER, message)
        message = f"ISR updated to {_commas(isr)}  and version updated to {event.partition_epoch}"
        yield _of_partition(event, INFO, _channel(event), message)
        return
    leads = event.leader == event.broker
    state = (
        f"LeaderAndIsrPartitionState(topicName='{event.topic}', partitionIndex={event.partition}, controllerEpoch=-1, "
        f"leader={event.leader}, leaderEpoch={event.leader_epoch}, isr={_list(isr)}, "
        f"partitionEpoch={event.partition_epoch}, replicas={_list(event.replicas or ())}, addingReplicas=[], "
        f"removingReplicas=[], isNew=false, leaderRecoveryState={int(bool(event.unclean))})"
    )
    hw = view.hw if view is not None else 0
    ending = (
        f"already the leader with leader epoch {event.leader_epoch}. Current high watermark {hw}, "
        f"ISR [{_commas(isr)}], adding replicas [] and removing replicas []."
        if leads
        else f"already a follower with leader epoch {event.leader_epoch}."
    )
    role = "leader" if leads else "follower"
    yield _of_state(
        event,
        f"Skipped the become-{role} state change for {_name(event)} with topic id Some({event.topic_id}) "
        f"and partition state {state} since it is {ending}",
    )


def _broker_state(event: SimulationEvent) -> Iterator[Line]:
    message = (
        f"[ReplicaManager broker={event.broker}] Stopping serving replicas in dir /var/lib/kafka/data with uuid "
        "Some(AAAAAAAAAAAAAAAAAAAAAA) because the log directory has failed."
    )
    yield Line(WARN, "LogDirFailureHandler", STOCK_LOGGER, message)


def _start(event: SimulationEvent) -> Iterator[Line]:
    """The line of a start about the clean-shutdown file."""
    found = {CLEAN_START: "Skipping recovery of 1", UNCLEAN_START: "Recovering 1"}.get(event.detail or "")
    if found:
        file = f"{'no ' if event.detail == UNCLEAN_START else ''}clean shutdown file was found"
        yield Line(INFO, "main", "kafka.log.LogManager", f"{found} logs from /var/lib/kafka/data since {file}")


_PLAIN = {
    "leader": _leader, "follower": _follower, "truncate": _truncate, "isr_rejected": _rejected,
    "broker_state": _broker_state, "config": _start,
}  # fmt: skip


def is_follower_hw(event: SimulationEvent) -> bool:
    return event.kind == "hw" and not reports(event)


def _name(event: SimulationEvent) -> str:
    return f"{event.topic}-{event.partition}"


def _offset(offset: int) -> str:
    base, position = (-1, -1) if offset < 0 else (0, offset * _RECORD_BYTES)
    return f"(offset={offset}, segment=[{base}:{position}])"


def _commas(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _set(ids: Iterable[int]) -> str:
    return f"Set({', '.join(map(str, ids))})"


def _list(ids: Iterable[int]) -> str:
    return f"[{', '.join(map(str, ids))}]"


def _thread(event: SimulationEvent) -> str:
    """The thread that prints it. Handler 0 appends, the others answer fetches: lines of an append belong to no
    fetch."""
    if event.kind == "append":
        return "data-plane-kafka-request-handler-0"
    if event.kind in ("fetch", "isr_proposed", "hw"):
        follower = event.replica if event.replica is not None else (event.isr or (0,))[-1]
        return f"data-plane-kafka-request-handler-{1 + follower % _HANDLERS}"
    if event.kind == "isr" and event.detail == "alter_partition":
        return _channel(event)
    return f"kafka-{event.broker}-metadata-loader-event-handler"


def _channel(event: SimulationEvent) -> str:
    return f"broker-{event.broker}-to-controller-alter-partition-channel-manager"


def _of_partition(event: SimulationEvent, level: str, thread: str, message: str) -> Line:
    return Line(level, thread, _PARTITION, f"[Partition {_name(event)} broker={event.broker}] {message}")


def _of_state(event: SimulationEvent, message: str) -> Line:
    return Line(
        INFO,
        f"kafka-{event.broker}-metadata-loader-event-handler",
        STATE_LOGGER,
        f"[Broker id={event.broker}] {message}",
    )


def _of_fetcher(event: SimulationEvent, level: str, message: str) -> Line:
    prefix = f"[ReplicaFetcher replicaId={event.broker}, leaderId={event.leader}, fetcherId=0]"
    return Line(level, f"ReplicaFetcherThread-0-{event.leader}", _FETCHER, f"{prefix} {message}")


def _of_log(event: SimulationEvent, level: str, message: str) -> Line:
    prefix = f"[UnifiedLog partition={_name(event)}, dir=/var/lib/kafka/data]"
    return Line(level, f"ReplicaFetcherThread-0-{event.leader}", _LOG, f"{prefix} {message}")
