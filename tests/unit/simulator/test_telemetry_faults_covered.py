"""With telemetry that is lost, late, broken or renumbered nothing is silently wrong.

Every fact that differs from the truth is covered by a report: a gap, a late row, a reset, a wrong clock, a row in
quarantine. The facts of the whole telemetry stand for the truth here; that they are is shown in test_against_truth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.replication import Facts, Reconstructor, Rules, replay
from pipelines.settings import Simulate
from tests.simulated.telemetry_damage import (
    arrivals,
    corrupt,
    deliveries,
    duplicate,
    lose,
    restart_sources,
)
from tests.unit.simulator.random_runs import command, run_of, seeds
from tests.unit.simulator.simulated_runs import SimulatedRun, simulated

pytestmark = pytest.mark.long

CONTROLLER = "broker-3000/controller.log"
TABLES = ("partition_hw", "isr_changes", "replica_sync", "hw_regressions")
FEW = 3
"""Rows struck in one run, on average: with more every partition is covered by something."""


def run(seed: int) -> Simulate:
    drawn = run_of(seed)
    steady = [line for line in drawn.fault if "clock-jump" not in line]
    known = {key: getattr(drawn, key) for key in drawn.model_fields_set}
    return Simulate(**known | {"clock_skew_ms": 0, "fault": steady})


@cache
def clean(seed: int) -> tuple[SimulatedRun, Facts]:
    one = simulated(run(seed))
    return one, replay(one.events, one.rules)


def struck(fault: Callable[..., Any]) -> Callable[[pa.Table, int, Rules], Facts]:
    def facts(events: pa.Table, seed: int, rules: Rules) -> Facts:
        return replay(fault(events, FEW / len(events), seed).events, rules)

    return facts


def lost(events: pa.Table, seed: int, rules: Rules) -> Facts:
    """Rows vanish, but for the last one of a source: see the limit below."""
    last = last_rows(events)
    left = lose(events.filter(pa.array(~last)), FEW / len(events), seed).events
    return replay(pa.concat_tables([left, events.filter(pa.array(last))]), rules)


def very_late(events: pa.Table, seed: int, rules: Rules) -> Facts:
    """Some rows come up to a minute late, which is beyond the grace."""
    reconstructor = Reconstructor(rules)
    arrived = arrivals(events, FEW / len(events), seed, most_ms=60_000)
    parts = [reconstructor.update(batch, batch_id=k) for k, batch in enumerate(deliveries(events, arrived))]
    return Facts.concat([*parts, reconstructor.finish(batch_id=len(parts))])


def misdated(events: pa.Table, seed: int, rules: Rules) -> Facts:
    """Some rows are dated up to an hour ahead; of one that is dated back only its own time is wrong."""
    random = Random(f"misdated {seed}")
    ahead = np.zeros(len(events), np.int64)
    for row in random.sample(range(len(events)), FEW):
        ahead[row] = random.randrange(61, 3_600) * 1_000_000
    ts = pc.add(events["ts"].cast(pa.int64()), pa.array(ahead)).cast(events.schema.field("ts").type)
    return replay(events.set_column(events.schema.get_field_index("ts"), events.schema.field("ts"), ts), rules)


FAULTS = {
    "lost": lost, "very late": very_late, "repeated": struck(duplicate), "broken": struck(corrupt),
    "renumbered": struck(restart_sources), "misdated": misdated,
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("fault", FAULTS)
def test_what_differs_is_covered_by_a_report(fault, seed):
    one, expected = clean(seed)
    facts = FAULTS[fault](one.events, seed, one.rules)
    silent = [row for row in differing(facts, expected) if not covered(row, facts, one)]
    assert silent == [], f"{fault}, seed {seed}: {command(run(seed))}"


def test_a_loss_makes_facts_differ_and_is_reported():
    """So that the test above has something to cover."""
    differ, reports = 0, 0
    for seed in range(5):
        one, expected = clean(seed)
        facts = lost(one.events, seed, one.rules)
        differ += len(list(differing(facts, expected)))
        reports += facts.telemetry_gaps.num_rows
    assert differ > 0
    assert reports > 0


def test_a_limit_the_last_rows_of_a_source_can_be_lost_unseen():
    """A hole is seen by the number after it; after the last row of a source there is none."""
    one, expected = clean(1)
    last = last_rows(one.events)
    facts = replay(one.events.filter(pa.array(~last)), one.rules)
    assert facts.telemetry_gaps.num_rows == expected.telemetry_gaps.num_rows == 0


def last_rows(events: pa.Table) -> Any:
    """Which row is the last one of its source."""
    seq, sources = events["source_seq"].to_numpy(), np.array(events["source_id"].to_pylist())
    last = np.zeros(len(events), bool)
    for source in np.unique(sources):
        rows = np.flatnonzero(sources == source)
        last[rows[np.argmax(seq[rows])]] = True
    return last


def differing(facts: Facts, expected: Facts) -> Iterator[dict[str, Any]]:
    """Rows that only one of the two has."""
    for name in TABLES:
        mine, theirs = (Counter(map(str, getattr(f, name).to_pylist())) for f in (facts, expected))
        for one, other in ((facts, theirs), (expected, mine)):
            yield from ({"table": name, **row} for row in getattr(one, name).to_pylist() if str(row) not in other)


def covered(row: dict[str, Any], facts: Facts, one: SimulatedRun) -> bool:
    """A report about the row's partition, or about a source with rows of it, no later than the grace after the row."""
    place, until = (row["topic"], row["partition"]), row["ts"] + timedelta(milliseconds=one.rules.reorder_grace_ms)
    reporting = {source for source, places in sources_of(one).items() if place in places} | {CONTROLLER}

    def covers(report: dict[str, Any]) -> bool:
        whole = report["partition"] == -1 or "reasons" in report
        about = (report["topic"], report["partition"]) == place or (whole and report["source_id"] in reporting)
        return about and ("reasons" in report or report["kind"] == "clock" or report["ts"] <= until)

    return any(map(covers, [*facts.telemetry_gaps.to_pylist(), *facts.quarantine.to_pylist()]))


def sources_of(one: SimulatedRun) -> dict[str, set[tuple[str, int]]]:
    """The partitions of each source."""
    found = defaultdict(set)
    places = one.events.group_by(["source_id", "topic", "partition"]).aggregate([])
    for row in places.to_pylist():
        found[row["source_id"]].add((row["topic"], row["partition"]))
    return found
