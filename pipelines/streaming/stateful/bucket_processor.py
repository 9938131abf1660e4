"""One bucket's reconstruction as a stateful operator: packed events in, facts as blobs out, state in one blob."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from pipelines.streaming.spark_internals import BATCH_ID

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pipelines.lake.lake import Lake
    from pipelines.replication import Facts, Reconstructor, Rules
    from pipelines.streaming.source.file_references import BucketRows

# Spark asks a process of its own, at the start of every query, for nothing but the name of the state: what
# reconstruction needs is imported where it is done.
VARIABLE = "bucket"
# Not as text, which the JVM would parse for every task: 5 ms each time.
STATE = StructType([StructField("blob", BinaryType()), StructField("health_at", LongType())])
OUTPUT = StructType([StructField("kind", StringType()), StructField("blob", BinaryType())])


class BucketProcessor(StatefulProcessor):
    """Feeds one bucket's `Reconstructor` with each micro-batch; `health_every`: seconds, 0: every batch."""

    def __init__(
        self,
        rules: Rules,
        keys: Sequence[int],
        health_every: float,
        lake: Lake,
        tasks: int,
        reconstructor: type[Reconstructor] | None = None,
        pending: tuple[int, Rules] | None = None,
        begins_as: str | None = None,
    ) -> None:
        """`pending`: a batch that is played again, and the rules under which its facts were recorded.

        `begins_as`: the id of the query, where its buckets begin with the state of another one.
        """
        self._begins_as = begins_as
        self._rules, self._keys = asdict(rules), list(keys)
        self._pending = None if pending is None else (pending[0], asdict(pending[1]))
        self._health_every = health_every
        self._lake, self._tasks = (lake.root, dict(lake.storage_options)), tasks
        self._reconstructor = reconstructor
        self._rows: BucketRows | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState(VARIABLE, STATE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Rows (kind, blob) of the facts that are now final, and of the bucket's present when it is due."""
        import pandas as pd

        kinds, blobs, at = _gathered(rows)
        # `get` once and never `exists`: each is a round trip to the JVM.
        held = self._state.get()
        with _no_garbage_collected():
            reconstructor = self._restored(key[0], held, _batch_id())
            events, coverage = self._received(self._keys.index(key[0]), kinds, blobs)
            facts = reconstructor.update(events, coverage, _batch_id())
            out = _facts(facts, at)
            health_at = held[1] if held else 0
            if self.is_health_due(at, health_at):
                out |= reconstructor.present()._asdict()
                health_at = at
            self._state.update((reconstructor.snapshot(), health_at))
            handed_on = self._handed_on(out)
        yield pd.DataFrame({"kind": list(handed_on), "blob": list(handed_on.values())})

    def close(self) -> None:
        pass

    def _restored(self, key: int, held: tuple[Any, ...] | None, batch_id: int) -> Reconstructor:
        from pipelines.replication import Reconstructor, Rules

        kind = self._reconstructor or Reconstructor
        again = self._pending is not None and batch_id <= self._pending[0]
        rules = Rules(**(self._pending[1] if again and self._pending else self._rules))
        if held:
            return kind.restore(bytes(held[0]), rules)
        if self._begins_as is not None:
            from pipelines.lake.lake import Lake
            from pipelines.streaming.checkpoint.beginning import first_state

            return kind.restore(first_state(Lake(*self._lake), self._begins_as, self._keys.index(key)), rules)
        return kind(rules, bucket=self._keys.index(key), buckets=len(self._keys))

    def _received(self, bucket: int, kinds: list[str], blobs: list[bytes]) -> tuple[pa.Table, pa.Table]:
        """Events and coverage, which came as they are or as the names of the files that hold them, or both."""
        import pyarrow as pa

        from pipelines.lake.lake import Lake
        from pipelines.streaming.source.blobs import FILES, unpack
        from pipelines.streaming.source.file_references import BucketRows

        if FILES not in kinds:
            return unpack(kinds, blobs)
        if self._rows is None:
            lake = Lake(*self._lake)
            self._rows = BucketRows(lake.uri("replication_events"), lake.storage_options, len(self._keys), self._tasks)
        files = kinds.index(FILES)
        read = self._rows.of(bucket, blobs.pop(files))
        kinds.pop(files)
        if not kinds:
            return read
        events, covered = zip(read, unpack(kinds, blobs), strict=True)
        # A table without rows would cut every column in two.
        filled = [table for table in events if len(table)] or events[:1]
        return pa.concat_tables(filled, promote_options="permissive"), pa.concat_tables(covered)

    def _handed_on(self, facts: dict[str, pa.Table]) -> dict[str, bytes]:
        """A task of one bucket writes its files itself; the facts of several are for the sink to put together."""
        from pipelines.lake.lake import Lake
        from pipelines.streaming.sinks.fact_files import WRITTEN, FactFiles
        from pipelines.streaming.source.blobs import encode

        if len(self._keys) > self._tasks:
            return {kind: encode(table) for kind, table in facts.items()}
        with FactFiles(Lake(*self._lake)) as files:
            for kind, table in facts.items():
                files.add(kind, table)
            return {WRITTEN: files.close().json()}

    def is_health_due(self, batch_us: int, written_us: int) -> bool:
        """Whether a batch's time lies in another interval than that in which the present was written last.

        Not a later one: the wall clock may be set back, or have been ahead. All buckets see the same times.
        """
        every = int(self._health_every * 1e6)
        return not every or batch_us // every != written_us // every


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Histories form no reference cycles (see `partition.codec`), and those of an incident are millions of objects: the
    collector would walk through them again and again, a tenth of the time. What else it has to collect waits."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _gathered(frames: Iterator[pd.DataFrame]) -> tuple[list[str], list[bytes], int]:
    kinds: list[str] = []
    blobs: list[bytes] = []
    at = 0
    for frame in frames:
        kinds += frame["kind"].tolist()
        blobs += frame["blob"].tolist()
        at = int(frame["at"].iloc[0])
    return kinds, blobs, at


def _facts(facts: Facts, at: int) -> dict[str, pa.Table]:
    """The tables with rows; what is set aside gets the batch's wall-clock time, the same when it is replayed."""
    import pyarrow as pa

    from schemas import quarantine

    tables = {name: table for name, table in facts.tables().items() if len(table)}
    if "quarantine" in tables:
        rows = tables["quarantine"]
        when = pa.array(
            [datetime.fromtimestamp(at / 1e6, UTC)] * len(rows), quarantine.ARROW.field("quarantined_at").type
        )
        tables["quarantine"] = rows.set_column(rows.column_names.index("quarantined_at"), "quarantined_at", when)
    return tables


def _batch_id() -> int:
    context = TaskContext.get()
    number = context.getLocalProperty(BATCH_ID) if context else None
    if number is None:
        raise RuntimeError("Spark has not set the number of the micro-batch that this worker works on")
    return int(number)
