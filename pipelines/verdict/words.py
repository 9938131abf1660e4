"""The words that every verdict is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

NAMED = 3
"""Things that a sentence names; it counts the others."""
SENTENCE = 200
"""The most characters of a sentence."""
LEVELS = {0: "stock INFO", 1: "polled offsets", 2: "lean TRACE", 3: "full TRACE"}


def count(number: int, thing: str) -> str:
    """`1 partition`, `2,000 partitions`."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def clock(ts: datetime | None) -> str:
    """A date and time of day, UTC."""
    return "an unknown time" if ts is None else f"{ts:%Y-%m-%d %H:%M:%S} UTC"


def brokers(ids: Iterable[int]) -> str:
    """`broker 3`, `brokers 2, 3`, or `unknown brokers`."""
    known = sorted(set(ids))
    if not known:
        return "unknown brokers"
    return f"broker{'s' * (len(known) > 1)} {', '.join(map(str, known))}"


def listed(words: Sequence[str], limit: int = NAMED, total: int = 0) -> str:
    """`a, b, c and 9 more`; `total`: how many there are, where `words` are only some."""
    shown, more = ", ".join(words[:limit]), max(len(words), total) - min(len(words), limit)
    return f"{shown} and {more:,} more" if more else shown


def shorten(sentence: str) -> str:
    """A sentence of at most SENTENCE characters, which ends before a clause or a thing that has no room; whole if that
    would cut a command."""
    if len(sentence) <= SENTENCE or "`" in sentence[SENTENCE // 2 :]:
        return sentence
    head = sentence[: SENTENCE - 2]
    end = max(head.rfind(mark, SENTENCE // 2) for mark in ("; ", ", ", " ("))
    return f"{head if end < 0 else head[:end]} …"


def sentences(text: str, head: str = "") -> list[str]:
    """The clauses of a text in sentences of at most SENTENCE characters; a `head` with which it begins begins each."""
    found, again = list[str](), head if text.startswith(head) else ""
    for clause in text.split("; "):
        joined = f"{found[-1]}; {clause}" if found else clause
        if len(joined) <= SENTENCE or not found:
            found[-1:] = [shorten(joined)]
        else:
            found.append(shorten(f"{again}{clause}"))
    return found


def isr_cause(cause: str | None) -> str:
    """The cause of an ISR change in Kafka's terms."""
    return _CAUSES.get(cause or "unknown") or str(cause).replace("_", " ")


_CAUSES = {
    "controller_fenced": "fenced by the controller", "unknown": "cause not known",
    "log_dir_offline": "log directory offline",
}  # fmt: skip


def span(time: timedelta) -> str:
    """`25 s`, `3 min`, `2 h 10 min`, `5 days`."""
    seconds = max(0, int(time.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days > 1:
        return f"{days} days"
    if hours:
        return f"{hours} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{minutes} min" if minutes else f"{seconds} s"


def level(number: int | None) -> str:
    """`level 2 (lean TRACE)`."""
    return "an unknown level" if number is None else f"level {number} ({LEVELS.get(number, 'not known')})"


def levels(partitions: Mapping[int | None, int]) -> str:
    """The levels at which partitions are judged, the lowest first."""
    found = sorted(partitions, key=lambda n: -1 if n is None else n)
    if not found:
        return level(None)
    if len(found) == 1:
        return level(found[0])
    if len(found) == 2:
        return ", ".join(f"{level(n)} for {count(partitions[n], 'partition')}" for n in found)
    bare = [f"{level(n).partition(' (')[0]} for {partitions[n]:,}" for n in found]
    return f"{', '.join(bare)} partitions"
