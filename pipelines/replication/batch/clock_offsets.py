"""The lead of each broker's clock over the controller's, from the partition epochs that both report.

A broker reports a partition epoch after the controller has recorded it, delayed by some milliseconds of network and
processing. A difference of times within the race window is that delay; a larger one, up to the grace, is one of clocks.

What a broker reports of an epoch comes after the record, and what it asks for (AlterPartition) comes before. So its
clock is ahead of the controller's by no more than the smallest difference of the first kind, and by no less than the
largest of the second. Where that interval excludes ± the grace, the clock is wrong: it is reported (telemetry_gaps,
kind
`clock`) and not corrected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.copied_lines import list_hash
from pipelines.replication.batch.read import Batch
from pipelines.replication.compiled.records import Arrays, RecordLayout, Records
from pipelines.replication.compiled.types import I64, LOW, NULL, NULL32
from pipelines.replication.events.columns import BY_CONTROLLER, CODE
from pipelines.replication.metadata.layout import CLOCK_OFFSETS, RECORDED_EPOCHS, REPORTED_EPOCHS, REQUESTED_EPOCHS
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State

KEPT_GRACES = 6
"""Both reports of an epoch arrive within 2 × reorder_grace_ms; after so many graces one is no longer kept for a
match."""
_BY_BROKER = [CODE[name] for name in ("leader", "follower", "isr")]


class WrongClock(NamedTuple):
    """A clock that is known to be wrong since `ts`: by `ahead` microseconds, negative where it is behind.

    0: it is right again, in another incarnation of the broker. `source`: (cluster, id, epoch).
    """

    partition: int
    broker: int
    source: tuple[str, str, int]
    ts: int
    ahead: int


class Differences(NamedTuple):
    """Differences of clocks: the series of a broker, by how much it is ahead, and since when that is known."""

    series: I64
    ahead: I64
    since: I64


def compare_clocks(state: State, batch: Batch, rules: Rules) -> list[WrongClock]:
    """Matches what controllers and brokers report of partition epochs; returns the clocks that prove to be wrong, or
    right again."""
    c = batch.columns
    counts = batch.accepted.counts(batch.rare) & (c.partition_epoch >= 0)
    if (watched := state.watched_series()) is not None:  # a watcher's clock is that of no broker
        counts &= ~watched[batch.series[batch.rare]]
    rows = np.flatnonzero(counts)
    if not len(rows):
        return []
    grace, race_window = rules.reorder_grace_ms * 1000, rules.race_window_ms * 1000
    horizon = min(state.sources.settled.values(), default=-1) - KEPT_GRACES * grace
    series = batch.series[batch.rare[rows]].astype(np.int64)
    key = (state.series["partition"][series] << 32) | c.partition_epoch[rows]
    isr = list_hash(c.isr_from, c.isr_ids)[rows]
    by_controller = (c.kind[rows] == CODE["election"]) | (c.isr_from_whom[rows] == BY_CONTROLLER)
    by_broker = np.isin(c.kind[rows], _BY_BROKER) & ~by_controller
    requests = c.kind[rows] == CODE["isr_proposed"]
    epochs = np.stack([key, c.ts[rows], c.topic_id[rows]], axis=1).astype(np.int64)
    told = (c.leader_epoch[rows] != NULL32) & (c.leader_id[rows] != NULL32)
    leader_epoch, leader = (column[rows].astype(np.int64) for column in (c.leader_epoch, c.leader_id))
    led = np.where(told, leader_epoch << 32 | leader & LOW, NULL)
    recorded_now = np.column_stack([epochs, isr, led])[by_controller]
    recorded = np.concatenate([_rows(state.recorded_epochs), recorded_now])
    reported_now = np.column_stack([epochs, c.broker[rows], series, led])[by_broker]
    reported = np.concatenate([_rows(state.reported_epochs), reported_now])
    next_epoch = np.column_stack([epochs[:, 0] + 1, epochs[:, 1:], isr, series])
    requested = np.concatenate([_rows(state.requested_epochs), next_epoch[requests]])
    recorded = _earliest(recorded[recorded[:, 1] > horizon], 1)
    reported, requested = _earliest(reported, 1), _earliest(requested, 1)
    # of several records of an epoch, as after a restored snapshot, each bounds the clock by what is true of any
    matched, ahead, since = _match(reported, recorded[np.argsort(-recorded[:, 1], kind="stable")])
    latest = np.concatenate([recorded, recorded_now[np.argsort(recorded_now[:, 1], kind="stable")]])
    answered, lead, answered_at = _match(requested, latest, by_isr=True)
    after = Differences(reported[matched, 4], ahead, since)
    before = Differences(requested[answered, 4], lead, answered_at)
    wrong = _wrong_clocks(state, after, before, grace)
    state.requested_epochs = _arrays(REQUESTED_EPOCHS, requested[~answered & (requested[:, 1] > horizon)])
    is_delay = (ahead >= 0) & (ahead <= race_window)
    offsets = np.stack([_partition_and_broker(reported[matched]), since, np.where(is_delay, 0, ahead)], axis=1)
    _keep_offsets(state, offsets[np.abs(ahead) <= grace], horizon)
    state.recorded_epochs = _arrays(RECORDED_EPOCHS, recorded[np.lexsort((recorded[:, 1], recorded[:, 0]))])
    state.reported_epochs = _arrays(REPORTED_EPOCHS, reported[~matched & (reported[:, 1] > horizon)])
    return wrong


def _wrong_clocks(state: State, after: Differences, before: Differences, grace: int) -> list[WrongClock]:
    """Narrows the interval of each series' clock; returns the clocks that are wrong now, or right where one was wrong,
    in the order of time: what is known by then counts, whatever else has come.

    `after`: reports of recorded epochs; `before`: requests that were answered.
    """
    most, least, apart = (state.series[name] for name in ("clock_offset_max", "clock_offset_min", "clock_offset"))
    most_before = most.copy()
    np.minimum.at(most, after.series, after.ahead)
    np.maximum.at(least, before.series, before.ahead)
    compared = np.unique(np.concatenate([after.series, before.series]))
    off = (most[compared] < -grace) | (least[compared] > grace)
    new = compared[off & (apart[compared] == 0)]
    if not len(new) and not state.wrong_clocks:
        return []
    series, ahead, since = (np.concatenate(columns) for columns in zip(after, before, strict=True))
    is_after = np.arange(len(series)) < len(after.series)
    crosses = np.where(is_after, ahead < -grace, ahead > grace)
    found = []
    for s in new:
        own = np.flatnonzero((series == s) & crosses)
        first = own[since[own] == since[own].min()]
        behind = first[is_after[first]]
        apart[s] = ahead[behind].min() if len(behind) else ahead[first].max()
        found.append(_clock(state, s, since[first[0]], apart[s]))
    doubted = state.wrong_clocks.keys() | {(clock.partition, clock.broker) for clock in found}
    right = compared[~off & (np.abs(most[compared]) <= grace)]  # known of little alone, it would not end the doubt
    for s in right[[place in doubted for place in _places(state, right)]] if len(right) else ():
        own = series == s
        shows = since[own & is_after & (ahead <= grace)]
        from_ts = -1 if most_before[s] <= grace else shows.min()
        found += [_clock(state, s, ts, 0) for ts in since[own] if ts >= from_ts]
    return [clock for clock in sorted(found, key=lambda clock: (clock.ts, clock.ahead != 0)) if _applies(state, clock)]


def _places(state: State, series: I64) -> list[tuple[int, int]]:
    """Partition and broker of each of these series."""
    return list(zip(*(state.series[name][series].tolist() for name in ("partition", "broker")), strict=True))


def _applies(state: State, clock: WrongClock) -> bool:
    """Records that a clock is wrong; or, if one was, that it is right again: whether that is news."""
    place = clock.partition, clock.broker
    if clock.ahead:
        state.wrong_clocks[place] = clock.ahead
        return True
    return bool(state.wrong_clocks.pop(place, 0))


def _clock(state: State, series: int, ts: int, ahead: int) -> WrongClock:
    partition, broker, source = (int(state.series[name][series]) for name in ("partition", "broker", "source"))
    cluster, source_id, epoch = state.source_names.all[source]
    return WrongClock(partition, broker, (str(cluster), str(source_id), int(epoch)), int(ts), int(ahead))


def _match(reported: Records, recorded: Records, *, by_isr: bool = False) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """Return a mask of the `reported` rows that a controller recorded, by how much each is ahead, and since when.

    Rows match if key and topic id are equal, and with `by_isr` also the ISR; of several rows of the controller the last
    one counts. Without `by_isr` leader and leader epoch must be equal, too, if both rows have them: a partition epoch
    of two leaders was used before and after a restored snapshot. A request (`by_isr`) may be answered under a later
    leader epoch: before Kafka 3.6 a shrinking ISR begins one.
    """
    matched = np.zeros(len(reported), dtype=np.bool_)
    if not len(recorded) or not len(reported):
        return matched, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    number = np.zeros(len(recorded) + len(reported), dtype=np.int64)
    for k in (0, 2, 3) if by_isr else (0, 2):
        values = _dense_numbers(np.concatenate([recorded[:, k], reported[:, k]]))
        number = _dense_numbers(number * (values.max() + 1) + values)
    last = np.full(number.max() + 1, -1, dtype=np.int64)
    last[number[: len(recorded)]] = np.arange(len(recorded))
    at = last[number[len(recorded) :]]
    recorded_at = recorded[at, 1]
    matched = at >= 0
    if not by_isr:
        led, by = recorded[at, 4], reported[:, 5]
        matched &= (led == by) | (led == NULL) | (by == NULL)
    return matched, (reported[:, 1] - recorded_at)[matched], np.maximum(reported[:, 1], recorded_at)[matched]


def _dense_numbers(values: I64) -> I64:
    """Numbers from 0 on, equal for equal values."""
    numbers: I64 = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _partition_and_broker(reported: Records) -> I64:
    """The key of a clock offset: partition << 32 | broker."""
    key: I64 = (reported[:, 0] >> 32 << 32) | (reported[:, 3] & 0xFFFFFFFF)
    return key


def _keep_offsets(state: State, offsets: Records, horizon: int) -> None:
    """Keep clock offsets, (key, ts, ahead); of a broker that had one also that it is 0 again."""
    known = _rows(state.clock_offsets)
    with_offset = np.concatenate([known[:, 0], offsets[offsets[:, 2] != 0, 0]])
    offsets = offsets[np.isin(offsets[:, 0], with_offset)]
    if len(offsets):
        rows = np.unique(np.concatenate([known, offsets]), axis=0)
        old = rows[:, 1] <= horizon
        replaced = np.append((rows[1:, 0] == rows[:-1, 0]) & old[1:], False)
        state.clock_offsets = _arrays(CLOCK_OFFSETS, rows[~replaced])


def _rows(arrays: Arrays) -> Records:
    rows: Records = arrays.data[: arrays.count]
    return rows


def _arrays(layout: RecordLayout, rows: Records) -> Arrays:
    made = Arrays(layout)
    made.grow(len(rows))
    made.data[: len(rows)] = rows
    return made


def _earliest(rows: Records, ts: int) -> Records:
    """The earliest of rows that differ only in column `ts`."""
    rest = [k for k in range(rows.shape[1]) if k != ts]
    rows = rows[np.lexsort((rows[:, ts], *(rows[:, k] for k in reversed(rest))))]
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = (np.diff(rows[:, rest], axis=0) != 0).any(axis=1)
    earliest: Records = rows[first]
    return earliest
