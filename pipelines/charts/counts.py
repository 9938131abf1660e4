"""Counts and lags over minutes or intervals: one line each, in panels under each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipelines.charts.style import SHADES, WIDTH, Spec, end_layer, pointer_layers, styled, time_format

HEIGHT = 110


@dataclass(frozen=True)
class Value:
    """One number of a series at a time, or anything from `low` to it, as samples leave it; None: a line ends there."""

    ts: datetime
    series: str
    number: float | None
    low: float | None = None


@dataclass(frozen=True)
class Panel:
    """Series over one axis, with their title and unit; `minutes`: each value is about the time since the one before."""

    title: str
    unit: str
    values: Sequence[Value]
    minutes: bool = False


def counts_chart(panels: Sequence[Panel], until: datetime | None = None) -> Spec:
    """Those panels that have values, one at least, under each other over one axis of time, as Vega-Lite."""
    import altair as alt

    times = [value.ts for panel in panels for value in panel.values]
    format = time_format(max(times) - min(times))
    charts = [_drawn(panel, format, place, until) for place, panel in enumerate(panels) if panel.values]
    return styled(alt.vconcat(*charts, spacing=12).resolve_scale(x="shared", color="independent"))


def _drawn(panel: Panel, format: str, place: int, until: datetime | None) -> Any:
    import altair as alt

    values = [vars(v) | {"ts": int(v.ts.timestamp() * 1000)} for v in panel.values]
    names = list(dict.fromkeys(value.series for value in panel.values))
    scale = alt.Scale(domain=names, range=list(SHADES))
    x = alt.X("ts:T", scale=alt.Scale(type="utc"), axis=alt.Axis(title=None, format=format, labelOverlap=True))
    y = alt.Y("number:Q", title=panel.unit)
    color = alt.Color(
        "series:N",
        title=None,
        scale=scale,
        legend=alt.Legend(symbolType="stroke", labelLimit=200) if len(names) > 1 else None,
    )
    step = "step-before" if panel.minutes else "step-after"
    chart = alt.Chart(alt.Data(values=values))
    drawn = [chart.mark_line(interpolate=step).encode(x=x, y=y, color=color)]
    if any(value.low is not None for value in panel.values):
        bracket = chart.transform_filter("isValid(datum.low)").mark_area(interpolate=step, fillOpacity=0.25)
        drawn.insert(0, bracket.encode(x=x, y=y, y2="low:Q", color=color))
    together = dict[int, dict[str, Any]]()
    for value in values:
        if value["number"] is None:
            continue
        together.setdefault(value["ts"], {"ts": value["ts"], "most": 0})[value["series"]] = value["number"]
        together[value["ts"]]["most"] = max(together[value["ts"]]["most"], value["number"])
    drawn += pointer_layers([*together.values()], "most", names, x, place)
    drawn += [end_layer(until, x)] if until else []
    return alt.layer(*drawn).properties(width=WIDTH, height=HEIGHT, title=panel.title)
