"""One partition over time: the LEO of each replica and the HW, what was lost, who led, and below it the ISR."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipelines.charts.style import INK, LOST, SHADES, WIDTH, Spec, styled, time_format
from pipelines.timeline.offsets import HW, Point
from pipelines.timeline.partition import LostRange, PartitionPast

HEIGHT, BAND = 220, 18


def partition_chart(past: PartitionPast) -> Spec:
    """The chart as Vega-Lite."""
    import altair as alt

    above = alt.layer(*_lost(past), *_terms(past), _lines(past)).properties(width=WIDTH, height=HEIGHT)
    charts = [above, _band(past)] if past.stretches else [above]
    return styled(alt.vconcat(*charts, spacing=6).resolve_scale(x="shared", color="shared"))


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

    shades = [SHADES[place % len(SHADES)] for place, _ in enumerate(past.replicas)]
    scale = alt.Scale(domain=[HW, *past.replicas], range=[INK, *shades])
    return alt.Color(
        "series:N", title=None, scale=scale, legend=alt.Legend(orient="right", symbolType="stroke"), **more
    )


def _lines(past: PartitionPast) -> Any:
    import altair as alt

    values = [{"ts": _ms(p.ts), "series": p.series, "offset": p.offset} for p in [*past.points, *_to_the_end(past)]]
    chart = alt.Chart(alt.Data(values=values)).mark_line(interpolate="step-after", clip=True)
    dash = alt.condition(f"datum.series === '{HW}'", alt.value([5, 3]), alt.value([1, 0]))
    return chart.encode(
        x=_x(past),
        y=alt.Y("offset:Q", title="offset", scale=alt.Scale(zero=False)),
        color=_color(past),
        strokeDash=dash,
        strokeWidth=alt.condition(f"datum.series === '{HW}'", alt.value(2.5), alt.value(1.5)),
        tooltip=[alt.Tooltip("series:N"), alt.Tooltip("offset:Q"), alt.Tooltip("ts:T", format="%H:%M:%S.%L")],
    )


def _to_the_end(past: PartitionPast) -> list[Point]:
    """The HW stands where it stood last; of a replica nothing is known behind its last event."""
    last = max((point for point in past.points if point.series == HW), default=None)
    return [Point(past.until, HW, last.offset)] if last and last.ts < past.until else []


def _lost(past: PartitionPast) -> list[Any]:
    import altair as alt

    if not past.lost:
        return []
    values = [
        {"ts": _ms(one.ts), "end": _ms(past.until), "first": one.first, "last": one.last + 1, "text": _words(one)}
        for one in past.lost
    ]
    chart = alt.Chart(alt.Data(values=values))
    area = chart.mark_rect(color=LOST, opacity=0.2, clip=True).encode(x=_x(past), x2="end", y="first:Q", y2="last")
    label = chart.mark_text(align="left", baseline="top", dx=4, dy=4, color=LOST, fontWeight="bold", clip=True)
    return [area, label.encode(x=_x(past), y="last:Q", text="text:N")]


def _words(one: LostRange) -> str:
    return f"{'lost' if one.sure else 'may be lost'}: {one.first}..{one.last}"


def _terms(past: PartitionPast) -> list[Any]:
    import altair as alt

    values = [{"ts": _ms(term.ts), "text": f"{term.leader_id} leads"} for term in past.terms]
    if not values:
        return []
    chart = alt.Chart(alt.Data(values=values))
    rule = chart.mark_rule(color=INK, opacity=0.4, strokeDash=[2, 2], clip=True).encode(x=_x(past))
    label = chart.mark_text(align="left", baseline="bottom", dx=3, fontSize=10, color=INK, clip=False)
    return [rule, label.encode(x=_x(past), y=alt.value(0), text="text:N")]


def _band(past: PartitionPast) -> Any:
    import altair as alt

    values = [
        {"ts": _ms(one.since), "end": _ms(one.until), "series": f"broker {one.replica_id}"} for one in past.stretches
    ]
    rows = alt.Y("series:N", title="in the ISR", sort=past.replicas, scale=alt.Scale(domain=past.replicas))
    bars = alt.Chart(alt.Data(values=values)).mark_bar(height=BAND - 6, clip=True)
    tooltip = [
        alt.Tooltip("series:N"),
        alt.Tooltip("ts:T", format="%H:%M:%S.%L"),
        alt.Tooltip("end:T", format="%H:%M:%S.%L"),
    ]
    encoded = bars.encode(x=_x(past), x2="end", y=rows, color=_color(past), tooltip=tooltip)
    return encoded.properties(width=WIDTH, height=BAND * max(1, len(past.replicas)))


def _ms(ts: datetime) -> int:
    return int(ts.timestamp() * 1000)
