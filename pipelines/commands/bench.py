"""The options of `hwmark bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.common_options import Debug
from pipelines.errors import UsageError


def bench(
    events: Annotated[
        int | None, typer.Option(min=1000, help="Replication events of each comparison; 2 million, with --full 4.")
    ] = None,
    partitions: Annotated[
        list[int] | None, typer.Option(min=1, metavar="N", help="Of so many partitions; several, one after the other.")
    ] = None,
    sparse: Annotated[bool, typer.Option("--sparse", help="An HW per 21 events at 1 s, not per 3.")] = False,
    resolution: Annotated[str, typer.Option(metavar="1s", help="How fine the HWs are; 0: every change.")] = "1s",
    live: Annotated[
        int | None, typer.Option(min=3, metavar="RATE", help="So many events a second, appended while the job runs.")
    ] = None,
    for_: Annotated[str, typer.Option("--for", metavar="2m", help="How long the live part counts.")] = "1m",
    cores: Annotated[
        bool, typer.Option("--cores", help="What 2 to 16 tasks cost, and what N cores would make of it: 10 minutes.")
    ] = False,
    incident: Annotated[
        bool, typer.Option("--incident", help="A rolling restart of 12 brokers, with 10,000 partitions: 10 minutes.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Every part: 20 minutes on an idle machine.")] = False,
    readme: Annotated[
        bool, typer.Option("--readme", help="Also write it into docs/benchmarks.md, with a plot.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Measure events a second of `replay` and of the Spark job beside other engines that answer the same questions.

    \b
    Examples:
      hwmark bench
      hwmark bench --events 1000000 --partitions 2000 --partitions 200000
      hwmark bench --sparse --resolution 0
      hwmark bench --live 300000 --for 10m
      hwmark bench --cores
      hwmark bench --incident
      hwmark bench --full --for 10m --readme
    """
    from importlib import import_module

    from pipelines.settings import duration

    if full and (partitions or sparse or live or resolution != "1s"):
        raise UsageError("--full has its own sizes, densities and rates: leave out what chooses one of them")
    if live and (partitions or sparse or resolution != "1s"):
        raise UsageError("--live has one partition per three events a second at 1 s: leave out what chooses others")
    if (cores or incident) and (full or partitions or sparse or live or resolution != "1s"):
        own = "--cores" if cores else "--incident"
        raise UsageError(f"{own} has its own sizes and partitions: leave out what chooses others")
    if incident and (cores or events):
        raise UsageError("--incident simulates its own events: leave out --cores and --events")
    import_module("pipelines.bench").main(
        events or (4_000_000 if full else 2_000_000),
        partitions=partitions or (),
        sparse=sparse,
        resolution_s=duration("--resolution", resolution),
        full=full,
        cores=cores,
        incident=incident,
        rate=live,
        live_s=duration("--for", for_),
        readme=readme,
    )
