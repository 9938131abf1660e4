"""Files of a log directory, opened so that nothing outside it, and nothing but a regular file, is ever read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 64 << 20
"""Of a file that is read whole: a checkpoint of a million partitions with long names has less."""


class Unreadable(ValueError):
    """A file, or a part of one, that cannot be understood; the message names it and says why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = path, why


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """The file's descriptor, to be read from. Raises Unreadable, also for a link or a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        link = path.is_symlink()
        why = "a symbolic link, not followed" if link else error.strerror or str(error)
        raise Unreadable(path, why) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable(path, "not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def is_there(path: Path) -> bool:
    """Whether a path has a file of whatever kind. Raises Unreadable if its folder cannot be read."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Unreadable(path, error.strerror or str(error)) from None
    return True


def read_whole(path: Path) -> tuple[bytes, float]:
    """A small file's bytes, and when it was written (epoch seconds). Raises Unreadable."""
    with opened(path) as descriptor:
        status = os.fstat(descriptor)
        if status.st_size > MOST_BYTES:
            raise Unreadable(path, f"{status.st_size:,} bytes, more than such a file can have")
        content = read_at(path, descriptor, 0, status.st_size + 1)
        return content, status.st_mtime


def read_at(path: Path, descriptor: int, position: int, size: int) -> bytes:
    """So many bytes from a position on, fewer at the end of the file. Raises Unreadable where the disk fails."""
    parts: list[bytes] = []
    try:
        while size > 0 and (part := os.pread(descriptor, size, position)):
            parts.append(part)
            position, size = position + len(part), size - len(part)
    except OSError as error:
        raise Unreadable(path, f"at byte {position:,}: {error.strerror}") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)
