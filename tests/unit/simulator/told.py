"""A run as its telemetry tells it, beside what is true of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import pyarrow as pa
from heard import Heard
from random_runs import begin

from generators.simulator.cluster.simulation_event import Observer
from generators.simulator.telemetry.rows import FULL, Telemetry
from generators.simulator.truth.compare import differences, rules_of
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import plan
from pipelines.replication import Facts, Rules, replay
from pipelines.settings import Simulate


class Told(NamedTuple):
    """Events of a run, the rules to read them by, and the tables of truth."""

    events: pa.Table
    rules: Rules
    truth: dict[str, pa.Table]


def told(run: Simulate, level: int = FULL, others: Iterable[Observer] = ()) -> Told:
    """What a run tells; `others` look on."""
    planned = plan(run)
    telemetry = Telemetry(planned.settings, level, second_file=planned.second_file)
    truth = Truth(planned.settings)
    begin(planned, [telemetry, truth, *others]).run(planned.seconds)
    return Told(telemetry.close(), rules_of(planned.settings), truth.close())


def wrong(run: Simulate) -> list[str]:
    """Everything in which `replay` of the whole telemetry of a run is not the truth, one sentence each."""
    events, rules, truth = told(run)
    facts = replay(events, rules)
    return [*differences(facts, truth), *complaints(facts)]


def amiss(run: Simulate) -> list[str]:
    """As `wrong`, but for one limit: HWs are those of leaders that hear at once what the controller records of brokers.

    See test_a_limit_when_a_leader_learns_of_a_broker_is_not_told. Of the reports only those may disagree that tell an
    HW which came about because its leader had not heard yet.
    """
    heard = Heard()
    events, rules, truth = told(run, others=[heard])
    facts = replay(events, rules)
    return [*differences(facts, truth | {"truth_hw": heard.table()}), *complaints(facts, heard.apart())]


def complaints(facts: Facts, unheard: Collection[tuple[Any, ...]] = ()) -> list[str]:
    """What a reconstruction says is amiss with its telemetry; of a simulator that tells all there is nothing.

    Reports of `unheard`, (topic, partition, leader, epoch, HW), may disagree.
    """
    found = [f"a {row['kind']} of {row['source_id']} is reported" for row in facts.telemetry_gaps.to_pylist()]
    found += [f"a row is in quarantine for {row['reasons']}" for row in facts.quarantine.to_pylist()]
    for row in facts.partition_hw.to_pylist():
        told_of = (row["topic"], row["partition"], row["leader_id"], row["leader_epoch"], row["reported_hw"])
        if row["agreement"] == "disagree" and told_of not in unheard:
            place = f"{row['topic']}-{row['partition']}"
            found.append(f"report {row['reported_hw']} of {place} at {row['ts']} disagrees with {row['hw']}")
    return found
