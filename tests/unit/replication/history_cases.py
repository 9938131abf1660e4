"""Events and a TermLookup for the tests of a partition's history, in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipelines.replication.metadata.brokers_and_configs import BrokerState
from pipelines.replication.partition.events import PartitionEvent, TermSummary
from pipelines.replication.partition.history import PartitionHistory

FULL = TermSummary(level=3)
T1, T2 = "first-topic-id", "second-topic-id"
ALIVE = [(-1000, "unfenced", None)]
"""What is known of a broker whose life a case says nothing of: it served before, and did not start again."""


def summary(hmax: int | None = None, **known: Any) -> TermSummary:
    return TermSummary(hmax=hmax, **{"level": 3, "reported": hmax, **known})


@dataclass
class FakeLookup:
    """A TermLookup with terms by (broker, start ms), broker states as (ms, detail, epoch), when brokers started, and
    from when to when a controller reports states."""

    terms: dict[tuple[int, int], TermSummary] = field(default_factory=dict)
    states: dict[int, list[tuple[int, str, int | None]]] = field(default_factory=dict)
    starts: dict[int, list[int]] = field(default_factory=dict)
    least: int = 1
    told: tuple[int, int] = (-1_000_000, 1 << 60)
    race_window_us: int = 150_000
    grace_us: int = 10_000_000

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSummary:
        return self.terms.get((broker_id, start_ts // 1000), FULL)

    def broker_states(self, broker_id: int, as_of: int) -> list[BrokerState]:
        known = ((ms * 1000, d, e) for ms, d, e in self.states.get(broker_id, ALIVE))
        return [(*state, "controller", 0, 0) for state in known if state[0] <= as_of]

    def sampled(self, broker_id: int, epoch: int, topic_id: str | None, as_of: int) -> TermSummary | None:
        return None

    def answered_always(self, broker_id: int, after: int, until: int) -> bool:
        return True

    def started_between(self, broker_id: int, after: int, until: int) -> bool:
        return any(after < ms * 1000 <= until for ms in self.starts.get(broker_id, []))

    def told_through(self, sources: Any, since: int, until: int) -> bool:
        return True

    def lives_told(self, since: int, until: int, as_of: int) -> bool:
        return self.told[0] <= since // 1000 and until // 1000 <= self.told[1]

    def min_isr_told(self, by_leader: int | None, as_of: int) -> bool:
        return True

    def most_min_isr(self, since: int, until: int, by_leader: int | None) -> int:
        return max(self.min_isr(ts, by_leader) for ts in (since, until))

    def is_deposed(self, row, ts, as_of):
        return False

    def min_isr(self, as_of: int, by_leader: int | None = None) -> int:
        return self.least if by_leader is None else by_leader


def leader(ms: int, broker: int, epoch: int, leo: int, hw: int, isr: tuple[int, ...], **more: Any) -> PartitionEvent:
    event = {"partition_epoch": epoch, "topic_id": T1, "level": 3, "leader_id": broker, **more}
    return PartitionEvent(ms * 1000, "leader", broker, leader_epoch=epoch, leo=leo, hw=hw, isr=isr, **event)


def follower(ms: int, broker: int, epoch: int, leo: int, hw: int, of: int) -> PartitionEvent:
    return PartitionEvent(ms * 1000, "follower", broker, leader_epoch=epoch, leader_id=of, leo=leo, hw=hw, level=3)


def isr(
    ms: int, broker: int, isr: tuple[int, ...], epoch: int | None, detail: str = "metadata", **more: Any
) -> PartitionEvent:
    return PartitionEvent(ms * 1000, "isr", broker, isr=isr, partition_epoch=epoch, detail=detail, topic_id=T1, **more)


def proposed(ms: int, broker: int, isr: tuple[int, ...], detail: str = "shrink") -> PartitionEvent:
    return PartitionEvent(ms * 1000, "isr_proposed", broker, isr=isr, detail=detail)


def election(ms: int, leader: int, epoch: int, **more: Any) -> PartitionEvent:
    return PartitionEvent(ms * 1000, "election", 9, leader_id=leader, leader_epoch=epoch, **{"topic_id": T1, **more})


def truncate(ms: int, replica: int, to: int, **more: Any) -> PartitionEvent:
    return PartitionEvent(ms * 1000, "truncate", replica, replica_id=replica, leo=to, **more)


def history_of(events: Iterable[PartitionEvent], lookup: FakeLookup) -> PartitionHistory:
    """The history of these events, everything decided."""
    history = PartitionHistory("c", "clicks", 0)
    for event in events:
        history.settle(event.ts, lookup)
        history.apply(event, lookup)
    history.settle(1 << 61, lookup)
    return history


def regressions(events: Iterable[PartitionEvent], lookup: FakeLookup) -> list[dict[str, Any]]:
    """The regressions at the end: of each only its highest revision."""
    last = {row["regression_id"]: row for row in history_of(events, lookup).take_regressions()}
    return list(last.values())


def changes(events: Iterable[PartitionEvent], lookup: FakeLookup) -> list[dict[str, Any]]:
    """The ISR changes at the end, of each partition epoch the last revision."""
    last = {row["partition_epoch"]: row for row in history_of(events, lookup).take_isr_changes()}
    return [last[epoch] for epoch in sorted(last)]


def brief(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["class"], row["severity"], row["proof"], row["lost_from"], row["lost_to"]
