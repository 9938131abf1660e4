"""Logs of one folder that are read to their ends have told all up to the end that they have in common."""

from __future__ import annotations

from pathlib import Path

from generators.brokerlogs.ingest import ingest_logs
from pipelines.lake.bronze import read_events

STATE = "state.change.logger"
FOLLOWS = "[Broker id=1] Transitioning 3 partition(s) to local followers."
ROLLED = "[UnifiedLog partition=orders-1, dir=/d] Rolled new log segment at offset 7 in 1 ms."
LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
LEADS = (
    "[Broker id=1] Leader orders-1 with topic id Some(8x30CauwR6S1Ou0qiySY3A) starts at leader epoch 0 from "
    "offset 0 with partition epoch 0, high watermark 0, ISR [1,2,3], adding replicas [] and removing replicas [] "
    "(previous leader epoch -1)"
)
DIRECTORY = "[ReplicaManager broker=1] Stopping serving replicas in dir /d because the log directory has failed"


def stock(second: int, message: str, logger: str) -> str:
    return f"[2026-11-20 10:{second // 60:02}:{second % 60:02},000] INFO {message} ({logger})\n"


def write(folder: Path, until: int) -> None:
    folder.mkdir(exist_ok=True)
    starts = [stock(5, FOLLOWS, STATE), stock(6, LEADS, STATE), stock(8, FOLLOWS, STATE)]
    (folder / "state-change.log").write_text("".join(starts))
    lines = [stock(second, ROLLED, LOG) for second in range(10, until, 5)]
    (folder / "server.log").write_text(stock(4, DIRECTORY, "kafka.server.ReplicaManager") + "".join(lines))


def ends(lake: Path) -> dict[str, tuple[int, list[str]]]:
    """By log the last second that a `progress` row tells of, and what it covers."""
    rows = [row for row in read_events(str(lake)).sort_by("ts").to_pylist() if row["event_type"] == "progress"]
    seconds = [row["ts"].minute * 60 + row["ts"].second for row in rows]
    return {row["source_id"].rpartition("/")[2]: (at, row["covers"]) for at, row in zip(seconds, rows, strict=True)}


def test_a_log_that_ends_before_those_beside_it_has_printed_nothing_since(tmp_path):
    write(tmp_path / "broker-1", 60)
    ingest_logs([tmp_path / "broker-1"], cluster="c", lake=str(tmp_path / "lake"))
    found = ends(tmp_path / "lake")
    assert found["state-change.log"] == (55, ["terms"])
    assert found["server.log"][0] == 55
    assert len(list((tmp_path / "lake/bronze/replication_events/_delta_log").glob("*1.json"))) == 1  # with the rows


def test_what_is_not_offered_any_more_tells_no_further(tmp_path):
    write(tmp_path / "broker-1", 60)
    ingest_logs([tmp_path / "broker-1"], cluster="c", lake=str(tmp_path / "lake"))
    rows = len(read_events(str(tmp_path / "lake")))
    ingest_logs([tmp_path / "broker-1"], cluster="c", lake=str(tmp_path / "lake"))
    assert len(read_events(str(tmp_path / "lake"))) == rows
    write(tmp_path / "broker-1", 120)
    ingest_logs([tmp_path / "broker-1" / "server.log"], cluster="c", lake=str(tmp_path / "lake"))
    found = ends(tmp_path / "lake")
    assert (found["state-change.log"][0], found["server.log"][0]) == (55, 115)


def test_rotated_files_alone_tell_nothing_of_the_time_after_them(tmp_path):
    """What the log printed since stands in a file that was not given, and an election in it would be none."""
    write(tmp_path / "broker-1", 60)
    (tmp_path / "broker-1/state-change.log").rename(tmp_path / "broker-1/state-change.log.2026-11-20-09")
    ingest_logs([tmp_path / "broker-1"], cluster="c", lake=str(tmp_path / "lake"))
    assert ends(tmp_path / "lake")["state-change.log"][0] == 8
