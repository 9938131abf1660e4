"""Rules for single events: a pure function each, from a slice of events to the rows that break the rule.

A rule first looks at a summary of the slice (event types, nulls, values beyond limits; see CheckedSlice). In most cases
that shows that no row can break it, at a fraction of the cost of checking each row, and the rule returns None. `split`
applies all rules.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.types import I32, I64, MOST_REPLICAS, NEVER
from pipelines.replication.events.columns import NOT_UTF8, holds_other_letters
from pipelines.replication.events.row_slices import CheckedSlice, Mask, RowSlice, packed_bits, row_slices
from schemas import replication_events
from schemas.event_types import DETAILS, REQUIRED, known_detail
from schemas.replication_events import CLOSED, DRAIN, FIRST, LAST

_LEGAL_LETTERS, _LONGEST_TOPIC = string.ascii_letters + string.digits + "._-", 249
TOPIC = rf"\A[{_LEGAL_LETTERS}]{{1,{_LONGEST_TOPIC}}}\z"
"""Kafka's legal topic names (org.apache.kafka.common.internals.Topic), except that `.` and `..` are not legal."""
_LEGAL_LETTER = np.isin(np.arange(256), list(_LEGAL_LETTERS.encode()))

BROKER_WIDE = ("broker_state", "config", "progress", "unread")
"""Event types that are of a whole broker."""
EITHER = ("lost",)
"""Of a whole source, or of the one partition that was not answered for."""

_PARTITION_EVENTS = tuple(name for name in REQUIRED if name not in (*BROKER_WIDE, *EITHER))
_REPLICA_AND_BROKER = ("replica_id", "broker_id")
_LISTS = ("isr", "replicas")
_NOBODY = np.iinfo(np.int32).min
_OFFSETS, _NUMBERS = ("leo", "leader_leo", "hw", "hw_before", "log_start"), ("source_seq", "seq")
_LEAST = {
    **dict.fromkeys((*_OFFSETS, "leader_id", "broker_id", "partition"), -1),
    **dict.fromkeys(("leader_epoch", "partition_epoch", "controller_epoch", "broker_epoch"), -1),
    **dict.fromkeys(("source_epoch", *_NUMBERS, "level"), 0),
    **dict.fromkeys(("min_isr", "lag_max_ms"), 1),
}
_MOST = {"level": 3, **dict.fromkeys((*_OFFSETS, *_NUMBERS, "broker_epoch"), NEVER - 1)}
"""What 64 bits and compiled code have room for beside NULL and NEVER; ids, epochs and partitions may be any of Kafka's,
see `tests/unit/replication/test_packed_fields.py`."""
FIRST_US, LAST_US = (pa.scalar(bound, pa.timestamp("us", "UTC")).cast(pa.int64()).as_py() for bound in (FIRST, LAST))
_LIMITS: dict[str, tuple[int | None, int | None]] = {
    **{column: (least, _MOST.get(column)) for column, least in _LEAST.items()},
    "replica_id": (0, None),
    "ts": (FIRST_US, LAST_US),
}
"""What the rules about limits look at together, see CheckedSlice; each of them judges the rows by itself."""
_YEARS_1_TO_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
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
    return lambda checked: pc.is_null(checked[column]) if column in checked.with_nulls else None


def _unknown_type(checked: CheckedSlice) -> Mask | None:
    return checked.mask(checked.of_types(*checked.unknown_types)) if checked.unknown_types else None


def _lacks(column: str) -> Check:
    types = tuple(t for t, needs in REQUIRED.items() if column in needs)

    def broken(checked: CheckedSlice) -> Mask | None:
        if column not in checked.with_nulls or checked.types.isdisjoint(types):
            return None
        return checked.mask(checked.of_types(*types) & checked.null(column))

    return broken


def _outside(column: str, least: Any = None, most: Any = None) -> Check:
    """Values below `least` or above `most`; _LIMITS has both."""
    kind = replication_events.ARROW.field(column).type
    low, high = (pa.scalar(value, kind) for value in (least, most))

    def broken(checked: CheckedSlice) -> Mask | None:
        if column not in checked.beyond:
            return None
        values = checked.rows.array(column)
        return pc.or_kleene(pc.less(values, low), pc.greater(values, high))

    return broken


def _missing_config(checked: CheckedSlice) -> Mask | None:
    if "config" not in checked.types:
        return None
    empty = checked.null("min_isr") & checked.null("lag_max_ms") & checked.null("detail")
    return checked.mask(checked.of_types("config") & empty)


def _sample_without_offset(checked: CheckedSlice) -> Mask | None:
    if "sample" not in checked.types:
        return None
    return checked.mask(checked.of_types("sample") & checked.null("leo") & checked.null("hw"))


def _unknown_detail(event_type: str) -> Check:
    def broken(checked: CheckedSlice) -> Mask | None:
        if event_type not in checked.types:
            return None
        at, types, details, values = checked.details
        unknown = np.array([not known_detail(event_type, value) for value in values], dtype=np.bool_)
        if not unknown.any():
            return None
        return checked.mask_of_rows(at[(types == checked.code(event_type)) & unknown[details]])

    return broken


def _hw_above_leo(checked: CheckedSlice) -> Mask | None:
    """A broker's own HW is never above its own log end (UnifiedLog.updateHighWatermark)."""
    if not checked.with_values.issuperset(("hw", "leo", "replica_id")):
        return None
    at = checked.rows_with("hw", "leo", "replica_id", "broker_id")
    replica, broker = map(checked.rows.int32, _REPLICA_AND_BROKER)
    hw, leo = checked.rows.int64("hw")[at], checked.rows.int64("leo")[at]
    return checked.mask_of_rows(at[(replica[at] == broker[at]) & (hw > leo)])


def _unassigned(checked: CheckedSlice) -> Mask | None:
    if not checked.with_values.issuperset(("replicas", "replica_id")):
        return None
    at, lists = checked.rows_with("replicas", "replica_id"), checked["replicas"].values
    replicas: I32 = (lists.fill_null(_NOBODY) if lists.null_count else lists).to_numpy()
    missing = np.empty(len(at), dtype=np.bool_)
    _find_missing(at, checked.offsets("replicas"), replicas, checked.rows.int32("replica_id"), missing)
    return checked.mask_of_rows(at[missing])


@kernel
def _find_missing(at: I64, offsets: I32, lists: I32, wanted: I32, missing: npt.NDArray[np.bool_]) -> None:
    """Write of each of these rows whether its list lacks the value that is wanted of it."""
    for k in range(len(at)):
        row = np.uint64(at[k])
        missing[k] = True
        for place in range(np.uint64(offsets[row]), np.uint64(offsets[row + np.uint64(1)])):
            missing[k] &= lists[place] != wanted[row]


def _leads_without_isr(checked: CheckedSlice) -> Mask | None:
    if "isr" not in checked.with_values:
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
        if column not in checked.with_values or _all_brokers(checked[column], checked.offsets(column)):
            return None
        wrong = np.asarray(pc.fill_null(pc.less(pc.list_flatten(checked[column]), 0), True))
        return checked.mask_of_rows(np.unique(pc.list_parent_indices(checked[column]).to_numpy()[wrong]))

    return broken


def _all_brokers(lists: pa.Array, offsets: I32) -> bool:
    """Whether all values of these lists, those under null lists included, are broker ids."""
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    return not values.null_count and bool((values.to_numpy() >= 0).all())


def _too_many_replicas(checked: CheckedSlice) -> Mask | None:
    """More replicas than are followed of one partition, its broker among them."""
    sizes = np.zeros(len(checked.rows), dtype=np.int64)
    for column in checked.with_values.intersection(_LISTS):
        sizes += np.diff(checked.offsets(column))
    many = np.flatnonzero(sizes >= MOST_REPLICAS)
    if not len(many):
        return None
    isr, replicas = (checked[column].take(pa.array(many)).to_pylist() for column in _LISTS)
    brokers = checked.rows.int32("broker_id")[many].tolist()
    named = [len({*(one or ()), *(other or ()), b}) for one, other, b in zip(isr, replicas, brokers, strict=True)]
    return checked.mask_of_rows(many[np.array(named) > MOST_REPLICAS])


def _partition_event_without_partition(checked: CheckedSlice) -> Mask | None:
    if not checked.broker_wide.any():
        return None
    at = checked.numbers(checked.broker_wide & checked.of_types(*_PARTITION_EVENTS))
    return checked.mask_of_rows(at[checked.rows.int32("partition")[at] == -1])


def _broker_wide_on_partition(checked: CheckedSlice) -> Mask | None:
    if checked.types.isdisjoint(BROKER_WIDE):
        return None
    return checked.mask_of_rows(checked.numbers(checked.of_types(*BROKER_WIDE) & checked.on_partition))


def _closes_nothing(checked: CheckedSlice) -> Mask | None:
    """A row of the source that closes others, which says something else: it would stand before every closing row, or
    close whatever has come by then."""
    codes, names = checked.rows.codes("source_id")
    code = pc.index(names, pa.scalar(DRAIN, names.type)).as_py()
    if code < 0:
        return None
    progress = checked.numbers(checked.of_types("progress") & checked.broker_wide & checked.rows.valid("detail"))
    details = checked["detail"].take(pa.array(progress)).cast(pa.string())
    others = codes == code
    others[checked.numbers(checked.null("source_id"))] = False
    others[progress[pc.equal(details, CLOSED).to_numpy(zero_copy_only=False)]] = False
    return checked.mask_of_rows(np.flatnonzero(others))


def _without_topic(checked: CheckedSlice) -> Mask | None:
    if "topic" not in checked.with_nulls:
        return None
    return checked.mask_of_rows(checked.numbers(checked.null("topic") & checked.on_partition))


def _illegal_topic(checked: CheckedSlice) -> Mask | None:
    if "topic" not in checked.with_values:
        return None
    codes, names = checked.rows.codes("topic")
    names = names.cast(pa.string())
    if _plainly_legal(names):
        return None
    legal = pc.and_not(pc.match_substring_regex(names, TOPIC), pc.is_in(names, _DOTS))
    if pc.all(legal, min_count=0).as_py():
        return None
    at = checked.rows_with("topic")
    return checked.mask_of_rows(at[~np.asarray(legal)[codes[at]]])


def _not_utf8(column: str) -> Check:
    def broken(checked: CheckedSlice) -> Mask | None:
        names = checked[column]
        words = names.dictionary if pa.types.is_dictionary(names.type) else names
        unreadable = pc.match_substring(words, NOT_UTF8) if holds_other_letters(words) else None
        if unreadable is None or not pc.any(unreadable).as_py():
            return None
        return unreadable.take(names.indices) if words is not names else unreadable

    return broken


def _plainly_legal(names: pa.Array) -> bool:
    """Whether topic names hold legal letters only, 3 to 249 of them: a thirtieth of what matching them costs."""
    if names.null_count or not len(names):
        return False
    offsets = np.frombuffer(names.buffers()[1], np.int32, len(names) + 1, 4 * names.offset)
    sizes = np.diff(offsets)
    if sizes.min() <= 2 or sizes.max() > _LONGEST_TOPIC:
        return False
    letters = np.frombuffer(names.buffers()[2], np.uint8, offsets[-1] - offsets[0], offsets[0])
    return bool(_LEGAL_LETTER[letters].all())


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
    RowRule("sample_without_offset", ("leo", "hw"), _sample_without_offset),
    *(RowRule(f"unknown_detail_of_{t}", ("detail",), _unknown_detail(t)) for t in DETAILS),
    *(RowRule(f"{column}_below_{least}", (column,), _outside(column, least)) for column, least in _LEAST.items()),
    RowRule("replica_id_below_0", ("replica_id",), _outside("replica_id", 0)),
    *(RowRule(f"{column}_above_{most}", (column,), _outside(column, most=most)) for column, most in _MOST.items()),
    RowRule("time_outside_2010_to_2100", ("ts",), _outside("ts", FIRST, LAST)),
    RowRule("hw_above_leo", ("hw", "leo", "replica_id"), _hw_above_leo),
    RowRule("replica_not_assigned", ("replica_id", "replicas"), _unassigned),
    RowRule("empty_isr_with_leader", ("isr", "leader_id", "broker_id"), _leads_without_isr),
    *(RowRule(f"no_broker_in_{column}", (column,), _no_broker(column)) for column in _LISTS),
    RowRule(f"more_than_{MOST_REPLICAS}_replicas", _LISTS, _too_many_replicas),
    RowRule("partition_event_without_partition", ("event_type", "partition"), _partition_event_without_partition),
    RowRule("broker_wide_event_on_partition", ("event_type", "partition"), _broker_wide_on_partition),
    RowRule("closes_nothing", ("source_id", "event_type", "detail"), _closes_nothing),
    RowRule("missing_topic", ("event_type", "partition"), _without_topic),
    RowRule("illegal_topic", ("topic",), _illegal_topic),
    *(RowRule(f"not_utf8_{column}", (column,), _not_utf8(column)) for column in ("cluster", "source_id", "topic_id")),
)
"""Every row rule, in the order in which reasons are listed."""


LONGEST_VALUE = 300
"""The most characters of a bad value that a reason shows."""


def split(events: pa.Table, slices: list[RowSlice] | None = None) -> tuple[pa.BooleanArray | None, pa.Table]:
    """(mask of the valid rows, None where all are; the invalid rows with `reasons: list<string>`).

    `slices`: the slices of `events`, where the caller has them already.
    """
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for rows in row_slices(events) if slices is None else slices:
        for rule, mask in _broken_rules(rows):
            found.setdefault(rule.name, np.zeros(len(events), dtype=np.bool_))[rows.rows] = mask
    if not found:
        return None, events.slice(0, 0).append_column("reasons", pa.array([], pa.list_(pa.string())))
    rules = [rule for rule in ROW_RULES if rule.name in found]
    broken = np.stack([found[rule.name] for rule in rules])
    bad = np.flatnonzero(broken.any(axis=0))
    rejected = events.take(bad)
    reasons = _reasons(rules, broken[:, bad], rejected)
    good = np.ones(len(events), bool)
    good[bad] = False
    return pa.array(good), rejected.append_column("reasons", reasons)


def _broken_rules(rows: RowSlice) -> list[tuple[RowRule, npt.NDArray[np.bool_]]]:
    """The rules that rows of this slice break, and which rows."""
    checked, found = CheckedSlice(rows, frozenset(REQUIRED), tuple(DETAILS), _LIMITS), []
    for rule in ROW_RULES:
        mask = rule.broken(checked)
        if mask is not None and pc.any(mask).as_py():
            found.append((rule, np.asarray(pc.fill_null(mask, False))))
    return found


def _reasons(rules: list[RowRule], broken: np.ndarray, rejected: pa.Table) -> pa.ListArray:
    reasons: list[list[str]] = [[] for _ in range(len(rejected))]
    for rule, mask in zip(rules, broken, strict=True):
        at = np.flatnonzero(mask)
        shown = {name: _values(rejected[name].take(at)) for name in rule.shows}
        for i, row in enumerate(at):
            values = ", ".join(f"{name} = {_shown(shown[name][i])}" for name in rule.shows)
            reasons[row].append(f"{rule.name}: {values}")
    return pa.array(reasons, pa.list_(pa.string()))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values for people; a time that Python has no date for as its microseconds."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    dates = representable(column).to_pylist()
    return [us if date is None else date for date, us in zip(dates, column.cast(pa.int64()).to_pylist(), strict=True)]


def representable(times: Any) -> Any:
    """The times, null where the year has more than four digits: hardly anything has a date there."""
    microseconds, (first, last) = times.cast(pa.int64()), _YEARS_1_TO_9999
    known = pc.and_(pc.greater_equal(microseconds, first), pc.less_equal(microseconds, last))
    return pc.if_else(known, times, pa.scalar(None, times.type))


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    text = "null" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
