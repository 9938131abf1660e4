"""The style of all charts: lines and words in the colour of the surrounding text, to fit light, dark and paper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

INK = "currentColor"
"""The colour of the page that the SVG stands in."""
LOST = "#e5484d"
SHADES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f5fc4", "#8c564b")
"""Okabe and Ito's colours, told apart by all; yellow and black are left out, which vanish on one of two grounds."""
WIDTH = 640
CLOCK = "%Y-%m-%d %H:%M:%S.%L"
"""How a time under a pointer is written."""
Spec = dict[str, Any]

_AXIS = {"labelColor": INK, "titleColor": INK, "tickColor": INK, "domainColor": INK, "gridColor": INK}


def time_format(span: timedelta) -> str:
    """The format of times along an axis of this length."""
    return "%m-%d %H:%M" if span > timedelta(days=1) else "%H:%M:%S"


def end_layer(until: datetime, x: Any) -> Any:
    """A rule that is not seen: an axis of time goes on to it. (A domain of the scale's own fails without eval.)"""
    import altair as alt

    data = alt.Data(values=[{"ts": int(until.timestamp() * 1000)}])
    return alt.Chart(data).mark_rule(opacity=0).encode(x=x)


def pointer_layers(values: list[dict[str, Any]], y: str, names: Sequence[str], x: Any, place: int = 0) -> list[Any]:
    """A rule through the time that a pointer or a finger is next to, which tells the value of each line there.

    `values`: at each `ts` that of each name; `y`: the column that has the height of what the pointer is next to;
    `place`: which chart of those under each other.
    """
    import altair as alt

    near = alt.selection_point(name=f"near{place}", fields=["ts"], nearest=True, on="pointerover,click", empty=False)
    tooltip = [alt.Tooltip("ts:T", title="time", format=CLOCK), *(alt.Tooltip(f"{name}:Q") for name in names)]
    data, shown = alt.Chart(alt.Data(values=values)), alt.condition(near, alt.value(0.5), alt.value(0))
    points = data.mark_point(opacity=0).encode(x=x, y=f"{y}:Q", tooltip=tooltip).add_params(near)
    return [data.mark_rule(color=INK).encode(x=x, opacity=shown), points]


def styled(chart: Any) -> Spec:
    """The spec of a chart of Altair's, with the colours and type of all charts."""
    spec: Spec = chart.to_dict()
    _tell_utc(spec)
    spec["background"] = "transparent"
    spec["config"] = {
        "axis": {**_AXIS, "gridOpacity": 0.15, "labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal"},
        "legend": {"labelColor": INK, "labelFontSize": 13, "symbolStrokeWidth": 2, "orient": "bottom"},
        "title": {"color": INK, "subtitleColor": INK, "fontSize": 13, "anchor": "start"},
        "view": {"stroke": None},
        "text": {"color": INK},
        "font": "system-ui, sans-serif",
    }
    return spec


def _tell_utc(chart: Spec) -> None:
    """Have tooltips tell times in UTC as the axes do: a word of Vega-Lite's that Altair lacks. The default is local."""
    for inner in (*chart.get("vconcat", ()), *chart.get("layer", ())):
        _tell_utc(inner)
    for told in chart.get("encoding", {}).get("tooltip", ()):
        if told["type"] == "temporal":
            told["scale"] = {"type": "utc"}
