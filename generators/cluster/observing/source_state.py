"""What is known of one broker as a source of rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from generators.cluster.observing.rows import Source


@dataclass
class SourceState:
    """What is known of one broker as a source."""

    source: Source
    began: bool = False
    told: str = ""
    """What its last row says of whether it answers."""
    unanswered: int = 0
    since_us: int = 0
    why: str = ""

    def gap(self, until_us: int) -> str:
        """Which rounds are missing, and why."""
        times = "once" if self.unanswered == 1 else f"{self.unanswered} times"
        return f"asked {times} from {_time(self.since_us)} to {_time(until_us)} without an answer: {self.why}"


def _time(ts_us: int) -> str:
    return f"{datetime.fromtimestamp(ts_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
