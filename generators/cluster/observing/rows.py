"""The bronze rows of a watcher, without their sequence numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from generators.cluster.metadata.lists import I64, Lists, Mask
from generators.cluster.metadata.partitions import Partitions
from generators.cluster.observing.answers import F64, Answer
from schemas import replication_events
from schemas.event_types import LOG_EPOCH, epochs_detail
from schemas.levels import POLLED

SCHEMA = replication_events.ARROW


@dataclass(frozen=True)
class Source:
    """The source of one broker's rows, `watch/<watcher>/broker-<id>`."""

    cluster: str
    watcher: str
    broker: int

    @property
    def source_id(self) -> str:
        return f"watch/{self.watcher}/broker-{self.broker}"

    def table(self, event_type: str, count: int, columns: Mapping[str, Any]) -> pa.Table:
        """A table of `count` rows with these columns (arrays, or one value for all rows)."""
        same = {
            "cluster": self.cluster,
            "source_id": self.source_id,
            "broker_id": self.broker,
            "event_type": event_type,
            "level": POLLED,
            "topic": None,
        }
        arrays = {name: _column(name, value, count) for name, value in {**same, **columns}.items()}
        fields = [f for f in SCHEMA if f.name in arrays]
        return pa.table([arrays[f.name] for f in fields], schema=pa.schema(fields))

    def broker_wide(self, event_type: str, ts_us: int, **columns: Any) -> pa.Table:
        """One row about the source as a whole, not about a partition."""
        return self.table(event_type, 1, {"ts": times([ts_us]), "partition": -1, **columns})


def _column(name: str, value: Any, count: int) -> pa.Array:
    kind = SCHEMA.field(name).type
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    return pa.repeat(pa.scalar(value, kind), count)


def places(partitions: Partitions, rows: I64) -> dict[str, pa.Array]:
    """The columns that name a row's partition."""
    topic, topics = pa.array(partitions.topic[rows]), partitions.topics
    return {
        "topic": pa.array(topics.names, pa.string()).take(topic),
        "topic_id": pa.array(topics.ids, pa.string()).take(topic),
        "partition": pa.array(partitions.number[rows]),
    }


def times(ts_us: I64 | Sequence[int]) -> pa.Array:
    """Microseconds since 1970 as a column."""
    return pa.array(ts_us, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def known(values: np.ndarray, where: Mask | None = None) -> pa.Array:
    """Numbers as a column, null if below 0 or not `where`."""
    null = values < 0 if where is None else (values < 0) | ~where
    return pa.array(values, mask=null)


def durations(ms: F64) -> pa.Array:
    """Milliseconds as a column, null if NaN, or below 0 because the clock was set back."""
    return pa.array(ms, mask=~(ms >= 0))


def lists(column: Lists, rows: I64, where: Mask | None = None) -> pa.Array:
    """The lists of these rows as a column, null where not `where`."""
    null = np.zeros(len(rows), np.bool_) if where is None else ~where
    return column.take(rows).arrow(null)


def as_leader(answer: Answer, row: I64, leads: Mask) -> dict[str, pa.Array]:
    """The columns of leaders' rows alone: leader epoch, ISR and assignment."""
    seen = answer.partitions
    return {
        "leader_id": known(seen.leader[row], leads),
        "leader_epoch": known(seen.leader_epoch[row], leads),
        "isr": lists(seen.isr, row, leads),
        "replicas": lists(seen.assignment, row, leads),
    }


def leader_epochs(answer: Answer, row: I64) -> pa.Array:
    """`epochs=5:120 6:310`, the starts of leader epochs in the leader's log; null for rows with fewer than two."""
    entries = (answer.epochs.get(one, ()) for one in row.tolist())
    return pa.array([epochs_detail(one) if len(one) > 1 else None for one in entries], pa.string())


def log_epochs(epochs: np.ndarray) -> pa.Array:
    """`log_epoch=3`, the latest leader epoch in the replica's log; null if the broker does not report it."""
    distinct, inverse = np.unique(epochs, return_inverse=True)
    words = pa.array([None if e < 0 else f"{LOG_EPOCH}{e}" for e in distinct.tolist()], pa.string())
    return words.take(pa.array(inverse))
