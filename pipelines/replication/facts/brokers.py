"""gold/brokers and gold/broker_lag, as far as one shard knows them: its partitions, and what every shard reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.types import I64, NEVER
from pipelines.replication.facts.answers import states_of_brokers
from pipelines.replication.facts.broker_counts import Broker, Row, count_partitions
from pipelines.replication.facts.follower_lag import followers, lags_of_brokers, worst
from pipelines.replication.facts.partition_health import health, led_lanes
from pipelines.replication.metadata.broker_states import UNTOLD
from pipelines.replication.metadata.brokers_and_configs import LASTING, BrokerState
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.state.state import State
from schemas import broker_lag, brokers

FOREVER = 1 << 62
_COUNTS = (
    "replicas", "led", "followed", "outside_isr", "isr_unknown", "led_under_replicated", "led_under_min_isr",
    "led_held_back", "sole_isr", "at_min_isr",
)  # fmt: skip


class Present(NamedTuple):
    """The tables that show the present, as one shard has them: of brokers, and of the worst replicas, a share."""

    partition_health: pa.Table
    brokers: pa.Table
    broker_lag: pa.Table
    replica_lag: pa.Table


def present(state: State, low_watermarks: I64) -> Present:
    """The present of all partitions of a state; `low_watermarks` are those of the sources by number."""
    partitions, behind = present_partitions(state, low_watermarks), followers(state, low_watermarks)
    times = np.array([state.sources.latest(str(name[0])) for name in state.clusters.all], dtype=np.int64)
    lags, counted = lags_of_brokers(state, behind), count_partitions(partitions)
    return Present(
        partitions,
        pa.Table.from_pylist(_rows(state, counted, lags, times, low_watermarks), brokers.ARROW),
        pa.Table.from_pylist(_lag_rows(state, counted, lags, times), broker_lag.ARROW),
        worst(state, behind, times),
    )


def present_partitions(state: State, low_watermarks: I64) -> pa.Table:
    """The present of all partitions but those of topics that were deleted, or that a watcher saw go."""
    partitions = health(state, low_watermarks)
    gone = [*state.sampled.gone().tolist(), *_deleted(state, partitions)]
    if not gone:
        return partitions
    there = np.ones(len(partitions), np.bool_)
    there[gone] = False
    return partitions.filter(pa.array(there))


def _deleted(state: State, partitions: pa.Table) -> list[int]:
    """The partitions whose topics were deleted: by their ids, with ZooKeeper those that began before.

    Its controller goes on to tell of them until all replicas are back.
    """
    by_id, by_name = list[str](), dict[str, int]()
    for (_, topic), deletions in state.timeline.deletions.items():
        cluster, name = state.topics.all[topic]
        by_id += [f"{cluster}/{state.topic_ids.all[number][0]}" for number in deletions if number >= 0]
        by_name |= {f"{cluster}/{name}": deletions[-1]} if -1 in deletions else {}
    places: list[int] = _places(partitions, "topic_id", by_id)
    for place in _places(partitions, "topic", by_name):
        row = state.place(place)
        places += [place] if _begun(state.history(place)) <= by_name[f"{row[0]}/{row[1]}"] else []
    return places


def _places(partitions: pa.Table, column: str, wanted: Collection[str]) -> list[int]:
    """The partitions with a wanted `cluster/value` of this column."""
    if not wanted:
        return []
    each = (partitions[name].cast(pa.string()) for name in ("cluster", column))
    found = pc.is_in(pc.binary_join_element_wise(*each, "/"), pa.array(list(wanted), pa.string()))
    places: list[int] = np.flatnonzero(found.to_numpy()).tolist()
    return places


def _begun(history: PartitionHistory) -> int:
    """The time (microseconds) of the first report about a partition's topic."""
    topic = history.topics[-1]
    first = [topic.terms.folded_term] if topic.terms.folded_term else topic.terms.terms[:1]
    return max(topic.restored_at, topic.terms.created or (first[0].ts if first else history.now))


def _rows(
    state: State, counted: dict[Broker, Row], lags: dict[Broker, Row], times: I64, low_watermarks: I64
) -> list[Row]:
    levels, reported = _levels(state, low_watermarks), _last_reported(state)
    stated = {(str(state.clusters.all[c][0]), b) for c, b in (*state.timeline.brokers, *state.timeline.racks)}
    states = states_of_brokers(state)
    rows = []
    for key in sorted(counted.keys() | lags.keys() | stated):
        cluster, broker = key
        number = state.clusters.number(cluster)
        row: Row = {"cluster": cluster, "broker_id": broker}
        row |= _counts(counted.get(key, {}), lags.get(key))
        row |= restarts(state.timeline.broker_states(number, broker, FOREVER))
        now = states[number].get(broker, UNTOLD)
        row |= {**now._asdict(), "state_ts": now.since}
        row["quorum"], row["quorum_since"] = state.timeline.quorum_now(number)
        row["rack"] = state.timeline.racks.get((number, broker), (0, None))[1]
        row["ts"] = int(times[number]) if times[number] >= 0 else None
        rows.append(row | {"level": levels.get(key), "last_reported_ts": reported.get(key)})
    return rows


def _counts(counted: Row, lag: Row | None) -> Row:
    """The counts of a broker; those that need LEOs are null if none of its followers' is known."""
    followed, known = counted.get("followed", 0), lag["known"] if lag else 0
    row = dict.fromkeys(_COUNTS, 0) | counted | {"leo_unknown": max(followed - known, 0)}
    shown = {name: counted.get(name, 0) for name in ("out_of_sync", "holds_back", "holds_back_records")}
    row |= shown if known or not followed else dict.fromkeys(shown)
    row["holds_back_of"] = sorted(counted.get("holds_back_of", {}).items())
    return row | ({name: lag[name] for name in ("lag_records", "lag_ms")} if lag else {})


def _lag_rows(state: State, counted: dict[Broker, Row], lags: dict[Broker, Row], times: I64) -> list[Row]:
    rows, held = [], {key: row["led_held_back"] for key, row in counted.items() if row.get("led_held_back")}
    for key in sorted(lags.keys() | held.keys()):
        ts, nobody = int(times[state.clusters.number(key[0])]), dict.fromkeys(("followed", "known", "behind"), 0)
        row = {"cluster": key[0], "broker_id": key[1], "ts": ts, **lags.get(key, nobody)}
        rows += [row | {"led_held_back": held.get(key, 0)}] if ts >= 0 else []
    return rows


def restarts(changes: Sequence[BrokerState]) -> Row:
    """Return broker_epoch and restarting_since; both None if no state was logged.

    Args:
        changes: the broker's state changes in time order, timestamps in microseconds.

    `restarting_since` runs from `controlled_shutdown` to the next `started`, `unfenced` or `unregistered`.
    """
    epoch, since = None, None
    for ts, detail, epoch_then, *_ in changes:
        if detail not in LASTING:
            continue
        epoch = epoch_then
        if detail in ("started", "unfenced", "unregistered"):
            since = None
        elif detail == "controlled_shutdown" and since is None:
            since = ts
    return {"broker_epoch": epoch, "restarting_since": since}


def _levels(state: State, low_watermarks: I64) -> dict[Broker, int]:
    """The lowest level among the partitions that each broker leads."""
    led = led_lanes(state, low_watermarks)
    lane = led[led >= 0]
    cluster, broker, level = (state.lanes[name][lane] for name in ("cluster", "broker", "level"))
    keys, of = np.unique((cluster << 32) | broker, return_inverse=True)
    lowest = np.full(len(keys), NEVER)
    np.minimum.at(lowest, of, level)
    names = [str(name[0]) for name in state.clusters.all]
    return {(names[key >> 32], key & 0xFFFFFFFF): low for key, low in zip(keys.tolist(), lowest.tolist(), strict=True)}


def _last_reported(state: State) -> dict[Broker, int]:
    """The largest time of the sources of each broker that report on partitions of this shard."""
    names, found = state.source_names.all, dict[Broker, int]()
    known = (state.series["source"] >= 0) & (state.series["broker"] >= 0)
    for pair in np.unique(((state.series["source"] << 32) | state.series["broker"])[known]).tolist():
        source, broker = state.sources.known.get(names[pair >> 32]), pair & 0xFFFFFFFF
        if source is not None and source.latest >= 0:
            key = source.cluster, broker
            found[key] = max(source.latest, found.get(key, source.latest))
    return found
