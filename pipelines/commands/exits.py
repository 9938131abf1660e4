"""How a command ends: its exit status, and one line for whatever went wrong."""

from __future__ import annotations

import traceback
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from pipelines.commands.common_options import DEBUG, lake_in_use
from pipelines.commands.progress import echo
from pipelines.errors import UsageError
from pipelines.lake.umask import umask_restored

FAILED, WRONG_USAGE, FIRING, UNMET, ROLE_HELD = 1, 2, 3, 4, 75
"""Exit statuses beside 0, done: failed; wrong usage or configuration; done, and alerts are firing; done, and
expectations failed; another process holds the role."""


class Commands(TyperGroup):
    """Turns whatever goes wrong in a command into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with umask_restored():
                return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            echo(traceback.format_exc() if ctx.meta.get(DEBUG) else f"hwmark: {_one_line(error)}", err=True)
            raise typer.Exit(_status(error)) from error


def _status(error: Exception) -> int:
    from pipelines.lake.roles import RoleHeld

    if isinstance(error, UsageError):
        return WRONG_USAGE
    return ROLE_HELD if isinstance(error, RoleHeld) else FAILED


def _one_line(error: Exception) -> str:
    from pipelines.commands.failures import words as of_the_system

    if _status(error) == FAILED and (known := of_the_system(error, lake_in_use.get())) is not None:
        return known
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UsageError | ValueError | FileNotFoundError) or _status(error) == ROLE_HELD:
        return words
    return f"{type(error).__name__}: {words[:500]} (--debug shows the trace)"
