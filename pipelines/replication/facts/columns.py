"""From numbers and masks to the silver tables: names come back, masks become lists of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I8, I32, I64, NULL, NULL32
from pipelines.replication.events.row_slices import Bits
from pipelines.replication.facts.tables import EMPTY, SCHEMAS, table
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import LANES, REASONS, REPLICA_HW, REPLICAS, STATES

Rows = dict[str, Any]
ID = REPLICAS.at.id


def bigints(values: I64, some: bool = True) -> pa.Array:
    """64-bit numbers with NULL as null; not `some`: there is none."""
    return _nullable(values, NULL, pa.int64(), some)


def ints(values: I32, some: bool = True) -> pa.Array:
    """32-bit numbers with NULL32 as null; not `some`: there is none."""
    return _nullable(values.astype(np.int32, copy=False), NULL32, pa.int32(), some)


def times(values: I64, some: bool = True) -> pa.Array:
    """Microseconds as UTC timestamps; not `some`: none is null."""
    return _nullable(values, NULL, pa.timestamp("us", tz="UTC"), some)


def _nullable(values: npt.NDArray[Any], null: int, kind: pa.DataType, some: bool) -> pa.Array:
    """The values as they stand, those equal to `null` marked as null."""
    told = None
    if some and not (present := values != null).all():
        told = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [told, pa.py_buffer(np.ascontiguousarray(values))])


WORD = 16
"""Letters that are written at once, whether the word has as many or not."""


class Vocabulary(NamedTuple):
    """Words, and their letters side by side: those of word k stand at ends[k] to ends[k + 1]. Room for WORD letters
    follows."""

    said: Sequence[str]
    ends: I64
    letters: Bits

    @classmethod
    def of(cls, said: Sequence[str]) -> Vocabulary:
        written = [word.encode() for word in said]
        ends = np.cumsum([0, *map(len, written)], dtype=np.int64)
        return cls(said, ends, np.frombuffer(b"".join(written) + bytes(WORD), np.uint8))


STRETCH, ALIKE = 512, 1 << 16
"""Rows on average that must say the same for copies to be worth it, and how many copies are kept."""


def words(codes: I8 | I32 | I64, vocabulary: Sequence[str] | Vocabulary, each: I64 | None = None) -> pa.Array:
    """Codes as words; a negative code is null. A code stands for one row, or for as many as `each` says. Long
    stretches of rows that say the same cost next to nothing."""
    known = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary.of(vocabulary)
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)[: len(codes)]
    said, size = codes[starts].astype(np.int64), _sums(starts, len(codes), each)
    if not len(said) or len(said) * STRETCH > size.sum() or (said < 0).any():
        return _spelt(said, size, known)
    parts = [
        part for code, n in zip(said.tolist(), size.tolist(), strict=True) for part in _stretch(known.said[code], n)
    ]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _sums(starts: I64, end: int, each: I64 | None) -> I64:
    """How many rows stand between these starts, up to `end`."""
    sums: I64 = np.append(starts[1:], end)[: len(starts)] - starts if each is None else np.add.reduceat(each, starts)
    return sums


def _spelt(codes: I64, size: I64, vocabulary: Vocabulary) -> pa.Array:
    """Codes that stand for so many rows each as words, letter by letter."""
    null, count = codes < 0, int(size.sum())
    ends = np.zeros(count + 1, dtype=np.int32)
    bounds = vocabulary.ends
    length = int(((bounds[codes + 1] - bounds[codes]) * size)[~null].sum())
    letters = np.empty(length + WORD, dtype=np.uint8)
    _spell(codes, size, bounds, vocabulary.letters, ends, letters)
    told = pa.py_buffer(np.packbits(np.repeat(~null, size), bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(pa.string(), count, [told, pa.py_buffer(ends), pa.py_buffer(letters)])


@kernel
def _spell(codes: I64, size: I64, bounds: I64, letters: Bits, ends: I32, into: Bits) -> None:
    """Writes the letters of the words, and where each ends; rows that say the same are copied, twice as many each
    time. (Numbers without a sign: numba would ask of each place whether it counts from the end.)"""
    one, row, at = np.uint64(1), np.uint64(0), np.uint64(0)
    for stretch in range(np.uint64(len(codes))):
        code, same = codes[stretch], np.uint64(size[stretch])
        first = np.uint64(bounds[max(code, 0)])
        length = np.uint64(bounds[code + 1]) - first if code >= 0 else np.uint64(0)
        for k in range(np.uint64(WORD)):  # most end here; a loop of a known length needs no branch
            into[at + k] = letters[first + k]
        for k in range(np.uint64(WORD), length):
            into[at + k] = letters[first + k]
        done, whole = length, same * length
        while done < whole:
            more = min(done, whole - done)
            for k in range(more):
                into[at + done + k] = into[at + k]
            done += more
        for k in range(same):
            ends[row + k + one] = np.int64(at) + np.int64(k + one) * np.int64(length)
        at, row = at + whole, row + same


def _stretch(word: str, count: int) -> list[pa.Array]:
    """So many rows that say a word."""
    alike = _alike(word)
    return [alike] * (count // ALIKE) + ([alike.slice(0, count % ALIKE)] if count % ALIKE else [])


@lru_cache(maxsize=16)
def _alike(word: str) -> pa.Array:
    """A word ALIKE times."""
    letters = word.encode()
    ends = np.arange(ALIKE + 1, dtype=np.int32) * np.int32(len(letters))
    return pa.Array.from_buffers(pa.string(), ALIKE, [None, pa.py_buffer(ends), pa.py_buffer(letters * ALIKE)])


@hot
def sort_slots(L: Records, R: Records, width: int, lane: int, slots: I64, ids: I32) -> int:
    """The replicas of a lane in order: their `slots` and `ids`; how many there are."""
    count = L[lane, LANES.at.slots]
    for k in range(count):
        replica, to = R[lane * width + k, ID], k
        while to > 0 and ids[to - 1] > replica:
            slots[to], ids[to] = slots[to - 1], ids[to - 1]
            to -= 1
        slots[to], ids[to] = k, replica
    return int(count)


@hot
def write_list(mask: int, slots: I64, ids: I32, count: int, into: I32, at: np.uint64) -> np.uint64:
    """Writes which of these replicas a mask names, from `at` on; where they end. (All are written, and those that it
    does not name written over: no branch to foretell. So there is room for one more.)"""
    for k in range(count):
        into[at] = ids[k]
        at += np.uint64((mask >> slots[k]) & 1)
    return at


@kernel
def _members(
    masks: I64, lanes: I64, L: Records, R: Records, width: int, slots: I64, ids: I32, ends: I32, values: I32
) -> None:  # fmt: skip
    lane, count, at = np.int64(-1), 0, np.uint64(0)
    for row in range(len(masks)):
        if lanes[row] != lane:
            lane = lanes[row]
            count = sort_slots(L, R, width, lane, slots, ids)
        ends[row] = at
        at = write_list(masks[row], slots, ids, count, values, at)
    ends[len(masks)] = at


def members(state: State, masks: I64, lanes: I64) -> pa.Array:
    """Masks over the slots of lanes as sorted lists of replica ids."""
    width = state.replicas.width
    ends, values = (np.empty(size, dtype=np.int32) for size in (len(masks) + 1, len(masks) * width + 1))
    slots, ids = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int32)
    _members(masks, lanes, state.lanes.data, state.replicas.data, width, slots, ids, ends, values)
    return lists(ends, values)


def lists(ends: I32, values: I32) -> pa.Array:
    """Lists of values that stand side by side, from the number of `ends` of each to the next."""
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values[: ends[-1]]))


class Naming:
    """The names that the numbers of topics and topic ids stand for."""

    def __init__(self, state: State) -> None:
        clusters, topics = zip(*state.topics.all, strict=True) if state.topics.all else ((), ())
        self._cluster = np.array([state.clusters.number(name) for name in clusters], dtype=np.int32)
        self._topics = Vocabulary.of(topics)
        self._clusters, self._topic_ids = (
            Vocabulary.of([str(name[0]) for name in names.all]) for names in (state.clusters, state.topic_ids)
        )

    def columns(self, topic: I64, topic_id: I32 | I64, each: I64 | None = None) -> dict[str, pa.Array]:
        """cluster, topic and topic_id, of as many rows as `each` says."""
        rows = len(topic_id) if each is None else int(each.sum())
        some = bool((topic_id >= 0).any())
        return {
            "cluster": words(self._cluster[topic], self._clusters, each),
            "topic": words(topic, self._topics, each),
            "topic_id": words(topic_id, self._topic_ids, each) if some else pa.nulls(rows, pa.string()),
        }


def places(state: State, lanes: I64, topic_id: I32) -> dict[str, pa.Array]:
    """cluster, topic, topic_id, partition and leader of rows that belong to lanes."""
    keys = state.partition_keys.keys[state.lanes["partition"][lanes]]
    return {
        **Naming(state).columns(state.lanes["topic"][lanes], topic_id),
        "partition": pa.array((keys & 0xFFFFFFFF).astype(np.int32)),
        "leader_id": ints(state.lanes["broker"][lanes]),
    }


def replica_hw(state: State, rows: Rows) -> pa.Table:
    """silver/replica_hw: what the kernel computed of the followers' HWs."""
    rows = _where(rows, rows["state"] == REPLICA_HW)
    if not len(rows["lane"]):
        return EMPTY["replica_hw"]
    return table(SCHEMAS["replica_hw"], {
        **places(state, rows["lane"], rows["topic_id"]),
        "ts": times(rows["ts"]),
        "leader_epoch": ints(rows["leader_epoch"]),
        "replica_id": pa.array(rows["replica"]),
        "hw": bigints(rows["leo"]),
        "reported_hw": pa.nulls(len(rows["lane"])),
        "level": pa.array(rows["level"]),
    })  # fmt: skip


def _where(rows: Rows, mask: Any) -> Rows:
    return rows if mask.all() else {name: values[mask] for name, values in rows.items()}


def replica_sync(state: State, rows: Rows) -> pa.Table:
    """silver/replica_sync from the kernel's rows."""
    rows = _where(rows, rows["state"] != REPLICA_HW)
    if not len(rows["lane"]):
        return EMPTY["replica_sync"]
    lanes, leo, leader_leo = rows["lane"], rows["leo"], rows["leader_leo"]
    unknown = (leo < 0) | (leader_leo == NULL)
    never = rows["caught_up"] == NULL
    return table(SCHEMAS["replica_sync"], {
        **places(state, lanes, rows["topic_id"]),
        "ts": times(rows["ts"]),
        "leader_epoch": ints(rows["leader_epoch"]),
        "replica_id": pa.array(rows["replica"]),
        "state": words(rows["state"], STATES),
        "previous_state": words(rows["previous"], STATES),
        "in_isr": pa.array(rows["in_isr"]).cast(pa.bool_()),
        "last_caught_up_ts": times(rows["caught_up"]),
        "leo": pa.array(leo, mask=leo < 0),
        "leader_leo": bigints(leader_leo),
        "lag_records": pa.array(np.where(unknown, 0, leader_leo - leo), mask=unknown),
        "lag_ms": pa.array(np.where(never, 0, (rows["ts"] - rows["caught_up"]) // 1000), mask=never),
        "reason": words(rows["reason"], REASONS),
        "level": pa.array(rows["level"]),
    })  # fmt: skip


def listed(name: str, rows: list[Rows]) -> pa.Table:
    """Rows given as dicts, in the schema of their table; times in microseconds."""
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name]) if rows else EMPTY[name]
