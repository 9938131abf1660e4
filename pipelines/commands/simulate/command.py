"""The command `hwmark simulate`: its variants, and what it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.commands.progress import Say, working
from pipelines.errors import UsageError
from pipelines.lake.roles import hold
from pipelines.settings import Settings

if TYPE_CHECKING:
    from pipelines.commands.simulate.plan import Plan
    from pipelines.commands.simulate.run import Outcome

Echo = Callable[[str], None]


class Way(NamedTuple):
    """Where telemetry goes, and in which form: the flags besides those of `[simulate]`."""

    format: str
    out: Path | None
    lake_given: bool
    truth: Path | None
    tiles: bool

    def check(self) -> None:
        """Raises UsageError for flags that do not go together."""
        if self.format == "kafka-logs" and self.out is None:
            raise UsageError("--format kafka-logs writes files: say where with --out DIR")
        if self.format == "kafka-logs" and self.lake_given:
            raise UsageError(
                "--format kafka-logs writes to --out: leave out --lake, and read it with hwmark ingest logs"
            )
        if self.truth is not None:
            from pipelines.commands.simulate.sinks import require_new

            require_new("--truth", self.truth)
        if self.format == "events" and self.out is not None:
            raise UsageError(f"--out {self.out} is for --format kafka-logs; events go to --lake")


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
    """Play a scenario; telemetry is written only where a lake or folder was named."""
    from pipelines.commands.simulate import scenario, sinks

    way.check()
    chosen = scenario.named(name)
    if extra := [flag for flag, value in given.items() if value is not None and flag != "level"]:
        raise UsageError(f"--scenario {name} is a script of its own: leave out --{extra[0]}")

    def sink(cluster: str) -> sinks.Sink:
        if way.out is not None:
            return sinks.LogFiles(way.out / cluster)
        lake = settings.lake
        return sinks.BronzeSink(lake.path, cluster, lake.storage_options) if way.lake_given else sinks.Nowhere()

    played = scenario.play_scenario(chosen, sink, settings.simulate.level)
    echo("\n".join(scenario.explained(played, explain)))
    if way.out is not None or way.lake_given:
        echo("\n" + "\n".join(f"{cluster}: {written}" for cluster, written in played.summaries.items()))
    _write_truth(way.truth, played.truth, echo)


def simulate(settings: Settings, given: Mapping[str, Any], way: Way, echo: Echo) -> None:
    """Run a cluster with the settings of `[simulate]`, into the lake or a folder of log files."""
    from pipelines.commands.simulate import summary
    from pipelines.commands.simulate.plan import plan

    way.check()
    if given["partitions"] and settings.simulate.topics:
        raise UsageError(
            f"topics {settings.simulate.topics} says how many partitions there are: leave out --partitions"
        )
    planned = plan(settings.simulate)
    if way.out is not None and planned.fetch_every_ms:
        raise UsageError("--fetch-every-ms is for events: a broker's log has every fetch, so leave it out")
    planned = _tiled(planned, way)
    with working("simulate") as say:
        outcome = _run(planned, settings, way, say)
    echo("\n".join(summary.lines(outcome)))
    if rules := summary.rules(planned.settings):
        echo(f"   its rules are not today's: reconstruct it with {rules} hwmark run")
    _write_truth(way.truth, outcome.truth, echo)


def _tiled(planned: Plan, way: Way) -> Plan:
    """The plan itself, or that of a tile where it has many partitions. Raises UsageError for what tiles cannot have."""
    from pipelines.commands.simulate.plan import TILE, tiled

    if not way.tiles or planned.partitions <= TILE:
        return planned
    asked = {
        "--out": way.out, "[simulate] thread_stalls": planned.settings.thread_stalls,
        "[simulate] thread_overtakes": planned.settings.thread_overtakes,
    }  # fmt: skip
    for flag in [flag for flag, value in asked.items() if value]:
        many = f"{planned.partitions:,} partitions are made of tiles"
        raise UsageError(f"{many}, which have no {flag}: leave it out, or add --no-tiles (slow above {TILE})")
    return tiled(planned)


def _run(planned: Plan, settings: Settings, way: Way, say: Say) -> Outcome:
    from pipelines.commands.simulate import run, sinks

    if way.out is not None:
        return run.run(planned, sinks.LogFiles(way.out, planned.second_file), say)
    lake = settings.lake
    with hold(lake.path, f"ingest:simulate/{planned.settings.cluster}", lake.storage_options):
        return run.run(planned, sinks.bronze_sink(planned, lake.path, lake.storage_options), say)


def _write_truth(folder: Path | None, tables: Mapping[str, Any], echo: Echo) -> None:
    from generators.simulator.truth.tables import write

    if folder is not None and tables:
        write(folder, tables)
        echo(f"The truth is in {folder}: {', '.join(tables)}")
