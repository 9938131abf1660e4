"""The verdict on every term: does it start with all that was committed before it?"""

from __future__ import annotations

import json
from typing import Any

from pipelines.replication.partition.codec import Fixed
from pipelines.replication.partition.events import Context, TermSeen
from pipelines.replication.partition.terms import STORED_BY, Mark, Term, Terms

CUT_OFF = "a report that nothing else shows, the last one of its broker"
CRITICAL = frozenset({"unclean_loss", "committed_loss", "hw_moved_back"})


class Verdict(Fixed, frozen=True):
    """One finding: its class, the offsets it is about (half-open) and what it rests on."""

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
        grave = "warning" if self.proof == "unproven" else "critical"
        return {
            "class": self.cls,
            "severity": grave if self.cls in CRITICAL else "info",
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


def loss_not_excluded(term: Term, previous: Term | None, before: Mark, missing: list[str]) -> Verdict:
    """Nothing shows a loss as this term began, and nothing excludes one: `missing` would."""
    evidence = {**_evidence(term, before), "missing": missing}
    return Verdict("loss_not_excluded", "unproven", evidence, previous, before.offset, term.hw, term.offset)


def mark_at_start(term: Term, before: Mark) -> int | None:
    """Hmax as this term begins: what it lost counts no more."""
    known = before.offset if before.offset is not None else term.hw
    return known if term.offset is None or known is None else min(known, term.offset)


def judge(terms: Terms, as_of: int, context: Context) -> tuple[list[Verdict | None], list[Mark]]:
    """(verdict, mark at its end) per kept term: Hmax handed from term to term, set back to S by a loss."""
    verdicts: list[Verdict | None] = []
    marks: list[Mark] = []
    mark, previous = terms.base, terms.folded_term
    for term in terms.terms:
        floor, since = terms.floor(term, as_of, context) if term.unclean else (term.offset, None)
        verdict = _verdict(terms, term, previous, mark, floor, since)
        mark = _after(term, mark, floor, term.known(as_of, context))
        verdicts.append(verdict)
        marks.append(mark)
        previous = term
    return verdicts, marks


def _verdict(
    terms: Terms, term: Term, previous: Term | None, mark: Mark, floor: int | None, since: int | None
) -> Verdict | None:
    if previous is None:
        return None
    start = _least(term.offset, floor)
    if start is not None and mark.offset is not None and start < mark.offset:
        missing = [*_missing(term, previous, floor), *_misread(previous), *_behind_gap(mark), *_untold(mark)]
        stored_by = mark.by.removeprefix(STORED_BY)
        told_by = {term.broker_id, previous.broker_id, int(stored_by) if stored_by.isdecimal() else term.broker_id}
        missing += wrong_clocks(terms, told_by)
        return _loss(terms, term, previous, mark, start, missing, since)
    if term.unclean and floor is None and not (mark.exact and mark.offset == 0):
        evidence = {**_evidence(term, mark), "missing": _missing(term, previous, floor)}
        return Verdict("unclean_loss", "unproven", evidence, previous, mark.offset, term.hw, term.offset)
    if term.hw is not None and mark.offset is not None and term.hw < mark.offset:
        return Verdict("stale_leader_hw", "proven", _evidence(term, mark), previous, mark.offset, term.hw, term.offset)
    return None


def _loss(
    terms: Terms, term: Term, previous: Term, mark: Mark, start: int, missing: list[str], since: int | None
) -> Verdict:
    lost_to = mark.offset or 0
    evidence = _evidence(term, mark)
    if since is not None and since != term.epoch:
        evidence["since"] = {"epoch": since, "offset": start}
    proof = "proven" if mark.exact and _past(terms, term, previous) else "bounded"
    if missing:
        proof, evidence["missing"] = "unproven", missing
    elif proof == "bounded":
        evidence["bound"] = "at_least"
        if mark.leo is not None and (mark.leo > lost_to or mark.by == CUT_OFF):
            evidence["at_most"] = [start, mark.leo]
    cls = "unclean_loss" if term.unclean else "committed_loss"
    return Verdict(cls, proof, evidence, previous, mark.offset, term.hw, term.offset, start, lost_to)


def _missing(term: Term, previous: Term, floor: int | None) -> list[str]:
    """What keeps a loss from being proven or bounded."""
    wanted = {
        "start offset": term.offset is not None,
        f"what broker {term.broker_id} last replicated": floor is not None or term.offset is None,
        "topic id": term.topic_id is not None and term.topic_id == previous.topic_id,
        f"telemetry of broker {term.broker_id} without a gap": not term.gap_at_start,
    }
    return [name for name, there in wanted.items() if not there]


def _misread(previous: Term) -> list[str]:
    """What the term before may have reported in lines that were not understood."""
    unread = previous.seen is not None and previous.seen.unread
    return [f"lines of broker {previous.broker_id} that were not understood"] if unread else []


def _behind_gap(mark: Mark) -> list[str]:
    """What is missing ahead of the start that told of this HW: it may be that of a later term."""
    return [f"telemetry of {mark.by.removeprefix('stored by ')} without a gap"] if mark.behind_gap else []


def wrong_clocks(terms: Terms, brokers: set[int]) -> list[str]:
    """Whose clock would have to be right for what these brokers told to stand in its order."""
    return [
        f"a right clock of broker {broker} (off by {terms.apart[broker] / 1e6:+.0f} s)"
        for broker in sorted(brokers & terms.apart.keys())
    ]


def _untold(mark: Mark) -> list[str]:
    """What was not told of the term that this HW is of, or of one since: it may have lost what the HW covers."""
    return [] if mark.untold is None else [f"the start of leader epoch {mark.untold}"]


def _past(terms: Terms, term: Term, previous: Term) -> bool:
    """The leader before has told that it knows of this term, so nothing more of its own is to come."""
    standing = terms.standings.get(previous.broker_id)
    return previous.broker_id == term.broker_id or (standing is not None and standing.epoch >= term.epoch)


def _evidence(term: Term, mark: Mark) -> dict[str, Any]:
    return {
        "start": {"broker": term.broker_id, "epoch": term.epoch, "offset": term.offset},
        "hw": {"broker": mark.broker_id, "by": mark.by, "epoch": mark.epoch, "offset": mark.offset},
    }


def _after(term: Term, mark: Mark, floor: int | None, seen: TermSeen) -> Mark:
    """Hmax at the end of a term. What the term before lost counts no more; what this one committed does.

    Only the log of the last term can be lost next: its own HW, once at or above its start, covers older ones.
    """
    start = _least(term.offset, floor)
    after = Mark(mark.offset, mark.exact and start is not None, mark.by, mark.epoch, mark.broker_id)
    after.behind_gap, after.untold = mark.behind_gap, term.epoch if start is None else mark.untold
    if start is not None and mark.offset is not None and start < mark.offset:
        after = Mark(start, True, "loss", term.epoch, term.broker_id)
    covered = after.exact or (seen.hmax is not None and term.offset is not None and seen.hmax >= term.offset)
    leos = [leo for leo in (seen.leader_leo if seen.complete else None, term.returned) if leo is not None]
    after.exact, after.leo = seen.complete and covered, max(leos, default=None)
    after.bound = seen.leader_leo if after.exact else None
    if seen.hmax is not None and (after.offset is None or seen.hmax > after.offset):
        after.offset, after.by, after.epoch, after.broker_id = seen.hmax, "telemetry", term.epoch, term.broker_id
        after.behind_gap, after.untold = False, None
    if seen.cut_off is not None and (after.offset is None or seen.cut_off > after.offset):
        after.offset, after.by, after.epoch, after.broker_id = seen.cut_off, CUT_OFF, term.epoch, term.broker_id
        after.exact = after.exact and term.stored is not None and term.stored >= seen.cut_off  # a second witness
        after.bound, after.leo = None, max(seen.cut_off, after.leo or 0)
    if term.stored is not None and (after.offset is None or term.stored > after.offset):
        after.offset, after.by, after.exact = term.stored, term.stored_by or "stored", False
        after.behind_gap, after.untold = term.stored_behind_gap, term.stored_in
        after.epoch, after.broker_id = term.epoch, term.broker_id
    return after


def _least(offset: int | None, floor: int | None) -> int | None:
    return min((o for o in (offset, floor) if o is not None), default=None)
