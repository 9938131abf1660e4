"""The options of `hwmark forget`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.commands.forget.command import Run
    from pipelines.lake.lake import Lake as Place
    from pipelines.lake.roles import Held
    from pipelines.settings import Settings
    from pipelines.streaming.follow import RunSummary


def forget(
    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="The cluster that goes.")],
    before: Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="Its rows before that time (UTC) only.")
    ] = None,
    lake: Lake = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Take a cluster out of every table, state and log of a lake, for good; time travel does not bring it back.

    Stop what writes to the lake first: it holds the roles of `run`, `maintain`, `check` and `notify`. After a kill call
    it again.

    \b
    Examples:
      hwmark forget --cluster old --lake lake
      hwmark forget --cluster prod --before 2026-01-01 --lake lake
    """
    from pipelines.commands.forget import command
    from pipelines.streaming.unfinished import Removal
    from pipelines.verdict.since import moment_of

    settings = settings_of_existing_lake(config, lake={"path": lake})
    asked = Removal(cluster, None if before is None else moment_of("--before", before))
    place, run, refuse_unknown = parts(settings, cluster)
    for line in command.forget(place, asked, run, refuse_unknown):
        echo(line)


def parts(settings: Settings, cluster: str) -> tuple[Place, Run, Callable[[], None]]:
    """The lake, the job on it, and the check that it knows the cluster."""
    from pipelines.commands import jobs
    from pipelines.commands.progress import batch_line
    from pipelines.lake.lake import Lake as Place
    from pipelines.lake.queries import Filter
    from pipelines.streaming.options import RunOptions
    from pipelines.verdict.known import refuse_unknown

    path = settings.lake.path
    place = Place(path if "://" in path else str(Path(path).absolute()), settings.lake.storage_options)

    def run(forgotten: str | None, held: Held) -> RunSummary:
        return jobs.run(settings, RunOptions(forget=forgotten), lambda batch: echo(batch_line(batch)), held=held)

    return place, run, lambda: refuse_unknown(place, Filter(cluster=cluster))
