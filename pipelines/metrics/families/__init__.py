"""One reading of a lake to metric families: pure, no files, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pipelines.lake.queries import Row
from pipelines.metrics.families import brokers, clusters, totals, upkeep
from pipelines.metrics.snapshot import Snapshot
from pipelines.verdict import Limits, verdict

if TYPE_CHECKING:
    from prometheus_client import Metric


def families(
    snapshot: Snapshot, limits: Limits, severities: Mapping[str, str], reading: upkeep.Reading, now: datetime
) -> Iterator[Metric]:
    """Every metric family of a lake at the moment `now`; `severities` are those of the enabled alert rules."""
    judged = [(record, verdict(record, limits, now)) for record in snapshot.records]
    over = frozenset(one.cluster for _, one in judged if clusters.present(one))
    yield from upkeep.upkeep(snapshot, reading)
    yield upkeep.alerts(snapshot, severities)
    yield from clusters.verdicts(judged)
    yield from clusters.partitions(judged)
    yield from clusters.losses(judged)
    yield from clusters.sources(judged)
    yield from brokers.brokers(_present(snapshot.brokers, over))
    yield from brokers.lags(_present(snapshot.lags, over))
    yield from brokers.minutes(_present(snapshot.minutes, over))
    yield from brokers.worst(_present(snapshot.worst, over))
    yield from totals.counters(snapshot.totals)
    yield from totals.append_to_hw(snapshot.totals)


def _present(rows: Sequence[Row], over: frozenset[str]) -> list[Row]:
    """The rows of clusters of whose present something is said."""
    return [row for row in rows if row["cluster"] not in over]
