"""The table of one comparison of engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pipelines.bench.engines.engine import Asked, Engine
from pipelines.bench.measure.measured import Measured
from pipelines.bench.workloads.workload import Load
from pipelines.commands.show.tables import as_table

COLUMNS = ["engine", "seconds", "spread", "events/s", "ratio", "CPU s", "events/CPU s", "peak memory", "written"]
BESIDE = "DuckDB window"
"""Whose speed the others are given as a multiple of, where it ran."""


@dataclass(frozen=True)
class Comparison:
    """The rounds of some engines on one load; of each round one measurement per engine, and each one's peak memory."""

    load: Load
    asked: Asked
    engines: Sequence[type[Engine]]
    rounds: Sequence[Sequence[Measured]]
    peaks: Sequence[int | None]

    def of(self, name: str) -> list[Measured]:
        """All rounds of one engine; none where it did not run."""
        names = [engine.NAME for engine in self.engines]
        return [r[names.index(name)] for r in self.rounds] if name in names else []

    def speed(self, name: str) -> float:
        """Median events a second of an engine that ran."""
        return self.load.events / median(m.seconds for m in self.of(name))

    @property
    def fact_counts(self) -> dict[str, int]:
        """How many rows of each question all of them gave."""
        return {question: len(rows) for question, rows in self.rounds[-1][-1].answers.items()}


def summary(c: Comparison) -> str:
    """The table as text, with what was asked above and what was counted below."""
    counted = [f"  {engine.NAME}: {engine.COUNTED}" for engine in c.engines]
    return "\n".join([head(c), "", as_table(rows(c), COLUMNS), *parts(c), "", agreed(c), "Counted:", *counted])


def parts(c: Comparison) -> list[str]:
    """A line for each part of an engine's seconds that it measured apart: medians."""
    return [
        f"of {engine.NAME}, {part}: {(seconds := median(m.parts[part] for m in c.of(engine.NAME))):.2f} s, "
        f"{c.load.events / seconds:,.0f} events/s"
        for engine in c.engines
        for part in c.rounds[0][list(c.engines).index(engine)].parts
    ]


def head(c: Comparison) -> str:
    facts = sum(c.fact_counts.values())
    density = f"a row of the answer per {c.load.events / facts:,.1f} events" if facts else "no answer"
    return (
        f"{c.load.events:,} events of {c.load.partitions:,} partitions in {c.load.seconds} s of their time; "
        f"HW at {resolution(c.asked)}, {density}; {len(c.rounds)} interleaved rounds, medians"
    )


def resolution(asked: Asked) -> str:
    """How fine the HWs are, in words."""
    if not asked.resolution_ms:
        return "every change"
    return f"a resolution of {asked.resolution_ms / 1000:g} s"


def agreed(c: Comparison) -> str:
    counted = ", ".join(f"{count:,} {question}" for question, count in c.fact_counts.items())
    return f"All agree on {counted}: compared row by row in every round, before any time was printed."


def rows(c: Comparison) -> list[dict[str, str | None]]:
    """A row per engine; `ratio` is the median of the rounds' own ratios to BESIDE."""
    return [
        _row(engine.NAME, c.load.events, c.of(engine.NAME), c.of(BESIDE), peak)
        for engine, peak in zip(c.engines, c.peaks, strict=True)
    ]


def _row(
    name: str, events: int, measured: Sequence[Measured], beside: Sequence[Measured], peak: int | None
) -> dict[str, str | None]:
    seconds = [m.seconds for m in measured]
    cpu = [m.cpu_seconds for m in measured if m.cpu_seconds is not None]
    ratio = median(b.seconds / m.seconds for m, b in zip(measured, beside, strict=True)) if beside else None
    written = max(m.written for m in measured)
    return {
        "engine": name,
        "seconds": f"{median(seconds):.2f}",
        "spread": f"{min(seconds):.2f} to {max(seconds):.2f}",
        "events/s": f"{events / median(seconds):,.0f}",
        "ratio": f"{ratio:.2f}" if ratio else None,
        "CPU s": f"{median(cpu):.1f}" if cpu else None,
        "events/CPU s": f"{events / max(median(cpu), 0.01):,.0f}" if cpu else None,
        "peak memory": f"{peak / 1e6:,.0f} MB" if peak else None,
        "written": f"{written / 1e6:,.1f} MB" if written else "none",
    }
