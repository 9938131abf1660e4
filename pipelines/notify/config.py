"""Settings of notifications: times, links and fixed labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pipelines.verdict import words

WATCHDOG_PERIODS = 4
"""Rounds without a watchdog until it ends."""


@dataclass(frozen=True)
class Timing:
    """Seconds between rounds (`every_s`), until a firing alert expires (`hold_s`), and at most between retries."""

    every_s: float
    hold_s: float
    retry_max_s: float

    @property
    def hold(self) -> timedelta:
        return timedelta(seconds=self.hold_s)

    @property
    def watchdog(self) -> timedelta:
        """The time for which the watchdog holds: it ends before any alert does."""
        return timedelta(seconds=WATCHDOG_PERIODS * self.every_s)

    def backoff(self, attempt: int) -> timedelta:
        """The wait from the attempt of this number to the next one."""
        return timedelta(seconds=min(self.every_s * 2 ** min(attempt - 1, 20), self.retry_max_s))


@dataclass(frozen=True)
class Links:
    """The links in notifications.

    `page_url` may hold `{cluster}`, `{alert_id}`, `{since}` and `{until}`; `runbook_url` is the folder of the runbooks;
    `labels` are on every alert of an Alertmanager; times are of `timezone`, too.
    """

    lake: str
    runbook_url: str
    page_url: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    timezone: str = "UTC"

    def clock(self, ts: datetime) -> str:
        """A date and time of day, UTC and in the time zone of who reads it."""
        there = "" if self.timezone == "UTC" else f" ({ts.astimezone(ZoneInfo(self.timezone)):%H:%M:%S %Z})"
        return f"{words.clock(ts)}{there}"
