"""The command `hwmark simulate`: which of its ways was meant, and what it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.console import progress
from pipelines.errors import UsageError
from pipelines.settings import Settings

Echo = Callable[[str], None]
_OF_SCENARIOS = ("cluster", "level")
"""Flags that say something about a scenario too; the others are its own affair."""


def rates(given: Sequence[str] | None) -> dict[str, float] | None:
    """`["kill=0.1"]` as `{"kill": 0.1}`. Raises UsageError."""
    return None if given is None else dict(map(_rate, given))


def _rate(text: str) -> tuple[str, float]:
    do, _, number = text.partition("=")
    try:
        return do, float(number)
    except ValueError:
        raise UsageError(f"--rate {text} is not KIND=NUMBER, such as kill=0.1 (a minute)") from None


def show_list(echo: Echo) -> None:
    from pipelines.simulate.scenario import listed

    echo("\n".join(listed()))


def play(
    settings: Settings,
    name: str,
    given: Mapping[str, Any],
    explain: bool,
    to_lake: bool,
    truth: Path | None,
    echo: Echo,
) -> None:
    """Plays a scenario; its clusters go to the lake only where one was named."""
    from pipelines.simulate import scenario

    chosen = scenario.named(name)
    if extra := [flag for flag, value in given.items() if value is not None and flag != "level"]:
        raise UsageError(f"--scenario {name} is a script of its own: leave out --{extra[0]}")
    told = scenario.tell(chosen, settings.simulate.level)
    echo("\n".join(scenario.explained(told, explain)))
    if to_lake:
        events = scenario.write(told, settings.lake.path, settings.lake.storage_options)
        echo(f"\n{events:,} events of {', '.join(told.events)} are in {settings.lake.path}.")
    _write_truth(truth, told.truth, echo)


def simulate(settings: Settings, given: Mapping[str, Any], truth: Path | None, echo: Echo) -> None:
    """Runs a cluster as `[simulate]` wants it, into the lake."""
    from generators.lock import hold
    from pipelines.simulate import run, summary
    from pipelines.simulate.plan import plan

    if given["topics"] and given["partitions"]:
        raise UsageError(f"--topics {given['topics']} says how many partitions there are: leave out --partitions")
    planned = plan(settings.simulate)
    lake, cluster = settings.lake.path, planned.settings.cluster
    with hold(lake, f"ingest:simulate/{cluster}"), progress("simulate") as say:
        outcome = run.run(planned, run.Lake(lake, cluster, settings.lake.storage_options), say)
    echo("\n".join(summary.lines(outcome)))
    if rules := summary.rules(planned.settings):
        echo(f"   its rules are not today's: reconstruct it with {rules} hwmark run")
    _write_truth(truth, outcome.truth, echo)


def _write_truth(folder: Path | None, tables: Mapping[str, Any], echo: Echo) -> None:
    from generators.simulator.truth import write

    if folder is not None and tables:
        write(folder, tables)
        echo(f"The truth is in {folder}: {', '.join(tables)}")
