"""Reasons why lines may be missing between two files, from their names."""

from __future__ import annotations

from collections.abc import Sequence

from generators.brokerlogs.discovery.log_series import Entry
from pipelines.printable import printable


def missing_files(before: Entry, entry: Entry, entries: Sequence[Entry]) -> str | None:
    """Return that files between these two are gone or not given, None if their numbers show no gap."""
    if before.live or min(before.number, entry.number) < 0 or abs(before.number - entry.number) <= 1:
        return None
    low, high = sorted((before.number, entry.number))
    why = "were not given" if any(low < one.number < high for one in entries) else "are gone"
    return f"the files between {before.path.name} and {entry.path.name} {why}"


def hole_before(before: Entry, entry: Entry, entries: Sequence[Entry]) -> str | None:
    """Return that nothing shows that a file follows the one before it in `entries`, None if names do.

    They do if the one before it is rotated, or a rotated one of its own folder comes before it.
    """
    if not before.live or before == entry:
        return None
    earlier = entries[: entries.index(entry)]
    if any(one.path.parent == entry.path.parent and not one.live for one in earlier):
        return None
    return f"nothing shows that {place(entry)} follows {place(before)}"


def place(entry: Entry) -> str:
    """Return where a file is, as it may be printed."""
    return printable(str(entry.path))
