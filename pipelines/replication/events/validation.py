"""What one event must satisfy by itself; rows that do not are set aside whole, with every reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.decorators import compiled, kernel
from pipelines.replication.compiled.types import I32, I64
from pipelines.replication.events.row_slices import Bits, Piece, pieces
from schemas import replication_events
from schemas.event_types import DETAILS, REQUIRED

TOPIC = r"\A[a-zA-Z0-9._-]{1,249}\z"
"""What Kafka takes for a topic's name (org.apache.kafka.common.internals.Topic), except `.` and `..`."""
LONGEST_WORD = 300
"""Characters of a bad value that a reason shows."""

BROKER_WIDE = ("broker_state", "config", "progress", "lost")
FIRST, LAST = datetime(2010, 1, 1, tzinfo=UTC), datetime(2100, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
NEVER = 1 << 62

_OF_PARTITIONS = tuple(name for name in REQUIRED if name not in BROKER_WIDE)
_OWN = ("replica_id", "broker_id")
_LEAST = {
    **dict.fromkeys(("leo", "leader_leo", "hw", "log_start", "leader_id", "broker_id", "partition"), -1),
    **dict.fromkeys(("source_epoch", "source_seq", "seq", "level"), 0),
    **dict.fromkeys(("min_isr", "lag_max_ms"), 1),
}

_NARROW = {f.name for f in replication_events.ARROW if f.type == pa.int32()}

Mask: TypeAlias = Any  # a boolean pyarrow Array; pyarrow ships no types


class _Rows:
    """A piece of events, and what many rules ask of it: kept once found."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self._codes, words = piece.codes("event_type")
        self._told = piece.valid("event_type")
        self._words: list[str | None] = words.to_pylist()
        self._by_code = np.zeros((len(self._words) + 7 & ~7, len(self._told)), dtype=np.uint8)
        for first in range(0, len(self._words), 8):
            _eight_codes(self._codes, first, self._by_code[first : first + 8])
        self.unknown = [word for word in self._words if word is not None and word not in REQUIRED]
        """Types that are none."""

    def __getitem__(self, column: str) -> pa.Array:
        return self.piece.columns[column]

    def some(self, *columns: str) -> bool:
        """Whether each of these columns holds a value."""
        return all(self[name].null_count < len(self.piece) for name in columns)

    def least(self, column: str) -> int:
        """None of a column's values is below this."""
        if not self.some(column):
            return NEVER
        return self.piece.bounds[column][0] if column in self.piece.bounds else int(self._values(column).min())

    def most(self, column: str) -> int:
        """None of a column's values is above this."""
        if not self.some(column):
            return -NEVER
        return self.piece.bounds[column][1] if column in self.piece.bounds else int(self._values(column).max())

    def _values(self, column: str) -> npt.NDArray[Any]:
        """The values of a column, and what stands under its nulls."""
        return self.piece.narrow(column) if column in _NARROW else self.piece.wide(column)

    def of(self, *types: str) -> Bits:
        """The rows of these types."""
        bits = np.zeros(len(self._told), dtype=np.uint8)
        for word in types:
            if word in self._words:
                bits |= self._by_code[self._words.index(word)]
        return bits & self._told

    @cached_property
    def alone(self) -> Bits:
        """The rows that are on no partition."""
        return _packed(self.piece.narrow("partition") < 0) & self.piece.valid("partition")

    @property
    def on_partition(self) -> Bits:
        """The rows that are on one."""
        return ~self.alone & self.piece.valid("partition")

    @cached_property
    def details(self) -> tuple[I64, I32, I32, list[str | None]]:
        """The rows of the types in DETAILS: (which, codes of their types, codes of their details, all such details)."""
        at = self.at(self.of(*DETAILS))
        told = self["detail"].take(pa.array(at))
        told = told.cast(pa.string()) if pa.types.is_dictionary(told.type) else told
        detail = told.dictionary_encode(null_encoding="encode")
        return at, self._codes[at], detail.indices.to_numpy(), detail.dictionary.to_pylist()

    def code(self, word: str) -> int:
        """The code of a type, -1 where no row is of it."""
        return self._words.index(word) if word in self._words else -1

    def ends(self, column: str) -> I32:
        """Where each of its lists begins among their values, and where the last one ends."""
        ends: I32 = self[column].offsets.to_numpy()
        return ends

    def told(self, *columns: str) -> I64:
        """Which rows hold a value in each of these columns."""
        return self.at(reduce(np.bitwise_and, (self.piece.valid(name) for name in columns)))

    def at(self, bits: Bits) -> I64:
        """These rows by number."""
        return _set(bits, np.flatnonzero(bits), len(self.piece))

    def only(self, rows: I64) -> Mask | None:
        """These rows as a mask, None where there are none."""
        if not len(rows):
            return None
        mask = np.zeros(len(self.piece), dtype=np.bool_)
        mask[rows] = True
        return pa.array(mask)

    def null(self, column: str) -> Bits:
        """The rows in which a column is null, and some that there are not."""
        return ~self.piece.valid(column)

    def mask(self, bits: Bits) -> pa.BooleanArray | None:
        """These rows as a mask, None where there are none."""
        if not bits.any():
            return None
        return pa.BooleanArray.from_buffers(pa.bool_(), len(self.piece), [None, pa.py_buffer(bits)])


def _packed(mask: npt.NDArray[np.bool_]) -> Bits:
    return np.packbits(mask, bitorder="little")


@kernel
def _eight_codes(codes: I32, first: int, found: npt.NDArray[np.uint8]) -> None:
    """The rows of codes `first` to `first + 7`, a bit per row; `found` is all zeros."""
    for byte in range(len(codes) >> 3):
        eight = np.uint64(0)
        for row in range(8):
            code = np.uint64(codes[8 * byte + row] - first)
            bit = np.uint64(1) << ((code << np.uint64(3) | np.uint64(row)) & np.uint64(63))
            eight |= bit if code < np.uint64(8) else np.uint64(0)
        for k in range(8):
            found[k, byte] = eight >> np.uint64(8 * k)
    for row in range(len(codes) & ~7, len(codes)):
        code = np.uint64(codes[row] - first)
        if code < np.uint64(8):
            found[code, row >> 3] |= np.uint8(1 << (row & 7))


@compiled
def _set(bits: Bits, some: I64, count: int) -> I64:
    """The places of the bits that are set, of the first `count`; `some` are the bytes that are not 0."""
    rows, found = np.empty(8 * len(some), dtype=np.int64), 0
    for byte in some:
        for row in range(byte * 8, min(byte * 8 + 8, count)):
            rows[found] = row
            found += (bits[byte] >> (row & 7)) & 1
    return rows[:found]


@dataclass(frozen=True)
class RowRule:
    """A rule's name, the columns whose values the reason shows, and the mask of rows that break it (null: holds).

    The mask is None where no row can break it: what a column holds at all tells so mostly, at a fraction of the cost.
    """

    name: str
    shows: tuple[str, ...]
    broken: Callable[[_Rows], Mask | None]


def split(events: pa.Table, cut: list[Piece] | None = None) -> tuple[pa.BooleanArray | None, pa.Table]:
    """Mask of the rows that satisfy every rule (None: all of them), and the others with `reasons: list<string>`.

    `cut`: the pieces of `events`, where there are some.
    """
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for piece in pieces(events) if cut is None else cut:
        for rule, mask in _broken(piece):
            found.setdefault(rule.name, np.zeros(len(events), dtype=np.bool_))[piece.rows] = mask
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


def _broken(piece: Piece) -> list[tuple[RowRule, npt.NDArray[np.bool_]]]:
    """The rules that rows of this piece break, and which rows."""
    rows, found = _Rows(piece), []
    for rule in ROW_RULES:
        mask = rule.broken(rows)
        if mask is not None and pc.any(mask).as_py():
            found.append((rule, np.asarray(pc.fill_null(mask, False))))
    return found


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
    word = "null" if value is None else str(value)
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"


def _is_null(column: str) -> Callable[[_Rows], Mask | None]:
    return lambda rows: pc.is_null(rows[column]) if rows[column].null_count else None


def _unknown_type(rows: _Rows) -> Mask | None:
    return rows.mask(rows.of(*rows.unknown))


def _lacks(column: str) -> Callable[[_Rows], Mask | None]:
    types = tuple(t for t, needs in REQUIRED.items() if column in needs)
    return lambda rows: rows.mask(rows.of(*types) & rows.null(column)) if rows[column].null_count else None


def _outside(column: str, least: Any = None, most: Any = None) -> Callable[[_Rows], Mask | None]:
    """Values below `least` or above `most`."""
    kind = replication_events.ARROW.field(column).type
    low, high = (pa.scalar(value, kind) for value in (least, most))
    below, above = (bound.cast(pa.int64()).as_py() for bound in (low, high))

    def broken(rows: _Rows) -> Mask | None:
        if (below is None or rows.least(column) >= below) and (above is None or rows.most(column) <= above):
            return None
        values = rows.piece.array(column)
        return pc.or_kleene(pc.less(values, low), pc.greater(values, high))

    return broken


def _missing_config(rows: _Rows) -> Mask | None:
    return rows.mask(rows.of("config") & rows.null("min_isr") & rows.null("lag_max_ms") & rows.null("detail"))


def _unknown_detail(event_type: str) -> Callable[[_Rows], Mask | None]:
    known = (*DETAILS[event_type], *([None] if event_type != "broker_state" else []))

    def broken(rows: _Rows) -> Mask | None:
        at, types, details, words = rows.details
        unknown = np.array([word not in known for word in words], dtype=np.bool_)
        return rows.only(at[(types == rows.code(event_type)) & unknown[details]]) if unknown.any() else None

    return broken


def _hw_above_leo(rows: _Rows) -> Mask | None:
    if not rows.some("hw", "leo", "replica_id"):
        return None
    at, (replica, broker) = rows.told("hw", "leo", "replica_id", "broker_id"), map(rows.piece.narrow, _OWN)
    hw, leo = rows.piece.wide("hw")[at], rows.piece.wide("leo")[at]
    return rows.only(at[(replica[at] == broker[at]) & (hw > leo)])


def _unassigned(rows: _Rows) -> Mask | None:
    if not rows.some("replicas", "replica_id"):
        return None
    at = rows.told("replicas", "replica_id")
    if not len(at):
        return None
    replicas, replica = rows["replicas"].take(pa.array(at)), rows["replica_id"].take(pa.array(at))
    parent = pc.list_parent_indices(replicas).to_numpy()
    same = pc.fill_null(pc.equal(pc.list_flatten(replicas), replica.take(pa.array(parent))), False)
    assigned = np.zeros(len(at), bool)
    assigned[parent[np.asarray(same)]] = True
    return rows.only(at[~assigned])


def _leads_without_isr(rows: _Rows) -> Mask | None:
    if not rows.some("isr"):
        return None
    at, ends = rows.told("isr"), rows.ends("isr")
    empty = rows.only(at[ends[at + 1] == ends[at]])
    if empty is None:
        return None
    of_one = _packed(rows.piece.narrow("leader_id") >= 0) & rows.piece.valid("leader_id")
    leads = rows.of("leader", "isr_proposed") | of_one
    return pc.and_(empty, rows.mask(leads)) if leads.any() else None


def _no_broker(column: str) -> Callable[[_Rows], Mask | None]:
    def broken(rows: _Rows) -> Mask | None:
        if not rows.some(column) or _all_brokers(rows[column], rows.ends(column)):
            return None
        wrong = np.asarray(pc.fill_null(pc.less(pc.list_flatten(rows[column]), 0), True))
        return rows.only(np.unique(pc.list_parent_indices(rows[column]).to_numpy()[wrong]))

    return broken


def _all_brokers(lists: pa.Array, ends: I32) -> bool:
    """Whether nothing that these lists hold, or that stands between them, is other than a broker's number."""
    held = lists.values.slice(ends[0], ends[-1] - ends[0])
    return not held.null_count and bool((held.to_numpy() >= 0).all())


def _on_no_partition(rows: _Rows) -> Mask | None:
    at = rows.at(rows.alone & rows.of(*_OF_PARTITIONS))
    return rows.only(at[rows.piece.narrow("partition")[at] == -1])


def _on_partition(rows: _Rows) -> Mask | None:
    return rows.only(rows.at(rows.of(*BROKER_WIDE) & rows.on_partition))


def _without_topic(rows: _Rows) -> Mask | None:
    if not rows["topic"].null_count:
        return None
    return rows.only(rows.at(rows.null("topic") & rows.on_partition))


def _illegal_topic(rows: _Rows) -> Mask | None:
    if not rows.some("topic"):
        return None
    codes, names = rows.piece.codes("topic")
    names = names.cast(pa.string())
    legal = pc.and_not(pc.match_substring_regex(names, TOPIC), pc.is_in(names, _DOTS))
    if pc.all(legal, min_count=0).as_py():
        return None
    at = rows.told("topic")
    return rows.only(at[~np.asarray(legal)[codes[at]]])


_DOTS = pa.array([".", ".."])

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
    RowRule("partition_event_without_partition", ("event_type", "partition"), _on_no_partition),
    RowRule("broker_wide_event_on_partition", ("event_type", "partition"), _on_partition),
    RowRule("missing_topic", ("event_type", "partition"), _without_topic),
    RowRule("illegal_topic", ("topic",), _illegal_topic),
)
"""Every row rule, in the order in which reasons are given."""
