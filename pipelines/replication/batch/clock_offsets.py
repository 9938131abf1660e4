"""How the clocks of brokers stand to the controller's, by the partition epochs of which both told.

What a broker tells of a partition epoch follows from what the controller recorded, by a way of some milliseconds. A
difference within the race window is that way; a larger one, up to the grace, is one of clocks.

What a broker tells comes after what was recorded, and what it asked for before: so its clock is ahead of the
controller's by no more than any difference of the first kind, and by no less than any of the second. Where that
excludes the grace either way the clock is wrong: it is reported (telemetry_gaps, kind `clock`) and not corrected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.copied_lines import list_hash
from pipelines.replication.batch.read import Batch
from pipelines.replication.compiled.records import Arrays, RecordLayout, Records
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import BY_CONTROLLER, CODE
from pipelines.replication.metadata.layout import APART, ASKED, HEARD, RECORDED
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State

KEPT_GRACES = 6
"""What one tells comes no later than two graces after what the other tells of it."""
_BY_BROKER = [CODE[name] for name in ("leader", "follower", "isr")]


class WrongClock(NamedTuple):
    """A clock that is known to be `ahead` of the controller's since `ts`, in microseconds, negative where it is behind;
    0: it is right again, in another incarnation. `source` and `seq` are the source (cluster, id, epoch) and the next
    number of its rows of the partition."""

    partition: int
    broker: int
    source: tuple[str, str, int]
    seq: int
    ts: int
    ahead: int


def compare_clocks(state: State, batch: Batch, rules: Rules) -> list[WrongClock]:
    """Takes in what controllers and brokers tell of partition epochs; the clocks that show to be wrong by it."""
    c = batch.columns
    rows = np.flatnonzero(batch.accepted.counts(batch.rare) & (c.partition_epoch >= 0))
    if not len(rows):
        return []
    grace, race = rules.reorder_grace_ms * 1000, rules.race_window_ms * 1000
    horizon = min(state.sources.settled.values(), default=-1) - KEPT_GRACES * grace
    series = batch.series[batch.rare[rows]].astype(np.int64)
    key = (state.series["partition"][series] << 32) | c.partition_epoch[rows]
    isr = list_hash(c.isr_from, c.isr_ids)[rows]
    by_controller = (c.kind[rows] == CODE["election"]) | (c.isr_from_whom[rows] == BY_CONTROLLER)
    by_broker = np.isin(c.kind[rows], _BY_BROKER) & ~by_controller
    asks = c.kind[rows] == CODE["isr_proposed"]
    told = np.stack([key, c.ts[rows], c.topic_id[rows]], axis=1).astype(np.int64)
    told_now = np.column_stack([told, isr])[by_controller]
    recorded = np.concatenate([_rows(state.recorded), told_now])
    heard = np.concatenate([_rows(state.heard), np.column_stack([told, c.broker[rows], series])[by_broker]])
    next_epoch = np.column_stack([told[:, 0] + 1, told[:, 1:], isr, series])
    asked = np.concatenate([_rows(state.asked), next_epoch[asks]])
    recorded, heard, asked = _first(recorded[recorded[:, 1] > horizon], 1), _first(heard, 1), _first(asked, 1)
    matched, ahead, since = _match(heard, recorded, 3)
    latest = np.concatenate([recorded, told_now[np.argsort(told_now[:, 1], kind="stable")]])
    answered, lead, answered_at = _match(asked, latest, 4)
    wrong = _wrong_clocks(state, (heard[matched, 4], ahead, since), (asked[answered, 4], lead, answered_at), grace)
    fresh = ~answered & (asked[:, 1] > horizon)
    state.asked = _arrays(ASKED, asked[fresh])
    near = (ahead >= 0) & (ahead <= race)
    told = np.stack([_place(heard[matched]), since, np.where(near, 0, ahead)], axis=1)
    _note_apart(state, told[np.abs(ahead) <= grace], horizon)
    state.recorded = _arrays(RECORDED, recorded[np.lexsort((recorded[:, 1], recorded[:, 0]))])
    state.heard = _arrays(HEARD, heard[~matched & (heard[:, 1] > horizon)])
    return wrong


def _wrong_clocks(
    state: State, told: tuple[I64, I64, I64], asked: tuple[I64, I64, I64], grace: int
) -> list[WrongClock]:  # fmt: skip
    """Draws the bounds of each series' clock closer, by (series, difference, time since when that is known) of what it
    told and what it asked for; those that exclude the grace now, and those that are right where one was wrong."""
    most, least, apart = (state.series[name] for name in ("ahead_most", "ahead_least", "apart"))
    known = np.full(state.series.count, -1, dtype=np.int64)
    for (series, ahead, since), bound, draw in ((told, most, np.minimum), (asked, least, np.maximum)):
        draw.at(bound, series, ahead)
        np.maximum.at(known, series, since)
    seen = np.unique(np.concatenate([told[0], asked[0]]))
    behind, ahead_of = most[seen] < -grace, least[seen] > grace
    off = np.where(behind, most[seen], np.where(ahead_of, least[seen], 0))
    fresh = (off != 0) & (apart[seen] == 0)
    apart[seen[fresh]] = off[fresh]
    found = []
    if state.clocks_apart:  # one that only may be right, because little is known of it, ends no doubt
        right = seen[(off == 0) & (np.abs(most[seen]) <= grace)]
        again = {(clock.partition, clock.broker): clock for clock in (_clock(state, s, known[s], 0) for s in right)}
        found += [clock for place, clock in again.items() if state.clocks_apart.pop(place, 0)]
    for s in seen[fresh]:
        clock = _clock(state, s, known[s], apart[s])
        state.clocks_apart[clock.partition, clock.broker] = clock.ahead
        found.append(clock)
    return found


def _clock(state: State, series: int, ts: int, ahead: int) -> WrongClock:
    partition, broker, source, seq = (
        int(state.series[name][series]) for name in ("partition", "broker", "source", "next_seq")
    )
    cluster, source_id, epoch = state.source_names.all[source]
    return WrongClock(partition, broker, (str(cluster), str(source_id), int(epoch)), seq, int(ts), int(ahead))


def _match(heard: Records, recorded: Records, columns: int) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """(which of `heard` the controller told too; of those by how much they are ahead, and since when that is known).

    They are one where key and topic id are, and the ISR too where the first `columns` include it; of several rows of
    the controller the last one counts.
    """
    matched = np.zeros(len(heard), dtype=np.bool_)
    if not len(recorded) or not len(heard):
        return matched, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    number = np.zeros(len(recorded) + len(heard), dtype=np.int64)
    for k in (0, 2, 3)[: columns - 1]:
        values = _numbers(np.concatenate([recorded[:, k], heard[:, k]]))
        number = _numbers(number * (values.max() + 1) + values)
    ts = np.full(number.max() + 1, -1, dtype=np.int64)
    ts[number[: len(recorded)]] = recorded[:, 1]
    then = ts[number[len(recorded) :]]
    matched = then >= 0
    return matched, (heard[:, 1] - then)[matched], np.maximum(heard[:, 1], then)[matched]


def _numbers(values: I64) -> I64:
    """Small numbers for values, equal ones for equal ones."""
    numbers: I64 = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _place(heard: Records) -> I64:
    """The key of `apart`: partition and broker."""
    key: I64 = (heard[:, 0] >> 32 << 32) | (heard[:, 3] & 0xFFFFFFFF)
    return key


def _note_apart(state: State, told: Records, horizon: int) -> None:
    """Keeps differences of clocks, and of brokers that had one also that there is none any more."""
    known = _rows(state.apart)
    apart = np.concatenate([known[:, 0], told[told[:, 2] != 0, 0]])
    told = told[np.isin(told[:, 0], apart)]
    if len(told):
        rows = np.unique(np.concatenate([known, told]), axis=0)
        old = rows[:, 1] <= horizon
        replaced = np.append((rows[1:, 0] == rows[:-1, 0]) & old[1:], False)
        state.apart = _arrays(APART, rows[~replaced])


def _rows(arrays: Arrays) -> Records:
    rows: Records = arrays.data[: arrays.count]
    return rows


def _arrays(of: RecordLayout, rows: Records) -> Arrays:
    made = Arrays(of)
    made.grow(len(rows))
    made.data[: len(rows)] = rows
    return made


def _first(rows: Records, ts: int) -> Records:
    """Of rows that differ in nothing but their time the earliest."""
    rest = [k for k in range(rows.shape[1]) if k != ts]
    rows = rows[np.lexsort((rows[:, ts], *(rows[:, k] for k in reversed(rest))))]
    fresh = np.ones(len(rows), dtype=np.bool_)
    fresh[1:] = (np.diff(rows[:, rest], axis=0) != 0).any(axis=1)
    earliest: Records = rows[fresh]
    return earliest
