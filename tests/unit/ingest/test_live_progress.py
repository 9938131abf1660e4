"""A source that is followed reports up to when it was read, also while its lines are no events."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from generators.brokerlogs.discovery.sources import discover
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing.heartbeat import Heartbeat
from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.rounds import Round, done, step
from generators.brokerlogs.tailing.tailer import Tailer
from generators.brokerlogs.tailing.told_lines import Told
from tests.unit.brokerlogs.log_lines import T0, leader, line, recorded

ALLOWED = 5_000_000
REFUSED = (
    line(
        "[ReplicaManager broker=1] Error processing append operation on partition id:orders-1",
        "kafka.server.ReplicaManager",
    )
    + "org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the current ISR : 1 is insufficient\n"
)


def refused(ms: int) -> str:
    """What a leader below its min ISR logs for each append: an error line, and one without a time."""
    return REFUSED.replace(str(T0), str(T0 + ms))


class Live:
    """A log that grows while it is followed; `write` adds lines at `second` and returns the new rows as (type, ms)."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "broker-1" / "replication.log"
        self.log.parent.mkdir()
        self.log.write_text(leader() + recorded(2, 5, ms=100))
        [source] = discover([folder]).sources
        self.tailer = Tailer(source, partial(SourceParser, "c", source.source_id, broker_id=1), Told(), follow=True)
        self.now = 0.0
        self.tailer._heartbeat = Heartbeat(lambda: int((T0 / 1000 + self.now) * 1e9), lambda: self.now)
        self.read()

    def write(self, second: float, *lines: str) -> list[tuple[str, int]]:
        self.now = second
        with self.log.open("a") as log:
            log.writelines(lines)
        return self.read()

    def read(self) -> list[tuple[str, int]]:
        current = Round()
        while not current.rows:
            step([self.tailer], current)
            if done([self.tailer]):
                break
        current.add(self.tailer, self.tailer.heartbeat_rows(ALLOWED))
        tables = [rows.rows for incarnations in current.rows.values() for rows in incarnations]
        return [] if not tables else _short(pa.concat_tables(tables))


def _short(rows: pa.Table) -> list[tuple[str, int]]:
    ms = [int(us) // 1000 - T0 for us in times(rows)]
    return list(zip(rows["event_type"].to_pylist(), ms, strict=True))


@pytest.fixture
def live(tmp_path: Path) -> Live:
    return Live(tmp_path)


def test_lines_that_are_no_events_move_the_progress(live: Live) -> None:
    """A leader below its min ISR refuses an append each second: it is never silent, and nothing else happens."""
    seen = [row for second in range(1, 9) for row in live.write(second + 0.003, refused(second * 1000 + 3))]
    assert {kind for kind, _ in seen} == {"progress"}
    stamps = [ms for _, ms in seen]
    assert stamps == sorted(set(stamps)), "each once, in order"
    assert 8003 - stamps[-1] <= 2000


def test_no_progress_is_within_a_second_of_lines_that_still_come(live: Live) -> None:
    for second in range(1, 6):
        for kind, ms in live.write(second, refused(second * 1000)):
            assert (kind, ms <= second * 1000 - 1000 or ms == 100) == ("progress", True)


def test_a_line_without_a_time_moves_nothing(live: Live) -> None:
    assert (
        live.write(0.2, "java.lang.Exception: x\n", "\tat kafka.server.KafkaApis.handle(KafkaApis.scala:180)\n") == []
    )


def test_events_after_such_lines_follow_their_progress(live: Live) -> None:
    for second in range(1, 5):
        live.write(second, refused(second * 1000))
    rows = live.write(5, recorded(2, 9, ms=5000), recorded(3, 9, ms=6100), recorded(2, 12, ms=6200))
    kinds = [kind for kind, _ in rows]
    assert "leo" in kinds or "fetch" in kinds, rows
    assert [ms for _, ms in rows] == sorted(ms for _, ms in rows)


def test_a_source_whose_lines_were_never_events_reports_its_time(tmp_path: Path) -> None:
    live = Live(tmp_path)
    live.log.write_text("")
    [source] = discover([tmp_path]).sources
    live.tailer = Tailer(
        source,
        partial(SourceParser, "c", source.source_id, broker_id=1),
        Told(),
        defaults={"cluster": "c", "source_id": source.source_id, "broker_id": 1, "level": 0},
        follow=True,
    )
    live.tailer._heartbeat = Heartbeat(lambda: int((T0 / 1000 + live.now) * 1e9), lambda: live.now)
    seen = [row for second in range(1, 16) for row in live.write(second, refused(second * 1000))]
    assert {kind for kind, _ in seen} == {"progress"}
    assert 15_000 - seen[-1][1] <= 2000
