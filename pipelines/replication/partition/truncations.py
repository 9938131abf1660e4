"""Verdicts inside a term: what a replica cut from its log, and a HW that moved back."""

from __future__ import annotations

from msgspec.structs import replace

from pipelines.replication.partition.codec import Fixed, Kept
from pipelines.replication.partition.events import Context, Note
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.loss import Verdict, judge, mark_at_start, wrong_clocks
from pipelines.replication.partition.terms import Mark, Term, Terms
from pipelines.replication.partition.topic_ids import UNTOLD_US


class Cut(Fixed, frozen=True):
    """A replica's log now ends at `to`; `before` is where it ended, None when not known."""

    ts: int
    due: int
    replica_id: int
    to: int
    before: int | None
    log_start: int | None
    part: tuple[int, int] | None  # the term it last took part in before the one it follows now
    epoch: int | None = None  # of the leader it follows
    partition_epoch: int | None = None  # as the replica knows it
    begins: bool = False  # its first cut since it began to follow
    grave: Verdict | None = None  # what it comes to, unless a term that is still to be told of explains it
    behind_gap: bool = False  # telemetry of the replica is missing since it began to follow, or that it did


class Back(Kept):
    """Two successive reports of one term below an earlier one of it; told once `due` is past, and taken back when a
    LEO shows that the earlier one was false."""

    ts: int
    due: int
    part: tuple[int, int]  # the term
    broker_id: int
    before: int | None
    hw: int | None
    told: bool = False


def judge_cut(cut: Cut, terms: Terms, isr: IsrHistory, context: Context) -> Verdict | None:
    """Harmless above the HW; grave below it on a replica of the ISR; else what the term's own verdict tells.

    The HW and the ISR are taken a race window earlier: the replica's clock is not the leader's.
    """
    earlier = cut.ts - context.race_window_us
    _, marks = judge(terms, earlier, context)
    place = max((i for i, t in enumerate(terms.terms) if t.ts <= cut.ts), default=None)
    if place is None:
        return None
    term, mark = terms.terms[place], marks[place]
    if cut.before is not None and cut.before < cut.to:
        restarted = cut.log_start == cut.to
        return _info("log_start_advance", cut, term, mark) if restarted else None
    in_sync = cut.replica_id in isr.members_at(earlier) & isr.members_at(cut.ts) and _in_sync(cut, terms, isr)
    below = mark.offset is not None and cut.to < mark.offset
    another = cut.epoch is not None and cut.epoch != term.epoch  # by the clock of a replica that is behind, or ahead
    if in_sync and below and not another and not _follows_from_a_start(cut, terms, marks):
        return moved_back(term, mark.offset, cut.to, cut.replica_id, earlier, context)
    own = _own_mark(cut, terms, marks, mark)
    committed = own.offset if own else None
    if cut.before is None or cut.before == cut.to or committed is None or cut.to < committed:
        return None
    return _info("uncommitted_truncation", cut, term, Mark(committed))


def still_grave(cut: Cut, terms: Terms, isr: IsrHistory, context: Context) -> bool:
    """Whether nothing told of since explains it: the clock of its leader may be behind, the replica's ahead."""
    _, marks = judge(terms, cut.due, context)
    return _in_sync(cut, terms, isr) and not _follows_from_a_start(cut, terms, marks)


def across_clocks_and_gaps(verdict: Verdict, cut: Cut, terms: Terms) -> Verdict:
    """The same, unproven where a clock is wrong, or may be, or rows are missing.

    Who was in the ISR then is a matter of time, and whether the leader had come back with a shorter log by then; and
    a replica that has only begun to follow may cut its log.
    """
    missing = wrong_clocks(terms, set(terms.apart))
    resumed = [t for t in terms.terms if t.ordinal > 0 and t.epoch == cut.epoch]
    if not missing and any(t.offset is not None and cut.to >= t.offset for t in resumed):
        missing = [f"how far apart the clocks of brokers {cut.replica_id} and {resumed[0].broker_id} are"]
    if cut.behind_gap:
        missing = [*missing, f"telemetry of broker {cut.replica_id} without a gap"]
    if verdict.cls != "hw_moved_back" or not missing:
        return verdict
    told = verdict.evidence.get("missing", [])
    return replace(verdict, proof="unproven", evidence={**verdict.evidence, "missing": [*told, *missing]})


def _in_sync(cut: Cut, terms: Terms, isr: IsrHistory) -> bool:
    """Whether the replica was in the ISR that it knew of itself: by partition epoch, else as the term began."""
    known = isr.members_under(cut.partition_epoch) if cut.partition_epoch is not None else None
    term = terms.of_epoch(cut.epoch) if cut.begins and cut.epoch is not None else None
    if known is None and term is not None and term.isr is not None:
        known = frozenset(term.isr)
    return known is None or cut.replica_id in known


def _follows_from_a_start(cut: Cut, terms: Terms, marks: list[Mark]) -> bool:
    """Whether it cut no more than its leader's start demands, by leader epochs and by its own order, not by clocks.

    A replica of the ISR cuts its log as it begins to follow, ahead of its first fetch, until which the HW stands
    still; or when its leader came back with a shorter log in the same epoch.
    """
    for term, before in zip(terms.terms, [terms.base, *marks], strict=False):
        resumed = term.ordinal > 0 and abs(term.ts - cut.ts) <= 2 * UNTOLD_US  # two clocks, each off by a grace
        start = mark_at_start(term, before)
        if term.epoch == cut.epoch and (cut.begins or resumed) and start is not None and cut.to >= start:
            return True
    return False


def moved_back(
    term: Term, hw_before: int | None, hw_after: int | None, broker_id: int, as_of: int, context: Context
) -> Verdict:  # fmt: skip
    """A HW that fell inside one term, which Kafka's rules forbid."""
    held = term.known(as_of, context).held
    missing = [f"telemetry of broker {term.broker_id} without a gap"] if held else []
    evidence: dict[str, object] = {"broker": broker_id, "epoch": term.epoch, "hw": [hw_before, hw_after]}
    if missing:
        evidence["missing"] = missing
    return Verdict("hw_moved_back", "unproven" if missing else "proven", evidence, term, hw_before, hw_after)


def _own_mark(cut: Cut, terms: Terms, marks: list[Mark], present: Mark) -> Mark | None:
    """Hmax at the end of the term that the cut records may come from."""
    if cut.part is None:
        return present
    found = next((m for t, m in zip(terms.terms, marks, strict=True) if (t.epoch, t.ordinal) == cut.part), None)
    if found is None and terms.since.get(cut.replica_id, 0) is None:
        return terms.base
    return found


def _info(cls: str, cut: Cut, term: Term, mark: Mark) -> Verdict:
    evidence = {"broker": cut.replica_id, "cut": [cut.to, cut.before]}
    return Verdict(cls, "proven", evidence, term, mark.offset, cut.to)


def cut_of(note: Note, due: int, terms: Terms) -> Cut | None:
    """The cut that a truncate note tells."""
    replica = note.replica_id if note.replica_id is not None else note.broker_id
    if note.leo is None:
        return None
    standing = terms.standings.get(replica)
    part = standing.anchor if standing else None
    epoch = note.leader_epoch if note.leader_epoch is not None else standing.epoch if standing else None
    begins = standing is not None and not standing.led and not standing.cut and standing.epoch == epoch
    if standing is not None and note.hw is not None and standing.hw is not None and note.hw > standing.hw:
        begins = False  # it has learnt a HW since, so it has fetched
    before = note.before
    if before is None and standing is not None and standing.leo is not None:
        ended_below = begins and note.log_start == note.leo  # it was made anew from the log start of its leader on
        before = standing.leo if standing.leo >= note.leo or ended_below else None
    behind_gap = standing.gap if standing is not None else replica in terms.missed
    if standing is not None:
        standing.cut, standing.leo = True, note.leo
    return Cut(
        note.ts, due, replica, note.leo, before, note.log_start, part, epoch, note.partition_epoch, begins,
        behind_gap=behind_gap,
    )  # fmt: skip
