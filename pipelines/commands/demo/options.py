"""The options of `hwmark demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.common_options import Config, Debug, settings_of
from pipelines.commands.progress import echo, steps


def demo(
    lake: Annotated[str | None, typer.Option("--lake", metavar="DIR", help="A new one; else a temporary one.")] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Run the whole job on recorded logs of a real Kafka under faults and a simulated one, and sum up what it found.

    \b
    Examples:
      hwmark demo
      hwmark demo --lake demo-lake
    """
    from pipelines.commands.demo import command

    settings = settings_of(config, lake={"path": command.new_lake(lake)})
    with steps("demo") as say:

        def show(text: str) -> None:
            echo(text)
            say(text.strip().partition("\n")[0])

        command.demo(settings, show)
