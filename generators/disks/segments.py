"""A partition's segments: blocks of batch headers, and the sparse index beside each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from generators.disks.batches import (
    BATCH,
    CRC_TABLES,
    FAULTS,
    OLD_CRC_TABLES,
    SMALLEST_OLD,
    TORN,
    WHOLE,
    ZEROS,
    Array,
    walk,
)
from generators.disks.files import Unreadable, opened, read_at, read_whole

WINDOW = 4 << 20
"""Bytes read at once: what an audit keeps of a segment does not grow with it, and a processor's cache still has them as
they are looked at (16 MB: a quarter more time)."""
LARGEST = 256 << 20
"""Bytes of a batch that is still read whole; the default limit of a broker is 1 MB."""
SEGMENT = re.compile(r"(\d{20})\.log(\.deleted)?")


@dataclass(frozen=True)
class Segment:
    """One segment file; `base` is the offset in its name."""

    path: Path
    base: int
    deleted: bool = False

    @property
    def index(self) -> Path:
        return self.path.with_name(f"{self.base:020d}.index")


@dataclass
class WalkEnd:
    """End of the walk over a segment: the position of the first byte that is no whole batch, and why."""

    position: int = 0
    size: int = 0
    reason: int = WHOLE

    @property
    def words(self) -> str:
        """Why, None where it was the end of the file."""
        return FAULTS[self.reason]


def segments(folder: Path, *, renamed: bool = False) -> list[Segment]:
    """The segments of a partition's directory by base offset, with `renamed` then those to be deleted. Raises
    Unreadable."""
    try:
        names = [(name, SEGMENT.fullmatch(name)) for name in os.listdir(folder)]
    except OSError as error:
        raise Unreadable(folder, error.strerror or str(error)) from None
    matches = [Segment(folder / name, int(match[1]), bool(match[2])) for name, match in names if match]
    return sorted((one for one in matches if renamed or not one.deleted), key=lambda one: (one.deleted, one.base))


def blocks(segment: Segment, end: WalkEnd, start: int = 0, first: int = 0) -> Iterator[tuple[Array, bytes]]:
    """Blocks of batch headers (BATCH) with the bytes that they lie in; `end` says where and why the walk ended.

    `first`: bytes of the first block, if it is the only one that is wanted.

    Raises Unreadable where the disk fails. The bytes of a block begin where its first batch does.
    """
    with opened(segment.path) as descriptor:
        least = segment.base if not start else 0
        state = np.array([start, least, 0, WHOLE, 0, least, segment.base], np.int64)
        size, window = os.fstat(descriptor).st_size, first or WINDOW
        out = np.zeros(min(window, max(size, 1)) // SMALLEST_OLD + 1, BATCH)
        while state[0] < size:
            data = read_at(segment.path, descriptor, int(state[0]), window)
            state[2], is_last = 0, int(state[0]) + len(data) >= size or len(data) < window
            count = walk(np.frombuffer(data, np.uint8), state, out, CRC_TABLES, OLD_CRC_TABLES, is_last)
            if count:
                yield out[:count].copy(), data
            state[0] += state[2]
            if state[3] != WHOLE or (is_last and not count):
                break
            window = max(WINDOW, int(state[4]))
            if window > LARGEST:
                state[3] = TORN
                break
        end.position, end.size, end.reason = int(state[0]), size, int(state[3])


def index_entries(segment: Segment) -> Array:
    """The entries (offset, position) of a segment's index, without a tail of zeros. Raises Unreadable."""
    content, _ = read_whole(segment.index)
    entries = np.frombuffer(content[: len(content) // 8 * 8], ">i4").reshape(-1, 2).astype(np.int64)
    written = np.flatnonzero(entries.any(axis=1))
    entries = entries[: written[-1] + 1 if len(written) else 0]
    entries[:, 0] += segment.base
    if content[len(content) // 8 * 8 :].strip(b"\0"):
        raise Unreadable(segment.index, f"{len(content):,} bytes: no multiple of 8, the size of an entry")
    return entries


@dataclass(frozen=True)
class LookUp:
    """The way from an offset to its batch: the segment, the entry of its sparse index, the bytes read on from there.

    `entry` (offset, position) is None before the first one; `batch` (first, last offset, position) None if the offset
    was removed or is not there yet, and then the next one after it is given.
    """

    segment: str
    entry: tuple[int, int] | None
    read_on: int
    batch: tuple[int, int, int]

    def words(self, offset: int) -> str:
        """`offset 150: 00000000000000000120.log, index entry 144 at byte 4,096, 512 bytes on, batch 150..150 at …`."""
        entry = f"index entry {self.entry[0]} at byte {self.entry[1]:,}" if self.entry else "no index entry below it"
        first, last, position = self.batch
        there = "" if first <= offset else " (the offset itself is not there)"
        where = f"batch {first}..{last} at byte {position:,}{there}"
        return f"offset {offset}: {self.segment}, {entry}, {self.read_on:,} bytes on, {where}"


def look_up(folder: Path, offset: int) -> LookUp | None:
    """The way to an offset as a broker goes it (UnifiedLog.read, LogSegment.translateOffset); None above the end.

    Raises Unreadable.
    """
    files = segments(folder)
    after = [segment for segment in files if segment.base > offset]
    for segment in [*[one for one in files if one.base <= offset][-1:], *after]:
        entries = index_entries(segment)
        k = int(np.searchsorted(entries[:, 0], offset, side="right")) - 1
        entry = (int(entries[k, 0]), int(entries[k, 1])) if k >= 0 else None
        begin = entry[1] if entry else 0
        for block, _ in blocks(segment, WalkEnd(), begin):
            found = block[(block["last"] >= offset) & (block["fault"] == WHOLE)]
            if len(found):
                first, last, position = (int(found[name][0]) for name in ("base", "last", "position"))
                return LookUp(segment.path.name, entry, position - begin, (first, last, position))
    return None


def log_end(folder: Path) -> int | None:
    """The log end offset of a partition's directory: behind the last whole batch, or the base offset of an empty
    segment (5.5); None without segments, or if it cannot be read to its end. Raises Unreadable."""
    files = segments(folder)
    if not files:
        return None
    newest = files[-1]
    for start in (_last_indexed(newest), 0):
        walk_end, end, begins_whole = WalkEnd(), newest.base, False
        for block, _ in blocks(newest, walk_end, start):
            whole = block[block["fault"] == WHOLE]
            begins_whole = begins_whole or block["fault"][0] == WHOLE
            end = int(whole["last"][-1]) + 1 if len(whole) else end
        if begins_whole or not start:  # else the index has no batch there
            break
    return end if walk_end.reason in (WHOLE, TORN, ZEROS) else None


def _last_indexed(segment: Segment) -> int:
    """The position of the index's last entry; of a file that was preallocated the rest is zeros."""
    try:
        with opened(segment.index) as descriptor:
            low, high = 0, os.fstat(descriptor).st_size // 8
            while low < high:
                middle = (low + high) // 2
                written = any(read_at(segment.index, descriptor, middle * 8, 8))
                low, high = (middle + 1, high) if written else (low, middle)
            return int.from_bytes(read_at(segment.index, descriptor, low * 8 - 4, 4), "big") if low else 0
    except Unreadable:
        return 0
