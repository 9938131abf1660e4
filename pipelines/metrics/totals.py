"""Counters out of the mergeable minutes of `silver/minute_stats`: they grow while old minutes are thinned out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pipelines.streaming.sinks.partials import summed_counts, summed_histograms
from schemas.minute_stats import BOUNDS_MS

if TYPE_CHECKING:
    import pyarrow as pa

OPEN = timedelta(hours=1)
"""Of event time: a minute that lies further back than this before the newest of its cluster changes no more."""

I64 = npt.NDArray[np.int64]


@dataclass
class Totals:
    """Per cluster the counts by name, and the histogram of append to HW over BOUNDS_MS, since the exporter started."""

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    append_to_hw: defaultdict[str, I64] = field(
        default_factory=lambda: defaultdict(lambda: np.zeros(len(BOUNDS_MS) + 1, np.int64))
    )

    def add(self, cluster: str, counts: Mapping[str, int], histogram: I64 | None) -> None:
        self.counts[cluster].update(counts)
        if histogram is not None:
            self.append_to_hw[cluster] = self.append_to_hw[cluster] + histogram

    def copy(self) -> Totals:
        found = Totals()
        for cluster, counts in self.counts.items():
            found.add(cluster, counts, self.append_to_hw.get(cluster))
        return found


@dataclass
class Running:
    """The sums of earlier minutes, and for each cluster the first minute that is still read each time.

    Sums over the whole table would fall when retention removes a day, which Prometheus takes for a reset counter.
    """

    begins: dict[str, datetime] = field(default_factory=dict)
    closed: Totals = field(default_factory=Totals)

    def take(self, partials: pa.Table) -> Totals:
        """The totals with these rows, which are all of the minutes from `begins` on."""
        totals = self.closed.copy()
        if not len(partials):
            return totals
        counts = summed_counts(partials, ("cluster",))
        histograms = summed_histograms(partials, "append_to_hw", len(BOUNDS_MS) + 1, ("cluster",))
        for (who, minute), found in counts.items():
            totals.add(who[0], found, histograms.get((who, minute)))
        for cluster, begin in self._next(counts).items():
            for (who, minute), found in counts.items():
                if who[0] == cluster and minute < begin:
                    self.closed.add(cluster, found, histograms.get((who, minute)))
            self.begins[cluster] = begin
        return totals

    def _next(self, counts: Mapping[tuple[tuple[str, ...], datetime], object]) -> dict[str, datetime]:
        """The clusters whose minutes have gone on, and the first one of each that may still change."""
        newest: dict[str, datetime] = {}
        for (cluster,), minute in counts:
            newest[cluster] = max(minute, newest.get(cluster, minute))
        begins = {cluster: minute - OPEN for cluster, minute in newest.items()}
        return {c: begin for c, begin in begins.items() if c not in self.begins or self.begins[c] < begin}
