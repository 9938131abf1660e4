"""Secrets are named in the settings and stand elsewhere: `env:NAME` is a variable, `file:PATH` a file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pipelines.errors import UsageError

REFERENCE = re.compile(r"(env|file):.+")


def reveal(reference: str, setting: str) -> str:
    """The secret that a setting names, empty where it names none. Raises UsageError naming the setting."""
    return Secret(reference, setting).reveal() if reference else ""


class Secret:
    """A value that is read anew at each use, so that a rotated one counts, and that no repr or error shows."""

    def __init__(self, reference: str, setting: str) -> None:
        self._reference, self._setting = reference, setting

    def reveal(self) -> str:
        """The value, without white space around it. Raises UsageError naming the setting and the reference."""
        kind, _, name = self._reference.partition(":")
        value = os.environ.get(name, "") if kind == "env" else self._content(name)
        if not value.strip():
            where = f"the environment has no {name}" if kind == "env" else f"the file {name} is empty"
            raise UsageError(f"{self._setting} is {self._reference!r}, but {where}")
        return value.strip()

    def _content(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{self._setting} is {self._reference!r}, which is no text in UTF-8") from None
        except OSError as error:
            raise UsageError(
                f"{self._setting} is {self._reference!r}, which cannot be read: {error.strerror}"
            ) from None

    def __repr__(self) -> str:
        return f"Secret({self._reference})"
