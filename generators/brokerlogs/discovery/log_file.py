"""Bytes of one log file, plain or gzip, from any position, and damage found while reading."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

from pipelines.printable import printable

_BLOCK = 1 << 18


class Stopped(Exception):
    """The reader was stopped in the middle of a compressed file."""


class LogBytes:
    """The (decompressed) bytes of a file from `position` on; reads never raise.

    `error` is why the system did not give its bytes, which may pass: the end of the file was not seen then. `damage` is
    what is wrong with the bytes.

    A plain file may grow: after an empty read a later one can return more. Decompression may run long before it returns
    anything: it asks `stop`, and raises Stopped where that returns True.
    """

    def __init__(self, path: Path, position: int = 0, stop: Callable[[], bool] = lambda: False) -> None:
        self._stop = stop
        self.path, self._name = path, printable(str(path))
        self.damage: str | None = None
        self.error: str | None = None
        self.skipped = 0
        self.compressed = path.name.endswith(".gz")
        self._descriptor = -1
        self._inflate = zlib.decompressobj(31)
        self._inside = False
        self._pending = b""
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.error = f"{self._name}: cannot be read ({error.strerror})"
            return
        self._skip_to(position)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, limit: int) -> bytes:
        """Up to `limit` bytes; empty at the current end."""
        if self._descriptor < 0:
            return b""
        try:
            return self._read_gzip(limit) if self.compressed else os.read(self._descriptor, limit)
        except OSError as error:
            self.error = f"{self._name}: reading stopped ({error.strerror})"
            return b""

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
        if not self.compressed:
            self.skipped = os.lseek(self._descriptor, position, os.SEEK_SET)
            return
        while self.skipped < position and (skipped := self.read(min(position - self.skipped, _BLOCK))):
            self.skipped += len(skipped)

    def _read_gzip(self, limit: int) -> bytes:
        parts: list[bytes] = []
        while limit > 0 and self.damage is None and (part := self._inflate_some(limit)) is not None:
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)

    def _inflate_some(self, limit: int) -> bytes | None:
        if self._stop():
            raise Stopped
        block = self._pending or os.read(self._descriptor, _BLOCK)
        try:
            part = self._inflate.decompress(block, limit)
        except zlib.error as error:
            self.damage = f"{self._name}: broken gzip ({error}), what could be read before counts"
            return None
        if not block and not part:
            if self._inside:
                self.damage = f"{self._name}: truncated gzip, what could be read before its end counts"
            return None
        self._inside, self._pending = True, self._inflate.unconsumed_tail
        if self._inflate.eof:  # a gzip file may have several members
            self._pending, self._inflate = self._inflate.unused_data, zlib.decompressobj(31)
            self._inside = bool(self._pending)
        return part
