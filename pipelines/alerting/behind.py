"""Clusters that are not judged: the job is behind with what bronze holds of them, by the wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from pipelines.alerting.conditions import SECOND, Ask, Condition, microseconds
from pipelines.verdict.judged import not_judged, not_judged_from


def job_behind(name: str, ask: Ask, now: int) -> Iterator[Condition]:
    """Of each cluster what `run` should have read before `now` (microseconds), or has never read anything of."""
    for row in ask("SELECT * FROM backlog ORDER BY cluster"):
        oldest = datetime.fromtimestamp(row["oldest"] / SECOND, UTC)
        fires = microseconds(not_judged_from(row["judged_once"], oldest, row["limit_s"]))
        if fires < now:
            words = {"words": not_judged(row["judged_once"], oldest)}
            cluster = row["cluster"]
            yield Condition(name, cluster, "behind", cluster, "run", row["oldest"], fires, now, now, True, words)
