"""Bronze as a stream whose rows never enter the JVM: workers read and pack Parquet, and pass on blobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pipelines.streaming.source.bronze_commits import File, Part
from pipelines.streaming.source.bronze_log import BEGINNING, BronzeLog, Offset

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1 says neither where a batch begins nor how much it may read
    LIMITS: tuple[type, ...] = ()
else:
    LIMITS = (SupportsTriggerAvailableNow,)

# Spark starts a planning process for every query: imports for reading are in the functions that read.
FORMAT = "hwmark-bronze"
PACKED_SQL = "key int, kind string, blob binary"
READ_BY_ALL = 4
"""The most tasks that each read a whole batch and keep their own rows: decoding is cheaper than passing rows on."""


@dataclass(frozen=True)
class SourceSettings:
    """The settings of the source: `keys` of the buckets, `tasks` that read at a time.

    `accepted`, `skipped` and `closings` are those of `BronzeLog`; `start`: the offset of the first batch, if it is not
    the beginning; `planned`: that of the last planned batch; `only_planned`: read only batches planned before.
    """

    uri: str
    keys: list[int]
    tasks: int
    max_bytes: int
    max_rows: int
    storage_options: dict[str, str] = field(default_factory=dict)
    accepted: list[int] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    closings: int = 0
    start: dict[str, Any] | None = None
    only_planned: bool = False
    planned: dict[str, Any] | None = None

    def log(self) -> BronzeLog:
        return BronzeLog(self.uri, self.storage_options, self.accepted, self.skipped, self.closings)

    def option(self) -> str:
        return json.dumps(self.__dict__)


class BronzeSource(DataSource):
    """`readStream.format("hwmark-bronze").option("settings", SourceSettings(...).option())`: rows of PACKED."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return PACKED_SQL

    def streamReader(self, schema: StructType) -> BronzeReader:
        return BronzeReader(SourceSettings(**json.loads(self.options["settings"])))


@dataclass
class Named(InputPartition):
    """The files of a batch that every task reads."""

    files: list[Part]

    def __init__(self, files: list[Part]) -> None:
        self.files = files


@dataclass
class Share(InputPartition):
    """The files of one task, each with its row groups (None: all)."""

    files: list[tuple[Part, list[int] | None]]

    def __init__(self, files: list[tuple[Part, list[int] | None]]) -> None:
        self.files = files


class BronzeReader(DataSourceStreamReader, *LIMITS):  # type: ignore[misc]  # its bases are those that Spark has
    """Offsets are those of `BronzeLog`."""

    def __init__(self, settings: SourceSettings) -> None:
        self.settings = settings
        self.log = settings.log()
        self._target: int | None = None
        self._planned = settings.planned or self.initialOffset()

    def initialOffset(self) -> dict[str, Any]:
        return self.settings.start or BEGINNING.json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.log.latest()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self.settings.max_bytes)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        start = self._planned if start is None else start
        if self.settings.only_planned:
            return start
        last = self.log.latest() if self._target is None else self._target
        everything = limit is not None and isinstance(limit, ReadAllAvailable)
        bounds = (sys.maxsize, sys.maxsize) if everything else (self.settings.max_bytes, self.settings.max_rows)
        self._planned = self.log.advance(Offset(**start), last, *bounds).json()
        return self._planned

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        files = self.log.between(Offset(**start), Offset(**end))
        named: list[Part] = []
        passed_on: list[File] = []
        for file in files:
            if self._read_by_all(file):
                named.append(file.part)
            else:
                passed_on.append(file)
        # Every bucket has its own state from the first batch on, even without events: its first state is removed soon.
        first = Offset(**start) == Offset(**self.initialOffset())
        own: list[InputPartition] = [Named(named)] if named or first else []
        return own + (shares(self.log, passed_on, self.settings.tasks) if passed_on else [])

    def _read_by_all(self, file: File) -> bool:
        """Whether each task reads a file itself: if all tasks together decode not many more rows than otherwise."""
        if self.settings.tasks <= READ_BY_ALL:
            return True
        from pipelines.lake.bucket_layout import layout_of
        from pipelines.streaming.source.bronze_file import footer_of

        layout = layout_of(footer_of(self.log, file.part))
        return layout is not None and layout.readers(len(self.settings.keys), self.settings.tasks) <= READ_BY_ALL

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pipelines.streaming.source.blobs import pack_table
        from pipelines.streaming.source.bronze_file import read
        from pipelines.streaming.source.file_references import refer

        if isinstance(partition, Named):
            yield refer(partition.files, self.settings.keys)
            return
        assert isinstance(partition, Share)
        tables = (table for part, groups in partition.files for table in read(self.log, part, groups))
        for events in in_portions(tables):
            yield from pack_table(events, self.settings.keys)


def shares(log: BronzeLog, files: Sequence[File], tasks: int) -> list[Share]:
    """The files spread over the tasks by size; a file that is too large for one task is cut by row groups."""
    fair = max(1, sum(f.size for f in files) // tasks)
    units: list[tuple[int, str, int | None]] = []
    for file in files:
        if file.size <= fair:
            units.append((file.size, file.path, None))
        else:
            units += [(size, file.path, group) for group, size in enumerate(_row_groups(log, file))]
    made: list[dict[str, list[int] | None]] = [{} for _ in range(tasks)]
    load = [0] * tasks
    for size, path, group in sorted(units, key=lambda u: -u[0]):
        least = load.index(min(load))
        load[least] += size
        groups = made[least].setdefault(path, None if group is None else [])
        if groups is not None and group is not None:
            groups.append(group)
    parts = {file.path: file.part for file in files}
    return [Share([(parts[p], g and sorted(g)) for p, g in share.items()]) for share in made if share]


def _row_groups(log: BronzeLog, file: File) -> list[int]:
    """The bytes of each row group."""
    from pipelines.streaming.source.bronze_file import opened

    with opened(log, file.path) as parquet:
        return [parquet.metadata.row_group(k).total_byte_size for k in range(parquet.metadata.num_row_groups)]


def in_portions(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same events, about ROWS_PER_BLOB at a time, with names as dictionaries and without empty columns."""
    import pyarrow as pa

    from pipelines.streaming.source.blobs import ROWS_PER_BLOB

    waiting: list[pa.Table] = []
    for events in tables:
        if waiting and _apart(waiting, events):
            yield pa.concat_tables(waiting, promote_options="default")
            waiting = []
        waiting.append(events)
        if sum(map(len, waiting)) >= ROWS_PER_BLOB:
            yield pa.concat_tables(waiting, promote_options="default")
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting, promote_options="default")


def _apart(waiting: Sequence[pa.Table], events: pa.Table) -> bool:
    """Whether many rows would get columns that are empty for them: see `pipelines.lake.row_groups`."""
    from pipelines.lake.row_groups import WORTH

    return sum(map(len, [*waiting, events])) >= WORTH and events.column_names != waiting[0].column_names
