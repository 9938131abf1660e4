"""What concerns more than one partition: broker states, configurations, lost telemetry, gaps, late rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.advance_histories import Standing
from pipelines.replication.batch.clock_offsets import WrongClock
from pipelines.replication.batch.minute_stats import Minutes
from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import Outcome
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import int64_column, take_rows
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.events.sharding import owner
from pipelines.replication.events.sources_of_rows import SourcedRows
from pipelines.replication.facts.tables import SCHEMAS
from pipelines.replication.kafka_versions import reported_rules
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE
from pipelines.replication.partition.committed_isr import RETRACTED
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.sources import DRAIN, RESTARTED_NUMBERS, Gap
from schemas.telemetry_gaps import NOT_UNDERSTOOD


@dataclass
class Talk:
    """What one micro-batch says beyond its partitions."""

    source_rows: list[dict[str, Any]] = field(default_factory=list)
    """Rows of silver/telemetry_gaps about whole sources: their owner bucket says them."""
    partition_rows: list[dict[str, Any]] = field(default_factory=list)

    def table(self, bucket: int, buckets: int, minutes: Minutes) -> pa.Table:
        """silver/telemetry_gaps; counts gaps and late rows into their minutes."""
        rows = self.partition_rows + [r for r in self.source_rows if owner(r["source_id"], buckets) == bucket]
        for row in rows:
            name = {"gap": "gaps", "late": "late"}.get(row["kind"])
            if name:
                minutes.add(row["cluster"], row["broker"], row["ts"], name)
        plain = [{k: v for k, v in row.items() if k != "broker"} for row in rows]
        return pa.Table.from_pylist(plain, schema=SCHEMAS["telemetry_gaps"])


HEARD = (
    "cluster", "source_id", "source_epoch", "source_seq", "ts", "broker_id", "event_type", "topic", "topic_id",
    "partition", "leader_id", "leader_epoch", "replica_id", "broker_epoch", "min_isr", "lag_max_ms", "level", "detail",
)  # fmt: skip
"""What is heeded of a broker-wide event."""


def wide_rows(written: SourcedRows) -> pa.Table:
    """The broker-wide rows."""
    found = [piece.first + np.flatnonzero(piece.int32("partition") < 0) for piece in written.slices]
    return take_rows(written.events.select(HEARD), np.concatenate([np.empty(0, dtype=np.int64), *found]))


def own_rejected(rejected: pa.Table, bucket: int, buckets: int) -> pa.Table:
    """The rejected rows that this bucket tells of: all have the broker-wide ones, one tells of each."""
    if buckets == 1 or not rejected.num_rows:
        return rejected
    on_partitions = pc.greater_equal(pc.fill_null(rejected["partition"], -1), 0)
    return rejected.filter(pc.or_(on_partitions, _spoken_for(rejected["source_id"], bucket, buckets)))


def heeded(broad: pa.Table, bucket: int, buckets: int) -> pa.Table:
    """Broker-wide events without the `progress` of sources that another bucket speaks for: coverage tells as much."""
    if buckets == 1 or not broad.num_rows:
        return broad
    mine = _spoken_for(broad["source_id"], bucket, buckets)
    return broad.filter(pc.or_(mine, pc.not_equal(broad["event_type"], "progress")))


def _spoken_for(source: pa.ChunkedArray, bucket: int, buckets: int) -> pa.ChunkedArray:
    """Whether each of these sources is one that this bucket speaks for."""
    names = pc.fill_null(source.cast(pa.string()), "")
    own = [name for name in pc.unique(names).to_pylist() if owner(name, buckets) == bucket]
    return pc.is_in(names, value_set=pa.array(own, pa.string()))


def closes(events: pa.Table, runs: pa.Table) -> bool:
    """Whether these events, which `runs` cover, hold the closing row of `hwmark run --drain`."""
    if not pc.any(pc.equal(runs["source_id"], DRAIN)).as_py():
        return False
    wide_rows = pc.and_(pc.equal(events["partition"], -1), pc.equal(events["source_id"], DRAIN))
    return bool(pc.any(pc.fill_null(wide_rows, False)).as_py())


def hear(state: State, broad: pa.Table, gaps: list[Gap], settled: dict[str, int]) -> Talk:
    """Takes in broker-wide events and what is wrong with sources; returns what there is to say of it."""
    talk = Talk()
    told = pc.is_in(broad["event_type"], value_set=pa.array(["broker_state", "config", "lost"]))
    rows = broad.filter(told)
    times = int64_column(rows["ts"]) if rows.num_rows else np.empty(0, dtype=np.int64)
    for row, ts in zip(rows.to_pylist(), times.tolist(), strict=True):
        _hear_row(state, talk, row, ts)
        if ts <= settled.get(row["cluster"], -1):
            talk.source_rows.append(_gap_row(row, ts, "source", row["source_seq"], row["source_seq"], "late"))
    for gap in gaps:
        _hear_gap(state, talk, gap)
    return talk


def _hear_row(state: State, talk: Talk, row: dict[str, Any], ts: int) -> None:
    cluster = state.clusters.number(row["cluster"])
    if row["event_type"] == "broker_state":
        told_by = str(row["source_id"]), int(row["source_epoch"]), int(row["source_seq"])
        state.timeline.record_broker_state(cluster, row["replica_id"], ts, row["detail"], row["broker_epoch"], told_by)
    elif row["event_type"] == "config":
        if version := reported_rules(row["detail"]):
            state.timeline.record_version(cluster, row["broker_id"], ts, *version)
        if row["min_isr"] is None and row["lag_max_ms"] is None:
            return
        topic = CLUSTER_WIDE if row["topic"] is None else state.topics.number(row["cluster"], row["topic"])
        topic_id = -1 if row["topic_id"] is None else state.topic_ids.number(row["topic_id"])
        state.timeline.record_config(cluster, topic, ts, row["min_isr"], row["lag_max_ms"], topic_id)
    else:
        key = (state.source_names.number(row["cluster"], row["source_id"], row["source_epoch"]), row["source_seq"])
        if key not in state.told_lost:
            state.told_lost.add(key)
            misread = (row["detail"] or "").startswith(NOT_UNDERSTOOD)
            (state.misread if misread else state.hold)(cluster, row["broker_id"], ts)
            talk.source_rows.append(
                _gap_row(row, ts, "source", row["source_seq"], row["source_seq"], "gap", row["detail"])
            )


def _hear_gap(state: State, talk: Talk, gap: Gap) -> None:
    source = gap.source
    broker = _broker_of(state, source.cluster, source.source_id)
    row = {
        "cluster": source.cluster, "source_id": source.source_id, "source_epoch": source.source_epoch,
        "broker_id": broker, "level": None,
    }  # fmt: skip
    talk.source_rows.append(_gap_row(row, gap.ts, "source", gap.seq_from, gap.seq_to, gap.kind, gap.detail))
    if broker is not None and (gap.kind == "gap" or gap.detail == RESTARTED_NUMBERS):
        state.hold(state.clusters.number(source.cluster), broker, gap.ts)


def _broker_of(state: State, cluster: str, source_id: str) -> int | None:
    """The broker that a source's partition rows come from."""
    mine = [k for k, n in enumerate(state.source_names.all) if n[:2] == (cluster, source_id)]
    brokers = state.series["broker"][np.isin(state.series["source"], mine)]
    return int(brokers[0]) if len(brokers) else None


def _gap_row(
    row: dict[str, Any], ts: int, series: str, seq_from: int, seq_to: int, kind: str, detail: str | None = None
) -> dict[str, Any]:
    return {
        "cluster": row["cluster"], "topic": row.get("topic"), "topic_id": row.get("topic_id"),
        "partition": row.get("partition", -1) if series == "partition" else -1, "ts": ts,
        "leader_id": row.get("leader_id"), "leader_epoch": row.get("leader_epoch"),
        "source_id": row["source_id"], "source_epoch": row["source_epoch"], "series": series,
        "seq_from": seq_from, "seq_to": seq_to, "kind": kind, "detail": detail, "level": row.get("level"),
        "broker": row.get("broker_id"),
    }  # fmt: skip


def say_gaps(state: State, talk: Talk, batch: Batch, outcome: Outcome) -> None:
    """Holes in a partition's numbers that were read across."""
    for row, seq_from, seq_to in batch.accepted.holes:
        if outcome.consumed[row]:
            series = int(batch.series[row])
            state.gaps.setdefault(series, []).append((int(seq_from), int(seq_to)))
            event = batch.events.slice(int(row), 1).to_pylist()[0]
            ts = int(batch.told("ts", np.array([row]))[0])
            talk.partition_rows.append(_gap_row(event, ts, "partition", int(seq_from), int(seq_to), "gap"))


def say_clocks(state: State, talk: Talk, clocks: list[WrongClock]) -> None:
    """Clocks that are wrong by more than the grace, with how many milliseconds they are ahead at least."""
    for clock in clocks:
        if clock.ahead:
            (_, topic, partition), (cluster, source_id, source_epoch) = state.place(clock.partition), clock.source
            row = {
                "cluster": cluster, "topic": topic, "partition": partition, "source_id": source_id,
                "source_epoch": source_epoch, "broker_id": clock.broker,
            }  # fmt: skip
            detail = str(clock.ahead // 1000)
            talk.partition_rows.append(_gap_row(row, clock.ts, "partition", clock.seq, clock.seq, "clock", detail))


def say_late(
    state: State, talk: Talk, batch: Batch, waited: int, settled: dict[str, int], told: dict[Any, int]
) -> None:
    """Rows that came after what they bear on was decided: fillers of declared gaps, and rows of sources
    that the cluster had stopped waiting for. The first `waited` rows of the batch came earlier."""
    rows = np.concatenate([_fillers(state, batch), _behind_rows(state, batch, waited, settled, told)])
    if not len(rows):
        return
    late = take_rows(batch.events, rows)
    for ts, event in zip(int64_column(late["ts"]).tolist(), late.to_pylist(), strict=True):
        talk.partition_rows.append(_gap_row(event, ts, "partition", event["seq"], event["seq"], "late"))


def _fillers(state: State, batch: Batch) -> I64:
    """Dropped rows whose number had been declared lost; the number is known from now on."""
    if not state.gaps:
        return np.empty(0, dtype=np.int64)
    found = []
    dropped = np.flatnonzero(batch.accepted.dropped)
    for row, seq in zip(dropped, batch.told("seq", dropped).tolist(), strict=True):
        gaps = state.gaps.get(int(batch.series[row]), [])
        for k, (first, last) in enumerate(gaps):
            if first <= seq <= last:
                gaps[k : k + 1] = [g for g in ((first, seq - 1), (seq + 1, last)) if g[0] <= g[1]]
                found.append(row)
                break
    return np.array(found, dtype=np.int64)


def _behind_rows(
    state: State, batch: Batch, waited: int, settled: dict[str, int], told: dict[Any, int]
) -> I64:  # fmt: skip
    names = state.source_names.all
    limit = np.full(max(len(names), 1), -(1 << 62), dtype=np.int64)
    for number, name in enumerate(names):
        decided = settled.get(str(name[0]), -1)
        if told.get(name, -1) < decided:
            limit[number] = decided
    if not len(names) or limit.max() < 0:
        return np.empty(0, dtype=np.int64)
    a = batch.accepted
    lines = a.lines[: a.bounds[-1]]
    row, of = lines[:, PACKED.row], np.repeat(a.series, np.diff(a.bounds))
    behind = (lines[:, PACKED.ts] <= limit[state.series["source"][of]]) & (a.dropped[row] == 0) & (row >= waited)
    rows = np.sort(row[behind])
    return rows[_first_heard(batch, waited, rows)] if len(rows) else rows


def _first_heard(batch: Batch, waited: int, rows: I64) -> npt.NDArray[np.bool_]:
    """Which of these rows are no repeats of each other, or of rows that came earlier and wait."""
    earlier = np.arange(waited)
    heard = set(zip(batch.series[earlier].tolist(), batch.told("seq", earlier).tolist(), strict=True))
    fresh = np.zeros(len(rows), dtype=np.bool_)
    for k, key in enumerate(zip(batch.series[rows].tolist(), batch.told("seq", rows).tolist(), strict=True)):
        fresh[k] = key not in heard
        heard.add(key)
    return fresh


def move(state: State, moves: list[tuple[int, int, Standing, Standing]], minutes: Minutes) -> None:
    """Partitions that stand otherwise than before: gauges follow, and a lane whose broker leads no more is deposed."""
    for partition, ts, before, now in moves:
        cluster = state.place(partition)[0]
        for standing, sign in ((before, -1), (now, 1)):
            for name in Standing._fields[1:]:
                if count := getattr(standing, name):
                    minutes.add(cluster, standing.leader_id, ts, name, sign * count)
        lane = -1 if before.leader_id is None or before.leader_id < 0 else state.lane_of(partition, before.leader_id)
        if lane >= 0 and state.partitions["leader_id"][partition] != before.leader_id:
            state.lanes["deposed"][lane] = 1


def unheard(state: State, broad: pa.Table) -> pa.Table:
    """Broker-wide events without those told before: each number of a source counts once."""
    if not broad.num_rows:
        return broad
    written, seq = SourcedRows(broad), int64_column(broad["source_seq"])
    source = np.concatenate(written.source_of)
    told = zip(source.tolist(), seq.tolist(), strict=True)
    heard = np.array([state.sources.received(written.names[of], number) for of, number in told])
    order = np.lexsort((seq, source))
    twin = np.zeros(len(seq), dtype=np.bool_)
    twin[order[1:]] = (np.diff(source[order]) == 0) & (np.diff(seq[order]) == 0)
    return broad.filter(pa.array(~heard & ~twin))


def count_changes(state: State, changes: list[Any], regressions: list[Any], minutes: Minutes) -> None:
    """ISR changes by cause and regressions by class; what is retracted counts no more."""
    for row in changes:
        retracted = row["change"] == RETRACTED
        change = row.get("was") if retracted else row["change"]
        if change in ("shrink", "expand") and (retracted or row["news"]):
            name = f"{change}:{row['cause']}"
            minutes.add(row["cluster"], row["leader_id"], row["ts"], name, -1 if retracted else 1)
    for row in regressions:
        if row["revision"] == 1:
            minutes.add(row["cluster"], row["leader_id"], row["ts"], f"regression:{row['class']}")


def count_wide(bucket: int, buckets: int, broad: pa.Table, minutes: Minutes) -> None:
    """Broker-wide events count once, in the bucket that owns their source."""
    if not broad.num_rows:
        return
    counted = broad.select(["cluster", "source_id", "broker_id"]).append_column(
        "ts", pa.array(int64_column(broad["ts"]) // 60_000_000)
    )
    groups = counted.group_by(["cluster", "source_id", "broker_id", "ts"], use_threads=False).aggregate(
        [([], "count_all")]
    )
    for row in groups.to_pylist():
        if owner(row["source_id"], buckets) == bucket:
            minutes.add(row["cluster"], row["broker_id"], row["ts"] * 60_000_000, "events", row["count_all"])
