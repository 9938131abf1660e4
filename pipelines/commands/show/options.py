"""The options of `hwmark show`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo


class What(StrEnum):
    """What `hwmark show` can show."""

    verdict = "verdict"
    hw = "hw"
    isr = "isr"
    sync = "sync"
    regressions = "regressions"
    alerts = "alerts"
    health = "health"


class Format(StrEnum):
    """How `hwmark show` prints."""

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
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows, the newest.")] = 30,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Look into a lake without Spark: what is known of each cluster, then rows, newest last, the latest revision only.

    History is told of the last 24 hours of each cluster, unless --since says otherwise. Times are in UTC.

    \b
    Examples:
      hwmark show verdict --lake lake
      hwmark show health --lake lake
      hwmark show regressions --lake lake
      hwmark show hw --topic orders --partition 3 --since 15m
      hwmark show isr --since 2026-11-21T09:20:00 --format json
    """
    from pipelines.commands import jobs
    from pipelines.commands.show import command
    from pipelines.lake import queries
    from pipelines.lake.lake import Lake
    from pipelines.verdict.since import since_of

    asked = since_of(since) if since else None
    settings = settings_of_existing_lake(config, lake={"path": lake})
    limits = jobs.limits(settings, asked if since else jobs.DAY)
    wanted = queries.Filter(cluster, topic, partition)
    question = command.Question(what.value, wanted, limits, asked, limit, format.value)
    echo(command.show(Lake(settings.lake.path, settings.lake.storage_options), question, clock.now()))
