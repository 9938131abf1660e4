"""Every dashboard."""

from __future__ import annotations

from pipelines.metrics.dashboards.brokers import BROKERS
from pipelines.metrics.dashboards.clusters import CLUSTERS

BOARDS = (CLUSTERS, BROKERS)
