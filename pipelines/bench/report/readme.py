"""What a benchmark found, as text for people and between two markers of docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pipelines.errors import UsageError

BEGIN, END = "<!-- bench: written by `hwmark bench --readme` -->", "<!-- bench: end -->"
PLOT = Path("bench.svg")
"""Beside the report."""


@dataclass(frozen=True)
class Panel:
    """A part of the plot and what stands along its axes; `x` is empty where its points have words there."""

    title: str
    y: str
    x: str = ""


@dataclass(frozen=True)
class Point:
    """One number of the plot: in which panel, of whom, at what x."""

    panel: Panel
    series: str
    x: str | float
    y: float


@dataclass(frozen=True)
class Section:
    """One part of a benchmark: its heading, what it printed, and its points of the plot."""

    title: str
    text: str
    points: Sequence[Point] = field(default=())


THROUGHPUT = Panel("Throughput", "million events a second")
GROWTH = Panel("Throughput by size", "million events a second", "thousand partitions")
BACKLOG = Panel("Live: commits not yet read when a batch ends", "commits of one second", "seconds since the start")


def printed(section: Section) -> str:
    """A section as a terminal shows it."""
    return f"{section.title}\n{'=' * len(section.title)}\n\n{section.text}\n"


def machine() -> str:
    """Where and when it was measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}; {datetime.now(UTC):%Y-%m-%d}, all in one run"
    )


def require_markers(readme: Path) -> None:
    """Raises UsageError where the README has no place for a report."""
    if not readme.is_file():
        raise UsageError(f"--readme writes into {readme.absolute()}, which is no file: run it in a checkout")
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise UsageError(f"{readme} has no line {BEGIN} followed by a line {END}: add them where the report should be")


def write_readme(readme: Path, sections: Sequence[Section]) -> None:
    """Puts the sections, and the plot where they have points, between the markers. Raises UsageError."""
    require_markers(readme)
    text = readme.read_text(encoding="utf-8")
    head, tail = text[: text.index(BEGIN)], text[text.index(END) :]
    parts = [BEGIN, f"Measured on {machine()}."]
    if points := [p for s in sections for p in s.points]:
        from pipelines.bench.report.plot import draw

        draw(points, readme.parent / PLOT)
        parts.append(f"![events per second, growth, backlog]({PLOT.as_posix()})")
    parts += [f"**{s.title}**\n\n```\n{s.text}\n```" for s in sections]
    readme.write_text(head + "\n\n".join(parts) + "\n" + tail, encoding="utf-8")
