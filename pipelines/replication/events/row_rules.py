"""What one event must satisfy by itself: a pure function per rule, from a slice of events to the rows that break it.

A rule first looks at what a column holds at all (nulls, bounds, dictionary). Mostly that shows that no row can break
it, at a fraction of the cost of looking at each row, and the rule returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.types import I32
from pipelines.replication.events.checked_slice import CheckedSlice, Mask, packed_bits
from schemas import replication_events
from schemas.event_types import DETAILS, REQUIRED

TOPIC = r"\A[a-zA-Z0-9._-]{1,249}\z"
"""Kafka's legal topic names (org.apache.kafka.common.internals.Topic), except that `.` and `..` are not legal."""

BROKER_WIDE = ("broker_state", "config", "progress", "lost")
FIRST, LAST = datetime(2010, 1, 1, tzinfo=UTC), datetime(2100, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)

_PARTITION_EVENTS = tuple(name for name in REQUIRED if name not in BROKER_WIDE)
_REPLICA_AND_BROKER = ("replica_id", "broker_id")
_LEAST = {
    **dict.fromkeys(("leo", "leader_leo", "hw", "log_start", "leader_id", "broker_id", "partition"), -1),
    **dict.fromkeys(("source_epoch", "source_seq", "seq", "level"), 0),
    **dict.fromkeys(("min_isr", "lag_max_ms"), 1),
}
_DOTS = pa.array([".", ".."])

Check = Callable[[CheckedSlice], Mask | None]
"""The rows that break a rule (null: it holds); None where no row can break it."""


@dataclass(frozen=True)
class RowRule:
    """A rule's name, the columns whose values the reason shows, and its check."""

    name: str
    shows: tuple[str, ...]
    broken: Check


def _is_null(column: str) -> Check:
    return lambda checked: pc.is_null(checked[column]) if checked[column].null_count else None


def _unknown_type(checked: CheckedSlice) -> Mask | None:
    return checked.mask(checked.of_types(*checked.unknown_types))


def _lacks(column: str) -> Check:
    types = tuple(t for t, needs in REQUIRED.items() if column in needs)

    def broken(checked: CheckedSlice) -> Mask | None:
        return checked.mask(checked.of_types(*types) & checked.null(column)) if checked[column].null_count else None

    return broken


def _outside(column: str, least: Any = None, most: Any = None) -> Check:
    """Values below `least` or above `most`."""
    kind = replication_events.ARROW.field(column).type
    low, high = (pa.scalar(value, kind) for value in (least, most))
    below, above = (bound.cast(pa.int64()).as_py() for bound in (low, high))

    def broken(checked: CheckedSlice) -> Mask | None:
        if (below is None or checked.least(column) >= below) and (above is None or checked.most(column) <= above):
            return None
        values = checked.rows.array(column)
        return pc.or_kleene(pc.less(values, low), pc.greater(values, high))

    return broken


def _missing_config(checked: CheckedSlice) -> Mask | None:
    empty = checked.null("min_isr") & checked.null("lag_max_ms") & checked.null("detail")
    return checked.mask(checked.of_types("config") & empty)


def _unknown_detail(event_type: str) -> Check:
    known = (*DETAILS[event_type], *([None] if event_type != "broker_state" else []))

    def broken(checked: CheckedSlice) -> Mask | None:
        at, types, details, values = checked.details
        unknown = np.array([value not in known for value in values], dtype=np.bool_)
        if not unknown.any():
            return None
        return checked.mask_of_rows(at[(types == checked.code(event_type)) & unknown[details]])

    return broken


def _hw_above_leo(checked: CheckedSlice) -> Mask | None:
    """A broker's own HW is never above its own log end (UnifiedLog.updateHighWatermark)."""
    if not checked.has_values("hw", "leo", "replica_id"):
        return None
    at = checked.rows_with("hw", "leo", "replica_id", "broker_id")
    replica, broker = map(checked.rows.int32, _REPLICA_AND_BROKER)
    hw, leo = checked.rows.int64("hw")[at], checked.rows.int64("leo")[at]
    return checked.mask_of_rows(at[(replica[at] == broker[at]) & (hw > leo)])


def _unassigned(checked: CheckedSlice) -> Mask | None:
    if not checked.has_values("replicas", "replica_id"):
        return None
    at = checked.rows_with("replicas", "replica_id")
    if not len(at):
        return None
    replicas, replica = checked["replicas"].take(pa.array(at)), checked["replica_id"].take(pa.array(at))
    parent = pc.list_parent_indices(replicas).to_numpy()
    same = pc.fill_null(pc.equal(pc.list_flatten(replicas), replica.take(pa.array(parent))), False)
    assigned = np.zeros(len(at), bool)
    assigned[parent[np.asarray(same)]] = True
    return checked.mask_of_rows(at[~assigned])


def _leads_without_isr(checked: CheckedSlice) -> Mask | None:
    if not checked.has_values("isr"):
        return None
    at, offsets = checked.rows_with("isr"), checked.offsets("isr")
    empty = checked.mask_of_rows(at[offsets[at + 1] == offsets[at]])
    if empty is None:
        return None
    names_leader = packed_bits(checked.rows.int32("leader_id") >= 0) & checked.rows.valid("leader_id")
    leads = checked.of_types("leader", "isr_proposed") | names_leader
    return pc.and_(empty, checked.mask(leads)) if leads.any() else None


def _no_broker(column: str) -> Check:
    def broken(checked: CheckedSlice) -> Mask | None:
        if not checked.has_values(column) or _all_brokers(checked[column], checked.offsets(column)):
            return None
        wrong = np.asarray(pc.fill_null(pc.less(pc.list_flatten(checked[column]), 0), True))
        return checked.mask_of_rows(np.unique(pc.list_parent_indices(checked[column]).to_numpy()[wrong]))

    return broken


def _all_brokers(lists: pa.Array, offsets: I32) -> bool:
    """Whether all values of these lists, those under null lists included, are broker ids."""
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    return not values.null_count and bool((values.to_numpy() >= 0).all())


def _partition_event_without_partition(checked: CheckedSlice) -> Mask | None:
    at = checked.numbers(checked.broker_wide & checked.of_types(*_PARTITION_EVENTS))
    return checked.mask_of_rows(at[checked.rows.int32("partition")[at] == -1])


def _broker_wide_on_partition(checked: CheckedSlice) -> Mask | None:
    return checked.mask_of_rows(checked.numbers(checked.of_types(*BROKER_WIDE) & checked.on_partition))


def _without_topic(checked: CheckedSlice) -> Mask | None:
    if not checked["topic"].null_count:
        return None
    return checked.mask_of_rows(checked.numbers(checked.null("topic") & checked.on_partition))


def _illegal_topic(checked: CheckedSlice) -> Mask | None:
    if not checked.has_values("topic"):
        return None
    codes, names = checked.rows.codes("topic")
    names = names.cast(pa.string())
    legal = pc.and_not(pc.match_substring_regex(names, TOPIC), pc.is_in(names, _DOTS))
    if pc.all(legal, min_count=0).as_py():
        return None
    at = checked.rows_with("topic")
    return checked.mask_of_rows(at[~np.asarray(legal)[codes[at]]])


ROW_RULES: tuple[RowRule, ...] = (
    *(
        RowRule(f"null_{c.name}", ("event_type",), _is_null(c.name))
        for c in replication_events.TABLE.columns
        if not c.null
    ),
    RowRule("unknown_event_type", ("event_type",), _unknown_type),
    *(
        RowRule(f"missing_{column}", ("event_type",), _lacks(column))
        for column in sorted({c for needs in REQUIRED.values() for c in needs})
    ),
    RowRule("missing_config", ("min_isr", "lag_max_ms", "detail"), _missing_config),
    *(RowRule(f"unknown_detail_of_{t}", ("detail",), _unknown_detail(t)) for t in DETAILS),
    *(RowRule(f"{column}_below_{least}", (column,), _outside(column, least)) for column, least in _LEAST.items()),
    RowRule("replica_id_below_0", ("replica_id",), _outside("replica_id", 0)),
    RowRule("level_above_3", ("level",), _outside("level", most=3)),
    RowRule("time_outside_2010_to_2100", ("ts",), _outside("ts", FIRST, LAST)),
    RowRule("hw_above_leo", ("hw", "leo", "replica_id"), _hw_above_leo),
    RowRule("replica_not_assigned", ("replica_id", "replicas"), _unassigned),
    RowRule("empty_isr_with_leader", ("isr", "leader_id", "broker_id"), _leads_without_isr),
    *(RowRule(f"no_broker_in_{column}", (column,), _no_broker(column)) for column in ("isr", "replicas")),
    RowRule("partition_event_without_partition", ("event_type", "partition"), _partition_event_without_partition),
    RowRule("broker_wide_event_on_partition", ("event_type", "partition"), _broker_wide_on_partition),
    RowRule("missing_topic", ("event_type", "partition"), _without_topic),
    RowRule("illegal_topic", ("topic",), _illegal_topic),
)
"""Every row rule, in the order in which reasons are listed."""
