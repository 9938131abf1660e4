"""Compaction: many files of a table become few, in which the rows of one partition lie together, ordered by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.lake.bronze import ROWS_OF_A_FILE
from pipelines.lake.bronze import ROWS_OF_A_GROUP as ROWS_OF_A_GROUP_OF_BRONZE
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.lake import Lake, declared
from pipelines.lake.row_groups import row_groups
from pipelines.lake.table import Replaced, replace_files

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

TARGET_BYTES = 128 << 20
"""Files are put together up to so much; one that is as large stays as it is."""
ROWS_OF_A_GROUP = 1 << 17
COMPRESSION = "zstd"
"""Of what lies for months and is written once. Sorted, numbers differ more from row to row: with snappy, which the job
writes for it takes less time, `silver/partition_hw` would grow by a tenth."""
MEMORY = "2GB"
"""What DuckDB may take; beyond that it sorts on disk, in the folder for temporary files."""
ORDER = ("cluster", "topic", "partition")
TIMES = ("ts", "minute", "last_ts", "run_ts", "sent_at")
TIES = ("broker_id", "source_id", "source_epoch", "source_seq")
BRONZE = "replication_events"


@dataclass(frozen=True)
class Compacted:
    """How many files became how many, and their bytes."""

    removed: int = 0
    added: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def __add__(self, more: Compacted) -> Compacted:
        return Compacted(
            self.removed + more.removed,
            self.added + more.added,
            self.bytes_before + more.bytes_before,
            self.bytes_after + more.bytes_after,
        )


def compact(lake: Lake, name: str, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Puts the small files of a table together, one commit for each file that comes out, which changes no row.

    A file that would be larger than those it stands for is not committed. The table has its declared columns in their
    types and no other (`table.is_as_declared`). Raises CommitFailedError where somebody else removed one of the files
    meanwhile.
    """
    table, done = lake.open(name), Compacted()
    # A file of bronze is read in one micro-batch, however many rows it has.
    for files in _bins(table, target_bytes, ROWS_OF_A_FILE if name == BRONZE else None):
        size = sum(file.size for file in files)
        written = _smaller(lake, name, files, size)
        if written is not None:
            replace_files(table, files, written, declared(name).arrow())
            done += Compacted(len(files), 1, size, written.size)
    return done


def order_of(schema: pa.Schema) -> list[str]:
    """The columns by which a table is sorted: its partition, its time, and what tells rows of one time apart."""
    time = next(name for name in (*TIMES, schema.names[0]) if name in schema.names)
    return [name for name in (*ORDER, time, *TIES) if name in schema.names]


def _bins(table: DeltaTable, target_bytes: int, most_rows: int | None) -> Iterator[list[Replaced]]:
    """Files to put together, of one time as far as they can be: they are taken as they were written."""
    present = table.get_add_actions(flatten=True)
    names = ["path", "size_bytes", "modification_time", "num_records"]
    columns = [
        present.column(name).to_pylist() if name in present.schema.names else [0] * present.num_rows for name in names
    ]
    taken: list[Replaced] = []
    size = rows = 0
    for path, bytes_, _, count in sorted(zip(*columns, strict=True), key=lambda file: file[2]):
        if bytes_ >= target_bytes or unquote(path) != path:
            continue
        size, rows = size + bytes_, rows + (count or 0)
        if size > target_bytes or (most_rows is not None and rows > most_rows):
            if len(taken) > 1:
                yield taken
            taken, size, rows = [], bytes_, count or 0
        taken.append(Replaced(path, bytes_))
    if len(taken) > 1:
        yield taken


def _smaller(lake: Lake, name: str, files: Sequence[Replaced], size: int) -> Written | None:
    """One file of all their rows, sorted, or as they lie where that takes less; None where both are larger."""
    folder, schema = lake.files(name), declared(name).arrow()
    for order in (order_of(schema), []):
        with _rows(lake, name, files, order) as portions:
            written = write_file(folder, name, schema, portions, compression=COMPRESSION)
        if written.size <= size:
            return written
        folder.delete_file(written.path)  # no commit was ever offered it
    return None


@contextmanager
def _rows(lake: Lake, name: str, files: Sequence[Replaced], order: Sequence[str]) -> Iterator[Iterator[pa.Table]]:
    """The rows of some files as they are to lie in row groups; a column that an older file lacks is null."""
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = declared(name).arrow()
    parquet = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
    rows = ds.dataset([file.path for file in files], schema, parquet, lake.files(name))
    by = ", ".join(f'"{column}" NULLS FIRST' for column in order)
    size = ROWS_OF_A_GROUP_OF_BRONZE if name == BRONZE else ROWS_OF_A_GROUP
    with (
        TemporaryDirectory(prefix="hwmark-compact-") as scratch,
        duckdb.connect(config={"temp_directory": scratch, "memory_limit": MEMORY}) as connection,
    ):
        connection.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'")
        connection.register("stored", rows)
        reader = connection.sql(f"SELECT * FROM stored {f'ORDER BY {by}' if by else ''}").to_arrow_reader(size)
        portions = _joined((pa.Table.from_batches([batch]).cast(schema) for batch in reader), size)
        # Of bronze the job reads columns that few rows fill from a row group of their own.
        yield (group for rows in portions for group in (row_groups(rows) if name == BRONZE else [rows]))


def _joined(batches: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows, so many at a time or some more."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= size:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
