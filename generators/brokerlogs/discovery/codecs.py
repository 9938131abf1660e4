"""Compressed bytes, and text in UTF-16, known by how they begin, else by the name of their file."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

_SUFFIXES = {
    ".gz": "gzip", ".tgz": "gzip", ".bz2": "bzip2", ".tbz2": "bzip2", ".xz": "xz", ".txz": "xz", ".lzma": "xz",
    ".zst": "zstd", ".lz4": "lz4",
}  # fmt: skip
FOREIGN = (".7z", ".rar", ".Z", ".snappy", ".sz", ".br", ".lzo", ".gpg", ".age", ".enc")
"""Suffixes of compression and encryption that are not undone here: such files are told as unread."""
_BEGINNINGS = {
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4",
    b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
}  # fmt: skip
_BUFFER = 1 << 18
_PIECE = 1 << 16
"""Bytes asked at once of pyarrow, which loses those of a whole call where it comes upon damage."""


class Stopped(Exception):
    """The reader was stopped in the middle of a compressed file."""


def plain_name(name: str) -> str:
    """The name of a file without the suffix of its compression."""
    return next((name.removesuffix(suffix) for suffix in (*_SUFFIXES, *FOREIGN) if name.endswith(suffix)), name)


class Unpacking:
    """The bytes that a compressed file holds; `damage` is what is wrong with them, `codec` None for other files."""

    def __init__(self, descriptor: int, name: str, stop: Callable[[], bool]) -> None:
        head = os.pread(descriptor, 6, 0)
        self.damage: str | None = None
        found = [codec for begin, codec in _BEGINNINGS.items() if head.startswith(begin)]
        found += [codec for suffix, codec in _SUFFIXES.items() if name.endswith(suffix)]
        self.codec = found[0] if found else None
        self._read = _reader(self.codec, _Raw(descriptor, stop)) if self.codec and head else lambda _: b""

    def read(self, limit: int) -> bytes:
        """Up to `limit` bytes; empty at the end, and where damage is. Raises OSError where the system refuses."""
        parts: list[bytes] = []
        while limit > 0 and self.damage is None and (part := self._some(limit)):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)

    def _some(self, limit: int) -> bytes:
        try:
            return self._read(limit)
        except EOFError:
            self.damage = f"truncated {self.codec}, what could be read before its end counts"
        except (OSError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            kind = "truncated" if "Truncated" in str(error) else "broken"
            self.damage = f"{kind} {self.codec} ({error}), what could be read before counts"
        return b""


def _reader(codec: str, raw: io.RawIOBase) -> Callable[[int], bytes]:
    buffered: Any = io.BufferedReader(raw, _BUFFER)
    if codec == "gzip":
        return gzip.GzipFile(fileobj=buffered).read1
    if codec == "bzip2":
        return bz2.BZ2File(buffered).read1
    if codec == "xz":
        return lzma.LZMAFile(buffered).read1
    if codec == "utf-16":  # as PowerShell writes what a command prints
        return io.BufferedReader(_Utf8(buffered), _BUFFER).read1
    stream = pa.CompressedInputStream(pa.PythonFile(buffered, "r"), codec)
    return lambda limit: bytes(stream.read(min(limit, _PIECE)))


class _Utf8(io.RawIOBase):
    """UTF-16 as UTF-8."""

    def __init__(self, raw: Any) -> None:
        self._raw, self._decoder, self._rest = raw, codecs.getincrementaldecoder("utf-16")("replace"), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and (data := self._raw.read1(_PIECE)):
            self._rest = self._decoder.decode(data).encode()
        some, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)


class _Raw(io.RawIOBase):
    """The bytes of a descriptor from their beginning. Raises Stopped once `stop` returns True."""

    def __init__(self, descriptor: int, stop: Callable[[], bool]) -> None:
        self._descriptor, self._stop, self._at = descriptor, stop, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._stop():
            raise Stopped
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count
