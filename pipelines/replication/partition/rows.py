"""Rows of `silver/isr_changes` and `silver/hw_regressions` with the columns that say where."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pipelines.replication.partition.loss import Verdict


@dataclass(frozen=True, slots=True)
class Place:
    """The partition of a row, under which leader, and the telemetry level."""

    cluster: str
    topic: str
    partition: int
    topic_id: str | None
    leader_id: int | None
    leader_epoch: int | None
    level: int

    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = tuple(field.name for field in fields(Place))


def regression(
    place: Place, verdict: Verdict, name: str, ts: int, replica_id: int | None = None, revision: int = 1
) -> dict[str, Any]:
    """One row of `silver/hw_regressions`; `name` identifies the finding within its partition, ts in microseconds."""
    return {
        **place.columns(),
        **verdict.row(),
        "ts": ts,
        "regression_id": f"{place.cluster}/{place.topic}-{place.partition}/{place.topic_id or '-'}/{name}",
        "replica_id": replica_id,
        "revision": revision,
    }
