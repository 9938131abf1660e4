"""A second ISR change of a partition is refused while one is outstanding, and tried again at the next check."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from generators.simulator.cluster.settings import MS, SECOND, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent
from generators.simulator.cluster.versions import VERSIONS
from tests.simulated.kafka_logs import KafkaLogs

SLOW = Settings(
    topics=(Topic("orders", 1, 3),), lag_max_ms=2_000, session_timeout_ms=4_000, version=VERSIONS["4.0"],
    alter_us={"shrink": (4 * SECOND, 4 * SECOND)},
)  # fmt: skip


class Changes:
    """The leader's events on its ISR."""

    def __init__(self) -> None:
        self.all: list[SimulationEvent] = []

    def observe(self, h: SimulationEvent) -> None:
        if h.source == REPLICATION and h.broker == 1 and h.kind in ("isr", "isr_proposed", "isr_rejected"):
            self.all.append(h)

    def reported(self) -> list[tuple[str, tuple[int, ...] | None, str | None]]:
        return [(h.kind, h.isr, h.detail) for h in self.all]


def load(simulation: Simulation) -> None:
    simulation.produce("orders", 0, 5, acks=1)
    simulation.event_queue.after(50 * MS, load, simulation)


def overtaken(settings: Settings, *observers: object) -> Simulation:
    """The leader asks to drop 3, which the controller fences before it gets the request; then 2 falls behind too."""
    simulation = Simulation(settings, observers)  # type: ignore[arg-type]
    simulation.start()
    load(simulation)
    simulation.run(2)
    simulation.freeze(3)
    simulation.run(2.2)
    simulation.throttle(2, 0)
    simulation.run(8)
    return simulation


def test_while_the_first_is_outstanding_the_second_is_dropped_and_then_asked_for_again() -> None:
    changes = Changes()
    overtaken(SLOW, changes)
    proposed, fenced, second, refused, *later = changes.reported()
    assert proposed == ("isr_proposed", (1, 2), "shrink")
    assert fenced == ("isr", (1, 2), "metadata")
    assert second == ("isr_proposed", (1,), "shrink")
    assert refused == ("isr_rejected", (1, 2), None)
    again = [k for k, one in enumerate(later) if one == second]
    assert again != []
    assert ("isr_rejected", (1, 2), None) not in later[again[-1] :]


def test_the_refusal_comes_at_once_and_the_next_try_at_the_next_check() -> None:
    changes = Changes()
    overtaken(SLOW, changes)
    tries = [h for h in changes.all if h.kind == "isr_proposed" and h.isr == (1,)]
    refused = [h for h in changes.all if h.kind == "isr_rejected"]
    assert [h.at for h in refused] == [h.at for h in tries[: len(refused)]]
    assert {b.at - a.at for a, b in pairwise(tries)} == {SLOW.lag_max_ms // 2 * MS}


def test_in_the_end_the_isr_is_what_the_second_asked_for() -> None:
    simulation = overtaken(SLOW)
    simulation.run(6)
    assert simulation.registration("orders", 0).isr == (1,)


def test_before_there_was_a_queue_nothing_was_refused() -> None:
    changes = Changes()
    overtaken(replace(SLOW, version=VERSIONS["0.10"]), changes)
    assert [h for h in changes.all if h.kind == "isr_rejected"] == []


@pytest.mark.parametrize("level", [3, 2, 0])
def test_the_line_is_that_of_an_operation_not_attempted(level, tmp_path) -> None:
    logs = KafkaLogs(SLOW, tmp_path, level)
    overtaken(SLOW, logs)
    logs.close()
    lines = (tmp_path / "broker-1/replication.log").read_text().splitlines()
    refused = [line for line in lines if "Failed to alter partition to" in line]
    assert len(refused) >= 1
    assert all("since the controller rejected the request with OPERATION_NOT_ATTEMPTED." in line for line in refused)
