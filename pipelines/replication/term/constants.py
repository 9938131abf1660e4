"""The kernel's constants: event types, marks, and the fields of a packed row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import I64, NULL
from pipelines.replication.events.columns import CODE

LEADER, FOLLOWER, APPEND, FETCH, HW = (CODE[n] for n in ("leader", "follower", "append", "fetch", "hw"))

PROPOSED, ISR, REJECTED, REPLICA_LEO = (CODE[n] for n in ("isr_proposed", "isr", "isr_rejected", "replica_leo"))

ELECTION, TRUNCATE = CODE["election"], CODE["truncate"]

MATCHED, LEFT = 6, 7
"""A report that found its computed value: its row is dropped. One that matches nothing, and waits for a later row of
the same incarnation of its broker: if none comes, the broker may have been killed right behind it."""

SLOTS_FULL, HW_FULL, KEEP_FULL, SYNC_FULL, ENDED_FULL = 1, 2, 3, 4, 5
"""Why run_terms returned before the last job."""

Marks = npt.NDArray[np.uint8]

CONSUMED, PREDICTED, NOT_PREDICTED, MOVED_BACK, OF_FOLLOWER, BEGAN_MIDFLIGHT, RETRACTED, NOT_CUT_OFF = (
    1, 2, 4, 8, 16, 32, 64, 128,
)  # fmt: skip
"""Marks that a run leaves at each row: read; an ISR commit that the lag rule predicted, or did not; the second
successive low report (its row then holds, as `leader_leo`, the report that it lies below); an HW that a broker reports
as a follower; the first row of a broker seen leading whose `leader` event is missing; a row that shows the report false
against which others were low; one that shows that a report above every computed HW was not cut off by a kill, but is
wrong."""

DROPPED, AFTER_GAP = 0x100, 0x200
"""Bits of a packed row's `what`: a repeat or a copy of another row; rows are missing before it."""

STAT = (1 << 28) - 1
"""The statistics row in a packed row's `what`, once shifted."""


@hot
def kind_of(what: int) -> int:
    """The event type; -1 for a row that was rejected."""
    kind = what & 0xFF
    return kind if kind < 128 else -1


@hot
def stat_of(what: int) -> int:
    return (what >> 16) & STAT


@hot
def fetches_of(what: int) -> int:
    """The number of fetches in a row; any other event counts as one."""
    return 1 + (what >> 44)


@hot
def level_of(what: int) -> int:
    return (what >> 10) & 3


@hot
def replica_of(who: int) -> int:
    return (who << 32) >> 32


@hot
def unsigned(index: int) -> Any:
    """An index that is known not to count from the end: numba does not have to ask."""
    return np.uint64(index)


@kernel
def popcount(mask: int) -> int:
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


_FEW = 4
"""Places that are compared one by one: most lags are of few records, and no outcome of a search can be predicted."""


@hot
def first_not_below(ordered: I64, value: int) -> int:
    """The index of a value among ordered ones: its row, or its histogram bucket."""
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
    """The histogram bucket of a value that may fall into any: all bounds are compared, several at once."""
    below = 0
    for k in range(len(bounds)):
        below += bounds[k] < value
    return below


@hot
def lacks_fetches(lane: Record) -> bool:
    """Whether the leader's log has no fetches (levels 2 and 0): silence says nothing of a follower, and a report of the
    HW is the only evidence of LEOs."""
    return bool(lane.level % 2 == 0)


@hot
def attempt_was_in_vain(lane: Record, now: int) -> bool:
    """Whether LEOs are those of an attempt that raised nothing, though no replica is known to have held the HW.

    At level 2 every rise is printed, and LEOs where there was none. A replica outside the ISR may hold the HW while the
    leader does not know yet that the controller stopped it. And under min ISR no LEOs are printed, so that one may have
    caught up by then: it holds the HW for replica.lag.time.max.ms.
    """
    if lane.level != 2:
        return False
    thawed = lane.thawed != NULL and now - lane.thawed <= lane.lag_max
    return bool(thawed or popcount(lane.isr) < lane.assigned_count)
