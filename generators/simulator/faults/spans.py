"""Spans of time and topics as people write them: `500ms`, `12s`, `2m`; `orders:6x3:min-isr=2:unclean`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from generators.simulator.cluster.settings import Topic
from pipelines.errors import UsageError, nearest

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def span(text: str) -> int:
    """Microseconds of `500ms`, `12s`, `1.5m` or `1h`, with a minus in front if need be. Raises UsageError."""
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(us|ms|s|m|h)", text)
    if not match:
        hint = f"; did you mean {text}s?" if re.fullmatch(r"-?\d+(\.\d+)?", text) else ""
        raise UsageError(f"{text!r} is no span of time: write 500ms, 12s, 2m or 1h{hint}")
    return round(float(match[1]) * _UNITS[match[2]])


def length(text: str) -> int:
    """A span that is not negative."""
    if (us := span(text)) < 0:
        raise UsageError(f"{text} is negative; the nearest allowed is 0s")
    return us


def written(us: int) -> str:
    """The shortest way to write a span: the inverse of `span`."""
    if abs(us) > _UNITS["s"] and us % _UNITS["s"] and us % _UNITS["ms"] == 0:
        return f"{us / _UNITS['s']:.3f}".rstrip("0") + "s"
    unit = next(name for name, size in reversed(_UNITS.items()) if us % size == 0)
    return f"{us // _UNITS[unit]}{unit}" if us else "0s"


def topic(text: str) -> Topic:
    """`NAME[:PARTITIONS[xREPLICAS]][:min-isr=N][:unclean]`. Raises UsageError."""
    name, *parts = text.split(":")
    if not _LEGAL_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no topic name: letters, digits, '.', '_' and '-', at most 249 of them")
    made = Topic(name)
    for part in parts:
        made = replace(made, **_part(part, text))
    return made


def _part(part: str, text: str) -> dict[str, Any]:
    if match := re.fullmatch(r"(\d+)(?:x(\d+))?", part):
        sizes = {"partitions": match[1], "replication_factor": match[2]}
    elif match := re.fullmatch(r"min-isr=(\d+)", part):
        sizes = {"min_isr": match[1]}
    elif part == "unclean":
        return {"unclean": True}
    else:
        known = ["min-isr=2", "unclean", "6x3"]
        raise UsageError(f"{part!r} of the topic {text} is not understood; {nearest(part, known)}")
    for key, size in sizes.items():
        if size is not None and int(size) < 1:
            raise UsageError(f"{key} of the topic {text} is {size}; the nearest allowed is 1")
    return {key: int(size) for key, size in sizes.items() if size is not None}


def topic_written(topic: Topic) -> str:
    """The inverse of `topic`."""
    min_isr = f":min-isr={topic.min_isr}" if topic.min_isr != 1 else ""
    unclean = ":unclean" if topic.unclean else ""
    return f"{topic.name}:{topic.partitions}x{topic.replication_factor}{min_isr}{unclean}"
