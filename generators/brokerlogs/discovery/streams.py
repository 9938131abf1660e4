"""Streams whose lines are those of several containers, each behind its name, or come the newest first."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

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
BROKER = re.compile(
    rb"broker=(\d+)\]|\[Broker id=(\d+)\]|replicaId=(\d+), leaderId|(?:Controller|Server) id=(\d+)\]"
    rb"|\[Controller (\d+)\]|\n\t(?:broker|node)\.id = (\d+)\n"
)
"""The part of a line that names the broker which printed it."""
_MOST = 200
"""Names of containers in one stream."""
_PIECE, _HEAD = 1 << 20, 1 << 16
_ENDS = 1 << 13
"""Bytes at the beginning and the end of a log by which it is seen whether it has lines of several brokers."""


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
_SAMPLE = 10_000
"""Lines by which it is seen what stands before a time."""
_HEADER = 80
"""Characters at the beginning of a line in which its time stands."""
_TOO_MANY = "{}: more than 1 GiB of lines of several brokers, unread: give each broker's log alone"
_TOO_LARGE = "{}: more than 1 GiB of lines that are not in the order of time, unread: sort them, or give parts"
Order = Callable[[bytearray], Iterator[bytearray]]


def order_of(head: bytes) -> Order | None:
    """Return what yields the lines of an export that begins with `head` in order; None for lines that are.

    The newest may come first, or all stand in one line of JSON, or in no order. A line without a time goes with the one
    before it.
    """
    if head[:1] in b"[{" and b"\n" not in head.rstrip() and len(_TIME.findall(head)) > 2:
        return _entries
    lines = head.split(b"\n", _LOOKED_AT)[:-1]
    found = [_TIME.search(line) for line in lines if line[:1] > b" "]
    usual = _usual_before(found)
    times = [time for time in (_time(one, usual) for one in found) if time]
    rises, falls = sum(a < b for a, b in pairwise(times)), sum(a > b for a, b in pairwise(times))
    if falls > 2 and falls > 4 * rises:
        return _last_first
    far = sum(a[:_COARSE] > b[:_COARSE] for a, b in pairwise(times))
    return _by_time if far > 2 and 10 * far > len(times) > 0.9 * len(lines) else None


def _entries(text: bytearray) -> Iterator[bytearray]:
    begins = [0, *(match.start() for match in _ENTRY.finditer(text)), len(text)]
    return (text[begin:end] for begin, end in pairwise(begins))


def _last_first(text: bytearray) -> Iterator[bytearray]:
    end = len(text)
    while end >= 0:
        begin = text.rfind(b"\n", 0, end) + 1
        yield text[begin:end]
        end = begin - 1


def _by_time(text: bytearray) -> Iterator[bytearray]:
    ends = np.append(np.fromiter((match.start() for match in re.finditer(b"\n", text)), np.int64), len(text))
    begins = np.concatenate([[0], ends[:-1] + 1])
    sample = zip(begins[:_SAMPLE], ends[:_SAMPLE], strict=True)
    usual = _usual_before(_TIME.search(bytes(text[a:b])) for a, b in sample)
    latest, keys = b"", np.zeros(len(ends), "S32")
    for k in range(len(ends)):
        keys[k] = latest = _time(_TIME.search(bytes(text[begins[k] : ends[k]])), usual) or latest
    return (text[begins[k] : ends[k]] for k in keys.argsort(kind="stable"))


def _usual_before(times: Iterable[re.Match[bytes] | None]) -> bytes:
    """Return the few characters before most of these times."""
    before = Counter(_before(time) for time in times if time)
    return before.most_common(1)[0][0] if before else b""


def _before(time: re.Match[bytes]) -> bytes:
    return time.string[max(0, time.start() - _BEFORE) : time.start()]


def _time(found: re.Match[bytes] | None, usual: bytes) -> bytes:
    """The time of a line in which `found` is one, b"" if it has none, or not behind what `usual`ly stands before it.

    A line of a trace in an envelope has the envelope's time alone, which may be of another zone.
    """
    return found[0].replace(b"T", b" ") if found and _before(found) == usual else b""


def arrange(path: Path, folder: Path) -> list[str] | None:
    """Write the lines of an export in order; returns what is wrong with it, None where they are in order.

    It takes the memory of its text, and about a quarter of that for the times of its lines.
    """
    data, text = LogBytes(path), bytearray()
    for piece in _pieces(data):
        text += piece
    order = order_of(bytes(text[:_HEAD]))
    if len(text) > _LARGEST:
        return [_TOO_LARGE.format(path)]
    if order is None:
        return None
    while len(text) > 1 and text.endswith(b"\n"):
        del text[-1:]
    with (folder / plain_name(path.name)).open("wb") as file:
        file.writelines(line + b"\n" for line in order(text))
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


def has_several_brokers(path: Path, head: bytes) -> bool:
    """Whether the beginning and the end of a file name several brokers, each more than once."""
    data = LogBytes(path)
    stat = None if data.is_compressed else data.stat()
    ends = head[:_ENDS] + b"\n" + (data.before(stat.st_size, _ENDS) if stat else b"")
    named = Counter(match[match.lastindex or 0] for match in BROKER.finditer(ends))
    return sum(count > 1 for count in named.values()) > 1


def split_by_broker(path: Path, folder: Path) -> list[str] | None:
    """Write the lines of each broker of a stream to a file in a folder of its own.

    Those that name none go to one without a broker, unless the brokers stand one behind the other and the lines on both
    sides are of one.
    """
    data = LogBytes(path)
    lines = b"".join(_pieces(data)).split(b"\n")
    if sum(map(len, lines)) > _LARGEST:
        return [_TOO_MANY.format(path)]
    named: list[bytes] = [match[match.lastindex or 0] if (match := BROKER.search(line)) else b"" for line in lines]
    brokers = [name for name, _ in groupby(filter(None, named))]
    in_blocks = len(brokers) == len({*brokers})
    after = list[bytes]()
    for name in reversed(named):
        after.append(name or (after[-1] if after else b""))
    before = owner = b""
    of = defaultdict[bytes, list[bytes]](list)
    for line, name, later in zip(lines, named, reversed(after), strict=True):
        if name or _TIME.search(line, 0, _HEADER):  # else it belongs to the line before
            is_within = in_blocks and (before or later) == (later or before)
            owner = name or (before or later if is_within else b"")
        before = name or before
        of[owner].append(line)
    for name, own in of.items():
        there = folder / f"broker {name.decode() or 'not named'}"
        there.mkdir(parents=True, exist_ok=True)
        (there / plain_name(path.name)).write_bytes(b"\n".join([*filter(None, own), b""]))
    return [*filter(None, (data.damage, data.error))]


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
