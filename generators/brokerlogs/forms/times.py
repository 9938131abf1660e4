"""Rewriting of the times in log lines into the format of Kafka's stock pattern."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

_ZONES = {
    "Z": 0, "UTC": 0, "GMT": 0, "BST": 60, "CET": 60, "CEST": 120, "EET": 120, "EEST": 180, "IST": 330, "JST": 540,
    "EST": -300, "EDT": -240, "CST": -360, "CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420,
}  # fmt: skip
"""Minutes ahead of UTC."""
ZONE = rf"(?:{'|'.join(_ZONES)}|[+-]\d\d:?\d\d)"
TIME = rf"\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?: ?{ZONE}(?![\w:]))?|\d{{13}}|\d{{10}}(?:\.\d{{1,9}})?"
"""A time in a line: ISO with or without fraction and zone, or an epoch in milliseconds or seconds."""
_PARTS = re.compile(rf"(\d{{4}}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{{1,9}}))?(?: ?({ZONE}))?$")


_NAMED = {
    "ISO8601_BASIC": "yyyyMMdd'T'HHmmss,SSS", "DATE": "dd MMM yyyy HH:mm:ss,SSS", "COMPACT": "yyyyMMddHHmmssSSS",
}  # fmt: skip
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_LETTERS = {
    "y": r"\d{4}", "u": r"\d{4}", "M": r"\d\d", "d": r"\d{1,2}", "H": r"\d\d", "m": r"\d\d", "s": r"\d\d",
    "S": r"\d{1,9}", "n": r"\d{1,9}", "X": ZONE, "x": ZONE, "Z": ZONE, "z": ZONE, "MMM": "|".join(_MONTHS),
}  # fmt: skip


def printed_time(date_format: str) -> re.Pattern[str] | None:
    """Return the expression of a time in a format of Java or log4j (`yyyy/MM/dd HH:mm:ss`), None if it lacks a day or
    is one of log4j's that TIME has.

    Its groups are named by the letters of the format.
    """
    text = _NAMED.get(date_format, date_format)
    parts = re.findall(r"'([^']*)'|(([a-zA-Z])\3*)|(.)", text)
    if not {"M", "d", "H", "m", "s"} <= {letter for _, _, letter, _ in parts}:
        return None
    shapes = (
        f"(?P<{letter}>{_LETTERS.get(run[:3], _LETTERS[letter])})" if letter in _LETTERS else re.escape(quoted or other)
        for quoted, run, letter, other in parts
    )
    return re.compile("".join(shapes))


def iso_time(match: re.Match[str]) -> str:
    """The text of a time that a `printed_time` matches as `stock_time` reads it."""
    of = {"S": "0", "X": "", **match.groupdict()}
    of["X"] = next((of[name] for name in "XxZz" if of.get(name)), "")
    month = of["M"] if of["M"].isdecimal() else f"{_MONTHS.index(of['M']) + 1:02}"
    return f"{of.get('y') or of.get('u')}-{month}-{of['d']:0>2} {of['H']}:{of['m']}:{of['s']},{of['S']}{of['X']}"


def stock_time(text: str, local: str) -> str | None:
    """A printed time as `2026-11-21 01:28:25,837` in the zone `local`, in which it is if it names none; None for other
    text."""
    if parts := _PARTS.match(text):
        day, clock, fraction, zone = parts.groups()
        second = f"{day} {clock}" if zone is None else _in_zone(f"{day}T{clock}", zone, local)
        return f"{second},{(fraction or '0').ljust(3, '0')[:3]}"
    number = re.match(r"(\d{10})(?:(\d{3})|\.(\d+))?$", text)
    if number is None:
        return None
    return f"{_of_epoch(int(number[1]), local)},{(number[2] or number[3] or '0').ljust(3, '0')[:3]}"


@lru_cache(maxsize=4096)
def _in_zone(second: str, zone: str, local: str) -> str:
    minutes = _ZONES.get(zone)
    if minutes is None:
        ahead = int(zone[1:3]) * 60 + int(zone[-2:])
        minutes = -ahead if zone[0] == "-" else ahead
    if minutes == 0 and local == "UTC":
        return second.replace("T", " ")
    moment = datetime.fromisoformat(second).replace(tzinfo=timezone(timedelta(minutes=minutes)))
    return moment.astimezone(ZoneInfo(local)).strftime("%Y-%m-%d %H:%M:%S")


@lru_cache(maxsize=4096)
def _of_epoch(second: int, local: str) -> str:
    return datetime.fromtimestamp(second, ZoneInfo(local)).strftime("%Y-%m-%d %H:%M:%S")
