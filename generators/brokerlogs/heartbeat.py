"""What the silence of a live log says."""

from __future__ import annotations

from collections import deque
from time import monotonic, time_ns

SILENCE_S = 1.0
REMEMBERED = 16
_SLACK_US = 1_000_000


class Heartbeat:
    """How long after being written the lines of a log come, and since when none has come."""

    def __init__(self) -> None:
        self._heard = monotonic()
        self._delays: deque[int] = deque(maxlen=REMEMBERED)

    def heard(self, first_ts: int | None) -> None:
        """Lines have come; `first_ts` (us) is the time of the first where the reader had been waiting for it."""
        self._heard = monotonic()
        if first_ts is not None:
            self._delays.append(time_ns() // 1000 - first_ts)

    @property
    def silent(self) -> bool:
        return monotonic() - self._heard >= SILENCE_S

    def told(self, allowed_us: int) -> int:
        """Up to where (us) silence says that nothing has happened, 0 where it says nothing.

        It speaks only where lines have come within `allowed_us` of being written: a copy that is brought now and then
        is silent for other reasons.
        """
        slowest = max(self._delays, default=-1)
        return time_ns() // 1000 - slowest - _SLACK_US if 0 <= slowest <= allowed_us else 0
