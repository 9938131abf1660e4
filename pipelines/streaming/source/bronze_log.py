"""What bronze holds and gets, file by file, and how far a query has read it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.lake.delta_log import Actions, actions, count_rows
from pipelines.lake.file_systems import file_system
from pipelines.lake.table import open_table
from pipelines.streaming.source.bronze_commits import File, added, operation, removes_rows, rewrites, with_clusters
from pipelines.streaming.source.closings import OURS, closing_path
from pipelines.streaming.source.suitable import require_suitable
from schemas import replication_events

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem


class VersionVanishedError(RuntimeError):
    """What the query is to read next is not there any more."""


class UnreadableTableError(RuntimeError):
    """Bronze has a feature of Delta that this source does not read."""


class RemovedRowsError(RuntimeError):
    """A commit took rows out of bronze that was not our own retention."""


@dataclass(frozen=True)
class Offset:
    """All versions before `version` have been read, and the first `index` files of that one: `events` rows.

    Version `snapshot` stands for all of the table at that time, every later one for what its commit added. `closed`
    counts the files of closing rows that were read (see `drain`).
    """

    snapshot: int = -1
    version: int = -1
    index: int = 0
    events: int = 0
    closed: int = 0

    def json(self) -> dict[str, int]:
        fields = asdict(self)
        return fields if self.closed else {name: fields[name] for name in fields if name != "closed"}

    @property
    def place(self) -> tuple[int, int]:
        return self.version, self.index


BEGINNING = Offset()
"""Nothing read: the first batch chooses its snapshot, and every end says which it was."""


class BronzeLog:
    """The files of a table by version."""

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        accepted: Collection[int] = (),
        skipped: Collection[str] = (),
        closings: int = 0,
    ) -> None:
        """`accepted`: versions that may have taken rows out, see `removes_rows`; `skipped`: files that are not read;
        `closings`: how many files of closing rows there are (see `drain`)."""
        self.uri, self.storage_options, self.accepted = uri, dict(storage_options or {}), frozenset(accepted)
        self.skipped, self._closings = frozenset(skipped), closings

    def latest(self) -> int:
        """The newest version."""
        self._table.update_incremental()
        return int(self._table.version())

    def files(self, version: int, snapshot: int) -> list[File]:
        """What a version adds to what was read before it, in the order in which it is read."""
        found = self._all(version) if version == snapshot else self._added(version)
        return [self._measured(file) for file in found]

    def _measured(self, file: File) -> File:
        """The file, counted where the log does not say how many rows it has; one that is skipped has none."""
        if file.path in self.skipped:
            return replace(file, size=0, rows=0)
        return file if file.rows >= 0 else replace(file, rows=self._counted(file))

    def _counted(self, file: File) -> int:
        try:
            return count_rows(self.opened(file.path))
        except (OSError, ValueError):  # whoever reads its rows says what is wrong with it
            return 0

    def walk(self, start: Offset, last: int) -> Iterator[tuple[File, Offset]]:
        """Each file from `start` to the end of version `last`, with the offset behind it."""
        at = start if start.snapshot >= 0 else Offset(last, last, closed=start.closed)
        events = at.events
        while at.version <= last:
            files = self.files(at.version, at.snapshot)
            for index in range(at.index, len(files)):
                events += files[index].rows
                done = index + 1 == len(files)
                place = (at.version + 1, 0) if done else (at.version, index + 1)
                yield files[index], Offset(at.snapshot, *place, events, at.closed)
            at = Offset(at.snapshot, at.version + 1, 0, events, at.closed)

    def advance(self, start: Offset, last: int, max_bytes: int, max_rows: int) -> Offset:
        """How far one batch from `start` goes: at most to the end of `last`, by the limits, by one file at least."""
        at, size, rows = start, 0, 0
        for file, behind in self.walk(start, last):
            size, rows = size + file.size, rows + file.rows
            if at != start and (size > max_bytes or rows > max_rows):
                return at
            at = behind
        snapshot = at.snapshot if at.snapshot >= 0 else last
        if at.version <= last:
            at = Offset(snapshot, last + 1, 0, at.events, at.closed)
        return replace(at, closed=max(self._closings, at.closed))

    def between(self, start: Offset, end: Offset) -> list[File]:
        """The files that a batch reads, closing rows last."""
        closing = [File(closing_path(number), 0, 0) for number in range(start.closed, end.closed)]
        if start.place == end.place:
            return closing
        start = start if start.snapshot >= 0 else Offset(end.snapshot, end.snapshot)
        last = end.version if end.index else end.version - 1
        found = [file for file, behind in self.walk(start, last) if behind.place <= end.place]
        return [file for file in found if file.path not in self.skipped] + closing

    @cached_property
    def _table(self) -> DeltaTable:
        table = open_table(self.uri, self.storage_options)
        require_suitable(self.uri, table.schema(), table.metadata().partition_columns)
        self._require_readable(table.protocol().min_reader_version)
        return table

    @cached_property
    def folder(self) -> FileSystem:
        """The table's folder."""
        return file_system(self.uri, self.storage_options)

    def opened(self, path: str) -> NativeFile:
        """A file to read from, of the table or, where its path begins with OURS, of the lake. Raises
        FileNotFoundError."""
        if not path.startswith(OURS):
            return self.folder.open_input_file(path)
        lake = self.uri.removesuffix(replication_events.TABLE.path).rstrip("/")
        return file_system(lake, self.storage_options).open_input_file(path)

    def _all(self, version: int) -> list[File]:
        """Every file of the table as of a version, in the order of the first times in them."""
        from deltalake.exceptions import DeltaError

        try:
            table = open_table(self.uri, self.storage_options, version)
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
        by = {name.removeprefix("partition."): name for name in added.schema.names if name.startswith("partition.")}
        texts = [_texts(added.column(name)) for name in by.values()]
        columns.append([dict(zip(by, row, strict=True)) for row in zip(*texts, strict=True)] or [{}] * added.num_rows)
        rows = sorted(zip(*columns, strict=True), key=lambda r: (r[3] is not None, r[3], r[4], r[0]))
        return [
            File(
                unquote(path), size, -1 if count is None else int(count), with_clusters(least, largest, of), at or 0,
                tuple(of.items()),
            )
            for path, size, count, _, at, least, largest, of in rows
        ]  # fmt: skip

    def _added(self, version: int) -> list[File]:
        """What one commit added."""
        from deltalake import Schema

        commit = self._commit(version)
        for action in commit:
            if "metaData" in action:
                schema = Schema.from_json(action["metaData"]["schemaString"])
                require_suitable(self.uri, schema, action["metaData"].get("partitionColumns", ()))
            if "protocol" in action:
                self._require_readable(action["protocol"]["minReaderVersion"])
        self._require_accepted(commit, version)
        return added(commit, accepted=version in self.accepted)

    def require_appends(self, first: int, last: int) -> None:
        """For the source of delta-spark, which reads nothing of a commit that removes rows. Raises RemovedRowsError
        where such a one is not accepted, or has added other rows than those it kept."""
        for version in range(first, last + 1):
            commit = self._commit(version)
            self._require_accepted(commit, version)
            if rewrites(commit):
                raise RemovedRowsError(
                    f"version {version} of {self.uri} replaced rows ({operation(commit)}), and delta-spark reads "
                    'nothing of such a commit: set [run] source = "arrow" and start with `hwmark run --rebuild`'
                )

    def _commit(self, version: int) -> Actions:
        try:
            return actions(self.folder, version)
        except FileNotFoundError as gone:
            raise self._vanished(f"the log of version {version}") from gone

    def _require_accepted(self, commit: Actions, version: int) -> None:
        if removes_rows(commit, self.skipped) and version not in self.accepted:
            raise RemovedRowsError(
                f"version {version} of {self.uri} removed rows ({operation(commit)}), which nothing of hwmark did: "
                "what was read of them stays in silver; go on with "
                f"`hwmark run --accept-removal {version}`, or start silver anew with `hwmark run --rebuild`"
            )

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
        return VersionVanishedError(
            f"file {path} of {self.uri} is gone, and the job had not read it: bring it back, go on without its rows, "
            f"which leaves a gap, with `hwmark run --skip-file '{path}'`, or read what bronze still has from the start "
            "with `hwmark run --rebuild`"
        )


def _texts(column: Any) -> list[str | None]:
    """Values of a column as text, as the log writes those of partitions."""
    return [None if value is None else str(value) for value in column.to_pylist()]


def last_version_read(offset: Mapping[str, Any]) -> int:
    """The last version of bronze that a checkpointed offset has read for good; the delta source has its own words."""
    # Delta's index of -1 stands before the first file of its version, any other inside it.
    return int(offset["reservoirVersion"] if "reservoirVersion" in offset else offset["version"]) - 1


def versions_of(start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> range | None:
    """The versions after a snapshot of which a batch of the delta source has read something; None for our source."""
    if "reservoirVersion" not in end:
        return None
    first = end["reservoirVersion"] if start is None else start["reservoirVersion"]
    if (start or end)["isStartingVersion"]:
        first += 1
    return range(int(first), last_version_read(end) + (2 if end["index"] >= 0 else 1))
