"""Consumer groups that read what a cluster lost or had offline, asked of it by a press of a button."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

EVERY_S = 30.0
"""The answer is given again to whoever asks sooner."""
AskGroups = Callable[[datetime], str]
"""The answer of the cluster at a moment of the wall clock, as `hwmark show loss --bootstrap` prints it."""


@dataclass(frozen=True)
class GroupsAnswer:
    """The answer as text, and when it was given."""

    at: datetime
    text: str


class Groups:
    """Asks one cluster, at most once in EVERY_S. Safe to use from several threads; one asks at a time."""

    def __init__(self, cluster: str, ask_groups: AskGroups) -> None:
        self.cluster = cluster
        self._ask_groups = ask_groups
        self._lock = threading.Lock()
        self._given: tuple[float, GroupsAnswer] | None = None

    def ask(self, now: datetime) -> GroupsAnswer:
        """Return the answer, or why there is none."""
        with self._lock:
            if self._given is None or time.monotonic() - self._given[0] >= EVERY_S:
                try:
                    text = self._ask_groups(now)
                except Exception as error:  # a cluster that does not answer is an answer
                    text = f"not known: {' '.join(str(error).split())[:300]}"
                self._given = time.monotonic(), GroupsAnswer(now, text)
            return self._given[1]
