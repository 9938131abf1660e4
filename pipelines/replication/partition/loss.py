"""The verdict on every term: does it start with all that was committed before it?"""

from __future__ import annotations

import json
from typing import Any

from pipelines.replication.partition.codec import PersistedFrozen
from pipelines.replication.partition.events import TermLookup, TermSummary
from pipelines.replication.partition.one_term import STORED_BY, CommittedMark, LeastStart, Term
from pipelines.replication.partition.terms import Terms
from schemas.levels import LEAN

WITNESSED = "reports of its leader above what was computed"
CUT_OFF = "a report that nothing else shows, the last one of its broker"
CRITICAL = frozenset({"unclean_loss", "committed_loss", "hw_moved_back"})


class Verdict(PersistedFrozen, frozen=True):
    """One finding: its class, the offsets it is about (half-open) and its evidence."""

    cls: str
    proof: str
    evidence: dict[str, Any]
    before: Term | None = None
    hw_before: int | None = None
    hw_after: int | None = None
    start_offset: int | None = None
    lost_from: int | None = None
    lost_to: int | None = None
    warns: bool = False  # a loss is not excluded as a replica from outside the ISR was elected, or may have been

    def row(self) -> dict[str, Any]:
        """The columns of `silver/hw_regressions` that the verdict decides."""
        lost = None if self.lost_from is None or self.lost_to is None else self.lost_to - self.lost_from
        severity = "warning" if self.proof == "unproven" or self.warns else "critical"
        return {
            "class": self.cls,
            "severity": severity if self.cls in CRITICAL or self.warns else "info",
            "leader_id_before": self.before.broker_id if self.before else None,
            "leader_epoch_before": self.before.epoch if self.before else None,
            "hw_before": self.hw_before,
            "hw_after": self.hw_after,
            "start_offset": self.start_offset,
            "lost_from": self.lost_from,
            "lost_to": self.lost_to,
            "lost_records": lost,
            "evidence": json.dumps(self.evidence, sort_keys=True, separators=(",", ":")),
            "proof": self.proof,
        }


def loss_not_excluded(
    term: Term, previous: Term | None, before: CommittedMark, missing: list[str], *, warns: bool
) -> Verdict:
    """Nothing shows a loss as this term began, and nothing excludes one; `missing` would."""
    evidence = {**_evidence(term, before), "missing": missing}
    offsets = before.offset, term.start_hw, term.start_offset
    return Verdict("loss_not_excluded", "unproven", evidence, previous, *offsets, warns=warns)


def mark_at_start(term: Term, before: CommittedMark) -> int | None:
    """Hmax as this term begins, without what the term lost."""
    known = before.offset if before.offset is not None else term.start_hw
    return known if term.start_offset is None or known is None else min(known, term.start_offset)


def judge(
    terms: Terms, as_of: int, lookup: TermLookup, *, all_over: bool = False
) -> tuple[list[Verdict | None], list[CommittedMark]]:
    """(verdict, mark at its end) per term: Hmax passes from term to term, and a loss sets it back to the start offset.

    `all_over`: the last term has ended, too, so that its leader may have done more in it than it told.

    A term starts at S. S < Hmax is a loss of [S, Hmax). After an unclean election S is the least start since the new
    leader last took part.
    """
    verdicts: list[Verdict | None] = []
    marks: list[CommittedMark] = []
    mark, previous = terms.base, terms.folded_term
    certain = mark  # without the stored HWs that may be of another term
    for term, successor in zip(terms.terms, [*terms.terms[1:], None], strict=False):
        replaced = term.unclean and not term.sampled  # samples may have missed that its leader had joined the ISR
        least = LeastStart(term.start_offset, term.epoch, term.known_start is not None)
        if replaced:
            least = terms.least_start_since(term, as_of, lookup)
        elif term.sampled and mark.epoch is not None:
            least = term.start_after(mark.epoch) or least
        if term.across_seam and mark.epoch in (term.epoch, -1):
            least = LeastStart(None, term.epoch, False)
        verdict = _verdict(terms, term, previous, mark, least)
        if verdict is not None and verdict.proof == "unproven" and certain != mark:
            smaller = _verdict(terms, term, previous, certain, least)
            verdict = smaller if smaller is not None and smaller.lost_to and smaller.proof != "unproven" else verdict
        verdicts.append(verdict)
        told_to_its_end = (successor is None and not all_over) or bool(term.whole)
        summary = term.summary_as_of(as_of, lookup)
        after = _mark_after(term, mark, least.offset, summary, told_to_its_end)
        doubtful = term.stored_behind_gap or term.stored_in_epoch is not None
        if term.had_ended:
            pass  # what is told of it may be later than the terms of later epochs
        elif doubtful or certain != mark:
            certain = _mark_after(term, certain, least.offset, summary, told_to_its_end, doubted=doubtful)
        else:
            certain = after
        mark = after
        marks.append(mark)
        previous = term
    return verdicts, marks


def _verdict(terms: Terms, term: Term, previous: Term | None, mark: CommittedMark, least: LeastStart) -> Verdict | None:
    """The first start seen is one like any other where an election was unclean, or a HW of before it is known."""
    if least.offset is not None and mark.offset is not None and least.offset < mark.offset:
        missing = [*_missing(term, previous), *_misread(previous), *_behind_gap(mark)]
        missing += _unreported_epoch(mark, term)
        missing += _resumed_when_over([t for t in terms.terms if t.epoch == mark.epoch != term.epoch])
        stored_by = mark.by.removeprefix(STORED_BY)
        reporters = {term.broker_id} | ({previous.broker_id} if previous else set())
        reporters |= {int(stored_by)} if stored_by.isdecimal() else set()
        missing += wrong_clocks(terms, reporters)
        return _loss(terms, term, previous, mark, least, missing)
    if term.unclean and previous is not None and not least.complete and not (mark.exact and mark.offset == 0):
        replicated = [] if term.start_offset is None else [f"what broker {term.broker_id} last replicated"]
        evidence = {**_evidence(term, mark), "missing": [*_missing(term, previous), *replicated]}
        offsets = mark.offset, term.start_hw, term.start_offset
        return Verdict("unclean_loss", "unproven", evidence, previous, *offsets)
    has_order = not term.across_seam or least.offset is not None
    known = previous is not None and mark.unreported_epoch is None and has_order
    if known and term.start_hw is not None and mark.offset is not None and term.start_hw < mark.offset:
        offsets = mark.offset, term.start_hw, term.start_offset
        return Verdict("stale_leader_hw", "proven", _evidence(term, mark), previous, *offsets)
    return None


def _loss(
    terms: Terms, term: Term, previous: Term | None, mark: CommittedMark, least: LeastStart, missing: list[str]
) -> Verdict | None:
    """The loss above the log start; None if there is none."""
    start, lost_to = max(least.offset or 0, term.log_start), mark.offset or 0
    if start >= lost_to:
        return None
    evidence = _evidence(term, mark)
    if least.epoch != term.epoch:
        evidence["since"] = {"epoch": least.epoch, "offset": least.offset}
    knows = previous is not None and _leader_knows_successor(terms, term, previous)
    exact = mark.exact and least.complete and term.topic_id is not None and differing_records(terms, term) is None
    proof = "proven" if exact and knows else "bounded"
    if missing:
        proof, evidence["missing"] = "unproven", missing
    elif proof == "bounded":
        evidence["bound"] = "at_least"
        if mark.leo is not None and (mark.leo > lost_to or mark.by == CUT_OFF):
            evidence["at_most"] = [start, mark.leo]
    cls = "unclean_loss" if term.unclean else "committed_loss"
    return Verdict(cls, proof, evidence, previous, mark.offset, term.start_hw, term.start_offset, start, lost_to)


def differing_records(terms: Terms, term: Term) -> tuple[int | None, int] | None:
    """(offset, leader epoch) from which on the leader of this term may hold other records than those that were lost, or
    committed, under an earlier leader epoch."""
    known = [terms.differing, *(t.differs_from for t in terms.terms[: terms.terms.index(term)])]
    return next((found for found in known if found is not None and found[1] < term.epoch), None)


def _missing(term: Term, previous: Term | None) -> list[str]:
    """The missing telemetry that keeps a loss from being proven or bounded."""
    before = term.topic_id if previous is None else previous.topic_id
    # Kafka prints no ids before 3.3 with ZooKeeper: there a topic that is made anew begins at leader epoch 0
    goes_on = term.topic_id is None and previous is not None and previous.epoch < term.epoch
    wanted = {
        "start offset": term.start_offset is not None,
        "topic id": term.topic_id == before and (term.topic_id is not None or goes_on),
        f"telemetry of broker {term.broker_id} without a gap": not term.gap_at_start,
    }
    return [name for name, known in wanted.items() if not known] + _resumed_when_over([term])


def _resumed_when_over(terms: list[Term]) -> list[str]:
    """Missing evidence if a leader resumed its epoch when it was over: others may have what it lacks, and its HWs may
    be later ones than those of the epochs after it."""
    return [f"whether broker {t.broker_id} began before leader epoch {t.epoch} was over" for t in terms if t.had_ended]


def _misread(previous: Term | None) -> list[str]:
    """The doubt from lines of the term before that were not understood."""
    if previous is None or previous.summary is None or not previous.summary.misread:
        return []
    return [f"lines of broker {previous.broker_id} that were not understood"]


def _behind_gap(mark: CommittedMark) -> list[str]:
    """The telemetry missing before the start that reported this HW, which may be of another term."""
    broker = mark.by.removeprefix("stored by ")
    telemetry = f"telemetry of {broker} without a gap"
    wanted = {True: f"a clean stop of {broker}", None: f"whether {broker} has started again", False: telemetry}
    return [wanted[mark.behind_kill]] if mark.behind_gap else []


def wrong_clocks(terms: Terms, brokers: set[int]) -> list[str]:
    """The clocks that must be right for the order of these brokers' events."""
    return [
        f"a right clock of broker {broker} (off by {terms.wrong_clocks[broker] / 1e6:+.0f} s)"
        for broker in sorted(brokers & terms.wrong_clocks.keys())
    ]


def _unreported_epoch(mark: CommittedMark, term: Term) -> list[str]:
    """The start that is missing of the epoch this HW is of, where the term is no later one. An earlier epoch may have
    lost what the HW covers itself, so that it is lost in a term not later than this one."""
    later = mark.unreported_epoch is not None and mark.unreported_epoch >= term.epoch
    return [f"the start of leader epoch {mark.unreported_epoch}"] if later else []


def _leader_knows_successor(terms: Terms, term: Term, previous: Term) -> bool:
    """Whether the leader before has reported that it knows of this term, so that it commits nothing more of its own."""
    position = terms.positions.get(previous.broker_id)
    return previous.broker_id == term.broker_id or (position is not None and position.epoch >= term.epoch)


def _evidence(term: Term, mark: CommittedMark) -> dict[str, Any]:
    return {
        "start": {"broker": term.broker_id, "epoch": term.epoch, "offset": term.start_offset},
        "hw": {"broker": mark.broker_id, "by": mark.by, "epoch": mark.epoch, "offset": mark.offset},
    }


def _certain_hw(term: Term, summary: TermSummary) -> int | None:
    """The largest HW of a term that counts: none that its leader has not reported, if it reports all, or if nobody told
    min ISR, under which it may not have risen."""
    if summary.hmax is None or (summary.level < LEAN and summary.min_isr_told):
        return summary.hmax
    reported = max((hw for hw in (summary.reported, term.start_hw) if hw is not None), default=None)
    return None if reported is None else min(summary.hmax, reported)


def _mark_after(
    term: Term,
    mark: CommittedMark,
    start: int | None,
    summary: TermSummary,
    told_to_its_end: bool,
    *,
    doubted: bool = False,
) -> CommittedMark:
    """Hmax at the end of a term: without what it lost, with what it committed; `start` is the least since its leader
    last took part, `told_to_its_end`: a power failure cuts a leader's log file like its data.

    Only the log of the last term can be lost next: its own HW, once at or above its start, covers the older ones.
    """
    hmax, computed = _certain_hw(term, summary), summary.hmax
    witnessed = summary.witnessed if summary.witnessed is not None and summary.witnessed > (computed or -1) else None
    complete = summary.complete and told_to_its_end and witnessed is None
    shown = summary.reported is not None or summary.min_isr_told > 0 or hmax == term.start_hw
    told = term.known_start is not None
    after = CommittedMark(mark.offset, mark.exact and told, mark.by, mark.epoch, mark.broker_id)
    after.behind_gap, after.unreported_epoch = mark.behind_gap, mark.unreported_epoch if told else term.epoch
    after.behind_kill = mark.behind_kill
    if start is not None and mark.offset is not None and start < mark.offset:
        after = CommittedMark(start, True, "loss", term.epoch, term.broker_id)
    start_offset = term.start_offset
    covered = after.exact or (hmax is not None and start_offset is not None and hmax >= start_offset)
    beyond = [] if hmax == computed else [computed]  # computed, and not reported by a leader that reports its HWs
    ends = [summary.leader_leo if complete else None, term.returned_leo, *beyond]
    leos = [leo for leo in ends if leo is not None]
    after.whole = term.level >= LEAN and computed is not None and told and witnessed is None and not term.has_gap
    bounded = complete and covered  # by what was computed, which is no less than what was committed
    lasting = mark.most if start is None or mark.most is None else min(mark.most, start)
    after.most = max((hw for hw in (lasting, computed) if hw is not None), default=None)
    after.exact, after.leo = bounded and shown and hmax == computed, max(leos, default=None)
    after.bound = summary.leader_leo if after.exact else computed if bounded else None
    if hmax is not None and (after.offset is None or hmax > after.offset):
        after.offset, after.by, after.epoch, after.broker_id = hmax, "telemetry", term.epoch, term.broker_id
        after.behind_gap, after.unreported_epoch = False, None
    if witnessed is not None and (after.offset is None or witnessed > after.offset):
        after.offset, after.by, after.epoch, after.broker_id = witnessed, WITNESSED, term.epoch, term.broker_id
        after.behind_gap, after.unreported_epoch, after.leo = False, None, None
    if summary.cut_off is not None and (after.offset is None or summary.cut_off > after.offset):
        after.offset, after.by, after.epoch, after.broker_id = summary.cut_off, CUT_OFF, term.epoch, term.broker_id
        confirmed = term.stored_hw is not None and term.stored_hw >= summary.cut_off  # by a second witness
        after.exact, after.bound, after.leo = after.exact and confirmed, None, max(summary.cut_off, after.leo or 0)
    if term.stored_hw is not None and (after.offset is None or term.stored_hw > after.offset):
        after.exact = False
        after.bound = None if after.bound is not None and after.bound < term.stored_hw else after.bound
        if not doubted:
            after.offset, after.by = term.stored_hw, term.stored_by or "stored"
            after.behind_gap, after.unreported_epoch = term.stored_behind_gap, term.stored_in_epoch
            after.behind_kill = term.stored_behind_kill
            after.epoch, after.broker_id = term.epoch, term.broker_id
    if term.across_seam:
        after.exact, after.bound = False, None
    return after
