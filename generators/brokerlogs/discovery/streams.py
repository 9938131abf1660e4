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
    """Return the pattern of container names in front of the lines of a stream that begins with `head`, or None."""
    return next((prefix for prefix in _PREFIXES if prefix.match(head.lstrip())), None)


def split(path: Path, folder: Path) -> list[str] | None:
    """Write the lines of each container to a file in a folder of its name; None where there is only one."""
    prefix, data = prefix_of(LogBytes(path).read(1 << 16)), LogBytes(path)
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
