"""From numbers and masks to the silver tables: names come back, masks become lists of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.arrays import Records
from pipelines.replication.columns import I8, I32, I64, NULL, NULL32
from pipelines.replication.compiled import compiled, kernel
from pipelines.replication.facts import EMPTY, SCHEMAS, table
from pipelines.replication.intake import Batch
from pipelines.replication.lanes import REASONS, REPLICA_HW, REPLICAS, STATES
from pipelines.replication.pieces import Bits
from pipelines.replication.state import State

Rows = dict[str, Any]
ID = REPLICAS.at.id


def bigints(values: I64) -> pa.Array:
    """64-bit numbers with NULL as null."""
    return _nullable(values, NULL, pa.int64())


def ints(values: I32) -> pa.Array:
    """32-bit numbers with NULL32 as null."""
    return _nullable(values.astype(np.int32, copy=False), NULL32, pa.int32())


def times(values: I64) -> pa.Array:
    """Microseconds as UTC timestamps."""
    return _nullable(values, NULL, pa.timestamp("us", tz="UTC"))


def _nullable(values: npt.NDArray[Any], null: int, kind: pa.DataType) -> pa.Array:
    """The values as they stand, those equal to `null` marked as null."""
    absent = values == null
    told = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
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


STRETCH, ALIKE = 512, 1 << 15
"""Rows on average that must say the same for copies to be worth it, and how many copies are kept."""


def words(codes: I8 | I32, vocabulary: Sequence[str] | Vocabulary) -> pa.Array:
    """Codes as words; a negative code is null. Long stretches of rows that say the same cost next to nothing."""
    known = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary.of(vocabulary)
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    if len(starts) * STRETCH > len(codes) or (codes[starts] < 0).any():
        return _spelt(codes, known)
    size, said = np.diff(starts, append=len(codes)).tolist(), codes[starts].tolist()
    parts = [part for code, n in zip(said, size, strict=True) for part in _stretch(known.said[code], n)]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _spelt(codes: I8 | I32, vocabulary: Vocabulary) -> pa.Array:
    """Codes as words, letter by letter."""
    codes, null = codes.astype(np.int32), codes < 0
    ends = np.zeros(len(codes) + 1, dtype=np.int32)
    letters = np.empty(_length(codes, vocabulary.ends) + WORD, dtype=np.uint8)
    _spell(codes, vocabulary.ends, vocabulary.letters, ends, letters)
    told = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(pa.string(), len(codes), [told, pa.py_buffer(ends), pa.py_buffer(letters)])


@kernel
def _length(codes: I32, bounds: I64) -> int:
    """How many letters these words have."""
    count = 0
    for code in codes:
        count += bounds[code + 1] - bounds[code] if code >= 0 else 0
    return int(count)


@kernel
def _spell(codes: I32, bounds: I64, letters: Bits, ends: I32, into: Bits) -> None:
    """Writes the letters of the words, and where each ends; rows that say the same are copied, twice as many each
    time. (Numbers without a sign: numba would ask of each place whether it counts from the end.)"""
    one, row, at = np.uint64(1), np.uint64(0), np.uint64(0)
    count = np.uint64(len(codes))
    while row < count:
        code, same = codes[row], row + one
        while same < count and codes[same] == code:
            same += one
        first = np.uint64(bounds[max(code, 0)])
        size = np.uint64(bounds[code + 1]) - first if code >= 0 else np.uint64(0)
        for k in range(np.uint64(WORD)):  # most end here; a loop of a known length needs no branch
            into[at + k] = letters[first + k]
        for k in range(np.uint64(WORD), size):
            into[at + k] = letters[first + k]
        done, stretch = size, (same - row) * size
        while done < stretch:
            more = min(done, stretch - done)
            for k in range(more):
                into[at + done + k] = into[at + k]
            done += more
        for k in range(same - row):
            ends[row + k + one] = np.int64(at) + np.int64(k + one) * np.int64(size)
        at, row = at + stretch, same


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


@compiled
def _members(masks: I64, lanes: I64, replicas: Records, width: int, offsets: I32, values: I32) -> None:
    at, lane = 0, np.int64(-1)
    slots, ids = np.zeros(width, dtype=np.int64), np.zeros(width, dtype=np.int32)
    for row in range(len(masks)):
        if lanes[row] != lane:
            lane = lanes[row]
            for k in range(width):
                replica, to = replicas[lane * width + k, ID], k
                while to > 0 and ids[to - 1] > replica:
                    slots[to], ids[to] = slots[to - 1], ids[to - 1]
                    to -= 1
                slots[to], ids[to] = k, replica
        offsets[row] = at
        for k in range(width):
            if (masks[row] >> slots[k]) & 1:
                values[at] = ids[k]
                at += 1
    offsets[len(masks)] = at


def members(state: State, masks: I64, lanes: I64) -> pa.Array:
    """Masks over the slots of lanes as sorted lists of replica ids."""
    width = state.replicas.width
    count = int(np.bitwise_count(masks).sum())
    offsets, values = np.empty(len(masks) + 1, dtype=np.int32), np.empty(count, dtype=np.int32)
    _members(masks, lanes, state.replicas.data, width, offsets, values)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


class Naming:
    """The names that the numbers of topics and topic ids stand for."""

    def __init__(self, state: State) -> None:
        clusters, topics = zip(*state.topics.all, strict=True) if state.topics.all else ((), ())
        self._cluster = np.array([state.clusters.number(name) for name in clusters], dtype=np.int32)
        self._topics = Vocabulary.of(topics)
        self._clusters, self._topic_ids = (
            Vocabulary.of([str(name[0]) for name in names.all]) for names in (state.clusters, state.topic_ids)
        )

    def columns(self, topic: I32, topic_id: I32) -> dict[str, pa.Array]:
        """cluster, topic and topic_id."""
        some = bool((topic_id >= 0).any())
        return {
            "cluster": words(self._cluster[topic], self._clusters),
            "topic": words(topic, self._topics),
            "topic_id": words(topic_id, self._topic_ids) if some else pa.nulls(len(topic_id), pa.string()),
        }


def places(state: State, lanes: I64, topic_id: I32) -> dict[str, pa.Array]:
    """cluster, topic, topic_id, partition and leader of rows that belong to lanes."""
    keys = state.partition_keys.keys[state.lanes["partition"][lanes]]
    return {
        **Naming(state).columns(state.lanes["topic"][lanes].astype(np.int32), topic_id),
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


def reported_hws(batch: Batch, rows: I64) -> pa.Table:
    """silver/replica_hw: what brokers told of their HW as followers (`rows` of the micro-batch)."""
    told = batch.events.take(pa.array(rows))
    schema = SCHEMAS["replica_hw"]
    made = {f.name: told[f.name] for f in schema if f.name in told.column_names}
    made |= {"hw": pa.nulls(len(rows)), "reported_hw": told["hw"]}
    return table(schema, made)


def listed(name: str, rows: list[Rows]) -> pa.Table:
    """Rows given as dicts, in the schema of their table; times in microseconds."""
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name]) if rows else EMPTY[name]
