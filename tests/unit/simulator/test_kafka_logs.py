"""The log files of a simulated cluster look like those of a real one and give the same facts as its events."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from generators.brokerlogs.ingest import read_logs
from generators.brokerlogs.parsing.parser import SourceParser
from generators.recordings import traces
from generators.simulator.telemetry.levels import FULL, INFO, LEAN
from generators.simulator.telemetry.rows import Telemetry
from pipelines.replication import replay
from tests.simulated.kafka_logs import KafkaLogs
from tests.simulated.truth_differences import rules_of
from tests.unit.simulator.clusters import SCRIPTS, SETTINGS, play

pytestmark = pytest.mark.long

INVENTED = ("RegisterBrokerRecord", "PartitionRegistration(")
"""Shapes whose lists of addresses, features and directories a simulated broker leaves empty."""
ROLES = ".QuorumController"
"""The logger that prints which controller is active."""
UNSEEN = ("Failed to alter partition", "Truncate and start at offset", "clean shutdown file was found")
"""Shapes that no recorded trace holds; they are read by the ingest's own tests."""


def shape(line: str) -> str:
    """A line without its time, thread, names and numbers."""
    _, _, level, logger, message = line.rstrip("\n").split("|", 4)
    message = re.sub(r"^\d+\|", "", message)
    message = re.sub(r"(?<=topic ID )\S{22}|(?<=topicId=)[\w-]{22}|(?<=Some\()[\w-]{22}", "ID", message)
    message = re.sub(r"(?<=topic id )[\w-]{22}|(?<=request for )[\w-]{22}", "ID", message)
    message = re.sub(r"(orders|clicks-v2|clicks|payments|audit)(-\d+)?", "TOPIC", message)
    message = re.sub(r"\[[-\d, ]*\]", "[..]", re.sub(r"Set\([^()]*\)", "Set(..)", message))
    message = re.sub(r"(replica \d+: \(offset=-?\d+, segment=\[[^\]]*\]\)(, )?)+", "LEOS", message)
    message = re.sub(r"(BrokerState\([^)]*\)(, )?)+", "MEMBERS", message)
    message = re.sub(r"replica -?\d+: \(offset=-?\d+, segment=\[..\]\)(, )?", "LEO", message)
    message = re.sub(r"(LEO)+", "LEO", re.sub(r"\d+(,\d+)*", "N", re.sub(r"-(?=\d)", "", message)))
    return f"{level} {logger} {message}"


@cache
def recorded() -> frozenset[str]:
    """The shapes of all lines of the recorded traces."""
    found = set()
    for name in traces.scenarios():
        for path in traces.path(name).rglob("*.log.gz"):
            with gzip.open(path, "rt") as lines:
                found |= {re.sub(r"\d", "1", line) for line in lines if re.match(r"\d{13}\|", line)}
    return frozenset(map(shape, found))


def printed(folder: Path, script: str, level: int = FULL, **options: Any) -> dict[str, list[str]]:
    """The lines of each file."""
    logs = KafkaLogs(SETTINGS, folder, level, **options)
    play(SCRIPTS[script], [logs])
    logs.close()
    return {str(path.relative_to(folder)): path.read_text().splitlines() for path in sorted(folder.rglob("*.log"))}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_line_has_the_shape_of_one_that_a_real_broker_wrote(script, tmp_path) -> None:
    lines = [line for lines in printed(tmp_path, script, numbered=False).values() for line in lines]
    known = [line for line in lines if not any(words in line for words in (*INVENTED, *UNSEEN))]
    strange = {shape(line): line for line in known if shape(line) not in recorded()}
    assert list(strange.values())[:3] == []
    assert len(known) > 0.9 * len(lines)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_line_is_understood_by_the_ingest(script, tmp_path) -> None:
    for name, lines in printed(tmp_path, script).items():
        parser = SourceParser("c", name)
        parser.feed("".join(f"{line}\n" for line in lines).encode(), last=True)
        ignored = {logger for logger in parser.report.ignored if not logger.endswith(ROLES)}
        assert (name, parser.report.broken, ignored, parser.report.lost) == (name, 0, set(), 0)


def test_a_hw_that_a_fetch_moved_is_printed_ahead_of_that_fetch_by_the_same_thread(tmp_path) -> None:
    lines = [line.split("|") for line in printed(tmp_path, "freeze")["broker-1/replication.log"]]
    moved = [k for k, line in enumerate(lines) if "High watermark updated" in line[-1]]
    by_fetch = [k for k in moved if re.fullmatch(r"data-plane-.*-handler-[1-9]", lines[k][1])]
    after = [(lines[k + 1][1] == lines[k][1], "Recorded replica" in lines[k + 1][-1]) for k in by_fetch]
    assert len(after) > 20
    assert set(after) == {(True, True)}


def test_numbers_run_without_a_hole_and_from_1_again_in_a_new_process(tmp_path) -> None:
    lines = printed(tmp_path, "kill_and_return")["broker-1/replication.log"]
    numbers = [int(line.split("|")[4]) for line in lines]
    again = numbers.index(1, 1)
    assert numbers == [*range(1, again + 1), *range(1, len(numbers) - again + 1)]


def test_a_lean_log_has_no_line_per_fetch_and_an_info_log_nothing_below_info(tmp_path) -> None:
    lean = [line for lines in printed(tmp_path / "lean", "roll", LEAN).values() for line in lines]
    info = [line for lines in printed(tmp_path / "info", "roll", INFO).values() for line in lines]
    assert not any("Recorded replica" in line for line in lean)
    assert any("High watermark updated" in line for line in lean)
    assert {line.split("|")[2] for line in info} <= {"INFO", "WARN"}
    assert sum("starts at leader epoch" in line for line in info) > 6


def test_the_lag_is_in_server_properties_and_min_isr_in_the_controllers_log(tmp_path) -> None:
    controller = printed(tmp_path, "freeze")["broker-3000/controller.log"]
    events = read_logs([tmp_path], "c")
    reported = {(r["topic"], r["min_isr"], r["lag_max_ms"]) for r in events.to_pylist() if r["event_type"] == "config"}
    assert reported == {("orders", 2, None), (None, None, 4_000), (None, None, None)}  # the last one is its role
    assert sum("min.insync.replicas" in line for line in controller) == 1


EXACT = {
    "partition_hw": ("leader_id", "leader_epoch", "kind", "hw", "frozen"),
    "replica_sync": ("leader_id", "leader_epoch", "replica_id", "state", "reason", "leo"),
    "isr_changes": ("partition_epoch", "isr_after", "cause", "under_min_isr"),
    "hw_regressions": ("class", "severity", "hw_before", "hw_after", "lost_from", "lost_to", "proof"),
}
"""What must come out the same. Not compared: agreement and the leader's LEO, since a real log shows no append of a
leader that is alone in its ISR or under min ISR."""


def facts_of(events: Any, until: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Facts up to a moment, in rows that can be compared; of a revised one the last revision.

    Logs do not tell min.insync.replicas where it is the default, as events do: so it is told by the rules.
    """
    facts = replay(events, rules_of(SETTINGS, min_isr=1))
    found: dict[str, list[tuple[Any, ...]]] = {}
    for table, columns in EXACT.items():
        latest: dict[Any, tuple[Any, ...]] = {}
        rows = sorted(getattr(facts, table).to_pylist(), key=lambda r: r.get("revision", 0))
        for k, row in enumerate(row for row in rows if row["ts"] < until):
            key = row.get("regression_id") or (
                (row["topic"], row["partition"], row["partition_epoch"]) if table == "isr_changes" else k
            )
            latest[key] = (row["topic"], row["partition"], str(row["ts"])[:23], *(row[c] for c in columns))
        found[table] = sorted(latest.values(), key=str)
    found["quarantine"], found["gaps"] = [(len(facts.quarantine),)], [(len(facts.telemetry_gaps),)]
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", [FULL, LEAN, INFO])
@pytest.mark.parametrize("script", SCRIPTS)
def test_ingested_logs_give_the_same_facts_as_the_events(script, level, tmp_path) -> None:
    telemetry, logs = Telemetry(SETTINGS, level), KafkaLogs(SETTINGS, tmp_path, level)
    simulation = play(SCRIPTS[script], [telemetry, logs])
    logs.close()
    read = read_logs([tmp_path], SETTINGS.cluster)
    until = datetime.fromtimestamp(
        simulation.event_queue.now / 1_000_000 - 1, UTC
    )  # a log says nothing after its last line
    reported, from_logs = facts_of(telemetry.close(), until), facts_of(read, until)
    assert reported == from_logs
    assert len(reported["isr_changes"]) > 0
