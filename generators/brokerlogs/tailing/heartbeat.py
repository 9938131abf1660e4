"""What the silence of a live log says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic, time_ns

SILENCE_S = 1.0
REMEMBERED = 16
_SLACK_US = 1_000_000


class Heartbeat:
    """How long after being written the lines of a log come, and since when none has come.

    `wall` gives nanoseconds since 1970, `steady` seconds that no one sets. Where the wall clock was set, the delays
    measured by it count no more: silence says nothing until lines come again.
    """

    def __init__(self, wall: Callable[[], int] = time_ns, steady: Callable[[], float] = monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._heard = steady()
        self._ahead_us = self._now_us() - int(steady() * 1e6)
        self._delays: deque[int] = deque(maxlen=REMEMBERED)
        self._words: list[str] = []

    def heard(self, first_ts: int | None) -> None:
        """Lines have come; `first_ts` (us) is the time of the first where the reader had been waiting for it."""
        self._notice_jump()
        self._heard = self._steady()
        if first_ts is not None:
            self._delays.append(self._now_us() - first_ts)

    @property
    def silent(self) -> bool:
        return self._steady() - self._heard >= SILENCE_S

    def words(self) -> list[str]:
        """What there is to say of the wall clock, each once."""
        told, self._words = self._words, []
        return told

    def told(self, allowed_us: int) -> int:
        """Up to where (us) silence says that nothing has happened, 0 where it says nothing.

        It speaks only where lines have come within `allowed_us` of being written: a copy that is brought now and then
        is silent for other reasons.
        """
        self._notice_jump()
        slowest = max(self._delays, default=-1)
        return self._now_us() - slowest - _SLACK_US if 0 <= slowest <= allowed_us else 0

    def _now_us(self) -> int:
        return self._wall() // 1000

    def _notice_jump(self) -> None:
        ahead = self._now_us() - int(self._steady() * 1e6)
        jump, self._ahead_us = ahead - self._ahead_us, ahead
        if abs(jump) > _SLACK_US:
            self._delays.clear()
            way = "forward" if jump > 0 else "back"
            self._words.append(
                f"the clock of this machine went {abs(jump) / 1e6:,.0f} s {way}: "
                "a silent log says nothing until lines come again"
            )
