"""When a lagging replica will have caught up, as far as the last minute shows: a least-squares line through its lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from math import sqrt

from pipelines.verdict.words import span

WINDOW = timedelta(minutes=1)
LEAST_POINTS = 3
"""Through fewer points a line says nothing of its own spread."""
SHOWS_LEOS = (1, 3)
"""Levels at which every LEO is reported; at 2 only bounds of some, at 0 none."""
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95 %, by degrees of freedom from 1; beyond, that of the normal distribution serves."""
_NORMAL = 2.0

Point = tuple[datetime, int]
"""(event time, lag in records)"""


class Course(Enum):
    """The course of a lag."""

    CAUGHT_UP = "caught up"
    CATCHING_UP = "catching up"
    NOT_CATCHING_UP = "not catching up"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class CatchUp:
    """An estimate. `slope`: records per second, below 0 while it catches up, give or take `spread` (95 %).

    `seconds` until the lag is 0 from the last point on, at least `least` and at most `most`; None: not bounded.
    """

    course: Course
    slope: float | None = None
    spread: float | None = None
    seconds: float | None = None
    least: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        """`in about 40 s (30 s to 2 min)`, `not catching up`, `not known`, `caught up`."""
        if self.seconds is None:
            return self.course.value
        least, most = _span(self.least or 0), "no bound" if self.most is None else _span(self.most)
        return f"in about {_span(self.seconds)} ({least} to {most})"


def catch_up(points: Sequence[Point], level: int | None) -> CatchUp:
    """The estimate from points in any order; `level`: that of the telemetry that they come from."""
    last = max((ts for ts, _ in points), default=None)
    recent = sorted({point for point in points if last is not None and point[0] >= last - WINDOW})
    if level not in SHOWS_LEOS or len({ts for ts, _ in recent}) < LEAST_POINTS:
        return CatchUp(Course.NOT_KNOWN)
    if recent[-1][1] == 0:
        return CatchUp(Course.CAUGHT_UP)
    slope, spread = _line(recent)
    if slope >= 0:
        return CatchUp(Course.NOT_CATCHING_UP, slope, spread)
    lag = recent[-1][1]
    most = lag / -(slope + spread) if slope + spread < 0 else None
    return CatchUp(Course.CATCHING_UP, slope, spread, lag / -slope, lag / -(slope - spread), most)


def _line(points: Sequence[Point]) -> tuple[float, float]:
    """The slope of the line of least squares in records per second, and half its 95 % interval."""
    begin, count = points[0][0], len(points)
    seconds = [(ts - begin).total_seconds() for ts, _ in points]
    middle, mean = sum(seconds) / count, sum(lag for _, lag in points) / count
    squares = sum((x - middle) ** 2 for x in seconds)
    slope = sum((x - middle) * (lag - mean) for x, (_, lag) in zip(seconds, points, strict=True)) / squares
    residue = sum((lag - mean - slope * (x - middle)) ** 2 for x, (_, lag) in zip(seconds, points, strict=True))
    freedom = count - 2
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
    return slope, student * sqrt(residue / freedom / squares)


def _span(seconds: float) -> str:
    return span(timedelta(seconds=round(seconds)))
