"""What is new: alert states that `ops/alerts` does not hold yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pipelines.alerting.rules import RULES
from pipelines.alerting.state import AlertState


def latest(stored: Iterable[AlertState]) -> dict[tuple[str, datetime], AlertState]:
    """The last state of each episode."""
    return {state.episode: state for state in in_order(stored)}


def in_order(stored: Iterable[AlertState]) -> list[AlertState]:
    """The states as they were written; event time does not order them, as a verdict revised twice may fire again."""
    return sorted(stored, key=lambda s: (s.written_at or _BEFORE, s.last_ts, not s.firing))


_BEFORE = datetime.min.replace(tzinfo=UTC)
"""Rows of earlier versions do not say when they were written."""


def written(rows: Iterable[AlertState], stored: Iterable[AlertState], now: datetime) -> list[AlertState]:
    """New rows with the time `now` of the wall clock, behind all that are stored though that clock was set back."""
    last = max((state.written_at for state in stored if state.written_at), default=_BEFORE)
    at = max(now, last + timedelta(microseconds=1))
    return [replace(state, written_at=at) for state in rows]


def continued(
    present: Iterable[AlertState], stored: Iterable[AlertState], group_s: Mapping[str, int]
) -> list[AlertState]:
    """The states under the names by which they were first reported, so that an incident stays one alert.

    Its beginning may be known better now: an earlier fall was decided later, one of several silent sources reports
    again. `group_s` is, by rule, how far apart what belongs together may begin.
    """
    known, found = latest(stored), []
    states = list(present)
    left = [s for s in known.values() if s.firing and s.episode not in {state.episode for state in states}]
    for state in states:
        if state.episode not in known and (before := next((s for s in left if _goes_on(s, state, group_s)), None)):
            left.remove(before)
            state = replace(state, alert_id=before.alert_id, subject=before.subject, first_ts=before.first_ts)
        found.append(state)
    return found


def _goes_on(before: AlertState, now: AlertState, group_s: Mapping[str, int]) -> bool:
    if (before.rule, before.labels.get("cluster")) != (now.rule, now.labels.get("cluster")):
        return False
    close = abs(now.first_ts - before.first_ts) <= timedelta(seconds=group_s.get(now.rule, 0))
    return before.alert_id == now.alert_id or (group_s.get(now.rule, 0) > 0 and close)


def news(present: Iterable[AlertState], stored: Iterable[AlertState]) -> list[AlertState]:
    """The rows to append, so that a reader of the table sees `present`; none when it already does.

    An episode that began and ended unseen gets both its states. What is stored as firing and is found no
    more (a verdict revised, a rebuilt lake, a source that reports again) is resolved.
    """
    known, rows, covered = latest(stored), [], set()
    for state in present:
        covered.add(state.episode)
        before = known.get(state.episode)
        if before is not None and before.says_the_same(state):
            continue
        if before is None and not state.firing:
            rows.append(replace(state, state="firing", last_ts=state.first_ts))
        rows.append(state)
    rows.extend(_withdrawn(state) for key, state in known.items() if state.firing and key not in covered)
    return rows


def _withdrawn(state: AlertState) -> AlertState:
    why = RULES[state.rule].withdrawn if state.rule in RULES else "found no more"
    return replace(state, state="resolved", summary=f"{state.summary} ({why})")


def since(stored: Iterable[AlertState]) -> Mapping[str, datetime]:
    """Per cluster the beginning of the oldest alert that fires: evidence must reach back to it."""
    oldest: dict[str, datetime] = {}
    for state in latest(stored).values():
        if state.firing:
            cluster = state.labels.get("cluster", "")
            oldest[cluster] = min(oldest.get(cluster, state.first_ts), state.first_ts)
    return oldest
