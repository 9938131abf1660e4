"""What happened to one partition across its leaders: ISR changes with their cause, HW regressions with a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.replication import state_codec
from pipelines.replication.isr_history import IsrHistory
from pipelines.replication.notes import Context, Note, TermSeen
from pipelines.replication.terms import KEPT_TERMS, Mark, Standing, Term, Terms
from pipelines.replication.truncations import Cut, cut_of, judge_cut, moved_back
from pipelines.replication.verdicts import Verdict, judge

__all__ = ["Context", "Note", "PartitionHistory", "Present", "TermSeen"]

VERSION = 1
FORGOTTEN_IDS = 4
CANDIDATES = 16
# A broker named leader that does not serve yet is common right after a crash; only then is its start missing,
# and only then is a topic id told by nobody but a controller more than the replay of an old topic.
UNTOLD_US = 10_000_000
EVER = 1 << 62


@dataclass(slots=True)
class Present:
    """The partition as last told; `leaderless_since` in microseconds while nobody leads."""

    leader_id: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    topic_id: str | None = None
    leaderless_since: int | None = None

    def take(self, note: Note) -> None:
        """What a row tells of the partition's state, unless it is older than what is known."""
        epoch, mine = note.partition_epoch, self.partition_epoch
        if epoch is not None and mine is not None and epoch < mine:
            return
        if note.leader_epoch is not None and note.leader_epoch < (self.leader_epoch or 0):
            return
        leader = note.broker_id if note.event_type == "leader" else note.leader_id
        if leader is not None:
            self.leaderless_since = None if leader >= 0 else (self.leaderless_since or note.ts)
            self.leader_id = leader
        self.leader_epoch = note.leader_epoch if note.leader_epoch is not None else self.leader_epoch
        self.partition_epoch = epoch if epoch is not None else mine
        self.isr = note.isr if note.isr is not None else self.isr
        self.replicas = note.replicas or self.replicas


@dataclass(slots=True)
class PartitionHistory:
    """Consumes notes in canonical order and tells what they come to.

    A decision about something at `ts` falls due one race window after the largest time noted by then: what
    other sources tell within it is known. `settle(upto)` takes the decisions due before `upto`; every note up
    to a decision's time must have been applied ahead of it. So the rows do not depend on how the notes are
    cut, only on their order.
    """

    cluster: str
    topic: str
    partition: int
    present: Present = field(default_factory=Present)
    isr: IsrHistory = field(default_factory=IsrHistory)
    terms: Terms = field(default_factory=Terms)
    cuts: list[Cut] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    candidates: list[Note] = field(default_factory=list)
    judge_again: int | None = None
    now: int = 0
    race: int = 150_000
    changes: list[dict[str, Any]] = field(default_factory=list)
    regressions: list[dict[str, Any]] = field(default_factory=list)

    def apply(self, note: Note, context: Context) -> None:
        """Takes in one note; `settle(its time)` comes first."""
        self.now, self.race = max(self.now, note.ts), context.race_window_us
        if not self._of_this_topic(note, context):
            return
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
        else:
            self._isr(note)

    def settle(self, upto: int, context: Context) -> None:
        """Decides everything due before `upto`."""
        while (due := self.due()) is not None and due < upto:
            self._decide(due, due, context)

    def due(self) -> int | None:
        """The earliest time at which something waits to be decided."""
        adopt = self.candidates[-1].ts + UNTOLD_US if self.candidates else None
        waiting = [self.isr.due(), self.judge_again, adopt, *(c.due for c in self.cuts)]
        waiting.extend(t.due for t in self.terms.terms if t.due)
        return min((w for w in waiting if w is not None), default=None)

    def zombie_rise(self, broker_id: int, term_start_ts: int, hw: int, ts: int) -> None:
        """A deposed leader's HW rose after its term was over: what it committed counts for that term."""
        self.now = max(self.now, ts)
        term, folded = self.terms.last_led(broker_id, term_start_ts), self.terms.folded_term
        if term is not None and term.seen is not None:
            term.seen = replace(term.seen, hmax=max(hw, term.seen.hmax or 0))
        elif folded is not None and (folded.broker_id, folded.start) == (broker_id, term_start_ts):
            self.terms.base = _raised(self.terms.base, hw, "telemetry", folded)
        self.judge_again = self._due()

    def take_isr_changes(self) -> list[dict[str, Any]]:
        """New rows of `silver/isr_changes`; `predicted` is left to the caller."""
        rows, self.changes = self.changes, []
        return rows

    def take_regressions(self) -> list[dict[str, Any]]:
        """New rows of `silver/hw_regressions`."""
        rows, self.regressions = self.regressions, []
        return rows

    def to_bytes(self) -> bytes:
        return state_codec.encode(self, VERSION)

    @classmethod
    def from_bytes(cls, blob: bytes) -> PartitionHistory:
        """The history that `to_bytes` wrote. Raises ValueError naming an unknown version."""
        return state_codec.decode(cls, blob, VERSION)

    def _due(self) -> int:
        return self.now + self.race

    def _of_this_topic(self, note: Note, context: Context) -> bool:
        """Whether a note is about the topic that exists; a new id begins a new history.

        Brokers act on the present metadata only; a restarted controller replays deleted topics too, so an id
        that only a controller tells waits until the burst has shown whether the known one comes after it.
        """
        known, told = self.present.topic_id, note.topic_id
        if told is None and self.candidates and (note.leader_epoch or 0) < (self.present.leader_epoch or 0):
            self.candidates.append(note)
            return False
        if told is None or known is None or told == known:
            self.present.topic_id = known or told
            self.candidates = [] if told else self.candidates
            return True
        if told in self.forgotten:
            return False
        if (
            note.event_type in ("leader", "follower")
            or note.detail in ("alter_partition", "metadata")
            or note.broker_id < 0
        ):
            self._recreate(told, note, context)
            return True
        self.candidates = [*self.candidates[1 - CANDIDATES :], note]
        return False

    def _recreate(self, topic_id: str, note: Note, context: Context) -> None:
        """Closes the history of the old topic and begins that of the new one."""
        self._decide(EVER, self.now, context)
        _, marks = judge(self.terms, self.now, context)
        last, old = (marks or [self.terms.base])[-1], self.present
        before = self.terms.terms[-1] if self.terms.terms else self.terms.folded_term
        waiting = [c for c in self.candidates if c.topic_id in (None, topic_id)]
        self.forgotten = [*self.forgotten, old.topic_id or ""][-FORGOTTEN_IDS:]
        self.present, self.isr, self.terms = Present(topic_id=topic_id), IsrHistory(), Terms()
        self.cuts, self.candidates, self.judge_again = [], [], None
        evidence = {"topic_id": [old.topic_id, topic_id]}
        verdict = Verdict("topic_recreated", "proven", evidence, before, last.offset, note.hw, note.leo)
        self._tell(verdict, "recreated", note.ts, note.level)
        for candidate in waiting:
            self.apply(candidate, context)

    def _leader(self, note: Note, context: Context) -> None:
        self._credit(note, context)
        if not self.terms.too_late(note.leader_epoch or 0):
            term = self.terms.begin(note, self._due(), self.present.topic_id)
            key = (term.epoch, term.ordinal)
            self.terms.standings[note.broker_id] = Standing(term.epoch, note.leo, note.hw, True, key)
        self._isr(replace(note, leader_id=note.broker_id))

    def _midflight(self, note: Note) -> None:
        """A broker leads and its start was not told: what it commits counts for the term after it all the same."""
        present, last = self.present, self.terms.terms[-1] if self.terms.terms else None
        epoch = note.leader_epoch if note.leader_epoch is not None else present.leader_epoch
        epoch = -1 if epoch is None else epoch
        if last is not None and (epoch < last.epoch or (epoch, note.broker_id) == (last.epoch, last.broker_id)):
            return
        term = self.terms.begin(replace(note, leader_epoch=epoch, leo=None), self._due(), present.topic_id)
        self.terms.standings[note.broker_id] = Standing(epoch, None, note.hw, True, (epoch, term.ordinal))

    def _follower(self, note: Note, context: Context) -> None:
        self._lowered(note, context)
        part = self._credit(note, context)
        epoch = note.leader_epoch if note.leader_epoch is not None else self.present.leader_epoch or 0
        self.terms.standings[note.broker_id] = Standing(epoch, note.leo, note.hw, False, part)
        self.present.take(note)

    def _credit(self, note: Note, context: Context) -> tuple[int, int] | None:
        """A start tells the HW of the last term its broker took part in, which is returned."""
        standing = self.terms.standings.get(note.broker_id)
        joined = self.isr.added_under(standing.epoch) if standing else frozenset()
        part = self.terms.last_part(note, joined, context)
        term, told, by = self.terms.at(part), note.hw, f"stored by broker {note.broker_id}"
        if term is not None and standing is not None and standing.led and note.leo is not None:
            term.returned = max(note.leo, term.returned or 0)
            if self._alone(term, note.ts, context):
                told, by = max(note.leo, note.hw or 0), "former leader alone in the ISR"
        if term is not None and told is not None and told > (-1 if term.stored is None else term.stored):
            term.stored, term.stored_by = told, by
        folded = self.terms.folded_term
        if term is None and folded is not None and told is not None and self.terms.since.get(note.broker_id, 0) is None:
            self.terms.base = _raised(self.terms.base, told, by, folded)
        self.judge_again = self._due()
        return part

    def _alone(self, term: Term, as_of: int, context: Context) -> bool:
        """Whether a term ended with its leader alone in an ISR that satisfied min ISR."""
        last = self.isr.last_of_epoch(term.epoch)
        single = last is not None and set(last.isr) == {term.broker_id}
        enough = context.min_isr(as_of) <= 1 or self.present.replicas == (term.broker_id,)
        return term.known(as_of, context).alone or (single and enough)

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
        self._tell(verdict, f"replica-{replica}-hw-{note.ts}-{note.hw}", note.ts, note.level, replica)

    def _hw_fell(self, note: Note, context: Context) -> None:
        replica = note.replica_id if note.replica_id is not None else note.broker_id
        if note.detail == "reports_back":
            term = self.terms.last_led(note.broker_id)
            if term is not None:
                verdict = moved_back(term, note.before, note.hw, replica, note.ts, context)
                self._tell(verdict, f"reports-{term.epoch}.{term.ordinal}-{note.ts}-{note.hw}", note.ts, note.level)
            return
        standing = self.terms.standings.get(replica)
        self._lower(note, note.before if note.before is not None else standing.hw if standing else None)
        if standing is not None:
            standing.hw = note.hw

    def _gap(self, note: Note) -> None:
        """Telemetry of a broker is missing: of the term it leads, while it has told of no later one."""
        standing = self.terms.standings.get(note.broker_id)
        term = self.terms.at(standing.anchor) if standing and standing.led else None
        if term is not None:
            term.held = True
            term.seen = replace(term.seen, held=True) if term.seen else None
            self.judge_again = self._due()

    def _isr(self, note: Note) -> None:
        """leader, election, isr, isr_proposed and isr_rejected: who is, or asks to be, in sync."""
        if note.event_type == "isr_proposed":
            return self.isr.propose(note)
        if note.event_type == "isr_rejected":
            return self.isr.reject(note)
        if note.event_type == "election":
            self._elected(note)
        self.present.take(note)
        newest = note.partition_epoch is None or note.partition_epoch == self.present.partition_epoch
        if newest and note.leader_id is None and note.leader_epoch in (None, self.present.leader_epoch):
            note = replace(note, leader_id=self.present.leader_id, leader_epoch=self.present.leader_epoch)
        return self.isr.witness(note, self._due())

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

    def _decide(self, at: int, as_of: int, context: Context) -> None:
        """Takes every decision due at `at`, from what is known as of `as_of`."""
        if self.candidates and self.candidates[-1].ts + UNTOLD_US <= at and at != EVER:
            told = [c for c in self.candidates if c.topic_id]
            return self._recreate(str(told[-1].topic_id), told[0], context)
        for row in self.isr.decide(at, as_of, context):
            self.changes.append({**self._place(), **row, "level": self._level(row["leader_epoch"])})
        if any(t.due and t.due <= at for t in self.terms.terms) or (self.judge_again or EVER) <= at:
            self._judge(at, as_of, context)
        ripe, self.cuts = [c for c in self.cuts if c.due <= at], [c for c in self.cuts if c.due > at]
        for cut in ripe:
            verdict = judge_cut(cut, self.terms, self.isr, context)
            if verdict is not None:
                self._tell(verdict, f"replica-{cut.replica_id}-cut-{cut.ts}-{cut.to}", cut.ts, None, cut.replica_id)
        return None

    def _judge(self, at: int, as_of: int, context: Context) -> None:
        self.judge_again = None if (self.judge_again or EVER) <= at else self.judge_again
        for place, term in enumerate(self.terms.terms):
            if term.due and term.due <= at:
                term.due = 0
                seen = term.known(as_of, context)
                term.gap_at_start, term.level = seen.held, seen.level
                if term.unclean is None and self.isr.replaced_under(term.epoch):
                    term.unclean = True
                for over in self.terms.terms[:place]:
                    over.freeze(as_of, context)
        verdicts, marks = judge(self.terms, as_of, context)
        for term, verdict in zip(self.terms.terms, verdicts, strict=True):
            if not term.due:
                self._tell_term(term, verdict)
        while len(self.terms.terms) > KEPT_TERMS and not any(t.due for t in self.terms.terms[:2]):
            self.terms.fold(marks.pop(0), as_of, context)

    def _tell_term(self, term: Term, verdict: Verdict | None) -> None:
        """Tells a term's verdict when it is new or another than the last one told."""
        if verdict is None and term.told is None:
            return
        verdict = verdict or Verdict("stale_leader_hw", "proven", {"withdrawn": True}, None, None, term.hw, term.offset)
        content = repr(sorted(verdict.row().items()))
        if content == term.told:
            return
        term.told, term.revision = content, term.revision + 1
        row = self._regression(verdict, f"term-{term.epoch}.{term.ordinal}", term.ts, term.level)
        row.update(leader_id=term.broker_id, leader_epoch=term.epoch, revision=term.revision, topic_id=term.topic_id)
        self.regressions.append(row)

    def _tell(self, verdict: Verdict, name: str, ts: int, level: int | None, replica: int | None = None) -> None:
        self.regressions.append({**self._regression(verdict, name, ts, level), "replica_id": replica})

    def _regression(self, verdict: Verdict, name: str, ts: int, level: int | None) -> dict[str, Any]:
        return {
            **self._place(),
            **verdict.row(),
            "ts": ts,
            "leader_id": self.present.leader_id,
            "leader_epoch": self.present.leader_epoch,
            "regression_id": f"{self.cluster}/{self.topic}-{self.partition}/{self.present.topic_id or '-'}/{name}",
            "replica_id": None,
            "level": self._level(self.present.leader_epoch) if level is None else level,
            "revision": 1,
        }

    def _place(self) -> dict[str, Any]:
        place = {"cluster": self.cluster, "topic": self.topic, "partition": self.partition}
        return {**place, "topic_id": self.present.topic_id}

    def _level(self, leader_epoch: int | None) -> int:
        """The telemetry level at which this epoch's leader tells of its term."""
        term = self.terms.of_epoch(leader_epoch) if leader_epoch is not None else None
        return term.level if term else 0


def _raised(mark: Mark, offset: int, by: str, term: Term) -> Mark:
    if mark.offset is not None and offset <= mark.offset:
        return mark
    exact = mark.exact and by == "telemetry"
    return replace(mark, offset=offset, exact=exact, by=by, epoch=term.epoch, broker_id=term.broker_id)
