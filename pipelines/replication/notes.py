"""What a partition's history is told: rare event rows, and what the kernel knows of a term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

EVENT_COLUMNS = (
    "ts", "event_type", "broker_id", "source_id", "level", "leader_id", "leader_epoch", "partition_epoch", "replica_id",
    "broker_epoch", "leo", "leader_leo", "hw", "log_start", "isr", "replicas", "unclean", "topic_id", "detail",
    "min_isr",
)  # fmt: skip
"""The columns of an event that a note has."""


@dataclass(frozen=True, slots=True)
class Note:
    """One rare event row, de-duplicated by (source, seq); the columns of `replication_events`, nulls as None.

    `ts` in microseconds. event_type is leader, follower, election, isr, isr_proposed, isr_rejected, truncate,
    hw (a follower's HW that fell, or with detail `reports_back` a leader whose reports moved back, with `taken_back`
    one whose earlier report above them was false), lost, gap, or midflight: the telemetry of `broker_id` begins, or
    begins again, in the middle of a term that it leads.
    `before` is the replica's LEO ahead of a truncate, or its HW ahead of an `hw`, where the kernel knows it; `foretold`
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


def note_of(event: dict[str, Any], **found: Any) -> Note:
    """The note of an event row; `found` is what the kernel knows of it."""
    values = {name: event[name] for name in EVENT_COLUMNS}
    values["ts"] = round(event["ts"].timestamp() * 1_000_000)
    for name in ("isr", "replicas"):
        values[name] = None if event[name] is None else tuple(event[name])
    return Note(**values | found)


@dataclass(frozen=True, slots=True)
class TermSeen:
    """What the kernel knows of one term as of a time.

    `hmax`: largest HW reconstructed or reported in it; `fetchers`: replicas that fetched from this leader in it;
    `held`: its source has a gap in it;
    `level`: the telemetry level of that source in it.
    """

    hmax: int | None = None
    leader_leo: int | None = None
    fetchers: frozenset[int] = frozenset()
    held: bool = False
    level: int = 0

    @property
    def complete(self) -> bool:
        """Every HW of the term was told: DEBUG lines of the partition, and none of them missing."""
        return self.level >= 2 and not self.held and self.hmax is not None


class Context(Protocol):
    """What a history asks its surroundings; every answer is a function of the rows up to `as_of` only."""

    race_window_us: int

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSeen:
        """What is known of the term that `broker_id` began at `start_ts`."""
        ...

    def broker_states(self, broker_id: int, as_of: int) -> list[tuple[int, str, int | None]]:
        """(ts, detail, broker_epoch) of a broker in time order, each happening once."""
        ...

    def min_isr(self, as_of: int, told: int | None = None) -> int:
        """`min.insync.replicas` of the topic; `told` is what the leader said of it when it began."""
        ...
