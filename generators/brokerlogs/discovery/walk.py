"""The folders and files below a list of paths, each one once, whatever links lead to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

Identity = tuple[int, int]
"""Device and inode."""


class Walk:
    """By folder the names of its files, or of those that were named, with a word on each path left out.

    Folders and files that no link leads to count first, so that a link changes nothing of what is read without it.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.folders: dict[Path, list[str]] = {}
        self.partly: set[Path] = set()
        """Folders of which only some files were named."""
        self.aside: dict[Path, dict[str, Path]] = {}
        """By folder the names of files that are read by another name, and that name."""
        self.words: list[str] = []
        self._seen: dict[Identity, Path] = {}
        self._named: dict[Path, set[str]] = {}
        self._enter([Path(path).absolute() for path in paths])
        for folder, names in self._named.items():
            if folder not in self.folders:
                self.partly.add(folder)
                self.folders[folder] = sorted(names)
        self._leave_out_twins()

    def _enter(self, given: list[Path]) -> None:
        """All folders below, those behind links last."""
        waiting, links = [*reversed(given)], list[Path]()
        while waiting or links:
            path, linked = (waiting.pop(), False) if waiting else (links.pop(0), True)
            if os.path.realpath(path) != str(path) and not linked and os.path.isdir(path):
                links.append(path)
            elif os.path.isdir(path):
                waiting.extend(reversed(self._folder(path)))
            elif os.path.isfile(path):
                self._named.setdefault(path.parent, set()).add(path.name)
            else:
                self.words.append(f"{path}: {_why_no_file(path)}, left out")

    def _folder(self, path: Path) -> list[Path]:
        """Take up a folder; the folders in it."""
        try:
            twin = self._seen.setdefault(_identity(path), path)
            entries = sorted(path.iterdir()) if twin == path and path not in self.folders else []
        except OSError as error:
            self.words.append(f"{path}: cannot be read ({error.strerror}), left out")
            return []
        if twin != path:
            self.words.append(f"{path}: the same folder as {twin}, read once")
        elif path not in self.folders:
            self.folders[path] = [entry.name for entry in entries if os.path.isfile(entry)]
            nothing = [entry for entry in entries if not (os.path.isfile(entry) or os.path.isdir(entry))]
            self.words.extend(f"{entry}: {_why_no_file(entry)}, left out" for entry in nothing)
        return [entry for entry in entries if os.path.isdir(entry)]

    def _leave_out_twins(self) -> None:
        """Of the names of one file keep one."""
        paths = [folder / name for folder, names in self.folders.items() for name in names]
        kept: dict[Identity, Path] = {}
        for path in sorted(paths, key=os.path.islink):
            try:
                twin = kept.setdefault(_identity(path), path)
            except OSError:
                continue  # it is gone by now; its reader says so
            if twin != path:
                self.words.append(f"{path}: the same file as {twin}, read once")
                self.folders[path.parent].remove(path.name)
                self.aside.setdefault(path.parent, {})[path.name] = twin


def once(paths: Iterable[Path]) -> list[Path]:
    """These paths but for those that lead to the file of one before them."""
    kept: dict[Identity | Path, Path] = {}
    for path in paths:
        try:
            kept.setdefault(_identity(path), path)
        except OSError:
            kept.setdefault(path, path)
    return list(kept.values())


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
