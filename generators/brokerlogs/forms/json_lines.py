"""Lines that are JSON objects: a log4j JSON layout, or an envelope around the text of a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from generators.brokerlogs.forms.layouts import written
from generators.brokerlogs.forms.rule import Rule, line_rule

_TEXT = ("message", "msg", "log", "line", "MESSAGE", "@message", "textPayload", "body", "short_message")
_LEVEL = ("log.level", "level", "severity", "levelname")
_LOGGER = (
    "log.logger", "logger_name", "loggerName", "logger", "class", "loggername", "source", "_logger", "logger.name",
)  # fmt: skip
_TIME = ("@timestamp", "timestamp", "time", "timeMillis", "instant", "ts", "date", "timeEpoch")
_AROUND = ("_source", "jsonPayload")
"""Fields that hold those of a line."""
_DOCKERS = {"log", "stream", "time", "attrs"}
"""Docker's own, `stream` always; their text ends with a newline unless more of the line is to come."""
_decoder = msgspec.json.Decoder(dict[str, Any])


@lru_cache
def json_rule(zone: str) -> Rule:
    """The rule for lines that are JSON objects; an object in which no text is found stays as it is."""

    def write(match: re.Match[bytes]) -> bytes:
        try:
            fields = _decoder.decode(match[1])
        except msgspec.DecodeError:
            return match[0]
        return _line(fields, zone, match[0])

    return line_rule("JSON lines", r"[ \t,\[]*(\{.*\})[ \t,\]]*\n", write)


def enclosed_line(match: re.Match[bytes]) -> bytes:
    """The line in a JSON object of a shipper; what is none stays as it is."""
    try:
        fields = _decoder.decode(match[0])
    except msgspec.DecodeError:
        return match[0]
    line = _line(fields, "UTC", match[0]) if _first(fields, _LEVEL) is None else match[0]
    return line.rstrip(b"\n") + b"\n" if b"\n" not in line.rstrip(b"\n") else match[0]


def _line(fields: Mapping[str, Any], local: str, line: bytes) -> bytes:
    for name in _AROUND:
        inner = fields.get(name)
        fields = {**fields, **inner} if isinstance(inner, dict) else fields
    text = _first(fields, _TEXT)
    if isinstance(text, Mapping):
        text = _first(text, ("formatted", "text", "message"))
    if not isinstance(text, str):
        return line
    level = _first(fields, _LEVEL)
    time, logger = (None, None) if level is None else (_first(fields, _TIME), _first(fields, _LOGGER))
    if time is None or not isinstance(logger, str):  # an envelope: its text is a line, or part of one
        is_part = fields.get("logtag") == "P" or {"stream"} <= fields.keys() <= _DOCKERS
        return text.encode() + (b"" if text.endswith("\n") or is_part else b"\n")
    found = {
        "time": _time(time),
        "level": str(level).upper().encode(),
        "message": text.replace("\r", "").rstrip("\n").encode(),
    }
    found["logger"] = logger.encode()
    return written(found, local, line.rstrip(b"\n")).rstrip(b"\n") + b"\n"


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of these names, `a.b` standing for a field in a field, too; None where there is none."""
    for name in names:
        if name in fields:
            return fields[name]
        if "." in name:
            value: Any = fields
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                return value
    return None


def _time(value: Any) -> bytes:
    if isinstance(value, Mapping):
        seconds, nanos = value.get("epochSecond", 0), value.get("nanoOfSecond", 0)
        return b"%d" % (int(seconds) * 1000 + int(nanos) // 1_000_000)
    return str(value).encode()
