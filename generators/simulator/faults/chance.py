"""Faults by chance: a script drawn from rates and a seed, which can be read, shortened and repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from generators.simulator.cluster.settings import NEVER, SECOND, Settings
from generators.simulator.faults.script import Fault, checked

MINUTE = 60 * SECOND
Draw = Callable[[Random, Settings], Fault | None]


def drawn(settings: Settings, rates: Mapping[str, float], seconds: float, seed: int) -> list[Fault]:
    """Faults of each kind at its rate per minute, in `seconds` from the start; each kind has its own random sequence.

    A kind that does not apply to the cluster (a cut with one broker) draws nothing.
    """
    found: list[Fault] = []
    for do, rate in sorted(rates.items()):
        random = Random(f"{seed}/fault/{do}")
        at = _wait(random, rate)
        while at < seconds * SECOND:
            if fault := DRAWS[do](random, settings):
                found.append(fault._replace(at=at))
            at += _wait(random, rate)
    return checked(found, settings)


def _wait(random: Random, rate: float) -> int:
    """Time until the next one, in whole milliseconds as microseconds; `rate` per minute on average, never more than
    twice as late.

    Evenly drawn: logarithms differ in their last bits between machines, and the same seed has to give the same bytes.
    """
    return _between(random, 0, 2 * MINUTE / rate) if rate > 0 else NEVER


def _between(random: Random, low: float, high: float) -> int:
    return round((low + random.random() * (high - low)) / 1000) * 1000


def _broker(do: str, least: float, most: float) -> Draw:
    """`do` to any broker, for `least` to `most` seconds."""

    def draw(random: Random, settings: Settings) -> Fault:
        broker = random.choice(settings.brokers)
        return Fault(0, do, broker, {"for": _between(random, least * SECOND, most * SECOND)})

    return draw


def _cut(random: Random, settings: Settings) -> Fault | None:
    if len(settings.brokers) < 2:
        return None
    low, high = sorted(random.sample(settings.brokers, 2))
    return Fault(0, "cut", (low, high), {"for": _between(random, SECOND, 20 * SECOND)})


def _throttle(random: Random, settings: Settings) -> Fault:
    options = {"to": random.choice((0, 1, 10, 100)), "for": _between(random, SECOND, 40 * SECOND)}
    return Fault(0, "throttle", random.choice(settings.brokers), options)


def _clock_jump(random: Random, settings: Settings) -> Fault:
    return Fault(0, "clock-jump", random.choice(settings.brokers), {"by": _between(random, -5 * SECOND, 5 * SECOND)})


def _partition(random: Random, settings: Settings) -> tuple[str, int]:
    topic = random.choice(settings.topics)
    return topic.name, random.randrange(topic.partitions)


def _reassign(random: Random, settings: Settings) -> Fault | None:
    if not settings.topics:
        return None
    name, index = _partition(random, settings)
    wanted = next(topic for topic in settings.topics if topic.name == name).replication_factor
    to = tuple(random.sample(settings.brokers, min(wanted, len(settings.brokers))))
    return Fault(0, "reassign", (name, index), {"to": to})


def _elect_preferred(random: Random, settings: Settings) -> Fault:
    return Fault(0, "elect-preferred")


def _unclean_election(random: Random, settings: Settings) -> Fault | None:
    return Fault(0, "unclean-election", _partition(random, settings)) if settings.topics else None


def _configure(random: Random, settings: Settings) -> Fault | None:
    if not settings.topics:
        return None
    setting = random.choice(({"min_isr": 1}, {"min_isr": 2}, {"unclean": True}, {"unclean": False}))
    return Fault(0, "configure", random.choice(settings.topics).name, {"to": setting})


def _refuse(random: Random, settings: Settings) -> Fault:
    return Fault(0, "refuse-isr", random.choice((0.25, 0.5, 1.0)), {"for": _between(random, SECOND, 20 * SECOND)})


def _controller(do: str, least: float, most: float) -> Draw:
    """`do` to the active controller, for `least` to `most` seconds."""

    def draw(random: Random, settings: Settings) -> Fault | None:
        if len(settings.controllers) == 1:
            return None
        return Fault(0, do, None, {"for": _between(random, least * SECOND, most * SECOND)})

    return draw


def _rolling(random: Random, settings: Settings) -> Fault:
    return Fault(0, "rolling-restart")


DRAWS: dict[str, Draw] = {
    "kill": _broker("kill", 0.5, 30),
    "kill-between-lines": _broker("kill-between-lines", 0.5, 30),
    "power-off": _broker("power-off", 0.5, 30),
    "stop": _broker("stop", 0.5, 30),
    "freeze": _broker("freeze", 0.5, 45),
    "lose-disk": _broker("lose-disk", 0.5, 30),
    "lose-log-dir": _broker("lose-log-dir", 0.5, 30),
    "cut": _cut,
    "throttle": _throttle,
    "clock-jump": _clock_jump,
    "reassign": _reassign,
    "elect-preferred": _elect_preferred,
    "unclean-election": _unclean_election,
    "configure": _configure,
    "refuse-isr": _refuse,
    "kill-controller": _controller("kill-controller", 0.5, 20),
    "freeze-controller": _controller("freeze-controller", 0.5, 30),
    "isolate-controller": _controller("isolate-controller", 0.5, 20),
    "rolling-restart": _rolling,
}
