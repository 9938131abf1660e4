"""Events as an ingest would coalesce them, and a comparison of facts from two readings of the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.tailing.coalesce import FetchRuns
from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from pipelines.replication import Facts
from tests.streaming.shell import added_up, same_rows

NUMBERS = ("seq_from", "seq_to")


def plain(events: pa.Table) -> pa.Table:
    """Events whose fetches have no ISR and no replicas, as those of Kafka's logs; the sources merged by time."""
    events = events.sort_by([(name, "ascending") for name in ("source_id", "source_epoch", "source_seq")])
    fetch = pc.equal(events["event_type"], "fetch")
    for name in ("isr", "replicas"):
        at, field = events.schema.get_field_index(name), events.schema.field(name)
        events = events.set_column(at, field, pc.if_else(fetch, pa.scalar(None, field.type), events[name]))
    names = list(zip(events["source_id"].to_pylist(), events["source_epoch"].to_pylist(), strict=True))
    source = np.array([sorted(set(names)).index(name) for name in names])
    return events.take(pa.array(np.argsort(_clock(events, source), kind="stable")))


def coalesced(events: pa.Table, longest_ms: int, cuts: Sequence[int] = ()) -> pa.Table:
    """Events, each source in its order, as rounds that end at `cuts` would write them."""
    runs, names = (
        FetchRuns(longest_ms),
        zip(events["source_id"].to_pylist(), events["source_epoch"].to_pylist(), strict=True),
    )
    source = np.array([runs.source(*name) for name in names], np.int32)
    bounds = [0, *cuts, len(events)]
    reported = []
    for begin, end in itertools.pairwise(bounds):
        rows, of = events.slice(begin, end - begin).select(EVENTS.names), source[begin:end]
        reported.append(runs.repeats(rows, of, _clock(rows, of)))
    repeats = np.concatenate(reported)
    stay = np.flatnonzero(repeats >= 0)
    kept, of = events.take(pa.array(stay)).select(EVENTS.names), source[stay]
    column = pa.array(repeats[stay], pa.int32(), mask=repeats[stay] == 0)
    return _numbered(kept.append_column("repeats", column), of, events["source_epoch"].to_numpy()[stay])


def _clock(events: pa.Table, source: np.ndarray) -> np.ndarray:
    """The running maximum of time of each source."""
    clock = times(events).copy()
    for one in np.unique(source):
        clock[source == one] = np.maximum.accumulate(clock[source == one])
    return clock


def _numbered(events: pa.Table, source: np.ndarray, epoch: np.ndarray) -> pa.Table:
    """Rows with new numbers, where they stand."""
    parts, places = [], []
    for one in np.unique(source):
        rows = np.flatnonzero(source == one)
        parts.append(Numbering(int(epoch[rows[0]])).number(events.take(pa.array(rows)).combine_chunks()))
        places.append(rows)
    return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


def differing(one: Facts, other: Facts) -> list[str]:
    """The tables that differ, but for the numbers of rows that they name; partials of minutes are added up."""
    return [name for name in one.tables() if _rows(name, getattr(one, name)) != _rows(name, getattr(other, name))]


def _rows(name: str, table: pa.Table) -> Any:
    return added_up(table) if name == "minute_stats" else same_rows(table, NUMBERS)
