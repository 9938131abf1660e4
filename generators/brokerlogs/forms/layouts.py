"""Layouts of plain lines, given as log4j's PatternLayout text, and the lines written in a pattern that is read."""

from __future__ import annotations

import re
from functools import lru_cache

from generators.brokerlogs.forms.rule import Rule, line_rule
from generators.brokerlogs.forms.times import TIME, iso_time, printed_time, stock_time
from pipelines.errors import UsageError

LAYOUTS = (
    "%d %p %m (%c) [%t]",
    "%d %p [%t] %m (%c)",
    "%d %p %m (%c:%L)",
    "%d %p %m (%c)",
    "[%d] %p %m (%c) [%t]",
    "[%d] %p %m (%c:%L)",
    "[%d] [%p] [%t] %m (%c)",
    "[%d] [%t] %p %m (%c)",
    "[%d] %p %m (%c)",
    "[%p] %d [%t] %c %M - %m",
    "[%p] [%d] [%t] %c - %m",
    "%d [%t] %p %c:%L - %m",
    "%d [%t] %p %c - %m",
    "%d [%t] %p  %c: %m",
    "%d %p [%t] %c:%L - %m",
    "%d %p [%t] %c - %m",
    "%d %p [%t] %c: %m",
    "%d %p [%c:%L] - %m",
    "%d %p [%c] %m",
    "%d %p %c - %m",
    "%d %p %c: %m",
    "%p %d %m (%c)",
    "%p [%d] %m (%c)",
    "%p %d %c - %m",
)
"""Tried in this order: of two that may fit a line the one that says more comes first. A thread has no `=` in its name,
which tells it from what Kafka itself puts before messages with evidence."""
_FIELDS = {
    "d": ("time", TIME), "date": ("time", TIME), "p": ("level", r"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)"),
    "c": ("logger", r"[A-Za-z_][\w.$]*"), "t": ("thread", r"[^\]|=]*"), "m": ("message", r".*?"), "L": ("", r"\d+"),
    "M": ("", r"[\w$<>]+"), "n": ("", ""), "x": ("", r"\S*"), "X": ("", r"\S*"), "sn": ("", r"\d+"), "F": ("", r"\S*"),
    "C": ("logger", r"[A-Za-z_][\w.$]*"), "ex": ("", ""), "r": ("", r"\d+"), "highlight": ("", ""),
}  # fmt: skip
_LONG = {
    "level": "p", "logger": "c", "thread": "t", "threadName": "t", "tn": "t", "message": "m", "msg": "m", "line": "L",
    "method": "M", "sequenceNumber": "sn", "throwable": "ex", "xEx": "ex", "relative": "r", "class": "C", "file": "F",
    "le": "p", "lo": "c",
}  # fmt: skip
_PIECE = re.compile(r"%%|%-?\d*\.?-?\d*([A-Za-z]+)(?:\{([^}]*)\})?(?:\{[^}]*\})*")


@lru_cache
def expression(layout: str) -> str:
    """The regular expression of a PatternLayout, with groups time, level, logger, thread and message as it has them.

    Raises UsageError naming what of it is not known, or missing.
    """
    parts, end, groups = [], 0, set()
    for piece in _PIECE.finditer(layout):
        parts.append(_literal(layout[end : piece.start()]))
        end, name = piece.end(), piece[1]
        if name is None:
            parts.append("%")
            continue
        name = _LONG.get(name, name)
        if name not in _FIELDS:
            raise UsageError(f"pattern {layout!r}: %{piece[1]} is not known; known are {', '.join(sorted(_FIELDS))}")
        group, shape = _FIELDS[name]
        if group == "time" and (printed := printed_time(piece[2] or "")):
            shape = re.sub(r"\?P<\w>", "?:", printed.pattern)
        parts.append(f"(?P<{group}>{shape})" if group and group not in groups else f"(?:{shape})")
        groups.add(group)
        if piece[0][1:2] == "-":
            parts.append(" *")
    parts.append(_literal(layout[end:]))
    if missing := {"time", "level", "message"} - groups:
        raise UsageError(
            f"pattern {layout!r} has no {', '.join(sorted(missing))}: times, levels and messages are needed"
        )
    return "".join(parts) + r" *$"


def _literal(text: str) -> str:
    """Text of a layout; a blank stands for any number of them, as levels may be padded."""
    return re.sub(r"(?:\\? )+", " +", re.escape(text))


@lru_cache
def layout_rule(layout: str, zone: str) -> Rule:
    """The rule that writes lines of a layout in Kafka's stock pattern, with times in `zone`."""
    formats = (printed_time(piece[2] or "") for piece in _PIECE.finditer(layout) if piece[1] in ("d", "date"))
    printed = next(filter(None, formats), None)

    def write(match: re.Match[bytes]) -> bytes:
        fields = {name: value for name, value in match.groupdict().items() if value is not None}
        if printed and (time := printed.match(fields["time"].decode())):
            fields["time"] = iso_time(time).encode()
        return written(fields, zone, match[0])

    return line_rule(layout, expression(layout), write)


_BY_MESSAGE = (
    (b"[Partition ", b"kafka.cluster.Partition"),
    (b"[Broker id=", b"state.change.logger"),
    (b"[ReplicaFetcher ", b"kafka.server.ReplicaFetcherThread"),
    (b"[UnifiedLog ", b"org.apache.kafka.storage.internals.log.UnifiedLog"),
    (b"[Log partition", b"kafka.log.Log"),
    (b"Kafka version", b"org.apache.kafka.common.utils.AppInfoParser"),
)
"""Loggers of messages that only one logger prints, for layouts that name none."""


_STATE_CHANGES = (b"[Broker id=", b"[Controller id=")


def full_logger(logger: bytes, message: bytes) -> bytes:
    """The name of a logger of which a layout prints the last part (`%c{1}`), or first letters (`%c{1.}`), as the whole
    name where it is `state.change.logger`, else with some package before it."""
    if logger.rpartition(b".")[2] == b"logger":
        return b"state.change.logger" if message.startswith(_STATE_CHANGES) else logger
    return logger if b"." in logger else b"kafka.server." + logger


def written(fields: dict[str, bytes], local: str, line: bytes) -> bytes:
    """One line in Kafka's stock pattern; `line` itself where its time is none."""
    try:
        time = stock_time(fields["time"].decode(), local)
    except ValueError:
        time = None
    if time is None:
        return line
    message = fields["message"].lstrip(b" ")
    logger = fields.get("logger")
    if logger is None:
        logger = next((name for begin, name in _BY_MESSAGE if message.startswith(begin)), b"no.logger.named")
    logger = full_logger(logger, message)
    return b"[%b] %b %b (%b)" % (time.encode(), fields.get("level", b"INFO"), message, logger)
