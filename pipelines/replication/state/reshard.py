"""The state of some number of buckets as that of another: all of it merged, and split by the hash of its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.records import Arrays
from pipelines.replication.events.sharding import assign
from pipelines.replication.rules import Rules
from pipelines.replication.state import snapshot
from pipelines.replication.state.shard import Shard
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.closings import Held
from pipelines.replication.telemetry.sources import Sources
from pipelines.replication.term.layout import REPLICAS


def reshard(blobs: Sequence[bytes], buckets: int) -> Iterator[bytes]:
    """Snapshots of `buckets` buckets, in order, that go on where the buckets of these snapshots stopped.

    Raises ValueError where they are not all buckets of one state, or of a version that is not read.
    """
    parts = [snapshot.unpack(blob) for blob in blobs]
    rules = _rules_of_all([(rules, bucket, of) for _, rules, bucket, of in parts])
    states = [state for state, *_ in parts]
    bucket_of = [_buckets(state, buckets) for state in states]
    waiting = [assign(state.waiting, buckets) for state in states]
    held = [assign(state.held.events, buckets) for state in states]
    for bucket in range(buckets):
        shard = Shard(_blank(states, rules))
        for state, partitions, rows in zip(states, bucket_of, waiting, strict=True):
            shard.take(state, partitions == bucket, rows == bucket)
        of_bucket = [
            state.held.events.filter(pa.array(rows == bucket)) for state, rows in zip(states, held, strict=True)
        ]
        broker_wide = states[0].held.events.filter(pa.array(held[0] < 0))
        shard.state.held = Held(pa.concat_tables([broker_wide, *of_bucket]), states[0].held.runs)
        yield snapshot.pack(shard.finish(), rules, bucket, buckets)


def without_cluster(blobs: Iterable[bytes], cluster: str) -> Iterator[bytes]:
    """Snapshots of the same buckets that know nothing of a cluster: whatever is told of it begins as first seen."""
    for blob in blobs:
        state, rules, bucket, buckets = snapshot.unpack(blob)
        _drop_broker_wide(state, cluster)
        of_others = np.array([name[0] != cluster for name in state.topics.all], dtype=np.bool_)
        shard = Shard(_blank([state], rules))
        partitions, waiting = of_others[state.partition_keys.keys >> 32], _others(state.waiting, cluster).to_numpy()
        shard.take(state, partitions, waiting, cluster)
        events, runs = (rows.filter(_others(rows, cluster)) for rows in state.held)
        shard.state.held = Held(events, runs)
        yield snapshot.pack(shard.finish(), rules, bucket, buckets)


def _drop_broker_wide(state: State, cluster: str) -> None:
    """Take out of a state what every bucket reads of a cluster."""
    number, timeline, sources = state.clusters.find(cluster), state.timeline, state.sources
    by_number: tuple[dict[Any, Any], ...] = (
        state.gap_times, state.misread_times, state.last_gaps, state.last_misreads,
        timeline.brokers, timeline.configs, timeline.versions, timeline.racks, timeline.answers,
        timeline.deletions, timeline.set_by,
    )  # fmt: skip
    by_name: tuple[dict[Any, Any], ...] = (
        sources.settled, state.watched.rounds, state.watched.gaps, state.closings.waiting, state.closings.last,
    )  # fmt: skip
    for entries in by_number:
        for key in [key for key in entries if key[0] == number]:
            del entries[key]
    for entries in by_name:
        entries.pop(cluster, None)
    timeline.roles.pop(number, None)
    sources.known = {key: source for key, source in sources.known.items() if source.cluster != cluster}
    names = state.source_names.all
    state.reported_losses = {loss for loss in state.reported_losses if names[loss[0]][0] != cluster}


def _others(rows: pa.Table, cluster: str) -> pa.ChunkedArray:
    """Whether each row is of another cluster, or of none."""
    return pc.fill_null(pc.not_equal(rows["cluster"], cluster), True)


def _rules_of_all(parts: Sequence[tuple[Rules, int, int]]) -> Rules:
    """The rules of all buckets. Raises ValueError where one is missing, or they do not belong together."""
    rules, _, buckets = parts[0]
    found = sorted(bucket for _, bucket, _ in parts)
    if found != list(range(buckets)) or any((own, of) != (rules, buckets) for own, _, of in parts):
        raise ValueError(f"not the state of all buckets of one query: found {found} of {buckets}")
    return rules


def _buckets(state: State, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each partition by number."""
    keys = state.partition_keys.keys
    topic = pa.array(keys >> 32)
    clusters, topics = (pa.array([name[k] for name in state.topics.all], pa.string()) for k in (0, 1))
    partition = pa.array((keys & 0xFFFFFFFF).astype(np.int32))
    return assign(
        pa.table({"cluster": clusters.take(topic), "topic": topics.take(topic), "partition": partition}), buckets
    )


def _blank(states: Sequence[State], rules: Rules) -> State:
    """A state without partitions: what every bucket reads is in it, as far as one of these has read it.

    A bucket that met a cluster later than another may have settled less of it.
    """
    sources = Sources(rules.reorder_grace_ms * 1000)
    for state in states:
        for key, source in state.sources.known.items():
            known = sources.known.setdefault(key, source)
            if source.evidence and (known.evidence is None or source.evidence.seq > known.evidence.seq):
                known.evidence = source.evidence  # the bucket that owned it has read on
        for cluster, settled in state.sources.settled.items():
            sources.settled[cluster] = max(settled, sources.settled.get(cluster, -1))
    made = State(sources, closings=states[0].closings)
    made.replicas = Arrays(REPLICAS, max(state.replicas.width for state in states))
    for state in states:
        state.replicas.widen(made.replicas.width)
    return made
