"""Options that several commands have, and the settings that come out of a command's options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands import log
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.settings import Settings

DEBUG = "hwmark.debug"
"""The key of typer's context under which --debug is kept."""

_log_options: dict[str, str] = {}
"""The options of this command that stand above [log]."""

lake_in_use: ContextVar[str] = ContextVar("lake_in_use", default="the lake")
"""The lake of the running command, for messages about what failed."""


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[DEBUG] = value
    if value:
        _log_options["level"] = "debug"
    log.set_style(**_log_options)
    return value


def set_log(format: str | None, level: str | None) -> None:
    """Have lines on stderr look so, whatever the configuration says. Raises UsageError."""
    _log_options.clear()  # one process may run several commands
    for name, value, known in (("format", format, log.FORMATS), ("level", level, log.LEVELS)):
        if value is not None and value not in known:
            raise UsageError(f"--log-{name} is {value!r}: it can be {', '.join(known)}")
        if value is not None:
            _log_options[name] = value
    log.set_style(**_log_options)


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
        help="Exit with 3 when an alert of warning or above fires (`check`: or fired since its last); =info: any.",
    ),
]


def arrange_words(words: list[str]) -> list[str]:
    """Return the words as they are parsed: `--fail-on-alert` alone means warning, `--log-…` may stand anywhere."""
    first, others, rest = list[str](), list[str](), iter(words)
    for word in rest:
        if word in ("--log-format", "--log-level"):
            first += [word, *islice(rest, 1)]
        elif word.startswith(("--log-format=", "--log-level=")):
            first.append(word)
        else:
            others.append("--fail-on-alert=warning" if word == "--fail-on-alert" else word)
    return first + others


class TableOrJson(StrEnum):
    """The output formats of a command."""

    table = "table"
    json = "json"


def _severity(value: str | None) -> str | None:
    if value not in (None, "info", "warning", "critical"):
        raise UsageError(f"--fail-on-alert={value} is no severity; say info, warning or critical")
    return value


def settings_of(config: Path | None, **options: Mapping[str, Any]) -> Settings:
    """The settings in force: the file, the environment, then `options` by section, of which None is left out.

    What the command and its children write from here on has the modes of `[lake] umask`. Raises UsageError.
    """
    from pipelines.settings import load

    settings = load(config, options | {"log": _log_options})
    log.set_style(settings.log.format, settings.log.level)
    os.umask(settings.lake.mask)
    lake_in_use.set(settings.lake.path)
    return settings


def settings_of_existing_lake(config: Path | None, **options: Mapping[str, Any]) -> Settings:
    """The settings in force, where their lake exists. Raises UsageError: only commands that write events create one."""
    from pipelines.commands.known import require_lake

    settings = settings_of(config, **options)
    require_lake(settings.lake.path, settings.lake.storage_options)
    return settings
