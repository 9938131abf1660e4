"""What happened to one partition of one topic id: ISR changes with their cause, HW regressions with a verdict."""

from __future__ import annotations

import json
from dataclasses import replace as with_other
from typing import Any

from msgspec import field
from msgspec.structs import replace

from pipelines.replication.partition.codec import Kept
from pipelines.replication.partition.commitment import provisional
from pipelines.replication.partition.events import Context, Note
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.loss import CRITICAL, Verdict, judge, loss_not_excluded
from pipelines.replication.partition.loss_exclusion import missing_to_exclude_loss
from pipelines.replication.partition.registration import Present
from pipelines.replication.partition.rows import Place, regression
from pipelines.replication.partition.stored_high_watermarks import credit, pay, raised
from pipelines.replication.partition.terms import KEPT_TERMS, Mark, Standing, Term, Terms
from pipelines.replication.partition.topic_ids import UNTOLD_US
from pipelines.replication.partition.truncations import (
    Back,
    Cut,
    across_clocks_and_gaps,
    cut_of,
    judge_cut,
    moved_back,
    still_grave,
)

EVER = 1 << 62
KEPT_BACKS = KEPT_DOUBTED = 8


class TopicHistory(Kept):
    """Consumes notes in canonical order and tells what they come to.

    A decision about something at `ts` falls due one race window after the largest time noted by then: what
    other sources tell within it is known. `decide(at)` takes the decisions due by `at`; every note up to a
    decision's time must have been applied ahead of it. So the rows do not depend on how the notes are cut,
    only on their order.
    """

    cluster: str
    topic: str
    partition: int
    present: Present = field(default_factory=Present)
    isr: IsrHistory = field(default_factory=IsrHistory)
    terms: Terms = field(default_factory=Terms)
    cuts: list[Cut] = field(default_factory=list)
    backs: list[Back] = field(default_factory=list)
    judge_again: int | None = None
    now: int = 0
    race: int = 150_000
    closes: int | None = None
    """When a deleted topic is told of no more."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    regressions: list[dict[str, Any]] = field(default_factory=list)
    doubted: list[tuple[int, Note]] = field(default_factory=list)
    """What a controller alone reports of the present state, and when it counts unless somebody says otherwise."""

    def apply(self, note: Note, context: Context) -> None:
        """Takes in one note."""
        self.now, self.race = max(self.now, note.ts), context.race_window_us
        if note.event_type == "leader":
            self._leader(note, context)
        elif note.event_type == "follower":
            self._follower(note, context)
        elif note.event_type == "midflight":
            self._midflight(note)
        elif note.event_type == "truncate":
            cut = cut_of(note, self._due(), self.terms)
            self.cuts.extend([cut] if cut and cut not in self.cuts else [])
        elif note.event_type == "hw":
            self._hw_fell(note, context)
        elif note.event_type in ("lost", "gap"):
            self._gap(note)
        elif note.event_type == "clock":
            self._clock(note)
        else:
            self._isr(note, context)

    def due(self) -> int | None:
        """The earliest time at which something waits to be decided."""
        waiting = [t.due for t in self.terms.terms if t.due]
        if (isr := self.isr.due()) is not None:
            waiting.append(isr)
        if self.judge_again is not None:
            waiting.append(self.judge_again)
        waiting += [due for due, _ in self.doubted]
        if self.cuts or self.backs or self.terms.owed:
            waiting += [c.due for c in self.cuts] + [o.due for o in self.terms.owed]
            waiting += [b.due for b in self.backs if not b.told]
        return min(waiting) if waiting else None

    def rise(self, term: Term, hw: int, ts: int) -> None:
        """A deposed leader's HW rose after its term was judged: what it committed counts for that term.

        It may go on for as long as it does not know of its successor; one verdict is enough for what it does until
        it has heard, or until clocks can be no further apart.
        """
        self.now = max(self.now, ts)
        if term.seen is None:
            return
        term.seen, term.seen_at = replace(term.seen, hmax=max(hw, term.seen.hmax or 0)), ts
        if term is self.terms.folded_term:
            self.terms.base = raised(self.terms.base, hw, "telemetry", term)
        again = self.now + UNTOLD_US
        self.judge_again = again if self.judge_again is None else min(self.judge_again, again)

    def recreated(self, old: TopicHistory, note: Note, context: Context) -> None:
        """Tells that this topic took the place of a deleted one; all that is told of it is news."""
        self.present.topic_id, self.isr.floor = note.topic_id, 0
        _, marks = judge(old.terms, max(old.now, note.ts), context)
        last = (marks or [old.terms.base])[-1]
        before = old.terms.terms[-1] if old.terms.terms else old.terms.folded_term
        evidence = {"topic_id": [old.present.topic_id, note.topic_id]}
        verdict = Verdict("topic_recreated", "proven", evidence, before, last.offset, note.hw, note.leo)
        self._tell(verdict, "recreated", note.ts, note.level)

    def _due(self) -> int:
        return self.now + self.race

    def _leader(self, note: Note, context: Context) -> None:
        self._credit(note, context)
        if not self.terms.too_late(note.leader_epoch or 0):
            term = self.terms.begin(note, self._due(), self.present.topic_id)
            term.behind_gap = note.broker_id in self.terms.missed
            key = (term.epoch, term.ordinal)
            self.terms.standings[note.broker_id] = Standing(term.epoch, note.leo, note.hw, True, key, ts=note.ts)
            self._pay(note.ts, context)
        self._isr(note if note.leader_id == note.broker_id else with_other(note, leader_id=note.broker_id), context)

    def _midflight(self, note: Note) -> None:
        """A broker leads and its start was not told: what it commits counts for the term after it all the same."""
        present, last = self.present, self.terms.terms[-1] if self.terms.terms else None
        epoch = note.leader_epoch if note.leader_epoch is not None else present.leader_epoch
        epoch = -1 if epoch is None else epoch
        if last is not None and (epoch < last.epoch or (epoch, note.broker_id) == (last.epoch, last.broker_id)):
            return
        term = self.terms.begin(with_other(note, leader_epoch=epoch, leo=None), self._due(), present.topic_id)
        self.terms.standings[note.broker_id] = Standing(epoch, None, note.hw, True, (epoch, term.ordinal))

    def _follower(self, note: Note, context: Context) -> None:
        self._lowered(note, context)
        part = self._credit(note, context)
        epoch = note.leader_epoch if note.leader_epoch is not None else self.present.leader_epoch or 0
        standing = self.terms.standings.get(note.broker_id)
        if standing is not None and standing.epoch == epoch:
            self.terms.restarted[note.broker_id] = note.ts
        self.terms.standings[note.broker_id] = Standing(epoch, note.leo, note.hw, False, part, ts=note.ts)
        self.present.take(note)

    def _credit(self, note: Note, context: Context) -> tuple[int, int] | None:
        self.judge_again = self._due()
        return credit(note, self.terms, self.isr, self.present.replicas, context)

    def _pay(self, at: int, context: Context) -> None:
        if pay(self.terms, at, context):
            self.judge_again = self._due()

    def _lowered(self, note: Note, context: Context) -> None:
        """A follower whose HW is below its own earlier one."""
        standing = self.terms.standings.get(note.broker_id)
        if standing is None or note.hw is None:
            return
        led = self.terms.at(standing.anchor) if standing.led else None
        seen = led.known(note.ts, context).hmax if led else None
        self._lower(note, max((h for h in (standing.hw, seen) if h is not None), default=None))

    def _lower(self, note: Note, before: int | None) -> None:
        if before is None or note.hw is None or note.hw >= before:
            return
        replica = note.replica_id if note.replica_id is not None else note.broker_id
        evidence = {"broker": replica, "hw": [before, note.hw]}
        verdict = Verdict("follower_hw_lowered", "proven", evidence, None, before, note.hw)
        self._tell(verdict, f"replica-{replica}-{note.event_type}-{note.ts}-{note.hw}", note.ts, note.level, replica)

    def _hw_fell(self, note: Note, context: Context) -> None:
        replica = note.replica_id if note.replica_id is not None else note.broker_id
        if note.detail in ("reports_back", "taken_back"):
            return self._reports_back(note, context)
        if note.detail == "not_cut_off":
            return self._not_cut_off(note)
        standing = self.terms.standings.get(replica)
        self._lower(note, note.before if note.before is not None else standing.hw if standing else None)
        if standing is not None:
            standing.hw = note.hw
        return None

    def _reports_back(self, note: Note, context: Context) -> None:
        """Reports of a term moved back, or those that did lie below one that was false: they did not."""
        term = self.terms.last_led(note.broker_id)
        if term is None:
            return
        part = (term.epoch, term.ordinal)
        if note.detail == "reports_back":
            back = Back(note.ts, self._due(), part, note.broker_id, note.before, note.hw)
            self.backs = [*self.backs[1 - KEPT_BACKS :], back]
            return
        last = next((b for b in reversed(self.backs) if b.part == part), None)
        if last is not None:
            self.backs.remove(last)
            if last.told:
                self._tell_back(last, term, context, withdrawn=True)

    def _not_cut_off(self, note: Note) -> None:
        """A leader went on after a report that nothing else shows: it was wrong, and counts for its term no more."""
        for term in self.terms.terms:
            if term.broker_id == note.broker_id and term.seen is not None and term.seen.cut_off is not None:
                term.seen = replace(term.seen, cut_off=None)
                self.judge_again = self._due()

    def _gap(self, note: Note) -> None:
        """Telemetry of a broker is missing: of the term it leads, while it has told of no later one."""
        standing = self.terms.standings.get(note.broker_id)
        if standing is not None:
            standing.gap = True
        else:
            self.terms.missed |= {note.broker_id}
        term = self.terms.at(standing.anchor) if standing and standing.led else None
        if term is not None:
            term.held = True
            term.seen = replace(term.seen, held=True) if term.seen else None
            self.judge_again = self._due()

    def _clock(self, note: Note) -> None:
        """The clock of a broker is wrong, or right again: nothing is proven by when it says that something was."""
        self.terms.apart.pop(note.broker_id, None)
        if note.before:
            self.terms.apart[note.broker_id] = note.before
            for term in self.terms.terms:
                term.excluded = False
        self.judge_again = self._due()

    def _isr(self, note: Note, context: Context) -> None:
        """leader, election, isr, isr_proposed and isr_rejected: who is, or asks to be, in sync."""
        if note.event_type == "isr_proposed":
            return self.isr.propose(note)
        if note.event_type == "isr_rejected":
            return self.isr.reject(note)
        due = self._due()
        if provisional(note) and not self._confirmed(note):
            due = max(due, note.ts + context.grace_us)
            self.doubted = [*self.doubted[1 - KEPT_DOUBTED :], (due, note)]
        else:
            self._take(note)
        newest = note.partition_epoch is None or note.partition_epoch == self.present.partition_epoch
        leader, now = (note.leader_id, note.leader_epoch), (self.present.leader_id, self.present.leader_epoch)
        same = all(told in (None, present) for told, present in zip(leader, now, strict=True))
        self.isr.witness(note, due, now if newest and same else leader)
        if self.doubted and not provisional(note):
            self._settle_doubted()
        return None

    def _take(self, note: Note) -> None:
        """What a row reports of an election, and of the present state."""
        if note.event_type == "election":
            self._elected(note)
        self.present.take(note)

    def _confirmed(self, note: Note) -> bool:
        """Whether what a controller alone reports is committed: its ISR is, or the leader that it names has begun."""
        if note.partition_epoch is not None and note.isr is not None:
            return self.isr.proves(note)
        term = self.terms.elected(note.leader_epoch) if note.leader_epoch is not None else None
        return term is not None and term.start is not None and term.broker_id == note.leader_id

    def _settle_doubted(self) -> None:
        """What controllers alone had reported is taken once it is known to be committed, dropped if it never was."""
        confirmed = [note for _, note in self.doubted if self._confirmed(note)]
        self.doubted = [
            (due, note) for due, note in self.doubted if note not in confirmed and not self.isr.refutes(note)
        ]
        for note in confirmed:
            self._take(note)

    def _believe_doubted(self, at: int) -> None:
        """Takes what a controller alone has reported, when nobody has said otherwise in time: it proves no loss."""
        ripe = [note for due, note in self.doubted if due <= at]
        self.doubted = [(due, note) for due, note in self.doubted if due > at]
        for note in ripe:
            known = self.present.partition_epoch
            if note.partition_epoch is None or known is None or note.partition_epoch > known:
                self._take(note)
            elif note.event_type == "election":
                self._elected(note)

    def _elected(self, note: Note) -> None:
        """An unclean election marks its term, and announces it while its leader has not told of it."""
        epoch, leader, folded = note.leader_epoch, note.leader_id, self.terms.folded_term
        if not note.unclean or epoch is None or leader is None or leader < 0 or (folded and epoch <= folded.epoch):
            return
        term = self.terms.elected(epoch)
        if term is None:
            term = self.terms.announce(epoch, leader, note.ts, self.now + UNTOLD_US)
            term.topic_id = note.topic_id or self.present.topic_id
        elif not term.unclean:
            self.judge_again = self._due()
        term.unclean = True

    def decide(self, at: int, as_of: int, context: Context) -> None:
        """Takes every decision due by `at`, from what is known as of `as_of`."""
        if self.doubted:
            self._believe_doubted(at)
        for row in self.isr.decide(at, as_of, context):
            place = self._place(row["leader_id"], row["leader_epoch"], self._level(row["leader_epoch"]))
            self.changes.append({**place.columns(), **row})
        if any(o.due <= at for o in self.terms.owed):
            self._pay(at, context)
        if any(t.due and t.due <= at for t in self.terms.terms) or (self.judge_again or EVER) <= at:
            self._judge(at, as_of, context)
        ripe, self.cuts = [c for c in self.cuts if c.due <= at], [c for c in self.cuts if c.due > at]
        for cut in ripe:
            verdict = cut.grave or judge_cut(cut, self.terms, self.isr, context)
            if cut.grave is None and verdict is not None and verdict.cls == "hw_moved_back":
                self.cuts.append(replace(cut, due=at + UNTOLD_US, grave=verdict))
            elif cut.grave is not None and not still_grave(cut, self.terms, self.isr, context):
                continue
            elif verdict is not None:
                verdict = across_clocks_and_gaps(verdict, cut, self.terms)
                self._tell(verdict, f"replica-{cut.replica_id}-cut-{cut.ts}-{cut.to}", cut.ts, None, cut.replica_id)
        for back in self.backs:
            term = self.terms.at(back.part)
            if not back.told and back.due <= at and term is not None:
                self._tell_back(back, term, context)
            back.told |= back.due <= at

    def _judge(self, at: int, as_of: int, context: Context) -> None:
        self.judge_again = None if (self.judge_again or EVER) <= at else self.judge_again
        if self._first_term_only():
            return
        for place, term in enumerate(self.terms.terms):
            if term.due and term.due <= at:
                term.due = 0
                seen = term.known(as_of, context)
                term.gap_at_start, term.level = seen.held, seen.level
                if term.unclean is None and self.isr.replaced_under(term.epoch):
                    term.unclean = True
                outlived = place + (term is not self.terms.terms[-1])
                for over in self.terms.terms[:outlived]:
                    over.freeze(as_of, context)
        verdicts, marks = judge(self.terms, as_of, context)
        before = [self.terms.base, *marks]
        for term, verdict, mark in zip(self.terms.terms, verdicts, before, strict=False):
            if not term.due:
                self._tell_term(term, self._unless_excluded(term, verdict, mark, as_of, context))
        while len(self.terms.terms) > KEPT_TERMS and not any(t.due for t in self.terms.terms[:2]):
            self.terms.fold(marks.pop(0), as_of, context)

    def _unless_excluded(
        self, term: Term, verdict: Verdict | None, before: Mark, as_of: int, context: Context
    ) -> Verdict | None:
        """The verdict, or that a loss is not excluded, where there is none.

        Every start is judged ahead of which something of an earlier leader epoch was told.
        """
        if term.excluded or (verdict is not None and verdict.cls in CRITICAL):
            return verdict
        place = self.terms.terms.index(term)
        earlier = [*([self.terms.folded_term] if self.terms.folded_term else []), *self.terms.terms[:place]]
        if all(t.offset is None for t in earlier) and not self.isr.led_before(term.epoch) and not term.behind_gap:
            return verdict
        missing = missing_to_exclude_loss(self.terms, term, before, self.isr, as_of, context)
        term.excluded = not missing
        return loss_not_excluded(term, earlier[-1] if earlier else None, before, missing) if missing else verdict

    def _first_term_only(self) -> bool:
        """The first term ever told has nothing before it to be measured against: most partitions at a start."""
        terms = self.terms
        if len(terms.terms) != 1 or terms.folded_term is not None or terms.terms[0].held or terms.terms[0].told:
            return False
        first = terms.terms[0]
        if self.isr.led_before(first.epoch) or first.behind_gap:
            return False
        first.due = 0
        first.unclean = True if first.unclean is None and self.isr.replaced_under(first.epoch) else first.unclean
        return True

    def _tell_term(self, term: Term, verdict: Verdict | None) -> None:
        """Tells a term's verdict when it is new or another than the last one told."""
        if verdict is None and term.told is None:
            return
        verdict = verdict or Verdict("stale_leader_hw", "proven", {"withdrawn": True}, None, None, term.hw, term.offset)
        content = json.dumps(verdict.row(), sort_keys=True)
        if content != term.told:
            term.told, term.revision = content, term.revision + 1
            place = with_other(self._place(term.broker_id, term.epoch, term.level), topic_id=term.topic_id)
            name = f"term-{term.epoch}.{term.ordinal}"
            self.regressions.append(regression(place, verdict, name, term.ts, revision=term.revision))

    def _tell_back(self, back: Back, term: Term, context: Context, withdrawn: bool = False) -> None:
        verdict = moved_back(term, back.before, back.hw, back.broker_id, back.ts, context)
        if withdrawn:
            verdict = replace(verdict, cls="stale_leader_hw", evidence={"withdrawn": True})
        place = with_other(self._place(term.broker_id, term.epoch, term.level), topic_id=term.topic_id)
        name = f"reports-{term.epoch}.{term.ordinal}-{back.ts}-{back.hw}"
        self.regressions.append(regression(place, verdict, name, back.ts, revision=1 + withdrawn))

    def _tell(self, verdict: Verdict, name: str, ts: int, level: int | None, replica: int | None = None) -> None:
        leader, epoch = self.present.leader_id, self.present.leader_epoch
        if verdict.cls == "hw_moved_back" and verdict.before is not None:  # told late: another may lead by now
            leader, epoch = verdict.before.broker_id, verdict.before.epoch
        place = self._place(leader, epoch, self._level(epoch) if level is None else level)
        self.regressions.append(regression(place, verdict, name, ts, replica))

    def _place(self, leader_id: int | None, leader_epoch: int | None, level: int) -> Place:
        return Place(self.cluster, self.topic, self.partition, self.present.topic_id, leader_id, leader_epoch, level)

    def _level(self, leader_epoch: int | None) -> int:
        """The telemetry level at which this epoch's leader tells of its term."""
        term = self.terms.of_epoch(leader_epoch) if leader_epoch is not None else None
        return term.level if term else 0
