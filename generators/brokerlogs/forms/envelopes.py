"""Envelopes that tools that collect logs put around each line, and the lines without them."""

from __future__ import annotations

import re

from generators.brokerlogs.forms.rule import Rule, line_rule

_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_SYSLOG_TIME = rf"(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|{_ISO})"
_INNER = r"(?=[\[{]|\d{4}-\d\d-\d\d|\d{13}\||\s|[a-z]+\.[a-z.]+|$)"
"""How what stands inside begins: a header, a JSON object, or a line of a stack trace."""

_PART = rf"{_ISO} (?:stdout|stderr) P(?::\w+)? "
_PARTS = re.compile(rb"(?:^" + _PART.encode() + rb"[^\n]*\n)+\Z", re.MULTILINE)


def _joined(match: re.Match[bytes]) -> bytes:
    """The parts of a line before its last one, without what stands before each."""
    parts = match[0].split(b"\n")[:-1]
    return b"".join(re.sub(b"^" + _PART.encode(), b"", part) for part in parts)


def unfinished(lines: bytes) -> int:
    """Position of the parts of a line whose last part is still to come; the end if there are none."""
    last = lines[lines.rfind(b"\n", 0, -1) + 1 :]
    found = _PARTS.search(lines) if re.match(_PART.encode(), last) else None
    return found.start() if found else len(lines)


ENVELOPES: tuple[Rule, ...] = (
    line_rule("CRI", rf"(?:{_PART}[^\n]*\n)*{_ISO} (?:stdout|stderr) F(?::\w+)? ", _joined),
    line_rule("kubectl --prefix", r"\[pod/[^\]\n]+\] ", b""),
    line_rule("docker compose", r"[\w.-]+ +\| ?", b""),
    line_rule("syslog or journald", rf"(?:<\d+>)?(?:1 )?{_SYSLOG_TIME} [\w.:-]+ [\w./@-]+(?:\[\d+\])?: ", b""),
    line_rule("kubectl --timestamps", rf"{_ISO} {_INNER}", b""),
    line_rule("journald export", r"(?:MESSAGE=|(?:__CURSOR|[A-Z_]+)=[^\n]*\n)", b""),
    line_rule("stern", rf"[a-z0-9][\w.-]* [a-z0-9][\w.-]* {_INNER}", b""),
)
"""Tried in this order, and again on what is left."""
