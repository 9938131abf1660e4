"""What bronze holds and gets, file by file, and how far a query has read it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from generators.files import file_system
from pipelines.delta_log import actions

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem


MARK, RETENTION = "hwmark", "retention"
"""How a commit of ours that ages rows says so in its commitInfo."""


class VersionVanishedError(RuntimeError):
    """What the query is to read next is not there any more."""


class UnreadableTableError(RuntimeError):
    """Bronze has a feature of Delta that this source does not read."""


class RemovedRowsError(RuntimeError):
    """A commit took rows out of bronze that was not our own retention."""


@dataclass(frozen=True)
class File:
    """A data file by its path below the table's folder.

    `clusters` are the least and the largest name in it, where its statistics have them; `committed_ms` is when it
    came into the table, on the wall clock of who committed it.
    """

    path: str
    size: int
    rows: int
    clusters: tuple[str | None, str | None] = (None, None)
    committed_ms: int = 0


@dataclass(frozen=True)
class Offset:
    """All versions before `version` have been read, and the first `index` files of that one: `events` rows.

    Version `snapshot` stands for all of the table at that time, every later one for what its commit added.
    """

    snapshot: int = -1
    version: int = -1
    index: int = 0
    events: int = 0

    def json(self) -> dict[str, int]:
        return asdict(self)

    @property
    def place(self) -> tuple[int, int]:
        return self.version, self.index


BEGINNING = Offset()
"""Nothing read: the first batch chooses its snapshot, and every end says which it was."""


class BronzeLog:
    """The files of a table by version."""

    def __init__(
        self, uri: str, storage_options: Mapping[str, str] | None = None, accepted: Collection[int] = ()
    ) -> None:
        """`accepted`: versions that may have taken rows out, see `removes_rows`."""
        self.uri, self.storage_options, self.accepted = uri, dict(storage_options or {}), frozenset(accepted)

    def latest(self) -> int:
        """The newest version."""
        self._table.update_incremental()
        return int(self._table.version())

    def files(self, version: int, snapshot: int) -> list[File]:
        """What a version adds to what was read before it, in the order in which it is read."""
        return self._all(version) if version == snapshot else self._added(version)

    def walk(self, start: Offset, last: int) -> Iterator[tuple[File, Offset]]:
        """Each file from `start` to the end of version `last`, with the offset behind it."""
        at = start if start.snapshot >= 0 else Offset(last, last)
        events = at.events
        while at.version <= last:
            files = self.files(at.version, at.snapshot)
            for index in range(at.index, len(files)):
                events += files[index].rows
                done = index + 1 == len(files)
                place = (at.version + 1, 0) if done else (at.version, index + 1)
                yield files[index], Offset(at.snapshot, *place, events)
            at = Offset(at.snapshot, at.version + 1, 0, events)

    def advance(self, start: Offset, last: int, max_bytes: int, max_rows: int) -> Offset:
        """How far one batch from `start` goes: at most to the end of `last`, by the limits, by one file at least."""
        at, size, rows = start, 0, 0
        for file, behind in self.walk(start, last):
            size, rows = size + file.size, rows + file.rows
            if at != start and (size > max_bytes or rows > max_rows):
                return at
            at = behind
        snapshot = at.snapshot if at.snapshot >= 0 else last
        return Offset(snapshot, last + 1, 0, at.events) if at.version <= last else at

    def between(self, start: Offset, end: Offset) -> list[File]:
        """The files that a batch reads."""
        if start.place == end.place:
            return []
        start = start if start.snapshot >= 0 else Offset(end.snapshot, end.snapshot)
        last = end.version if end.index else end.version - 1
        return [file for file, behind in self.walk(start, last) if behind.place <= end.place]

    @cached_property
    def _table(self) -> DeltaTable:
        from deltalake import DeltaTable

        table = DeltaTable(self.uri, storage_options=self.storage_options)
        self._require_readable(table.protocol().min_reader_version)
        return table

    @cached_property
    def folder(self) -> FileSystem:
        """The table's folder."""
        return file_system(self.uri, self.storage_options)

    def _all(self, version: int) -> list[File]:
        """Every file of the table as of a version, in the order of the first times in them."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(self.uri, version=version, storage_options=self.storage_options)
        except (DeltaError, FileNotFoundError) as gone:
            raise self._vanished(f"version {version}") from gone
        added = table.get_add_actions(flatten=True)
        known = set(added.schema.names)
        columns = [
            added.column(name).to_pylist() if name in known else [None] * added.num_rows
            for name in (
                "path", "size_bytes", "num_records", "min.ts", "modification_time", "min.cluster", "max.cluster",
            )
        ]  # fmt: skip
        rows = sorted(zip(*columns, strict=True), key=lambda r: (r[3] is not None, r[3], r[4], r[0]))
        return [
            File(unquote(path), size, count or 0, (least, largest), written or 0)
            for path, size, count, _, written, least, largest in rows
        ]

    def _added(self, version: int) -> list[File]:
        """What one commit added."""
        try:
            told = actions(self.folder, version)
        except FileNotFoundError as gone:
            raise self._vanished(f"the log of version {version}") from gone
        for action in told:
            if "protocol" in action:
                self._require_readable(action["protocol"]["minReaderVersion"])
        if removes_rows(told) and version not in self.accepted:
            raise RemovedRowsError(
                f"version {version} of {self.uri} removed rows ({_operation(told)}), which nothing of hwmark did: what "
                "was read of them stays in silver; go on with "
                f"`hwmark run --accept-removal {version}`, or start silver anew with `hwmark run --rebuild`"
            )
        return added(told, accepted=version in self.accepted)

    def _require_readable(self, reader: int) -> None:
        if reader > 1:
            raise UnreadableTableError(
                f"{self.uri} asks for Delta reader version {reader}, and the arrow source reads version 1: "
                'rewrite bronze without that feature, or set [run] source = "delta" and start with `run --rebuild`'
            )

    def _vanished(self, what: str) -> VersionVanishedError:
        return VersionVanishedError(
            f"{what} of {self.uri} is gone, and the job had not read it: what bronze still has can be read "
            "from the start with `hwmark run --rebuild`"
        )

    def missing(self, path: str) -> VersionVanishedError:
        """The error of a data file that was removed before it was read."""
        return self._vanished(f"file {path}")


def added(commit: Sequence[Mapping[str, Any]], accepted: bool = False) -> list[File]:
    """What a commit's actions add; one that rewrote files, to compact them or to age rows, added nothing.

    `accepted`: whoever removed rows may have added others; what was read before is a repeat.
    """
    if _removes(commit) and not accepted:
        return []
    at = next((a["commitInfo"].get("timestamp") for a in commit if "commitInfo" in a), None)
    return [_file(a["add"], at) for a in commit if "add" in a and a["add"]["dataChange"]]


def removes_rows(commit: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a commit takes rows out, other than by our retention."""
    return _removes(commit) and not _is_retention(commit)


def _removes(commit: Sequence[Mapping[str, Any]]) -> bool:
    return any(a["remove"].get("dataChange", True) for a in commit if "remove" in a)


def _is_retention(commit: Sequence[Mapping[str, Any]]) -> bool:
    """By its mark, or, of earlier versions, by its only condition."""
    info = _info(commit)
    predicate = str(info.get("operationParameters", {}).get("predicate", ""))
    of_earlier = info.get("operation") == "DELETE" and re.fullmatch(r"ts < (?:(?! AND | OR ).)*", predicate)
    return bool(info.get(MARK) == RETENTION or of_earlier)


def _info(commit: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    found: Iterator[Mapping[str, Any]] = (a["commitInfo"] for a in commit if "commitInfo" in a)
    return next(found, {})


def _operation(commit: Sequence[Mapping[str, Any]]) -> str:
    """What a commit says that it was."""
    info = _info(commit)
    by = info.get("engineInfo") or info.get("clientVersion") or "an engine that does not say its name"
    return f"{info.get('operation', 'an operation that is not named')} by {by}"


def _file(add: Mapping[str, Any], committed_ms: int | None) -> File:
    stats = json.loads(add.get("stats") or "{}")
    least, largest = (stats.get(end, {}).get("cluster") for end in ("minValues", "maxValues"))
    at = int(committed_ms or add.get("modificationTime") or 0)
    return File(unquote(add["path"]), int(add["size"]), int(stats.get("numRecords", 0)), (least, largest), at)


def last_version_read(offset: Mapping[str, Any]) -> int:
    """The last version of bronze that a checkpointed offset has read for good; the delta source has its own words."""
    # Delta's index of -1 stands before the first file of its version, any other inside it.
    return int(offset["reservoirVersion"] if "reservoirVersion" in offset else offset["version"]) - 1
