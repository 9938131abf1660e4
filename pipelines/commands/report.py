"""`hwmark report`: an incident or a period on one page, for a review."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo, working
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.lake import lake as lakes
    from pipelines.lake.queries import Filter, Row
    from pipelines.report.contents import Asked
    from pipelines.settings import Settings
    from pipelines.verdict.since import Since


def report(
    lake: Lake = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path("report.html"),
    alert: Annotated[
        str | None, typer.Option(metavar="ID", help="On this alert or incident, from before it to its end.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="15m, 2h, 3d before the cluster's present, an ISO time (UTC), or all."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="An ISO time (UTC); else the present.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this cluster.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", min=0, help="Only this partition.")] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Write one self-contained HTML file: verdict, timeline, plots, evidence, what could not be judged.

    It needs no network, holds no script, and prints well. Without --alert and --since it is on the last 24 hours of
    each cluster.

    \b
    Examples:
      hwmark report --lake lake --alert 3ad934dca32937c0 --out incident.html
      hwmark report --lake lake --since 2026-11-21T01:25:00 --until 2026-11-21T01:30:00
    """
    from pipelines.commands import jobs
    from pipelines.lake.queries import Filter
    from pipelines.report import contents, render

    period = _period(since, until)
    if alert is not None and (since or until or cluster or topic or partition is not None):
        raise UsageError(f"--alert {alert} says what the report is on: leave the other filters away")
    render.require_place(out)
    settings = settings_of_existing_lake(config, lake={"path": lake})
    place = settings.tables
    asked = _asked(place, alert, Filter(cluster, topic, partition), *period)
    with working("report", each=False) as say:
        say("reading the lake")
        made = contents.report(place, asked, jobs.limits(settings), clock.now())
        told = _incident(settings, place, made.alert) if made.alert else ()
        say("writing it")
        render.write(render.render(made, *told), out)
    echo(f"{out}: {made.subject}, {made.period}")
    for line in made.verdict[:1]:
        echo(str(line))


def _asked(lake: lakes.Lake, alert: str | None, wanted: Filter, since: Since, until: datetime | None) -> Asked:
    from pipelines.report import contents

    return contents.on_alert(lake, alert) if alert else contents.Asked(wanted, since, until)


def _incident(settings: Settings, place: lakes.Lake, alert: Row) -> tuple[Any, Any]:
    """The answer that the page gives on an incident or alert, and the question."""
    from pipelines.commands import jobs
    from pipelines.web.answers.incident import incident_view
    from pipelines.web.asked import Asked
    from pipelines.web.snapshot import Reader

    reader = Reader(place, jobs.limits(settings), clock.now, float("inf"), jobs.owners(settings))
    asked = Asked(incident_id=alert.get("incident_id"), alert_id=alert["alert_id"])
    return incident_view(reader, asked), asked


def _period(since: str | None, until: str | None) -> tuple[Since, datetime | None]:
    from pipelines.commands.jobs import DAY
    from pipelines.verdict.since import moment_of, since_of

    first = since_of(since) if since else DAY
    last = moment_of("--until", until) if until else None
    if last is not None and isinstance(first, datetime) and first > last:
        raise UsageError(f"--until {until} is before --since {since}")
    return first, last
