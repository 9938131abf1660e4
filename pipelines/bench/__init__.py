"""`hwmark bench`: `replay` and the Spark job beside other engines, on the same events and questions, in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pipelines.bench.engines.engine import Asked
from pipelines.bench.measure import cores as tasks_and_cores
from pipelines.bench.measure import incident as rolling_restart
from pipelines.bench.measure import ingested, live, restart, starts, throughput
from pipelines.bench.report.readme import Section, printed, require_markers, write_readme
from pipelines.bench.workloads.workload import DENSE, SPARSE
from pipelines.commands.progress import Say, working

ROUNDS = 3
REPORT = Path("docs/benchmarks.md")
SIZES = (2_000, 200_000)
RATE, SMALL_RATE = 300_000, 50_000
LIVE_S = 60.0

Part = Callable[[Say], Section]


def main(
    events: int,
    *,
    partitions: Sequence[int] = (),
    sparse: bool = False,
    resolution_s: float = 1.0,
    full: bool = False,
    cores: bool = False,
    incident: bool = False,
    rate: int | None = None,
    live_s: float = LIVE_S,
    readme: bool = False,
) -> None:
    """Prints each part as it is measured; with `readme` it goes into REPORT too, with those before it.

    Raises Disagreement where engines answer differently, UsageError where REPORT has no place for it.
    """
    if readme:
        require_markers(REPORT)
    asked = Asked(round(resolution_s * 1000))
    if full:
        parts = _full(events, live_s)
    elif cores:
        parts = [tasks_and_cores.measure]
    elif incident:
        parts = [partial(rolling_restart.measure, ROUNDS)]
    elif rate:
        parts = [partial(live.measure, rate, live_s)]
    else:
        parts = [_engines(events, count, SPARSE if sparse else DENSE, asked) for count in partitions or (None,)]
    sections = []
    for number, part in enumerate(parts):
        with working(f"bench {number + 1}/{len(parts)}" if len(parts) > 1 else "bench") as say:
            sections.append(part(say))
        print(printed(sections[-1]) if len(parts) > 1 else sections[-1].text, flush=True)
        if readme:
            write_readme(REPORT, sections)


def _engines(events: int, partitions: int | None, appends: int, asked: Asked) -> Part:
    return lambda say: throughput.engines(events, ROUNDS, say, partitions=partitions, appends=appends, asked=asked)


def _full(events: int, live_s: float) -> list[Part]:
    """Everything; first what an interrupted run should not lack."""
    few = throughput.FEW
    return [
        _engines(events, None, DENSE, Asked()),
        lambda say: throughput.engines(events, ROUNDS, say, appends=SPARSE, asked=Asked(), of=few),
        lambda say: throughput.engines(events, ROUNDS, say, asked=Asked(resolution_ms=0), of=few),
        lambda say: throughput.sizes(events, ROUNDS, say, SIZES),
        partial(live.measure, RATE, live_s),
        partial(live.measure, SMALL_RATE, min(live_s, LIVE_S)),
        lambda say: restart.measure(SIZES, say),
        lambda say: starts.measure(ROUNDS, say),
        ingested.measure,
        partial(rolling_restart.measure, ROUNDS),
        lambda say: throughput.scaling(events, ROUNDS, say),
    ]
