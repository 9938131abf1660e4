"""Broker logs reach the lake complete and once, whatever pieces they come in; what was wrong is reported."""

import gzip
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import NothingToRead, ReadOptions, ingest_logs, read_logs
from generators.recordings import traces
from pipelines.lake.bronze import bronze, read_events
from pipelines.lake.roles import RoleHeld, hold
from tests.unit.ingest.comparing import in_order, numbers_without_holes, reported

pytestmark = pytest.mark.long

SCENARIO = "unclean_election"


@pytest.fixture(scope="module")
def whole() -> pa.Table:
    return read_logs([traces.path(SCENARIO)], "c")


def test_the_lake_holds_what_was_read_and_a_second_call_adds_nothing(tmp_path: Path, whole: pa.Table) -> None:
    lake = str(tmp_path)
    first = ingest_logs([traces.path(SCENARIO)], cluster="c", lake=lake)
    version = bronze(lake).version()
    again = ingest_logs([traces.path(SCENARIO)], cluster="c", lake=lake)
    assert in_order(read_events(lake)).equals(in_order(whole))
    assert first.events == whole.num_rows
    assert (again.events, again.line_count, bronze(lake).version()) == (0, 0, version)


def test_every_source_is_numbered_without_gaps_and_has_progress_to_its_end(whole: pa.Table) -> None:
    assert numbers_without_holes(whole)
    for source in pc.unique(whole["source_id"]):
        rows = in_order(whole.filter(pc.equal(whole["source_id"], source)))
        last = rows.slice(rows.num_rows - 1).to_pylist()[0]
        assert last["event_type"] == "progress"
        assert last["ts"] == pc.max(rows["ts"]).as_py()
        seconds = pc.unique(pc.floor_temporal(rows["ts"], unit="second"))
        progress = rows.filter(pc.equal(rows["event_type"], "progress"))["ts"]
        assert set(seconds.to_pylist()) <= set(pc.floor_temporal(progress, unit="second").to_pylist())


def test_rows_come_merged_by_time(whole: pa.Table) -> None:
    ahead = 0
    for ts in whole["ts"].cast(pa.int64()).to_pylist():
        assert ts > ahead - 1_500_000
        ahead = max(ahead, ts)


@pytest.mark.parametrize("chunk", [999, 60_000])
@pytest.mark.sampled(3)
def test_events_do_not_depend_on_the_pieces_read(
    tmp_path: Path, whole: pa.Table, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "broker-3"
    folder.mkdir()
    source = traces.path(SCENARIO) / "broker-3" / "replication.log.gz"
    lines = gzip.decompress(source.read_bytes()).splitlines(keepends=True)
    (folder / "replication.log.1").write_bytes(b"".join(lines[:2000]))
    (folder / "replication.log").write_bytes(b"".join(lines[2000:]))
    monkeypatch.setattr("generators.brokerlogs.tailing.session.CHUNK", chunk)
    pieces = read_logs([folder], "c")
    mine = whole.filter(pc.equal(whole["source_id"], "broker-3/replication.log"))
    assert reported(pieces) == [row for row in reported(mine) if row["event_type"] != "config"]


@pytest.mark.parametrize("stages", [2, 5])
def test_a_log_that_grew_is_read_on(tmp_path: Path, whole: pa.Table, stages: int) -> None:
    lake, folder = str(tmp_path / "lake"), tmp_path / "broker-3"
    folder.mkdir()
    source = traces.path(SCENARIO) / "broker-3" / "replication.log.gz"
    content = gzip.decompress(source.read_bytes())
    for stage in range(1, stages + 1):
        (folder / "replication.log").write_bytes(content[: len(content) * stage // stages])
        summary = ingest_logs([folder], cluster="c", lake=lake)
        assert any("torn last line" in word for word in summary.problems) == (stage < stages)
    events = read_events(lake)
    assert numbers_without_holes(events)
    assert pc.unique(events["source_epoch"]).to_pylist() == [0]
    mine = whole.filter(pc.equal(whole["source_id"], "broker-3/replication.log"))
    assert _unordered(events) == _unordered(mine)


def _unordered(events: pa.Table) -> Counter:
    """Rows without their order: where a call ends, a pair of lines that it separates differs."""
    names = ("event_type", "topic", "partition", "replica_id", "leo", "hw")
    rows = zip(*(events[name].to_pylist() for name in names), strict=True)
    return Counter(row for row in rows if row[0] not in ("progress", "config"))


def test_another_source_for_files_that_were_read_is_said(tmp_path: Path) -> None:
    lake, log = str(tmp_path / "lake"), tmp_path / "replication.log"
    source = traces.path(SCENARIO) / "broker-1" / "replication.log.gz"
    log.write_bytes(gzip.decompress(source.read_bytes()))
    ingest_logs([log], cluster="c", lake=lake, options=ReadOptions(source="a"))
    said = "read before as a/replication.log, and as b/replication.log now: lines that were read are told again"
    for name, expected in (("a", False), ("b", True), ("b", False)):
        summary = ingest_logs([log], cluster="c", lake=lake, options=ReadOptions(source=name))
        assert any(said in word for word in summary.problems) == expected


def test_another_log_in_its_place_is_a_new_incarnation(tmp_path: Path) -> None:
    lake, log = str(tmp_path / "lake"), tmp_path / "replication.log"
    for scenario in (SCENARIO, "slow_follower"):
        source = traces.path(scenario) / "broker-1" / "replication.log.gz"
        log.write_bytes(gzip.decompress(source.read_bytes()))
        summary = ingest_logs([log], cluster="c", lake=lake, options=ReadOptions(source="b"))
    assert any("restarted as source_epoch 1" in word for word in summary.problems)
    events = read_events(lake)
    assert sorted(pc.unique(events["source_epoch"]).to_pylist()) == [0, 1]
    assert numbers_without_holes(events)


def test_lost_positions_give_a_new_incarnation_not_a_number_twice(tmp_path: Path) -> None:
    lake, log = tmp_path / "lake", tmp_path / "replication.log"
    source = traces.path(SCENARIO) / "broker-1" / "replication.log.gz"
    log.write_bytes(gzip.decompress(source.read_bytes()))
    ingest_logs([log], cluster="c", lake=str(lake))
    for path in (lake / "_ingest").rglob("*.json"):
        path.unlink()
    ingest_logs([log], cluster="c", lake=str(lake))
    events = read_events(str(lake))
    assert sorted(pc.unique(events["source_epoch"]).to_pylist()) == [0, 1]
    assert numbers_without_holes(events)


def test_settings_are_rows_at_the_start_of_one_source_of_their_broker(whole: pa.Table) -> None:
    config = whole.filter(pc.and_(pc.equal(whole["event_type"], "config"), pc.is_valid(whole["lag_max_ms"])))
    assert set(config["lag_max_ms"].to_pylist()) == {4000}
    assert set(config["source_id"].to_pylist()) == {f"broker-{n}/replication.log" for n in (1, 2, 3)}
    assert max(config["source_seq"].to_pylist()) < 3


def test_a_log_without_line_numbers_is_reported_to_hide_losses(tmp_path: Path) -> None:
    summary = ingest_logs([traces.path(SCENARIO) / "broker-1"], cluster="c", lake=str(tmp_path))
    assert "no line numbers (%sn)" in str(summary)
    assert "losses before the reader cannot be seen" in str(summary)
    assert "lines/s" in summary.lines()[0]


def test_two_readers_of_one_source_are_refused(tmp_path: Path) -> None:
    with hold(str(tmp_path), "ingest:c/broker-1/controller.log"), pytest.raises(RoleHeld, match=r"controller\.log"):
        ingest_logs([traces.path(SCENARIO) / "broker-1"], cluster="c", lake=str(tmp_path))


NOTHING = {
    "no such path": ("gone", None),
    "a folder without logs": ("empty/", None),
    "only a request log": ("kafka-request.log", b"1|t|DEBUG|kafka.request.logger|Completed request:{}\n"),
}


@pytest.mark.parametrize(("name", "content"), NOTHING.values(), ids=NOTHING.keys())
def test_nothing_to_read_is_an_error_of_one_line_naming_the_path(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NothingToRead) as error:
        ingest_logs([path], cluster="c", lake=str(tmp_path / "lake"))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_later_timezone_holds_for_the_lines_to_come_and_is_said(tmp_path: Path) -> None:
    log, lake = tmp_path / "broker-1" / "server.log", str(tmp_path / "lake")
    log.parent.mkdir()
    line = (
        "[2026-11-20 1{}:00:00,000] INFO [Partition orders-1 broker=1] ISR updated to 1,{} (kafka.cluster.Partition)\n"
    )
    for hour, zone in enumerate(("UTC", "UTC", "Europe/Berlin")):
        with log.open("a") as file:
            file.write(line.format(hour, hour + 2).replace(" (", "  and version updated to 7 ("))
        summary = ingest_logs([log.parent], cluster="c", lake=lake, options=ReadOptions(timezone=zone))
        said = [message for message in summary.problems if "its times were read as" in message]
        assert said == (
            ["broker-1/server.log: its times were read as UTC so far, as Europe/Berlin from here on"] * (hour == 2)
        )
    isr = in_order(read_events(lake).filter(pc.equal(read_events(lake)["event_type"], "isr")))
    assert [time.hour for time in isr["ts"].to_pylist()] == [10, 11, 11], "12:00 in Berlin is 11:00"
