"""The end of a command: its exit status, and one line for an error."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from pipelines.commands.common_options import DEBUG, arrange_words, lake_in_use
from pipelines.commands.log import is_json, write_line
from pipelines.errors import UsageError
from pipelines.lake.umask import umask_restored

try:
    from typer.exceptions import TyperException
except ImportError:  # the lowest typer that dbt's and other's tools allow has it under another name
    from typer._click.exceptions import ClickException as TyperException

DONE, FAILED, WRONG_USAGE, FIRING, UNMET, NOT_UNDERSTOOD, ROLE_HELD = 0, 1, 2, 3, 4, 65, 75
GATE_NO, GATE_NOT_KNOWN = 3, 4
AUDIT_DAMAGE, AUDIT_NOT_KNOWN, RESCUE_NOT_WHOLE = 3, 4, 4
READER_GONE = 128 + signal.SIGPIPE
"""As a shell reports a program that wrote to a closed pipe."""
STATUSES = {
    DONE: "done",
    FAILED: "failed",
    WRONG_USAGE: "wrong usage or configuration",
    FIRING: "alerts fire or fired (--fail-on-alert); gate: no; audit: damage",
    UNMET: "done and expectations failed (--fail-on-check); gate, audit: not known",
    NOT_UNDERSTOOD: "ingest: nothing was understood of something given; the rest is done",
    ROLE_HELD: "another process holds the role",
    READER_GONE: "who read the output has gone, as with `head`",
}
"""What each exit status means; docs/exit-statuses.md has the same table."""


def table() -> str:
    """The exit statuses as lines of a help text, which typer leaves as they are."""
    return "\b\nExit status:\n" + "\n".join(f"  {status:3}  {words}" for status, words in STATUSES.items())


class Commands(TyperGroup):
    """Turns whatever goes wrong in a command into one line and an exit status."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return list(super().parse_args(ctx, arrange_words(args)))

    def invoke(self, ctx: Any) -> Any:
        try:
            with umask_restored():
                return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if isinstance(error, BrokenPipeError) and _nobody_reads():
                raise typer.Exit(READER_GONE) from None
            print_error(error, with_trace=bool(ctx.meta.get(DEBUG)))
            raise typer.Exit(_status(error)) from error


def _nobody_reads() -> bool:
    """Whether who read the output has gone, as `head` does; then nothing more is written there, at the end neither."""
    output = select.poll()
    output.register(sys.stdout.fileno(), select.POLLOUT)
    gone = any(events & select.POLLERR for _, events in output.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return gone


def _status(error: Exception) -> int:
    from pipelines.lake.roles import RoleHeld

    if isinstance(error, UsageError):
        return WRONG_USAGE
    return ROLE_HELD if isinstance(error, RoleHeld) else FAILED


def print_error(error: Exception, *, with_trace: bool = False) -> None:
    """Print what a command says that fails with this error."""
    status = {"status": _status(error)} if is_json() else {}
    write_line("", traceback.format_exc() if with_trace else error_line(error), logging.ERROR, **status)


def error_line(error: Exception) -> str:
    """The line for this error."""
    return f"hwmark: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    from pipelines.commands.failures import words as of_the_system

    if _status(error) == FAILED and (known := of_the_system(error, lake_in_use.get())) is not None:
        return known
    words = " ".join(str(error).split()) or type(error).__name__
    # Our own errors have words for whoever runs the command.
    if isinstance(error, ValueError | FileNotFoundError) or type(error).__module__.startswith("pipelines."):
        return words
    return f"{type(error).__name__}: {words[:500]} (--debug shows the trace)"
