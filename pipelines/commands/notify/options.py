"""`hwmark notify`: alerts to Alertmanagers and other channels."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of, settings_of_existing_lake
from pipelines.commands.exits import FAILED
from pipelines.commands.log import write_line
from pipelines.commands.progress import echo
from pipelines.errors import UsageError


def notify(
    lake: Lake = None,
    once: Annotated[bool, typer.Option("--once", help="One round, then stop.")] = False,
    every: Annotated[str | None, typer.Option(metavar="30s", help="A round so often.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and write nothing.")] = False,
    test: Annotated[bool, typer.Option("--test", help="Send a test message through every channel.")] = False,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Evaluate the alert rules, and send what fires and what ended to the channels of [notify].

    Exit status 1 where a channel did not accept all of it.

    \b
    Examples:
      hwmark notify --lake lake                   as a service beside `run`, until SIGTERM
      hwmark notify --lake lake --once            from cron; [notify] every says how often that is
      hwmark notify --lake lake --dry-run
      hwmark notify --test
    """
    from pipelines.commands.notify import command

    if once + dry_run + test > 1:
        raise UsageError("--once, --dry-run and --test exclude each other: leave out all but one")
    asked = {"lake": {"path": lake}, "notify": {"every": every}}
    settings = settings_of(config, **asked) if test else settings_of_existing_lake(config, **asked)
    if dry_run:
        command.dry_run(settings, echo)
        return
    failed = command.test(settings, echo) if test else command.notify(settings, once=once)
    if failed:
        write_line("", f"hwmark: not everything was accepted by {', '.join(failed)}", logging.ERROR)
        raise typer.Exit(FAILED)
