"""Small clusters under small scripts of faults, with observers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from generators.simulator.cluster.settings import MS, Settings, Topic
from generators.simulator.cluster.simulation import Simulation

TOPICS = (Topic("orders", 2, 3, min_isr=2), Topic("clicks-v2", 1, 2))
SETTINGS = Settings(topics=TOPICS, lag_max_ms=4_000)

Script = Callable[[Simulation], None]


def kill_and_return(s: Simulation) -> None:
    s.kill(1)
    s.run(12)
    s.restart(1)
    s.run(6)


def freeze(s: Simulation) -> None:
    """Broker 3 stands still for longer than the lag, but not until its session is over."""
    s.freeze(3)
    s.run(5.5)
    s.thaw(3)
    s.run(4)


def roll(s: Simulation) -> None:
    for broker in (1, 2, 3):
        s.stop(broker)
        s.run(3)
        s.restart(broker)
        s.run(4)


def elect_outside(s: Simulation) -> None:
    """The follower of clicks-v2 dies, its leader goes on alone and dies too; the follower comes back first."""
    s.configure("clicks-v2", unclean=True)
    s.kill(2)
    s.run(12)
    s.kill(1)
    s.run(12)
    s.restart(2)
    s.run(7)
    s.restart(1)
    s.run(6)


def lose_power(s: Simulation) -> None:
    """A leader loses what it had not flushed and leads on before anyone takes notice."""
    s.power_off(1)
    s.restart(1)
    s.run(14)


SCRIPTS: dict[str, Script] = {f.__name__: f for f in (kill_and_return, freeze, roll, elect_outside, lose_power)}


def play(
    script: Script, observers: Iterable[Any], settings: Settings = SETTINGS, pause_ms: tuple[int, int] = (100, 200)
) -> Simulation:
    """The simulation after five seconds of load, `pause_ms` between requests, and the script; observers follow it."""
    observers = list(observers)
    simulation = Simulation(settings, observers)
    for observer in observers:
        if hasattr(observer, "follow"):
            observer.follow(simulation)
    simulation.start()
    _load(simulation, Random(f"load {settings.seed}"), pause_ms)
    simulation.run(5)
    script(simulation)
    return simulation


def _load(simulation: Simulation, random: Random, pause_ms: tuple[int, int]) -> None:
    for topic in simulation.settings.topics:
        for partition in range(topic.partitions):
            simulation.produce(topic.name, partition, random.randint(1, 5), acks=random.choice((1, -1)))
    simulation.event_queue.after(random.randint(*pause_ms) * MS, _load, simulation, random, pause_ms)
