"""Facts against truth in what must never happen, at any level and with rows lost: a false alarm, a loss without a row,
a broker accused of a HW that it really had."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.telemetry.rows import Telemetry
from pipelines.replication import Facts, replay
from tests.simulated.truth_differences import rules_of

Row = dict[str, Any]
LOSSES = ("unclean_loss", "committed_loss", "hw_moved_back")
FALSE_CRITICAL, TOO_MUCH, NOT_WHOLE, NO_ROW, DISAGREE = (
    "false critical", "critical, and more than is lost", "proven, and less than is lost", "a loss without a row",
    "a true report disagrees",
)  # fmt: skip
_SHOWN = (
    "ts", "class", "severity", "proof", "leader_id", "leader_epoch", "leader_epoch_before", "hw_before", "hw_after",
    "start_offset", "lost_from", "lost_to", "replica_id", "revision", "evidence", "kind", "hw", "reported_hw",
    "agreement", "level",
)  # fmt: skip


class Finding(NamedTuple):
    """One thing that must not be: which kind, of which partition, what the facts have and what is true."""

    kind: str
    partition: str
    facts: list[Row]
    truth: list[Row]

    def __str__(self) -> str:
        return f"{self.kind} in {self.partition}\n    facts: {_words(self.facts)}\n    truth: {_words(self.truth)}"


def findings(
    facts: Facts,
    truth: Mapping[str, pa.Table],
    uninformed: Collection[tuple[Any, ...]] | None,
    events: pa.Table | None = None,
) -> list[Finding]:
    """All findings. `uninformed`: reports that came about in ways no telemetry shows (`informed_leaders`), None: do not
    check them; `events`: what was left where rows were lost."""
    verdicts = latest(facts.hw_regressions)
    true = [row for row in truth["truth_regressions"].to_pylist() if row["class"] in LOSSES]
    started = None if events is None else _starts(events)
    gaps = {row["source_id"].split("/")[0] for row in facts.telemetry_gaps.to_pylist() if row["kind"] == "gap"}
    reported = [t for t in true if started is None or f"broker-{t['leader_id']}" not in gaps or _start(t) in started]
    return [*_criticals(verdicts, true), *_losses(verdicts, reported), *_reports(facts, uninformed)]


def _starts(events: pa.Table) -> set[tuple[Any, ...]]:
    """The starts of terms that have rows. Any other is in a gap of its broker's telemetry."""
    return {_start(row) for row in events.filter(pc.equal(events["event_type"], "leader")).to_pylist()}


def _start(row: Row) -> tuple[Any, ...]:
    ts = row["ts"].replace(microsecond=row["ts"].microsecond // 1000 * 1000)
    return row["topic"], row["partition"], row["topic_id"], row["leader_id"], row["leader_epoch"], ts


def latest(regressions: pa.Table) -> list[Row]:
    """Each verdict in its last revision."""
    rows = sorted(regressions.to_pylist(), key=lambda row: row["revision"])
    return list({row["regression_id"]: row for row in rows}.values())


def _criticals(verdicts: list[Row], true: list[Row]) -> Iterator[Finding]:
    for row in verdicts:
        if row["severity"] != "critical":
            continue
        same = [t for t in true if _same_partition(row, t)]
        mine = [t for t in same if t["leader_epoch"] == row["leader_epoch"] and _alike(row, t)]
        if not mine:
            yield Finding(FALSE_CRITICAL, _place(row), [row], same)
        elif row["lost_from"] is not None and not any(_within(row, t) for t in mine):
            yield Finding(TOO_MUCH, _place(row), [row], mine)
        elif row["lost_from"] is not None and row["proof"] == "proven" and not any(_equal(row, t) for t in mine):
            yield Finding(NOT_WHOLE, _place(row), [row], mine)


def _losses(verdicts: list[Row], true: list[Row]) -> Iterator[Finding]:
    for loss in true:
        if loss["class"] == "hw_moved_back":
            continue  # a replica is cut; what is lost by it has a row of its own when somebody leads without it
        rows = [row for row in verdicts if _same_partition(row, loss)]
        named = [row for row in rows if row["leader_epoch"] == loss["leader_epoch"]]
        if not any(row["class"] in (*LOSSES, "loss_not_excluded") for row in named):
            yield Finding(NO_ROW, _place(loss), rows, [loss])


def _reports(facts: Facts, uninformed: Collection[tuple[Any, ...]] | None) -> Iterator[Finding]:
    if uninformed is None:
        return
    for row in facts.partition_hw.to_pylist():
        verdicts = (row["topic"], row["partition"], row["leader_id"], row["leader_epoch"], row["reported_hw"])
        if row["agreement"] == "disagree" and verdicts not in uninformed:
            yield Finding(DISAGREE, _place(row), [row], [])


def _same_partition(row: Row, true: Row) -> bool:
    known = row["topic_id"] is None or row["topic_id"] == true["topic_id"]
    return known and (row["topic"], row["partition"]) == (true["topic"], true["partition"])


def _alike(row: Row, true: Row) -> bool:
    """Both about a replica that was cut, or both about who leads with what."""
    return (row["class"] == "hw_moved_back") == (true["class"] == "hw_moved_back")


def _within(row: Row, true: Row) -> bool:
    low, high = true["lost_from"], true["lost_to"]
    return low is not None and low <= row["lost_from"] and row["lost_to"] <= high


def _equal(row: Row, true: Row) -> bool:
    return (row["lost_from"], row["lost_to"]) == (true["lost_from"], true["lost_to"])


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}, leader epoch {row['leader_epoch']}"


def _words(rows: list[Row]) -> str:
    said = (", ".join(f"{k}={row[k]}" for k in _SHOWN if row.get(k) is not None) for row in rows)
    return "\n           ".join(said) or "nothing"


def shown(found: list[Finding], most: int = 3) -> Iterator[str]:
    """The first few of each kind in each partition, and how many more there are."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        alike.setdefault((one.kind, one.partition), []).append(one)
    for (kind, partition), several in alike.items():
        yield from map(str, several[:most])
        if len(several) > most:
            yield f"{kind} in {partition}: {len(several) - most} more"


@cache
def compiled() -> None:
    """What takes long the first time on a new machine is done without anybody waiting for it."""
    settings = Settings(topics=(Topic("orders"),))
    telemetry = Telemetry(settings)
    simulation = Simulation(settings, [telemetry])
    simulation.start()
    simulation.produce("orders", 0, 5)
    simulation.kill(3)
    simulation.run(12)
    replay(telemetry.close(), rules_of(settings))


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raises TimeoutError if what is done in it does not end."""
    compiled()

    def late(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
