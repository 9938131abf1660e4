"""Load: records per second of each topic, over time and over partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field, fields, replace
from itertools import count
from math import cos, floor, pi
from random import Random
from typing import TYPE_CHECKING, Any

from generators.simulator.clients.applications import Applications, Delivered
from generators.simulator.cluster.settings import SECOND
from generators.simulator.faults.spans import length
from pipelines.errors import UsageError, nearest

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

PARTITIONERS = ("key", "round-robin", "sticky")
GRAIN = 10**12
"""Shares are cut to multiples of 1/GRAIN: sines and powers differ in the last bit between machines."""


@dataclass(frozen=True)
class Load:
    """Records per second for one topic, or for every topic (None). Times in microseconds.

    steady: `rate` all the time. bursts: `rate` for `length` out of every `every`, nothing in between. wave: `rate` at
    the maximum of a day of `period`, the share `low` of it at the minimum, where it starts.

    `hot` is Zipf's exponent: the partition of rank k gets a share like 1/k**hot; 0 treats all alike. With `producers`
    there are so many applications per topic, which retry, and whose records a partitioner places: then `hot` is about
    keys.
    """

    shape: str
    rate: float
    topic: str | None = None
    acks: int = 1
    hot: float = 0.0
    every: int = 10 * SECOND
    length: int = 2 * SECOND
    period: int = 24 * 3600 * SECOND
    low: float = 0.1
    tick: int = SECOND // 10
    """Interval at which each partition gets its records."""
    records: int = 1
    """A partition gets them so many at a time."""
    producers: int = 0
    by: str = "sticky"
    """Partitioner of a producer's records: `key` (murmur2), `round-robin` or `sticky`."""
    idempotent: bool = False


def _steady(load: Load, passed: int) -> float:
    return 1.0


def _bursts(load: Load, passed: int) -> float:
    return 1.0 if passed % load.every < load.length else 0.0


def _wave(load: Load, passed: int) -> float:
    height = (1 - cos(2 * pi * (passed % load.period) / load.period)) / 2
    return load.low + (1 - load.low) * height


SHAPES: dict[str, Callable[[Load, int], float]] = {"steady": _steady, "bursts": _bursts, "wave": _wave}


def intensity(load: Load, passed: int) -> float:
    """The share of its rate that a load has `passed` microseconds after the start."""
    return round(SHAPES[load.shape](load, passed) * GRAIN) / GRAIN


def weights(load: Load, partitions: int, random: Random) -> list[float]:
    """The share of each partition; which of them are hot is drawn."""
    ranks = list(range(1, partitions + 1))
    random.shuffle(ranks)
    total = sum(rank**-load.hot for rank in range(1, partitions + 1))
    return [round(rank**-load.hot / total * GRAIN) / GRAIN for rank in ranks]


def parse(text: str) -> Load:
    """`[TOPIC=]SHAPE:RATE[,KEY=VALUE…]`, such as `orders=bursts:5000,every=10s,hot=1.1`. Raises UsageError."""
    try:
        first, *options = text.split(",")
        topic, _, shaped = first.rpartition("=")
        shape, _, rate = shaped.partition(":")
        if shape not in SHAPES:
            raise UsageError(f"there is no load {shape!r}; {nearest(shape, SHAPES)}")
        made = Load(shape, _number("rate", rate), topic or None)
        for option in options:
            made = replace(made, **_option(*option.partition("=")[::2]))
        return _possible(_with_producers(made, {option.partition("=")[0] for option in options}))
    except UsageError as error:
        raise UsageError(f"load {text!r}: {error}") from error


def _option(key: str, value: str) -> dict[str, Any]:
    known = [field.name for field in fields(Load) if field.name not in ("shape", "rate", "topic", "idempotent")]
    known.append("idempotence")
    if key not in known:
        raise UsageError(f"there is no {key!r}; {nearest(key, known)}")
    if key == "acks":
        acks = {"0": 0, "1": 1, "all": -1, "-1": -1}
        if value not in acks:
            raise UsageError(f"acks={value} cannot be; allowed are 0, 1 and all")
        return {key: acks[value]}
    if key == "by":
        if value not in PARTITIONERS:
            raise UsageError(f"by={value} is no partitioner; {nearest(value, PARTITIONERS)}")
        return {key: value}
    if key == "idempotence":
        if value not in ("on", "off"):
            raise UsageError(f"idempotence={value} is neither on nor off")
        return {"idempotent": value == "on"}
    if key in ("producers", "records"):
        if not value.isdecimal() or int(value) < 1:
            raise UsageError(f"{key}={value} cannot be; the nearest allowed is 1")
        return {key: int(value)}
    return {key: _number(key, value) if key in ("hot", "low") else length(value)}


def _with_producers(load: Load, given: Set[str]) -> Load:
    """The load with a producer where an option of producers is given; with acks=all it is idempotent unless switched
    off."""
    if not given & {"producers", "by", "idempotence"}:
        return load
    idempotent = load.idempotent if "idempotence" in given else load.acks == -1
    if idempotent and load.acks != -1:
        raise UsageError("idempotence=on wants acks=all")
    return replace(load, producers=max(1, load.producers), idempotent=idempotent)


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{key} is {text!r}: write a number, such as 1000") from None
    if not 0 <= value < float("inf"):
        raise UsageError(f"{key} is {text}; the nearest allowed is 0")
    return value


def _possible(load: Load) -> Load:
    for key in ("every", "period", "tick"):
        if getattr(load, key) <= 0:
            raise UsageError(f"{key} is 0s; the nearest allowed is 1us")
    if load.low > 1:
        raise UsageError(f"low={load.low} is above 1; the nearest allowed is 1")
    return load


@dataclass
class Answers:
    """Outcome of the requests of a load, in records."""

    sent: int = 0
    acknowledged: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """By Kafka's name of the error."""

    def take(self, count: int, error: str | None) -> None:
        if error is None:
            self.acknowledged += count
        else:
            self.refused[error] = self.refused.get(error, 0) + count


class Driver:
    """Sends loads to a simulation, tick by tick, from now on for `seconds`; same seed, same requests."""

    def __init__(self, simulation: Simulation, loads: Iterable[Load], seconds: float, seed: int) -> None:
        self.answers = Answers()
        self._applications: dict[tuple[Load, str], Applications] = {}
        self._ids = count(1000)
        self._simulation = simulation
        self._random = Random(f"{seed}/load")
        self._start = simulation.event_queue.now
        self._end = self._start + round(seconds * SECOND)
        self._weights: dict[tuple[Load, str], list[float]] = {}
        for load in loads:
            simulation.event_queue.after(load.tick, self._tick, load)

    def _tick(self, load: Load) -> None:
        event_queue = self._simulation.event_queue
        if event_queue.now > self._end:
            return
        due = load.rate * intensity(load, event_queue.now - self._start) * load.tick / SECOND
        there = Counter(topic for topic, _ in self._simulation.controller.partitions)
        for topic, partitions in (there if load.topic is None else {load.topic: there[load.topic]}).items():
            if load.producers:
                self._write(load, topic, partitions, floor(due + self._random.random()))
                continue
            for partition, share in enumerate(self._shares(load, topic, partitions)):
                records = floor(due * share / load.records + self._random.random()) * load.records
                if records:
                    event_queue.after(
                        int(self._random.random() * load.tick), self._send, load, topic, partition, records
                    )
        event_queue.after(load.tick, self._tick, load)

    def _write(self, load: Load, topic: str, partitions: int, records: int) -> None:
        """Let applications send the records of a tick; they start with the first one."""
        key = load, topic
        if partitions and key not in self._applications:
            self._applications[key] = Applications(
                self._simulation, load, topic, partitions, self._random, self._ids
            )  # fmt: skip
        if partitions and records:
            self._applications[key].send(records)

    def delivered(self) -> Iterator[tuple[Load, str, Delivered]]:
        """Outcome of what producers have sent, by load and topic."""
        for (load, topic), applications in self._applications.items():
            yield load, topic, applications.delivered()

    def _shares(self, load: Load, topic: str, partitions: int) -> list[float]:
        key = load, topic
        if key not in self._weights:
            self._weights[key] = weights(load, partitions, self._random)
        return self._weights[key]

    def _send(self, load: Load, topic: str, partition: int, records: int) -> None:
        self.answers.sent += records
        self._simulation.produce(
            topic, partition, records, load.acks, done=lambda answer: self.answers.take(records, answer.error)
        )
