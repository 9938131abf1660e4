"""What a Kafka 4.x broker prints of its partitions, word for word: one function per happening.

Shapes as in kafka.cluster.Partition, state.change.logger, the replica fetcher and the log layer of Kafka 4.1; what a
simulated cluster does not have (positions in segments, directories) is filled in plausibly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from generators.simulator.cluster.happening import Happening
from generators.simulator.telemetry.attempts import Attempt, reports
from generators.simulator.telemetry.leader_view import LeaderView

TRACE, DEBUG, INFO, WARN = "TRACE", "DEBUG", "INFO", "WARN"
_PARTITION = "kafka.cluster.Partition"
STATE_LOGGER = "state.change.logger"
STOCK_LOGGER = "kafka.server.ReplicaManager"
"""One that only the stock files have."""
_FETCHER = "kafka.server.ReplicaFetcherThread"
_LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
_ALTER = "kafka.server.DefaultAlterPartitionManager"
_HANDLERS = 8
_RECORD_BYTES = 100
_RECOVERED = "RECOVERED"


class Line(NamedTuple):
    """One line before its time is put in front; an empty thread stands for that of the line before it."""

    level: str
    thread: str
    logger: str
    message: str


def lines(attempt: Attempt, view: LeaderView | None, tried: bool, frozen: bool) -> Iterator[Line]:
    """All lines of one happening and of the attempt to raise the HW that it made, in the order Kafka prints them.

    `view`: the leader's record after it; `frozen`: under min ISR.
    """
    h = attempt.by
    if h.kind == "isr_proposed" and view is not None:
        yield from _proposed(h, view)
    elif h.kind == "isr":
        yield from _committed(h, view)
    elif h.kind in _PLAIN:
        yield from _PLAIN[h.kind](h)
    if reports(h):
        yield _advanced(h, h)
    if view is not None and tried:
        yield from _tried(attempt, view, frozen)
    if h.kind == "fetch":
        message = f"Recorded replica {h.replica} log end offset (LEO) position {h.leo} and log start offset 0."
        yield _of_partition(h, DEBUG, _thread(h), message)


def follower_hw(h: Happening, before: int, by_cut: bool) -> Iterator[Line]:
    """A follower's HW, `before` it: a fall is a warning of the log layer; a cut brings no answer of a leader."""
    if (h.hw or 0) < before:
        message = f"Non-monotonic update of high watermark from {_offset(before)} to {_offset(h.hw or 0)}"
        yield _of_log(h, WARN, message)
    if not by_cut:
        message = (
            f"Follower received high watermark {h.hw} from the leader and updated replica high watermark to {h.hw} "
            f"for partition {_name(h)}"
        )
        yield _of_fetcher(h, TRACE, message)


def created(h: Happening) -> Line:
    """A broker's process hears of a partition for the first time."""
    return _of_state(h, f"Creating new partition {_name(h)} with topic id {h.topic_id}.")


def _advanced(h: Happening, hw: Happening) -> Line:
    message = f"High watermark updated from {_offset(hw.hw_before or 0)} to {_offset(hw.hw or 0)}"
    return _of_partition(h, DEBUG, _thread(h), message)


def _tried(attempt: Attempt, view: LeaderView, frozen: bool) -> Iterator[Line]:
    h = attempt.by
    thread = _thread(h)
    if attempt.hw is not None:
        yield _advanced(h, attempt.hw)
    elif frozen:
        message = f"Not increasing HWM because partition is under min ISR(ISR={_set(view.isr)}"
        yield _of_partition(h, TRACE, thread, message)
    else:
        leos = [(id, view.followers[id].leo) for id in view.others(h.broker)] + [(h.broker, view.leo)]
        least = min(leo for id, leo in leos if id in view.isr or id == h.broker)
        printed = ", ".join(f"replica {id}: {_offset(leo)}" for id, leo in leos)
        message = (
            f"Skipping update high watermark since new hw {_offset(least)} is not larger than old value. "
            f"All current LEOs are Set({printed})"
        )
        yield _of_partition(h, TRACE, thread, message)


def _leader(h: Happening) -> Iterator[Line]:
    if h.unclean:
        yield _of_state(
            h, f"The topic partition {_name(h)} was marked as RECOVERING. Marking the topic partition as RECOVERED."
        )
    yield _of_state(
        h,
        f"Leader {_name(h)} with topic id Some({h.topic_id}) starts at leader epoch {h.leader_epoch} from offset "
        f"{h.leo} with partition epoch {h.partition_epoch}, high watermark {h.hw}, ISR [{_commas(h.isr or ())}], "
        "adding replicas [] and removing replicas [] . Previous leader None and previous leader epoch was -1.",
    )


def _follower(h: Happening) -> Iterator[Line]:
    yield _of_state(
        h,
        f"Follower {_name(h)} starts at leader epoch {h.leader_epoch} from offset {h.leo} with partition epoch "
        f"{h.partition_epoch} and high watermark {h.hw}. Current leader is {h.leader}. Previous leader "
        f"Some({h.leader}) and previous leader epoch was {h.leader_epoch}.",
    )


def _truncate(h: Happening) -> Iterator[Line]:
    if h.log_start is not None and h.log_start == h.leo:
        yield _of_log(h, INFO, f"Truncate and start at offset {h.leo}")
        return
    end = f"EpochEndOffset(errorCode=0, partition={h.partition}, leaderEpoch={h.leader_epoch}, endOffset={h.leo})"
    state = f"TruncationState(offset={h.leo}, completed=true)"
    yield _of_fetcher(h, INFO, f"Truncating partition {_name(h)} with {state} due to leader epoch and offset {end}")
    yield _of_log(h, INFO, f"Truncating to offset {h.leo}")


def _rejected(h: Happening) -> Iterator[Line]:
    state = f"CommittedPartitionState(isr={_set(h.isr or ())}, leaderRecoveryState={_RECOVERED})"
    message = (
        f"Failed to alter partition to {state} since the controller rejected the request with OPERATION_NOT_ATTEMPTED. "
        f"Partition state has been reset to the latest committed state {state}."
    )
    yield _of_partition(h, INFO, _channel(h), message)


def _proposed(h: Happening, view: LeaderView) -> Iterator[Line]:
    isr = h.isr or ()
    gone, thread = [i for i in view.isr if i not in isr], _thread(h)
    if h.detail == "shrink":
        thread = "kafka-scheduler-1"
        late = " ".join(
            f"(brokerId: {f.id}, endOffset: {f.leo}, lastCaughtUpTimeMs: {f.caught_up})"
            for f in (view.followers[id] for id in gone)
        )
        message = (
            f"Shrinking ISR from {_commas(view.isr)} to {_commas(isr)}. Leader: (highWatermark: {view.hw}, "
            f"endOffset: {view.leo}). Out of sync replicas: {late}."
        )
        yield _of_partition(h, INFO, thread, message)
    new = next((i for i in isr if i not in view.isr), -1)
    pending = (
        f"PendingShrinkIsr(outOfSyncReplicaIds={_set(gone)}" if gone else f"PendingExpandIsr(newInSyncReplicaId={new}"
    )
    members = ", ".join(f"BrokerState(brokerId={i}, brokerEpoch=-1)" for i in isr)
    message = (
        f"Submitting ISR state change {pending}, sentLeaderAndIsr=LeaderAndIsr(leader={h.broker}, leaderEpoch="
        f"{h.leader_epoch}, isrWithBrokerEpoch=[{members}], leaderRecoveryState={_RECOVERED}, partitionEpoch="
        f"{h.partition_epoch}), leaderRecoveryState={_RECOVERED}, lastCommittedState=CommittedPartitionState(isr="
        f"{_set(view.isr)}, leaderRecoveryState={_RECOVERED}))"
    )
    yield _of_partition(h, DEBUG, thread, message)


def _committed(h: Happening, view: LeaderView | None) -> Iterator[Line]:
    isr = h.isr or ()
    if h.detail == "alter_partition":
        told = (
            f"Controller successfully handled AlterPartition request for {h.topic_id}:{h.partition}: PartitionData("
            f"partitionIndex={h.partition}, errorCode=0, leaderId={h.leader}, leaderEpoch={h.leader_epoch}, "
            f"isr={_list(isr)}, leaderRecoveryState=0, partitionEpoch={h.partition_epoch})"
        )
        yield Line(DEBUG, _channel(h), _ALTER, told)
        message = f"ISR updated to {_commas(isr)}  and version updated to {h.partition_epoch}"
        yield _of_partition(h, INFO, _channel(h), message)
        return
    leads = h.leader == h.broker
    state = (
        f"LeaderAndIsrPartitionState(topicName='{h.topic}', partitionIndex={h.partition}, controllerEpoch=-1, "
        f"leader={h.leader}, leaderEpoch={h.leader_epoch}, isr={_list(isr)}, partitionEpoch={h.partition_epoch}, "
        f"replicas={_list(h.replicas or ())}, addingReplicas=[], removingReplicas=[], isNew=false, "
        f"leaderRecoveryState={int(bool(h.unclean))})"
    )
    hw = view.hw if view is not None else 0
    ending = (
        f"already the leader with leader epoch {h.leader_epoch}. Current high watermark {hw}, ISR [{_commas(isr)}], "
        "adding replicas [] and removing replicas []."
        if leads
        else f"already a follower with leader epoch {h.leader_epoch}."
    )
    role = "leader" if leads else "follower"
    yield _of_state(
        h,
        f"Skipped the become-{role} state change for {_name(h)} with topic id Some({h.topic_id}) and partition state "
        f"{state} since it is {ending}",
    )


def _broker_state(h: Happening) -> Iterator[Line]:
    message = (
        f"[ReplicaManager broker={h.broker}] Stopping serving replicas in dir /var/lib/kafka/data with uuid "
        "Some(AAAAAAAAAAAAAAAAAAAAAA) because the log directory has failed."
    )
    yield Line(WARN, "LogDirFailureHandler", STOCK_LOGGER, message)


_PLAIN = {
    "leader": _leader, "follower": _follower, "truncate": _truncate, "isr_rejected": _rejected,
    "broker_state": _broker_state,
}  # fmt: skip


def is_follower_hw(h: Happening) -> bool:
    return h.kind == "hw" and not reports(h)


def _name(h: Happening) -> str:
    return f"{h.topic}-{h.partition}"


def _offset(offset: int) -> str:
    base, position = (-1, -1) if offset < 0 else (0, offset * _RECORD_BYTES)
    return f"(offset={offset}, segment=[{base}:{position}])"


def _commas(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _set(ids: Iterable[int]) -> str:
    return f"Set({', '.join(map(str, ids))})"


def _list(ids: Iterable[int]) -> str:
    return f"[{', '.join(map(str, ids))}]"


def _thread(h: Happening) -> str:
    """Who prints it. Handler 0 appends, the others answer fetches: what an append prints belongs to no fetch."""
    if h.kind == "append":
        return "data-plane-kafka-request-handler-0"
    if h.kind in ("fetch", "isr_proposed", "hw"):
        follower = h.replica if h.replica is not None else (h.isr or (0,))[-1]
        return f"data-plane-kafka-request-handler-{1 + follower % _HANDLERS}"
    if h.kind == "isr" and h.detail == "alter_partition":
        return _channel(h)
    return f"kafka-{h.broker}-metadata-loader-event-handler"


def _channel(h: Happening) -> str:
    return f"broker-{h.broker}-to-controller-alter-partition-channel-manager"


def _of_partition(h: Happening, level: str, thread: str, message: str) -> Line:
    return Line(level, thread, _PARTITION, f"[Partition {_name(h)} broker={h.broker}] {message}")


def _of_state(h: Happening, message: str) -> Line:
    return Line(
        INFO, f"kafka-{h.broker}-metadata-loader-event-handler", STATE_LOGGER, f"[Broker id={h.broker}] {message}"
    )


def _of_fetcher(h: Happening, level: str, message: str) -> Line:
    prefix = f"[ReplicaFetcher replicaId={h.broker}, leaderId={h.leader}, fetcherId=0]"
    return Line(level, f"ReplicaFetcherThread-0-{h.leader}", _FETCHER, f"{prefix} {message}")


def _of_log(h: Happening, level: str, message: str) -> Line:
    prefix = f"[UnifiedLog partition={_name(h)}, dir=/var/lib/kafka/data]"
    return Line(level, f"ReplicaFetcherThread-0-{h.leader}", _LOG, f"{prefix} {message}")
