"""Seconds from a fault to the row and the alert that say so, taken when a reader of the lake first sees them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from realkafka.beside import Beside, Row
from schemas import alerts

EVERY_S = 0.5


@dataclass
class Fault:
    """One fault: when, how its row and its alert are known, and when each was first seen (epoch ms)."""

    name: str
    at_ms: int
    table: str
    is_row: Callable[[Row], bool]
    is_alert: Callable[[Row], bool]
    row_ms: int | None = None
    alert_ms: int | None = None
    elected_ms: int | None = None
    """Of a loss: when the quorum elected the leader it came with."""

    def line(self) -> str:
        """One line of the report."""
        row, alert = (_seconds(self.at_ms, seen) for seen in (self.row_ms, self.alert_ms))
        since = f" ({_seconds(self.elected_ms, self.row_ms)} after the election)" if self.elected_ms else ""
        return f"{self.name:<44} row after {row}{since}, alert after {alert}"


def wait_for(fault: Fault, beside: Beside, within_s: float) -> None:
    """Wait until the row and the alert of a fault are in the lake, or give up: what was not seen stays None."""
    until = time.monotonic() + within_s
    while time.monotonic() < until and None in (fault.row_ms, fault.alert_ms):
        if fault.row_ms is None and any(map(fault.is_row, beside.rows(fault.table))):
            fault.row_ms = _now_ms()
        if fault.alert_ms is None and any(map(fault.is_alert, beside.rows(alerts.TABLE.path))):
            fault.alert_ms = _now_ms()
        time.sleep(EVERY_S)


def _now_ms() -> int:
    return round(time.time() * 1000)


def _seconds(begin_ms: int | None, end_ms: int | None) -> str:
    return "not seen" if begin_ms is None or end_ms is None else f"{(end_ms - begin_ms) / 1000:.1f} s"
