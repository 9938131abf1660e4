"""Options that several commands have, and the settings that come out of a command's options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.settings import Settings

DEBUG = "hwmark.debug"
"""The key of typer's context under which --debug is kept."""

lake_in_use: ContextVar[str] = ContextVar("lake_in_use", default="the lake")
"""The lake of the running command, for messages about what failed."""


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    from pipelines.commands.progress import log_to_stderr

    ctx.meta[DEBUG] = value
    log_to_stderr(value)
    return value


Lake = Annotated[
    str | None, typer.Option("--lake", metavar="DIR", help="The lake: a directory or an object-store URI.")
]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Instead of conf/hwmark.toml.")]
Debug = Annotated[bool, typer.Option("--debug", callback=_set_debug, help="Show the trace of an error.")]
FailOnAlert = Annotated[
    str | None,
    typer.Option(
        "--fail-on-alert",
        metavar="[=info]",
        callback=lambda value: _severity(value),
        help="Exit with 3 when an alert of warning or above fires (or fired, since the last check); =info: any.",
    ),
]


def bare_flag_completed(words: list[str]) -> list[str]:
    """The words of a command line: `--fail-on-alert` without a severity means warning."""
    return ["--fail-on-alert=warning" if word == "--fail-on-alert" else word for word in words]


def _severity(value: str | None) -> str | None:
    if value not in (None, "info", "warning", "critical"):
        raise UsageError(f"--fail-on-alert={value} is no severity; say info, warning or critical")
    return value


def settings_of(config: Path | None, **options: Mapping[str, Any]) -> Settings:
    """The settings in force: the file, the environment, then `options` by section, of which None is left out.

    What the command and its children write from here on has the modes of `[lake] umask`. Raises UsageError.
    """
    from pipelines.settings import load

    settings = load(config, options)
    os.umask(settings.lake.mask)
    lake_in_use.set(settings.lake.path)
    return settings


def settings_of_existing_lake(config: Path | None, **options: Mapping[str, Any]) -> Settings:
    """The settings in force, where their lake exists. Raises UsageError: only commands that write events create one."""
    from pipelines.commands.known import require_lake

    settings = settings_of(config, **options)
    require_lake(settings.lake.path, settings.lake.storage_options)
    return settings
