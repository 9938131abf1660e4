"""Windows in which brokers may be away, as `ops/downtimes` has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from schemas import downtimes


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
