"""The HWs that brokers report as followers: a leader of that epoch had them, whose own telemetry may end before."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

import numpy as np

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I8, I32, I64, NEVER, NULL, NULL32
from pipelines.replication.events.columns import CODE
from pipelines.replication.partition.events import PartitionEvent
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import SERIES

Findings = list[tuple[int, dict[str, Any]]]
"""Rows, and what the kernel adds to the event of each or has instead of it."""
AT = SERIES.at
_HW, _START, _CUT = range(3)
_ASKED = {CODE["leader"]: _START, CODE["follower"]: _START, CODE["truncate"]: _CUT}


class HwsBefore(NamedTuple):
    """What brokers had reported as followers before some rows of a micro-batch."""

    reported: Findings
    """The last HW in a leader epoch, at the row that ends it: a lower HW, or a start with a lower one."""
    fallen: list[tuple[int, int]]
    """Rows with a HW below that broker's own earlier one, and the HW before each."""
    of_truncations: dict[int, dict[str, Any]]
    """By row of a truncation: the HW that its replica reported last since it began to follow, in the same epoch."""


def hws_before(state: State, batch: Batch, results: TermResults, rare: I64) -> HwsBefore:
    """The HWs of followers before `rare` rows that have been read, and before lower ones; moves `state` past them all.

    So it does not depend on where a micro-batch ends whether the row before a start or a cut is in the same one.
    """
    c, asked = batch.columns, rare[np.isin(batch.columns.kind[rare], list(_ASKED))]
    hw_rows, hws, epochs, times = results.follower_hws
    rows = np.concatenate([hw_rows, batch.rare[asked]])
    if not len(rows):
        return HwsBefore([], [], {})
    series, none = batch.series[rows], np.zeros(len(asked), dtype=np.int64)
    kinds = np.concatenate([np.full(len(hw_rows), _HW), [_ASKED[k] for k in c.kind[asked].tolist()]]).astype(np.int8)
    told = np.concatenate([hws, c.hw[asked]]), np.concatenate([epochs, c.leader_epoch[asked]]), np.append(times, none)
    order = np.arange(len(rows))
    if len(asked):  # HWs of other series stand in order
        with_asked = np.zeros(state.series.count, dtype=np.bool_)
        with_asked[series[len(hw_rows) :]] = True
        merged = np.flatnonzero(with_asked[series])
        order[merged] = merged[np.lexsort((batch.int64("seq", rows[merged]), series[merged]))]
    at, *before = _pass_reports(order, kinds, series, *told, state.series.data)
    found = HwsBefore([], [], {})
    for k, hw, epoch, ts in zip(at.tolist(), *(column.tolist() for column in before), strict=True):
        row, kind, now = int(rows[k]), kinds[k], int(told[0][k])
        if kind == _CUT:
            found.of_truncations[row] = {"hw": hw} if epoch == told[1][k] else {}
            continue
        if kind == _HW:
            found.fallen.append((row, hw))
        if epoch != NULL32 and hw > max(now, 0):
            last = {"event_type": "hw", "detail": "of_follower", "leader_epoch": epoch, "hw": hw, "ts": ts}
            found.reported.append((row, last))
    return found


@compiled
def _pass_reports(
    order: I64, kinds: I8, series: I32, hw: I64, epoch: I64, ts: I64, state: Records
) -> tuple[I64, I64, I64, I64]:
    """(lower HWs, starts and cuts; the HW, leader epoch and time of the HW before each), in the order of series."""
    found, count = np.empty((4, len(order)), dtype=np.int64), 0
    for k in order:
        last = state[series[k]]
        if kinds[k] != _HW or hw[k] < last[AT.follower_hw]:
            found[0, count], found[1, count] = k, last[AT.follower_hw]
            found[2, count], found[3, count] = last[AT.follower_epoch], last[AT.follower_ts]
            count += 1
        if kinds[k] == _HW:
            last[AT.follower_hw], last[AT.follower_epoch], last[AT.follower_ts] = hw[k], epoch[k], ts[k]
        elif kinds[k] == _START:
            last[AT.follower_epoch] = NULL32
    return found[0, :count], found[1, :count], found[2, :count], found[3, :count]


def queue_follower_hws(state: State, closed: Set[str]) -> None:
    """Queues, as the history of these clusters is closed, the last HW that each broker reported as a follower in a
    leader epoch whose leader is not known to have had it."""
    series, lanes = state.series, state.lanes
    at = np.flatnonzero((series["follower_hw"] > 0) & (series["follower_epoch"] != NULL32) & (series["partition"] >= 0))
    led = dict[tuple[int, int], int]()
    for partition, epoch, hw in zip(*(lanes[n].tolist() for n in ("partition", "leader_epoch", "hw")), strict=True):
        led[partition, epoch] = max(hw, led.get((partition, epoch), hw))
    for k in at.tolist() if len(at) else ():
        partition, epoch, hw = (int(series[name][k]) for name in ("partition", "follower_epoch", "follower_hw"))
        if led.get((partition, epoch), -1) >= hw or state.place(partition)[0] not in closed:
            continue
        clock, ts, broker = (int(series[name][k]) for name in ("last_ts", "follower_ts", "broker"))
        _, source, source_epoch = state.source_names.all[int(series["source"][k])]
        ts = clock if ts == NULL else ts
        event = PartitionEvent(ts, "hw", broker, str(source), leader_epoch=epoch, hw=hw, detail="of_follower")
        state.partitions["has_events"][partition] = 1
        key = (clock, broker, 1, str(source), int(source_epoch), NEVER)
        state.queued_events.setdefault(partition, []).append((key, event))
