"""Cuts of a follower's log, and high watermarks of followers that fall (the replica fetcher and the log layer)."""

from __future__ import annotations

import re

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line, Shape, StateLog


def _cut(log: StateLog, line: Line, place: int, offset: int, telling: Telling) -> None:
    if log.wanted(place):
        telling.tell("truncate", line.ts, line.broker, line.level, place=place, replica_id=line.broker, leo=offset)


def _truncating(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if m[1] and line.decided < 0:
        _cut(log, line, log.known.place(m[1]), int(m[2]), telling)
    elif m[3]:
        _cut(log, line, line.place, int(m[3]), telling)


def _truncated(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    _cut(log, line, line.place, int(m[1]), telling)


def _lowered(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if log.wanted(line.place):
        about = log.term(line.place, telling) | {"hw_before": int(m[1]), "hw": int(m[2])}
        telling.tell("hw", line.ts, line.broker, line.level, replica_id=line.broker, **about)


CUTS: dict[str, Shape] = {
    "Truncating": (
        re.compile(
            r"Truncating (?:partition (\S+) with TruncationState\(offset=(\d+)|to offset (\d+)|"
            r"to \d+ has no effect|\S+ to)"
        ),
        _truncating,
    ),
    "Truncate": (re.compile(r"Truncate and start at offset (\d+)"), _truncated),
    "Non-monotonic": (
        re.compile(r"Non-monotonic update of high watermark from \(offset=(-?\d+).*? to \(offset=(\d+)"),
        _lowered,
    ),
}
"""By first word: the line and what it tells."""
