"""The command `hwmark simulate`: its variants, and what it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.commands.progress import working
from pipelines.errors import UsageError
from pipelines.lake.roles import hold
from pipelines.settings import Settings

if TYPE_CHECKING:
    from pipelines.commands.simulate.plan import Plan

Echo = Callable[[str], None]


class Way(NamedTuple):
    """Flags besides the settings of `[simulate]`: where telemetry and truth go."""

    lake_given: bool
    truth: Path | None
    tiles: bool

    def check(self) -> None:
        """Raise UsageError where the folder for the truth has something in it, which would be replaced."""
        folder = self.truth
        if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--truth {folder} has something in it already: name a new folder")


def numbers(rates: Sequence[str] | None) -> dict[str, float] | None:
    """`["kill=0.1"]` of --rate as `{"kill": 0.1}`. Raises UsageError."""
    return None if rates is None else dict(_number(text) for text in rates)


def _number(text: str) -> tuple[str, float]:
    kind, _, number = text.partition("=")
    try:
        return kind, float(number)
    except ValueError:
        raise UsageError(f"--rate {text} is not KIND=NUMBER, such as kill=0.1") from None


def show_list(echo: Echo) -> None:
    from pipelines.commands.simulate.scenario import listed

    echo("\n".join(listed()))


def play(settings: Settings, name: str, given: Mapping[str, Any], explain: bool, way: Way, echo: Echo) -> None:
    """Play a scenario; telemetry is written only if a lake was named."""
    from pipelines.commands.simulate import scenario, sinks

    way.check()
    chosen = scenario.named(name)
    if extra := [flag for flag, value in given.items() if value is not None and flag != "level"]:
        raise UsageError(f"--scenario {name} is a script of its own: leave out --{extra[0]}")

    def sink(cluster: str) -> sinks.Sink:
        lake = settings.lake
        return sinks.BronzeSink(lake.path, cluster, lake.storage_options) if way.lake_given else sinks.Nowhere()

    played = scenario.play_scenario(chosen, sink, settings.simulate.level)
    echo("\n".join(scenario.explained(played, explain)))
    if way.lake_given:
        echo("\n" + "\n".join(f"{cluster}: {written}" for cluster, written in played.summaries.items()))
    _write_truth(way.truth, played.truth, echo)


def simulate(settings: Settings, given: Mapping[str, Any], way: Way, echo: Echo) -> None:
    """Run a cluster with the settings of `[simulate]`, into the lake."""
    from pipelines.commands.simulate import run, sinks, summary
    from pipelines.commands.simulate.plan import plan

    way.check()
    if given["partitions"] and settings.simulate.topics:
        raise UsageError(
            f"topics {settings.simulate.topics} says how many partitions there are: leave out --partitions"
        )
    planned = plan(settings.simulate)
    planned, lake = _tiled(planned, way), settings.lake
    writer = f"ingest:simulate/{planned.settings.cluster}"
    with working("simulate") as say, hold(lake.path, writer, lake.storage_options):
        outcome = run.run(planned, sinks.bronze_sink(planned, lake.path, lake.storage_options), say)
    echo("\n".join(summary.lines(outcome)))
    if rules := summary.rules(planned.settings):
        echo(f"   its rules are not today's: reconstruct it with {rules} hwmark run")
    _write_truth(way.truth, outcome.truth, echo)


def _tiled(planned: Plan, way: Way) -> Plan:
    """The plan itself, or that of a tile where it has many partitions. Raises UsageError for what tiles cannot have."""
    from pipelines.commands.simulate.plan import TILE, tiled

    if not way.tiles or planned.partitions <= TILE:
        return planned
    for key in ("thread_stalls", "thread_overtakes"):
        if getattr(planned.settings, key):
            many = f"{planned.partitions:,} partitions are made of tiles, which have no [simulate] {key}"
            raise UsageError(f"{many}: leave it out, or add --no-tiles (slow above {TILE})")
    return tiled(planned)


def _write_truth(folder: Path | None, tables: Mapping[str, Any], echo: Echo) -> None:
    from generators.simulator.truth.tables import write

    if folder is not None and tables:
        write(folder, tables)
        echo(f"The truth is in {folder}: {', '.join(tables)}")
