"""What one event must satisfy by itself; rows that do not are set aside whole, with every reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import replication_events

REQUIRED: dict[str, tuple[str, ...]] = {
    "leader": ("leader_epoch", "leo", "hw", "isr"),
    "follower": ("leo", "hw"),
    "election": ("leader_id", "leader_epoch"),
    "append": ("leader_leo",),
    "fetch": ("replica_id", "leo"),
    "hw": ("replica_id", "hw"),
    "isr_proposed": ("isr",),
    "isr": ("isr",),
    "isr_rejected": (),
    "truncate": ("replica_id", "leo"),
    "broker_state": ("replica_id",),
    "config": (),
    "replica_leo": ("replica_id", "leo"),
    "progress": (),
    "lost": (),
}
"""Event types, and the columns that each cannot do without."""

DETAILS = {
    "broker_state": ("started", "controlled_shutdown", "fenced", "unfenced", "unregistered"),
    "isr": ("alter_partition", "metadata", "controller"),
    "isr_proposed": ("shrink", "expand"),
}
"""The words that `detail` may hold, where they carry meaning."""

BROKER_WIDE = ("broker_state", "config", "progress", "lost")
FIRST, LAST = datetime(2010, 1, 1, tzinfo=UTC), datetime(2100, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)

_TYPES = tuple(REQUIRED)
_TYPE_SET = pa.array(_TYPES)
_LEAST = {
    **dict.fromkeys(("leo", "leader_leo", "hw", "log_start", "leader_id", "broker_id", "partition"), -1),
    **dict.fromkeys(("source_epoch", "source_seq", "seq", "level"), 0),
    **dict.fromkeys(("min_isr", "lag_max_ms"), 1),
}

Mask: TypeAlias = Any  # a boolean pyarrow Array or ChunkedArray; pyarrow ships no types


class _Rows:
    """Events, and for each row one bit set: that of its type in `_TYPES`, or the next one where it is unknown."""

    def __init__(self, events: pa.Table) -> None:
        self.events = events
        self.bits = _bits(events["event_type"])

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        return self.events[column]

    def of(self, *types: str) -> pa.BooleanArray:
        """Mask of the rows of these types."""
        return self.where(sum(1 << _TYPES.index(name) for name in types))

    def where(self, bits: int) -> pa.BooleanArray:
        packed = np.packbits(self.bits & np.uint16(bits) != 0, bitorder="little")
        return pa.BooleanArray.from_buffers(pa.bool_(), len(self.bits), [None, pa.py_buffer(packed)])


@dataclass(frozen=True)
class RowRule:
    """A rule's name, the columns whose values the reason shows, and the mask (null: holds) of rows that break it."""

    name: str
    shows: tuple[str, ...]
    broken: Callable[[_Rows], Mask]


def split(events: pa.Table) -> tuple[pa.BooleanArray | None, pa.Table]:
    """Mask of the rows that satisfy every rule (None: all of them), and the others with `reasons: list<string>`."""
    rows = _Rows(events)
    found = [(rule, mask) for rule in ROW_RULES if pc.any(mask := rule.broken(rows)).as_py()]
    if not found:
        return None, events.slice(0, 0).append_column("reasons", pa.array([], pa.list_(pa.string())))
    broken = np.stack([np.asarray(pc.fill_null(mask, False)) for _, mask in found])
    bad = np.flatnonzero(broken.any(axis=0))
    rejected = events.take(bad)
    reasons = _reasons([rule for rule, _ in found], broken[:, bad], rejected)
    good = np.ones(len(events), bool)
    good[bad] = False
    return pa.array(good), rejected.append_column("reasons", reasons)


def _reasons(rules: list[RowRule], broken: np.ndarray, rejected: pa.Table) -> pa.ListArray:
    texts: list[list[str]] = [[] for _ in range(len(rejected))]
    for rule, mask in zip(rules, broken, strict=True):
        at = np.flatnonzero(mask)
        shown = rejected.select(rule.shows).take(at).to_pydict()
        for i, row in enumerate(at):
            values = ", ".join(f"{name} = {_word(shown[name][i])}" for name in rule.shows)
            texts[row].append(f"{rule.name}: {values}")
    return pa.array(texts, pa.list_(pa.string()))


def _word(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return "null" if value is None else str(value)


def _bits(event_type: pa.ChunkedArray) -> np.ndarray:
    if not pa.types.is_dictionary(event_type.type):
        event_type = event_type.dictionary_encode()
    words = event_type.unify_dictionaries().combine_chunks()
    unknown = len(_TYPES)
    of_word = pc.fill_null(pc.index_in(words.dictionary, _TYPE_SET), unknown).to_numpy(zero_copy_only=False)
    bit_of_word = np.left_shift(1, np.append(of_word, unknown)).astype(np.uint16)
    of_row = pc.fill_null(words.indices, len(words.dictionary)).to_numpy(zero_copy_only=False)
    bits: np.ndarray = bit_of_word[of_row]
    return bits


def _is_null(column: str) -> Callable[[_Rows], Mask]:
    return lambda rows: pc.is_null(rows[column]) if rows[column].null_count else pa.array([], pa.bool_())


def _lacks(column: str) -> Callable[[_Rows], Mask]:
    types = tuple(t for t, needs in REQUIRED.items() if column in needs)

    def broken(rows: _Rows) -> Mask:
        if not rows[column].null_count:
            return pa.array([], pa.bool_())
        return pc.and_(rows.of(*types), pc.is_null(rows[column]))

    return broken


def _unknown_type(rows: _Rows) -> Mask:
    return pc.and_(rows.where(1 << len(_TYPES)), pc.is_valid(rows["event_type"]))


def _below(column: str, least: int) -> Callable[[_Rows], Mask]:
    return lambda rows: pc.less(rows[column], pa.scalar(least, rows[column].type))


def _unknown_detail(event_type: str) -> Callable[[_Rows], Mask]:
    words = pa.array(DETAILS[event_type])

    def broken(rows: _Rows) -> Mask:
        at = rows.of(event_type)
        if not pc.any(at).as_py():
            return pa.array([], pa.bool_())
        said = pc.or_(pc.is_valid(rows["detail"]), event_type == "broker_state")
        return pc.and_(pc.and_(at, said), pc.invert(pc.is_in(rows["detail"].cast(pa.string()), words)))

    return broken


def _outside_time(rows: _Rows) -> Mask:
    kind = rows["ts"].type
    return pc.or_(pc.less(rows["ts"], pa.scalar(FIRST, kind)), pc.greater(rows["ts"], pa.scalar(LAST, kind)))


def _hw_above_leo(rows: _Rows) -> Mask:
    own = pc.equal(rows["replica_id"], rows["broker_id"])
    return pc.and_(own, pc.greater(rows["hw"], rows["leo"]))


def _unassigned(rows: _Rows) -> Mask:
    known = pc.and_(pc.is_valid(rows["replicas"]), pc.is_valid(rows["replica_id"]))
    at = np.flatnonzero(np.asarray(known))
    if not len(at):
        return pa.array([], pa.bool_())
    replicas, replica = rows["replicas"].take(at).combine_chunks(), rows["replica_id"].take(at)
    parent = pc.list_parent_indices(replicas).to_numpy()
    same = pc.fill_null(pc.equal(pc.list_flatten(replicas), replica.take(pa.array(parent))), False)
    broken = np.zeros(len(rows.bits), bool)
    broken[at] = True
    broken[at[parent[np.asarray(same)]]] = False
    return pa.array(broken)


def _leads_without_isr(rows: _Rows) -> Mask:
    led = pc.or_kleene(rows.of("leader", "isr_proposed"), pc.greater_equal(rows["leader_id"], 0))
    return pc.and_(led, pc.equal(pc.list_value_length(rows["isr"]), 0))


def _no_broker(column: str) -> Callable[[_Rows], Mask]:
    def broken(rows: _Rows) -> Mask:
        lists = rows[column].combine_chunks()
        ids = pc.list_flatten(lists)
        wrong = np.asarray(pc.fill_null(pc.less(ids, 0), True))
        if not wrong.any():
            return pa.array([], pa.bool_())
        found = np.zeros(len(rows.bits), bool)
        found[pc.list_parent_indices(lists).to_numpy()[wrong]] = True
        return pa.array(found)

    return broken


def _on_no_partition(rows: _Rows) -> Mask:
    of_partitions = rows.of(*(name for name in _TYPES if name not in BROKER_WIDE))
    return pc.and_(of_partitions, pc.equal(rows["partition"], -1))


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
    RowRule(
        "missing_config",
        ("min_isr", "lag_max_ms"),
        lambda rows: pc.and_(rows.of("config"), pc.and_(pc.is_null(rows["min_isr"]), pc.is_null(rows["lag_max_ms"]))),
    ),
    *(RowRule(f"unknown_detail_of_{t}", ("detail",), _unknown_detail(t)) for t in DETAILS),
    *(RowRule(f"{column}_below_{least}", (column,), _below(column, least)) for column, least in _LEAST.items()),
    RowRule(
        "replica_id_below_0",
        ("replica_id",),
        lambda rows: pc.less(rows["replica_id"], 0),
    ),
    RowRule("level_above_3", ("level",), lambda rows: pc.greater(rows["level"], 3)),
    RowRule("time_outside_2010_to_2100", ("ts",), _outside_time),
    RowRule("hw_above_leo", ("hw", "leo", "replica_id"), _hw_above_leo),
    RowRule("replica_not_assigned", ("replica_id", "replicas"), _unassigned),
    RowRule("empty_isr_with_leader", ("isr", "leader_id", "broker_id"), _leads_without_isr),
    *(RowRule(f"no_broker_in_{column}", (column,), _no_broker(column)) for column in ("isr", "replicas")),
    RowRule("partition_event_without_partition", ("event_type", "partition"), _on_no_partition),
    RowRule(
        "broker_wide_event_on_partition",
        ("event_type", "partition"),
        lambda rows: pc.and_(rows.of(*BROKER_WIDE), pc.greater_equal(rows["partition"], 0)),
    ),
    RowRule(
        "missing_topic",
        ("event_type", "partition"),
        lambda rows: pc.and_(pc.is_null(rows["topic"]), pc.greater_equal(rows["partition"], 0)),
    ),
)
"""Every row rule, in the order in which reasons are given."""
