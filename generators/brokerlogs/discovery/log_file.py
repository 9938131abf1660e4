"""Bytes of one log file, plain or compressed, from any position, and damage found while reading."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from time import time_ns

from generators.brokerlogs.discovery.codecs import FOREIGN, Unpacking
from pipelines.printable import printable

UNPACKED = "hwmark-unpacked-"
"""How folders begin in which archives are unpacked."""
_BLOCK = 1 << 18
_TICK_NS = 2_000_000_000
"""Files that are written within this may have equal times: two seconds on FAT, milliseconds on others."""
_INSIDE = re.compile(rf"[^\s']*/{UNPACKED}\w+(?=/)")


def original(text: str) -> str:
    """A text in which paths of what was unpacked begin as those of their archives."""
    return _INSIDE.sub("", text)


def is_settled(mtime_ns: int) -> bool:
    """Whether what is written to a file with this time from now on gives it another one."""
    return time_ns() - mtime_ns > _TICK_NS


class LogBytes:
    """The (decompressed) bytes of a file from `position` on; reads never raise.

    `error` is why the system did not give its bytes, which may pass: the end of the file was not seen then. `damage` is
    what is wrong with the bytes.

    A plain file may grow: after an empty read a later one can return more. Decompression may run long before it returns
    anything: it asks `stop`, and raises Stopped where that returns True.
    """

    def __init__(self, path: Path, position: int = 0, stop: Callable[[], bool] = lambda: False) -> None:
        self.path, self._name = path, printable(original(str(path)))
        self.damage: str | None = None
        self.error: str | None = None
        self._descriptor = -1
        self._unpacking: Unpacking | None = None
        if path.name.endswith(FOREIGN):
            self.error = f"{self._name}: {path.suffix} is not unpacked here, unread: unpack it beside"
            return
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            unpacking = Unpacking(self._descriptor, path.name, stop)
        except OSError as error:
            self.error = f"{self._name}: cannot be read ({error.strerror})"
            return
        self._unpacking = unpacking if unpacking.codec else None
        self._skip_to(position)

    @property
    def is_compressed(self) -> bool:
        """Whether its bytes are those of a compressed file, which does not grow."""
        return self._unpacking is not None

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, limit: int) -> bytes:
        """Up to `limit` bytes; empty at the current end."""
        if self._descriptor < 0:
            return b""
        try:
            if self._unpacking is None:
                return os.read(self._descriptor, limit)
            data = self._unpacking.read(limit)
        except OSError as error:
            self.error = f"{self._name}: reading stopped ({error.strerror})"
            return b""
        if self._unpacking.damage:
            self.damage = f"{self._name}: {self._unpacking.damage}"
        return data

    def before(self, position: int, length: int) -> bytes:
        """At most `length` bytes of a plain file that end at `position`, as they are now; the next read is the same."""
        begin = max(0, position - length)
        try:
            return os.pread(self._descriptor, position - begin, begin) if self._descriptor >= 0 else b""
        except OSError:
            return b""

    def stat(self) -> os.stat_result | None:
        """Status of the open file, which may have been renamed."""
        return os.fstat(self._descriptor) if self._descriptor >= 0 else None

    def _skip_to(self, position: int) -> None:
        if not self.is_compressed:
            os.lseek(self._descriptor, position, os.SEEK_SET)
            return
        while position and (skipped := self.read(min(position, _BLOCK))):
            position -= len(skipped)
