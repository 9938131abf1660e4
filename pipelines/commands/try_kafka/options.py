"""The options of `hwmark try`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of


def try_kafka(
    fault: Annotated[
        str, typer.Argument(metavar="FAULT", help="kill-leader, freeze-follower or unclean-election.")
    ] = "unclean-election",
    kafka: Annotated[
        str, typer.Option(metavar="VERSION|PATH", help="3.9, 4.1 or 4.4 by Maven; or Kafka's tarball, or its folder.")
    ] = "4.1",
    lake: Lake = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Start a real three-broker Kafka on this machine, do a fault to it, and show live what hwmark says of it.

    Takes two minutes, a JDK, and 2 GB of memory. Kafka's jars come from Maven Central, or from a Kafka that you have.

    \b
    Examples:
      hwmark try                                       an unclean election: records are lost
      hwmark try kill-leader                           nothing is lost
      hwmark try freeze-follower --kafka ~/kafka_2.13-4.1.1.tgz
    """
    from pipelines.commands.demo.command import new_lake
    from pipelines.commands.progress import echo
    from pipelines.commands.try_kafka.command import try_fault

    settings = settings_of(config, lake={"path": new_lake(lake)}, run={"interval": "3s"})
    try_fault(settings, fault, kafka, echo)
