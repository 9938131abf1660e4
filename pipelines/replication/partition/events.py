"""What a partition's history is told: rare event rows, and what the kernel knows of a term."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.events.columns import int32_column, int64_column, list_column
from pipelines.replication.metadata.brokers_and_configs import BrokerState
from pipelines.replication.partition.codec import Fixed

EVENT_COLUMNS = (
    "ts", "event_type", "broker_id", "source_id", "level", "leader_id", "leader_epoch", "partition_epoch", "replica_id",
    "broker_epoch", "leo", "leader_leo", "hw", "log_start", "isr", "replicas", "unclean", "topic_id", "detail",
    "min_isr", "controller_epoch", "committed",
)  # fmt: skip
"""The columns of an event that a note has."""


# Nobody changes one, but `frozen` takes 2.8 us to make one instead of 0.3, and an incident has hundreds of thousands.
@dataclass(slots=True)
class Note:
    """One rare event row, de-duplicated by (source, seq); the columns of `replication_events`, nulls as None.

    `ts` in microseconds. event_type is leader, follower, election, isr, isr_proposed, isr_rejected, truncate,
    clock (the clock of `broker_id` is `before` microseconds ahead of the controller's; 0: it is right again),
    hw (a follower's HW that fell, or with detail `reports_back` a leader whose reports moved back, with `taken_back`
    one whose earlier report above them was false, with `not_cut_off` one that went on after a report above every
    computed HW), lost, gap, or midflight: the telemetry of `broker_id` begins, or begins again, in the middle of a
    term that it leads.
    `before` is the replica's LEO ahead of a truncate, or its HW ahead of an `hw`, where the kernel knows it; the `hw`
    of a truncate is the last one that the replica told of itself; `place` the (source id, source epoch, source seq) of
    a controller's row; `foretold`
    whether the lag rule held for every replica that a leader's `isr` removes, before it was committed.
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
    foretold: bool | None = None
    controller_epoch: int | None = None
    committed: bool | None = None
    place: tuple[str, int, int] | None = None


_SAID = itemgetter(*EVENT_COLUMNS[: EVENT_COLUMNS.index("min_isr")])
"""The values of a note's fields up to `detail`, in their order."""
_OF_CONTROLLER = itemgetter("controller_epoch", "committed")


def told(events: pa.Table) -> list[dict[str, Any]]:
    """The rows of `events` as dictionaries, times in microseconds. Most columns hold nothing: nobody asks them."""
    names, columns = events.column_names, [_values(column) for column in events.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; what stands for numbers is not made an object of Arrow's first."""
    if column.null_count == len(column):
        return [None] * len(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or kind == pa.int64():
        return [None if value == NULL else value for value in int64_column(column).tolist()]
    if kind == pa.int32():
        return [None if value == NULL32 else value for value in int32_column(column).tolist()]
    if kind == pa.list_(pa.int32()):
        ends, held = (numbers.tolist() for numbers in list_column(column))
        some = pc.is_valid(column).to_pylist()
        return [tuple(held[a:b]) if is_told else None for (a, b), is_told in zip(pairwise(ends), some, strict=True)]
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    values: list[Any] = column.to_pylist()
    return values


def note_of(event: dict[str, Any], **found: Any) -> Note:
    """The note of an event row as `told` gives it; `found` is what the kernel knows of it."""
    row = event | found if found else event
    values: list[Any] = [
        *_SAID(row),
        row.get("before"),
        row["min_isr"],
        row.get("foretold"),
        *_OF_CONTROLLER(row),
        row.get("place"),
    ]
    return Note(*values)


class TermSeen(Fixed, frozen=True):
    """What the kernel knows of one term as of a time.

    `hmax`: largest HW reconstructed or reported in it; `fetchers`: replicas that fetched from this leader in it;
    `held`: its source has a gap in it; `unread`: lines of it were not understood;
    `level`: the telemetry level of that source in it;
    `cut_off`: a report above hmax that nothing else shows, with no later row of that broker's incarnation: it may have
    been killed right behind it, at `cut_off_ts`; `cut_off_until`: when a later row came after all.
    """

    hmax: int | None = None
    leader_leo: int | None = None
    fetchers: frozenset[int] = frozenset()
    held: bool = False
    level: int = 0
    unread: bool = False
    cut_off: int | None = None
    cut_off_ts: int = 0
    cut_off_until: int = 0

    @property
    def complete(self) -> bool:
        """Every HW of the term was told: DEBUG lines of the partition, and none of them missing."""
        return self.level >= 2 and not self.held and self.hmax is not None

    def as_of(self, as_of: int) -> TermSeen:
        """The same without a cut-off report that was not one, or not yet, or that a computed HW has reached."""
        if self.cut_off is None:
            return self
        open_then = self.cut_off_ts <= as_of < self.cut_off_until
        above = self.hmax is None or self.cut_off > self.hmax
        return self if open_then and above else replace(self, cut_off=None)


class Context(Protocol):
    """What a history asks its surroundings; every answer is a function of the rows up to `as_of` only."""

    race_window_us: int
    grace_us: int

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSeen:
        """What is known of the term that `broker_id` began at `start_ts`."""
        ...

    def broker_states(self, broker_id: int, as_of: int) -> list[BrokerState]:
        """The states of a broker in time order, each happening once."""
        ...

    def started_between(self, broker_id: int, after: int, until: int) -> bool:
        """Whether the broker's own log tells of a start of it in (after, until], by its own clock."""
        ...

    def min_isr(self, as_of: int, told: int | None = None) -> int:
        """`min.insync.replicas` of the topic; `told` is what the leader said of it when it began."""
        ...
