"""A tiny random cluster that writes telemetry: one seed is one history of three brokers and two partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.unit.replication.bronze import Source, controller

BROKERS = (1, 2, 3)
ARRIVAL_MS = 2000
"""No row arrives later than this after it happened."""


@dataclass
class Partition:
    """What is true of one partition, as its leader and the controller have it."""

    number: int
    leader: int = 1
    epoch: int = 0
    partition_epoch: int = 0
    isr: list[int] = field(default_factory=lambda: list(BROKERS))
    leo: dict[int, int] = field(default_factory=lambda: dict.fromkeys(BROKERS, 0))
    fetched_upto: dict[int, int] = field(default_factory=lambda: dict.fromkeys(BROKERS, -1))
    hw: int = 0


class Cluster:
    """Runs `steps` random steps; `rows` are those of all its sources, in order of time.

    `losses`: telemetry goes missing; `configs`: min.insync.replicas changes.
    """

    def __init__(self, seed: int, steps: int, losses: bool = False, configs: bool = False) -> None:
        self.random = Random(seed)
        self.ms = 0.0
        self.sources = {b: Source(f"broker-{b}/replication.log") for b in BROKERS}
        self.controller = controller()
        self.partitions = [Partition(0), Partition(1, leader=2)]
        self.fenced: dict[int, int] = {}
        for p in self.partitions:
            self._lead(p)
        actions = {
            self._append: 8,
            self._fetch: 16,
            self._shrink: 2,
            self._expand: 3,
            self._fence: 2,
            self._fail_over: 2,
            self._resume: 1,
            self._misreport: 1,
            self._idle: 1,
            self._configure: int(configs),
            self._lose: int(losses),
        }
        for _ in range(steps):
            self._pass(self.random.choice((1, 7, 60, 400)))
            (action,) = self.random.choices(list(actions), list(actions.values()))
            action(self.random.choice(self.partitions))
        self._pass(1500)

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows = [row for source in (*self.sources.values(), self.controller) for row in source.rows]
        return sorted(rows, key=lambda row: row["ts"])

    def _pass(self, ms: float) -> None:
        """Time passes; every source says so each second."""
        seconds = range(int(self.ms // 1000) + 1, int((self.ms + ms) // 1000) + 1)
        for second in seconds:
            for source in (*self.sources.values(), self.controller):
                source.progress(second * 1000)
        self.ms += ms

    def _source(self, p: Partition, broker: int | None = None) -> Source:
        return self.sources[broker or p.leader].on(partition=p.number)

    def _lead(self, p: Partition, **more: Any) -> None:
        p.fetched_upto = dict.fromkeys(BROKERS, -1) | {p.leader: p.leo[p.leader]}
        columns = {"partition_epoch": p.partition_epoch, **more}
        self._source(p).leader(self.ms, p.epoch, p.leo[p.leader], min(p.hw, p.leo[p.leader]), p.isr, **columns)

    def _advance(self, p: Partition) -> None:
        hw = min(p.fetched_upto[b] for b in p.isr)
        if hw > p.hw and len(p.isr) > 1:
            p.hw = hw
            if self.random.random() < 0.9:
                self._source(p).hw(self.ms + self.random.choice((0, 0, 0, 3)), hw)

    def _append(self, p: Partition) -> None:
        p.leo[p.leader] += self.random.randint(1, 3)
        p.fetched_upto[p.leader] = p.leo[p.leader]
        self._source(p).append(self.ms, p.leo[p.leader])
        self._advance(p)

    def _fetch(self, p: Partition) -> None:
        follower = self.random.choice([b for b in BROKERS if b != p.leader])
        end = p.leo[p.leader]
        p.fetched_upto[follower] = min(p.leo[follower], end)
        self._source(p).fetch(self.ms, follower, p.fetched_upto[follower], self.random.choice((None, end)))
        self._advance(p)
        p.leo[follower] = min(end, p.fetched_upto[follower] + self.random.randint(0, 4))

    def _commit(self, p: Partition, isr: list[int], witness: str) -> None:
        p.isr, p.partition_epoch = sorted(isr), p.partition_epoch + 1
        self.controller.on(partition=p.number).isr(
            self.ms, p.isr, p.partition_epoch, "controller", leader_id=p.leader, leader_epoch=p.epoch
        )
        for detail in {witness, self.random.choice((witness, "metadata"))}:
            self._source(p).isr(self.ms + self.random.randint(0, 5), p.isr, p.partition_epoch, detail)
        self._advance(p)

    def _change(self, p: Partition, isr: list[int], detail: str) -> None:
        self._source(p).proposed(self.ms, sorted(isr), detail)
        self._pass(self.random.randint(1, 30))
        if self.random.random() < 0.2:
            self._source(p).rejected(self.ms)
        else:
            self._commit(p, isr, "alter_partition")

    def _shrink(self, p: Partition) -> None:
        out = self.random.choice(BROKERS)
        if out != p.leader and out in p.isr:
            self._change(p, [b for b in p.isr if b != out], "shrink")

    def _expand(self, p: Partition) -> None:
        absent = [b for b in BROKERS if b not in p.isr and b not in self.fenced]
        if absent:
            self._change(p, [*p.isr, absent[0]], "expand")

    def _fence(self, p: Partition) -> None:
        broker = self.random.choice(BROKERS)
        if broker in self.fenced:
            self.controller.broker_state(self.ms, broker, "unfenced", self.fenced.pop(broker) + 1)
        elif broker != p.leader:
            self.fenced[broker] = int(self.ms)
            detail = self.random.choice(("fenced", "controlled_shutdown"))
            self.controller.broker_state(self.ms, broker, detail, self.fenced[broker])
            if broker in p.isr:
                self._commit(p, [b for b in p.isr if b != broker], "metadata")

    def _fail_over(self, p: Partition) -> None:
        """Another leader, sometimes from outside the ISR; the others cut their logs and follow, or stay away."""
        new = self.random.choice([b for b in BROKERS if b != p.leader])
        unclean = new not in p.isr
        p.epoch, p.partition_epoch, p.leader = p.epoch + 1, p.partition_epoch + 1, new
        p.isr = [new] if unclean else sorted({new, self.random.choice(p.isr)})
        columns = {"isr": p.isr, "replicas": list(BROKERS), "unclean": unclean}
        self.controller.on(partition=p.number).election(
            self.ms, new, p.epoch, partition_epoch=p.partition_epoch, **columns
        )
        self._pass(self.random.choice((5, 300)))
        self._lead(p, unclean=unclean)
        p.hw = min(p.hw, p.leo[new])
        for broker in BROKERS:
            if broker != new and self.random.random() < 0.8:
                self._pass(self.random.choice((1, 200)))
                self._source(p, broker).follower(self.ms, p.epoch, p.leo[broker], min(p.hw, p.leo[broker]), new)
                if p.leo[broker] > p.leo[new]:
                    p.leo[broker] = p.leo[new]
                    self._source(p, broker).truncate(self.ms, p.leo[new])

    def _resume(self, p: Partition) -> None:
        """The leader restarts unnoticed and leads on in the same epoch, with the HW it had stored."""
        p.hw = max(0, p.hw - self.random.randint(0, 2))
        self._lead(p)

    def _configure(self, _: Partition) -> None:
        topic = self.random.choice((None, "clicks"))
        self.controller.config(self.ms, topic, min_isr=self.random.randint(1, 3))

    def _lose(self, p: Partition) -> None:
        if self.random.random() < 0.5:
            self._source(p).skip()
        else:
            self._source(p).lost(self.ms)

    def _misreport(self, p: Partition) -> None:
        self._source(p).hw(self.ms, max(0, p.hw - self.random.randint(0, 2)))

    def _idle(self, _: Partition) -> None:
        self._pass(self.random.choice((2500, 7000)))


def deliver(rows: list[dict[str, Any]], random: Random, batches: int, repeats: int) -> list[list[dict[str, Any]]]:
    """The rows cut into batches: each arrives up to ARRIVAL_MS late, in any order, some again and again.

    The first batch has a row of every source: a source without a row cannot be waited for.
    """
    late = random.choice((0, ARRIVAL_MS))
    arrivals = [(row["ts"] / 1000 + random.uniform(0, late), row) for row in rows]
    first, last = arrivals[0][0], max(at for at, _ in arrivals)
    arrivals += [(random.uniform(at, last), row) for at, row in random.choices(arrivals, k=repeats)]
    cuts = sorted(random.uniform(first, last) for _ in range(batches - 1))
    parts: list[list[dict[str, Any]]] = [[] for _ in range(batches)]
    for at, row in arrivals:
        parts[sum(cut < at for cut in cuts) if row["source_seq"] else 0].append(row)
    for part in parts:
        random.shuffle(part)
    return parts


def deliver_by_source(
    rows: list[dict[str, Any]], random: Random, batches: int, within_ms: int
) -> list[list[dict[str, Any]]]:
    """The rows cut into batches: each source is late by a time of its own, so that some begin when
    others have written for seconds."""
    late = {name: random.uniform(0, within_ms) for name in sorted({row["source_id"] for row in rows})}
    arrivals = [(row["ts"] / 1000 + late[row["source_id"]], row) for row in rows]
    first, last = min(at for at, _ in arrivals), max(at for at, _ in arrivals)
    cuts = sorted(random.uniform(first, last) for _ in range(batches - 1))
    parts: list[list[dict[str, Any]]] = [[] for _ in range(batches)]
    for at, row in arrivals:
        parts[sum(cut < at for cut in cuts)].append(row)
    return parts
