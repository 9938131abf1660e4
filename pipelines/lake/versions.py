"""Which version each table of a lake is at, asked again and again: two names of its log a table, no table is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.lake.delta_log import commit_path
from schemas import tables

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake

Version = tuple[int, int]
"""A version, and when its commit was written (ns): a table that was made anew begins at 0 again."""


@dataclass
class Versions:
    """The versions of the tables of one lake; remembers where each was, so that a look costs little."""

    lake: Lake
    _known: dict[str, Version] = field(default_factory=dict)

    def now(self) -> dict[str, Version]:
        """The version of every table that there is, by its name. Raises what the lake's file system raises."""
        found = {name: version for name in tables() if (version := self._version(name)) is not None}
        self._known = dict(found)
        return found

    def _version(self, name: str) -> Version | None:
        known = self._known.get(name)
        written = None if known is None else self._written(name, known[0])
        if known is None or written != known[1]:  # never seen, or its log was cleaned, or it was made anew
            table = self.lake.find(name)
            return None if table is None else self._at(name, table.version())
        while (following := self._written(name, known[0] + 1)) is not None:
            known = known[0] + 1, following
        return known

    def _at(self, name: str, version: int) -> Version:
        return version, self._written(name, version) or 0

    def _written(self, name: str, version: int) -> int | None:
        """When the commit of a version was written, None where the log does not have it."""
        from pyarrow.fs import FileType

        info = self.lake.files(name).get_file_info(commit_path(version))
        return None if info.type != FileType.File else int(info.mtime_ns or 0)
