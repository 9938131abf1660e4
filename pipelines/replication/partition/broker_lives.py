"""What a partition's history knows of the lives of a broker: its starts, and whether they followed clean stops."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.metadata.brokers_and_configs import BrokerState
from pipelines.replication.partition.events import TermLookup
from schemas.event_types import CLEAN_START


def count_clean_starts(states: Sequence[BrokerState], grace_us: int) -> int:
    """The number of starts after a clean stop. Every log directory reports one (LogManager.loadLogs): those of one
    start come within the grace, or before the controller reports another start."""
    count, last, started_again = 0, None, False
    for ts, detail, *_ in states:
        if detail == "started":
            started_again = True
        elif detail == CLEAN_START:
            count += last is None or (started_again and ts - last > grace_us)
            last, started_again = ts, False
    return count


def is_life_told(broker_id: int, until: int, lookup: TermLookup) -> bool:
    """Whether the starts of a broker are reported, up to `until`: by a controller, which is taken to report them all
    once it has named the broker, or by its own log, once it has reported one."""
    return bool(lookup.broker_states(broker_id, until)) or lookup.started_between(broker_id, -NEVER, until)
