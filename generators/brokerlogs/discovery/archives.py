"""Archives (tar, compressed or not, and zip), unpacked beside, and what comes through a pipe."""

from __future__ import annotations

import re
import tarfile
import threading
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from generators.brokerlogs.discovery.heads import first_bytes, is_archive
from generators.brokerlogs.discovery.log_file import UNPACKED, LogBytes, original
from generators.brokerlogs.discovery.streams import (
    Splitter,
    arrange,
    has_several_brokers,
    order_of,
    prefix_of,
    split,
    split_by_broker,
)

PIPE = "-"
_BROKERS_OWN = re.compile(r"^\d{20}\.|\.(?:index|timeindex|txnindex|snapshot|properties|jar)$")
"""Names of files that a broker has many of, and that are not looked into."""
_BROKEN = "{}: broken archive ({}), what could be read before counts, the rest is unread"
_FIRST_LINES_S = 2.0
_DAMAGES = (OSError, EOFError, RuntimeError, ValueError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class Archives:
    """The archives of one call, each unpacked once, into folders that are gone with this object.

    A file with the lines of several containers, each behind its name, or of several brokers, or an export whose lines
    are not in the order of time, is one, too, unless files are followed.
    """

    def __init__(self, *, follow: bool = False) -> None:
        self._follow = follow
        self._folder: TemporaryDirectory[str] | None = None
        self._unpacked: dict[tuple[Path, int, int], tuple[Path, list[str]] | None] = {}
        self._copying: threading.Thread | None = None
        self._failure: OSError | None = None

    def folder_of(self, path: Path) -> tuple[Path, list[str]] | None:
        """The folder with what an archive holds, and messages on what could not be read; None for other files."""
        head = b"" if _BROKERS_OWN.search(path.name) else first_bytes(path)
        if is_archive(head):
            unpack = _unpack
        elif not self._follow and prefix_of(head):
            unpack = split
        elif not self._follow and order_of(head):
            unpack = arrange
        elif not self._follow and head and has_several_brokers(path, head):
            unpack = split_by_broker
        else:
            return None
        stat = path.stat()
        key = path, stat.st_size, stat.st_mtime_ns
        if key not in self._unpacked:
            folder = self._place(path.with_name(f"{path.name}!"))
            folder.mkdir(parents=True, exist_ok=True)
            problems = unpack(path, folder)
            self._unpacked[key] = None if problems is None else (folder, problems)
        return self._unpacked[key]

    def pipe(self, stream: BinaryIO, *, wait: bool) -> Path:
        """Copy a pipe, to its end with `wait`, else as it comes, its first lines now; returns where it is copied to.

        That is a file, or a folder with one for each container whose name stands before its lines.
        """
        path, some, prefixes = self._place(Path("/pipe.log")), threading.Event(), list[re.Pattern[bytes]]()

        def copy() -> None:
            try:
                data = stream.read1(1 << 16)  # type: ignore[attr-defined]
                prefixes.extend(filter(None, [prefix_of(data)]))
                inside = path.parent / "pipe"
                out = Splitter(prefixes[0], inside, path.name) if prefixes else path.open("wb", buffering=0)
                while data:
                    out.write(data)
                    some.set()
                    data = stream.read1(1 << 16)  # type: ignore[attr-defined]
                out.close()
            except OSError as error:
                self._failure = error
            some.set()

        path.touch()
        self._copying = threading.Thread(target=copy, daemon=True)
        self._copying.start()
        some.wait()
        self._copying.join(None if wait else _FIRST_LINES_S)
        self.piping()
        return path.parent / "pipe" if prefixes else path

    def piping(self) -> bool:
        """Whether there may be more to come: the pipe is open, or there is none. Raises OSError where it could not be
        copied."""
        if self._failure is not None:
            raise self._failure
        return self._copying is None or self._copying.is_alive()

    def _place(self, path: Path) -> Path:
        self._folder = self._folder or TemporaryDirectory(prefix=UNPACKED)
        return Path(self._folder.name, *Path(original(str(path))).parts[1:])


def _unpack(path: Path, folder: Path) -> list[str] | None:
    """Write the files of an archive; returns what is wrong with it."""
    data = LogBytes(path)
    problems = list[str]()
    try:
        if first_bytes(path).startswith(b"PK"):
            with zipfile.ZipFile(path) as zipped:
                for name in zipped.namelist():
                    zipped.extract(name, folder)
        else:
            with tarfile.open(fileobj=data, mode="r|") as packed:  # type: ignore[call-overload]
                for member in packed:
                    if member.isfile():
                        packed.extract(member, folder, filter="data")
    except _DAMAGES as error:
        problems.append(_BROKEN.format(original(str(path)), error))
    return [*problems, *filter(None, (data.damage, data.error))]
