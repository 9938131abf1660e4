"""The options of `hwmark simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of
from pipelines.commands.progress import echo
from pipelines.errors import UsageError


def simulate(
    seed: Annotated[int | None, typer.Option(metavar="N", help="The same seed, the same bytes.")] = None,
    lake: Lake = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="What to call it.")] = None,
    brokers: Annotated[int | None, typer.Option(metavar="N", help="How many brokers: 1, 2, 3, ...")] = None,
    racks: Annotated[int | None, typer.Option(metavar="N", help="In so many racks; 0: none known.")] = None,
    topics: Annotated[
        str | None, typer.Option(metavar="SPEC", help="NAME:PARTITIONSxREPLICAS[:min-isr=N][:unclean],...")
    ] = None,
    partitions: Annotated[int | None, typer.Option(metavar="N", help="Instead of --topics: one topic, orders.")] = None,
    duration: Annotated[str | None, typer.Option(metavar="60s", help="How long it runs, in its own time.")] = None,
    version: Annotated[str | None, typer.Option(metavar="4.1", help="Of Kafka, whose rules it follows.")] = None,
    load: Annotated[
        list[str] | None, typer.Option(metavar="SPEC", help="[TOPIC=]SHAPE:RATE[,KEY=VALUE...]; again for more.")
    ] = None,
    faults: Annotated[str | None, typer.Option(metavar="FILE", help="A TOML file of faults and rates.")] = None,
    fault: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help='"12s freeze 3 for 20s"; again for more.')
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option(metavar="KIND=N", help="Faults by chance, so many a minute; again for more.")
    ] = None,
    level: Annotated[
        int | None, typer.Option(metavar="3|2|0", help="The telemetry level: 3 full TRACE, 2 lean, 0 INFO.")
    ] = None,
    fetch_every_ms: Annotated[
        int | None, typer.Option(metavar="N", help="Report fetches that change nothing only so often; 0: each.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(metavar="DIR", help="What really happened, as Delta tables.")] = None,
    tiles: Annotated[
        bool, typer.Option(help="Above 500 partitions simulate a share of them, and copy it; else each, slowly.")
    ] = True,
    scenario: Annotated[str | None, typer.Option(metavar="NAME", help="Play this one, without all of that.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the scenario step by step.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Name the scenarios, faults and loads there are.")] = False,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Run a simulated Kafka cluster and bring its telemetry into a lake, or play a scenario that shows a rule at work.

    \b
    Examples:
      hwmark simulate --scenario two-rounds --explain
      hwmark simulate --seed 7 --lake lake --fault "12s freeze 3 for 40s" --duration 90s
      hwmark simulate --seed 8 --cluster rough --lake lake --rate kill=1 --rate cut=2 --truth truth
      hwmark simulate --brokers 6 --topics orders:12x3:min-isr=2,clicks:4x2:unclean --load wave:500,hot=1.1 --lake lake
      hwmark simulate --brokers 60 --partitions 100000 --load steady:100000 --cluster large --lake lake
      hwmark simulate --lake lake --load bursts:500,acks=all,producers=3,by=key,hot=1.1 --fault "20s kill 1 for 9s"
      hwmark simulate --lake lake --partitions 400 --fetch-every-ms 10000 --fault "9s kill 1 for 9s"
      HWMARK_SIMULATE__CLOCK_SKEW_MS=5000 hwmark simulate --lake lake --fault "9s rolling-restart"
      hwmark simulate --list

    Everything else that a cluster can be set to has a key under [simulate] in conf/hwmark.toml: the lag and session
    times, skew and drift of clocks, retention, delays and refusals of the controller.
    """
    from pipelines.commands.simulate import command

    given = {
        "seed": seed, "cluster": cluster, "brokers": brokers, "racks": racks, "topics": topics,
        "partitions": partitions, "duration": duration, "version": version, "load": load, "faults": faults,
        "fault": fault, "rates": command.numbers(rate), "level": level, "fetch_every_ms": fetch_every_ms,
    }  # fmt: skip
    way = command.Way(lake is not None, truth, tiles)
    settings = settings_of(config, lake={"path": lake}, simulate=given)
    if list_:
        command.show_list(echo)
    elif scenario:
        command.play(settings, scenario, given, explain, way, echo)
    elif explain:
        raise UsageError("--explain prints a scenario step by step and needs --scenario; --list names them")
    else:
        command.simulate(settings, given, way, echo)
