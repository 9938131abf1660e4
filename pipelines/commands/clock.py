"""The wall clock of commands: one place, so that tests can set it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The present, with the zone UTC."""
    return datetime.now(UTC)
