"""One partition over a period: its offsets, its ISR, who led, and what was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, View, select_rows
from pipelines.timeline.isr import Stretch, stretches
from pipelines.timeline.offsets import HW, Point, offsets
from schemas import hw_regressions, partition_hw, replication_events
from schemas.levels import POLLED


@dataclass(frozen=True)
class LostRange:
    """Offsets `first` to `last` that are gone since `ts`; `sure`: and not only perhaps."""

    ts: datetime
    first: int
    last: int
    sure: bool = True


@dataclass(frozen=True)
class Term:
    """A broker that leads from a time on."""

    ts: datetime
    leader_id: int
    leader_epoch: int | None


@dataclass(frozen=True)
class StateStretch:
    """A time in which nobody led (`offline`), or the ISR was `under min ISR`."""

    state: str
    since: datetime
    until: datetime


@dataclass(frozen=True)
class PartitionPast:
    """The known course of a partition between two moments."""

    since: datetime
    until: datetime
    points: Sequence[Point]
    stretches: Sequence[Stretch] = ()
    lost: Sequence[LostRange] = ()
    terms: Sequence[Term] = ()
    states: Sequence[StateStretch] = ()
    sampled: bool = False
    """Whether its leaders were polled: a follower's offset is that of one moment."""

    @property
    def replicas(self) -> list[str]:
        """The series of the replicas, in the order of their brokers."""
        ids = {point.series for point in self.points if point.series != HW}
        ids |= {f"broker {one.replica_id}" for one in self.stretches}
        return sorted(ids, key=lambda name: int(name.split()[1]))


def partition_past(lake: Lake, wanted: Filter, told_to: datetime | None = None) -> PartitionPast | None:
    """The past of the one partition wanted, between its moments `since` and `until`; None where nothing is known.

    It ends with the last offset, or at `told_to`, up to which its leader has told all.
    """
    points = offsets(lake, wanted)
    if not points:
        return None
    past = PartitionPast(points[0].ts, max(points[-1].ts, told_to or points[-1].ts), points)
    return replace(
        past,
        stretches=stretches(lake, wanted, past.since, past.until),
        lost=list(_lost(lake, wanted)),
        terms=list(_terms(lake, wanted)),
        states=[*_states(lake, wanted, past.until, "offline"), *_states(lake, wanted, past.until, "under min ISR")],
        sampled=_lowest_level(lake, wanted) == POLLED,
    )


_TURNS = {
    "offline": (
        replication_events.TABLE, "leader_id < 0", "leader_id >= 0", "event_type IN ('election', 'leader')",
    ),
    "under min ISR": (partition_hw.TABLE, "kind = 'freeze'", "kind IN ('thaw', 'term_start')", "true"),
}  # fmt: skip
"""By state where it is told: whether a row begins it, whether it ends it, and which rows are looked at."""


def _states(lake: Lake, wanted: Filter, end: datetime, name: str) -> Iterator[StateStretch]:
    table, begins, ends, only = _TURNS[name]
    where = f"{wanted.where(View(table, 'ts', ''))} AND {only} AND (({begins}) OR {ends})"
    since = None
    for row in select_rows(lake, table, f"SELECT ts, {begins} AS begins FROM t WHERE {where} ORDER BY ts"):
        if row["begins"]:
            since = since or row["ts"]
        elif since is not None:
            yield StateStretch(name, since, row["ts"])
            since = None
    if since is not None and since < end:
        yield StateStretch(name, since, end)


def _lost(lake: Lake, wanted: Filter) -> Iterator[LostRange]:
    """The ranges that are lost, or may be; a loss without a known range cannot be drawn and is left out."""
    for row in select_rows(lake, hw_regressions.TABLE, f"{VIEWS['serious'].select(wanted)} ORDER BY ts"):
        if row["lost_from"] is not None and (row["lost_to"] or 0) > row["lost_from"]:
            yield LostRange(row["ts"], row["lost_from"], row["lost_to"] - 1, row["severity"] == "critical")


def _lowest_level(lake: Lake, wanted: Filter) -> int | None:
    where = wanted.where(View(partition_hw.TABLE, "ts", ""))
    found = select_rows(lake, partition_hw.TABLE, f"SELECT min(level) AS level FROM t WHERE {where}")
    return found[0]["level"] if found else None


def _terms(lake: Lake, wanted: Filter) -> Iterator[Term]:
    kept = f"kind = 'term_start' AND leader_id >= 0 AND {wanted.where(View(partition_hw.TABLE, 'ts', ''))}"
    sql = f"SELECT ts, leader_id, leader_epoch FROM t WHERE {kept} ORDER BY ts"
    for row in select_rows(lake, partition_hw.TABLE, sql):
        yield Term(row["ts"], row["leader_id"], row["leader_epoch"])
