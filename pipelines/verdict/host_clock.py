"""Check of this host's clock against the times of commits in the lake and the times that sources report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.lake.queries import presents
from pipelines.streaming.checkpoint.offsets import interval
from pipelines.streaming.source.unread import bronze_of
from pipelines.verdict import words
from pipelines.verdict.sources import progress_now
from schemas import alerts, partition_hw, replication_events
from schemas.declaration import Table

APART = timedelta(seconds=60)
"""Clocks of hosts may be 30 s apart."""
LONG = timedelta(minutes=30)


def clock_off(lake: Lake, now: datetime) -> str | None:
    """The evidence that this host's clock is behind, or may be ahead; None if there is none."""
    newest, *others = (_last_commit(lake, module.TABLE) for module in (replication_events, partition_hw, alerts))
    told = max(presents(lake).values(), default=None)
    if newest is None:
        return None
    last = max([newest, *(at for at in others if at)])
    for what, at in (("its last commit", last), ("the time that its sources tell", told)):
        if at is not None and at > now + APART:
            return (
                f"The clock of this host is {words.span(at - now)} behind {lake.root}: {what} is {words.clock(at)}; "
                "what is late, silent or over by the wall clock is judged wrongly until one of the two is set"
            )
    # Commits of the job and of evaluations may be dated by this clock.
    if told and abs(newest - told) <= APART and now > newest + LONG and _goes_on(lake, now):
        return (
            f"By the clock of this host no source has written for {words.span(now - newest)}: all have stopped, or the "
            "clock is ahead"
        )
    return None


def _goes_on(lake: Lake, now: datetime) -> bool:
    """Whether more is to come: the job takes what is new again and again, or a source told more since a drain."""
    if interval(lake) is not None:
        return True
    seen = progress_now(lake, bronze_of(lake), now)
    return any(one.reported_to > seen.closed.get(one.cluster, -1) for one in seen.reported)


def _last_commit(lake: Lake, table: Table) -> datetime | None:
    """When the last commit of a table was made, by the clock of who made it."""
    found = lake.find(table)
    last = found.history(1)[0] if found else {}
    return datetime.fromtimestamp(last["timestamp"] / 1000, UTC) if "timestamp" in last else None
