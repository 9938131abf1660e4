"""Lakes drawn by number and read many at once, each with names of its own for its clusters: what a batch costs it costs
once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.properties.facts import Tables, differences, late_clusters, reconstruct
from tests.properties.lakes import ACTIONS, GRACE_MS, Arrival, Lake, Row, Step

TOGETHER = 25
"""Lakes that are read at once. More save little: then their own rows take most of the time."""


@dataclass(frozen=True)
class Draw:
    """The lake of a seed, and how its rows come."""

    seed: int
    steps: tuple[Step, ...]
    arrival: Arrival

    @classmethod
    def from_seed(cls, seed: int) -> Draw:
        random = Random(seed)
        count = random.randint(2, 40)
        steps = tuple((random.randrange(len(ACTIONS)), random.randrange(10_000)) for _ in range(count))
        late_ms = random.choice((0, 0, 1500, GRACE_MS - 100))
        by_batch = random.randrange(1000), random.randint(1, 5), late_ms
        return cls(seed, steps, Arrival(*by_batch, random.random() < 0.3, random.random() < 0.3))

    def batches(self) -> list[list[Row]]:
        """The rows by batch, under names of clusters that no other draw has."""
        return [[self._renamed(row) for row in batch] for batch in self.arrival.batches_of(Lake(list(self.steps)))]

    def _renamed(self, row: Row) -> Row:
        name = "source_id" if row["cluster"] is None else "cluster"
        return row if row[name] is None else row | {name: f"{row[name]}.{self.seed}"}


@dataclass(frozen=True)
class Reading:
    """Into how many buckets rows are read, and whether each batch begins with a state that was stored."""

    buckets: int
    restart: bool

    @classmethod
    def from_seed(cls, seed: int) -> Reading:
        random = Random(seed)
        return cls(random.choice((1, 1, 3, 8)), random.random() < 0.5)


def compare(draws: Sequence[Draw], reading: Reading) -> dict[str, list[str]]:
    """What these lakes in one batch and as they come differ in; beside a `late` row of a newcomer they may."""
    batches: list[list[Row]] = [[] for _ in range(max(draw.arrival.batches for draw in draws))]
    for draw in draws:
        for batch, rows in zip(batches, draw.batches(), strict=False):
            batch += rows
    found = reconstruct(batches, reading.buckets, reading.restart)
    tolerant = {str(draw.seed) for draw in draws if draw.arrival.late_newcomers}
    late = {cluster for cluster in late_clusters(found) if cluster.rpartition(".")[2] in tolerant}
    return differences(_whole(batches), found, late)


def _whole(batches: list[list[Row]]) -> Tables:
    return reconstruct([[row for batch in batches for row in batch]])


def smallest(draw: Draw, reading: Reading) -> Draw:
    """The draw without the steps that the difference does not need."""
    size = len(draw.steps)
    while size:
        size = min(size, len(draw.steps))
        for first in range(0, len(draw.steps), size):
            fewer = replace(draw, steps=draw.steps[:first] + draw.steps[first + size :])
            if fewer.steps and compare([fewer], reading):
                draw = fewer
                break
        else:
            size //= 2
    return draw


def findings(seeds: Sequence[int]) -> list[str]:
    """What is said of the lakes among these that depend on how they are read; none where all are the same."""
    reading = Reading.from_seed(seeds[0])
    found = compare([Draw.from_seed(seed) for seed in seeds], reading)
    if not found:
        return []
    said = []
    for seed in seeds:
        if compare([Draw.from_seed(seed)], reading):
            draw = smallest(Draw.from_seed(seed), reading)
            said.append(f"lake {seed}, {reading}: {draw.steps}, {draw.arrival}: {compare([draw], reading)}")
    return said or [f"lakes {seeds[0]} to {seeds[-1]} beside each other, none alone, {reading}: {found}"]
