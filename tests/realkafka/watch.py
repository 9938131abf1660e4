"""Seconds from a fault to the row and the alert that say so, taken when a reader of the lake first sees them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import datetime

from schemas import alerts, hw_regressions, isr_changes
from tests.realkafka.beside import Beside, Row

EVERY_S = 0.5


@dataclass(frozen=True)
class Removed:
    """A broker is out of an ISR: the row and the alert by which that is known."""

    broker: int
    table: str = isr_changes.TABLE.path
    rule: str = "out_of_sync"

    def is_row(self, row: Row) -> bool:
        return self.broker in (row["removed"] or ())

    def is_alert(self, alert: Row) -> bool:
        return f"broker {self.broker}" in alert["subject"]


@dataclass(frozen=True)
class Lost:
    """Committed records are gone: the row and the alert by which that is known."""

    table: str = hw_regressions.TABLE.path
    rule: str = "loss"

    def is_row(self, row: Row) -> bool:
        return bool(row["severity"] == "critical")

    def is_alert(self, alert: Row) -> bool:
        return True


Evidence = Removed | Lost


@dataclass
class Fault:
    """One fault: when, how its row and its alert are known, and when each was first seen (epoch ms)."""

    name: str
    at_ms: int
    evidence: Evidence
    row_ms: int | None = None
    alert_ms: int | None = None
    elected_ms: int | None = None
    """Of a loss: when the quorum elected the leader it came with."""

    def is_row(self, row: Row) -> bool:
        """Whether a row reports this fault."""
        return self._since(row["ts"]) and self.evidence.is_row(row)

    def is_alert(self, alert: Row) -> bool:
        """Whether an alert fires for this fault."""
        fires = alert["rule"] == self.evidence.rule and alert["state"] == "firing"
        return fires and self._since(alert["last_ts"]) and self.evidence.is_alert(alert)

    def _since(self, ts: datetime) -> bool:
        return ts.timestamp() * 1000 >= self.at_ms

    def line(self) -> str:
        """One line of the report."""
        row, alert = (_seconds(self.at_ms, seen) for seen in (self.row_ms, self.alert_ms))
        since = f" ({_seconds(self.elected_ms, self.row_ms)} after the election)" if self.elected_ms else ""
        return f"{self.name:<44} row after {row}{since}, alert after {alert}"


class Watch:
    """Looks for the row and the alert of a fault from the fault on; what it does not see in time stays None."""

    def __init__(self, fault: Fault, beside: Beside, within_s: float) -> None:
        self.fault, self._beside, self._until = fault, beside, time.monotonic() + within_s
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def wait(self) -> Fault:
        """Wait until both were seen, or it is too late."""
        self._thread.join()
        return self.fault

    def _look(self) -> None:
        fault = self.fault
        while time.monotonic() < self._until and None in (fault.row_ms, fault.alert_ms):
            if fault.row_ms is None and any(map(fault.is_row, self._beside.rows(fault.evidence.table))):
                fault.row_ms = _now_ms()
            if fault.alert_ms is None and any(map(fault.is_alert, self._beside.rows(alerts.TABLE.path))):
                fault.alert_ms = _now_ms()
            time.sleep(EVERY_S)


def _now_ms() -> int:
    return round(time.time() * 1000)


def _seconds(begin_ms: int | None, end_ms: int | None) -> str:
    return "not seen" if begin_ms is None or end_ms is None else f"{(end_ms - begin_ms) / 1000:.1f} s"
