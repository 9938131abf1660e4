"""`hwmark ingest disk`: what brokers' disks know, to events of a lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of
from pipelines.commands.exits import NOT_UNDERSTOOD
from pipelines.commands.progress import echo
from pipelines.commands.stopping import until_stopped

if TYPE_CHECKING:
    from generators.disks.quorum import QuorumEnd
    from pipelines.settings import Settings


def ingest_disk(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Log directories, or folders of several.")],
    cluster: Annotated[str, typer.Option(metavar="NAME", help="The cluster they belong to.")],
    lake: Lake = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on reading as files change.")] = False,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Ask these brokers what the quorum has committed.")
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Turn the metadata log and the checkpoints on nodes' disks into events of a lake; nothing below DIR is written.

    Name the directories of a majority of the controllers, or --bootstrap: one copy alone does not show what the quorum
    has committed. Security and passwords: [watch] of the configuration.
    With --follow, run one process beside each broker.

    \b
    Examples:
      hwmark ingest disk /mnt/controller-1 /mnt/controller-2 --cluster prod --lake lake
      hwmark ingest disk /var/lib/kafka --cluster prod --lake lake --follow
    """
    from generators.disks.ingest import ingest_disk as ingest
    from pipelines.commands.progress import progress, working

    settings = settings_of(config, lake={"path": lake}, watch={"bootstrap": bootstrap})
    with (progress if follow else working)("ingest") as say:
        summary = ingest(
            paths,
            cluster=cluster,
            lake=settings.lake.path,
            follow=follow,
            quorum=_quorum(bootstrap, settings) if bootstrap else None,
            on_progress=say if follow else None,
            stop=until_stopped(),
            storage_options=settings.lake.storage_options,
        )
    echo("\n".join(summary.lines()))
    if any(summary.problems.values()):
        raise typer.Exit(NOT_UNDERSTOOD)


def _quorum(bootstrap: str, settings: Settings) -> Callable[[], QuorumEnd | str]:
    from generators.disks.quorum import Quorum
    from pipelines.commands.watch.command import watch_options

    return Quorum(bootstrap, watch_options(settings.watch).security).ask
