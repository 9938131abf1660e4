"""Windows in which brokers may be away, as `ops/downtimes` has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from pipelines.alerting.state import OTHERS, AlertState
from schemas import downtimes

EXPLAINED = frozenset({
    "offline", "under_min_isr", "at_risk", "out_of_sync", "stale_source", "quorum_no_spare", "no_controller",
    "watcher_cut_off",
})  # fmt: skip
"""Rules that a planned downtime explains, of the brokers they name or of all; a loss never is."""


@dataclass(frozen=True)
class Downtime:
    """One row of `ops/downtimes`; times are aware and of the wall clock, `brokers` None: all of the cluster."""

    downtime_id: str
    cluster: str
    brokers: tuple[int, ...] | None
    rack: str | None
    begins: datetime
    until: datetime
    reason: str
    author: str | None
    written_at: datetime


def from_arrow(rows: pa.Table) -> list[Downtime]:
    """The row of each window that was written last, in order of their beginning."""
    found = sorted(rows.select(downtimes.ARROW.names).to_pylist(), key=lambda row: row["written_at"])
    last = {row["downtime_id"]: row for row in found}
    each = [
        Downtime(**{**row, "brokers": None if row["brokers"] is None else tuple(row["brokers"])})
        for row in last.values()
    ]
    return sorted(each, key=lambda one: (one.begins, one.downtime_id))


def to_arrow(rows: Iterable[Downtime]) -> pa.Table:
    """Rows in the schema of `ops/downtimes`."""
    return pa.Table.from_pylist([vars(row) for row in rows], schema=downtimes.ARROW)


def end_of_downtime(state: AlertState, opened: Sequence[Downtime]) -> datetime | None:
    """The time until which these downtimes explain an alert; None if they do not.

    A partition without a leader lacks its last in-sync replicas, and all other replicas are away, too: a downtime of
    all its assigned brokers explains it.
    """
    own = [window for window in opened if window.cluster == state.labels.get("cluster")]
    away = {one: window.until for window in sorted(own, key=lambda w: w.until) for one in window.brokers or ()}
    ends = [window.until for window in own if window.brokers is None]
    theirs, assigned = set[int]() if OTHERS in state.labels else state.brokers, state.assignment
    if theirs and theirs <= away.keys() and (state.rule != "offline" or (assigned and assigned <= away.keys())):
        ends.append(min(away[one] for one in theirs))
    return max(ends, default=None) if state.rule in EXPLAINED else None
