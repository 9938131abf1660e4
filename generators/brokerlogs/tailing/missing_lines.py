"""Lines that are missing of a source, until rows say so."""

from __future__ import annotations

from collections.abc import Sequence


class MissingLines:
    """Notes on lines that were lost, or left unread; `unread` are the reasons that rows of before have."""

    def __init__(self, unread: Sequence[str]) -> None:
        self.unread = list(unread)
        self.left_out = set[str]()
        """Why files were not read by this call."""
        self.notes: list[tuple[str, str]] = []
        """Event types and details of rows that are still to be written."""

    def add_lost(self, why: str) -> None:
        """Note that lines are missing before those to come."""
        self.notes.append(("lost", f"an unknown number of lines: {why}"))

    def add_unread(self, reasons: Sequence[str]) -> None:
        """Note why files are not read, each reason once."""
        self.left_out.update(reasons)
        fresh = [reason for reason in reasons if reason not in self.unread]
        self.unread.extend(fresh)
        self.notes.extend(("unread", reason) for reason in fresh)

    def take(self) -> list[tuple[str, str]]:
        """Return the notes, each once."""
        taken, self.notes = self.notes, []
        return taken
