"""Envelopes around lines, from shippers and consoles, and lines without them."""

from __future__ import annotations

import re
from itertools import islice

from generators.brokerlogs.forms.json_lines import enclosed_line
from generators.brokerlogs.forms.rule import Rule, line_rule

_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_SYSLOG_TIME = rf"(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|{_ISO})"
_INNER = r"(?=[\[{]|\d{4}-\d\d-\d\d|\d{13}\||\s|[a-z]+\.[a-z.]+|$)"
"""How what stands inside begins: a header, a JSON object, or a line of a stack trace."""

_PART = rf"{_ISO} (?:stdout|stderr) P(?::\w+)? "
_CRI = line_rule("CRI", rf"{_ISO} (?:stdout|stderr) [FP](?::\w+)? ", b"")
_PART_LINE = rb"^" + _PART.encode() + rb"[^\n]*\n"
_PARTS = re.compile(rb"(?:" + _PART_LINE + rb")+\Z", re.MULTILINE)
_BEFORE_OTHERS = re.compile(_PART_LINE + rb"(?=" + _CRI.pattern.pattern + rb")", re.MULTILINE)
_AND_NEXT = re.compile(rb"(?:" + _PART_LINE + rb")+" + _CRI.pattern.pattern, re.MULTILINE)


class _WholeLines(Rule):
    """Removes what stands before lines, each of which may come in parts."""

    def apply(self, lines: bytes) -> bytes:
        has_parts = b" stdout P" in lines or b" stderr P" in lines
        return super().apply(_AND_NEXT.sub(_joined, lines) if has_parts else lines)


def _joined(match: re.Match[bytes]) -> bytes:
    """The parts of a line before another one, behind what stands before that."""
    *parts, before = match[0].split(b"\n")
    return before + b"".join(_CRI.apply(part) for part in parts)


_EXPORTED = b"__CURSOR="
"""So begins each entry of `journalctl -o export`, which ends with an empty line."""
_ENTRY = re.compile(rb"(?:[^\n]+\n)*\n")
_MESSAGE = re.compile(rb"^MESSAGE=([^\n]*\n)", re.MULTILINE)


def unfinished(lines: bytes) -> int:
    """Position of the parts of a line whose last part is still to come; the end if there are none."""
    if lines.startswith(_EXPORTED):
        return lines.rfind(b"\n\n") + 2 if b"\n\n" in lines else 0
    last = lines[lines.rfind(b"\n", 0, -1) + 1 :]
    found = _PARTS.search(lines) if re.match(_PART.encode(), last) else None
    return found.start() if found else len(lines)


def parts_end(lines: bytes) -> list[int]:
    """Return the ends of lines of an envelope behind which more of the same printed line comes."""
    if lines.startswith(_EXPORTED):
        return [match.end() for match in _LINE.finditer(lines) if match[0] != b"\n"]
    return [match.end() for match in _BEFORE_OTHERS.finditer(lines)]


_LEVEL = "(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
_DAY = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3}"
INSIDE = rf"(?:\[{_DAY}[^\]\n]{{0,8}}\]|(?<![\d\[\w-]){_DAY}) +(?:\[[^\]\n]*\] )?{_LEVEL}\b"
"""A header in the middle of a line: CSV, an array of JSON, what `grep` and others put before lines."""
_EACH = re.compile(
    rf"({INSIDE}(?:(?!{INSIDE})[^\n])*?\([\w.$]+(?::\d+)?\)(?: \[[^\]\n\"\\]*\])?)(?:([\"\\])|\t|[^\S\n]*$)"
    rf"|({INSIDE}(?:(?!{INSIDE})[^\n])*)".encode(),
    re.MULTILINE,
)
_ENCLOSING = rf"(?!{INSIDE}|{_PART})[^\n]{{1,400}}?{INSIDE}[^\n]*\n"


def _lines_inside(match: re.Match[bytes]) -> bytes:
    """The lines that a line holds, each up to its logger if it names one."""
    found = _EACH.finditer(match[0])
    return b"".join((_without_escapes(one[1]) if one[2] else one[1] or one[3]) + b"\n" for one in found)


def _line_inside(match: re.Match[bytes]) -> bytes:
    """The line that a line holds; one that holds several stays as it is."""
    lines = _lines_inside(match)
    return lines if lines.count(b"\n") == 1 else match[0]


def _without_escapes(text: bytes) -> bytes:
    """Text of a CSV or JSON file without its escapes."""
    return re.sub(rb'\\(["\\/])|""', lambda found: found[1] or b'"', text).replace(b"\\n", b" ")


_JOINED = _WholeLines(*line_rule("CRI", rf"{_ISO} (?:stdout|stderr) F(?::\w+)? ", b""))
ENVELOPES: tuple[Rule, ...] = (
    _JOINED,
    line_rule("kubectl --prefix", r"\[pod/[^\]\n]+\] ", b""),
    line_rule("docker compose", r"[\w.-]+ +\| ?", b""),
    line_rule("syslog or journald", rf"(?:<\d+>)?(?:1 )?{_SYSLOG_TIME} [\w.:-]+ [\w./@-]+(?:\[\d+\])?: ", b""),
    line_rule("kubectl --timestamps", rf"{_ISO} {_INNER}", b""),
    line_rule("journald export", r"(?:MESSAGE=|(?:__CURSOR|[A-Z_]+)=[^\n]*\n)", b""),
    line_rule("stern", rf"[a-z0-9][\w.-]* [a-z0-9][\w.-]* {_INNER}", b""),
    line_rule("fluentd", r"[^\t\n]*\t[^\t\n]*\t(?=\{\")", b""),
    line_rule("lines inside lines", _ENCLOSING, _lines_inside),
)
"""Tried in this order, and again on what is left."""

_INSIDE_ONE = line_rule("a line inside a line", _ENCLOSING, _line_inside)
_AROUND = (
    *(rule for rule in ENVELOPES if rule.name in ("kubectl --prefix", "docker compose", "syslog or journald", "stern")),
    _CRI,
    line_rule("kubectl --timestamps", rf"{_ISO} ", b""),
    line_rule("JSON", r"\{\".*\}\n", enclosed_line),
    _INSIDE_ONE,
)
"""Rules for shippers that put something around each line by itself."""
_PRINTED = re.compile(rb"(?:\[?[A-Z]{4,5}\]? +)?\[?(?:\d{4}-\d\d-\d\d[ T]|\d{13}\b)|\{\"")
"""How a line begins that has its time."""
_CONTINUING = re.compile(rb"^(?!" + _PRINTED.pattern + rb")(?=[^\n]*\n)", re.MULTILINE)
_NATIVE = re.compile(rb"\[\d{4}-|\d{13}\|")
_LINE = re.compile(rb"[^\n]*\n")
_LOOKED_AT = 40
"""First lines of a piece in which one is looked for that shows the envelope."""
ANSI = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


def bare_lines(lines: bytes) -> bytes:
    """Lines as they were printed, one for all parts of one: without a shipper's envelope, colours, carriage returns."""
    if lines.startswith(_EXPORTED):
        lines = _ENTRY.sub(lambda entry: found[1] if (found := _MESSAGE.search(entry[0])) else b"\n", lines)
    elif _CRI.pattern.match(lines):
        lines = _JOINED.apply(lines)
    if b"\r" in lines:  # one byte is found much faster than two
        lines = lines.replace(b"\r\n", b"\n")
    if b"\x1b" in lines:
        lines = ANSI.sub(b"", lines)
    for found in islice(_LINE.finditer(lines), _LOOKED_AT):
        if (rules := _around(found[0])) is not None:
            for rule in rules:
                lines = rule.apply(lines)
            if _INSIDE_ONE in rules:  # what has no header continues the line before, whatever time stands around it
                lines = _CONTINUING.sub(b"\t", lines)
            break
    return lines


def _around(line: bytes) -> list[Rule] | None:
    """The rules, one after the other, that leave what begins with a time; None where nothing does."""
    rules, count = list[Rule](), None
    while True:
        rule = None if _NATIVE.match(line) else next((one for one in _AROUND if one.apply(line) != line), None)
        if _PRINTED.match(line) and not (rule and line.startswith(b"{")):
            count = len(rules)
        if rule is None:
            return rules[:count] if count is not None else None
        rules.append(rule)
        line = rule.apply(line)
