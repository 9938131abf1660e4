"""The meaning of a live log's silence."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic, time_ns

SILENCE_S = 1.0
REMEMBERED = 16
_SLACK_US = 1_000_000


class Heartbeat:
    """Delay from the time of a line to its arrival, and since when none has arrived.

    `wall` returns nanoseconds since 1970, `steady` seconds of a monotonic clock. Where the wall clock was set, delays
    measured with it are dropped: silence then means nothing until lines come again.
    """

    def __init__(self, wall: Callable[[], int] = time_ns, steady: Callable[[], float] = monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._last_lines = steady()
        self._ahead_us = self._now_us() - int(steady() * 1e6)
        self._delays: deque[int] = deque(maxlen=REMEMBERED)
        self._messages: list[str] = []

    def on_lines(self, first_ts: int | None) -> None:
        """Lines have arrived; `first_ts` (us) is the time of the first, where the reader was waiting for it."""
        self._notice_jump()
        self._last_lines = self._steady()
        if first_ts is not None:
            self._delays.append(self._now_us() - first_ts)

    @property
    def silent(self) -> bool:
        return self._steady() - self._last_lines >= SILENCE_S

    def take_messages(self) -> list[str]:
        """Messages on the wall clock, each returned once."""
        taken, self._messages = self._messages, []
        return taken

    def quiet_until(self, allowed_us: int) -> int:
        """Time (us) up to which silence means that nothing happened, 0 where it means nothing.

        It means something only where lines arrive within `allowed_us` of their time: a copy that is updated now and
        then is silent for other reasons.
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
            self._messages.append(
                f"the clock of this machine went {abs(jump) / 1e6:,.0f} s {way}: "
                "silence of a log means nothing until lines arrive again"
            )
