"""Clocks that the user knows to be wrong: taken from the times of rows, from nothing else."""

import gzip
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.events.clock_offsets import ClockOffsets, clock_offsets_of, unused_patterns
from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from tests.unit.brokerlogs.log_lines import advanced, leader, recorded
from tests.unit.ingest.comparing import numbers_without_holes

pytestmark = pytest.mark.long

HOUR = 3_600_000
SCENARIO = traces.path("unclean_election")


def ahead(folder: Path, broker: int, ms: int) -> Path:
    """The scenario with the clock of one broker so much ahead."""
    for source in sorted(SCENARIO.rglob("*")):
        target = folder / source.relative_to(SCENARIO)
        if source.is_dir():
            target.mkdir(parents=True)
        elif source.name.endswith(".log.gz") and source.parent.name == f"broker-{broker}":
            lines = gzip.decompress(source.read_bytes()).decode().splitlines(keepends=True)
            moved = (str(int(one[:13]) + ms) + one[13:] if one[:13].isdigit() else one for one in lines)
            target.with_suffix("").write_text("".join(moved))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return folder


def happenings(events: pa.Table) -> list[dict]:
    rows = events.filter(pc.not_equal(events["event_type"], "progress")).to_pylist()
    return sorted(rows, key=lambda row: (row["source_id"], row["source_seq"]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ms", [HOUR, -HOUR, 1500])
@pytest.mark.parametrize("key", ["2", "broker-2/*"])
def test_rows_of_a_corrected_broker_are_those_of_a_right_clock(tmp_path: Path, key: str, ms: int) -> None:
    wrong = ahead(tmp_path / "wrong", 2, ms)
    corrected = read_logs([wrong], "c", options=ReadOptions(clock_offsets={key: ms}))
    right = read_logs([SCENARIO], "c")
    without = [{k: v for k, v in row.items() if k not in ("source_seq", "seq")} for row in happenings(corrected)]
    assert without == [{k: v for k, v in row.items() if k not in ("source_seq", "seq")} for row in happenings(right)]
    assert numbers_without_holes(corrected)
    ts = corrected["ts"].cast(pa.int64()).to_pylist()
    assert all(later > earlier - 1_500_000 for earlier, later in pairwise(ts)), "merged by corrected time"


def test_rows_of_the_metadata_log_and_other_brokers_stay(tmp_path: Path) -> None:
    right, moved = (
        read_logs([SCENARIO], "c", options=ReadOptions(clock_offsets=offsets)) for offsets in ({}, {"*": 1000, "3": 5})
    )
    for source, by in [("metadata.dump", 0), ("broker-1/replication.log", 1000)]:
        first = [pc.min(rows.filter(pc.equal(rows["source_id"], source))["ts"]).value for rows in (right, moved)]
        assert first[0] - first[1] == by * 1000


def test_a_broker_that_only_its_lines_name_is_corrected(tmp_path: Path) -> None:
    log = tmp_path / "replication.log"
    log.write_text(leader() + recorded(2, 5, ms=10) + advanced(0, 5, ms=11))
    plain, moved = (read_logs([log], "c", options=ReadOptions(clock_offsets=offsets)) for offsets in ({}, {"1": 7}))
    for right, corrected in zip(happenings(plain), happenings(moved), strict=True):
        assert (right["ts"] - corrected["ts"]).total_seconds() == 0.007


def test_a_reader_that_continues_corrects_by_the_current_offsets(tmp_path: Path) -> None:
    log, lake = tmp_path / "replication.log", str(tmp_path / "lake")
    log.write_text(leader() + recorded(2, 5, ms=10))
    ingest_logs([log], cluster="c", lake=lake, options=ReadOptions(clock_offsets={"1": 4}))
    log.write_text(log.read_text() + recorded(2, 6, ms=2000))
    ingest_logs([log], cluster="c", lake=lake, options=ReadOptions(clock_offsets={"1": 1000}))
    events = read_events(lake)
    leos = events.filter(pc.equal(events["event_type"], "fetch")).sort_by("ts")
    first, second = leos["ts"].to_pylist()
    assert (second - first).total_seconds() == pytest.approx(1.990 - 0.996)


@pytest.mark.parametrize(
    ("source", "clock"),
    [
        ("broker-2/server.log", ClockOffsets(7, {2: 5})),
        ("broker-2/replication.log", ClockOffsets(6, {2: 5})),
        ("broker-3/server.log", ClockOffsets(None, {2: 5})),
    ],
)
def test_the_longest_pattern_goes_before_the_broker(source: str, clock: ClockOffsets) -> None:
    assert clock_offsets_of(source, {"2": 5, "broker-2/*": 6, "broker-2/server*": 7}) == clock


def test_a_pattern_that_fits_no_source_is_reported(tmp_path: Path) -> None:
    assert unused_patterns({"1": 5, "b/*": 6, "c/*": 7}, ["b/x.log"]) == ["c/*"]
    log = tmp_path / "replication.log"
    log.write_text(leader())
    summary = ingest_logs(
        [log], cluster="c", lake=str(tmp_path / "lake"), options=ReadOptions(clock_offsets={"broker-9/*": 1})
    )
    assert "clock_offsets: no source is named like 'broker-9/*'" in str(summary)
