"""Steady replication telemetry in bulk, for benchmarks: seeded, vectorised, straight into Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import replication_events

START_US = 1_795_000_000_000_000
SECOND_US = 1_000_000
REPLICAS = 3
_LEADER, _APPEND, _FETCH, _PROGRESS = range(4)
_TYPES = pa.array(["leader", "append", "fetch", "progress"])
_BEHIND = 0.1
"""Share of fetches that leave some of the second's records to the next one."""


def rounds(partitions: int, seconds: int, *, brokers: int = 12, seed: int = 1, step: int = 10) -> Iterator[pa.Table]:
    """Tables of events, `step` seconds each: every partition appends once a second and both followers fetch.

    Leaders spread over `brokers`; each broker is one source, which tells its progress at the end of each second
    and, so that all of it can be final, one second after the last.
    The first table begins with a `leader` event per partition. Three events per partition and second.
    """
    random = np.random.default_rng(seed)
    brokers = min(brokers, partitions)
    leader = np.arange(partitions) % brokers
    told = np.zeros(brokers, dtype=np.int64)
    leo = np.zeros(partitions, dtype=np.int64)
    seq = np.zeros(partitions + brokers, dtype=np.int64)
    for first in range(0, seconds, step):
        parts = [_leaders(leader)] if first == 0 else []
        for second in range(first, min(seconds, first + step)):
            grown = leo + random.integers(1, 20, partitions)
            parts += _second(second, random, leader, leo, grown, brokers)
            leo = grown
        if first + step >= seconds:
            parts.append(_progress(seconds, brokers))
        columns = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        order = np.lexsort((columns["ts"], columns["broker"]))
        yield _table({n: c[order] for n, c in columns.items()}, told, seq, brokers)


def _leaders(leader: np.ndarray) -> dict[str, np.ndarray]:
    zeros = np.zeros(len(leader), dtype=np.int64)
    return {
        "ts": zeros + START_US, "broker": leader, "partition": np.arange(len(leader)), "kind": zeros + _LEADER,
        "replica": zeros - 1, "leo": zeros, "leader_leo": zeros,
    }  # fmt: skip


def _second(
    second: int, random: np.random.Generator, leader: np.ndarray, leo: np.ndarray, grown: np.ndarray, brokers: int
) -> list[dict[str, np.ndarray]]:
    count = len(leader)
    begun = START_US + (second + 1) * SECOND_US
    at = begun + random.integers(0, 300_000, count)
    base = {"broker": leader, "partition": np.arange(count), "leader_leo": grown}
    parts = [base | {"ts": at, "kind": np.full(count, _APPEND), "replica": leader, "leo": grown}]
    for k in (1, 2):
        left = np.where(random.random(count) < _BEHIND, random.integers(0, 20, count), 0)
        took = {"ts": at + 5_000 * k, "kind": np.full(count, _FETCH), "leo": np.maximum(leo, grown - left)}
        parts.append(base | took | {"replica": (leader + k) % brokers})
    return [*parts, _progress(second, brokers)]


def _progress(second: int, brokers: int) -> dict[str, np.ndarray]:
    """A row of each broker at the last moment of a second."""
    none = np.full(brokers, -1)
    return {
        "ts": np.full(brokers, START_US + (second + 2) * SECOND_US - 1), "broker": np.arange(brokers),
        "partition": none, "kind": np.full(brokers, _PROGRESS), "replica": none, "leo": none, "leader_leo": none,
    }  # fmt: skip


def _numbers(of: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Contiguous numbers per group, going on from `last`."""
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=len(last))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    numbers = np.empty(len(of), dtype=np.int64)
    numbers[order] = np.arange(len(of)) - np.repeat(starts, counts) + np.repeat(last, counts)
    last += counts
    return numbers


def _words(codes: np.ndarray, vocabulary: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), vocabulary).cast(pa.string())


def _table(c: dict[str, np.ndarray], told: np.ndarray, seq: np.ndarray, brokers: int) -> pa.Table:
    count = len(c["ts"])
    starts, appends, fetches = (c["kind"] == kind for kind in (_LEADER, _APPEND, _FETCH))
    wide = c["partition"] < 0
    source_seq = _numbers(c["broker"], told)
    series = np.where(wide, len(seq) - brokers + c["broker"], c["partition"])
    none = pa.nulls(count)
    topics = pa.array([f"topic-{t}" for t in range(int(c["partition"].max()) // 1000 + 1)])
    first = np.where(starts, c["broker"], 0)
    isr = np.stack([first, (first + 1) % brokers, (first + 2) % brokers], axis=1)[starts].reshape(-1)
    offsets = np.concatenate([[0], np.cumsum(np.where(starts, REPLICAS, 0))])
    lists = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(isr.astype(np.int32)), mask=pa.array(~starts)
    )
    made = {
        "cluster": _words(np.zeros(count), pa.array(["bench"])),
        "source_id": _words(c["broker"], pa.array([f"broker-{b}/replication.log" for b in range(brokers)])),
        "source_epoch": np.zeros(count, dtype=np.int32),
        "source_seq": source_seq,
        "seq": _numbers(series, seq),
        "ts": pa.array(c["ts"]),
        "broker_id": c["broker"],
        "event_type": _words(c["kind"], _TYPES),
        "topic": pc.if_else(pa.array(wide), None, _words(np.maximum(c["partition"], 0) // 1000, topics)),
        "partition": np.where(wide, -1, c["partition"] % 1000),
        "leader_id": pa.array(c["broker"], mask=wide),
        "leader_epoch": pa.array(np.zeros(count, dtype=np.int32), mask=~starts),
        "partition_epoch": pa.array(np.zeros(count, dtype=np.int32), mask=~starts),
        "replica_id": pa.array(c["replica"], mask=~fetches),
        "leo": pa.array(c["leo"], mask=~(fetches | starts)),
        "leader_leo": pa.array(c["leader_leo"], mask=~appends),
        "hw": pa.array(np.zeros(count, dtype=np.int64), mask=~starts),
        "isr": lists,
        "replicas": lists,
        "level": np.full(count, 3, dtype=np.int32),
    }  # fmt: skip
    schema = replication_events.ARROW
    arrays = [pa.array(made[f.name]).cast(f.type) if f.name in made else none.cast(f.type) for f in schema]
    return pa.table(arrays, schema=schema)
