"""The first bytes of files: whether they are logs, and of which broker."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG

from generators.brokerlogs.discovery.codecs import FOREIGN
from generators.brokerlogs.discovery.log_file import LogBytes, is_settled
from generators.brokerlogs.discovery.streams import BROKER, prefix_of

SNIFF = 1 << 16
_BEGINNING = 4096
SETTINGS = ("server.properties", "meta.properties")
_LIKE_A_LOG = re.compile(r"^(?P<live>[^.].*?\.(?:log|out|dump))[.\-_~].*$")
"""Other names that people give to logs: `.old`, `.bak`, `.orig`; whether they are logs is seen by their lines."""
_HEADER = re.compile(
    rb"(?:^|\n)(?:\[\d{4}-\d\d-\d\d |\d{4}-\d\d-\d\d[ T]\d\d:|\d{13}\||\| offset: "
    rb"|\{\"(?:@timestamp|timestamp|time|ts|log)\"|[ \t,\[]*\{\"[^\n]*\"(?:message|msg|line|log|MESSAGE|textPayload)\")"
    rb"|\d\d:\d\d:\d\d[^\n]{0,80}\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b"
)

_PRINTED = re.compile(
    rb"^(?:Topic: ?\S+[ \t]+(?:TopicId: ?\S+[ \t]+)?PartitionCount: ?\d|ClusterId:\s+\S+\nLeaderId:\s+\d"
    rb"|NodeId\s[^\n]*LogEndOffset\s"
    rb"|[\w.-]+:\d+:\d+[ \t\r]*$)",
    re.MULTILINE,
)
_LOGGED = re.compile(rb"\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b")


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, cached until the file changes; empty if it cannot be read."""
    try:
        stat = path.stat()
    except OSError:
        return b""
    if not S_ISREG(stat.st_mode):
        return b""
    read = _head_of if is_settled(stat.st_mtime_ns) else _head_of.__wrapped__
    return read(path, stat.st_dev, stat.st_ino, min(stat.st_size, SNIFF), stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _head_of(path: Path, *_: int) -> bytes:
    return LogBytes(path).read(SNIFF)


def other_log(folder: Path, name: str) -> str | None:
    """The live name of a log by its first lines, whose name says nothing; None for what is no log.

    What cannot be looked into is a log by itself.
    """
    if name.startswith(".") or name in SETTINGS:
        return None
    if name.endswith(FOREIGN):
        return name
    head = first_bytes(folder / name)
    if is_archive(head) or not (_HEADER.search(head) or prefix_of(head)):
        return None
    found = _LIKE_A_LOG.match(name)
    return found["live"] if found else name


def is_archive(head: bytes) -> bool:
    """Whether a file that begins so, once it is no longer compressed, holds files."""
    return head[257:262] == b"ustar" or head.startswith(b"PK\x03\x04")


def is_printed(path: Path) -> bool:
    """Whether one of Kafka's tools printed a file, by its first lines (see brokerlogs.printed)."""
    head = first_bytes(path)[:_BEGINNING]
    return _PRINTED.search(head) is not None and not _LOGGED.search(head)


def is_dump_name(name: str) -> bool:
    """Whether a file of this name is a printed metadata log."""
    return name.startswith("metadata.dump")


def is_dump(path: Path) -> bool:
    """Whether a file is a printed metadata log."""
    head = first_bytes(path)
    return is_dump_name(path.name) or b"\n| offset: " in head or head.startswith(b"Dumping ")


def sniff_broker(path: Path) -> int | None:
    """The broker whose log this is, from its first bytes; None where they do not name it."""
    found = BROKER.search(first_bytes(path))
    return int(found[found.lastindex or 0]) if found else None
