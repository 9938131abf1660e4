"""One partition over time: the LEO of each replica and the HW, what was lost, who led, and below it the ISR."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

from pipelines.charts.style import CLOCK, INK, LOST, SHADES, WIDTH, Spec, end_layer, pointer_layers, styled, time_format
from pipelines.timeline.offsets import HW, Point
from pipelines.timeline.partition import PartitionPast
from pipelines.verdict.words import listed

HEIGHT, BAND, POINTED = 220, 18, 100
AWAY = 10
"""Samples further apart than so many usual intervals show that the follower was away."""


def partition_chart(past: PartitionPast, *, pointer: bool = False, until: datetime | None = None) -> Spec:
    """The chart as Vega-Lite; with a `pointer` a rule and the values follow it.

    Its axis goes on to `until`, if that is later. It has no more replicas than there are colours, who leads and those
    furthest behind, and names the others.
    """
    import altair as alt

    left = _ordered(past)[len(SHADES) :]
    points = [point for point in past.points if point.series not in left]
    stretches = [one for one in past.stretches if f"broker {one.replica_id}" not in left]
    past = replace(past, points=points, stretches=stretches)
    drawn = [*_lost(past), *_terms(past), *_brackets(past), _lines(past), *(_pointed(past) if pointer else [])]
    drawn += [end_layer(until, _x(past))] if until else []
    above = alt.layer(*drawn).properties(width=WIDTH, height=HEIGHT)
    said = [*_lost_words(past), *([f"not drawn: {', '.join(left)}"] if left else [])]
    above = above.properties(title=said) if said else above
    charts = [above, *([_band(past)] if past.stretches else []), *([_states(past)] if past.states else [])]
    return styled(alt.vconcat(*charts, spacing=6).resolve_scale(x="shared", color="shared"))


def _ordered(past: PartitionPast) -> list[str]:
    last = {point.series: point.offset for point in past.points}
    leads = f"broker {past.terms[-1].leader_id}" if past.terms else ""
    return sorted(past.replicas, key=lambda name: (name != leads, last.get(name, 0)))


def _x(past: PartitionPast) -> Any:
    import altair as alt

    scale = alt.Scale(type="utc", nice=False)
    return alt.X(
        "ts:T",
        scale=scale,
        axis=alt.Axis(title=None, format=time_format(past.until - past.since), labelOverlap=True),
    )


def _color(past: PartitionPast, **more: Any) -> Any:
    import altair as alt

    scale = alt.Scale(domain=[HW, *past.replicas], range=[INK, *SHADES])
    return alt.Color("series:N", title=None, scale=scale, legend=alt.Legend(symbolType="stroke"), **more)


def _lines(past: PartitionPast) -> Any:
    import altair as alt

    dash = alt.condition(f"datum.series === '{HW}'", alt.value([5, 3]), alt.value([1, 0]))
    width = alt.condition(f"datum.series === '{HW}'", alt.value(2.5), alt.value(1.5))
    lines = _points(past).mark_line(interpolate="step-after", clip=True)
    return lines.encode(x=_x(past), y=_y(), color=_color(past), strokeDash=dash, strokeWidth=width)


def _brackets(past: PartitionPast) -> list[Any]:
    """Areas between successive samples of a follower; none while it was away, as its LEO is not known then."""
    import altair as alt

    values, of = [], defaultdict[str, list[Point]](list)
    for point in past.points if past.sampled else ():
        of[point.series].append(point)
    for points in of.values():
        each = list(pairwise(points))
        usual = median([_ms(other.ts) - _ms(one.ts) for one, other in each]) if each else 0
        values += [
            {"ts": _ms(one.ts), "series": one.series, "offset": one.offset, "to": other.offset}
            for one, other in each
            if _ms(other.ts) - _ms(one.ts) <= AWAY * usual
        ]
    leaders = {f"broker {term.leader_id}" for term in past.terms} | {HW}
    chart = alt.Chart(alt.Data(values=[value for value in values if value["series"] not in leaders]))
    area = chart.mark_area(interpolate="step-after", fillOpacity=0.25, clip=True)
    return [area.encode(x=_x(past), y=_y(), y2="to:Q", color=_color(past))] if past.sampled else []


def _pointed(past: PartitionPast) -> list[Any]:
    stride, now, values = len(past.points) // POINTED + 1, dict[str, int](), []
    for place, point in enumerate(past.points):
        now[point.series] = point.offset
        if place % stride == 0:
            values.append({"ts": _ms(point.ts), "offset": point.offset, **now})
    return pointer_layers(values, "offset", (HW, *past.replicas), _x(past))


def _points(past: PartitionPast) -> Any:
    import altair as alt

    points = sorted([*past.points, *_to_the_end(past)], key=lambda point: point.series == HW)  # the HW lies on top
    return alt.Chart(alt.Data(values=[{"ts": _ms(p.ts), "series": p.series, "offset": p.offset} for p in points]))


def _y() -> Any:
    import altair as alt

    return alt.Y("offset:Q", title="offset", scale=alt.Scale(zero=False))


def _to_the_end(past: PartitionPast) -> list[Point]:
    """A last point for the HW, which stays at its last value; no replica's offset is known after its last event."""
    last = max((point for point in past.points if point.series == HW), default=None)
    return [Point(past.until, HW, last.offset)] if last and last.ts < past.until else []


def _lost(past: PartitionPast) -> list[Any]:
    import altair as alt

    if not past.lost:
        return []
    values = [
        {"ts": _ms(one.ts), "end": _ms(past.until), "first": one.first, "last": one.last + 1} for one in past.lost
    ]
    chart = alt.Chart(alt.Data(values=values))
    return [chart.mark_rect(color=LOST, opacity=0.2, clip=True).encode(x=_x(past), x2="end", y="first:Q", y2="last")]


def _lost_words(past: PartitionPast) -> list[str]:
    """A line on lost offsets and one on those that may be lost, to stand above the chart and cover nothing."""
    each = {"lost": [one for one in past.lost if one.sure], "may be lost": [one for one in past.lost if not one.sure]}
    return [
        f"{word} (shaded): {listed([f'{one.first}..{one.last}' for one in ranges], 3)}"
        for word, ranges in each.items()
        if ranges
    ]


def _terms(past: PartitionPast) -> list[Any]:
    import altair as alt

    values = [{"ts": _ms(term.ts), "text": f"{term.leader_id} leads"} for term in past.terms]
    if not values:
        return []
    chart = alt.Chart(alt.Data(values=values))
    rule = chart.mark_rule(color=INK, opacity=0.4, strokeDash=[2, 2], clip=True).encode(x=_x(past))
    label = chart.mark_text(align="left", baseline="bottom", dx=3, fontSize=13, color=INK, clip=False)
    return [rule, label.encode(x=_x(past), y=alt.value(0), text="text:N")]


def _band(past: PartitionPast) -> Any:
    import altair as alt

    values = [
        {"ts": _ms(one.since), "end": _ms(one.until), "series": f"broker {one.replica_id}"} for one in past.stretches
    ]
    rows = alt.Y("series:N", title="in the ISR", sort=past.replicas, scale=alt.Scale(domain=past.replicas))
    bars = alt.Chart(alt.Data(values=values)).mark_bar(height=BAND - 6, clip=True)
    tooltip = [alt.Tooltip("series:N", title="in the ISR"), *_since_until()]
    encoded = bars.encode(x=_x(past), x2="end", y=rows, color=_color(past), tooltip=tooltip)
    return encoded.properties(width=WIDTH, height=BAND * max(1, len(past.replicas)))


def _states(past: PartitionPast) -> Any:
    """Times in which nobody led, or the ISR was too small, on the same axis."""
    import altair as alt

    values = [{"ts": _ms(one.since), "end": _ms(one.until), "state": one.state} for one in past.states]
    names = list(dict.fromkeys(one.state for one in past.states))
    tooltip = [alt.Tooltip("state:N"), *_since_until()]
    bars = alt.Chart(alt.Data(values=values)).mark_bar(height=BAND - 6, clip=True, color=LOST)
    rows = alt.Y("state:N", title=None, sort=names)
    return bars.encode(x=_x(past), x2="end", y=rows, tooltip=tooltip).properties(width=WIDTH, height=BAND * len(names))


def _since_until() -> list[Any]:
    import altair as alt

    return [alt.Tooltip(f"{name}:T", title=said, format=CLOCK) for name, said in (("ts", "since"), ("end", "until"))]


def _ms(ts: datetime) -> int:
    return int(ts.timestamp() * 1000)
