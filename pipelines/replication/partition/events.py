"""The input of a partition's history: its rare events, and the kernel's summaries of terms."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise, repeat
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.events.columns import int32_column, int64_column, list_column
from pipelines.replication.metadata.brokers_and_configs import BrokerState
from pipelines.replication.partition.codec import PersistedFrozen
from schemas.replication_events import PRINTED, WATCHER

EVENT_COLUMNS = (
    "ts", "event_type", "broker_id", "source_id", "level", "leader_id", "leader_epoch", "partition_epoch", "replica_id",
    "broker_epoch", "leo", "leader_leo", "hw", "log_start", "isr", "replicas", "unclean", "topic_id", "detail",
    "min_isr", "controller_epoch", "committed",
)  # fmt: skip
"""The columns of `replication_events` that a PartitionEvent has."""


class PartitionEvent(Struct, gc=False):
    """One rare row of `replication_events`, or a finding of the kernel, in the history of its partition.

    `ts` is in microseconds; nulls are None. event_type is one of bronze (leader, follower, election, isr, isr_proposed,
    isr_rejected, truncate, lost), or one of these findings:
    - gap: numbers of the partition's series are missing before this row.
    - midflight: the telemetry of `broker_id` begins, or begins again, inside a term that it leads.
    - word: `broker_id` reports as leader on the HW (held_back, moves_on) or on `replica_id` (out_of_sync, in_sync).
    - clock: the clock of `broker_id` is `before` microseconds ahead of the controller's; 0: it is right again.
    - hw: a follower's HW fell. With detail `reports_back`, a leader's reported HWs moved back; `taken_back`, the
      earlier report above them was false; `not_cut_off`, the leader went on after a report above every computed HW;
      `of_follower`, the last HW that a broker reported as a follower in a leader epoch.

    `before`: the replica's LEO before a truncate, or its HW before an `hw`, where the kernel knows it. The `hw` of a
    truncate is the last one that the replica reported. `reported_by` is the row of a controller: (source id, source
    epoch, source seq). `predicted`: the lag rule held, before the commit, for every replica that a leader's `isr` row
    removes.
    """

    ts: int
    event_type: str
    broker_id: int
    source_id: str = ""
    level: int = 0
    leader_id: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    replica_id: int | None = None
    broker_epoch: int | None = None
    leo: int | None = None
    leader_leo: int | None = None
    hw: int | None = None
    log_start: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    unclean: bool | None = None
    topic_id: str | None = None
    detail: str | None = None
    before: int | None = None
    min_isr: int | None = None
    predicted: bool | None = None
    controller_epoch: int | None = None
    committed: bool | None = None
    reported_by: tuple[str, int, int] | None = None
    source_epoch: int = 0

    @property
    def watched(self) -> bool:
        """Whether a watcher reports it: on its own clock, as of a round, and without partition epochs."""
        return self.source_id.startswith(WATCHER)

    @property
    def is_print(self) -> bool:
        """Whether a tool of Kafka's printed it, as of a time that somebody has told."""
        return self.source_id.startswith(PRINTED)


_LATE = EVENT_COLUMNS.index("min_isr")
"""The first column behind which a PartitionEvent has fields of its own."""


def partition_events(rows: pa.Table) -> list[PartitionEvent]:
    """The rows as events, column by column: a rolling restart has some hundred thousand of them."""
    columns, unknown = [values(rows[name]) for name in EVENT_COLUMNS], repeat(None)
    return list(map(PartitionEvent, *columns[:_LATE], unknown, columns[_LATE], unknown, *columns[_LATE + 1 :]))


def values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values, None where there is none; numbers come by numpy, which makes fewer objects than Arrow, and
    equal names are one object."""
    if column.null_count == len(column):
        return [None] * len(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or kind == pa.int64():
        return [None if value == NULL else value for value in int64_column(column).tolist()]
    if kind == pa.int32():
        return [None if value == NULL32 else value for value in int32_column(column).tolist()]
    if kind == pa.list_(pa.int32()):
        offsets, ids = (numbers.tolist() for numbers in list_column(column))
        valid = pc.is_valid(column).to_pylist()
        return [
            tuple(ids[a:b]) if has_value else None for (a, b), has_value in zip(pairwise(offsets), valid, strict=True)
        ]
    if pa.types.is_string(kind):
        column = column.dictionary_encode()
    elif not pa.types.is_dictionary(kind):
        plain: list[Any] = column.to_pylist()
        return plain
    named: list[Any] = []
    for chunk in column.chunks:
        names = [*chunk.dictionary.to_pylist(), None]
        named += map(names.__getitem__, chunk.indices.fill_null(-1).to_pylist())
    return named


class TermSummary(PersistedFrozen, frozen=True):
    """The kernel's summary of one term as of a time."""

    hmax: int | None = None
    """The largest HW reconstructed or reported in it."""
    leader_leo: int | None = None
    """The leader's LEO at its end."""
    fetchers: frozenset[int] = frozenset()
    """The replicas that fetched from the leader in it."""
    has_gap: bool = False
    """Whether telemetry of the leader is missing in it."""
    level: int = 0
    """The telemetry level of the leader's source."""
    misread: bool = False
    """Whether the leader wrote lines in it that were not understood."""
    cut_off: int | None = None
    """An unconfirmed report above hmax after which that incarnation wrote no more: it may have been killed then."""
    cut_off_ts: int = 0
    cut_off_until: int = 0
    """When the incarnation wrote again after all."""
    reported: int | None = None
    """The largest HW that the leader reported and that was computed, or accepted."""
    witnessed: int | None = None
    """The largest HW that counts although it was not computed, told at `witnessed_ts`."""
    witnessed_ts: int | None = None
    witnessed_from: int | None = None
    min_isr_told: int = 1
    """0 if min.insync.replicas of the topic is not known, 1 if it is; above 1, known as long as it is smaller."""
    epoch: int = -1
    """The leader epoch of a term that is over."""

    @property
    def complete(self) -> bool:
        """Every HW of the term was printed: the partition's TRACE lines are there, and none of them is missing."""
        return self.level >= 2 and not self.has_gap and self.hmax is not None

    def as_of(self, as_of: int) -> TermSummary:
        """The same; without a cut-off report that was none, or not yet, or that a computed HW has reached."""
        computed = self.witnessed_from is not None and self.hmax is not None and self.witnessed_from <= self.hmax
        if self.witnessed_ts is not None and (self.witnessed_ts > as_of or computed):
            return replace(self, witnessed=None, witnessed_ts=None).as_of(as_of)
        if self.cut_off is None:
            return self
        open_then = self.cut_off_ts <= as_of < self.cut_off_until
        above = self.hmax is None or self.cut_off > self.hmax
        if open_then and not above:  # it counts, as a report of what was computed since
            return replace(self, cut_off=None, reported=max(self.cut_off, self.reported or 0))
        return self if open_then else replace(self, cut_off=None)


class TermLookup(Protocol):
    """The questions of a history to other parts of the state. Every answer depends only on the rows up to `as_of`."""

    race_window_us: int
    grace_us: int

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSummary:
        """The summary of the term that `broker_id` began at `start_ts`."""
        ...

    def sampled(self, broker_id: int, epoch: int, topic_id: str | None, as_of: int) -> TermSummary | None:
        """The samples of the leader epoch that `broker_id` led; None if there are none."""
        ...

    def sampled_hw(self, broker_id: int, epoch: int, topic_id: str | None, as_of: int) -> tuple[int, int] | None:
        """The largest HW that was sampled in that leader epoch, and when it was seen; None without one."""
        ...

    def answered_always(self, broker_id: int, after: int, until: int) -> bool:
        """Whether a broker answered a watcher in every round of (after, until], where there is one."""
        ...

    def broker_states(self, broker_id: int, as_of: int) -> list[BrokerState]:
        """The states of a broker in time order, each once."""
        ...

    def started_between(self, broker_id: int, after: int, until: int) -> bool:
        """Whether the broker's own log shows a start of it in (after, until], by its own clock."""
        ...

    def told_through(self, sources: Collection[tuple[str, int]], since: int, until: int) -> bool:
        """Whether one of these (source id, epoch) tells without a hole from `since` to `until`."""
        ...

    def lives_told(self, since: int, until: int, as_of: int) -> bool:
        """Whether a controller reports broker states without a hole from `since` to `until`, as far as is known as of a
        time that is UNTOLD_US after `until`."""
        ...

    def is_deposed(self, row: tuple[str, int, int] | None, ts: int, as_of: int) -> bool:
        """Whether an active controller told a row of `ts` when another one may have replaced it."""
        ...

    def min_isr(self, as_of: int, by_leader: int | None = None) -> int:
        """`min.insync.replicas` of the topic; `by_leader` is what the leader reported when its term began."""
        ...

    def most_min_isr(self, since: int, until: int, by_leader: int | None) -> int:
        """The largest that `min_isr` is from `since` to `until`."""
        ...

    def min_isr_told(self, by_leader: int | None, as_of: int) -> bool:
        """Whether that is known of this topic itself."""
        ...
