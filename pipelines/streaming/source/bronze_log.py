"""Bronze as a sequence of files, and the offsets of a query in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.errors import UsageError
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

    from pipelines.streaming.source.time_order import TimeOrder


_NEEDS_ALL = (
    'and source = "delta" reads all commits in their order: set [run] source = "arrow", which reads what is there'
)


class VersionVanishedError(RuntimeError):
    """Raised if the next files to read are gone."""


class UnreadableTableError(RuntimeError):
    """Raised if bronze has a feature of Delta that this source does not read."""


class RemovedRowsError(RuntimeError):
    """Raised if a commit that is not our retention removed rows from bronze."""


@dataclass(frozen=True)
class Offset:
    """All versions before `version` have been read: `events` rows.

    Of the versions from `version` to before `until`, where there is such, the rows with keys up to `key` have been, too
    (see `time_order`). Version `snapshot` stands for all of the table at that time, every later one for what its commit
    added. `closed` counts the files of closing rows that were read (see `drain`). `index`: earlier versions of hwmark
    ended batches inside a commit; so many files of `version` have been read. `file`: the first that the last version
    read added, by which another table is known.
    """

    snapshot: int = -1
    version: int = -1
    index: int = 0
    events: int = 0
    closed: int = 0
    until: int = -1
    key: int = 0
    file: str = field(default="", compare=False)

    def json(self) -> dict[str, Any]:
        fields = asdict(self)
        unsaid = {"closed"} if not self.closed else set()
        unsaid |= {"until", "key"} if self.until < 0 else set()
        unsaid |= {"file"} if not self.file else set()
        return {name: fields[name] for name in fields if name not in unsaid}

    @property
    def after(self) -> int | None:
        """The key up to which the versions before `until` were read; None if none of their rows was."""
        return None if self.until < 0 else self.key


BEGINNING = Offset()
"""The offset before any read: the first batch chooses its snapshot, which every later offset has."""


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
        """`accepted`: versions that may have removed rows, see `removes_rows`; `skipped`: files that are not read;
        `closings`: the number of files of closing rows (see `drain`)."""
        self.uri, self.storage_options, self.accepted = uri, dict(storage_options or {}), frozenset(accepted)
        self.skipped, self._closings = frozenset(skipped), closings
        self._ordered: tuple[tuple[int, ...], TimeOrder] | None = None

    def latest(self) -> int:
        """The newest version."""
        self._table.update_incremental()
        return int(self._table.version())

    def files(self, version: int, snapshot: int) -> list[File]:
        """The files that a version adds to those read before, in reading order."""
        found = self._all(version) if version == snapshot else self._added(version)
        return [self._measured(file) for file in found]

    def _measured(self, file: File) -> File:
        """The file with its number of rows, counted if the log lacks it; a skipped file has none."""
        if file.path in self.skipped:
            return replace(file, size=0, rows=0)
        return file if file.rows >= 0 else replace(file, rows=self._counted(file))

    def _counted(self, file: File) -> int:
        try:
            return count_rows(self.opened(file.path))
        except (OSError, ValueError):  # the reader of its rows reports the damage
            return 0

    def advance(self, start: Offset, last: int, max_bytes: int, max_rows: int) -> Offset:
        """The end of a batch that begins at `start`: at most the end of version `last`, or a time by the limits.

        Versions that a batch has begun are read to their end before later ones.
        """
        if self.is_another(start, last):
            raise RemovedRowsError(
                f"{self.uri} is at version {last}, and its version {start.version - 1} is not the one that the job has "
                "read: an older copy was restored, and what is written to it now would be passed over; start silver "
                "anew with `hwmark run --rebuild`"
            )
        snapshot = start.snapshot if start.snapshot >= 0 else last
        version = start.version if start.snapshot >= 0 else last
        until = start.until if start.until >= 0 else max(version, last + 1)
        began = replace(start, snapshot=snapshot, version=version, until=until)
        end = Offset(snapshot, until, closed=self._closed(start), file=self._first_file(until - 1))
        if start.until < 0 and self._fit(files := self._files(began), max_bytes, max_rows):
            return replace(end, events=start.events + sum(f.rows for f in files))
        order = self._order(began)
        key = order.batch_end(start.after, max_bytes, max_rows)
        events = start.events + order.rows(start.after, key)
        if key is None:
            return replace(end, events=events)
        return replace(began, key=key, events=events)

    def is_another(self, read: Offset, last: int) -> bool:
        """Whether this is another table than was read: an older copy that was restored and may have grown since."""
        if read.snapshot < 0 or last < read.version - 1:
            return read.snapshot >= 0
        return bool(read.file) and self._first_file(read.version - 1) not in ("", read.file)

    def _first_file(self, version: int) -> str:
        """The first file that a version names; empty if it names none, or is no longer in the log."""
        try:
            return next((str(a[k]["path"]) for a in self._commit(version) for k in ("add", "remove") if k in a), "")
        except VersionVanishedError:
            return ""

    @staticmethod
    def _fit(files: Collection[File], max_bytes: int, max_rows: int) -> bool:
        return sum(file.size for file in files) <= max_bytes and sum(file.rows for file in files) <= max_rows

    def _closed(self, start: Offset) -> int:
        """The number of files of closing rows that are read after the versions that a batch has begun."""
        return max(self._closings, start.closed)

    def between(self, start: Offset, end: Offset) -> list[File]:
        """The files of a batch, or parts of them; closing rows last."""
        closing = [File(closing_path(number), 0, 0) for number in range(start.closed, end.closed)]
        version = start.version if start.snapshot >= 0 else end.snapshot
        until = end.until if end.until >= 0 else end.version
        began = replace(start, snapshot=end.snapshot, version=version, until=until)
        if start.after is None and end.after is None:
            files = self._files(began)
            if end.index:  # the end of a batch that an earlier version planned
                first = start.index if version == end.version else 0
                files += self.files(end.version, end.snapshot)[first : end.index]
            return [file for file in files if file.path not in self.skipped] + closing
        return self._order(began).files(start.after, end.after) + closing

    def _files(self, began: Offset) -> list[File]:
        """The files to read of the versions of `began`."""
        return [file for file in self._every_file(began) if file.path not in self.skipped]

    def _every_file(self, began: Offset) -> list[File]:
        return [
            file
            for version in range(began.version, began.until)
            for file in self.files(version, began.snapshot)[began.index if version == began.version else 0 :]
        ]

    def _order(self, began: Offset) -> TimeOrder:
        """The rows of the versions of `began` in the order of time; kept until other versions are requested."""
        from pipelines.streaming.source.time_order import TimeOrder

        asked = began.snapshot, began.version, began.index, began.until
        if self._ordered is None or self._ordered[0] != asked:
            self._ordered = asked, TimeOrder(self, self._every_file(began))
        return self._ordered[1]

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
        """Open a file of the table, or of the lake if its path begins with OURS. Raises FileNotFoundError."""
        if not path.startswith(OURS):
            return self.folder.open_input_file(path)
        lake = self.uri.removesuffix(replication_events.TABLE.path).rstrip("/")
        return file_system(lake, self.storage_options).open_input_file(path)

    def _all(self, version: int) -> list[File]:
        """Every file of the table as of a version, in the order of their first times."""
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
        """The files that one commit added."""
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
        """Raise RemovedRowsError for a commit that removes rows and is not accepted, or has added new ones.

        For the source of delta-spark, which reads nothing of such a commit.
        """
        for version in range(first, last + 1):
            commit = self._commit(version)
            self._require_accepted(commit, version)
            if rewrites(commit):
                raise RemovedRowsError(
                    f"version {version} of {self.uri} replaced rows ({operation(commit)}), and delta-spark reads "
                    'nothing of such a commit: set [run] source = "arrow" and start with `hwmark run --rebuild`'
                )

    def require_every_commit(self) -> None:
        """Raise UsageError if a commit, or a file of one, is gone; for a new query with delta-spark's source."""
        try:
            added_files = [
                file.path for version in range(self.latest() + 1) for file in added(self._commit(version), True)
            ]
        except VersionVanishedError as gone:
            raise UsageError(f"the log of {self.uri} has lost commits, {_NEEDS_ALL}") from gone
        found = self.folder.get_file_info(added_files)
        if missing := [path for path, file in zip(added_files, found, strict=True) if not file.is_file]:
            raise UsageError(f"file {missing[0]} of {self.uri} is gone, {_NEEDS_ALL}")

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
        """The error for a data file that was removed before it was read."""
        return VersionVanishedError(
            f"file {path} of {self.uri} is gone, and the job had not read it: bring it back, go on without its rows, "
            f"which leaves a gap, with `hwmark run --skip-file '{path}'`, or read what bronze still has from the start "
            "with `hwmark run --rebuild`"
        )


def _texts(column: Any) -> list[str | None]:
    """The values of a column as text, in the form of partition values in the log."""
    return [None if value is None else str(value) for value in column.to_pylist()]


def last_version_read(offset: Mapping[str, Any]) -> int:
    """The last version of bronze that an offset has read completely; the delta source has its own format."""
    # Delta's index -1 is before the first file of its version; any other is inside it.
    return int(offset["reservoirVersion"] if "reservoirVersion" in offset else offset["version"]) - 1


def versions_of(start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> range | None:
    """The versions after a snapshot that a batch of the delta source has read in part; None for our source."""
    if "reservoirVersion" not in end:
        return None
    if start is None:
        first = end["reservoirVersion"] + 1 if end["isStartingVersion"] else 0
    else:
        first = start["reservoirVersion"] + start["isStartingVersion"]
    return range(int(first), last_version_read(end) + (2 if end["index"] >= 0 else 1))
