"""The points of a benchmark as one SVG, a panel for each kind of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.bench.report.readme import Panel, Point

WIDTH, LINES_HEIGHT, BAR_HEIGHT = 420, 150, 16


def draw(points: Sequence[Point], file: Path) -> None:
    """Bars in panels without an x, else lines; panels under each other, in the order of their first points."""
    import altair as alt

    panels = dict.fromkeys(p.panel for p in points)
    charts = [_drawn(panel, [p for p in points if p.panel == panel]) for panel in panels]
    file.parent.mkdir(parents=True, exist_ok=True)
    alt.vconcat(*charts).resolve_scale(color="independent").save(str(file))


def _drawn(panel: Panel, points: Sequence[Point]) -> Any:
    import altair as alt
    import pandas as pd

    rows = pd.DataFrame({"x": [p.x for p in points], "y": [p.y for p in points], "series": [p.series for p in points]})
    series = list(dict.fromkeys(rows["series"]))
    chart = alt.Chart(rows, title=panel.title, width=WIDTH)
    color = alt.Color("series:N", title=None, sort=series)
    if panel.x:
        lines = chart.mark_line(point=True).properties(height=LINES_HEIGHT)
        return lines.encode(x=alt.X("x:Q", title=panel.x), y=alt.Y("y:Q", title=panel.y), color=color)
    beside = alt.Row(
        "x:N", title=None, sort=list(dict.fromkeys(rows["x"])), header=alt.Header(labelAngle=0, labelAlign="left")
    )
    bars = chart.mark_bar().properties(height=BAR_HEIGHT * len(series))
    named = alt.Y("series:N", title=None, sort=series)
    return bars.encode(x=alt.X("y:Q", title=panel.y), y=named, row=beside, color=color.legend(None))
