"""State of one partition of one topic id, and the rows published about it."""

from __future__ import annotations

import json
from dataclasses import replace as with_other
from typing import Any

from msgspec import field
from msgspec.structs import replace

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.loss import Verdict
from pipelines.replication.partition.one_term import Term
from pipelines.replication.partition.registration import PartitionRegistration
from pipelines.replication.partition.rows import Place, regression
from pipelines.replication.partition.terms import Terms
from pipelines.replication.partition.truncations import HwMovedBack, Truncation, moved_back


class TopicState(Persisted):
    """The state of one partition of one topic id, its open decisions, and rows not yet taken."""

    cluster: str
    topic: str
    partition: int
    registration: PartitionRegistration = field(default_factory=PartitionRegistration)
    isr: IsrHistory = field(default_factory=IsrHistory)
    terms: Terms = field(default_factory=Terms)
    truncations: list[Truncation] = field(default_factory=list)
    hws_moved_back: list[HwMovedBack] = field(default_factory=list)
    judge_again_at: int | None = None
    now: int = 0
    race_window_us: int = 150_000
    closes_at: int | None = None
    """When the history of a deleted topic ends."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    """Rows of silver/isr_changes."""
    regressions: list[dict[str, Any]] = field(default_factory=list)
    """Rows of silver/hw_regressions."""
    provisional: list[tuple[int, PartitionEvent]] = field(default_factory=list)
    """Events that only a controller reports, and when each counts unless another broker refutes it."""
    restored_at: int = 0
    """When leader epochs began again below, as a snapshot was restored: the topic in the place before is of before."""
    printed: tuple[int, int] | None = None
    """The last HW that a tool printed: its time, and it."""

    def due(self) -> int | None:
        """The earliest time at which something waits to be decided."""
        # Asked before and after every event: a loop takes a third of the time of lists.
        first = NEVER if self.judge_again_at is None else self.judge_again_at
        for term in self.terms.terms:
            if term.due and term.due < first:
                first = term.due
        isr = self.isr.due()
        if isr is not None and isr < first:
            first = isr
        for due, _ in self.provisional:
            if due < first:
                first = due
        for truncation in self.truncations:
            if truncation.due < first:
                first = truncation.due
        for pending in self.terms.pending_hws:
            if pending.due < first:
                first = pending.due
        for back in self.hws_moved_back:
            if back.due < first and not back.published:
                first = back.due
        return None if first == NEVER else first

    def decision_time(self) -> int:
        """When a decision about the present event falls due: one race window after the largest time so far."""
        return self.now + self.race_window_us

    def publish_term(self, term: Term, verdict: Verdict | None) -> None:
        """Publish the verdict on a term where it is new or differs from the one published last."""
        if verdict is None and term.published is None:
            return
        withdrawn = {"withdrawn": True}
        verdict = verdict or Verdict(
            "stale_leader_hw", "proven", withdrawn, None, None, term.start_hw, term.start_offset
        )
        content = json.dumps(verdict.row(), sort_keys=True)
        if content != term.published:
            term.published, term.revision = content, term.revision + 1
            place = with_other(self.place(term.broker_id, term.epoch, term.level), topic_id=term.topic_id)
            again = f"-{self.terms.lineage}" if self.terms.lineage else ""
            name = f"term-{term.epoch}.{term.ordinal}{again}"
            self.regressions.append(regression(place, verdict, name, term.ts, revision=term.revision))

    def publish_moved_back(self, back: HwMovedBack, term: Term, lookup: TermLookup, withdrawn: bool = False) -> None:
        """Publish that reports of a term moved back, or withdraws that."""
        verdict = moved_back(term, (back.before, back.hw), back.broker_id, back.ts, lookup)
        if withdrawn:
            verdict = replace(verdict, cls="stale_leader_hw", evidence={"withdrawn": True})
        place = with_other(self.place(term.broker_id, term.epoch, term.level), topic_id=term.topic_id)
        name = f"reports-{term.epoch}.{term.ordinal}-{back.ts}-{back.hw}"
        self.regressions.append(regression(place, verdict, name, back.ts, revision=1 + withdrawn))

    def publish(self, verdict: Verdict, name: str, ts: int, level: int | None, replica: int | None = None) -> None:
        """Publish a finding about the present leader's term; `level` None: at the level of that term."""
        leader, epoch = self.registration.leader_id, self.registration.leader_epoch
        if verdict.cls == "loss_not_excluded" and verdict.before is not None:  # decided later: another may lead by now
            leader, epoch = verdict.before.broker_id, verdict.before.epoch
        place = self.place(leader, epoch, self.level_of(epoch) if level is None else level)
        self.regressions.append(regression(place, verdict, name, ts, replica))

    def place(self, leader_id: int | None, leader_epoch: int | None, level: int) -> Place:
        topic_id = self.registration.topic_id
        return Place(self.cluster, self.topic, self.partition, topic_id, leader_id, leader_epoch, level)

    def level_of(self, leader_epoch: int | None) -> int:
        """The telemetry level of the leader of this epoch, 0 where no term of it is known."""
        term = self.terms.last_of_epoch(leader_epoch) if leader_epoch is not None else None
        return term.level if term else 0
