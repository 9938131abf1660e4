"""The verdict on every term: does it start with all that was committed before it?"""

from __future__ import annotations

import json
from typing import Any

from pipelines.replication.partition.codec import PersistedFrozen
from pipelines.replication.partition.events import TermLookup, TermSummary
from pipelines.replication.partition.terms import STORED_BY, CommittedMark, Term, Terms

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

    def row(self) -> dict[str, Any]:
        """The columns of `silver/hw_regressions` that the verdict decides."""
        lost = None if self.lost_from is None or self.lost_to is None else self.lost_to - self.lost_from
        severity = "warning" if self.proof == "unproven" else "critical"
        return {
            "class": self.cls,
            "severity": severity if self.cls in CRITICAL else "info",
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


def loss_not_excluded(term: Term, previous: Term | None, before: CommittedMark, missing: list[str]) -> Verdict:
    """Nothing shows a loss as this term began, and nothing excludes one; `missing` would."""
    evidence = {**_evidence(term, before), "missing": missing}
    return Verdict("loss_not_excluded", "unproven", evidence, previous, before.offset, term.start_hw, term.start_offset)


def mark_at_start(term: Term, before: CommittedMark) -> int | None:
    """Hmax as this term begins, without what the term lost."""
    known = before.offset if before.offset is not None else term.start_hw
    return known if term.start_offset is None or known is None else min(known, term.start_offset)


def judge(terms: Terms, as_of: int, lookup: TermLookup) -> tuple[list[Verdict | None], list[CommittedMark]]:
    """(verdict, mark at its end) per term: Hmax passes from term to term, and a loss sets it back to the start offset.

    A term starts at S. S < Hmax is a loss of [S, Hmax). After an unclean election S is the smaller of the new leader's
    log end and the first start offset since it last took part.
    """
    verdicts: list[Verdict | None] = []
    marks: list[CommittedMark] = []
    mark, previous = terms.base, terms.folded_term
    for term in terms.terms:
        replaced = term.unclean and not term.sampled  # samples may have missed that its leader had joined the ISR
        offset, since = terms.first_start_since(term, as_of, lookup) if replaced else (term.start_offset, None)
        verdict = _verdict(terms, term, previous, mark, offset, since)
        mark = _mark_after(term, mark, offset, term.summary_as_of(as_of, lookup))
        verdicts.append(verdict)
        marks.append(mark)
        previous = term
    return verdicts, marks


def _verdict(
    terms: Terms, term: Term, previous: Term | None, mark: CommittedMark, replicated: int | None, since: int | None
) -> Verdict | None:
    """`replicated` and `since` as `first_start_since` gives them."""
    if previous is None:
        return None
    start = _least(term.start_offset, replicated)
    if start is not None and mark.offset is not None and start < mark.offset:
        missing = [*_missing(term, previous, replicated), *_misread(previous), *_behind_gap(mark)]
        missing += _unreported_epoch(mark)
        stored_by = mark.by.removeprefix(STORED_BY)
        reporters = {term.broker_id, previous.broker_id, int(stored_by) if stored_by.isdecimal() else term.broker_id}
        missing += wrong_clocks(terms, reporters)
        return _loss(terms, term, previous, mark, start, missing, since)
    if term.unclean and replicated is None and not (mark.exact and mark.offset == 0):
        evidence = {**_evidence(term, mark), "missing": _missing(term, previous, replicated)}
        offsets = mark.offset, term.start_hw, term.start_offset
        return Verdict("unclean_loss", "unproven", evidence, previous, *offsets)
    if term.start_hw is not None and mark.offset is not None and term.start_hw < mark.offset:
        offsets = mark.offset, term.start_hw, term.start_offset
        return Verdict("stale_leader_hw", "proven", _evidence(term, mark), previous, *offsets)
    return None


def _loss(
    terms: Terms, term: Term, previous: Term, mark: CommittedMark, start: int, missing: list[str], since: int | None
) -> Verdict:
    lost_to = mark.offset or 0
    evidence = _evidence(term, mark)
    if since is not None and since != term.epoch:
        evidence["since"] = {"epoch": since, "offset": start}
    proof = "proven" if mark.exact and _leader_knows_successor(terms, term, previous) else "bounded"
    if missing:
        proof, evidence["missing"] = "unproven", missing
    elif proof == "bounded":
        evidence["bound"] = "at_least"
        if mark.leo is not None and (mark.leo > lost_to or mark.by == CUT_OFF):
            evidence["at_most"] = [start, mark.leo]
    cls = "unclean_loss" if term.unclean else "committed_loss"
    return Verdict(cls, proof, evidence, previous, mark.offset, term.start_hw, term.start_offset, start, lost_to)


def _missing(term: Term, previous: Term, replicated: int | None) -> list[str]:
    """What keeps a loss from being proven or bounded."""
    wanted = {
        "start offset": term.start_offset is not None,
        f"what broker {term.broker_id} last replicated": replicated is not None or term.start_offset is None,
        "topic id": term.topic_id is not None and term.topic_id == previous.topic_id,
        f"telemetry of broker {term.broker_id} without a gap": not term.gap_at_start,
    }
    return [name for name, known in wanted.items() if not known]


def _misread(previous: Term) -> list[str]:
    """What the term before may have reported in lines that were not understood."""
    misread = previous.summary is not None and previous.summary.misread
    return [f"lines of broker {previous.broker_id} that were not understood"] if misread else []


def _behind_gap(mark: CommittedMark) -> list[str]:
    """What is missing before the start that reported this HW: the HW may be one of a later term."""
    return [f"telemetry of {mark.by.removeprefix('stored by ')} without a gap"] if mark.behind_gap else []


def wrong_clocks(terms: Terms, brokers: set[int]) -> list[str]:
    """Whose clock would have to be right for the events of these brokers to stand in their order."""
    return [
        f"a right clock of broker {broker} (off by {terms.wrong_clocks[broker] / 1e6:+.0f} s)"
        for broker in sorted(brokers & terms.wrong_clocks.keys())
    ]


def _unreported_epoch(mark: CommittedMark) -> list[str]:
    """The start that is missing of the epoch this HW is of, or of one since: that one may have lost what it covers."""
    return [] if mark.unreported_epoch is None else [f"the start of leader epoch {mark.unreported_epoch}"]


def _leader_knows_successor(terms: Terms, term: Term, previous: Term) -> bool:
    """Whether the leader before has reported that it knows of this term, so that it commits nothing more of its own."""
    position = terms.positions.get(previous.broker_id)
    return previous.broker_id == term.broker_id or (position is not None and position.epoch >= term.epoch)


def _evidence(term: Term, mark: CommittedMark) -> dict[str, Any]:
    return {
        "start": {"broker": term.broker_id, "epoch": term.epoch, "offset": term.start_offset},
        "hw": {"broker": mark.broker_id, "by": mark.by, "epoch": mark.epoch, "offset": mark.offset},
    }


def _mark_after(term: Term, mark: CommittedMark, replicated: int | None, summary: TermSummary) -> CommittedMark:
    """Hmax at the end of a term: without what it lost, with what it committed.

    Only the log of the last term can be lost next: its own HW, once at or above its start, covers the older ones.
    """
    start = _least(term.start_offset, replicated)
    after = CommittedMark(mark.offset, mark.exact and start is not None, mark.by, mark.epoch, mark.broker_id)
    after.behind_gap, after.unreported_epoch = mark.behind_gap, term.epoch if start is None else mark.unreported_epoch
    if start is not None and mark.offset is not None and start < mark.offset:
        after = CommittedMark(start, True, "loss", term.epoch, term.broker_id)
    hmax, start_offset = summary.hmax, term.start_offset
    covered = after.exact or (hmax is not None and start_offset is not None and hmax >= start_offset)
    leos = [leo for leo in (summary.leader_leo if summary.complete else None, term.returned_leo) if leo is not None]
    after.exact, after.leo = summary.complete and covered, max(leos, default=None)
    after.bound = summary.leader_leo if after.exact else None
    if hmax is not None and (after.offset is None or hmax > after.offset):
        after.offset, after.by, after.epoch, after.broker_id = hmax, "telemetry", term.epoch, term.broker_id
        after.behind_gap, after.unreported_epoch = False, None
    if summary.cut_off is not None and (after.offset is None or summary.cut_off > after.offset):
        after.offset, after.by, after.epoch, after.broker_id = summary.cut_off, CUT_OFF, term.epoch, term.broker_id
        confirmed = term.stored_hw is not None and term.stored_hw >= summary.cut_off  # by a second witness
        after.exact, after.bound, after.leo = after.exact and confirmed, None, max(summary.cut_off, after.leo or 0)
    if term.stored_hw is not None and (after.offset is None or term.stored_hw > after.offset):
        after.offset, after.by, after.exact = term.stored_hw, term.stored_by or "stored", False
        after.behind_gap, after.unreported_epoch = term.stored_behind_gap, term.stored_in_epoch
        after.epoch, after.broker_id = term.epoch, term.broker_id
    return after


def _least(offset: int | None, other: int | None) -> int | None:
    if offset is None or other is None:
        return other if offset is None else offset
    return min(offset, other)
