"""`hwmark check`: the quality suites and the alert rules on what is new in a lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, FailOnAlert, Lake, settings_of_existing_lake
from pipelines.commands.exits import FIRING, UNMET
from pipelines.commands.progress import echo, working
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.alerting.state import AlertState
    from pipelines.alerting.step import Told
    from pipelines.lake.lake import Lake as Place
    from pipelines.quality.results import CheckSummary
    from pipelines.settings import Settings

T = TypeVar("T")
FailOnCheck = Annotated[
    bool, typer.Option("--fail-on-check", help="Exit with 4 when an expectation failed, and no alert says 3.")
]
SHOWN = 100
"""Alerts that are over and printed, the newest; the others are counted."""


def check(
    lake: Lake = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Who is told: each name is told everything once.")
    ] = "check",
    since_last: Annotated[
        bool,
        typer.Option("--since-last/--now", help="What is new since the last check of that name, or the present only."),
    ] = True,
    fail_on_alert: FailOnAlert = None,
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
      hwmark check --lake lake --fail-on-alert=info --fail-on-check
      hwmark check --lake lake --name weekly      told apart from what other names were told
      hwmark check --lake lake --now              only what fires now
      hwmark check --lake lake --gx quality       suites of your own ([check.suites]), as Data Docs
    """
    from pipelines.alerting.step import Told, set_told, told
    from pipelines.commands import jobs
    from pipelines.lake.lake import Lake as Place

    settings = settings_of_existing_lake(config, lake={"path": lake}, check={"gx": gx})
    if gx is not None and not settings.check.suites:
        raise UsageError(f"--gx {gx} keeps how suites of your own came out, and [check.suites] names none")
    now, place, wrong = clock.now(), Place(settings.lake.path, settings.lake.storage_options), list[Exception]()
    before = told(place, name) if since_last else Told(now, now)
    for line in _going_on(lambda: jobs.verdicts(settings, now), wrong) or ():
        echo(str(line))
    if off := jobs.clock_off(settings, now):
        echo(off)
    with working("check", each=False) as say:
        summary = _going_on(lambda: jobs.check(settings, now, say), wrong)
    echo("\n".join(summary.lines() if summary else ()))
    states = jobs.alerts(settings, now)
    unmet = _not_met(place, before, summary)
    severities = _tell(place, states, before if since_last else None)
    if unmet and not fail_on_check:
        echo("Expectations failed: --fail-on-check makes that exit status 4.")
    if since_last and not wrong:
        written = [state.written_at for state in stored(place) if state.written_at]
        set_told(place, name, Told(max([before.alerts, *written]), max(before.results, now)))
    if fail_on_alert and reaches(severities, fail_on_alert):
        raise typer.Exit(FIRING)
    if fail_on_check and unmet:
        raise typer.Exit(UNMET)
    if wrong:
        raise wrong[0]


def _going_on(act: Callable[[], T], wrong: list[Exception]) -> T | None:
    """What `act` returns; where it fails what comes after is done all the same, and the command fails at its end."""
    from pipelines.lake.roles import RoleHeld

    try:
        return act()
    except (UsageError, RoleHeld):
        raise
    except Exception as error:
        wrong.append(error)
        return None


def _not_met(place: Place, before: Told, summary: CheckSummary | None) -> bool:
    """Prints the expectations that failed since the last check of this name, in others than this; whether any did."""
    from pipelines.quality.results import failed_since
    from schemas import quality_results

    rows = place.read(quality_results.TABLE, quality_results.ARROW)
    earlier = failed_since(rows, before.results, summary.run_id if summary else "")
    for line in earlier:
        echo(line)
    return bool(earlier or (summary and summary.failed))


def _tell(place: Place, states: Sequence[AlertState], before: Told | None) -> set[str]:
    """Prints what fires and, unless `before` is None, what was not told; the severities of what fires, or fired."""
    from pipelines.alerting.step import News, untold
    from pipelines.commands.progress import alert_line
    from pipelines.verdict.words import count, span

    news = News() if before is None else untold(stored(place), before)
    fired = {state.episode for state in news.fired}
    known = {state.episode for state in states}
    over = [s for s in (*news.fired, *news.ended) if not s.firing and s.episode not in known]
    for state in [*states, *over[-SHOWN:]]:
        missed = f" (fired and was over: {span(state.last_ts - state.first_ts)} {state.rule.replace('_', ' ')})"
        echo(alert_line(state) + (missed if state.episode in fired and not state.firing else ""))
    if len(over) > SHOWN:
        echo(f"{count(len(over) - SHOWN, 'more alert')} fired and ended: `hwmark show alerts`")
    if news.history:
        echo(f"{count(news.history, 'alert')} had fired and ended before anybody looked: `hwmark show alerts`")
    if not states and not over:
        echo("No alert is firing.")
    return {state.severity for state in states if state.firing} | {state.severity for state in news.fired}


def stored(place: Place) -> list[AlertState]:
    """The rows of `ops/alerts`."""
    from pipelines.alerting.state import from_arrow
    from schemas import alerts

    return from_arrow(place.read(alerts.TABLE, alerts.ARROW))


def reaches(severities: set[str], least: str) -> bool:
    """Whether one of these severities is at least that."""
    from pipelines.alerting.rule import SEVERITIES

    return any(SEVERITIES.index(one) >= SEVERITIES.index(least) for one in severities)


def firing_at_least(settings: Settings, now: datetime, least: str) -> bool:
    """Evaluates and prints the alerts at `now` of the wall clock; whether one is firing of at least that severity."""
    from pipelines.commands import jobs
    from pipelines.lake.lake import Lake as Place

    place = Place(settings.lake.path, settings.lake.storage_options)
    return reaches(_tell(place, jobs.alerts(settings, now), None), least)
