"""The job's way through bronze without Spark: batches as the source plans them, one Reconstructor per bucket."""

import json

import numpy as np
import pyarrow as pa

from pipelines.lake.bronze import bronze
from pipelines.lake.data_file import write_file
from pipelines.lake.file_systems import file_system
from pipelines.lake.lake import Lake
from pipelines.lake.row_groups import row_groups
from pipelines.lake.table import add_files
from pipelines.replication import Facts, Reconstructor, Rules
from pipelines.streaming.source.blobs import pack_table, unpack
from pipelines.streaming.source.bronze_file import read as read_file
from pipelines.streaming.source.bronze_log import BEGINNING, BronzeLog
from pipelines.streaming.source.bronze_source import in_portions, shares
from pipelines.streaming.source.file_references import BucketRows
from schemas import replication_events

ANY_BYTES = 1 << 62


def commit(lake, files):
    """One commit of bronze with so many files as there are tables."""
    table = bronze(str(lake))
    folder = file_system(Lake(str(lake)).uri(replication_events.TABLE))
    rows = (events.cast(replication_events.ARROW).combine_chunks() for events in files if len(events))
    written = [write_file(folder, "replication_events", events.schema, row_groups(events)) for events in rows]
    add_files(table, written, {f"test/{table.version()}": 0})


class PlannedJob:
    """Reads a lake batch by batch; each batch restores every bucket from its state, with a fresh reader of bronze.

    `passed_on`: rows are packed by the tasks that read them, as above four tasks, and not read by those that need them.
    """

    def __init__(self, lake, max_rows, buckets=2, rules=None, passed_on=False):
        self.uri = Lake(str(lake)).uri(replication_events.TABLE)
        self.max_rows, self.passed_on, self.rules = max_rows, passed_on, rules or Rules()
        self.keys, self.facts, self.offsets = list(range(buckets)), [], [BEGINNING]
        self.blobs = [Reconstructor(self.rules, bucket=k, buckets=buckets).snapshot() for k in self.keys]

    def run(self, batches=1 << 62):
        """Goes on until nothing is unread, or for so many batches."""
        while batches > 0:
            start, log = self.offsets[-1], BronzeLog(self.uri)
            end = log.advance(start, log.latest(), ANY_BYTES, self.max_rows)
            if end == start:
                return self
            again = BronzeLog(self.uri)
            assert (
                again.advance(start, end.until - 1 if end.until >= 0 else end.version - 1, ANY_BYTES, self.max_rows)
                == end
            )
            self._take(again, again.between(start, end))
            self.offsets.append(end)
            batches -= 1
        return self

    def closed(self):
        """All facts, once everything that was read is final."""
        last = [Reconstructor.restore(blob, self.rules).finish() for blob in self.blobs]
        return Facts.concat([*self.facts, *last])

    def _take(self, log, files):
        received = self._passed_on(log, files) if self.passed_on else self._read_by_bucket(files)
        for key, (events, covered) in zip(self.keys, received, strict=True):
            reconstructor = Reconstructor.restore(self.blobs[key], self.rules)
            self.facts.append(reconstructor.update(events, covered, len(self.offsets)))
            self.blobs[key] = reconstructor.snapshot()

    def _read_by_bucket(self, files):
        names = json.dumps([file.part for file in files]).encode()
        tasks = [BucketRows(self.uri, {}, len(self.keys), 2) for _ in range(2)]
        return [tasks[key % 2].of(key, names) for key in self.keys]

    def _passed_on(self, log, files):
        tables = (
            events
            for share in shares(log, files, 2)
            for events in in_portions(rows for part, groups in share.files for rows in read_file(log, part, groups))
        )
        packed = pa.Table.from_batches([b for events in tables if len(events) for b in pack_table(events, self.keys)])
        for key in self.keys:
            rows = packed.filter(pa.array(np.asarray(packed["key"]) == key))
            yield unpack(rows["kind"].to_pylist(), rows["blob"].to_pylist())
