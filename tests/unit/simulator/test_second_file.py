"""What two appenders write into two files is there twice: same time and content, numbers of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from generators.brokerlogs.ingest import read_logs
from generators.simulator.telemetry.rows import Telemetry
from tests.simulated.kafka_logs import KafkaLogs
from tests.unit.simulator.clusters import SCRIPTS, SETTINGS, play
from tests.unit.simulator.test_kafka_logs import recorded, shape

pytestmark = pytest.mark.long

SAME = ("ts", "topic", "partition", "replica_id", "leo", "hw", "isr", "detail")
STATES = (*SAME, "leader_id", "leader_epoch", "partition_epoch", "topic_id")
Row = dict[str, Any]


def rows(script: str, level: int = 3) -> list[Row]:
    telemetry = Telemetry(SETTINGS, level, second_file=True)
    play(SCRIPTS[script], [telemetry])
    found: list[Row] = telemetry.close().to_pylist()
    return found


def of(found: list[Row], file: str, kinds: tuple[str, ...], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    chosen = [r for r in found if r["source_id"] == f"broker-1/{file}.log" and r["event_type"] in kinds]
    return [(r["event_type"], *map(str, (r[c] for c in columns))) for r in chosen]


@pytest.mark.parametrize("level", [3, 2, 0])
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_term_is_a_second_time_in_state_change_log(script, level) -> None:
    found = rows(script, level)
    first, second = (of(found, file, ("leader", "follower"), STATES) for file in ("replication", "state-change"))
    assert first == second != []


@pytest.mark.parametrize("level", [3, 2, 0])
def test_isr_changes_are_a_second_time_in_the_file_of_the_logger_that_printed_them(level) -> None:
    found = rows("freeze", level)
    first = of(found, "replication", ("isr",), SAME)
    second = [of(found, file, ("isr",), SAME) for file in ("server", "state-change")]
    assert sorted(first) == sorted([*second[0], *second[1]]) != []
    assert {row[-1] for row in second[0]} == {"alter_partition"}


def test_a_shrink_is_proposed_in_server_log_and_the_offsets_beside_it_come_from_one_file() -> None:
    """`hwmark ingest logs` reads HWs and LEOs of a broker from one of its files: see scanning/chosen_files.py."""
    reported = [
        kind for kind, *_ in of(rows("freeze"), "server", ("isr_proposed", "append", "replica_leo", "hw"), SAME)
    ]
    assert set(reported) == {"isr_proposed"}


def test_server_log_alone_knows_neither_topic_ids_nor_leader_epochs() -> None:
    reported = [r for r in rows("roll") if "server.log" in r["source_id"] and r["topic"]]
    assert reported != []
    assert {(r["topic_id"], r["leader_epoch"], r["level"]) for r in reported} == {(None, None, 0)}


def test_each_file_is_a_source_with_numbers_and_progress_of_its_own() -> None:
    found = rows("roll")
    for broker in (1, 2, 3):
        for file in ("replication", "state-change", "server"):
            source = [r for r in found if r["source_id"] == f"broker-{broker}/{file}.log"]
            assert [r["source_seq"] for r in source] == list(range(len(source)))
            assert sum(r["event_type"] == "progress" for r in source) > 10


def test_without_it_nothing_changes() -> None:
    telemetry = Telemetry(SETTINGS)
    play(SCRIPTS["roll"], [telemetry])
    reported = telemetry.close().to_pylist()
    first = [r for r in rows("roll") if "state-change" not in r["source_id"] and "server" not in r["source_id"]]
    assert reported == first


def printed(folder: Path, script: str) -> dict[str, list[str]]:
    logs = KafkaLogs(SETTINGS, folder, second_file=True)
    play(SCRIPTS[script], [logs])
    logs.close()
    return {path.name: path.read_text().splitlines() for path in sorted(folder.glob("broker-1/*.log"))}


def test_the_stock_files_have_kafkas_own_pattern_and_the_lines_of_the_other_file(tmp_path) -> None:
    files = printed(tmp_path, "freeze")
    assert list(files) == ["replication.log", "server.log", "state-change.log"]
    first = {line.split("|", 5)[-1] for line in files["replication.log"]}
    for line in [*files["server.log"], *files["state-change.log"]]:
        head, _, message = line.partition("] ")
        assert head.startswith("[2026-01-01 00:00:")
        assert head[20] == ","
        level, _, rest = message.partition(" ")
        text, _, logger = rest.rpartition(" (")
        assert text in first
        assert shape(f"1|t|{level}|{logger[:-1]}|{text}") in recorded()


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_ingest_reads_from_the_stock_files_what_the_events_have(script, tmp_path) -> None:
    """But for cuts: without threads a reader takes the two lines of one cut for two."""
    telemetry, logs = Telemetry(SETTINGS, second_file=True), KafkaLogs(SETTINGS, tmp_path, second_file=True)
    play(SCRIPTS[script], [telemetry, logs])
    logs.close()
    columns = [column for column in SAME if column != "replica_id"]  # a `leader` line says it, a happening need not
    read, reported = (
        {
            (file, *row)
            for file in ("state-change", "server")
            for row in of(table.to_pylist(), file, ("leader", "follower", "isr", "isr_proposed", "truncate"), columns)
        }
        for table in (read_logs([tmp_path], SETTINGS.cluster), telemetry.close())
    )
    assert read == reported
