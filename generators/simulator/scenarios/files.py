"""A partition's log on disk: where a record is found, what retention deletes, and what a start reads again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.fixtures import KEY, PARTITION, TOPIC, at, manual, offsets, returns, rounds
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario
from generators.simulator.storage.segments import Recovery, SegmentedLog

BATCH, RECORD_BYTES = 10, 100
SEGMENT_BYTES, INDEX_INTERVAL = 5_000, 1_500
"""Five batches of ten records to a segment, and an index entry at every second one."""


def segment_lookup(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(2))
    _append(cluster, 11)
    rounds(cluster, 2, 2)
    _append(cluster, 2)
    files = _files(cluster)
    _list(narrative, files)
    narrative.annotate("an index entry: the last offset of a batch -> where the batch begins in the file")
    narrative.after(f"Batches of {BATCH} records in {BATCH * RECORD_BYTES} bytes, segment.bytes={SEGMENT_BYTES}, "
                f"index.interval.bytes={INDEX_INTERVAL}")  # fmt: skip
    looked_up = [0, 28, 87, 125]
    found = [files.lookup(offset) for offset in looked_up]
    head = ("offset", "segment", "index entry", "batches read", "position")
    rows = [(at, one.file, _arrow(one.entry), " ".join(map(str, one.scanned)), one.position)
            for at, one in zip(looked_up, found, strict=True)]  # fmt: skip
    narrative.table(head, rows)
    narrative.after("Looked up: the last segment at or below the offset, its last such index entry, then a scan")
    hw, before = cluster.replica(*KEY, 1).hw, len(files.segments)
    removed = files.retain(hw, most_bytes=0)
    cluster.retain(*KEY, files.start)
    rounds(cluster, 1, 2)
    _list(narrative, files)
    step = narrative.after(
        "Retention deletes whole segments, none with an offset at or above the HW; the log start rises"
    )
    return (
        f"offset {looked_up[2]} is in {found[2].file} at position {found[2].position}, {len(found[2].scanned)} batches "
        f"from index entry {_arrow(found[2].entry)}; with HW {hw} retention deletes {len(removed)} of {before} "
        f"segments, after which the log starts at {at(step, 1).log_start}, and at the follower at "
        f"{at(step, 2).log_start}."
    )


class _End(NamedTuple):
    """A way for a broker to end."""

    name: str
    title: str
    cluster: Callable[[Simulation, int], None]
    files: Callable[[SegmentedLog], None]


ENDS = (
    _End("kill -9", "The process is killed; what it wrote is with the operating system",
         Simulation.kill, SegmentedLog.crash),
    _End("a power failure", "The machine loses power; what was not flushed is torn",
         Simulation.power_off, lambda files: files.crash(torn_from=files.recovery_point)),
    _End("a clean shutdown", "The broker is shut down; it flushes all and leaves a file that says so",
         Simulation.stop, SegmentedLog.stop),
)  # fmt: skip


def recovery_point(narrative: Narrative) -> str:
    return "; ".join(_started_after(narrative, end) for end in ENDS) + "."


def _started_after(narrative: Narrative, end: _End) -> str:
    cluster = narrative.cluster(manual(2), end.title)
    _append(cluster, 10)
    cluster.brokers[1].flush()
    _append(cluster, 3)
    rounds(cluster, 2, 2)
    files = _files(cluster)
    files.checkpoint()
    _list(narrative, files)
    narrative.annotate(f"recovery-point-offset-checkpoint: {files.checkpointed}")
    narrative.after("Two segments are full and flushed, the third is being written; the follower has all")
    end.cluster(cluster, 1)
    cluster.settle()
    cluster.expire(1)
    cluster.settle()
    end.files(files)
    recovery = files.open()
    narrative.annotate(_words(recovery))
    returns(cluster, 1)
    _list(narrative, files)
    step = narrative.after(f"It starts again after {end.name}")
    rounds(cluster, 2, 1)
    last = narrative.after("It fetches what it does not have from the new leader")
    read = " ".join(recovery.read) or "nothing"
    begun, fetched = at(step, 1).leo, at(last, 1).leo
    return f"after {end.name} {read} is read again, and the LEO is {begun}, {fetched} when it has fetched"


def _words(recovery: Recovery) -> str:
    if recovery.clean:
        return "nothing is read again"
    cut = "found whole" if recovery.cut_at is None else f"cut at {recovery.cut_at}"
    return f"read again from the recovery point on, index rebuilt: {' '.join(recovery.read)}, {cut}"


def _append(cluster: Simulation, batches: int) -> None:
    for _ in range(batches):
        cluster.produce(TOPIC, PARTITION, BATCH, batch=Batch())


def _files(cluster: Simulation) -> SegmentedLog:
    """The log files of broker 1."""
    return SegmentedLog.of(cluster.replica(*KEY, 1).log, RECORD_BYTES, SEGMENT_BYTES, INDEX_INTERVAL)


def _list(narrative: Narrative, files: SegmentedLog) -> None:
    narrative.table(
        ("segment", "offsets", "bytes", "index"),
        [
            (s.log_file, offsets(s.base, s.end), s.size, ", ".join(map(_arrow, s.index)) or "empty")
            for s in files.segments
        ],
    )


def _arrow(entry: tuple[int, int]) -> str:
    return f"{entry[0]} -> {entry[1]}"


SCENARIOS = (
    Scenario("segment-lookup", 14, "From an offset to a segment to a position; what retention deletes", segment_lookup),
    Scenario("recovery-point", 15, "What a broker reads again when it starts", recovery_point),
)
