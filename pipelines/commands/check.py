"""`hwmark check`: the quality suites and the alert rules on what is new in a lake."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, FailOnAlert, Lake, settings_of_existing_lake
from pipelines.commands.exits import FIRING, UNMET, error_line
from pipelines.commands.log import write_line
from pipelines.commands.progress import echo, working
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.alerting.state import AlertState
    from pipelines.alerting.step import News
    from pipelines.settings import Settings
    from pipelines.verdict.verdict import Line

T = TypeVar("T")
FailOnCheck = Annotated[
    bool, typer.Option("--fail-on-check", help="Exit with 4 if an expectation failed, unless the status is 3.")
]
SHOWN = 100
"""At most so many alerts that ended are printed, the newest; the others are counted."""


def check(
    lake: Lake = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Who is told: each name is told everything once.")
    ] = "check",
    since_last: Annotated[
        bool,
        typer.Option(
            "--since-last/--now", help="Print what is new since the last check of NAME, or only what fires now."
        ),
    ] = True,
    fail_on_alert: FailOnAlert = None,
    fail_on_check: FailOnCheck = False,
    gx: Annotated[
        str | None,
        typer.Option(
            "--gx",
            metavar="DIR",
            help="Write the results of your own suites to DIR, a project of Great Expectations with validation results "
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
    from pipelines.alerting.lookup import read_states
    from pipelines.alerting.rules import load
    from pipelines.alerting.step import News, Told, last_step, set_told, told, untold
    from pipelines.commands import jobs
    from pipelines.lake.queries import moment
    from pipelines.lake.roles import RoleHeld
    from pipelines.printable import printable
    from pipelines.quality.results import failed_since, last_run_at
    from pipelines.verdict.present import pending
    from schemas import quality_results

    settings = settings_of_existing_lake(config, lake={"path": lake}, check={"gx": gx})
    if not name.strip():
        raise UsageError('--name is ""; write a name, or leave it out')
    if gx is not None and not settings.check.suites:
        raise UsageError(f"--gx {gx} keeps how suites of your own came out, and [check.suites] names none")
    rules = load(settings.alerts.rules_file or None)  # of bad rules nothing is done
    now, place, wrong = clock.now(), settings.tables, list[Exception]()
    before = (_going_on(lambda: told(place, name), wrong) or Told()) if since_last else Told(now, now)
    verdicts = _going_on(lambda: jobs.verdicts(settings, now), wrong)
    for line in verdicts or ():
        echo(str(line))
    whole = verdicts is not None and _is_judged(verdicts)
    if off := _going_on(lambda: jobs.clock_off(settings, now), wrong):
        echo(off)
    with working("check", each=False) as say:
        summary = _going_on(lambda: jobs.check(settings, now, say), wrong)
    judged = _going_on(lambda: place.read(quality_results.TABLE, quality_results.ARROW), wrong)
    earlier = failed_since(judged, before.results, summary.run_id if summary else "") if judged else []
    for said in summary.lines(earlier) if summary else ["No expectation was judged.", *earlier]:
        echo(said)
    wrong += [summary.unwritten] if summary and summary.unwritten else []
    if disabled := [rule for rule, one in rules.settings.items() if not one.enabled]:
        echo(f"Alert rules that are off in {settings.alerts.rules_file}: {', '.join(disabled)}")
    if others := _going_on(lambda: rules.judged_otherwise(last_step(place).clocks), wrong):
        echo(
            f"Alerts were evaluated last with other settings of {', '.join(others)}: give all of a lake one rules_file"
        )
    states = _going_on(lambda: jobs.alerts(settings, now), wrong)
    if states is None and not isinstance(wrong[-1], RoleHeld):  # the disk may be full
        states = _going_on(lambda: jobs.alerts(settings, now, write=False), wrong)
    # Read once: what another process writes from here on is not told yet.
    rows = _going_on(lambda: read_states(place), wrong)
    unmet = bool(earlier or (summary and summary.failed))
    shown = None if states is None else [state for state in states if since_last or state.firing]
    severities = (
        set[str]() if shown is None else _tell(shown, untold(rows or (), before) if since_last else News(), whole=whole)
    )
    waits = None if shown is None else _going_on(lambda: last_step(place).waits, wrong)
    for wait in (one for one in waits or () if one.rule in rules.severities):
        later = "" if moment(wait.fires) > now else ", once telemetry of then is read"
        echo(printable(f"PENDING {rules.severities[wait.rule]} {wait.rule}: {wait.cluster}: {pending(wait)}{later}"))
    if unmet and not fail_on_check:
        echo("Expectations failed: --fail-on-check makes that exit status 4.")
    if since_last and not wrong and judged is not None:
        written = [state.written_at for state in rows or () if state.written_at]
        up_to = Told(max([before.alerts, *written]), max(before.results, last_run_at(judged) or before.results))
        _going_on(lambda: set_told(place, name, up_to), wrong)
    fires = fail_on_alert and reaches(severities, fail_on_alert)
    failed = fail_on_check and unmet
    for said in list(dict.fromkeys(map(error_line, wrong)))[0 if fires or failed else 1 :]:
        write_line("", said, logging.ERROR)
    if fires:
        raise typer.Exit(FIRING)
    if failed:
        raise typer.Exit(UNMET)
    if wrong:
        raise wrong[0]


def _going_on(act: Callable[[], T], wrong: list[Exception]) -> T | None:
    """Return what `act` returns, or None if it fails: the error is kept for the end of the command."""
    try:
        return act()
    except Exception as error:
        wrong.append(error)
        return None


def _tell(states: Sequence[AlertState], news: News, *, whole: bool) -> set[str]:
    """Print the alerts that fire and those that are new; return the severities of those that fire or have fired.

    `whole`: whether every cluster is judged.
    """
    from pipelines.alerting.rule import SEVERITIES
    from pipelines.commands.progress import alert_line
    from pipelines.verdict.words import count, span

    fired = {state.episode for state in news.fired}
    known = {state.episode for state in states}
    over = [s for s in (*news.fired, *news.ended) if s.episode not in known]
    shown = [state for state in states if state.episode not in news.history]
    shown.sort(key=lambda state: (not state.firing, -SEVERITIES.index(state.severity)))
    for state in [*shown, *over[-SHOWN:]]:
        lasted = f": {span(time)}" if (time := state.last_ts - state.first_ts) >= timedelta(seconds=1) else ""
        missed = f" (fired and was over{lasted})"
        was_over = state.episode in fired and not state.firing
        echo(alert_line(state) + (missed if was_over else ""))
    if len(over) > SHOWN:
        echo(f"{count(len(over) - SHOWN, 'more alert')} fired and ended: `hwmark show alerts`")
    if news.history:
        echo(f"{count(len(news.history), 'alert')} had fired and ended before anybody looked: `hwmark show alerts`")
    if not shown and not over:
        echo("No alert is firing." if whole else "No alert is firing of what is judged.")
    return {state.severity for state in states if state.firing} | {state.severity for state in news.fired}


def reaches(severities: set[str], least: str) -> bool:
    """Whether one of these severities is at least that."""
    from pipelines.alerting.rule import SEVERITIES

    return any(SEVERITIES.index(one) >= SEVERITIES.index(least) for one in severities)


def firing_at_least(settings: Settings, now: datetime, least: str) -> bool:
    """Evaluates and prints the alerts at `now` of the wall clock; whether one is firing of at least that severity."""
    from pipelines.alerting.step import News
    from pipelines.commands import jobs

    whole = _is_judged(jobs.verdicts(settings, now))
    return reaches(_tell(jobs.alerts(settings, now), News(), whole=whole), least)


def _is_judged(verdicts: Iterable[Line]) -> bool:
    """Whether every cluster is judged."""
    from pipelines.verdict.records import State

    return all(line.state is not State.NOT_JUDGED for line in verdicts)
