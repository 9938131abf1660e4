"""The lives of a broker as a partition's history knows them: its starts, and whether they followed clean stops."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.metadata.brokers_and_configs import STARTS, BrokerState
from pipelines.replication.partition.events import TermLookup
from schemas.event_types import CLEAN_START, SESSION_EXPIRED

STARTS_US = 1_000_000
"""No broker starts faster: if it is in the ISR and answers within this time, it did not restart in between."""
UNTOLD_US = 60_000_000
"""A controller that tells nothing for this long may have ended: times of its rows are not known any finer, see
telemetry.sources."""
MOST_LOOKS = 12
"""The number of looks. The wait doubles with each, from UNTOLD_US to a day and a half."""


def count_clean_starts(states: Sequence[BrokerState], grace_us: int) -> int:
    """The number of starts after which a broker has its whole log: after a clean stop, or as a session with ZooKeeper
    expired, which the controller reports like a start (KafkaServer.startup registers again in the same process).

    Every log directory reports a clean stop (LogManager.loadLogs): those of one start come within the grace, or before
    the controller reports another start.
    """
    count, last, started_again, registers_again = 0, None, False, False
    for ts, detail, *_ in states:
        if detail == "started":
            started_again, registers_again = True, False
        elif detail == SESSION_EXPIRED:
            count, registers_again = count + (not registers_again), True
        elif detail == CLEAN_START:
            count += last is None or (started_again and ts - last > grace_us)
            last, started_again = ts, False
    return count


def is_life_told(broker_id: int, since: int, until: int, as_of: int, lookup: TermLookup) -> bool | None:
    """Whether every start of a broker in (since, until] was reported: by its own log, which has reported one by then
    and has no gap, or by a controller that goes on without a hole. None while a controller may still go on."""
    states = lookup.broker_states(broker_id, until)
    own = any(detail in STARTS for _, detail, *_ in states) or lookup.started_between(broker_id, -NEVER, until)
    if own and not lookup.term(broker_id, since, until).has_gap:
        return True
    if not states or as_of >= until + UNTOLD_US:
        return bool(states) and lookup.lives_told(since, until - STARTS_US, as_of)
    return None


def next_look(ts: int, as_of: int) -> int | None:
    """The time of the next look at whether the starts of a broker up to `ts` were reported: a controller is silent for
    hours and goes on without a hole. None after the last look."""
    return next((at for k in range(MOST_LOOKS) if (at := ts + (UNTOLD_US << k)) > as_of), None)
