"""Counts and lags over minutes or intervals: one line each, in panels under each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipelines.charts.style import SHADES, WIDTH, Spec, styled, time_format

HEIGHT = 110


@dataclass(frozen=True)
class Value:
    """One number of a series at a time."""

    ts: datetime
    series: str
    number: float


@dataclass(frozen=True)
class Panel:
    """Series that share an axis, and the words along it; `minutes`: a value is of the minute before its time."""

    unit: str
    values: Sequence[Value]
    minutes: bool = False


def counts_chart(panels: Sequence[Panel]) -> Spec:
    """Those panels that have values, one at least, under each other over one axis of time, as Vega-Lite."""
    import altair as alt

    times = [value.ts for panel in panels for value in panel.values]
    format = time_format(max(times) - min(times))
    charts = [_drawn(panel, format) for panel in panels if panel.values]
    return styled(alt.vconcat(*charts, spacing=12).resolve_scale(x="shared", color="independent"))


def _drawn(panel: Panel, format: str) -> Any:
    import altair as alt

    values = [{"ts": int(v.ts.timestamp() * 1000), "series": v.series, "number": v.number} for v in panel.values]
    names = list(dict.fromkeys(value.series for value in panel.values))
    scale = alt.Scale(domain=names, range=[SHADES[place % len(SHADES)] for place, _ in enumerate(names)])
    chart = alt.Chart(alt.Data(values=values)).mark_line(
        interpolate="step-before" if panel.minutes else "step-after", point={"size": 12}
    )
    return chart.encode(
        x=alt.X("ts:T", scale=alt.Scale(type="utc"), axis=alt.Axis(title=None, format=format, labelOverlap=True)),
        y=alt.Y("number:Q", title=panel.unit),
        color=alt.Color("series:N", title=None, scale=scale, legend=alt.Legend(symbolType="stroke", labelLimit=200)),
        tooltip=[alt.Tooltip("series:N"), alt.Tooltip("number:Q"), alt.Tooltip("ts:T", format="%H:%M:%S")],
    ).properties(width=WIDTH, height=HEIGHT)
