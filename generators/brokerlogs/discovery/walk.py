"""The folders and files below a list of paths, each one once, whatever links lead to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from generators.brokerlogs.discovery.archives import Archives

Identity = tuple[int, int]
"""Device and inode."""
_OF_ROOT = "lost+found"
"""A folder of each file system, which holds no logs."""


class PathWalk:
    """By folder the names of its files, or of those given by path, with a message on each path left out.

    Folders and files that are not reached through links count first, so that a link never changes how other paths are
    read.
    """

    def __init__(self, paths: Iterable[str | Path], archives: Archives) -> None:
        self.folders: dict[Path, list[str]] = {}
        self.partly: set[Path] = set()
        """Folders of which only some files were given by path."""
        self.duplicates: dict[Path, dict[str, Path]] = {}
        """By folder the names of files that are read under another path, with that path."""
        self.messages: list[str] = []
        self.missing: list[str] = []
        """Messages on paths given where nothing is that can be read."""
        self.unread: dict[Path, str] = {}
        """Messages on damaged archives, and on folders that cannot be listed."""
        self._archives = archives
        self._seen: dict[Identity, Path] = {}
        self._named: dict[Path, set[str]] = {}
        self._walk([Path(path).absolute() for path in paths])
        for folder, names in self._named.items():
            if folder not in self.folders:
                self.partly.add(folder)
                self.folders[folder] = sorted(names)
        self._drop_duplicates()

    def _walk(self, named: list[Path]) -> None:
        """Enter all folders below, those behind links last."""
        waiting, links = [*reversed(named)], list[Path]()
        while waiting or links:
            path, linked = (waiting.pop(), False) if waiting else (links.pop(0), True)
            if os.path.realpath(path) != str(path) and not linked and os.path.isdir(path):
                links.append(path)
            elif os.path.isdir(path):
                waiting.extend(reversed(self._folder(path)))
            elif os.path.isfile(path) and (folder := self._unpacked(path)):
                waiting.append(folder)
            elif os.path.isfile(path):
                self._named.setdefault(path.parent, set()).add(path.name)
            else:
                self.missing.append(f"{path}: {_why_no_file(path)}, left out")

    def _folder(self, path: Path) -> list[Path]:
        """Add a folder; returns the folders in it."""
        try:
            original = self._seen.setdefault(_identity(path), path)
            entries = sorted(path.iterdir()) if original == path and path not in self.folders else []
        except OSError as error:
            why = f"{path}: cannot be read ({error.strerror})"
            if path.name == _OF_ROOT:
                self.messages.append(f"{why}, left out")
            else:
                self.unread[path] = why
            return []
        if original != path:
            self.messages.append(f"{path}: the same folder as {original}, read once")
        elif path not in self.folders:
            unpacked = {entry: self._unpacked(entry) for entry in entries if os.path.isfile(entry)}
            self.folders[path] = [entry.name for entry, folder in unpacked.items() if folder is None]
            entries.extend(folder for folder in unpacked.values() if folder)
            nothing = [entry for entry in entries if not (os.path.isfile(entry) or os.path.isdir(entry))]
            self.messages.extend(f"{entry}: {_why_no_file(entry)}, left out" for entry in nothing)
        return [entry for entry in entries if os.path.isdir(entry)]

    def _unpacked(self, path: Path) -> Path | None:
        """The folder with what an archive holds; None for other files."""
        folder, problems = self._archives.folder_of(path) or (None, [])
        if problems:
            self.unread[path] = problems[0]
        return folder

    def _drop_duplicates(self) -> None:
        """Keep one of several names of a file."""
        paths = [folder / name for folder, names in self.folders.items() for name in names]
        kept: dict[Identity, Path] = {}
        for path in sorted(paths, key=os.path.islink):
            try:
                original = kept.setdefault(_identity(path), path)
            except OSError:
                continue  # it is gone by now; its reader reports that
            if original != path:
                self.messages.append(f"{path}: the same file as {original}, read once")
                self.folders[path.parent].remove(path.name)
                self.duplicates.setdefault(path.parent, {})[path.name] = original


def _identity(path: Path) -> Identity:
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def _why_no_file(path: Path) -> str:
    try:
        os.stat(path)
    except OSError as error:
        if os.path.islink(path) and error.errno in (errno.ENOENT, errno.ELOOP):
            return "a link that leads to no file"
        return "there is no such file" if error.errno == errno.ENOENT else f"cannot be read ({error.strerror})"
    return "neither a file nor a folder"
