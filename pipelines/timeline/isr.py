"""The members of one partition's ISR over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, View, select_rows
from schemas import partition_hw


@dataclass(frozen=True)
class Stretch:
    """A time in which one replica was in the ISR."""

    replica_id: int
    since: datetime
    until: datetime


@dataclass(frozen=True)
class Known:
    """The committed ISR from a time on."""

    ts: datetime
    isr: tuple[int, ...]


def stretches(lake: Lake, wanted: Filter, since: datetime, until: datetime) -> list[Stretch]:
    """The times of every replica of one partition in the ISR between two moments, as far as reported."""
    return list(joined(_known(lake, wanted), since, until))


def joined(known: Sequence[Known], since: datetime, until: datetime) -> Iterator[Stretch]:
    """ISRs in order of time to stretches within two moments; before the first nothing is known."""
    began: dict[int, datetime] = {}
    for one in known:
        for replica in [replica for replica in began if replica not in one.isr]:
            yield from _cut(replica, began.pop(replica), one.ts, since, until)
        for replica in one.isr:
            began.setdefault(replica, one.ts)
    for replica, ts in began.items():
        yield from _cut(replica, ts, until, since, until)


def _cut(replica: int, begun: datetime, ended: datetime, since: datetime, until: datetime) -> Iterator[Stretch]:
    first, last = max(begun, since), min(ended, until)
    if first < last:
        yield Stretch(replica, first, last)


def _known(lake: Lake, wanted: Filter) -> list[Known]:
    """The commits until the end of the period, with the ISR before the first change."""
    ever = Filter(wanted.cluster, wanted.topic, wanted.partition, until=wanted.until)
    changes = list(_changes(lake, ever))
    terms = _terms(lake, ever)
    before = [Known(changes[0]["ts"], tuple(changes[0]["isr_before"] or ()))] if changes else []
    after = [Known(row["ts"], tuple(row["isr_after"] or ())) for row in changes]
    first = [Known(row["ts"], tuple(row["isr"])) for row in terms]
    return sorted([*first, *before, *after], key=lambda one: one.ts) if first else [*before, *after]


def _changes(lake: Lake, wanted: Filter) -> Iterable[Row]:
    view = VIEWS["isr"]
    changed = f"SELECT ts, isr_before, isr_after FROM ({view.select(wanted)}) WHERE change <> 'retracted' ORDER BY ts"
    return select_rows(lake, view.table, changed)


def _terms(lake: Lake, wanted: Filter) -> list[Row]:
    """The ISR with which each term began."""
    where = wanted.where(View(partition_hw.TABLE, "ts", ""))
    sql = f"SELECT ts, isr FROM t WHERE kind = 'term_start' AND isr IS NOT NULL AND {where} ORDER BY ts"
    return select_rows(lake, partition_hw.TABLE, sql)
