"""(c) State between micro-batches, (d) histories of partitions."""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.replication import Reconstructor, Rules
from pipelines.replication.events.sharding import assign
from pipelines.replication.facts.tables import Facts
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.telemetry.coverage import coverage
from tests.golden.canonical import Output, canonical, framed, of_facts
from tests.golden.runs import recorded, simulated
from tests.simulated.telemetry_damage import arrivals
from tests.unit.replication import bronze
from tests.unit.replication import history_cases as cases

SNAPSHOTS = Path(__file__).parent / "version_8"
"""Snapshots that an earlier program of this version has written."""
CUTS = 8
BEGUN_AT = 4
"""After so many of the CUTS the snapshots of the folder were written."""
BEGUN = (
    "unclean_election-1", "leader_crash-2-4", "run-08-4", "run-17-1", "run-35-1", "run-46-4", "run-59-1", "run-31-1",
    "run-16-1", "seldom-1",
)  # fmt: skip
"""The cases of which the folder has snapshots."""


class Case(NamedTuple):
    """Events as they arrive, cut into CUTS micro-batches, for so many buckets."""

    batches: list[pa.Table]
    rules: Rules
    buckets: int


@cache
def cut() -> dict[str, Case]:
    """The cases: some rows of each come late, those of the first one do not."""
    found = {}
    first = _without_roles(recorded()["unclean_election/3"])
    found["unclean_election-1"] = Case(_cut(first), Rules(replica_hw=True), 1)
    for place, buckets in (("leader_crash/2", 4), ("slow_follower/0", 1), ("unclean_election/coalesced", 4)):
        found[f"{place.replace('/', '-')}-{buckets}"] = Case(
            _cut(_late(_without_roles(recorded()[place]))), Rules(), buckets
        )
    for number, buckets in (
        (1, 1),
        (8, 4),
        (11, 32),
        (17, 1),
        (23, 4),
        (35, 1),
        (42, 32),
        (31, 1),
        (16, 1),
        (46, 4),
        (54, 1),
        (59, 1),
    ):
        one = simulated()[f"run-{number:02}"]
        found[f"run-{number:02}-{buckets}"] = Case(_cut(_late(one.events)), one.rules, buckets)
    found["seldom-1"] = Case(_cut(_seldom()), Rules(reorder_grace_ms=3_000), 1)
    return found


def _seldom() -> pa.Table:
    """Events that put into a state what the other cases have none of: partitions that only start, one that just does,
    lines that were not understood and lost, a reassignment, a source that begins anew; the controller's come late."""
    leading, other, again = (
        bronze.Source(),
        bronze.Source("broker-2/replication.log"),
        bronze.Source("broker-2/replication.log", 1),
    )
    controller = bronze.controller()
    for p in range(6):
        leading.on(partition=p).leader(10 * p, 0, 0, 0, [1, 2])
        controller.on(partition=p).election(10 * p, 1, 0, isr=[1, 2], replicas=[1, 2, 3])
    other.on(partition=6).leader(5, 0, 0, 0, [2, 3])
    for ms in range(1_000, 16_000, 1_000):
        for p in (0, 1):
            leo = ms // 100 + p
            leading.on(partition=p).append(ms, leo).fetch(ms + 10, 2, leo, leo).hw(ms + 10, leo)
        if ms == 5_000:
            leading.lost(ms + 20, "not understood: 3 lines of kafka.cluster.Partition").lost(ms + 30)
            moved = {"isr": [1, 2], "replicas": [1, 2, 4], "partition_epoch": 1}
            controller.on(partition=1).election(ms + 20, 1, 0, **moved)
        if ms == 7_000:
            again.on(partition=7).leader(ms + 5, 0, 0, 0, [2, 3])
        for source in (leading, other if ms < 7_000 else again, controller):
            source.progress(ms + 500)
    events = bronze.table(leading, other, again, controller)
    delay = np.where(np.asarray(events["broker_id"]) == 9, 2_400_000, 0)
    return events.take(pa.array(np.argsort(events["ts"].cast(pa.int64()).to_numpy() + delay, kind="stable")))


def _without_roles(events: pa.Table) -> pa.Table:
    """The rows of a recording as they were when snapshots of it were written: roles of controllers were none."""
    kept, left_out = list[dict[str, Any]](), Counter[Any]()
    for row in events.to_pylist():
        source = row["source_id"], row["source_epoch"]
        series = *source, row["topic"], row["partition"]
        if (row["detail"] or "").startswith("controller="):
            left_out.update((source, series))
        else:
            seqs = {"source_seq": row["source_seq"] - left_out[source], "seq": row["seq"] - left_out[series]}
            kept.append(row | seqs)
    return pa.Table.from_pylist(kept, events.schema)


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
            yield f"{name}/after {k + 1}", framed([one.snapshot() for one in all_of])
        parts = [state_tables(one.snapshot()) for one in all_of]
        for part in parts[0]:
            yield f"{name}/state/{part}", framed([canonical(of[part]) for of in parts])
        yield f"{name}/health", framed([canonical(one.health()) for one in all_of])
        halves[1].extend(one.finish(CUTS) for one in all_of)
        yield from of_facts(f"{name}/first half", Facts.concat(halves[0]))
        yield from of_facts(f"{name}/second half", Facts.concat(halves[1]))


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
        yield f"{name}/restored", framed([one.snapshot() for one in all_of])
        found = [f for k, events in enumerate(batches[BEGUN_AT:], BEGUN_AT) for f in _feed(all_of, events, k)]
        yield f"{name}/end", framed([one.snapshot() for one in all_of])
        yield f"{name}/health", framed([canonical(one.health()) for one in all_of])
        yield from of_facts(f"{name}/second half", Facts.concat([*found, *(one.finish(CUTS) for one in all_of)]))


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
