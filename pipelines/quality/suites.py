"""What is expected of each table, as data; each expectation is about one column of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.quality import frames
from schemas import (
    hw_regressions,
    partition_health,
    partition_hw,
    quarantine,
    replication_events,
    telemetry_gaps,
)
from schemas.declaration import Table

PLACE = ("cluster", "topic", "partition", "ts")


@dataclass(frozen=True)
class Expectation:
    """A value of `column` is at least `least`, at most `most`, and none of `forbidden`; null, unknown, is allowed."""

    name: str
    column: str
    least: float | None = None
    most: float | None = None
    forbidden: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Suite:
    """The expectations of one table; `sample` are the columns that show which row failed.

    `frame` None: the wall clock decides, over the sources that the table names, whether it has new rows or not.
    """

    name: str
    table: Table
    frame: frames.Frame | None
    sample: tuple[str, ...]
    expectations: tuple[Expectation, ...]
    may_be_missing: bool = False


@dataclass(frozen=True)
class Limits:
    """Most quarantined rows per event; longest silence of a source in seconds of the wall clock."""

    quarantine_share: float = 0.001
    stale_after_s: float = 300


def suites(limits: Limits) -> tuple[Suite, ...]:
    """Every suite, in the order in which people read them."""
    return (
        Suite(
            "bronze", replication_events.TABLE, frames.EVENTS, (*PLACE, "source_id", "event_type", "isr", "replicas"),
            (Expectation("isr_within_ar", "isr_outside_ar", most=0),),
        ),
        Suite(
            "bronze", quarantine.TABLE, frames.QUARANTINE_SHARE, ("quarantined", "events", "reasons"),
            (Expectation("quarantine_below_threshold", "share", most=limits.quarantine_share),),
            may_be_missing=True,
        ),
        Suite(
            "sources", replication_events.TABLE, None, ("cluster", "source_id", "reported_to"),
            (Expectation("sources_fresh", "silent_s", most=limits.stale_after_s),),
        ),
        Suite(
            "silver", partition_hw.TABLE, frames.HW, (*PLACE, "leader_id", "leader_epoch", "kind", "hw", "reported_hw"),
            (
                Expectation("hw_never_falls_within_a_term", "hw_step", least=0),
                Expectation("hw_at_most_leader_leo", "hw_above_leo", most=0),
                Expectation("no_disagreement", "agreement", forbidden=("disagree",)),
            ),
        ),
        Suite(
            "silver", hw_regressions.TABLE, frames.VERDICTS,
            (*PLACE, "regression_id", "leader_id", "severity", "proof", "lost_from", "lost_to", "lost_records"),
            tuple(
                Expectation(f"no_{name}", "class", forbidden=(name,))
                for name in ("committed_loss", "unclean_loss", "hw_moved_back")
            ),
        ),
        Suite(
            "silver", telemetry_gaps.TABLE, frames.AS_IT_IS, (*PLACE, "source_id", "series", "seq_from", "seq_to"),
            (Expectation("no_gaps", "kind", forbidden=("gap",)),),
        ),
        Suite(
            "gold", partition_health.TABLE, frames.HEALTH, ("cluster", "topic", "partition", "ar", "isr", "hw"),
            (
                Expectation("isr_within_ar", "isr_outside_ar", most=0),
                Expectation("hw_at_most_leader_leo", "hw_above_leo", most=0),
            ),
        ),
    )  # fmt: skip
