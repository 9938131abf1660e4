"""One broker whose clock is wrong by a constant: an hour, a wrong zone, nobody to set it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from generators.simulator.cluster.settings import Clock
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import plan
from pipelines.errors import UsageError
from pipelines.settings import Simulate

HOUR = 3_600_000_000
Row = dict[str, Any]


def reported(**settings: Any) -> tuple[list[Row], dict[str, Any]]:
    planned = plan(Simulate(partitions=2, load=["steady:50"], **settings))
    telemetry, truth = Telemetry(planned.settings), Truth(planned.settings)
    simulation = Simulation(planned.settings, [telemetry, truth])
    telemetry.follow(simulation)
    truth.follow(simulation)
    simulation.start()
    for _ in range(20):
        simulation.produce("orders", 0, 1)
        simulation.run(0.2)
    return telemetry.close().to_pylist(), truth.close()


def test_all_rows_of_one_broker_are_off_by_its_offset_and_no_others() -> None:
    right, wrong = reported()[0], reported(clock_offsets={"2": "1h"})[0]
    off = {(a["broker_id"], b["ts"] - a["ts"]) for a, b in zip(right, wrong, strict=True)}
    assert off == {(1, timedelta(0)), (2, timedelta(hours=1)), (3, timedelta(0)), (3000, timedelta(0))}


def test_what_is_true_is_the_same_but_for_the_time_that_its_clock_shows() -> None:
    right, wrong = reported()[1], reported(clock_offsets={"2": "-1h"})[1]
    for name in ("truth_hw", "truth_isr", "truth_regressions", "truth_records"):
        columns = [column for column in right[name].column_names if column != "ts"]
        assert right[name].select(columns) == wrong[name].select(columns)


def test_it_comes_beside_skew_and_drift() -> None:
    section: dict[str, Any] = {"clock_skew_ms": 5_000, "clock_drift_ppm": 50.0}
    skewed = plan(Simulate(**section)).settings.clocks
    both = plan(Simulate(**section, clock_offsets={"3": "1h"})).settings.clocks
    assert both == skewed | {3: Clock(skewed[3].skew_us + HOUR, skewed[3].drift_ppm)}


def test_a_controller_may_have_one_too() -> None:
    rows = reported(clock_offsets={"3000": "-70s"})[0]
    times = {who: max(r["ts"] for r in rows if r["broker_id"] == who) for who in (1, 3000)}
    assert timedelta(seconds=69) < times[1] - times[3000] < timedelta(seconds=72)


@pytest.mark.parametrize(("offsets", "says"), [({"4": "1h"}, "there is no broker 4"), ({"2": "1"}, "'1' is no span")])
def test_offsets_that_cannot_be_are_named(offsets, says) -> None:
    with pytest.raises(UsageError, match=says):
        plan(Simulate(clock_offsets=offsets))
