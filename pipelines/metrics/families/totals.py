"""Counters, and the histogram of append to HW: what has happened since the exporter started."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from pipelines.metrics.families.family import PREFIX, Samples, counter, label
from pipelines.metrics.totals import Totals
from schemas.minute_stats import BOUNDS_MS

if TYPE_CHECKING:
    from prometheus_client import Metric

_PLAIN = {
    "events": ("telemetry_events", "Telemetry events read"),
    "late": ("late_events", "Telemetry events that came after their time had been judged"),
    "gaps": ("gaps", "Gaps found in the telemetry"),
}
_NAMED = {
    "shrink:": ("isr_shrinks", "ISR shrinks committed", "cause"),
    "expand:": ("isr_expands", "ISR expands committed", "cause"),
    "regression:": ("hw_regressions", "Falls of a HW found", "class"),
}
EVERY = 2
"""Every second bound of the histogram is a bucket: each twice the one before."""


def counters(totals: Totals) -> Iterator[Metric]:
    """Counts of the clusters."""
    counts = totals.counts.items()
    for name, (metric, words) in _PLAIN.items():
        yield counter(metric, words, ("cluster",), (((cluster,), found[name]) for cluster, found in counts))
    for prefix, (metric, words, key) in _NAMED.items():
        yield counter(metric, words, ("cluster", key), _named(totals, prefix))


def _named(totals: Totals, prefix: str) -> Samples:
    for cluster, found in totals.counts.items():
        for name, number in sorted(found.items()):
            if name.startswith(prefix):
                yield (cluster, name.removeprefix(prefix)), number


def append_to_hw(totals: Totals) -> Iterator[Metric]:
    """The times from an append until the HW was past it, by cluster."""
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(
        f"{PREFIX}append_to_hw_seconds", "Time from an append to its HW, on the clock of the leader", labels=["cluster"]
    )
    for cluster, histogram in totals.append_to_hw.items():
        below = list(accumulate(histogram.tolist()))
        bounds = [f"{bound / 1000:g}" for bound in BOUNDS_MS[::EVERY]]
        buckets = [*zip(bounds, map(float, below[:-1:EVERY]), strict=True), ("+Inf", float(below[-1]))]
        family.add_metric([label(cluster)], buckets, None)
    yield family
