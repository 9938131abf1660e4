"""Since when: `--since` in words, and what it means for each cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pipelines.errors import UsageError

Since = timedelta | datetime | None
"""Since a moment, for so long before the present of each cluster (event time), or from the beginning."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def since_of(words: str) -> Since:
    """What is meant by `15m`, `2h`, `3d` (before the present of each cluster), an ISO time (UTC), or `all`."""
    if words == "all":
        return None
    if match := re.fullmatch(r"(\d+)([smhd])", words):
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        at = datetime.fromisoformat(words)
    except ValueError:
        raise UsageError(f"--since {words} is no time; say 15m, 2h, 3d, 2026-11-21T09:20:00 or all") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def starts(since: Since, presents: Mapping[str, datetime]) -> datetime | Mapping[str, datetime] | None:
    """The moments that `since` means for clusters with these presents."""
    if isinstance(since, timedelta):
        return {cluster: present - since for cluster, present in presents.items()}
    return since
