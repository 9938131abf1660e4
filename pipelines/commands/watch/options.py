"""The options of `hwmark watch`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of


def watch(
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Brokers to ask for the cluster's metadata first.")
    ] = None,
    lake: Lake = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Default: the cluster's own id.")] = None,
    interval: Annotated[str | None, typer.Option(metavar="5s", help="A round so often.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only these topics, such as 'orders*'; again for more.")
    ] = None,
    internal_topics: Annotated[bool | None, typer.Option(help="Include __consumer_offsets and the like.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask two rounds, write nothing, and say what watching costs.")
    ] = False,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Ask a live cluster for its offsets and ISRs, and write what changed as events of a lake.

    Needs DESCRIBE on the topics; DESCRIBE_CONFIGS on the cluster and the topics for the settings. Security and
    passwords: [watch] of the configuration.

    \b
    Examples:
      hwmark watch --bootstrap kafka-1:9092,kafka-2:9092 --cluster prod --lake lake
      hwmark watch --bootstrap kafka-1:9092 --topic 'orders*' --interval 1s --lake lake
      hwmark watch --bootstrap kafka-1:9092 --dry-run
    """
    from pipelines.commands.watch import command

    given = {
        "bootstrap": bootstrap,
        "cluster": cluster,
        "interval": interval,
        "topics": topic,
        "internal_topics": internal_topics,
    }
    settings = settings_of(config, lake={"path": lake}, watch=given)
    if dry_run:
        command.dry_run(settings, debug=debug)
    else:
        command.watch(settings, debug=debug)
