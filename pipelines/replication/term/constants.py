"""What the term machine works on, as constants and tuples: rules, jobs, marks, statistics, names of columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Records, shape
from pipelines.replication.compiled.types import I64, NULL, NULL32
from pipelines.replication.events.columns import CODE
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.term.layout import HW_ROWS, LANES, RECORDED, REPLICAS, SYNC_ROWS, TERMS

LEADER, FOLLOWER, APPEND, FETCH, HW = (CODE[n] for n in ("leader", "follower", "append", "fetch", "hw"))

PROPOSED, ISR, REJECTED, REPLICA_LEO = (CODE[n] for n in ("isr_proposed", "isr", "isr_rejected", "replica_leo"))

ELECTION, TRUNCATE = CODE["election"], CODE["truncate"]

MATCHED, LEFT = 6, 7
"""A report that found its reconstructed value: its row is dropped. One that matches nothing, and waits for a later row
of the same incarnation of its broker: if none comes, the broker may have been killed right behind it."""

SLOTS_FULL, HW_FULL, KEEP_FULL, SYNC_FULL, ENDED_FULL = 1, 2, 3, 4, 5
"""Why run_lanes stopped early."""


class Settings(NamedTuple):
    """The rules that a lane follows, in microseconds; -1 where a rule is off."""

    race: int
    strict: int
    lag_max: int
    min_isr: int
    max_messages: int
    resolution: int
    replica_hw: int
    eligibility: int
    joiners: int
    grace: int


class Timeline(NamedTuple):
    """Broker states, configs, versions of brokers, what controllers recorded of partitions and brokers whose clocks are
    apart from theirs, as of a time: rows sorted by (key, ts)."""

    brokers: Records
    configs: Records
    versions: Records
    recorded: Records
    apart: Records


BROKERS = shape(key=0, ts=0, serving=0, epoch=NULL, started=NULL, failed=0)
"""A state of a broker: its incarnation, and when that registered, where told; `failed`: a log directory of it is gone,
else it is as before."""

VERSIONS_TOLD = shape(key=0, ts=0, told=0, value=0)
"""What a broker tells of the rules it follows, see versions."""

RULES = shape(
    race=0, lag_max=0, min_isr=0, max_messages=0, resolution=0, replica_hw=0, grace=0, bits=0, fixed=0,
)  # fmt: skip
"""The rules of one cluster: `bits` where a version tells none, `fixed` those that hold whatever it tells."""

CONFIGS = shape(key=0, ts=0, min_isr=NULL32, lag=NULL, topic_id=-1)

JOBS = shape(lane=0, start=0, end=0, told=0, everybody=0, heard=0, ceiling=0, holds_from=0, holds_to=0, final=0)
"""A lane to run with its rows order[start:end]; told, everybody, heard and ceiling bound what may be decided;
holds[holds_from:holds_to] are the times at which telemetry of its source went missing."""

HOLDS = shape(ts=NULL, unread=0)
"""When telemetry of a broker went missing; `unread`: lines are there, in a shape that was not understood."""

Marks = npt.NDArray[np.uint8]


class Stats(NamedTuple):
    """Per (broker, minute): events, append to HW and lag histograms."""

    events: I64
    append_to_hw: I64
    lag: I64
    bounds_us: I64
    bounds_records: I64


CONSUMED, FORETOLD, NOT_FORETOLD, MOVED_BACK, OF_FOLLOWER, BEGAN_MIDFLIGHT, TAKEN_BACK, NOT_CUT_OFF = (
    1, 2, 4, 8, 16, 32, 64, 128,
)  # fmt: skip
"""Marks that the run leaves at each position: read; an ISR commit that the lag rule foretold, or did not; the
second successive low report (its line then holds, as `leader_leo`, the report that it lies below); an HW that a
broker tells as a follower; the first row of a broker seen leading whose start was not told; a row that shows the
report false against which others were low; one that shows that a report above every computed HW was not cut off by a
kill, but is wrong."""

LANE, SLOT, ROW, SYNC, TERM = LANES.at, REPLICAS.at, HW_ROWS.at, SYNC_ROWS.at, TERMS.at

_COLUMNS = len(HW_ROWS.defaults)

BROKER, CONFIG, RECORD, JOB, HELD = BROKERS.at, CONFIGS.at, RECORDED.at, JOBS.at, HOLDS.at

TOLD, RULE = VERSIONS_TOLD.at, RULES.at


@hot
def declared(J: Records, P: Records, L: Records, R: Records, O: Records) -> bool:
    """Whether rows are as long as declared: from here on that is a constant, and where one stands no product."""
    return bool(
        J.shape[1] == len(JOB) and P.shape[1] == len(PACKED)
        and L.shape[1] == len(LANE) and R.shape[1] == len(SLOT) and O.shape[1] == len(ROW)
    )  # fmt: skip


@hot
def place_of(width: int, lane: int, slot: int) -> Any:
    """Where a slot of a lane stands: without a sign, or numba would ask of it whether it counts from the end."""
    return np.uint64(lane * width + slot)


@hot
def copy_row(source: Records, at: int, target: Records, to: int) -> None:
    """Copies a row of HW_ROWS."""
    for column in range(_COLUMNS):
        target[to, column] = source[at, column]


@hot
def kind_of(what: int) -> int:
    kind = what & 0xFF
    return kind if kind < 128 else -1


STAT = (1 << 28) - 1
"""The statistics row of a line, once shifted."""


@hot
def stat_of(what: int) -> int:
    return (what >> 16) & STAT


@hot
def fetches_of(what: int) -> int:
    """How many fetches a line stands for; any other event is one."""
    return 1 + (what >> 44)


@hot
def level_of(what: int) -> int:
    return (what >> 10) & 3


@hot
def replica_of(who: int) -> int:
    return (who << 32) >> 32


@kernel
def popcount(mask: int) -> int:
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


_FEW = 4
"""Places that are asked one by one: most lags are of few records, and what a search comes upon cannot be foretold."""


@hot
def first_not_below(ordered: I64, value: int) -> int:
    """Where a value stands among ordered ones: the row itself, or the histogram bucket it falls into."""
    for low in range(min(_FEW, len(ordered))):
        if value <= ordered[low]:
            return low
    low, left = 0, len(ordered)
    while left > 0:
        half = (left + 1) >> 1
        low += half if ordered[np.uint64(low + half - 1)] < value else 0
        left -= half
    return low


@hot
def bucket_of(bounds: I64, value: int) -> int:
    """The histogram bucket of a value that may fall into any: all bounds are asked, several at once."""
    below = 0
    for k in range(len(bounds)):
        below += bounds[k] < value
    return below


@hot
def lean(L: Records, lane: int) -> bool:
    """Levels 2 and 0 tell no fetches: silence says nothing, and a report is the only witness of LEOs."""
    return bool(L[lane, LANE.level] % 2 == 0)


@hot
def in_vain(L: Records, lane: int, now: int) -> bool:
    """Whether LEOs are those of an attempt that raised nothing, though nobody is known to have held the HW.

    At level 2 every rise is printed, and LEOs where there was none. A replica outside the ISR may hold the HW of which
    the leader has not heard yet that the controller stopped it. And under min ISR no LEOs are printed, so that one may
    have caught up by then: it holds the HW for replica.lag.time.max.ms.
    """
    if L[lane, LANE.level] != 2:
        return False
    thawed = L[lane, LANE.thawed] != NULL and now - L[lane, LANE.thawed] <= L[lane, LANE.lag_max]
    return bool(thawed or popcount(L[lane, LANE.isr]) < L[lane, LANE.assigned_count])
