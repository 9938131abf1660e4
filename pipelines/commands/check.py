"""`hwmark check`: the quality suites and the alert rules on what is new in a lake."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, FailOnAlert, Lake, settings_of_existing_lake
from pipelines.commands.exits import FIRING, UNMET
from pipelines.commands.progress import echo, working
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.settings import Settings

FailOnCheck = Annotated[
    bool, typer.Option("--fail-on-check", help="Exit with 4 when an expectation failed, and no alert says 3.")
]


def check(
    lake: Lake = None,
    fail_on_alert: FailOnAlert = False,
    fail_on_check: FailOnCheck = False,
    gx: Annotated[
        str | None,
        typer.Option(
            "--gx",
            metavar="DIR",
            help="Keep how suites of your own came out there: a project of Great Expectations, with validation results "
            "(JSON) and Data Docs.",
        ),
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Say what is known of each cluster, judge what is new in a lake (quality suites), then evaluate the alert rules.

    \b
    Examples:
      hwmark check --lake lake
      hwmark check --lake lake --fail-on-alert || page-somebody
      hwmark check --lake lake --fail-on-alert --fail-on-check
      hwmark check --lake lake --gx quality       suites of your own ([check.suites]), as Data Docs
    """
    from pipelines.commands import jobs

    settings = settings_of_existing_lake(config, lake={"path": lake}, check={"gx": gx})
    if gx is not None and not settings.check.suites:
        raise UsageError(f"--gx {gx} keeps how suites of your own came out, and [check.suites] names none")
    now = clock.now()
    for line in jobs.verdicts(settings, now):
        echo(str(line))
    with working("check", each=False) as say:
        summary = jobs.check(settings, now, say)
    echo("\n".join(summary.lines()))
    firing = any_firing(settings, now)
    if summary.failed and not fail_on_check:
        echo("Expectations failed: --fail-on-check makes that exit status 4.")
    if fail_on_alert and firing:
        raise typer.Exit(FIRING)
    if fail_on_check and summary.failed:
        raise typer.Exit(UNMET)


def any_firing(settings: Settings, now: datetime) -> bool:
    """Evaluates and prints the alerts at `now` of the wall clock; whether one is firing."""
    from pipelines.commands import jobs
    from pipelines.commands.progress import alert_line

    states = jobs.alerts(settings, now)
    for state in states:
        echo(alert_line(state))
    if not states:
        echo("No alert is firing.")
    return any(state.firing for state in states)
