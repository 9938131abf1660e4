"""The log statements of Kafka's sources, in Scala and Java, each as an example of what it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_CALL = re.compile(
    r"\b(?:(?P<of>stateChangeLogger|stateChangeLog|stateLogger|log|logger|LOG|LOGGER)"
    r"(?:\.withControllerEpoch\([^()]*\))?\.)?"
    r"(?P<level>trace|debug|info|warn|error|fatal)\("
)
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PLACE = re.compile(r"\{\}|%[-\d.]*[sdifb]")
_OPENS, _CLOSES = "([{", ")]}"
_VALUES = (
    (r"offsetsnapshot|logoffsetmetadata|highWatermarkMetadata|(?:new|old)HighWatermark", "(offset=7, segment=[0:9])"),
    (r"offset|leo\b|endoffset|highwatermark", "7"),
    (r"epoch|version|correlation", "7"),
    (r"topic-?id|topicid|uuid|directory ?id|incarnation", "8x30CauwR6S1Ou0qiySY3A"),
    (r"exception|error|\be\b|throwable|getMessage", "org.apache.kafka.common.errors.TimeoutException"),
    (r"topic-?partition|\btp\b|\bpartition\b|replica\.topicPartition", "orders-1"),
    (r"leader\b|brokerid|replicaid|leaderid|localBrokerId|nodeId", "2"),
    (r"\btopic\b|topicname|\bname\b", "orders"),
    (r"isr|replicas|brokers|assignment|mkString|\.join", "1,2"),
    (r"state|response|request|result", "Online"),
)  # fmt: skip
"""What stands in a place, by the expression there; anything else is a number."""


class Statement(NamedTuple):
    """A call of a logger: whether it goes to the log of state changes, its level, and an example of what it prints."""

    of_state_changes: bool
    level: str
    example: str


class _String(NamedTuple):
    text: str
    end: int


def statements(source: str) -> Iterator[Statement]:
    """Return the log statements of a file."""
    text = _COMMENT.sub(lambda found: found[1] or " ", source)
    for call in _CALL.finditer(text):
        example = _example(_arguments(text, call.end()))
        if re.search(r"[A-Za-z]{3,}", example):
            yield Statement((call["of"] or "").startswith(("stateChangeLog", "stateLogger")), call["level"], example)


def _arguments(text: str, at: int) -> list[str]:
    """The arguments of a call that begin there."""
    found, depth, begun = list[str](), 0, at
    while at < len(text):
        if string := _string_at(text, at):
            at = string.end
            continue
        depth += (text[at] in _OPENS) - (text[at] in _CLOSES)
        if depth < 0:
            return [*found, text[begun:at]]
        if text[at] == "," and depth == 0:
            found.append(text[begun:at])
            begun = at + 1
        at += 1
    return found


def _string_at(text: str, at: int) -> _String | None:
    """The string that begins there, with values in its places."""
    how = text[at] if text[at : at + 1] in ("s", "f") and text[at + 1 : at + 2] == '"' else ""
    inside_a_name = bool(how) and at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")
    if inside_a_name or (not how and text[at : at + 1] != '"'):
        return None
    at += len(how)
    quote = '"""' if text.startswith('"""', at) else '"'
    at, told = at + len(quote), ""
    while at < len(text) and not text.startswith(quote, at):
        if how and text[at] == "$" and (name := re.compile(r"\$(\w+)").match(text, at)):
            told, at = told + _value(name[1]), name.end()
        elif how and text.startswith("${", at):
            (inside, *_), end = _arguments(text, at + 2), _end_of_block(text, at + 2)
            told, at = told + _value(inside), end
        elif text[at] == "\\" and quote == '"':
            told, at = told + text[at + 1], at + 2
        else:
            told, at = told + text[at], at + 1
    return _String(told, at + len(quote))


def _end_of_block(text: str, at: int) -> int:
    depth = 1
    while at < len(text):
        if string := _string_at(text, at):
            at = string.end
            continue
        depth += (text[at] in _OPENS) - (text[at] in _CLOSES)
        at += 1
        if not depth:
            break
    return at


def _example(arguments: list[str]) -> str:
    """What a call with these arguments prints."""
    said = _joined(arguments[0]) if arguments else ""
    rest = [argument.strip() for argument in arguments[1:]]
    said = _PLACE.sub(lambda _: _value(rest.pop(0) if rest else ""), said)
    return re.sub(r"\s*\n\s*\|?\s*", " ", said).strip()


def _joined(expression: str) -> str:
    """Strings, and values of what is added to them."""
    told, code, at, begun = list[str](), "", 0, False
    while at < len(expression):
        if string := _string_at(expression, at):
            if code.strip(" +\n(") and (begun or not re.search(r"\b(if|match|String)\b", code)):
                told.append("" if code.strip().startswith(".") else _value(code))
            told.append(string.text)
            code, at, begun = "", string.end, True
            continue
        if begun and (formatted := re.compile(r"[\s)]*\.(?:format|formatted)\(").match(expression, at)):
            values = _arguments(expression, formatted.end())
            whole = _PLACE.sub(lambda _, values=values: _value(values.pop(0) if values else ""), "".join(told))
            told, at, code = [whole], _end_of_block(expression, formatted.end()), ""
            continue
        code, at = code + expression[at], at + 1
    if begun and code.strip(" +\n)").strip() and "+" in code:
        told.append(_value(code))
    return "".join(told)


def _value(expression: str) -> str:
    """A value as it may be printed for an expression."""
    return next((value for pattern, value in _VALUES if re.search(pattern, expression, re.IGNORECASE)), "7")
