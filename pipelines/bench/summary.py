"""The table that a benchmark prints."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pipelines.bench.measured import Engine, Measured
from pipelines.bench.workload import Load
from pipelines.render import as_table

COLUMNS = ["engine", "seconds", "spread", "events/s", "ratio", "CPU s", "peak memory"]


def summary(load: Load, engines: Sequence[type[Engine]], rounds: Sequence[Sequence[Measured]]) -> str:
    """Medians over the rounds; `ratio` is the median of the rounds' own ratios to the last engine."""
    columns = list(zip(*rounds, strict=True))
    rows = [
        _row(engine.NAME, load.events, measured, columns[-1]) for engine, measured in zip(engines, columns, strict=True)
    ]
    head = (
        f"{load.events:,} events of {load.partitions:,} partitions in {load.seconds} s of their time; "
        f"HW at a resolution of 1 s; {len(rounds)} interleaved rounds, medians"
    )
    agreed = f"All agree on {len(rounds[-1][-1].answer):,} HWs: that after each second of each partition, and the last."
    counted = [f"{engine.NAME}: {engine.COUNTED}" for engine in engines]
    return "\n".join([head, "", as_table(rows, COLUMNS), "", agreed, "Counted:", *(f"  {line}" for line in counted)])


def _row(name: str, events: int, measured: Sequence[Measured], beside: Sequence[Measured]) -> dict[str, str | None]:
    seconds = [m.seconds for m in measured]
    cpu = [m.cpu_seconds for m in measured if m.cpu_seconds is not None]
    peak = [m.peak_bytes for m in measured if m.peak_bytes is not None]
    ratio = median(b.seconds / m.seconds for m, b in zip(measured, beside, strict=True))
    return {
        "engine": name,
        "seconds": f"{median(seconds):.2f}",
        "spread": f"{min(seconds):.2f} to {max(seconds):.2f}",
        "events/s": f"{events / median(seconds):,.0f}",
        "ratio": f"{ratio:.2f}",
        "CPU s": f"{median(cpu):.1f}" if cpu else None,
        "peak memory": f"{max(peak) / 1e6:,.0f} MB" if peak else None,
    }
