"""Rows of silver/telemetry_gaps: gaps in sequence numbers, resets, wrong clocks, and rows that arrive late."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.batch.clock_offsets import WrongClock
from pipelines.replication.batch.minute_stats import MinuteStats
from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import int64_column, take_rows
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.events.row_rules import FIRST_US, LAST_US
from pipelines.replication.events.sharding import owner
from pipelines.replication.facts.tables import SCHEMAS
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.source import Gap
from pipelines.replication.telemetry.sources import RESTARTED_NUMBERS
from schemas.replication_events import WATCHER


@dataclass
class GapRows:
    """The rows that one micro-batch adds to silver/telemetry_gaps, each with its broker as `broker`."""

    of_sources: list[dict[str, Any]] = field(default_factory=list)
    """Rows about whole sources, which all buckets find and the owner bucket emits."""
    of_partitions: list[dict[str, Any]] = field(default_factory=list)

    def table(self, bucket: int, buckets: int, minutes: MinuteStats) -> pa.Table:
        """silver/telemetry_gaps; counts gaps and late rows in their minutes."""
        rows = self.of_partitions + [r for r in self.of_sources if owner(r["source_id"], buckets) == bucket]
        for row in rows:
            name = {"gap": "gaps", "late": "late"}.get(row["kind"])
            if name:
                minutes.add(row["cluster"], row["broker"], row["ts"], name)
        without_broker = [{k: v for k, v in row.items() if k != "broker"} for row in rows]
        return pa.Table.from_pylist(without_broker, schema=SCHEMAS["telemetry_gaps"])


def gap_row(
    event: dict[str, Any],
    ts: int,
    series: str,
    seq_from: int | None,
    seq_to: int | None,
    kind: str,
    detail: str | None = None,
) -> dict[str, Any]:
    """A row about numbers of `series` (`partition` or `source`); the other columns are those of an event."""
    return {
        "cluster": event["cluster"], "topic": event.get("topic"), "topic_id": event.get("topic_id"),
        "partition": event.get("partition", -1) if series == "partition" else -1, "ts": ts,
        "leader_id": event.get("leader_id"), "leader_epoch": event.get("leader_epoch"),
        "source_id": event["source_id"], "source_epoch": event["source_epoch"], "series": series,
        "seq_from": seq_from, "seq_to": seq_to, "kind": kind, "detail": detail, "level": event.get("level"),
        "broker": event.get("broker_id"),
    }  # fmt: skip


def source_gap(state: State, found: GapRows, gap: Gap) -> None:
    """A finding about a source's own numbers; a gap pauses the HWs of each broker that its rows name.

    It counts for no broker: which one a source is of not every bucket knows.
    """
    source = gap.source
    event = {
        "cluster": source.cluster, "source_id": source.source_id, "source_epoch": source.source_epoch,
        "broker_id": None, "level": None,
    }  # fmt: skip
    found.of_sources.append(gap_row(event, gap.ts, "source", gap.seq_from, gap.seq_to, gap.kind, gap.detail))
    if gap.kind != "gap" and gap.detail != RESTARTED_NUMBERS:
        return
    numbers = [k for k, n in enumerate(state.source_names.all) if n[:2] == (source.cluster, source.source_id)]
    brokers = set(state.series["broker"][np.isin(state.series["source"], numbers)].tolist())
    brokers.update(*(one.brokers for one in state.sources.of(source.cluster) if one.source_id == source.source_id))
    for broker in sorted(brokers):
        if source.source_id.startswith(WATCHER):
            state.watched.record_gap(source.cluster, broker, gap.ts)
        else:
            state.record_gap(state.clusters.number(source.cluster), broker, gap.ts)


def partition_gaps(state: State, found: GapRows, batch: Batch, results: TermResults) -> None:
    """Gaps in the numbers of partitions that were read across: those numbers are lost. They are told as of
    the time of their series, which a row without a usable time does not move; it may have none yet."""
    gaps = batch.accepted.gaps
    gaps = gaps[results.consumed[gaps[:, 0]] == 1]
    for (row, seq_from, seq_to), ts in zip(gaps.tolist(), batch.clocks(gaps[:, 0]).tolist(), strict=True):
        state.lost_numbers.setdefault(int(batch.series[row]), []).append((seq_from, seq_to))
        if ts >= FIRST_US:
            event = batch.events.drop_columns(["ts"]).slice(row, 1).to_pylist()[0]
            found.of_partitions.append(gap_row(event, ts, "partition", seq_from, seq_to, "gap"))


def clock_gaps(state: State, found: GapRows, clocks: list[WrongClock]) -> None:
    """Clocks that are wrong by more than the grace; the detail is by how many milliseconds they are ahead at least."""
    for clock in clocks:
        if clock.ahead:
            (_, topic, partition), (cluster, source_id, source_epoch) = state.place(clock.partition), clock.source
            event = {
                "cluster": cluster, "topic": topic, "partition": partition, "source_id": source_id,
                "source_epoch": source_epoch, "broker_id": clock.broker,
            }  # fmt: skip
            detail = str(clock.ahead // 1000)
            found.of_partitions.append(gap_row(event, clock.ts, "partition", None, None, "clock", detail))


def late_rows(state: State, found: GapRows, batch: Batch, late_until: I64) -> None:
    """Add the late rows: those that fill numbers declared lost, and those of sources no longer waited for.

    `late_until`: by source number, see `telemetry.sources.Decided`.
    """
    rows = np.concatenate([_filling_lost_numbers(state, batch), _behind_decisions(state, batch, late_until)])
    if not len(rows):
        return
    late = take_rows(batch.events, rows)
    for ts, event in zip(int64_column(late["ts"]).tolist(), late.drop_columns(["ts"]).to_pylist(), strict=True):
        if FIRST_US <= ts <= LAST_US:
            found.of_partitions.append(gap_row(event, ts, "partition", event["seq"], event["seq"], "late"))


def _filling_lost_numbers(state: State, batch: Batch) -> I64:
    """Dropped rows whose numbers had been declared lost; the numbers are known from now on."""
    if not state.lost_numbers:
        return np.empty(0, dtype=np.int64)
    found = []
    dropped = np.flatnonzero(batch.accepted.dropped)
    for row, seq in zip(dropped, batch.int64("seq", dropped).tolist(), strict=True):
        lost = state.lost_numbers.get(int(batch.series[row]), [])
        for k, (first, last) in enumerate(lost):
            if first <= seq <= last:
                lost[k : k + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
                found.append(row)
                break
    return np.array(found, dtype=np.int64)


def _behind_decisions(state: State, batch: Batch, late_until: I64) -> I64:
    """New rows, before the time up to which all was decided, of sources whose low watermark was behind that."""
    if late_until.max(initial=-1) < 0:
        return np.empty(0, dtype=np.int64)
    accepted = batch.accepted
    packed = accepted.rows[: accepted.bounds[-1]]
    row, series = packed[:, PACKED.row], np.repeat(accepted.series, np.diff(accepted.bounds))
    ts = packed[:, PACKED.ts]
    behind = (ts >= FIRST_US) & (ts < late_until[state.series["source"][series]])
    rows = np.sort(row[behind & (accepted.dropped[row] == 0) & (row >= batch.waited)])
    return rows[_first_arrivals(batch, rows)] if len(rows) else rows


def _first_arrivals(batch: Batch, rows: I64) -> npt.NDArray[np.bool_]:
    """A mask of the rows that repeat neither one another nor a waiting row."""
    earlier = np.arange(batch.waited)
    arrived = set(zip(batch.series[earlier].tolist(), batch.int64("seq", earlier).tolist(), strict=True))
    first = np.zeros(len(rows), dtype=np.bool_)
    for k, key in enumerate(zip(batch.series[rows].tolist(), batch.int64("seq", rows).tolist(), strict=True)):
        first[k] = key not in arrived
        arrived.add(key)
    return first
