"""(h) Names, layouts and schemas."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from generators.brokerlogs.tailing.checkpoints import Checkpoints
from pipelines.commands.simulate.sinks import new_writer
from pipelines.lake.lake import Lake
from pipelines.lake.roles import hold
from pipelines.replication import Reconstructor, Rules
from pipelines.replication.events.sharding import assign, owner
from pipelines.replication.facts.tables import Facts
from pipelines.replication.partition.events import TermSummary
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.state import snapshot
from pipelines.replication.state.snapshot import Rest
from pipelines.replication.telemetry.coverage import COVERAGE
from pipelines.streaming import tables
from pipelines.streaming.checkpoint import offsets as checkpoint
from pipelines.streaming.checkpoint.manifest import Manifest
from pipelines.streaming.checkpoint.query import Query
from pipelines.streaming.sinks import fact_files, sink
from pipelines.streaming.source import blobs as packing
from pipelines.streaming.source import bronze_source, closings, skipped
from pipelines.streaming.source.bronze_log import Offset
from pipelines.streaming.stateful.bucket_keys import bucket_keys
from pipelines.streaming.stateful.bucket_processor import OUTPUT, STATE, BucketProcessor
from schemas import replication_events
from tests.golden.canonical import Output, as_json, canonical, framed
from tests.golden.states import state_tables


def constants() -> Iterator[Output]:
    """Names, layouts and schemas that lakes, checkpoints and other processes know."""
    yield from _named()
    yield from _layouts()
    yield from _of_spark()
    names = ["orders", "clicks-v2", "__consumer_offsets", ""]
    rows = [{"cluster": c, "topic": t, "partition": p} for c in ("a", "b") for t in names for p in (-1, 0, 1, 77)]
    schema = pa.schema([replication_events.ARROW.field(name) for name in rows[0]])
    for buckets in (1, 4, 32, 1000):
        given = assign(pa.Table.from_pylist(rows, schema), buckets).tolist()
        owners = [owner(f"broker-{k}/replication.log", buckets) for k in range(9)]
        yield f"buckets/{buckets}", as_json([given, owners, bucket_keys(buckets, 4), bucket_keys(buckets, 7)])


def _named() -> Iterator[Output]:
    with tempfile.TemporaryDirectory() as lake:
        roles = ("ingest:c/broker-1/replication.log", "run", "check", "maintain")
        for role in roles:
            with hold(lake, role):
                pass
        files = sorted(str(file.relative_to(lake)) for file in Path(lake).rglob("*") if file.is_file())
        yield "names/roles", as_json([tables.ROLE, *roles, files])
        writers = [new_writer(lake, "c"), Checkpoints(lake, "c").app_id("broker-1/replication.log")]
        drain = replication_events.DRAIN
        yield "names/app ids", as_json([*writers, drain, drain, skipped.SOURCE, skipped.SKIPPED])
    yield "names/formats", as_json([sink.FORMAT, bronze_source.FORMAT])
    kinds = [packing.EVENTS, packing.COVERAGE, packing.FILES, fact_files.WRITTEN]
    yield "names/kinds", as_json([*kinds, *tables.KINDS, tables.HEALTH, *tables.MINUTES])
    paths = [checkpoint.FOLDER, checkpoint.RECORD, checkpoint.INTERVAL, checkpoint.REMOVALS, skipped.RECORD]
    yield "names/paths", as_json([*paths, closings.OURS, closings.closing_path(3)])
    yield "names/rules", as_json(asdict(Rules()))


def _of_spark() -> Iterator[Output]:
    """What the checkpoint and the options of the query hold."""
    yield "spark/state", as_json([_ddl(STATE), _ddl(OUTPUT), bronze_source.PACKED_SQL])
    asked: list[Any] = []

    class Handle:
        def getValueState(self, name: str, schema: StructType) -> None:
            asked.append([name, _ddl(schema)])

    BucketProcessor(Rules(), [0], 0, Lake("lake", {}), 1).init(Handle())  # type: ignore[arg-type]
    yield "spark/state variables", as_json(asked)
    yield "spark/offsets", as_json([Offset().json(), Offset(1, 2, 3, 4).json(), Offset(1, 2, 3, 4, 5).json()])
    yield "spark/query.json", as_json(asdict(Query("id", 4, 2, asdict(Rules()), False, "arrow")))
    yield "spark/manifest", as_json(asdict(Manifest(1, "id", None, {}, "plan")))
    yield "spark/options of the sink", sink.SinkSettings("lake", "id", 4).option().encode()
    source = bronze_source.SourceSettings("uri", [0, 1], 2, 3, 4)
    yield "spark/options of the source", source.option().encode()


def _ddl(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)


def _layouts() -> Iterator[Output]:
    """The parts of a snapshot and their columns, and what kept structures are made of."""
    blob = Reconstructor().snapshot()
    yield "layouts/snapshot", as_json([blob[:14].hex(), *state_tables(blob)])
    for name, table in state_tables(blob).items():
        yield f"layouts/state/{name}", canonical(table.slice(0, 0))
    kept = [list(zip(of.names, of.defaults, strict=True)) for of in snapshot.RECORDS.values()]
    yield "layouts/defaults", as_json(kept)
    rest = json.loads(state_tables(blob)["rest"]["json"][0].as_py())
    yield "layouts/rest", as_json(rest)
    for name, kind in (("history", PartitionHistory), ("term", TermSummary), ("rest", Rest)):
        yield f"layouts/kept/{name}", as_json(_made_of(msgspec.inspect.type_info(kind), ()))
    yield "layouts/coverage", canonical(COVERAGE.empty_table())
    yield "layouts/facts", framed([canonical(table.slice(0, 0)) for table in Facts.of().tables().values()])


def _made_of(kind: Any, inside: tuple[Any, ...]) -> Any:
    """A type as its bytes know it: the order, types and defaults of fields, and their names where those are written."""
    name = type(kind).__name__.removesuffix("Type").lower()
    if isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
        if kind.cls in inside:
            return ["again", inside[::-1].index(kind.cls)]
        within = (*inside, kind.cls)
        written = not getattr(kind, "array_like", False)
        of = [
            [f.encode_name if written else None, _made_of(f.type, within), f.required, _default(f)] for f in kind.fields
        ]
        return ["object" if written else "array", of]
    parts = [getattr(kind, part) for part in ("item_type", "key_type", "value_type") if hasattr(kind, part)]
    for part in ("types", "item_types"):
        parts += getattr(kind, part, ())
    return [name, *(_made_of(part, inside) for part in parts)]


def _default(field: Any) -> str | None:
    if field.default is not msgspec.NODEFAULT:
        return msgspec.json.encode(field.default).decode()
    return None if field.default_factory is msgspec.NODEFAULT else msgspec.json.encode(field.default_factory()).decode()
