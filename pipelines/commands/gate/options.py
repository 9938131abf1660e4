"""The options of `hwmark gate`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, TableOrJson, settings_of, settings_of_existing_lake
from pipelines.commands.exits import GATE_NO, GATE_NOT_KNOWN
from pipelines.errors import UsageError


def gate(
    broker: Annotated[list[int] | None, typer.Option(metavar="N", help="A broker to stop; again for more.")] = None,
    rack: Annotated[str | None, typer.Option(metavar="R", help="All brokers of this rack.")] = None,
    lake: Lake = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="The cluster, if the lake has several.")] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Ask the cluster itself, its quorum too, not the lake.")
    ] = None,
    wait: Annotated[str | None, typer.Option(metavar="10m", help="Wait so long for a yes.")] = None,
    max_age: Annotated[
        str, typer.Option(metavar="30s", help="The greatest age of the lake's newest rows for a yes.")
    ] = "30s",
    accept_unavailable: Annotated[
        bool,
        typer.Option(
            "--accept-unavailable", help="Partitions with too few replicas to keep min ISR, all in sync, may stop."
        ),
    ] = False,
    controllers_apart: Annotated[
        bool, typer.Option("--controllers-apart", help="No broker is a controller, too: a lake does not show that.")
    ] = False,
    downtime: Annotated[
        str | None,
        typer.Option(metavar="15m", help="A yes opens a downtime of these brokers (`hwmark downtime`)."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many partitions in the table.")] = 30,
    format: Annotated[TableOrJson, typer.Option(help="How to print.")] = TableOrJson.table,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """May these brokers be stopped now? Exit status 0: yes; 3: no, and what would break; 4: not known, and why.

    Yes: every partition that they host keeps its min ISR and a caught-up leader to move to, and, with --bootstrap,
    the controllers keep a majority. Security and passwords for --bootstrap: [watch] of the configuration.

    \b
    Examples:
      hwmark gate --broker 3 --lake lake --controllers-apart
      hwmark gate --broker 3 --lake lake --controllers-apart --wait 10m && systemctl restart kafka
      hwmark gate --broker 3 --lake lake --controllers-apart --downtime 15m
      hwmark gate --rack eu-1a --bootstrap kafka-1:9092
    """
    from datetime import timedelta

    from pipelines.commands.gate import command
    from pipelines.settings import duration

    if bool(broker) == bool(rack):
        raise UsageError("which brokers? Name them with --broker N, again for more, or with --rack R")
    given = {} if bootstrap is None else {"watch": {"bootstrap": bootstrap}}
    settings = (settings_of if bootstrap else settings_of_existing_lake)(config, lake={"path": lake}, **given)
    oldest = timedelta(seconds=duration("--max-age", max_age))
    asked = command.Asked(cluster, tuple(broker or ()), rack, oldest, controllers_apart)
    wait_s = 0.0 if wait is None else duration("--wait", wait)
    if bootstrap:
        source = command.of_cluster(settings, asked, waits=wait_s > 0, debug=debug)
    else:
        source = command.of_lake(settings, asked)
    if downtime is not None and bootstrap:
        raise UsageError("--downtime is written into a lake: leave out --bootstrap, or open it by `hwmark downtime`")
    lasts_s = 0.0 if downtime is None else duration("--downtime", downtime)
    printing = command.Printing(format.value, limit, accept_unavailable)
    status = command.gate(
        source,
        printing,
        wait_s,
        opens=lambda facts: command.open_downtime(settings, facts, lasts_s),
        records=lambda judged: None if bootstrap else command.record(settings, judged),
    )
    if status == GATE_NO:
        raise typer.Exit(GATE_NO)
    if status == GATE_NOT_KNOWN:
        raise typer.Exit(GATE_NOT_KNOWN)
