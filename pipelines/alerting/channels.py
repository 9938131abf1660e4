"""Where alerts go: lines for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.alerting.rules import SEVERITIES
from pipelines.alerting.state import AlertState


def lines(alerts: Iterable[AlertState]) -> list[str]:
    """One line an alert, those that fire first, the worst on top."""
    ordered = sorted(alerts, key=lambda a: (not a.firing, -SEVERITIES.index(a.severity), a.first_ts, a.alert_id))
    return [
        f"{a.state:8} {a.severity:8} {a.rule}: {a.summary} (since {a.first_ts:%Y-%m-%d %H:%M:%S} UTC)" for a in ordered
    ]
