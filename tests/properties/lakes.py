"""Small lakes out of a grammar of well-formed and ill-formed rows: logs, watchers, clusters, holes, repeats.

A lake is a list of steps (what, seed). Each step adds rows of its own few random choices, so that taking steps away
leaves the others as they are, and a failing lake can be made small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from pipelines.streaming.source.drain import closing_row
from schemas.event_types import DETAILS, EVENT_TYPES
from tests.unit.replication.bronze import BASE_MS, Source, controller
from tests.unit.replication.watching import Watched

Row = dict[str, Any]
Step = tuple[int, int]
BROKERS = 1, 2, 3
GRACE_MS = 5000


@dataclass
class Partition:
    """What its cluster has of one partition."""

    topic: str
    number: int
    leader: int = 1
    epoch: int = 0
    partition_epoch: int = 0
    isr: list[int] = field(default_factory=lambda: list(BROKERS))
    leo: dict[int, int] = field(default_factory=lambda: dict.fromkeys(BROKERS, 0))
    hw: int = 0


class Cluster:
    """The sources of one cluster, and what is true of it."""

    def __init__(self, name: str, watched: bool, logged: bool) -> None:
        self.name = name
        logs = [Source(f"broker-{b}/replication.log", cluster=name) for b in BROKERS] if logged else []
        self.logs = dict(zip(BROKERS, logs, strict=False))
        self.watcher = {b: Watched(b, cluster=name) for b in BROKERS} if watched else {}
        self.earlier: dict[int, Source] = {}
        """By broker an incarnation of its log that goes on beside the one that followed it."""
        self.controller = controller(cluster=name)
        self.partitions = [Partition("clicks", 0), Partition("clicks", 1, leader=2), Partition("orders", 0, leader=3)]

    @property
    def sources(self) -> list[Source]:
        return [*self.logs.values(), *self.earlier.values(), *self.watcher.values(), self.controller]

    def incarnate(self, broker: int) -> Source:
        """The next incarnation of a broker's log, in place of the last one."""
        epochs = [log.common["source_epoch"] for log in (self.logs[broker], self.earlier.pop(broker, None)) if log]
        self.logs[broker] = Source(f"broker-{broker}/replication.log", max(epochs) + 1, cluster=self.name)
        return self.logs[broker]


class Lake:
    """Takes steps; `rows` are those of all sources in the order in which they were written, `at` when, in ms."""

    def __init__(self, steps: list[Step]) -> None:
        self.ms, self.rows, self.at = 0.0, list[Row](), list[float]()
        self.clusters = [Cluster("c", watched=False, logged=True), Cluster("d", watched=True, logged=False)]
        self.clusters.append(Cluster("e", watched=True, logged=True))
        self._closings = 0
        for what, seed in steps:
            self.random = Random(seed)
            self.cluster = self.random.choices(self.clusters, (4, 2, 2))[0]
            self.p = self.random.choices(self.cluster.partitions, (6, 2, 1))[0]
            ACTIONS[what % len(ACTIONS)](self)
            self._collect()
        self.put_contradictions_together(self.at)

    def put_contradictions_together(self, times: list[float]) -> None:
        """Takes the earliest time for each of several rows with one number, in their source or their series, that are
        not the same: none is final before the others come."""
        same: dict[Any, list[int]] = {}
        for k, row in enumerate(self.rows):
            source = row["cluster"], row["source_id"], row["source_epoch"]
            for key in ((*source, row["source_seq"]), (*source, row["topic"], row["partition"], row["seq"])):
                if row["source_id"] != "hwmark/drain":
                    same.setdefault(key, []).append(k)
        groups = [group for group in same.values() if any(self.rows[k] != self.rows[group[0]] for k in group)]
        before: list[float] = []
        while times != before:  # a row may contradict one by its number in the source, another by that in its series
            before = list(times)
            for group in groups:
                earliest = min(times[k] for k in group)
                for k in group:
                    times[k] = earliest

    def _collect(self) -> None:
        """Takes the rows that sources wrote since, in the order of their times."""
        new = [(row, source) for cluster in self.clusters for source in cluster.sources for row in source.rows]
        for cluster in self.clusters:
            for source in cluster.sources:
                source.rows.clear()
        for row, _ in new:
            self._add(row)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self.at.append(self.ms)

    def _leader_log(self) -> Source | None:
        log = self.cluster.logs.get(self.p.leader)
        return None if log is None else self._on(log)

    def _on(self, source: Source) -> Any:
        return source.on(topic=self.p.topic, topic_id=f"{self.p.topic}-id", partition=self.p.number)

    # What clusters do.

    def wait(self) -> None:
        self.ms += self.random.choice((1, 7, 60, 160, 400, 2500))

    def tick(self) -> None:
        """Time passes, and every source says that it has told all."""
        self.ms += self.random.choice((200, 1000, 1000, 3000))
        for cluster in self.clusters:
            for source in cluster.sources:
                if self.random.random() < 0.95:
                    source.event(self.ms, "progress", True, covers=self.random.choice(VALUES["covers"]))

    def lead(self) -> None:
        p = self.p
        columns = {"partition_epoch": p.partition_epoch, "min_isr": self.random.choice((None, 1, 2))}
        leo = p.leo[p.leader]
        if (log := self._leader_log()) is not None:
            log.leader(self.ms, p.epoch, leo, min(p.hw, leo), p.isr, **columns)
        if p.leader in self.cluster.watcher and self.random.random() < 0.7:
            self._on(self.cluster.watcher[p.leader]).began(self.ms, p.epoch, leo, isr=p.isr)

    def append(self) -> None:
        p = self.p
        p.leo[p.leader] += self.random.randint(1, 4)
        if (log := self._leader_log()) is not None:
            log.append(self.ms, p.leo[p.leader])
        self._advance()

    def fetch(self) -> None:
        p = self.p
        follower = self.random.choice([b for b in BROKERS if b != p.leader])
        p.leo[follower] = min(p.leo[p.leader], p.leo[follower] + self.random.randint(0, 4))
        if (log := self._leader_log()) is not None:
            log.fetch(self.ms, follower, p.leo[follower], self.random.choice((None, p.leo[p.leader])))
        self._advance()

    def _advance(self) -> None:
        p = self.p
        hw = min(p.leo[b] for b in p.isr)
        if hw > p.hw:
            p.hw = hw
            if (log := self._leader_log()) is not None and self.random.random() < 0.9:
                log.hw(self.ms + self.random.choice((0, 0, 3, 90)), hw)

    def sample(self) -> None:
        p = self.p
        for broker, watched in self.cluster.watcher.items():
            self._on(watched)
            if broker == p.leader:
                hw, isr = self.random.choice((p.hw, p.hw, None)), self.random.choice((p.isr, p.isr, None))
                watched.leads(self.ms, p.epoch, p.leo[broker], hw, isr=isr)
            else:
                watched.follows(self.ms + 1, p.leo[broker], p.epoch)
        if self.random.random() < 0.7:
            for watched in self.cluster.watcher.values():
                watched.round(self.ms + 2)

    def change_isr(self) -> None:
        p = self.p
        other = self.random.choice([b for b in BROKERS if b != p.leader])
        detail = "shrink" if other in p.isr else "expand"
        isr = sorted({*p.isr} ^ {other})
        log = self._leader_log()
        if log is not None:
            log.proposed(self.ms, isr, detail)
        self.ms += self.random.choice((1, 20, 300))
        if self.random.random() < 0.2:
            if log is not None:
                log.rejected(self.ms)
            return
        p.isr, p.partition_epoch = isr, p.partition_epoch + 1
        if log is not None and self.random.random() < 0.9:
            log.isr(self.ms + self.random.choice((0, 5, 700)), isr, p.partition_epoch)
        if self.random.random() < 0.5:
            self._on(self.cluster.controller).isr(
                self.ms, isr, p.partition_epoch, "controller", leader_id=p.leader, leader_epoch=p.epoch,
                committed=self.random.choice((None, True, False)),
            )  # fmt: skip
        for watched in self.cluster.watcher.values():
            self._on(watched).seen(self.ms + 5, p.leader, p.epoch, isr=isr, partition_epoch=p.partition_epoch)

    def fail_over(self) -> None:
        p = self.p
        old, p.leader = p.leader, self.random.choice([b for b in BROKERS if b != p.leader])
        unclean = p.leader not in p.isr
        p.epoch, p.partition_epoch = p.epoch + 1, p.partition_epoch + 1
        p.isr = [p.leader] if unclean else sorted({p.leader, self.random.choice(p.isr)})
        columns = {"isr": p.isr, "replicas": list(BROKERS), "unclean": unclean, "partition_epoch": p.partition_epoch}
        if self.random.random() < 0.8:
            self._on(self.cluster.controller).election(self.ms, p.leader, p.epoch, **columns)
        self.ms += self.random.choice((0, 5, 300))
        if self.random.random() < 0.9:
            self.lead()
        p.hw = min(p.hw, p.leo[p.leader])
        for broker in (b for b in BROKERS if b != p.leader and self.random.random() < 0.8):
            cut = p.leo[broker] > p.leo[p.leader]
            p.leo[broker] = min(p.leo[broker], p.leo[p.leader])
            if broker in self.cluster.logs:
                log = self._on(self.cluster.logs[broker])
                hw = min(p.hw, p.leo[broker])
                log.follower(self.ms + broker, p.epoch, p.leo[broker], hw, p.leader)
                if cut:
                    log.truncate(self.ms + broker, p.leo[broker])
        if old in self.cluster.logs and self.random.random() < 0.2:
            self._on(self.cluster.logs[old]).hw(self.ms + 2, p.hw + 1)

    def resume(self) -> None:
        self.p.hw = max(0, self.p.hw - self.random.randint(0, 2))
        self.lead()

    def misreport(self) -> None:
        if (log := self._leader_log()) is not None:
            log.hw(self.ms, max(0, self.p.hw + self.random.randint(-2, 3)))

    def broker_wide(self) -> None:
        source = self.random.choice(self.cluster.sources)
        broker, kind = self.random.choice(BROKERS), self.random.randrange(4)
        if kind == 0:
            epoch = self.random.choice((None, 1, 2))
            source.broker_state(self.ms, broker, self.random.choice(DETAILS["broker_state"]), epoch)
        elif kind == 1:
            topic = self.random.choice((None, "clicks"))
            setting = self.random.choice(("min_isr", "lag_max_ms"))
            source.config(self.ms, topic, **{setting: self.random.choice((1, 2, 3, 2000))})
        elif kind == 2:
            detail = self.random.choice(("kafka=2.8.2", "kafka=4.1.1", "rack=a", "7 lines"))
            source.event(self.ms, "config", True, detail=detail, replica_id=broker)
        else:
            source.lost(self.ms, self.random.choice(("7 lines", "not understood: 7 lines")))

    def lose(self) -> None:
        """A row that was written and never arrives, or the reader's word that lines are missing."""
        source = self._on(self.random.choice(self.cluster.sources))
        if self.random.random() < 0.5:
            source.skip(self.random.randint(1, 2))
        else:
            source.event(self.ms, "lost", self.random.random() < 0.3, detail="7 lines", replica_id=source.broker)

    # What is wrong with rows.

    def anything(self) -> None:
        """A row of any type and small values, from any source: it may break a row rule, or only make no sense."""
        random, source = self.random, self._on(self.random.choice(self.cluster.sources))
        columns = {name: random.choice(VALUES[name]) for name in VALUES if random.random() < 0.5}
        columns["event_type"] = random.choice((*EVENT_TYPES, "rumour", ""))
        wide = random.random() < 0.2
        if not wide and columns.get("broker_id", -1) >= 0:  # every bucket reads broker-wide rows alone
            del columns["broker_id"]
        ts = self.ms + random.choice((0, 0, 0, 1, -3000))
        source.event(max(0, ts), columns.pop("event_type"), wide, **columns)

    def spoil(self) -> None:
        """The last row of a source with one value that it may not have."""
        if not (rows := [row for row in self.rows[-6:] if row["source_id"] != "hwmark/drain"]):
            return
        row, (name, values) = self.random.choice(rows), self.random.choice(list(SPOILED.items()))
        row[name] = self.random.choice(values)

    def repeat(self) -> None:
        """A row once more, now or while it may still be undecided."""
        if self.rows:
            self._add(dict(self.random.choice(self.rows[-12:])))

    def contradict(self) -> None:
        """A row with the number of another one, which comes together with it and says something else."""
        if self.rows:
            at = self.random.randrange(max(0, len(self.rows) - 12), len(self.rows))
            row = dict(self.rows[at])
            name = self.random.choice(("ts", "leo", "hw", "leader_leo", "isr", "partition", "detail", "event_type"))
            row[name] = self.random.choice(VALUES.get(name, (row["ts"], row["ts"] + 1000 if row["ts"] else 0)))
            if name == "partition" and row[name] >= 0 and not self._has_told(row):
                return
            self.rows.append(row)
            self.at.append(self.at[at])

    def _has_told(self, row: Row) -> bool:
        """Whether its source has told the number of a row in its series: one of the future would make a gap in time."""
        series = *IDENTITY, "topic", "partition"
        same = (one for one in self.rows if all(one[name] == row[name] for name in series))
        return any(one["seq"] is not None and row["seq"] is not None and one["seq"] >= row["seq"] for one in same)

    def restart_source(self) -> None:
        """A writer that lost its position comes back as another incarnation."""
        if self.cluster.logs:
            self.cluster.incarnate(self.random.choice(BROKERS))

    def begin_copy(self) -> None:
        """A second writer tells the last rows of a log once more, as a later incarnation; the first goes on."""
        if self.cluster.logs:
            broker = self.random.choice(BROKERS)
            old = self.cluster.logs[broker]
            new = self.cluster.incarnate(broker)
            self.cluster.earlier[broker] = old
            told = [row for row in self.rows[-20:] if all(row[name] == old.common[name] for name in IDENTITY)]
            for row in told[-self.random.randint(1, 5) :] if self.random.random() < 0.7 else ():
                new.rows.append(row | new.number(row) | new.common)

    def swap_writers(self) -> None:
        """The other one of two writers of one log tells what comes next."""
        logs, earlier = self.cluster.logs, self.cluster.earlier
        for broker in [broker for broker in earlier if self.random.random() < 0.7]:
            logs[broker], earlier[broker] = earlier[broker], logs[broker]

    def silence(self) -> None:
        """Nobody tells anything for a while; a writer beside another of its log has ended then."""
        self.ms += self.random.choice((20_000, 70_000, 400_000))
        for cluster in self.clusters:
            cluster.earlier.clear()

    def close(self) -> None:
        """`hwmark run --drain`: a closing row of each cluster, of which some are of an earlier version."""
        clusters = {row["cluster"] for row in self.rows if isinstance(row["cluster"], str)}
        for name in sorted(clusters):
            rows = [row for row in self.rows if row["cluster"] == name and _numbered(row)]
            last: dict[str, tuple[int, int]] = {}
            for row in rows:
                number = row["source_epoch"], row["source_seq"]
                last[row["source_id"]] = max(last.get(row["source_id"], number), number)
            if last:
                ts = max(row["ts"] for row in rows)
                self._add(dict.fromkeys(rows[0]) | closing_row(name, ts, self._closings, last))
        self._closings += 1


def _numbered(row: Row) -> bool:
    """Whether a row is one that a closing row may name."""
    whole = all(row[name] is not None for name in ("source_id", "source_epoch", "source_seq", "seq", "ts", "partition"))
    usable = whole and row["source_id"] != "hwmark/drain" and row["source_seq"] >= 0 and row["source_epoch"] >= 0
    return usable and row["partition"] >= -1 and _is_timed(row)


def _is_timed(row: Row) -> bool:
    return row["ts"] is not None and abs(row["ts"] / 1000 - BASE_MS) < 10_000_000


IDENTITY = "cluster", "source_id", "source_epoch"
OFFSETS, IDS, SETS = (-1, 0, 3, 5, 8), (-1, 0, 1, 2, 3, 7), (None, [], [1], [1, 2], [2, 3, 1], [3, 7])
VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("leo", "leader_leo", "hw", "log_start", "hw_before"), OFFSETS),
    **dict.fromkeys(("leader_id", "replica_id"), IDS),
    **dict.fromkeys(("leader_epoch", "partition_epoch", "broker_epoch", "controller_epoch"), (-1, 0, 1, 2)),
    **dict.fromkeys(("isr", "replicas"), SETS),
    "min_isr": (1, 2),
    "lag_max_ms": (1, 4000),
    "unclean": (True, False),
    "committed": (True, False),
    "broker_id": (-1, 1, 2, 3),
    "level": (0, 1, 2, 3),
    "partition": (-1, 0, 1),
    "topic_id": (None, "clicks-id", "second-id"),
    "repeats": (1, 3),
    "ts_error_ms": (0.0, 1000.0),
    "detail": (None, "shrink", "expand", "metadata", "controller", "alter_partition", "started", "log_epoch=1",
               "7 lines", "not understood: 7 lines", "first round", "kafka=4.1.1", "rack=b", "closed"),
    "covers": (None, None, [], ["terms"], ["terms", "isr"], ["hw", "terms"]),
    "event_type": EVENT_TYPES,
}  # fmt: skip
SPOILED: dict[str, tuple[Any, ...]] = {
    "cluster": (None,),
    "source_id": (None, "", "hwmark/drain", "watch/", "hwmark/skipped"),
    "source_epoch": (None, -1),
    "source_seq": (None, -1),
    "seq": (None, -1),
    "ts": (None, 0, 10_413_792_000_000_000, -1_000_000),
    "broker_id": (None, -2),
    "event_type": (None, "rumour"),
    "topic": (None, "", "a b", "." * 300),
    "partition": (None, -2, 9),
    "level": (None, 4, -1),
    "isr": ([None], [-1], list(range(40))),
    "leo": (-5, 1 << 62),
    "hw": (-5, 1 << 62),
}
_OFTEN = [
    *[Lake.append] * 6, *[Lake.fetch] * 10, *[Lake.tick] * 8, *[Lake.wait] * 4, *[Lake.change_isr] * 5,
    *[Lake.fail_over] * 4, *[Lake.lead] * 4, *[Lake.sample] * 6, *[Lake.broker_wide] * 3, *[Lake.misreport] * 2,
    Lake.resume, *[Lake.lose] * 2,
]  # fmt: skip
WRONG = [*[Lake.anything] * 4, *[Lake.spoil] * 3, *[Lake.repeat] * 2, *[Lake.contradict] * 2, Lake.restart_source]
WRONG += [Lake.begin_copy, *[Lake.swap_writers] * 2]
ACTIONS = [*_OFTEN, *WRONG, Lake.close, Lake.silence]


def is_behind(row: Row, closing: Row) -> bool:
    """Whether a row is none of those that a closing row closes, nor goes to quarantine for what names it."""
    if row["cluster"] != closing["cluster"] or None in (row["source_id"], row["source_epoch"], row["source_seq"]):
        return False
    if row["source_id"] == closing["source_id"]:  # its commits follow each other
        return row["source_seq"] > closing["source_seq"]
    last = {entry["source_id"]: (entry["source_epoch"], entry["source_seq"]) for entry in closing["closes"]}
    return (row["source_epoch"], row["source_seq"]) > last.get(row["source_id"], (-1, -1))


def _newcomers(rows: list[Row]) -> list[int]:
    """The first row of each source, by its number, and those of times before it."""
    of_source: dict[Any, list[int]] = {}
    for k, row in enumerate(rows):
        if _numbered(row):
            of_source.setdefault(tuple(row[name] for name in IDENTITY), []).append(k)
    found = []
    for own in of_source.values():
        first = min(own, key=lambda at: (rows[at]["source_seq"], at))
        found += [first, *(k for k in own if rows[k]["ts"] < rows[first]["ts"])]
    return found


def _not_before(rows: list[Row], k: int) -> list[int]:
    """The rows of its cluster with times not before that of this one; none of which the clock is wrong."""
    cluster, ts = rows[k]["cluster"], rows[k]["ts"]
    return [at for at, row in enumerate(rows) if row["cluster"] == cluster and _is_timed(row) and row["ts"] >= ts]


def _earlier_than_its_own(rows: list[Row]) -> list[tuple[int, list[int]]]:
    """The broker-wide rows with times before what their own sources had told already, and the rows that told it."""
    told: dict[Any, list[int]] = {}
    found = []
    for k, row in enumerate(rows):
        if _is_timed(row):
            of_source = told.setdefault(tuple(row[name] for name in IDENTITY), [])
            later = [at for at in of_source if rows[at]["ts"] > row["ts"]]
            found += [(k, later)] if later and row["partition"] == -1 else []
            of_source.append(k)
    return found


@dataclass(frozen=True)
class Arrival:
    """How rows come: in so many batches, up to so late, each source or each row by itself, again after a restart."""

    seed: int
    batches: int
    late_ms: int
    by_row: bool = False
    late_newcomers: bool = False

    def batches_of(self, lake: Lake) -> list[list[Row]]:
        """The rows of each batch; none is later than the grace. Nor is the first of a source later than others of its
        cluster, unless there are `late_newcomers`: nobody waits for a source that is not known, and what it tells may
        be `late`. Of one source they come in their order, unless `by_row`; a row of a time that its source had told to
        be past comes with those that told it, else it would be late.
        """
        random = Random(self.seed)
        late: dict[Any, float] = {}
        keys = [
            (at, row["source_id"]) if self.by_row else row["source_id"]
            for row, at in zip(lake.rows, lake.at, strict=True)
        ]
        most: dict[Any, float] = {}
        latest_ms = GRACE_MS - (1000 if self.by_row else 100)  # rows have times up to 700 ms ahead
        for row, at, key in zip(lake.rows, lake.at, keys, strict=True):  # a row of before comes late already
            behind = 0 if row["ts"] is None else at - (row["ts"] / 1000 - BASE_MS)
            most[key] = min(most.get(key, self.late_ms), latest_ms - behind)
        arrivals = [
            at + late.setdefault(key, random.uniform(0, max(0, most[key])))
            for at, key in zip(lake.at, keys, strict=True)
        ]
        for k in [] if self.late_newcomers else _newcomers(lake.rows):
            arrivals[k] = min(arrivals[at] for at in _not_before(lake.rows, k))
        for k, earlier in _earlier_than_its_own(lake.rows):
            arrivals[k] = min([arrivals[k], *(arrivals[at] for at in earlier)])
        lake.put_contradictions_together(arrivals)
        for k, row in enumerate(lake.rows):
            if row.get("closes") is not None:  # whoever reads bronze reads it ahead of all that is behind it
                behind = (at for at, other in zip(arrivals, lake.rows, strict=True) if is_behind(other, row))
                arrivals[k] = min([arrivals[k], *behind])
                # What a drain closes is in bronze then: a smaller number that comes later was missing as it was closed.
                for j, other in enumerate(lake.rows):
                    if other["cluster"] == row["cluster"] and not is_behind(other, row):
                        arrivals[j] = min(arrivals[j], arrivals[k])
        first, last = min(arrivals, default=0), max(arrivals, default=0)
        cuts = sorted(random.uniform(first, last) for _ in range(self.batches - 1))
        parts: list[list[Row]] = [[] for _ in range(self.batches)]
        for row, at in zip(lake.rows, arrivals, strict=True):
            parts[sum(cut < at for cut in cuts)].append(row)
        for part in parts:
            random.shuffle(part)
        return parts
