"""A reader that follows: logs that come later, truncation, events that break the contract."""

import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs import ingest
from generators.brokerlogs.ingest import ingest_logs
from generators.brokerlogs.tailing import tailer
from generators.brokerlogs.tailing.summary import IngestSummary
from pipelines.lake.bronze import bronze, read_events
from pipelines.lake.roles import hold
from pipelines.replication import replay
from tests.unit.brokerlogs.log_lines import advanced, leader, line, recorded
from tests.unit.ingest.comparing import numbers_without_holes

pytestmark = pytest.mark.long


class Follower:
    """`ingest logs --follow` in a thread of this process."""

    def __init__(self, path: Path, lake: Path) -> None:
        self.lake, self._stop, self.summary = str(lake), threading.Event(), None
        bronze(self.lake)
        self._thread = threading.Thread(target=self._run, args=(path,))
        self._thread.start()

    def _run(self, path: Path) -> None:
        self.summary = ingest_logs([path], cluster="c", lake=self.lake, follow=True, stop=self._stop)

    def until(self, seen: Callable[[pa.Table], bool]) -> pa.Table:
        """Events of the lake once they are as wished for."""
        end = monotonic() + 120
        while not seen(events := read_events(self.lake)):
            assert self._thread.is_alive()
            assert monotonic() < end, f"not seen among {events.num_rows} events"
            sleep(0.05)
        return events

    def stop(self) -> IngestSummary:
        self._stop.set()
        self._thread.join(60)
        assert self.summary is not None
        return self.summary


@pytest.fixture
def follow(monkeypatch, tmp_path):
    monkeypatch.setattr(ingest, "REDISCOVER_S", 0.1)
    monkeypatch.setattr(tailer, "PATIENCE_S", 0.1)
    running = []

    def start(path: Path) -> Follower:
        running.append(Follower(path, tmp_path / "lake"))
        return running[-1]

    yield start
    for follower in running:
        follower._stop.set()


def broker(folder: Path, number: int, *lines: str) -> Path:
    log = folder / f"broker-{number}" / "replication.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(lines))
    return log


def has(*source_ids: str, hw: int | None = None) -> Callable[[pa.Table], bool]:
    def seen(events: pa.Table) -> bool:
        there = set(events["source_id"].to_pylist()) >= set(source_ids)
        return there and (hw is None or hw in events["hw"].to_pylist())

    return seen


def test_logs_that_come_later_are_taken_up(tmp_path, follow):
    logs = tmp_path / "logs"
    broker(logs, 1, leader(), recorded(2, 5, ms=100))
    follower = follow(logs)
    follower.until(has("broker-1/replication.log"))
    broker(logs, 2, leader(name="clicks-0"), recorded(1, 7, name="clicks-0", ms=200))
    later = logs / "broker-1" / "fetcher.log"
    later.write_text(recorded(3, 9, name="audit-0", ms=300))
    events = follower.until(has("broker-1/replication.log", "broker-2/replication.log", "broker-1/fetcher.log"))
    summary = follower.stop()
    assert [source.source_id for source in summary.sources] == [
        "broker-1/replication.log", "broker-1/fetcher.log", "broker-2/replication.log",
    ]  # fmt: skip
    assert numbers_without_holes(read_events(follower.lake))
    assert set(events["source_epoch"].to_pylist()) == {0}


def test_a_log_that_grows_as_fast_as_it_is_read_is_told_and_keeps_no_other_waiting(tmp_path, follow, monkeypatch):
    """Nothing was committed, and no later log was found, until 64 MB were read or the reader was stopped."""
    logs = tmp_path / "logs"
    log = broker(logs, 1, leader(), recorded(2, 5, ms=100))
    written, pull = iter(range(1_000_000)), tailer.Tailer.pull

    def pull_from_a_growing_log(self):
        with log.open("a") as file:
            file.write(recorded(2, 6 + (number := next(written)), ms=200 + number))
        return pull(self)

    monkeypatch.setattr(tailer.Tailer, "pull", pull_from_a_growing_log)
    follower = follow(logs)
    follower.until(has("broker-1/replication.log"))
    broker(logs, 2, leader(name="clicks-0"))
    follower.until(has("broker-1/replication.log", "broker-2/replication.log"))
    assert numbers_without_holes(read_events(follower.lake))


def test_a_log_that_comes_later_and_is_read_by_another_process_is_left_to_it(tmp_path, follow):
    logs = tmp_path / "logs"
    broker(logs, 1, leader(), recorded(2, 5, ms=100))
    follower = follow(logs)
    follower.until(has("broker-1/replication.log"))
    with hold(follower.lake, "ingest:c/broker-2/replication.log"):
        broker(logs, 2, leader(name="clicks-0"))
        log = broker(logs, 3, leader(name="audit-0"))
        follower.until(has("broker-3/replication.log"))
        assert log.exists()
    follower.until(has("broker-2/replication.log"))
    assert any("left out: ingest:c/broker-2/replication.log" in word for word in follower.stop().problems)


def test_a_log_truncated_in_place_is_a_new_incarnation_and_the_break_is_reported(tmp_path, follow):
    """What was written between the last read and the truncation is gone, and nobody can know how much it was."""
    logs = tmp_path / "logs"
    log = broker(logs, 1, leader(), recorded(2, 5, ms=100), advanced(0, 5, ms=101))
    follower = follow(logs)
    follower.until(has("broker-1/replication.log", hw=5))
    with log.open("r+") as file:
        file.truncate(0)
        file.write(recorded(2, 8, ms=4000) + advanced(5, 8, ms=4001))
    events = follower.until(has("broker-1/replication.log", hw=8))
    summary = follower.stop()
    assert any("restarted as source_epoch 1" in word for word in summary.problems)
    assert numbers_without_holes(events)
    reports = events.filter(pc.equal(events["event_type"], "hw")).sort_by("ts")
    assert list(zip(reports["source_epoch"].to_pylist(), reports["hw"].to_pylist(), strict=True)) == [(0, 5), (1, 8)]
    gaps = replay(read_events(follower.lake)).telemetry_gaps.to_pylist()
    assert {(gap["source_id"], gap["kind"]) for gap in gaps} >= {("broker-1/replication.log", "reset")}


def test_the_file_of_the_hws_stays_the_same_while_both_grow(tmp_path, follow):
    logs = tmp_path / "logs"
    ours = broker(logs, 1, leader(), advanced(0, 4, ms=10))
    shrink = (
        "[Partition orders-1 broker=1] Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: {0}, endOffset: {1}). "
        "Out of sync replicas: (brokerId: 3, endOffset: {0}, lastCaughtUpTimeMs: 1795224366014)."
    )
    stock = ours.with_name("server.log")
    stock.write_text("[2026-11-21 01:27:06,000] INFO [BrokerServer id=1] x (kafka.server.BrokerServer)\n")
    follower = follow(logs)
    follower.until(has("broker-1/replication.log", hw=4))
    for second, hw in ((7, 5), (8, 6)):
        with ours.open("a") as numbered, stock.open("a") as plain:
            ms = (second - 6) * 1000
            numbered.write(line(shrink.format(hw, hw + 2), ms=ms) + advanced(hw - 1, hw, ms=ms + 5))
            plain.write(
                f"[2026-11-21 01:27:0{second},000] INFO {shrink.format(hw, hw + 2)} (kafka.cluster.Partition)\n"
            )
        follower.until(has("broker-1/server.log", "broker-1/replication.log", hw=hw))
    follower.stop()
    events = read_events(follower.lake)
    of_server = events.filter(pc.equal(events["source_id"], "broker-1/server.log"))
    assert set(of_server["event_type"].to_pylist()) <= {"isr_proposed", "progress"}
    assert of_server["event_type"].to_pylist().count("isr_proposed") == 1, "asked for twice, answered never"


def test_events_that_break_the_contract_reach_bronze_are_reported_and_are_set_aside_once(tmp_path):
    log = broker(tmp_path / "logs", 1, leader(), recorded(2, -7, ms=10), recorded(2, 5, ms=20))
    lake = str(tmp_path / "lake")
    summary = ingest_logs([log], cluster="c", lake=lake)
    assert summary.broken == {"leo_below_-1": 1}
    assert "which `run` will move to quarantine: leo_below_-1 1" in str(summary)
    events = read_events(lake)
    assert numbers_without_holes(events)
    assert replay(events).quarantine["reasons"].to_pylist() == [["leo_below_-1: leo = -7"]]
