"""What must stay byte for byte, computed: `GROUPS` has a function per group that yields (name, bytes).

`python -m tests.golden.outputs --rewrite` writes the digests of all of it to digests.json, `--snapshots` the snapshots
of `begun` to the folder snapshots; nothing else ever writes them. A change that means to give other bytes rewrites the
digests and says why. The snapshots are those of an earlier version: they stay as long as they are to be read.

Tables count by their values: see `canonical`. Left aside are the order in which a lake lists its files (events read
from one are sorted), and of the snapshots of log parsers zlib's output, which differs between machines, and the bytes
between the fields of their arrays, which are whatever was in memory; the layout of the fields counts. What compresses a
Reconstructor's snapshot comes with pyarrow, which requirements.lock pins: those count as they are. No state of the
ingest holds a time, an inode or a path. The runs of runs.json were drawn once, as the tests of the
simulator draw theirs, and are settings of `[simulate]` since.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import tempfile
import threading
import zlib
from base64 import b64decode, b85decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing import session
from generators.brokerlogs.tailing.checkpoints import Checkpoints
from generators.brokerlogs.tailing.coalesce import longest
from generators.recordings import traces
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.fleet.fleet import Fleet
from generators.simulator.scenarios import SCENARIOS
from generators.simulator.telemetry.faults import arrivals, strike
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.compare import rules_of
from generators.simulator.truth.recorder import RestingFetches
from pipelines.commands.simulate import scenario
from pipelines.commands.simulate.plan import Plan, plan
from pipelines.commands.simulate.run import run
from pipelines.commands.simulate.sinks import LogFiles, new_writer
from pipelines.lake.bronze import read_events
from pipelines.lake.lake import Lake
from pipelines.lake.roles import hold
from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.events.sharding import assign, owner
from pipelines.replication.facts.tables import Facts
from pipelines.replication.metadata.layout import APART, ASKED, HEARD, RECORDED
from pipelines.replication.partition.events import TermSummary
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.state.snapshot import Rest
from pipelines.replication.telemetry.coverage import COVERAGE, coverage
from pipelines.replication.telemetry.sources import DRAIN
from pipelines.replication.term.layout import HW_ROWS, LANES, LINES_READ, PARTITIONS, RECENT, REPLICAS, SERIES
from pipelines.settings import Simulate
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
from tests.unit.replication import history_cases as cases

HERE = Path(__file__).parent
DIGESTS, SNAPSHOTS, RUNS = HERE / "digests.json", HERE / "snapshots", HERE / "runs.json"
CUTS = 8
BEGUN_AT = 4
"""After so many of the CUTS the snapshots of the folder were written."""

Output = tuple[str, bytes]


def canonical(table: pa.Table) -> bytes:
    """Names, types and values of a table in the order of its rows, whatever its chunks, buffers and nulls hold."""
    fields = [[field.name, str(field.type), field.nullable] for field in table.schema]
    parts = [json.dumps([fields, table.num_rows]).encode()]
    for column in table.columns:
        parts += _values(column.combine_chunks())
    return _framed(parts)


def _values(array: Any) -> list[bytes]:
    """Which values are null, and the others."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    there = np.packbits(np.asarray(array.is_valid())).tobytes()
    values = array.drop_null()
    if pa.types.is_list(kind):
        return [there, pc.list_value_length(values).to_numpy().tobytes(), *_values(values.flatten())]
    if pa.types.is_map(kind):
        return [there, json.dumps(values.to_pylist()).encode()]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths = pc.binary_length(values).to_numpy().astype(np.int64)
        return [there, lengths.tobytes(), b"".join(values.cast(pa.binary()).to_pylist())]
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    return [there, values.to_numpy(zero_copy_only=False).tobytes()]


def _framed(parts: Sequence[bytes]) -> bytes:
    """Several pieces as one, each with its length."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _of_facts(place: str, facts: Facts) -> Iterator[Output]:
    """The tables that have rows."""
    yield from ((f"{place}/{name}", canonical(table)) for name, table in facts.tables().items() if table.num_rows)


# what is fed


def _kept(events: pa.Table) -> pa.Table:
    """Events as a lake has them, in an order that does not depend on its files."""
    return events.sort_by([(name, "ascending") for name in ("source_id", "source_epoch", "source_seq")])


@cache
def recorded() -> dict[str, pa.Table]:
    """The events of each recorded trace: whole, cut to the levels 2 and 0, and ingested with fetches coalesced."""
    found = {}
    for name in traces.scenarios():
        found[f"{name}/3"] = read_logs([traces.path(name)], name)
        for level, passing in ((2, traces.lean), (0, traces.info)):
            with tempfile.TemporaryDirectory() as folder:
                found[f"{name}/{level}"] = read_logs([traces.cut(name, passing, folder)], name)
        with tempfile.TemporaryDirectory() as lake:
            ingest_logs([traces.path(name)], cluster=name, lake=lake, options=ReadOptions(coalesce_ms=longest(30_000)))
            found[f"{name}/coalesced"] = _kept(read_events(lake))
    return found


class Told(NamedTuple):
    """A simulated run: its telemetry as it arrives, the rules to read it by, and the truth."""

    events: pa.Table
    rules: Rules
    truth: Mapping[str, pa.Table]


class Memory:
    """A sink of `simulate` that keeps the events."""

    summary = ""

    def __init__(self, planned: Plan | None = None) -> None:
        self._planned = planned
        self._pieces: list[pa.Table] = []

    def begin(self, simulation: Simulation, level: int) -> RestingFetches | None:
        second_file = self._planned is not None and self._planned.second_file
        self._telemetry = Telemetry(simulation.settings, level, second_file=second_file)
        simulation.observers.append(self._telemetry)
        self._telemetry.follow(simulation)
        return None

    def flush(self) -> None:
        self._pieces.append(self._telemetry.drain())

    def close(self) -> None:
        self._pieces.append(self._telemetry.close())

    @property
    def events(self) -> pa.Table:
        events = pa.concat_tables(self._pieces)
        if self._planned is None or self._planned.spoil is None:
            return events
        return strike(events, self._planned.spoil, self._planned.settings.seed).events


@cache
def simulated() -> dict[str, Told]:
    """The runs of runs.json."""
    found = {}
    for one in json.loads(RUNS.read_text()):
        planned = plan(Simulate(**one["simulate"]))
        memory = Memory(planned)
        outcome = run(planned, memory, lambda words: None)
        found[one["name"]] = Told(memory.events, rules_of(planned.settings, **one["rules"]), outcome.truth or {})
    return found


# (a) recorded logs, (e) simulators


def logs() -> Iterator[Output]:
    """Events read from the recorded logs."""
    yield from ((place, canonical(events)) for place, events in recorded().items())


def simulator() -> Iterator[Output]:
    """Events and truth of simulated runs, events of a fleet, log files of a simulated cluster."""
    for name, told in simulated().items():
        yield f"{name}/events", canonical(told.events)
        yield f"{name}/truth", _framed([_json([*told.truth]), *map(canonical, told.truth.values())])
    for seed in (1, 2):
        faults = ["5s kill 2 for 4s", "8s rolling-restart for 1s every 4s"] if seed == 2 else []
        section = Simulate(seed=seed, brokers=5, partitions=30, duration=20, fault=faults, clock_skew_ms=1_000)
        planned = plan(section)
        fleet = Fleet(planned.settings, planned.loads, planned.seconds, faults=planned.faults, sample_every=10.0)
        yield f"fleet-{seed}/events", canonical(pa.concat_tables([part.copied() for part in fleet.parts()]))
        truth = fleet.truth.close() if fleet.truth is not None else {}
        yield f"fleet-{seed}/truth", _framed([_json([*truth]), *map(canonical, truth.values())])
    for level in (3, 0):
        section = Simulate(seed=3, duration=15, second_file=True, level=level, fault=["4s kill 1 for 5s"])
        with tempfile.TemporaryDirectory() as folder:
            run(plan(section), LogFiles(Path(folder) / "logs", second_file=True), lambda words: None)
            for file in sorted(Path(folder).rglob("*.*")):
                yield f"log files {level}/{file.relative_to(folder)}", file.read_bytes()


# (b) facts


def facts() -> Iterator[Output]:
    """Every table that comes of recorded and simulated events, read as a whole."""
    for place, events in recorded().items():
        yield from _of_facts(place, replay(events, Rules(replica_hw=True)))
    for name, told in simulated().items():
        yield from _of_facts(name, replay(told.events, told.rules))


def scenarios() -> Iterator[Output]:
    """Every scenario of the simulator: its words, and per cluster its events and what comes of them."""
    for name, chosen in SCENARIOS.items():
        heard: dict[str, Memory] = {}
        told = scenario.play_scenario(chosen, lambda cluster, heard=heard: heard.setdefault(cluster, Memory()), 3)
        yield f"{name}/explained", "\n".join(scenario.explained(told, True)).encode()
        for cluster, memory in heard.items():
            yield f"{name}/{cluster}/events", canonical(memory.events)
            made = replay(memory.events).tables()
            yield f"{name}/{cluster}/facts", _framed([_json([*made]), *map(canonical, made.values())])


# (c) state between micro-batches


class Case(NamedTuple):
    """Events as they arrive, cut into CUTS micro-batches, for so many buckets."""

    batches: list[pa.Table]
    rules: Rules
    buckets: int


@cache
def cut() -> dict[str, Case]:
    """The cases: some rows of each come late, those of the first one do not."""
    found = {}
    first = recorded()["unclean_election/3"]
    found["unclean_election-1"] = Case(_cut(first), Rules(replica_hw=True), 1)
    for place, buckets in (("leader_crash/2", 4), ("slow_follower/0", 1), ("unclean_election/coalesced", 4)):
        found[f"{place.replace('/', '-')}-{buckets}"] = Case(_cut(_late(recorded()[place])), Rules(), buckets)
    for number, buckets in ((1, 1), (8, 4), (11, 32), (17, 1), (23, 4), (35, 1), (42, 32), (46, 4), (54, 1), (59, 1)):
        told = simulated()[f"run-{number:02}"]
        found[f"run-{number:02}-{buckets}"] = Case(_cut(_late(told.events)), told.rules, buckets)
    return found


def _late(events: pa.Table) -> pa.Table:
    usable = events.filter(events["ts"].is_valid())
    return usable.take(pa.array(np.argsort(arrivals(usable, 0.02, 7), kind="stable")))


def _cut(events: pa.Table) -> list[pa.Table]:
    bounds = [len(events) * k // CUTS for k in range(CUTS + 1)]
    return [events.slice(begin, end - begin) for begin, end in pairwise(bounds)]


def _feed(all_of: list[Reconstructor], events: pa.Table, batch_id: int) -> list[Facts]:
    """One micro-batch for the buckets of a job."""
    covered, bucket = coverage(events), assign(events, len(all_of))
    parts = [events.filter(pa.array((bucket == k) | (bucket < 0))) for k in range(len(all_of))]
    return [one.update(part, covered, batch_id) for one, part in zip(all_of, parts, strict=True)]


def snapshots() -> Iterator[Output]:
    """Of each case the snapshots after each cut, the parts of the last one, health, and the facts of both halves."""
    for name, (batches, rules, buckets) in cut().items():
        all_of = [Reconstructor(rules, bucket, buckets) for bucket in range(buckets)]
        halves: tuple[list[Facts], list[Facts]] = [], []
        for k, events in enumerate(batches):
            halves[k >= BEGUN_AT].extend(_feed(all_of, events, k))
            yield f"{name}/after {k + 1}", _framed([one.snapshot() for one in all_of])
        parts = [state_tables(one.snapshot()) for one in all_of]
        for part in parts[0]:
            yield f"{name}/state/{part}", _framed([canonical(of[part]) for of in parts])
        yield f"{name}/health", _framed([canonical(one.health()) for one in all_of])
        halves[1].extend(one.finish(CUTS) for one in all_of)
        yield from _of_facts(f"{name}/first half", Facts.concat(halves[0]))
        yield from _of_facts(f"{name}/second half", Facts.concat(halves[1]))


def state_tables(blob: bytes) -> dict[str, pa.Table]:
    """The tables of a snapshot, read without the code that wrote it."""
    found, at = {}, len(b"hwmark-state") + 2
    while at < len(blob):
        name = blob[at + 1 : at + 1 + blob[at]].decode()
        at += 1 + blob[at]
        size = int.from_bytes(blob[at : at + 8], "little")
        found[name] = pa.ipc.open_stream(blob[at + 8 : at + 8 + size]).read_all()
        at += 8 + size
    return found


BEGUN = ("unclean_election-1", "leader_crash-2-4", "run-08-4", "run-17-1", "run-35-1", "run-46-4", "run-59-1")
"""The cases of which the folder has snapshots."""


def begun() -> Iterator[Output]:
    """Snapshots to be kept: (file below the folder, bytes)."""
    for name in BEGUN:
        batches, rules, buckets = cut()[name]
        all_of = [Reconstructor(rules, bucket, buckets) for bucket in range(buckets)]
        for k, events in enumerate(batches[:BEGUN_AT]):
            _feed(all_of, events, k)
        yield from ((f"{name}.{bucket}.xz", lzma.compress(one.snapshot())) for bucket, one in enumerate(all_of))


def continued() -> Iterator[Output]:
    """Facts of the second half of cases that go on from the snapshots of the folder, and the state at their end."""
    for name in BEGUN:
        batches, _, buckets = cut()[name]
        blobs = [lzma.decompress((SNAPSHOTS / f"{name}.{bucket}.xz").read_bytes()) for bucket in range(buckets)]
        all_of = [Reconstructor.restore(blob) for blob in blobs]
        yield f"{name}/restored", _framed([one.snapshot() for one in all_of])
        told = [f for k, events in enumerate(batches[BEGUN_AT:], BEGUN_AT) for f in _feed(all_of, events, k)]
        yield f"{name}/end", _framed([one.snapshot() for one in all_of])
        yield f"{name}/health", _framed([canonical(one.health()) for one in all_of])
        yield from _of_facts(f"{name}/second half", Facts.concat([*told, *(one.finish(CUTS) for one in all_of)]))


# (d) histories


def histories() -> Iterator[Output]:
    """The bytes of histories: of short stories midway and decided, and of every case as it has come to its end."""
    for name, (notes, around) in _stories().items():
        history = PartitionHistory("c", "clicks", 0)
        for k, note in enumerate(notes):
            history.settle(note.ts, around)
            history.apply(note, around)
            yield f"{name}/after {k + 1}", history.to_bytes()
        history.settle(1 << 61, around)
        yield f"{name}/decided", history.to_bytes()
        yield f"{name}/read", PartitionHistory.from_bytes(history.to_bytes()).to_bytes()
    for name, (batches, rules, _) in cut().items():
        one = Reconstructor(rules)
        for k, events in enumerate(batches):
            one.update(events, batch_id=k)
        table = state_tables(one.snapshot())["histories"].sort_by("partition")
        yield f"{name}/histories", canonical(table)


def _stories() -> dict[str, tuple[list[Any], cases.FakeLookup]]:
    lead, follow, isr, cut_to = cases.leader, cases.follower, cases.isr, cases.truncate
    failover = [lead(0, 1, 0, 0, 0, (1, 2)), follow(10, 2, 0, 0, 0, 1), lead(5000, 2, 1, 100, 100, (2,))]
    whole = [*failover, follow(5010, 1, 1, 110, 100, 2)]
    fetched = cases.summary(100, fetchers=frozenset({2, 3}))
    terms = cases.FakeLookup({(1, 0): fetched, (2, 5000): cases.summary(500)})
    shrink = [cases.proposed(900, 1, (1,)), isr(1000, 1, (1,), 1), isr(1005, 9, (1,), 1, "controller")]
    expand = [cases.proposed(4000, 1, (1, 2), "expand"), isr(4100, 1, (1, 2), 2, "alter_partition")]
    fenced = cases.FakeLookup(states={2: [(500, "fenced", 7), (3000, "unfenced", 8)]}, starts={2: [2500]}, least=2)
    unclean = [cases.election(4900, 2, 1, isr=(2,), replicas=(1, 2), unclean=True, partition_epoch=4)]
    anew = lead(8000, 1, 0, 0, 0, (1, 2), topic_id=cases.T2)
    return {
        "a cut above the HW": ([*whole, cut_to(6000, 1, 100)], terms),
        "a cut below the HW": ([*whole, cut_to(6000, 1, 60, before=110)], terms),
        "a replica leaves and comes back": ([failover[0], *shrink, *expand], fenced),
        "an unclean election": ([failover[0], *unclean, *failover[2:], follow(5010, 1, 1, 110, 100, 2)], terms),
        "a topic made anew": ([*whole, anew], terms),
        "a leader that goes on lower": ([failover[0], lead(5000, 1, 0, 40, 30, (1, 2)), cut_to(5500, 2, 40)], terms),
    }


# (f) readers of logs


def parsers() -> Iterator[Output]:
    """Parsers of single logs cut anywhere: what they keep (inflated), and their events."""
    for name in ("unclean_election", "leader_crash"):
        for log in sorted(traces.path(name).rglob("*.gz")):
            if log.stat().st_size > 100_000:
                continue
            source = str(log.relative_to(traces.path(name))).removesuffix(".gz")
            dumped = source.startswith("metadata")
            parser = SourceParser(name, source, broker_id=METADATA_LOG if dumped else None)
            data = _inflated(log)
            bounds = [len(data) * k // 5 for k in range(6)]
            told = []
            for k in range(5):
                told.append(parser.feed(data[bounds[k] : bounds[k + 1]]))
                snapshot = parser.snapshot()
                yield f"{name}/{source}/after {k + 1}", _parser(snapshot)
                parser = SourceParser.restore(snapshot)
            told.append(parser.feed(b"", last=True))
            yield f"{name}/{source}/events", canonical(pa.concat_tables(told))


def _inflated(file: Path) -> bytes:
    return zlib.decompress(file.read_bytes(), 31)


class _Stop:
    """Stops an ingest after so many rounds."""

    def __init__(self, rounds: int) -> None:
        self.event, self._left = threading.Event(), rounds

    def round_done(self, words: str) -> None:
        self._left -= 1
        if not self._left:
            self.event.set()


def ingests() -> Iterator[Output]:
    """What an ingest writes down where it reads small pieces and is stopped midway, and then, at once, to the end."""
    small = {"CHUNK": 30_000, "ROUND_BYTES": 1, "PERIOD_S": 1e9}
    for name in ("unclean_election", "slow_follower"):
        with tempfile.TemporaryDirectory() as lake:
            for step in ("stopped", "stopped again", "at the end"):
                stop = _Stop(0 if step == "at the end" else 3)
                with ExitStack() as patches:
                    for key, value in small.items() if step != "at the end" else ():
                        patches.enter_context(patch.object(session, key, value))
                    ingest_logs(
                        [traces.path(name)], cluster=name, lake=lake, stop=stop.event, on_progress=stop.round_done
                    )
                for file in sorted((Path(lake) / "_ingest").rglob("*.json")):
                    yield f"{name}/{step}/{file.relative_to(lake)}", _state(file.read_bytes())
                yield f"{name}/{step}/events", canonical(_kept(read_events(lake)))


def _state(written: bytes) -> bytes:
    """The state of a source with its parser as `_parser` gives it."""
    state = json.loads(written)
    state["parser"] = _parser(b64decode(state["parser"])).decode()
    return json.dumps(state, separators=(",", ":")).encode()


def _parser(snapshot: bytes) -> bytes:
    """The snapshot of a parser, inflated, its arrays field by field."""
    return _json(_without_padding(json.loads(zlib.decompress(snapshot))))


def _without_padding(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    if held.keys() != {"type", "bytes"}:
        return {name: _without_padding(value) for name, value in held.items()}
    kind, data = held["type"], b85decode(held["bytes"])
    if isinstance(kind, str):
        return [kind, data.hex()]
    names, formats, offsets = zip(*kind["fields"], strict=True)
    layout = {"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": kind["size"]}
    return [kind, np.frombuffer(data, np.dtype(layout)).tolist()]


# (h) names and layouts


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
        yield f"buckets/{buckets}", _json([given, owners, bucket_keys(buckets, 4), bucket_keys(buckets, 7)])


def _named() -> Iterator[Output]:
    with tempfile.TemporaryDirectory() as lake:
        roles = ("ingest:c/broker-1/replication.log", "run", "check", "maintain")
        for role in roles:
            with hold(lake, role):
                pass
        files = sorted(str(file.relative_to(lake)) for file in Path(lake).rglob("*") if file.is_file())
        yield "names/roles", _json([tables.ROLE, *roles, files])
        writers = [new_writer(lake, "c"), Checkpoints(lake, "c").app_id("broker-1/replication.log")]
        yield "names/app ids", _json([*writers, DRAIN, replication_events.DRAIN, skipped.SOURCE, skipped.SKIPPED])
    yield "names/formats", _json([sink.FORMAT, bronze_source.FORMAT])
    kinds = [packing.EVENTS, packing.COVERAGE, packing.FILES, fact_files.WRITTEN]
    yield "names/kinds", _json([*kinds, *tables.KINDS, tables.HEALTH, *tables.MINUTES])
    paths = [checkpoint.FOLDER, checkpoint.RECORD, checkpoint.INTERVAL, checkpoint.REMOVALS, skipped.RECORD]
    yield "names/paths", _json([*paths, closings.OURS, closings.closing_path(3)])
    yield "names/rules", _json(asdict(Rules()))


def _of_spark() -> Iterator[Output]:
    """What the checkpoint and the options of the query hold."""
    yield "spark/state", _json([STATE, OUTPUT, bronze_source.PACKED_SQL])
    asked: list[Any] = []

    class Handle:
        def getValueState(self, *of: Any) -> None:
            asked.append(of)

    BucketProcessor(Rules(), [0], 0, Lake("lake", {}), 1).init(Handle())  # type: ignore[arg-type]
    yield "spark/state variables", _json(asked)
    yield "spark/offsets", _json([Offset().json(), Offset(1, 2, 3, 4).json(), Offset(1, 2, 3, 4, 5).json()])
    yield "spark/query.json", _json(asdict(Query("id", 4, 2, asdict(Rules()), False, "arrow")))
    yield "spark/manifest", _json(asdict(Manifest(1, "id", None, {}, "plan")))
    yield "spark/options of the sink", sink.SinkSettings("lake", "id", 4).option().encode()
    source = bronze_source.SourceSettings("uri", [0, 1], 2, 3, 4)
    yield "spark/options of the source", source.option().encode()


def _layouts() -> Iterator[Output]:
    """The parts of a snapshot and their columns, and what kept structures are made of."""
    blob = Reconstructor().snapshot()
    yield "layouts/snapshot", _json([blob[:14].hex(), *state_tables(blob)])
    for name, table in state_tables(blob).items():
        yield f"layouts/state/{name}", canonical(table.slice(0, 0))
    kept = (SERIES, PARTITIONS, LANES, REPLICAS, HW_ROWS, RECENT, RECORDED, HEARD, ASKED, APART, LINES_READ)
    yield "layouts/defaults", _json([list(zip(of.names, of.defaults, strict=True)) for of in kept])
    rest = json.loads(state_tables(blob)["rest"]["json"][0].as_py())
    yield "layouts/rest", _json(rest)
    for name, kind in (("history", PartitionHistory), ("term", TermSummary), ("rest", Rest)):
        yield f"layouts/kept/{name}", _json(_made_of(msgspec.inspect.type_info(kind), ()))
    yield "layouts/coverage", canonical(COVERAGE.empty_table())
    yield "layouts/facts", _framed([canonical(table.slice(0, 0)) for table in Facts.of().tables().values()])


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


GROUPS: dict[str, Callable[[], Iterator[Output]]] = {
    "logs": logs,
    "simulator": simulator,
    "facts": facts,
    "scenarios": scenarios,
    "snapshots": snapshots,
    "continued": continued,
    "histories": histories,
    "parsers": parsers,
    "ingests": ingests,
    "constants": constants,
}


def digests(group: str) -> dict[str, str]:
    """The digests of a group, by the name of the group and that of the output. Raises ValueError for a name twice."""
    found: dict[str, str] = {}
    for name, content in GROUPS[group]():
        if (place := f"{group}/{name}") in found:
            raise ValueError(f"two outputs are named {place}")
        found[place] = hashlib.sha256(content).hexdigest()
    return found


def main(words: Sequence[str]) -> int:
    """Rewrites what it is asked to."""
    if not words or not {*words} <= {"--rewrite", "--snapshots"}:
        print("usage: python -m tests.golden.outputs [--snapshots] [--rewrite]", file=sys.stderr)
        return 2
    if "--snapshots" in words:
        SNAPSHOTS.mkdir(exist_ok=True)
        for name, content in begun():
            (SNAPSHOTS / name).write_bytes(content)
    if "--rewrite" in words:
        found = {name: digest for group in GROUPS for name, digest in digests(group).items()}
        DIGESTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    from pipelines.setup import share_compiled_kernels

    share_compiled_kernels()
    sys.exit(main(sys.argv[1:]))
