"""The bulk load's numbers as columns of `bronze/replication_events`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import replication_events

Rows = dict[str, np.ndarray]
"""Columns of some rows: ts, broker, partition and kind, and of the rest (see _ABSENT) those that are present."""

REPLICAS = 3
PARTITIONS_OF_A_TOPIC = 1000
LEADER, APPEND, FETCH, PROGRESS, PROPOSED, ISR = range(6)
_TYPES = pa.array(["leader", "append", "fetch", "progress", "isr_proposed", "isr"])
NONE, FULL, SHRUNK = range(3)
"""Which ISR a row has: all replicas, or those without the first follower."""
SHRINK, EXPAND, ALTERED = range(3)
_DETAILS = pa.array(["shrink", "expand", "alter_partition"])
_ABSENT = {"replica": -1, "leo": -1, "leader_leo": -1, "isr": NONE, "detail": -1, "partition_epoch": -1}


class Numbers:
    """The next `source_seq` of each broker, and `seq` of each partition and of each broker's own rows."""

    def __init__(self, partitions: int, brokers: int) -> None:
        self.partitions, self.brokers = partitions, brokers
        self._following = np.zeros(brokers, dtype=np.int64)
        self._seq = np.zeros(partitions + brokers, dtype=np.int64)

    def of(self, broker: np.ndarray, partition: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(source_seq, seq) of the next rows."""
        series = np.where(partition < 0, self.partitions + broker, partition)
        return _numbered(broker, self._following), _numbered(series, self._seq)


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows in the order in which their brokers report them."""
    columns = {
        name: np.concatenate([p[name] if name in p else np.full(len(p["ts"]), _ABSENT[name]) for p in parts])
        for name in ("ts", "broker", "partition", "kind", *_ABSENT)
    }
    order = np.lexsort((columns["ts"], columns["broker"]))
    return {name: column[order] for name, column in columns.items()}


def table(c: Rows, numbers: Numbers) -> pa.Table:
    """The rows in bronze schema."""
    count, brokers = len(c["ts"]), numbers.brokers
    starts, wide = c["kind"] == LEADER, c["partition"] < 0
    source_seq, seq = numbers.of(c["broker"], c["partition"])
    topics = [f"topic-{t}" for t in range((numbers.partitions - 1) // PARTITIONS_OF_A_TOPIC + 1)]
    isr = np.where(starts, FULL, c["isr"])
    made = {
        "cluster": _words(np.zeros(count), ["bench"]),
        "source_id": _words(c["broker"], [f"broker-{b}/replication.log" for b in range(brokers)]),
        "source_epoch": np.zeros(count, dtype=np.int32),
        "source_seq": source_seq,
        "seq": seq,
        "ts": pa.array(c["ts"]),
        "broker_id": c["broker"],
        "event_type": _words(c["kind"], _TYPES),
        "topic": _words(np.where(wide, -1, c["partition"] // PARTITIONS_OF_A_TOPIC), topics),
        "partition": np.where(wide, -1, c["partition"] % PARTITIONS_OF_A_TOPIC),
        "leader_id": pa.array(c["broker"], mask=wide),
        "leader_epoch": _nullable(np.where(starts, 0, -1)),
        "partition_epoch": _nullable(np.where(starts, 0, c["partition_epoch"])),
        "replica_id": _nullable(c["replica"]),
        "leo": _nullable(c["leo"]),
        "leader_leo": pa.array(c["leader_leo"], mask=c["kind"] != APPEND),
        "hw": _nullable(np.where(starts, 0, -1)),
        "isr": _members(isr, c["broker"], brokers),
        "replicas": _members(np.where(starts, FULL, NONE), c["broker"], brokers),
        "level": np.full(count, 3, dtype=np.int32),
        "detail": _words(c["detail"], _DETAILS),
    }  # fmt: skip
    schema, none = replication_events.ARROW, pa.nulls(count)
    arrays = [pa.array(made[f.name]).cast(f.type) if f.name in made else none.cast(f.type) for f in schema]
    return pa.table(arrays, schema=schema)


def _numbered(of: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Contiguous numbers per group, going on from `last`."""
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=len(last))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    numbers = np.empty(len(of), dtype=np.int64)
    numbers[order] = np.arange(len(of)) - np.repeat(starts, counts) + np.repeat(last, counts)
    last += counts
    return numbers


def _words(codes: np.ndarray, vocabulary: Sequence[str] | pa.Array) -> pa.Array:
    """Words by number, null below 0."""
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0), pa.array(vocabulary, pa.string())
    ).cast(pa.string())


def _nullable(values: np.ndarray) -> pa.Array:
    """Numbers, null below 0."""
    return pa.array(values, mask=values < 0)


def _members(which: np.ndarray, leader: np.ndarray, brokers: int) -> pa.Array:
    """Lists of replicas: the leader and the next brokers; null where NONE."""
    rows = np.flatnonzero(which != NONE)
    replicas = (leader[rows, None] + np.arange(REPLICAS)) % brokers
    kept = np.ones(replicas.shape, dtype=np.bool_)
    kept[:, 1] = which[rows] == FULL
    sizes = np.zeros(len(which), dtype=np.int64)
    sizes[rows] = kept.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    values = pa.array(replicas[kept].astype(np.int32))
    return pc.if_else(pa.array(which == NONE), None, pa.ListArray.from_arrays(pa.array(offsets), values))
