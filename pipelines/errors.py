"""Errors of usage, in one line with the bad value and the next step."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UsageError(ValueError):
    """A value from a flag, the environment or the configuration file that cannot be right."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean x?` for the known name nearest to `name`, or the known names when none is near."""
    names = sorted(known)
    if close := get_close_matches(name, names, n=1, cutoff=0.5):
        return f"did you mean {close[0]}?"
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"known: {shown}" if names else "nothing is known here yet"
