"""`hwmark dashboard`: the web page."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo
from pipelines.errors import UsageError
from pipelines.secret import reveal

if TYPE_CHECKING:
    from fastapi import FastAPI

    from pipelines.gate.facts import Facts
    from pipelines.settings import Settings
    from pipelines.web.answers.gate import AskCluster
    from pipelines.web.answers.groups import Groups

LEAST = 16
"""Characters of a token that guards an address others reach."""


def dashboard(
    lake: Lake = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where it listens; another needs a token.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0: any that is free.")] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Serve a read-only web page of a lake, and the same answers as JSON below /api/v1.

    It listens on the loopback address unless configured otherwise; on another it asks for the token of [dashboard].

    \b
    Examples:
      hwmark dashboard --lake lake
      HWMARK_DASHBOARD__TOKEN=file:/run/secrets/hwmark hwmark dashboard --lake lake --host 0.0.0.0
    """
    settings = settings_of_existing_lake(config, lake={"path": lake}, dashboard={"host": host, "port": port})
    made = app(settings)
    from pipelines.web.server import listening, serve

    chosen = settings.dashboard
    with listening(chosen.host, chosen.port) as place:
        name = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
        echo(f"http://{name}:{place.getsockname()[1]}/ shows {settings.lake.path}; Ctrl-C ends it")
        serve(made, place)


def app(settings: Settings) -> FastAPI:
    """The application as the settings have it. Raises UsageError where an address needs a token."""
    from pipelines.commands import jobs
    from pipelines.metrics.routes import router
    from pipelines.web.app import create_app
    from pipelines.web.guard import LOOPBACK
    from pipelines.web.snapshot import Reader

    chosen = settings.dashboard
    guard = reveal(chosen.token, "dashboard.token")
    local = chosen.host in LOOPBACK
    if not local and len(guard) < LEAST:
        raise UsageError(
            f"--host {chosen.host} can be reached from elsewhere: set HWMARK_DASHBOARD__TOKEN, or what "
            f"[dashboard] token names, to a token of {LEAST} characters or more"
        )
    place = settings.tables
    reader = Reader(place, jobs.limits(settings), clock.now, chosen.refresh, jobs.owners(settings))
    metrics = router(jobs.exporter(settings, clock.now))
    hosts = LOOPBACK if local else ()
    ask = _ask_cluster(settings, guard)
    groups = _groups(settings) if ask else None
    return create_app(reader, hosts=hosts, token=guard, routers=[metrics], ask_cluster=ask, groups=groups)


def _groups(settings: Settings) -> Groups:
    """Return the questioner of the watched cluster about its consumer groups."""
    from functools import partial

    from pipelines.commands.notify.groups import ask_groups
    from pipelines.web.answers.groups import Groups

    return Groups(settings.watch.cluster, partial(ask_groups, settings))


def _ask_cluster(settings: Settings, guard: str) -> AskCluster | None:
    """The function that asks the cluster whether a broker may be stopped; None if only the lake is asked."""
    if not settings.dashboard.gate:
        return None
    if not guard or not settings.watch.bootstrap:
        raise UsageError("[dashboard] gate asks the cluster: set a token, and [watch] bootstrap and cluster")

    def ask(cluster: str, broker: int) -> Facts | None:
        from pipelines.commands.gate.command import Asked, of_cluster

        if cluster != settings.watch.cluster:
            return None
        return of_cluster(settings, Asked(None, (broker,), None, timedelta(0)), waits=True, debug=False)()

    return ask
