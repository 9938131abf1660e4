"""The changes of state of one partition of one topic id by each event."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.partition import decisions
from pipelines.replication.partition.commitment import by_controller, provisional
from pipelines.replication.partition.contradictions import contradicted_entries
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.loss import Verdict, judge
from pipelines.replication.partition.one_term import BrokerPosition, Term, TermKey
from pipelines.replication.partition.printed_ends import count_printed_hw, judge_printed_hw
from pipelines.replication.partition.registration import PartitionRegistration
from pipelines.replication.partition.stored_high_watermarks import (
    attribute_stored_hw,
    count_hw_of_follower,
    has_unknown_epoch,
    raised,
    take_checkpoints,
)
from pipelines.replication.partition.topic_ids import CONFIRMATION_US
from pipelines.replication.partition.topic_state import TopicState
from pipelines.replication.partition.truncations import HwMovedBack, truncation_of
from schemas.event_types import epoch_entries

KEPT_MOVED_BACK = KEPT_PROVISIONAL = 8
REGISTRATION_US = 60_000_000
"""Default of initial.broker.registration.timeout.ms: a broker not registered so long after its start gives up."""


class TopicHistory(TopicState):
    """Takes events in canonical order and publishes ISR changes and HW regressions.

    A decision about something at `ts` falls due one race window after the largest time so far: what other sources
    report within it is known then. `decide(at)` takes the decisions due by `at`; every event up to a decision's time
    must have been applied before. So the rows do not depend on how the events are cut, only on their order.
    """

    def apply(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """Apply one event."""
        if event.ts > self.now:
            self.now = event.ts
        self.race_window_us = lookup.race_window_us
        if event.event_type in ("isr", "hw") and not by_controller(event):
            self.terms.take_epoch(event)
        if event.log_start is not None and event.event_type not in ("leader", "truncate"):
            self.terms.log_start = max(self.terms.log_start, event.log_start)
        if event.event_type == "leader":
            self._leader(event, lookup)
        elif event.event_type == "follower":
            self._follower(event, lookup)
        elif event.event_type == "election" and event.leo is not None and event.leader_id == event.broker_id:
            self._start_without_isr(event, lookup)
        elif event.event_type == "midflight":
            self._midflight(event)
        elif event.event_type == "truncate":
            truncation = truncation_of(event, self.decision_time(), self.terms)
            self.truncations.extend([truncation] if truncation and truncation not in self.truncations else [])
            if self.terms.folded_term is None:
                self.judge_again_at = self.decision_time()
        elif event.event_type == "hw":
            self._hw(event, lookup)
        elif event.event_type in ("lost", "gap"):
            self._gap(event)
        elif event.event_type == "clock":
            self._clock(event)
        elif event.event_type == "sample":
            self._sample_of_disk(event, lookup)
        elif not (event.is_print and self.isr.has_epochs):  # logs tell changes to the millisecond, prints to the minute
            self._isr(event, lookup)

    def decide(self, at: int, as_of: int, lookup: TermLookup) -> None:
        """Take every decision due by `at`, from what is known as of `as_of`."""
        if self.provisional:
            self._accept_provisional(at, lookup)
        decisions.decide(self, at, as_of, lookup)

    def zombie_rise(self, term: Term, hw: int, ts: int, lookup: TermLookup) -> None:
        """A deposed leader's HW rose after its term was judged: what it committed counts for that term.

        It may go on for as long as it does not know of its successor; one verdict is enough for what it does until it
        knows, or until clocks can be no further apart.
        """
        self.now = max(self.now, ts)
        if term.summary is None:
            return
        reported = lookup.term(term.broker_id, term.start_ts or 0, ts + lookup.race_window_us).reported
        term.summary = replace(term.summary, hmax=max(hw, term.summary.hmax or 0), reported=reported)
        term.summary_at = max(term.summary_at, ts)
        if term is self.terms.folded_term:
            self.terms.base = raised(self.terms.base, hw, "telemetry", term)
        again = self.now + CONFIRMATION_US
        self.judge_again_at = again if self.judge_again_at is None else min(self.judge_again_at, again)

    def begin_after(self, old: TopicHistory, event: PartitionEvent, lookup: TermLookup) -> None:
        """Publish that this topic took the place of a deleted one."""
        self.registration.topic_id, self.isr.floor = event.topic_id, 0
        _, marks = judge(old.terms, max(old.now, event.ts), lookup)
        last = (marks or [old.terms.base])[-1]
        before = old.terms.terms[-1] if old.terms.terms else old.terms.folded_term
        evidence = {"topic_id": [old.registration.topic_id, event.topic_id]}
        verdict = Verdict("topic_recreated", "proven", evidence, before, last.offset, event.hw, event.leo)
        self.publish(verdict, "recreated", event.ts, event.level)

    def goes_back(self, event: PartitionEvent, lookup: TermLookup) -> bool:
        """Whether an event shows that leader epochs began again below."""
        known = event.event_type in ("leader", "follower") or (event.event_type == "isr" and not by_controller(event))
        if not known or event.watched:
            return False
        return self.terms.goes_back(event) or self.isr.goes_back(event) or self._resumes_ended_epoch(event, lookup)

    def _resumes_ended_epoch(self, event: PartitionEvent, lookup: TermLookup) -> bool:
        """Whether a leader resumes an epoch that had ended before its process began: without a restored snapshot the
        process would know of later epochs.

        The end of the epoch and the registration of the broker are both dated by the controller's clock. A broker first
        leads by the metadata that it has before it is registered (BrokerServer.startup), and prints that once its logs
        are recovered (BrokerMetadataPublisher.initializeManagers).
        """
        position = self.terms.positions.get(event.broker_id)
        if event.event_type != "leader" or position is None or not position.led or position.epoch != event.leader_epoch:
            return False
        states = lookup.broker_states(event.broker_id, event.ts)
        registered = max((ts for ts, detail, *_ in states if detail == "started"), default=0)
        return self.isr.had_ended(position.epoch, registered - REGISTRATION_US)

    def is_before_restoration(self, event: PartitionEvent, restored_at: int) -> bool:
        """Whether an event that comes late is of before leader epochs began again below: its broker has not begun in
        those. Of a node that never led or followed before its clock alone tells."""
        grace_us = 0 if event.broker_id in self.terms.positions else CONFIRMATION_US
        return event.ts < restored_at - grace_us

    def leave(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """A broker begins below its last leader epoch: what it stored is of a term before that."""
        self.now = max(self.now, event.ts)
        self._attribute_stored_hw(event, lookup)

    def restore(self, event: PartitionEvent, lookup: TermLookup) -> TopicHistory:
        """The history that follows on as leader epochs begin again below: all that was told came before, whatever its
        epochs, and is decided now; what comes late of it is judged again."""
        self.leave(event, lookup)
        after = TopicHistory(self.cluster, self.topic, self.partition, closes_at=self.closes_at, now=self.now)
        known = [*self.terms.terms]
        after.restored_at = self.terms.lineage_begins_at(event)
        after.terms = self.terms.begin_lineage(after.restored_at, event.ts, CONFIRMATION_US)
        later = [t for t in known if t not in self.terms.terms]
        self.decide(NEVER, event.ts, lookup)
        for term in later:
            self.publish_term(term, None)
        for term in self.terms.terms:
            term.keep_summary(event.ts, lookup)
        before = self.registration
        after.registration = PartitionRegistration(topic_id=before.topic_id, replicas=before.replicas)
        after.follow_on(self, event.ts, lookup)
        return after

    def follow_on(self, before: TopicHistory, as_of: int, lookup: TermLookup) -> None:
        """Take Hmax, and the last term, from before leader epochs began again below, until its own first is folded."""
        _, marks = judge(before.terms, as_of, lookup, all_over=True)
        for term in before.terms.terms:
            if not term.due:
                term.keep_summary(as_of, lookup)
        known = self.terms.base, self.terms.folded_term
        begun = [t for t in before.terms.terms if t.start_ts is not None]
        if self.terms.newest_folded is not None:
            return
        self.terms.base = replace((marks or [before.terms.base])[-1])
        if self.terms.base.unreported_epoch is not None:
            self.terms.base.unreported_epoch = -1  # whatever its number, it is no later one than any of these
        self.terms.folded_term = replace(begun[-1]) if begun else before.terms.folded_term
        if known != (self.terms.base, self.terms.folded_term):
            self.judge_again_at = self.decision_time()

    def _leader(self, event: PartitionEvent, lookup: TermLookup) -> None:
        if event.watched:
            return self._sampled_leader(event, lookup)
        self._begin_own_term(event, lookup)
        own = event.leader_id == event.broker_id
        return self._isr(event if own else replace(event, leader_id=event.broker_id), lookup)

    def _begin_own_term(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """Begin the term that a leader's own log tells, unless that is one that is known, told once more."""
        across_seam, position = self.terms.crosses_seam(event), self.terms.positions.get(event.broker_id)
        if across_seam and position is not None and self.terms.tells_again(event):
            if position.ts == event.ts:
                position.source_id, position.source_epoch = event.source_id, event.source_epoch
            return
        is_earlier = across_seam and position is not None and event.ts < position.ts
        if not is_earlier:
            self._attribute_stored_hw(event, lookup)
        if self.terms.is_folded(event.leader_epoch or 0):
            return
        term = self.terms.begin(event, self.decision_time(), self.registration.topic_id)
        term.behind_gap = event.broker_id in self.terms.with_initial_gap
        term.across_seam = across_seam and (term.ordinal > 0 or (position is not None and position.epoch < 0))
        # by metadata of before that, see _resumes_ended_epoch, or its clock is ahead of the controller's
        term.had_ended = term.ordinal > 0 and self.isr.had_ended(term.epoch, event.ts)
        self.judge_again_at = self.decision_time()
        if not is_earlier:
            self.terms.positions[event.broker_id] = _position(event, term.epoch, term.key, led=True)
        decisions.count_pending_hws(self, event.ts, lookup)

    def _sampled_leader(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """A leader that a watcher sees, with where its epoch begins. What the leader's own log says of it is finer; and
        a watcher that starts again reports every leader again, while it cannot see one that starts again."""
        epoch = event.leader_epoch or 0
        known = self.terms.first_of_epoch(epoch)
        if not self.terms.is_folded(epoch) and (known is None or known.start_ts is None):
            self.judge_again_at = self.decision_time()
            term = self.terms.begin(event, self.decision_time(), self.registration.topic_id)
            term.entries = tuple(epoch_entries(event.detail))
            position = BrokerPosition(term.epoch, event.leo, None, True, term.key, ts=event.ts)
            self.terms.positions[event.broker_id] = position
        seen = replace(event, event_type="isr", detail="metadata", leader_id=event.broker_id)
        self._isr(seen, lookup)

    def _midflight(self, event: PartitionEvent) -> None:
        """A broker leads whose start was not reported: what it commits counts for the term after it all the same."""
        registration, last = self.registration, self.terms.terms[-1] if self.terms.terms else None
        epoch = event.leader_epoch if event.leader_epoch is not None else registration.leader_epoch
        epoch = -1 if epoch is None else epoch
        if last is not None and (epoch < last.epoch or (epoch, event.broker_id) == (last.epoch, last.broker_id)):
            return
        begun = replace(event, leader_epoch=epoch, leo=None)
        term = self.terms.begin(begun, self.decision_time(), registration.topic_id)
        self.terms.positions[event.broker_id] = _position(begun, epoch, term.key, led=True)
        self.terms.positions[event.broker_id].ts = 0

    def _follower(self, event: PartitionEvent, lookup: TermLookup) -> None:
        position = self.terms.positions.get(event.broker_id)
        if position is not None and self.terms.crosses_seam(event) and event.ts <= position.ts:
            return
        self._compare_with_own_hw(event, lookup)
        last_term = self._attribute_stored_hw(event, lookup)
        epoch = event.leader_epoch if event.leader_epoch is not None else self.registration.leader_epoch or 0
        if event.leader_id == -1:
            self.terms.leaderless = max(self.terms.leaderless, epoch)
        now = self.terms.positions[event.broker_id] = _position(event, epoch, last_term, led=False)
        now.followed_since = event.ts
        if position is not None and position.epoch == epoch:
            self.terms.restarted[event.broker_id] = event.ts
            now.followed_since = position.followed_since or position.ts or event.ts
        self.registration.apply(event)

    def _attribute_stored_hw(self, event: PartitionEvent, lookup: TermLookup) -> TermKey | None:
        self.judge_again_at = self.decision_time()
        return attribute_stored_hw(event, self.terms, self.isr, self.registration.replicas, lookup)

    def _compare_with_own_hw(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """A follower may start with a HW below its own earlier one."""
        position = self.terms.positions.get(event.broker_id)
        if position is None or event.hw is None:
            return
        led = self.terms.at(position.last_term) if position.led else None
        hmax = led.summary_as_of(event.ts, lookup).hmax if led else None
        self._publish_if_lowered(event, max((h for h in (position.hw, hmax) if h is not None), default=None))

    def _publish_if_lowered(self, event: PartitionEvent, before: int | None) -> None:
        if before is None or event.hw is None or event.hw >= before:
            return
        replica = event.replica_id if event.replica_id is not None else event.broker_id
        evidence = {"broker": replica, "hw": [before, event.hw]}
        verdict = Verdict("follower_hw_lowered", "proven", evidence, None, before, event.hw)
        name = f"replica-{replica}-{event.event_type}-{event.ts}-{event.hw}"
        self.publish(verdict, name, event.ts, event.level, replica)

    def _hw(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """A follower's HW that fell, or a finding about a leader's reports."""
        if event.detail in ("reports_back", "taken_back"):
            return self._log_cut(event) if event.watched else self._moved_back(event, lookup)
        if event.detail == "not_cut_off":
            return self._not_cut_off(event)
        if event.detail == "of_follower":
            self.judge_again_at = self.decision_time()
            return count_hw_of_follower(event, self.terms, lookup)
        replica = event.replica_id if event.replica_id is not None else event.broker_id
        position = self.terms.positions.get(replica)
        before = event.before if event.before is not None else position.hw if position else None
        if all((cut.replica_id, cut.to) != (replica, event.hw) for cut in self.truncations):  # the cut is told
            self._publish_if_lowered(event, before)
        if position is not None:
            position.hw = event.hw
        return None

    def _moved_back(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """Reports of a term moved back; or the earlier report was false, and they did not."""
        term = self.terms.last_led(event.broker_id)
        if term is None:
            return
        if event.detail == "reports_back":
            due = self.decision_time()
            back = HwMovedBack(event.ts, due, term.key, event.broker_id, event.before, event.hw)
            self.hws_moved_back = [*self.hws_moved_back[1 - KEPT_MOVED_BACK :], back]
            return
        last = next((b for b in reversed(self.hws_moved_back) if b.term == term.key), None)
        if last is not None:
            self.hws_moved_back.remove(last)
            if last.published:
                self.publish_moved_back(last, term, lookup, withdrawn=True)

    def _log_cut(self, event: PartitionEvent) -> None:
        """A leader's log ends below a HW that it had answered a watcher in the same epoch: it started again without
        what lies between. A start that its own log tells has a verdict of its own; where topics have no ids, the topic
        may have been created anew."""
        of_epoch = [t for t in self.terms.terms if t.epoch == event.leader_epoch and t.ordinal > 0]
        if event.leo is None or any(t.start_offset is not None and t.start_offset <= event.leo for t in of_epoch):
            return
        evidence: dict[str, Any] = {"broker": event.broker_id, "hw": [event.before, event.leo]}
        evidence |= {"missing": ["the topic's id"]} if event.topic_id is None else {"bound": "at_least"}
        hw, end, proof = event.before, event.leo, "unproven" if event.topic_id is None else "bounded"
        verdict = Verdict("hw_moved_back", proof, evidence, None, hw, end, None, end, hw)
        self.publish(verdict, f"end-{event.leader_epoch}-{event.ts}-{event.leo}", event.ts, event.level)

    def _not_cut_off(self, event: PartitionEvent) -> None:
        """A leader went on after a report that nothing else confirms: it was wrong, and does not count."""
        for term in self.terms.terms:
            if term.broker_id == event.broker_id and term.summary is not None and term.summary.cut_off is not None:
                term.summary = replace(term.summary, cut_off=None)
                self.judge_again_at = self.decision_time()

    def _gap(self, event: PartitionEvent) -> None:
        """Telemetry of a broker is missing: of the term it leads, unless it has reported a later one."""
        position = self.terms.positions.get(event.broker_id)
        if position is not None:
            position.has_gap = True
        else:
            self.terms.with_initial_gap |= {event.broker_id}
        term = self.terms.at(position.last_term) if position and position.led else None
        if term is not None:
            term.has_gap = True
            term.summary = replace(term.summary, has_gap=True) if term.summary else None
            self.judge_again_at = self.decision_time()

    def _sample_of_disk(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """A replica's checkpoint files; one of an epoch whose election may be told yet waits, at most for the grace."""
        if event.is_print:
            self._printed_hw(event)
            return
        self.judge_again_at = self.decision_time()
        self.isr.contradictions += contradicted_entries(event, self.terms)
        of_replica = [(d, e) for d, e in self.provisional if (e.event_type, e.broker_id) == ("sample", event.broker_id)]
        self.provisional = [waiting for waiting in self.provisional if waiting not in of_replica]
        for _, earlier in of_replica:
            take_checkpoints(earlier, self.terms, lookup.grace_us)
        if has_unknown_epoch(event, self.terms):
            self.provisional = [*self.provisional[1 - KEPT_PROVISIONAL :], (event.ts + lookup.grace_us, event)]
        else:
            take_checkpoints(event, self.terms, lookup.grace_us)

    def _printed_hw(self, event: PartitionEvent) -> None:
        """A HW that a tool printed."""
        if count_printed_hw(event, self.terms):
            self.judge_again_at = self.decision_time()
        verdict = judge_printed_hw(event, self.printed, self.terms) if self.printed else None
        if verdict is not None:
            self.publish(verdict, f"printed-{event.ts}-{event.hw}", event.ts, event.level)
        self.printed = self.printed if event.hw is None else (event.ts, event.hw)

    def _clock(self, event: PartitionEvent) -> None:
        """The clock of a broker is wrong, or right again. A wrong one proves nothing about the order of events."""
        self.terms.wrong_clocks.pop(event.broker_id, None)
        if event.before:
            self.terms.wrong_clocks[event.broker_id] = event.before
            for term in self.terms.terms:
                term.loss_excluded = False
        self.judge_again_at = self.decision_time()

    def _isr(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """leader, election, isr, isr_proposed and isr_rejected: who is in the ISR, or is proposed for it."""
        if event.event_type == "isr_proposed":
            return self.isr.propose(event)
        if event.event_type == "isr_rejected":
            return self.isr.reject(event)
        due = self.decision_time()
        if event.watched:
            if self.isr.is_past(event, lookup.grace_us):
                return None
            if self.isr.has_epochs:  # others report ISRs, too, and theirs have the cause and the time
                due = max(due, event.ts + lookup.grace_us)
        unproven = provisional(event)
        if unproven and not self._is_confirmed(event):
            due = max(due, event.ts + lookup.grace_us)
            self.provisional = [*self.provisional[1 - KEPT_PROVISIONAL :], (due, event)]
        else:
            self._apply_metadata(event)
        last = self.registration
        newest = event.partition_epoch is None or event.partition_epoch == last.partition_epoch
        same = event.leader_id in (None, last.leader_id) and event.leader_epoch in (None, last.leader_epoch)
        leader = last if newest and same else event
        self.isr.observe(event, due, (leader.leader_id, leader.leader_epoch))
        if self.provisional and not unproven:
            self._settle_provisional()
        return None

    def _apply_metadata(self, event: PartitionEvent) -> None:
        """Apply what an event reports of an election and of the partition's registration."""
        if event.event_type == "election":
            self._election(event)
        self.registration.apply(event)

    def _start_without_isr(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """A leader's start up to Kafka 2.5, whose line names no ISR: an election that the leader itself tells."""
        self._begin_own_term(event, lookup)
        self.registration.apply(event)

    def _is_confirmed(self, event: PartitionEvent) -> bool:
        """Whether what only a controller reports is committed: its ISR is, or the leader that it names has started."""
        if event.partition_epoch is not None and event.isr is not None:
            return self.isr.proves(event)
        term = self.terms.first_of_epoch(event.leader_epoch) if event.leader_epoch is not None else None
        return term is not None and term.start_ts is not None and term.broker_id == event.leader_id

    def _settle_provisional(self) -> None:
        """Apply provisional events that are known to be committed, and drop those that are known never to be."""
        confirmed = [e for _, e in self.provisional if e.event_type != "sample" and self._is_confirmed(e)]
        self.provisional = [
            (due, event)
            for due, event in self.provisional
            if event not in confirmed and (event.event_type == "sample" or not self.isr.refutes(event))
        ]
        for event in confirmed:
            self._apply_metadata(event)

    def _accept_provisional(self, at: int, lookup: TermLookup) -> None:
        """Apply provisional events that nothing has refuted in time. They prove no loss."""
        ripe = [event for due, event in self.provisional if due <= at]
        self.provisional = [(due, event) for due, event in self.provisional if due > at]
        for event in ripe:
            known = self.registration.partition_epoch
            if event.event_type == "sample":
                take_checkpoints(event, self.terms, lookup.grace_us)
                self.judge_again_at = self.decision_time()
            elif lookup.is_deposed(event.reported_by, event.ts, at):
                continue
            elif event.partition_epoch is None or known is None or event.partition_epoch > known:
                self._apply_metadata(event)
            elif event.event_type == "election":
                self._election(event)

    def _election(self, event: PartitionEvent) -> None:
        """An election announces its term until its leader reports its start, and says whether it was unclean."""
        epoch, leader, folded = event.leader_epoch, event.leader_id, self.terms.newest_folded
        if epoch is None or leader is None or leader < 0 or (folded is not None and epoch <= folded):
            return
        term = self.terms.first_of_epoch(epoch)
        if term is None and (event.unclean or self.terms.is_announced_by(event)):
            term = self.terms.announce(epoch, leader, event.ts, self.now + CONFIRMATION_US)
            term.topic_id = event.topic_id or self.registration.topic_id
        elif term is not None and event.unclean and not term.unclean:
            self.judge_again_at = self.decision_time()
        if term is not None and event.unclean:
            term.unclean = True


def _position(event: PartitionEvent, epoch: int, last_term: TermKey | None, *, led: bool) -> BrokerPosition:
    """The position of a broker at its own start."""
    position = BrokerPosition(epoch, event.leo, event.hw, led, last_term, False, event.ts)
    position.source_id, position.source_epoch = event.source_id, event.source_epoch
    return position
