"""The query's sink: tasks write Parquet from Arrow, and the driver's worker makes one commit per table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pipelines.lake.data_file import Written, write_file
from pipelines.lake.durable_log import sync_files
from pipelines.lake.lake import Lake, declared
from pipelines.lake.roles import verify_role
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.manifest import Manifest, Manifests
from pipelines.streaming.sinks import gauges, gold
from pipelines.streaming.sinks.changes import write_changes
from pipelines.streaming.sinks.fact_files import ROW_GROUP, WRITTEN, FactFiles, TaskOutput
from pipelines.streaming.sinks.unchanged import has_rows
from pipelines.streaming.source.blobs import decode
from pipelines.streaming.source.bronze_log import BronzeLog, versions_of
from pipelines.streaming.tables import BROKERS, CHANGES, HEALTH, KINDS, LAGS, MINUTES, ROLE, WHOLE, at_once, commit

FORMAT = "hwmark"


@dataclass
class TaskFiles(WriterCommitMessage, TaskOutput):
    """The files that one task of the sink hands to the commit."""


@dataclass(frozen=True)
class SinkSettings:
    """The settings of the sink: it runs in its own workers, which get options only."""

    lake: str
    query_id: str
    buckets: int
    overwrite_first: bool = False
    storage_options: dict[str, str] = field(default_factory=dict)
    role_token: str | None = None
    rules: dict[str, object] = field(default_factory=dict)

    def option(self) -> str:
        return json.dumps(self.__dict__)


class LakeSink(DataSource):
    """`writeStream.format("hwmark").option("settings", SinkSettings(...).option())`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeWriter:
        return LakeWriter(SinkSettings(**json.loads(self.options["settings"])))


class LakeWriter(DataSourceStreamArrowWriter):
    """Writes rows (kind, blob) of a micro-batch to the tables of the lake, once."""

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings
        self.lake = Lake(settings.lake, settings.storage_options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Write one Parquet file per kind with rows; files that a task wrote before are handed on."""
        output = TaskFiles()
        with FactFiles(self.lake, ROW_GROUP) as files:
            for kind, blob in _rows(iterator):
                if kind == WRITTEN:
                    output.add(TaskOutput.of(blob.to_pybytes()))
                else:
                    files.add(kind, decode(blob))
            output.add(files.close())
        return output

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make one commit per table with something new; a table that already has the batch stays as it is.

        The commit is recorded first. A batch that is played again commits what is missing of that record; the files of
        its own tasks are then in no table, and `maintain` removes them once they are old.
        """
        verify_role(self.settings.lake, ROLE, self.settings.role_token, self.settings.storage_options)
        tasks = [m for m in messages if isinstance(m, TaskFiles)]
        query_id, first = self.settings.query_id, self.settings.overwrite_first and batchId == 0
        manifests = Manifests(self.lake, query_id)
        planned = manifests.planned(batchId)
        self._require_read(planned)
        complete = sum(task.health for task in tasks) == self.settings.buckets
        files = [file for task in tasks for file in task.files] + (self._gauges(tasks, first) if complete else [])
        unchanged = [
            kind
            for kind in WHOLE
            if complete and not first and has_rows(self.lake, kind, [f for f in files if f.kind == kind])
        ]
        if complete and HEALTH not in unchanged:
            files += write_changes(self.lake, [file for file in files if file.kind == HEALTH], anew=first)
        offsets.sync_checkpoint(self.lake, query_id, batchId)
        kinds = {file.kind for file in files}
        at_once(partial(sync_files, self.lake.uri(k), [f.path for f in files if f.kind == k]) for k in kinds)
        batch = manifests.settle(
            replace(
                planned,
                rules=self.settings.rules,
                files=[file for file in files if file.kind not in unchanged],
                unchanged=unchanged,
                health=complete,
            )
        )
        # Silver's transaction shows its query from the first batch on, even if that has no facts.
        marked = KINDS[:1] if batchId == 0 else ()
        silver = [kind for kind in KINDS if first or kind in marked or batch.of(kind)]
        at_once(partial(commit, self.lake, kind, batch.of(kind), query_id, batchId, anew=first) for kind in silver)
        if first:
            added_to = (*MINUTES, BROKERS, *LAGS, CHANGES)
            at_once(partial(commit, self.lake, kind, [], query_id, batchId - 1, anew=True) for kind in added_to)
        kept = HEALTH in batch.unchanged
        due = (HEALTH, BROKERS, *LAGS, CHANGES) if batch.health else ()
        present = [
            partial(
                commit,
                self.lake,
                kind,
                batch.of(kind),
                query_id,
                batchId,
                overwrite=kind in WHOLE,
                anew=first and kind == HEALTH,
            )
            for kind in due
            if batch.of(kind) or (kind == HEALTH and not kept)
        ]
        at_once([partial(gold.add_minutes, self.lake, batch.of(gold.PARTIALS), query_id, batchId), *present])

    def _gauges(self, tasks: list[TaskFiles], first: bool) -> list[Written]:
        """The files of the tables of brokers and replicas; lags only of clusters that have advanced."""
        before = {} if first else gauges.reconstructed_to(self.lake)
        tables = gauges.merged(share for task in tasks for share in task.shares)
        tables |= {kind: gauges.news(tables[kind], before) for kind in LAGS}
        schemas = {kind: declared(kind).arrow() for kind in tables}
        return [
            write_file(self.lake.files(kind), kind, schemas[kind], [rows])
            for kind, rows in tables.items()
            if rows.num_rows
        ]

    def _require_read(self, planned: Manifest) -> None:
        """Raise an error if delta-spark, which reads bronze then, left out a part of the batch."""
        if (versions := versions_of(planned.start, planned.end)) is not None:
            accepted = offsets.accepted_removals(self.lake)
            log = BronzeLog(self.lake.uri("replication_events"), self.lake.storage_options, accepted)
            log.require_appends(versions.start, versions.stop - 1)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Keep every file: Spark also calls this after a failed commit that some tables already have."""


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Buffer]]:
    for batch in batches:
        for kind, blob in zip(batch["kind"].to_pylist(), batch["blob"], strict=True):
            yield kind, blob.as_buffer()
