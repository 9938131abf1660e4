"""What is new: alert states that `ops/alerts` does not hold yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from pipelines.alerting.state import AlertState


def latest(stored: Iterable[AlertState]) -> dict[tuple[str, datetime], AlertState]:
    """The last state of each episode."""
    found: dict[tuple[str, datetime], AlertState] = {}
    for state in sorted(stored, key=lambda s: (s.last_ts, not s.firing)):
        found[state.episode] = state
    return found


def news(present: Iterable[AlertState], stored: Iterable[AlertState]) -> list[AlertState]:
    """The rows to append, so that a reader of the table sees `present`; none when it already does.

    An episode that began and ended unseen gets both its states. What is stored as firing and is found no
    more (a verdict revised, a rebuilt lake, a source that tells again) is resolved.
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
    why = "heard again, or closed" if state.rule == "stale_source" else "found no more"
    return replace(state, state="resolved", summary=f"{state.summary} ({why})")


def since(stored: Iterable[AlertState]) -> Mapping[str, datetime]:
    """Per cluster the beginning of the oldest alert that fires: evidence must reach back to it."""
    oldest: dict[str, datetime] = {}
    for state in latest(stored).values():
        if state.firing:
            cluster = state.labels.get("cluster", "")
            oldest[cluster] = min(oldest.get(cluster, state.first_ts), state.first_ts)
    return oldest
