"""Decisions about one partition of one topic id, each taken when all events that bear on it are known."""

from __future__ import annotations

from msgspec.structs import replace

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.partition.broker_lives import next_look
from pipelines.replication.partition.contradictions import settle_checkpoints
from pipelines.replication.partition.events import TermLookup
from pipelines.replication.partition.loss import CRITICAL, Verdict, judge, loss_not_excluded
from pipelines.replication.partition.loss_exclusion import (
    awaited_until,
    is_leaders_life_told,
    may_be_unclean,
    missing_to_exclude_loss,
)
from pipelines.replication.partition.one_term import CommittedMark, Term
from pipelines.replication.partition.stored_high_watermarks import (
    attribute_pending,
    count_hws_of_before,
    settle_ends,
)
from pipelines.replication.partition.terms import KEPT_TERMS
from pipelines.replication.partition.topic_ids import CONFIRMATION_US
from pipelines.replication.partition.topic_state import TopicState
from pipelines.replication.partition.truncations import judge_truncation, reads_less, still_unexplained


def decide(topic: TopicState, at: int, as_of: int, lookup: TermLookup) -> None:
    """Take every decision due by `at`, from what is known as of `as_of`."""
    decide_isr_changes(topic, at, as_of, lookup)
    if topic.terms.pending_hws and any(pending.due <= at for pending in topic.terms.pending_hws):
        count_pending_hws(topic, at, lookup)
    if any(t.due and t.due <= at for t in topic.terms.terms) or (topic.judge_again_at or NEVER) <= at:
        judge_terms(topic, at, as_of, lookup)
    if topic.truncations:
        decide_truncations(topic, at, lookup)
    if topic.hws_moved_back:
        decide_moved_back(topic, at, lookup)


def decide_isr_changes(topic: TopicState, at: int, as_of: int, lookup: TermLookup) -> None:
    """Publish the ISR changes that are due."""
    for row in topic.isr.decide(at, as_of, lookup):
        place = topic.place(row["leader_id"], row["leader_epoch"], topic.level_of(row["leader_epoch"]))
        topic.changes.append({**place.columns(), **row})


def count_pending_hws(topic: TopicState, at: int, lookup: TermLookup) -> None:
    """Count the pending HWs whose term is known, or need wait no longer."""
    if attribute_pending(topic.terms, at, lookup):
        topic.judge_again_at = topic.decision_time()


_MAY_BE_EXPLAINED = ("loss_not_excluded", "hw_moved_back")


def decide_truncations(topic: TopicState, at: int, lookup: TermLookup) -> None:
    """Publish verdicts on truncations; one that nothing explains waits for a term that would."""
    ripe = [t for t in topic.truncations if t.due <= at]
    topic.truncations = [t for t in topic.truncations if t.due > at]
    for truncation in ripe:
        if reads_less(truncation, [*ripe, *topic.truncations]):
            continue
        verdict = truncation.unexplained or judge_truncation(truncation, topic.terms, topic.isr, lookup)
        if truncation.unexplained is None and verdict is not None and verdict.cls in _MAY_BE_EXPLAINED:
            topic.truncations.append(replace(truncation, due=at + CONFIRMATION_US, unexplained=verdict))
        elif truncation.unexplained is not None and not still_unexplained(truncation, topic.terms, lookup):
            continue
        elif verdict is not None:
            name = f"replica-{truncation.replica_id}-cut-{truncation.ts}-{truncation.to}"
            topic.publish(verdict, name, truncation.ts, None, truncation.replica_id)


def decide_moved_back(topic: TopicState, at: int, lookup: TermLookup) -> None:
    """Publish reports that moved back, once nothing has shown the earlier report to be false."""
    for back in topic.hws_moved_back:
        term = topic.terms.at(back.term)
        if not back.published and back.due <= at and term is not None:
            topic.publish_moved_back(back, term, lookup)
        back.published |= back.due <= at


def judge_terms(topic: TopicState, at: int, as_of: int, lookup: TermLookup) -> None:
    """Judge every term that has begun, again where something about an earlier one has changed."""
    topic.judge_again_at = None if (topic.judge_again_at or NEVER) <= at else topic.judge_again_at
    terms = topic.terms
    count_hws_of_before(terms)
    contradictions, settled_at = settle_checkpoints(terms, as_of, lookup)
    topic.isr.contradictions += contradictions
    for again in (settle_ends(terms, as_of, lookup), settled_at):
        if again is not None and at < NEVER:
            topic.judge_again_at = min(again, topic.judge_again_at or again)
    if _is_first_term(topic):
        return
    for place, term in enumerate(terms.terms):
        if term.due and term.due <= at:
            term.due = 0
            summary = term.summary_as_of(as_of, lookup)
            term.gap_at_start, term.level = summary.has_gap, summary.level
            if term.unclean is None and (topic.isr.replaced_under(term.epoch) or _seen_outside(topic, term)):
                term.unclean = True
            ended = place + (term is not terms.terms[-1])
            for over in terms.terms[:ended]:
                over.keep_summary(as_of, lookup)
                if [t.epoch for t in terms.terms].count(over.epoch) == 1:  # else nobody tells in which it fetched
                    over.fetchers |= topic.isr.added_under(over.epoch)
    verdicts, marks = judge(terms, as_of, lookup)
    for term, verdict, mark in zip(terms.terms, verdicts, [terms.base, *marks], strict=False):
        if not term.due:
            verdict, settled = _unless_excluded(topic, term, verdict, mark, (at, as_of), lookup)
            if settled or term.published is None:
                topic.publish_term(term, verdict)
    while len(terms.terms) > KEPT_TERMS and not any(t.due for t in terms.terms[:2]):
        terms.fold(marks.pop(0), as_of, lookup)


def _seen_outside(topic: TopicState, term: Term) -> bool:
    """Whether a watcher last saw the leader of this term outside the ISR."""
    members = topic.isr.last_members(term.epoch)
    return term.sampled and bool(members) and term.broker_id not in members


def _is_first_term(topic: TopicState) -> bool:
    """Whether the only term is the first one known, which has nothing before it to be measured against.

    So it is of most partitions when a history begins.
    """
    terms = topic.terms
    if len(terms.terms) != 1 or terms.folded_term is not None or terms.terms[0].has_gap or terms.terms[0].published:
        return False
    first = terms.terms[0]
    unclean = topic.isr.replaced_under(first.epoch) if first.unclean is None else first.unclean
    if topic.isr.led_before(first.epoch) or first.behind_gap or unclean or terms.base.offset is not None:
        return False
    first.due = 0
    return True


def _unless_excluded(
    topic: TopicState,
    term: Term,
    verdict: Verdict | None,
    before: CommittedMark,
    times: tuple[int, int],
    lookup: TermLookup,
) -> tuple[Verdict | None, bool]:
    """The verdict; where it is not critical and a loss is not excluded, that. And whether it waits for nothing more.

    Every start is judged before which something of an earlier leader epoch was reported. `times` as in `decide`: what
    is decided to the end waits for nobody, and excludes nothing for which it would wait.
    """
    at, as_of = times
    if term.loss_excluded or (verdict is not None and verdict.cls in CRITICAL):
        return verdict, True
    earlier = topic.terms.before(term)
    unknown = all(t.known_start is None for t in earlier)
    doubted = term.behind_gap or term.unclean or term.across_seam
    if unknown and verdict is None and not topic.isr.led_before(term.epoch) and not doubted:
        return verdict, True
    missing = missing_to_exclude_loss(topic.terms, term, before, topic.isr, as_of, lookup)
    again = awaited_until(topic.terms, term, topic.isr, not missing, as_of, lookup)
    if again is not None and at == NEVER:
        missing, again = missing or ["what was told after this history ended"], None
    term.loss_excluded = not missing and again is None
    if again is not None:
        topic.judge_again_at = min(again, topic.judge_again_at or again)
        return verdict, False
    told = is_leaders_life_told(topic.terms, term, topic.isr, as_of, lookup) if missing and at < NEVER else True
    if told is False and (later := next_look(term.ts, as_of)) is not None:
        topic.judge_again_at = min(later, topic.judge_again_at or later)
    if missing:
        warns = may_be_unclean(topic.terms, term, topic.isr)
        verdict = loss_not_excluded(term, earlier[-1] if earlier else None, before, missing, warns=warns)
    return verdict, True
