"""Builders of metric families; names end with the unit, as Prometheus asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipelines.printable import printable

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

PREFIX = "hwmark_"
Samples = Iterable[tuple[Sequence[Any], float | int | None]]
"""Label values and a value each; None is not known, and has no sample."""


def gauge(name: str, words: str, labels: Sequence[str], samples: Samples) -> GaugeMetricFamily:
    """A gauge `hwmark_<name>`."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"{PREFIX}{name}", words, labels=labels)
    _fill(family, samples)
    return family


def counter(name: str, words: str, labels: Sequence[str], samples: Samples) -> CounterMetricFamily:
    """A counter `hwmark_<name>_total`."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"{PREFIX}{name}", words, labels=labels)
    _fill(family, samples)
    return family


def _fill(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> None:
    for labels, value in samples:
        if value is not None:
            family.add_metric([label(one) for one in labels], float(value))


def label(value: object) -> str:
    """A label's value; what is not known is `unknown`."""
    return "unknown" if value is None else printable(str(value))


def seconds(ts: datetime | None) -> float | None:
    """A moment as Prometheus has it, in seconds since 1970."""
    return None if ts is None else ts.timestamp()


def from_ms(milliseconds: float | None) -> float | None:
    """Seconds."""
    return None if milliseconds is None else milliseconds / 1000
