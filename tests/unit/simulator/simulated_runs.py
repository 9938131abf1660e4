"""The telemetry of a run, and its truth."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from generators.simulator.cluster.simulation_event import Observer
from generators.simulator.telemetry.rows import FULL, Telemetry
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import plan
from pipelines.replication import Facts, Rules, replay
from pipelines.settings import Simulate
from tests.simulated.truth_differences import differences, rules_of
from tests.unit.simulator.informed_leaders import InformedLeaders
from tests.unit.simulator.random_runs import begin


class SimulatedRun(NamedTuple):
    """Events of a run, the rules to read them by, and the tables of truth."""

    events: pa.Table
    rules: Rules
    truth: dict[str, pa.Table]


def simulated(run: Simulate, level: int = FULL, others: Iterable[Observer] = ()) -> SimulatedRun:
    """The telemetry and truth of a run; `others` observe it, too."""
    planned = plan(run)
    telemetry = Telemetry(planned.settings, level, second_file=planned.second_file)
    truth = Truth(planned.settings)
    begin(planned, [telemetry, truth, *others]).run(planned.seconds)
    return SimulatedRun(telemetry.close(), rules_of(planned.settings), truth.close())


def wrong(run: Simulate) -> list[str]:
    """Everything in which `replay` of the whole telemetry of a run is not the truth, one sentence each."""
    events, rules, truth = simulated(run)
    facts = replay(events, rules)
    return [*differences(facts, truth), *complaints(facts)]


def wrong_beyond_limit(run: Simulate) -> list[str]:
    """As `wrong`, except for one limit: HWs are compared with those of leaders that know at once what the controller
    registers of brokers.

    See test_a_limit_when_a_leader_learns_of_a_broker_is_not_in_the_telemetry. Only reports of an HW that came about
    because its leader did not know yet may disagree.
    """
    informed = InformedLeaders()
    events, rules, truth = simulated(run, others=[informed])
    facts = replay(events, rules)
    return [*differences(facts, truth | {"truth_hw": informed.table()}), *complaints(facts, informed.apart())]


def complaints(facts: Facts, uninformed: Collection[tuple[Any, ...]] = ()) -> list[str]:
    """What a reconstruction finds wrong with its telemetry; nothing, where a simulator emits everything.

    Reports in `uninformed`, (topic, partition, leader, epoch, HW), may disagree.
    """
    found = [f"a {row['kind']} of {row['source_id']} is reported" for row in facts.telemetry_gaps.to_pylist()]
    found += [f"a row is in quarantine for {row['reasons']}" for row in facts.quarantine.to_pylist()]
    for row in facts.partition_hw.to_pylist():
        report = (row["topic"], row["partition"], row["leader_id"], row["leader_epoch"], row["reported_hw"])
        if row["agreement"] == "disagree" and report not in uninformed:
            place = f"{row['topic']}-{row['partition']}"
            found.append(f"report {row['reported_hw']} of {place} at {row['ts']} disagrees with {row['hw']}")
    return found
