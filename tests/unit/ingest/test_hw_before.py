"""The HW before a change, as its line prints it, reaches the lake."""

import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from tests.unit.brokerlogs.log_lines import advanced, leader, recorded, skipped
from tests.unit.brokerlogs.recorded import content

SCENARIO = traces.path("leader_crash")
_PRINTED = re.compile(
    rb"\[Partition (\S+)-(\d+) broker=(\d+)\] High watermark updated from \(offset=(\d+).*? to \(offset=(\d+)"
)


def printed() -> Counter:
    """(topic, partition, broker, before, after) of each HW line; equal ones only mean that a segment was rolled."""
    found: Counter = Counter()
    for log in SCENARIO.glob("broker-*/replication.log.gz"):
        for topic, *numbers in _PRINTED.findall(content(log)):
            partition, broker, before, after = map(int, numbers)
            found[topic.decode(), partition, broker, before, after] += before != after
    return +found


def reported(events: pa.Table) -> Counter:
    hws = events.filter(pc.and_(pc.equal(events["event_type"], "hw"), pc.is_valid(events["hw_before"])))
    mine = hws.filter(pc.equal(hws["leader_id"], hws["broker_id"]))
    names = ("topic", "partition", "broker_id", "hw_before", "hw")
    return Counter(zip(*(mine[name].to_pylist() for name in names), strict=True))


def test_every_hw_line_keeps_its_old_value() -> None:
    assert reported(read_logs([SCENARIO], "c")) == printed()


@pytest.mark.parametrize("coalesce_ms", [0, 4000])
def test_in_the_lake_too_numbered_coalesced_and_by_a_corrected_clock(tmp_path: Path, coalesce_ms: int) -> None:
    lake = str(tmp_path)
    ingest_logs(
        [SCENARIO], cluster="c", lake=lake, options=ReadOptions(coalesce_ms=coalesce_ms, clock_offsets={"2": 1500})
    )
    events = read_events(lake)
    assert reported(events) == printed()
    assert events["repeats"].null_count < events.num_rows or not coalesce_ms


def test_where_no_thread_is_named_and_where_no_fetch_follows(tmp_path: Path) -> None:
    log = tmp_path / "replication.log"
    log.write_text(
        leader() + advanced(0, 4, ms=20) + recorded(2, 4, ms=21) + advanced(4, 6, ms=900) + skipped({1: 7}, ms=990)
    )
    events = read_logs([log], "c")
    assert [pair[3:] for pair in reported(events)] == [(0, 4), (4, 6)]
    others = events.filter(pc.not_equal(events["event_type"], "hw"))
    assert others["hw_before"].null_count == others.num_rows
