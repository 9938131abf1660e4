"""Kafka's small text files: checkpoints of offsets and of leader epochs, and files of properties."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from generators.disks.files import Unreadable, read_whole

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_FILES = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)
LEADER_EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LARGEST = (1 << 63) - 1
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER = re.compile(r"\d{1,19}")

Place = tuple[str, int]
"""Topic and partition."""


class Offsets(NamedTuple):
    """Offsets by partition of one checkpoint file, and when it was written (epoch seconds)."""

    by_place: dict[Place, int]
    written: float


def read_offsets(path: Path) -> Offsets:
    """A checkpoint of offsets: `topic partition offset` on each line. Raises Unreadable, with the first bad line."""
    rows, written = _rows(path, 3)
    offsets: dict[Place, int] = {}
    named: set[str] = set()
    for number, (topic, partition, offset) in enumerate(rows, 3):
        if topic not in named and not TOPIC.fullmatch(topic):
            raise Unreadable(path, f"line {number}: {topic!r} is no name of a topic")
        place = sys.intern(topic), _number(path, number, partition, (1 << 31) - 1)
        if place in offsets:
            raise Unreadable(path, f"line {number}: {topic}-{partition} a second time")
        offsets[place] = _number(path, number, offset)
        named.add(topic)
    return Offsets(offsets, written)


def read_leader_epochs(path: Path) -> list[tuple[int, int]]:
    """The entries (epoch, start offset) of a leader-epoch-checkpoint, rising. Raises Unreadable."""
    entries: list[tuple[int, int]] = []
    for number, (epoch, start) in enumerate(_rows(path, 2)[0], 3):
        entry = _number(path, number, epoch, (1 << 31) - 1), _number(path, number, start)
        if entries and (entry[0] <= entries[-1][0] or entry[1] < entries[-1][1]):
            raise Unreadable(path, f"line {number}: epoch {epoch} from {start} does not follow the line before it")
        entries.append(entry)
    return entries


def read_properties(path: Path) -> dict[str, str]:
    """`key=value` or `key: value` lines, as in meta.properties and partition.metadata. Raises Unreadable."""
    pairs: dict[str, str] = {}
    for line in _text(path)[0].splitlines():
        key, sign, value = re.sub(r"^\s*#.*", "", line).replace("\\:", ":").partition(":" if ": " in line else "=")
        if sign:
            pairs[key.strip()] = value.strip()
    return pairs


def _text(path: Path) -> tuple[str, float]:
    content, written = read_whole(path)
    try:
        return content.decode("ascii"), written
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"byte {error.start} is none of such a file") from None


def _rows(path: Path, columns: int) -> tuple[list[list[str]], float]:
    """The fields of each line after the version and the count, as many lines as the count says."""
    text, written = _text(path)
    if not text:  # created and never written, as Kafka leaves it for an empty log
        return [], written
    lines = text.split("\n")
    if lines[0] != "0":
        raise Unreadable(path, f"version {lines[0][:20]!r}, not 0")
    count = _number(path, 2, lines[1] if len(lines) > 1 else "")
    rows = [line.split(" ") for line in lines[2:] if line]
    if not text.endswith("\n") or len(rows) != count:
        raise Unreadable(path, f"{len(rows):,} lines where its second line says {count:,}: cut or damaged")
    for number, row in enumerate(rows, 3):
        if len(row) != columns:
            raise Unreadable(path, f"line {number}: {len(row)} fields, not {columns}")
    return rows, written


def _number(path: Path, line: int, text: str, largest: int = LARGEST) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > largest:
        raise Unreadable(path, f"line {line}: {text[:40]!r} is no number from 0 to {largest}")
    return int(text)
