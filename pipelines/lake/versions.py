"""The versions of a lake's tables, for frequent polling: by two names in each log, without opening a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.lake.delta_log import commit_path
from schemas import tables

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake

Version = tuple[int, int]
"""A version and its commit's time of writing (ns): a new table starts at 0 again."""


@dataclass
class Versions:
    """The versions of one lake's tables, which remembers the last ones so that a look costs little."""

    lake: Lake
    _known: dict[str, Version] = field(default_factory=dict)

    def now(self) -> dict[str, Version]:
        """The version of every existing table, by name. Raises the errors of the lake's file system."""
        found = {name: version for name in tables() if (version := self._version(name)) is not None}
        self._known = dict(found)
        return found

    def _version(self, name: str) -> Version | None:
        known = self._known.get(name)
        written = None if known is None else self._written(name, known[0])
        if known is None or written != known[1]:  # first seen, or its log was cleaned, or it is a new table
            table = self.lake.find(name)
            return None if table is None else self._at(name, table.version())
        while (following := self._written(name, known[0] + 1)) is not None:
            known = known[0] + 1, following
        return known

    def _at(self, name: str, version: int) -> Version:
        return version, self._written(name, version) or 0

    def _written(self, name: str, version: int) -> int | None:
        """The time of writing of a version's commit, None if the log does not have it."""
        from pyarrow.fs import FileType

        info = self.lake.files(name).get_file_info(commit_path(version))
        return None if info.type != FileType.File else int(info.mtime_ns or 0)
