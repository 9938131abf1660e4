"""Since when: `--since` in words, and what it means for each cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pipelines.errors import UsageError
from schemas.replication_events import FIRST, LAST

Since = timedelta | datetime | None
"""Since a moment, for so long before the present of each cluster (event time), or from the beginning."""

LONGEST_S = 36_525 * 86_400
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def since_of(words: str) -> Since:
    """The meaning of `15m`, `2h`, `3d` (before each cluster's present), an ISO time (UTC), or `all`."""
    if words == "all":
        return None
    if match := re.fullmatch(r"(\d{1,99})([smhd])", words, re.ASCII):
        seconds = int(match[1]) * _SECONDS[match[2]]
        if seconds > LONGEST_S:
            raise UsageError(f"--since {words} is more than 100 years; say all")
        return timedelta(seconds=seconds)
    return moment_of("--since", words, "15m, 2h, 3d, 2026-11-21T09:20:00 or all")


def moment_of(flag: str, words: str, allowed: str = "2026-11-21T09:20:00") -> datetime:
    """The moment of an ISO time (UTC unless it says otherwise). Raises UsageError naming the flag."""
    try:
        at = datetime.fromisoformat(words)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(f"{flag} {words} is no time; say {allowed}") from None
    if not FIRST <= at <= LAST:  # events outside are in quarantine: whoever asks for them has mistyped a time
        raise UsageError(f"{flag} {words} is outside {FIRST.year} to {LAST.year}, within which all events are")
    return at


def starts(since: Since, presents: Mapping[str, datetime]) -> datetime | Mapping[str, datetime] | None:
    """Return the start time that `since` means; a duration is counted back from the present time of each cluster."""
    if isinstance(since, timedelta):
        return {cluster: present - since for cluster, present in presents.items()}
    return since
