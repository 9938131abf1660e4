"""The options of `hwmark show`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo
from pipelines.errors import UsageError


class What(StrEnum):
    """The views of `hwmark show`."""

    verdict = "verdict"
    hw = "hw"
    isr = "isr"
    sync = "sync"
    regressions = "regressions"
    alerts = "alerts"
    incidents = "incidents"
    timeline = "timeline"
    health = "health"
    brokers = "brokers"
    racks = "racks"
    replicas = "replicas"
    loss = "loss"


class Format(StrEnum):
    """The output formats of `hwmark show`."""

    table = "table"
    json = "json"
    csv = "csv"


def show(
    what: Annotated[What, typer.Argument(help="What to look at.")],
    lake: Lake = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", help="Only this partition.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="15m, 2h, 3d before the cluster's present, an ISO time (UTC), or all."),
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this cluster.")] = None,
    broker: Annotated[int | None, typer.Option(metavar="N", help="Of timeline: only what is about it.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10**9, help="At most so many rows, the newest.")] = 30,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    loss_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Of loss: its regression_id, or how that begins."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...", help="Of loss: ask the cluster which groups read what is gone or was offline."
        ),
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Look into a lake without Spark: what is known of each cluster, then rows, newest last, the latest revision only.

    Brokers, racks and replicas are those of the present. History is that of the last 24 hours of each cluster, unless
    --since says otherwise. Times are in UTC.

    \b
    Examples:
      hwmark show verdict --lake lake
      hwmark show health --lake lake
      hwmark show incidents --lake lake           one line for alerts with one first cause
      hwmark show timeline --broker 2 --since 2h  what happened, what was told, and what people said
      hwmark show regressions --lake lake
      hwmark show brokers --lake lake             who leads, follows, holds back, and is restarted
      hwmark show loss --topic clicks --partition 0
      hwmark show loss --bootstrap kafka-1:9092   which consumer groups have read what is gone
      hwmark show hw --topic orders --partition 3 --since 15m
      hwmark show isr --since 2026-11-21T09:20:00 --format json
    """
    from pipelines.commands import jobs
    from pipelines.commands.failures import damaged_table
    from pipelines.commands.show import command
    from pipelines.lake.damage import past_damage
    from pipelines.lake.lake import Lake as Place
    from pipelines.lake.queries import Filter
    from pipelines.verdict.since import since_of

    if bootstrap is not None and what is not What.loss:
        raise UsageError(f"--bootstrap is for `show loss`: leave it out of `show {what}`")
    if broker is not None and what is not What.timeline:
        raise UsageError(f"--broker is for `show timeline`: leave it out of `show {what}`")
    asked = None if since is None else since_of(since)
    settings = settings_of_existing_lake(config, lake={"path": lake}, watch={"bootstrap": bootstrap})
    limits = jobs.limits(settings, jobs.DAY if since is None else asked)
    wanted = Filter(cluster, topic, partition)
    owners = jobs.owners(settings)
    question = command.Question(what.value, wanted, limits, asked, limit, format.value, loss_id, broker, owners)
    place = settings.tables

    def answer(place: Place) -> None:
        if bootstrap is None or format is Format.table:
            echo(command.show(place, question, clock.now()))
        if bootstrap is not None:
            from pipelines.commands.show import lost_reads
            from pipelines.commands.watch.command import watch_options

            echo(lost_reads.text(place, question, watch_options(settings.watch, debug=debug), clock.now()))

    try:
        answer(place)
        return
    except UsageError:
        raise
    except Exception as error:
        failed = error
    with past_damage(place) as rest:
        if not rest.unread:
            raise failed
        answer(rest)
    raise FileNotFoundError(damaged_table(place.root, ", ".join(rest.unread)))
