"""`hwmark --version`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.progress import echo


def _print(value: bool) -> None:
    if value:
        from importlib.metadata import version

        echo(f"hwmark {version('hwmark')}")
        raise typer.Exit()


Version = Annotated[bool, typer.Option("--version", callback=_print, is_eager=True, help="Print the version and exit.")]
