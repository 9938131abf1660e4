"""A run as its telemetry tells it, beside what is true of it."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from random_runs import begin

from generators.simulator.telemetry.rows import FULL, Telemetry
from generators.simulator.truth.compare import differences, rules_of
from generators.simulator.truth.tables import Truth
from pipelines.replication import Facts, Rules, replay
from pipelines.settings import Simulate
from pipelines.simulate.plan import plan


class Told(NamedTuple):
    """Events of a run, the rules to read them by, and the tables of truth."""

    events: pa.Table
    rules: Rules
    truth: dict[str, pa.Table]


def told(run: Simulate, level: int = FULL) -> Told:
    planned = plan(run)
    telemetry, truth = Telemetry(planned.settings, level), Truth(planned.settings)
    begin(planned, [telemetry, truth]).run(planned.seconds)
    return Told(telemetry.close(), rules_of(planned.settings), truth.close())


def wrong(run: Simulate) -> list[str]:
    """Everything in which `replay` of the whole telemetry of a run is not the truth, one sentence each."""
    events, rules, truth = told(run)
    facts = replay(events, rules)
    return [*differences(facts, truth), *complaints(facts)]


def complaints(facts: Facts) -> list[str]:
    """What a reconstruction says is amiss with its telemetry; of a simulator that tells all there is nothing."""
    found = [f"a {row['kind']} of {row['source_id']} is reported" for row in facts.telemetry_gaps.to_pylist()]
    found += [f"a row is in quarantine for {row['reasons']}" for row in facts.quarantine.to_pylist()]
    for row in facts.partition_hw.to_pylist():
        if row["agreement"] == "disagree":
            place = f"{row['topic']}-{row['partition']}"
            found.append(f"report {row['reported_hw']} of {place} at {row['ts']} disagrees with {row['hw']}")
    return found
