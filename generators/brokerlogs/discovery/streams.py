"""Streams whose lines are those of several containers, each behind its name, or come the newest first."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from generators.brokerlogs.discovery.codecs import plain_name
from generators.brokerlogs.discovery.log_file import LogBytes

_PREFIXES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rb"^([\w.-]+) +\| ",  # docker compose
        rb"^\[pod/([^/\]\s]+)/[^\]\s]+\] ",  # kubectl logs --prefix
        rb"^([a-z0-9][\w.-]*) [a-z0-9][\w.-]* (?=[\[{]|\d{4}-\d\d-\d\d)",  # stern
    )
)
_MOST = 200
"""Names of containers in one stream."""
_PIECE, _HEAD = 8 << 20, 1 << 16


def prefix_of(head: bytes) -> re.Pattern[bytes] | None:
    """Return the pattern of container names in front of the lines of a stream that begins with `head`, or None."""
    return next((prefix for prefix in _PREFIXES if prefix.match(head.lstrip())), None)


_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*|(?<!\d)[12]\d{12}(?:\d{6})?(?!\d)")
_BEFORE = 5
"""Characters before a time by which times of one kind are known."""
_COARSE = 16
"""Characters of a time up to its minute."""
_LOOKED_AT = 200
"""Lines by which it is seen in what order a log is."""
_ENTRY = re.compile(rb"(?=\{\"|\[\")")
_LARGEST = 1 << 30
"""Bytes of a log whose lines are put in order in memory."""
_TOO_LARGE = "{}: its lines are not in the order of time, unread: sort them (`tac`, where the newest come first)"
Order = Callable[[list[bytes]], list[bytes]]


def order_of(head: bytes) -> Order | None:
    """Return what puts the lines of an export that begins with `head` in order; None for lines that are.

    The newest may come first, or all stand in one line of JSON, or in no order. A line without a time goes with the one
    before it.
    """
    if head[:1] in b"[{" and b"\n" not in head.rstrip() and len(_TIME.findall(head)) > 2:
        return lambda lines: _ENTRY.split(b"\n".join(lines))
    lines = head.split(b"\n", _LOOKED_AT)[:-1]
    times = [time for time in _times([line for line in lines if line[:1] > b" "]) if time]
    rises, falls = sum(a < b for a, b in pairwise(times)), sum(a > b for a, b in pairwise(times))
    if falls > 2 and falls > 4 * rises:
        return lambda lines: lines[::-1]
    far = sum(a[:_COARSE] > b[:_COARSE] for a, b in pairwise(times))
    return _by_time if far > 2 and 10 * far > len(times) > 0.9 * len(lines) else None


def _by_time(lines: list[bytes]) -> list[bytes]:
    latest, keyed = b"", list[tuple[bytes, int]]()
    for k, time in enumerate(_times(lines)):
        latest = time or latest
        keyed.append((latest, k))
    return [lines[k] for _, k in sorted(keyed)]


def _times(lines: list[bytes]) -> list[bytes]:
    """The time of each line, b"" where it has none behind what stands before the time of most lines.

    A line of a trace in an envelope has the envelope's time alone, which may be of another zone.
    """
    found = [_TIME.search(line) for line in lines]
    before = Counter(one.string[max(0, one.start() - _BEFORE) : one.start()] for one in found if one)
    usual = before.most_common(1)[0][0] if before else b""
    same = (one and one.string[max(0, one.start() - _BEFORE) : one.start()] == usual for one in found)
    return [one[0].replace(b"T", b" ") if one and there else b"" for one, there in zip(found, same, strict=True)]


def arrange(path: Path, folder: Path) -> list[str] | None:
    """Write the lines of an export in order; returns what is wrong with it, None where they are in order."""
    data = LogBytes(path)
    text = b"".join(_pieces(data))
    order = order_of(text[:_HEAD])
    if len(text) > _LARGEST:
        return [_TOO_LARGE.format(path)]
    if order is None:
        return None
    lines = text.split(b"\n")
    del text  # it and its lines are all that is held
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    with (folder / plain_name(path.name)).open("wb") as file:
        file.writelines(line + b"\n" for line in order(lines))
    return [*filter(None, (data.damage, data.error))]


def _pieces(data: LogBytes) -> Iterator[bytes]:
    """Yield the bytes of a file, but not many more than _LARGEST."""
    size = 0
    while size <= _LARGEST and (piece := data.read(_PIECE)):
        size += len(piece)
        yield piece


def split(path: Path, folder: Path) -> list[str] | None:
    """Write the lines of each container to a file in a folder of its name; None where there is only one."""
    prefix, data = prefix_of(LogBytes(path).read(_HEAD)), LogBytes(path)
    if prefix is None:
        return None
    out = Splitter(prefix, folder, plain_name(path.name).removesuffix(".log") + ".log")
    while len(out.names) <= _MOST and (piece := data.read(_PIECE)):
        out.write(piece)
    out.close()
    return [*filter(None, (data.damage, data.error))] if 1 < len(out.names) <= _MOST else None


class Splitter:
    """Files with the lines of each container of a stream, in folders of their names below `folder`.

    A line without a name belongs to the one before it.
    """

    def __init__(self, prefix: re.Pattern[bytes], folder: Path, file_name: str) -> None:
        self.names = set[str]()
        self._prefix, self._folder, self._file_name = prefix, folder, file_name
        self._rest, self._name = b"", ""

    def write(self, data: bytes) -> None:
        """Add the lines that these bytes end."""
        lines, newline, self._rest = (self._rest + data).rpartition(b"\n")
        self._name, of = _by_name(lines + newline, self._prefix, self._name)
        for name, texts in of.items():
            if name:
                (self._folder / name).mkdir(parents=True, exist_ok=True)
                with (self._folder / name / self._file_name).open("ab" if name in self.names else "wb") as file:
                    file.writelines(texts)
                self.names.add(name)

    def close(self) -> None:
        """Add what is no whole line."""
        if self._rest:
            self.write(b"\n")


def _by_name(lines: bytes, prefix: re.Pattern[bytes], name: str) -> tuple[str, dict[str, list[bytes]]]:
    """(the container of the last of these lines, the lines of each); `name`: of the line before them."""
    parts, at = defaultdict[str, list[bytes]](list), 0
    for match in prefix.finditer(lines):
        if (found := match[1].decode()) != name:
            parts[name].append(lines[at : match.start()])
            name, at = found, match.start()
    parts[name].append(lines[at:])
    return name, parts
