"""Types of settings' values: times and names of secrets."""

from __future__ import annotations

import re
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from pipelines.errors import UsageError
from pipelines.secret import REFERENCE

STRICT = ConfigDict(extra="forbid", frozen=True)
"""Of every section: nothing beside its keys, and none of them changes."""


def _seconds(value: object) -> object:
    """Seconds of `10s`, `500ms`, `2m`, `1h` or a plain number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value) if isinstance(value, str) else None
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[match[2]] if match else value


def duration(flag: str, words: str) -> float:
    """Seconds of `10s`, `2m`, `0`. Raises UsageError naming the flag."""
    parsed = _seconds(words)
    try:
        value = float(parsed)  # type: ignore[arg-type]
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{flag} is {words!r}: write a time such as 10s, 2m or 0")
    return value


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]


def _reference(value: str) -> str:
    if value and not REFERENCE.fullmatch(value):
        raise ValueError(
            "a secret must not stand in settings: write env:NAME or file:PATH, the variable or the file that holds it"
        )
    return value


IS_REFERENCE = AfterValidator(_reference)
Reference = Annotated[str, IS_REFERENCE]
"""Where a secret stands: `env:NAME` or `file:PATH`; pipelines.secret reads it."""


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise PydanticCustomError("zone", "write a name of the time zone database, such as Europe/Berlin") from None
    return value


Zone = Annotated[str, AfterValidator(_zone)]
"""The name of a time zone."""
