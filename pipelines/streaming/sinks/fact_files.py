"""Facts as Parquet files in the folders of their tables, which the sink then commits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from pipelines.lake.data_file import DataFile, Written
from pipelines.lake.lake import Lake, declared
from pipelines.streaming.sinks import gauges
from pipelines.streaming.tables import BROKERS, HEALTH, LAGS

ROW_GROUP = 1 << 18
WRITTEN = "written"
"""The kind of the row with which a task hands over the files that it has written itself."""


@dataclass
class TaskOutput:
    """The output of one task: files, buckets that reported health, and shares of the tables of brokers and replicas."""

    files: list[Written] = field(default_factory=list)
    health: int = 0
    shares: list[gauges.Shares] = field(default_factory=list)

    def add(self, more: TaskOutput) -> None:
        """Add another output of the task."""
        self.files += more.files
        self.health += more.health
        self.shares += more.shares

    def json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, content: bytes) -> TaskOutput:
        """The inverse of `json`."""
        fields = json.loads(content)
        files = [Written(**file) for file in fields["files"]]
        return cls(files, fields["health"], fields["shares"])


class FactFiles:
    """One growing Parquet file per kind with rows; an error in the `with` block removes them."""

    def __init__(self, lake: Lake, row_group: int = ROW_GROUP) -> None:
        self._lake, self._row_group = lake, row_group
        self._output = TaskOutput()
        self._outputs: dict[str, _Output] = {}
        self._parts: dict[str, list[pa.Table]] = {}

    def __enter__(self) -> FactFiles:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error:
            for output in self._outputs.values():
                output.discard()

    def add(self, kind: str, table: pa.Table) -> None:
        """Add rows of one kind from one bucket."""
        if kind in (BROKERS, *LAGS):
            self._parts.setdefault(kind, []).append(table)
            return
        if kind == HEALTH:
            self._output.health += 1
        if len(table):
            if kind not in self._outputs:
                self._outputs[kind] = _Output(self._lake, kind, self._row_group)
            self._outputs[kind].add(table)

    def close(self) -> TaskOutput:
        """Close the files and return their descriptions."""
        self._output.files = [output.close() for output in self._outputs.values()]
        self._output.shares = [gauges.shares(self._parts)] if self._parts else []
        return self._output


class _Output(DataFile):
    """One growing Parquet file of one kind."""

    def __init__(self, lake: Lake, kind: str, row_group: int) -> None:
        super().__init__(lake.files(kind), kind, declared(kind).arrow())
        self._row_group = row_group
        self._waiting: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        """Add rows; buckets have few rows of most kinds, so those of several share a row group."""
        self._waiting.append(table.select(self.schema.names).cast(self.schema))
        if sum(map(len, self._waiting)) >= self._row_group:
            self._flush()

    def close(self) -> Written:
        self._flush()
        return super().close()

    def _flush(self) -> None:
        if self._waiting:
            self.write(pa.concat_tables(self._waiting), 2 * self._row_group)
        self._waiting = []
