"""Facts as Parquet files in the folders of their tables, which are no part of them until the sink commits."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.streaming import gold
from pipelines.streaming.tables import HEALTH, Lake, Written, declared, statistics
from schemas.encoding import DIFFERENCES, counted

ROW_GROUP = 1 << 18
WRITTEN = "written"
"""Among the kinds of facts: what a task tells the sink of files that it has written itself."""


@dataclass
class Told:
    """What one task wrote: its files, first touched minute per cluster (microseconds), buckets that told health."""

    files: list[Written] = field(default_factory=list)
    touched: dict[str, int] = field(default_factory=dict)
    health: int = 0

    def add(self, more: Told) -> None:
        """Takes in what was written besides."""
        self.files += more.files
        self.touched = gold.earliest((self.touched, more.touched))
        self.health += more.health

    def json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, told: bytes) -> Told:
        """The inverse of `json`."""
        fields = json.loads(told)
        return cls([Written(**file) for file in fields["files"]], fields["touched"], fields["health"])


class FactFiles:
    """One growing Parquet file per kind that has rows; inside `with`, an error removes them."""

    def __init__(self, lake: Lake, row_group: int = ROW_GROUP) -> None:
        self._lake, self._row_group = lake, row_group
        self._told = Told()
        self._outputs: dict[str, _Output] = {}

    def __enter__(self) -> FactFiles:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error:
            for output in self._outputs.values():
                output.discard()

    def add(self, kind: str, table: pa.Table) -> None:
        """Rows of one kind from one bucket."""
        if kind == HEALTH:
            self._told.health += 1
        elif kind == "minute_stats":
            gold.touch(self._told.touched, table)
        if len(table):
            if kind not in self._outputs:
                self._outputs[kind] = _Output(self._lake, kind, self._row_group)
            self._outputs[kind].add(table)

    def close(self) -> Told:
        """Ends the files and says what they are."""
        self._told.files = [output.close() for output in self._outputs.values()]
        return self._told


class _Output:
    """One growing Parquet file of one kind."""

    def __init__(self, lake: Lake, kind: str, row_group: int) -> None:
        self.kind, self.path = kind, f"part-{uuid.uuid4()}.snappy.parquet"
        self.schema = declared(kind).arrow()
        self.files = lake.files(kind)
        self._row_group = row_group
        self._stream = self.files.open_output_stream(self.path)
        self._waiting: list[pa.Table] = []
        self._writer = pq.ParquetWriter(
            self._stream, self.schema, compression="snappy", use_dictionary=_repeating(self.schema),
            column_encoding=dict.fromkeys(counted(self.schema), DIFFERENCES),
        )  # fmt: skip

    def add(self, table: pa.Table) -> None:
        """A bucket has few rows of most kinds: those of several become one row group."""
        self._waiting.append(table.select(self.schema.names).cast(self.schema))
        if sum(map(len, self._waiting)) >= self._row_group:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=2 * self._row_group)
        self._waiting = []

    def close(self) -> Written:
        self._write()
        self._writer.close()
        self._stream.close()
        size = self.files.get_file_info(self.path).size
        metadata = self._writer.writer.metadata
        stats = statistics(metadata, self.schema)
        return Written(self.kind, self.path, size, metadata.num_rows, time.time_ns() // 1_000_000, stats)

    def discard(self) -> None:
        self._writer.close()
        self._stream.close()
        self.files.delete_file(self.path)


def _repeating(schema: pa.Schema) -> list[str]:
    """Columns as Parquet names them that are kept as dictionaries."""
    names = [name for name in schema.names if name not in counted(schema)]
    return [path for name in names for path in (name, f"{name}.list.element", f"{name}.key_value.key")]
