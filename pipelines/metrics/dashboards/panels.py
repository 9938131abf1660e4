"""What dashboards are made of, as data: rows of panels, each a question and the queries that answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SHOWN = 'cluster=~"$cluster"'
LIVE = "unless on (instance, cluster) hwmark_cluster_ended == 1"
KNOWN = 'proof!="unproven"'
WINDOW = "[$__rate_interval]"


@dataclass(frozen=True)
class Query:
    """A query of Prometheus, and how its series are called in the legend."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel; `words` stand behind its i. `width` counts 24ths of the page, `none` is shown where nothing comes."""

    title: str
    words: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Literal["lines", "stack", "table", "number"] = "lines"
    width: int = 8
    none: str = "unknown"


@dataclass(frozen=True)
class Board:
    """One dashboard: rows of panels by their titles."""

    uid: str
    title: str
    words: str
    rows: dict[str, tuple[Panel, ...]] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows.values() for panel in row]


def of(metric: str, *more: str) -> str:
    """A metric of the clusters that are chosen, `more`: with these labels."""
    return f"hwmark_{metric}{{{', '.join([SHOWN, *more])}}}"


def rate(metric: str, by: str) -> str:
    """How much a counter grows a second, summed by labels."""
    return f"sum by ({by}) (rate({of(metric)}{WINDOW}))"
