"""One stream with the lines of several containers, each behind the name of its own, and a file for each."""

from __future__ import annotations

import re
from collections import defaultdict
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
_PIECE = 8 << 20


def prefix_of(head: bytes) -> re.Pattern[bytes] | None:
    """What stands before the lines of a stream that begins so: the name of a container; None where nothing does."""
    return next((prefix for prefix in _PREFIXES if prefix.match(head.lstrip())), None)


def split(path: Path, folder: Path) -> list[str] | None:
    """Write the lines of each container to a file in a folder of its name; None where there is only one.

    A line without a name belongs to the one before it.
    """
    data = LogBytes(path)
    prefix, rest, name = prefix_of(data.read(1 << 16)), b"", ""
    names = set[str]()
    data, file_name = LogBytes(path), plain_name(path.name).removesuffix(".log") + ".log"
    while prefix is not None and len(names) <= _MOST and (piece := data.read(_PIECE)):
        lines, newline, rest = (rest + piece).rpartition(b"\n")
        name, of = _by_name(lines + newline, prefix, name)
        _append(of, folder, file_name, names)
    if prefix is not None:
        _append(_by_name(rest, prefix, name)[1], folder, file_name, names)
    return [*filter(None, (data.damage, data.error))] if 1 < len(names) <= _MOST else None


def _by_name(lines: bytes, prefix: re.Pattern[bytes], name: str) -> tuple[str, dict[str, list[bytes]]]:
    """(the container of the last of these lines, the lines of each); `name`: of the line before them."""
    parts, at = defaultdict[str, list[bytes]](list), 0
    for match in prefix.finditer(lines):
        if (found := match[1].decode()) != name:
            parts[name].append(lines[at : match.start()])
            name, at = found, match.start()
    parts[name].append(lines[at:])
    return name, parts


def _append(of: dict[str, list[bytes]], folder: Path, file_name: str, names: set[str]) -> None:
    for name, texts in of.items():
        if name:
            (folder / name).mkdir(exist_ok=True)
            with (folder / name / file_name).open("ab" if name in names else "wb") as file:
                file.writelines(texts)
            names.add(name)
