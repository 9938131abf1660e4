"""What events and facts say of each partition, in order of time, without more than a batch of it in Python at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication import Facts
from pipelines.replication.metadata.brokers_and_configs import Timeline
from pipelines.whatif.course import UP, Item

Row = dict[str, Any]
Place = tuple[str, str, int]
"""(cluster, topic, partition)"""
OF_PARTITIONS = ("leader", "election", "append", "fetch", "replica_leo", "hw", "isr")
BROKER_WIDE = ("broker_state", "config")
_PLACE = ("cluster", "topic", "partition")
_COLUMNS = (
    *_PLACE, "broker_id", "event_type", "replica_id", "leader_id", "leader_epoch", "leo", "leader_leo", "hw", "isr",
    "replicas", "min_isr", "detail", "broker_epoch", "source_id", "source_epoch", "source_seq",
)  # fmt: skip
_FIRST = ("leader", "election")
_WIDE, _SYNC, _ISR, _FETCHES, _HW = 1, 2, 3, 4, 5
"""The order of what has one time: terms, then what the rules look at, then LEOs, then what came of them."""
_BATCH = 1 << 16
FOREVER = 1 << 62


class Items:
    """The items of each partition of `events` (bronze schema), with the facts that a replay made of them."""

    def __init__(self, events: pa.Table, facts: Facts) -> None:
        self._events, self._bounds = _by_place(events)
        self.places = sorted(self._bounds)
        self._wide = _broker_wide(events)
        self._facts = _of_facts(facts)

    def of(self, place: Place) -> Iterator[Item]:
        """The items of one partition in order of time, with the broker-wide events of its cluster."""
        wide = [item for item in self._wide.get(place[0], ()) if item[2]["topic"] in (None, place[1])]
        sources = (self._stream(place), self._facts.get(place, []), wide)
        return merge(*sources, key=lambda item: item[:2])

    def _stream(self, place: Place) -> Iterator[Item]:
        begin, end = self._bounds[place]
        for batch in self._events.slice(begin, end - begin).to_batches(max_chunksize=_BATCH):
            yield from ((row["us"], row["order"], row) for row in batch.to_pylist())


def _by_place(events: pa.Table) -> tuple[pa.Table, dict[Place, tuple[int, int]]]:
    """The partitions' rows in the order of places and times, and where those of each place begin and end."""
    rows = _rows(events, OF_PARTITIONS)
    first = pc.is_in(rows["event_type"], pa.array(_FIRST))
    rows = rows.append_column("order", pc.if_else(first, 0, _FETCHES))
    keys = [(name, "ascending") for name in (*_PLACE, "us", "order")]
    rows = rows.take(pc.sort_indices(rows, keys))
    if not rows.num_rows:
        return rows, {}
    codes = [rows[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in _PLACE]
    changes = np.flatnonzero(np.any([np.diff(code) != 0 for code in codes], axis=0)) + 1
    bounds = [0, *changes.tolist(), rows.num_rows]
    return rows, {place_of(rows.slice(a, 1).select(_PLACE).to_pylist()[0]): (a, b) for a, b in pairwise(bounds)}


def _broker_wide(events: pa.Table) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = defaultdict(list)
    states: dict[str, Timeline] = defaultdict(Timeline)
    for row in _rows(events, BROKER_WIDE).to_pylist():
        if row["event_type"] == "config":
            found[row["cluster"]].append((row["us"], _WIDE, row))
            continue
        reported_by = row["source_id"], row["source_epoch"], row["source_seq"]
        state = row["us"], row["detail"], row["broker_epoch"], reported_by
        states[row["cluster"]].record_broker_state(0, row["replica_id"], *state)
    for cluster, timeline in states.items():
        found[cluster] += _of_brokers(timeline)
    return {cluster: sorted(items, key=lambda item: item[0]) for cluster, items in found.items()}


def _of_brokers(timeline: Timeline) -> Iterator[Item]:
    """The states of each broker, each once, whoever else reported it, and again.

    One that is never reported to be unfenced in an incarnation serves from its start: its controller says less.
    """
    for number, broker in timeline.brokers:
        states = timeline.broker_states(number, broker, FOREVER)
        unfenced = {epoch for _, detail, epoch, *_ in states if detail == UP}
        for ts, detail, epoch, *_ in states:
            said = UP if detail == "started" and epoch not in unfenced else detail
            yield ts, _WIDE, {"event_type": "broker_state", "replica_id": broker, "detail": said, "topic": None}


def _rows(events: pa.Table, types: Iterable[str]) -> pa.Table:
    wanted = events.filter(pc.is_in(events["event_type"].cast(pa.string()), pa.array(types)))
    return wanted.select(_COLUMNS).append_column("us", wanted["ts"].cast(pa.int64()))


def _of_facts(facts: Facts) -> dict[Place, list[Item]]:
    """Replica states, ISR changes and HWs: the latest revision of each, in order of time."""
    found: dict[Place, list[Item]] = defaultdict(list)
    named = (("replica_sync", "sync", _SYNC), ("isr_changes", "isr_after", _ISR), ("partition_hw", "hw_after", _HW))
    for name, event_type, order in named:
        for row in _latest(getattr(facts, name)):
            found[place_of(row)].append((row["us"], order, row | {"event_type": event_type}))
    return {place: sorted(items, key=lambda item: item[:2]) for place, items in found.items()}


def _latest(table: pa.Table) -> Iterator[Row]:
    rows: dict[tuple[Any, ...], Row] = {}
    for number, row in enumerate(table.append_column("us", table["ts"].cast(pa.int64())).to_pylist()):
        key = (*place_of(row), row["partition_epoch"]) if row.get("partition_epoch") is not None else (number,)
        rows[key] = max(row, rows.get(key, row), key=lambda one: one.get("revision", 0))
    moves = ("advance", "term_start")
    yield from (row for row in rows.values() if row.get("change") != "retracted" and row.get("kind", moves[0]) in moves)


def place_of(row: Row) -> Place:
    """The partition that a row is about."""
    return row["cluster"], row["topic"], row["partition"]
