"""Arrow columns of the silver tables, from numbers, codes of words, and bit masks of replicas."""

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
"""Kernel rows by column name."""
ID = REPLICAS.at.id


def bigints(values: I64, nullable: bool = True) -> pa.Array:
    """64-bit numbers with NULL as null; not `nullable`: none is."""
    return _nullable(values, NULL, pa.int64(), nullable)


def ints(values: I32, nullable: bool = True) -> pa.Array:
    """32-bit numbers with NULL32 as null; not `nullable`: none is."""
    return _nullable(values.astype(np.int32, copy=False), NULL32, pa.int32(), nullable)


def times(values: I64, nullable: bool = True) -> pa.Array:
    """Microseconds as UTC timestamps, NULL as null; if not `nullable`, there is no NULL."""
    return _nullable(values, NULL, pa.timestamp("us", tz="UTC"), nullable)


def _nullable(values: npt.NDArray[Any], null: int, kind: pa.DataType, nullable: bool) -> pa.Array:
    """The values without a copy, those equal to `null` marked as null."""
    validity = None
    if nullable and not (valid := values != null).all():
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


WORD = 16
"""Bytes that are copied at once, whether the word has as many or not."""


class Vocabulary(NamedTuple):
    """Words, and their bytes side by side: word k stands at ends[k] to ends[k + 1]; WORD spare bytes follow."""

    words: Sequence[str]
    ends: I64
    letters: Bits

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Vocabulary:
        encoded = [word.encode() for word in words]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(words, ends, np.frombuffer(b"".join(encoded) + bytes(WORD), np.uint8))


LONG_RUN, SHARED_ROWS = 512, 1 << 16
"""The average length of runs of one word above which they are made of shared arrays, and the length of such an
array."""


def word_column(codes: I8 | I32 | I64, vocabulary: Sequence[str] | Vocabulary, sizes: I64 | None = None) -> pa.Array:
    """Codes as words; a negative code is null. Code k stands for sizes[k] rows, without `sizes` for one.

    Long runs of one word cost next to nothing.
    """
    known = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary.from_words(vocabulary)
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)[: len(codes)]
    run_codes, run_sizes = codes[starts].astype(np.int64), _run_sizes(starts, len(codes), sizes)
    if not len(run_codes) or len(run_codes) * LONG_RUN > run_sizes.sum() or (run_codes < 0).any():
        return _spelled(run_codes, run_sizes, known)
    parts = [
        part
        for code, count in zip(run_codes.tolist(), run_sizes.tolist(), strict=True)
        for part in _repeated(known.words[code], count)
    ]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _run_sizes(starts: I64, end: int, sizes: I64 | None) -> I64:
    """The number of rows in each run of codes; the last run goes to `end`."""
    sums: I64 = np.append(starts[1:], end)[: len(starts)] - starts if sizes is None else np.add.reduceat(sizes, starts)
    return sums


def _spelled(codes: I64, sizes: I64, vocabulary: Vocabulary) -> pa.Array:
    """Codes that stand for so many rows each as words, byte by byte."""
    null, count = codes < 0, int(sizes.sum())
    ends = np.zeros(count + 1, dtype=np.int32)
    bounds = vocabulary.ends
    length = int(((bounds[codes + 1] - bounds[codes]) * sizes)[~null].sum())
    letters = np.empty(length + WORD, dtype=np.uint8)
    _spell(codes, sizes, bounds, vocabulary.letters, ends, letters)
    validity = pa.py_buffer(np.packbits(np.repeat(~null, sizes), bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(pa.string(), count, [validity, pa.py_buffer(ends), pa.py_buffer(letters)])


@kernel
def _spell(codes: I64, sizes: I64, bounds: I64, letters: Bits, ends: I32, into: Bits) -> None:
    """Write the bytes of the words, and where each ends. The rows of a run are copied, twice as many each time.

    Unsigned numbers throughout: for signed ones numba checks at each access whether they count from the end.
    """
    one, row, at = np.uint64(1), np.uint64(0), np.uint64(0)
    for run in range(np.uint64(len(codes))):
        code, same = codes[run], np.uint64(sizes[run])
        first = np.uint64(bounds[max(code, 0)])
        length = np.uint64(bounds[code + 1]) - first if code >= 0 else np.uint64(0)
        for k in range(np.uint64(WORD)):  # most words end here; a loop of constant length needs no branch
            into[at + k] = letters[first + k]
        for k in range(np.uint64(WORD), length):
            into[at + k] = letters[first + k]
        done, total = length, same * length
        while done < total:
            more = min(done, total - done)
            for k in range(more):
                into[at + done + k] = into[at + k]
            done += more
        for k in range(same):
            ends[row + k + one] = np.int64(at) + np.int64(k + one) * np.int64(length)
        at, row = at + total, row + same


def _repeated(word: str, count: int) -> list[pa.Array]:
    """A word `count` times, as shared arrays."""
    shared = _shared(word)
    return [shared] * (count // SHARED_ROWS) + ([shared.slice(0, count % SHARED_ROWS)] if count % SHARED_ROWS else [])


@lru_cache(maxsize=16)
def _shared(word: str) -> pa.Array:
    """A word SHARED_ROWS times."""
    letters = word.encode()
    ends = np.arange(SHARED_ROWS + 1, dtype=np.int32) * np.int32(len(letters))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters * SHARED_ROWS)]
    return pa.Array.from_buffers(pa.string(), SHARED_ROWS, buffers)


class LaneReplicas(NamedTuple):
    """The replicas of all lanes, `width` slots each."""

    lanes: Records
    replicas: Records
    width: int


def lane_replicas(state: State) -> LaneReplicas:
    return LaneReplicas(state.lanes.data, state.replicas.data, state.replicas.width)


@hot
def sort_slots(known: LaneReplicas, lane: int, slots: I64, ids: I32) -> int:
    """Write the `slots` and `ids` of a lane's replicas in ascending order of the ids; how many there are."""
    count = known.lanes[lane, LANES.at.slots]
    for k in range(count):
        replica, to = known.replicas[lane * known.width + k, ID], k
        while to > 0 and ids[to - 1] > replica:
            slots[to], ids[to] = slots[to - 1], ids[to - 1]
            to -= 1
        slots[to], ids[to] = k, replica
    return int(count)


@hot
def write_list(mask: int, slots: I64, ids: I32, count: int, into: I32, at: np.uint64) -> np.uint64:
    """Write the ids of the replicas in a mask from `at` on; returns where they end.

    Every id is written, and overwritten by the next where the mask does not have it: so there is no branch to predict,
    and `into` needs room for one more.
    """
    for k in range(count):
        into[at] = ids[k]
        at += np.uint64((mask >> slots[k]) & 1)
    return at


@kernel
def _write_lists(masks: I64, lanes: I64, known: LaneReplicas, slots: I64, ids: I32, ends: I32, values: I32) -> None:
    lane, count, at = np.int64(-1), 0, np.uint64(0)
    for row in range(len(masks)):
        if lanes[row] != lane:
            lane = lanes[row]
            count = sort_slots(known, lane, slots, ids)
        ends[row] = at
        at = write_list(masks[row], slots, ids, count, values, at)
    ends[len(masks)] = at


def members(state: State, masks: I64, lanes: I64) -> pa.Array:
    """Bit masks over the replica slots of lanes as sorted lists of replica ids."""
    width = state.replicas.width
    ends, values = (np.empty(size, dtype=np.int32) for size in (len(masks) + 1, len(masks) * width + 1))
    slots, ids = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int32)
    _write_lists(masks, lanes, lane_replicas(state), slots, ids, ends, values)
    return list_array(ends, values)


def list_array(ends: I32, values: I32) -> pa.Array:
    """Lists of values that stand side by side, from ends[k] to ends[k + 1]."""
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values[: ends[-1]]))


class NameColumns:
    """The columns cluster, topic and topic_id, from the numbers of topics and topic ids."""

    def __init__(self, state: State) -> None:
        self.known = len(state.topic_ids.all)
        clusters, topics = zip(*state.topics.all, strict=True) if state.topics.all else ((), ())
        self._cluster = np.array([state.clusters.number(name) for name in clusters], dtype=np.int32)
        self._topics = Vocabulary.from_words(topics)
        self._clusters, self._topic_ids = (
            Vocabulary.from_words([str(name[0]) for name in names.all]) for names in (state.clusters, state.topic_ids)
        )

    def columns(self, topic: I64, topic_id: I32 | I64, sizes: I64 | None = None) -> dict[str, pa.Array]:
        """The three columns; number k stands for sizes[k] rows, without `sizes` for one."""
        rows = len(topic_id) if sizes is None else int(sizes.sum())
        any_topic_id = bool((topic_id >= 0).any())
        return {
            "cluster": word_column(self._cluster[topic], self._clusters, sizes),
            "topic": word_column(topic, self._topics, sizes),
            "topic_id": (
                word_column(topic_id, self._topic_ids, sizes) if any_topic_id else pa.nulls(rows, pa.string())
            ),
        }


def place_columns(state: State, lanes: I64, topic_id: I32) -> dict[str, pa.Array]:
    """cluster, topic, topic_id, partition and leader of rows that belong to lanes."""
    keys = state.partition_keys.keys[state.lanes["partition"][lanes]]
    return {
        **NameColumns(state).columns(state.lanes["topic"][lanes], topic_id),
        "partition": pa.array((keys & 0xFFFFFFFF).astype(np.int32)),
        "leader_id": ints(state.lanes["broker"][lanes]),
    }


def replica_hw(state: State, rows: Rows) -> pa.Table:
    """silver/replica_hw: the HWs of followers as the kernel computes them."""
    rows = _where(rows, rows["state"] == REPLICA_HW)
    if not len(rows["lane"]):
        return EMPTY["replica_hw"]
    return table(SCHEMAS["replica_hw"], {
        **place_columns(state, rows["lane"], rows["topic_id"]),
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
    rows = _where(rows, rows["state"] < REPLICA_HW)
    if not len(rows["lane"]):
        return EMPTY["replica_sync"]
    lanes, leo, leader_leo = rows["lane"], rows["leo"], rows["leader_leo"]
    unknown = (leo < 0) | (leader_leo == NULL)
    never = rows["caught_up"] == NULL
    return table(SCHEMAS["replica_sync"], {
        **place_columns(state, lanes, rows["topic_id"]),
        "ts": times(rows["ts"]),
        "leader_epoch": ints(rows["leader_epoch"]),
        "replica_id": pa.array(rows["replica"]),
        "state": word_column(rows["state"], STATES),
        "previous_state": word_column(rows["previous"], STATES),
        "in_isr": pa.array(rows["in_isr"] == 1, mask=rows["in_isr"] == NULL),
        "last_caught_up_ts": times(rows["caught_up"]),
        "leo": pa.array(leo, mask=leo < 0),
        "leader_leo": bigints(leader_leo),
        "lag_records": pa.array(np.where(unknown, 0, leader_leo - leo), mask=unknown),
        "lag_ms": pa.array(np.where(never, 0, (rows["ts"] - rows["caught_up"]) // 1000), mask=never),
        "reason": word_column(rows["reason"], REASONS),
        "level": pa.array(rows["level"]),
    })  # fmt: skip


def table_of_dicts(name: str, rows: list[Rows]) -> pa.Table:
    """Rows given as dictionaries, in the schema of their table; times in microseconds."""
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name]) if rows else EMPTY[name]
