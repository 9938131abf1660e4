"""Verdicts inside a term: on a replica that truncated its log, and on a HW that moved back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pipelines.replication.partition.codec import Persisted, PersistedFrozen
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.loss import Verdict, judge, mark_at_start
from pipelines.replication.partition.one_term import CommittedMark, Term, TermKey
from pipelines.replication.partition.terms import Terms
from pipelines.replication.partition.topic_ids import CONFIRMATION_US
from schemas.event_types import POSITION, cut_answer


class Truncation(PersistedFrozen, frozen=True):
    """A replica truncated its log to the offset `to`; `before` is where it ended, None where not known."""

    ts: int
    due: int
    replica_id: int
    to: int
    before: int | None
    log_start: int | None
    last_term: TermKey | None  # the term it last took part in before the one it follows now
    epoch: int | None = None  # of the leader it follows
    partition_epoch: int | None = None  # as the replica knows it
    first: bool = False  # its first truncation since it began to follow
    unexplained: Verdict | None = None  # its verdict, unless a term that is reported later explains it
    behind_gap: bool = False  # telemetry of the replica is missing since it began to follow, or that start is
    hw: int | None = None  # with which the replica began to follow
    # the replica's HW, and the end of which leader epoch of its own its leader answered below that
    answered: tuple[int, int, int] | None = None
    of_consumer: bool = False  # a consumer had read up to that HW, and the replica is the leader that answered it
    followed_since: int | None = None  # when the replica first began to follow in that epoch


class HwMovedBack(Persisted):
    """Two successive reports of one term below an earlier one of it.

    Published once `due` is past, and retracted when a LEO shows that the earlier report was false.
    """

    ts: int
    due: int
    term: TermKey
    broker_id: int
    before: int | None
    hw: int | None
    published: bool = False


def judge_truncation(truncation: Truncation, terms: Terms, isr: IsrHistory, lookup: TermLookup) -> Verdict | None:
    """Harmless at or above every HW that what was cut may have been committed by. Below the HW, on a replica of the
    ISR, or below its own, it may be a loss, unless a term's own verdict covers it.

    The HW and the ISR are those of a race window earlier: the replica's clock is not the leader's.
    """
    if truncation.answered is not None:
        return _answered_below_hw(truncation, terms)
    earlier = truncation.ts - lookup.race_window_us
    epochs = [term.epoch for term in terms.terms[-1:]]
    replaced = truncation.epoch is not None and any(truncation.epoch > epoch for epoch in epochs)
    verdicts, marks = judge(terms, earlier, lookup, all_over=replaced)
    place = max((i for i, t in enumerate(terms.terms) if t.ts <= truncation.ts), default=None)
    if place is None:
        return None
    term, mark = terms.terms[place], marks[place]
    if truncation.before is not None and truncation.before < truncation.to:
        restarted = truncation.log_start == truncation.to
        return _info("log_start_advance", truncation, term, mark) if restarted else None
    member = truncation.replica_id in isr.isr_at(earlier) & isr.isr_at(truncation.ts)
    in_sync = member and _in_sync(truncation, terms, isr)
    # the clock of the replica may be behind or ahead, so the term of that time need not be the one it follows
    another_term = truncation.epoch is not None and truncation.epoch != term.epoch
    below = in_sync and not another_term and mark.offset is not None and truncation.to < mark.offset
    below_own = truncation.hw is not None and truncation.to < truncation.hw
    explained = (below or below_own) and _follows_from_a_start(truncation, terms, verdicts, marks)
    if below and not explained:
        return _below_hw(truncation, term, mark.offset or 0, terms)
    if below_own:
        explained = explained or _begins_there(truncation, terms)
        return None if explained else _below_hw(truncation, term, truncation.hw or 0, terms)
    committed = _committed_since(truncation, terms, marks)
    unchanged = truncation.before is None or truncation.before == truncation.to
    if unchanged or committed is None or truncation.to < committed or _lacks_first_start(truncation, terms):
        return None
    return _info("uncommitted_truncation", truncation, term, CommittedMark(committed))


def _answered_below_hw(truncation: Truncation, terms: Terms) -> Verdict | None:
    """Lost is what lies between where the leader's log leaves the last epoch of both and the HW of the replica, in that
    term or a later one; None where a start below the HW has a verdict of its own."""
    hw, epoch, end = truncation.answered or (0, 0, 0)
    told = any(t.epoch > epoch and t.start_offset is not None and t.start_offset <= end for t in terms.terms)
    folded = terms.folded_term
    if told or (folded is not None and folded.epoch > epoch):
        return None
    evidence = {"broker": truncation.replica_id, "hw": [hw, truncation.to], "answered": {"epoch": epoch, "end": end}}
    evidence |= {"bound": "at_least"} | ({"read_by": "a consumer"} if truncation.of_consumer else {})
    return Verdict("hw_moved_back", "bounded", evidence, None, hw, truncation.to, None, end, hw)


def reads_less(truncation: Truncation, others: Sequence[Truncation]) -> bool:
    """Whether it is of a consumer, and another one had read further of what is gone."""
    answers = [t.answered for t in others if t.of_consumer and t.answered and truncation.of_consumer]
    hw, *rest = truncation.answered or (0,)
    return any(rest == [*other[1:]] and other[0] > hw for other in answers)


def _begins_there(truncation: Truncation, terms: Terms) -> bool:
    """Whether the leader that a replica follows began no higher than it cut: that start has a verdict of its own."""
    starts = [t.start_offset for t in terms.terms if t.epoch == truncation.epoch]
    return any(start is not None and truncation.to >= start for start in starts)


def _below_hw(truncation: Truncation, term: Term, hw: int, terms: Terms) -> Verdict:
    """A cut below the HW alone shows no loss: its leader may have had more than it answered, or the cut is of another
    copy of the log (ReplicaAlterLogDirsThread)."""
    leader = terms.last_of_epoch(truncation.epoch) if truncation.epoch is not None else term
    start = None if leader is None else leader.start_offset
    missing = [f"the start offset of leader epoch {truncation.epoch}"] if start is None else []
    missing = missing or [f"what the leader answered broker {truncation.replica_id}"]
    evidence = {"broker": truncation.replica_id, "epoch": term.epoch, "hw": [hw, truncation.to], "missing": missing}
    return Verdict("loss_not_excluded", "unproven", evidence, term, hw, truncation.to)


def still_unexplained(truncation: Truncation, terms: Terms, lookup: TermLookup) -> bool:
    """Whether nothing reported since explains the cut: the leader's clock may be behind, the replica's ahead."""
    if truncation.answered is not None:
        return _answered_below_hw(truncation, terms) is not None
    return not _follows_from_a_start(truncation, terms, *judge(terms, truncation.due, lookup))


def _in_sync(truncation: Truncation, terms: Terms, isr: IsrHistory) -> bool:
    """Whether the replica was in the ISR as it knew it: by partition epoch, else the ISR with which the term began."""
    known = None if truncation.partition_epoch is None else isr.isr_at_epoch(truncation.partition_epoch)
    term = terms.last_of_epoch(truncation.epoch) if truncation.first and truncation.epoch is not None else None
    if known is None and term is not None and term.isr is not None:
        known = frozenset(term.isr)
    return known is None or truncation.replica_id in known


def _follows_from_a_start(
    truncation: Truncation, terms: Terms, verdicts: Sequence[Verdict | None], marks: Sequence[CommittedMark]
) -> bool:
    """Whether the replica cut no more than its leader's start demands or lost; by leader epochs, not by clocks.

    A replica of the ISR truncates its log as it begins to follow, before its first fetch, until which the HW does not
    advance; or when its leader came back with a shorter log in the same epoch.
    """
    for term, before, verdict in zip(terms.terms, [terms.base, *marks], verdicts, strict=False):
        near = abs(term.ts - truncation.ts) <= 2 * CONFIRMATION_US  # two clocks, each off by a grace
        resumed = term.ordinal > 0 and near
        start = mark_at_start(term, before)
        demanded = start is not None and truncation.to >= start
        told = verdict is not None and _is_of(truncation, verdict)
        if term.epoch == truncation.epoch and (truncation.first or resumed) and (demanded or told):
            return True
    return False


def _is_of(truncation: Truncation, loss: Verdict) -> bool:
    """Whether what was cut below the replica's own HW is part of a loss."""
    if loss.lost_from is None or loss.lost_to is None or truncation.hw is None:
        return False
    return loss.lost_from <= truncation.to and truncation.hw <= loss.lost_to


def moved_back(
    term: Term, hws: tuple[int | None, int | None], broker_id: int, as_of: int, lookup: TermLookup
) -> Verdict:
    """A HW that fell inside one term, which Kafka's rules forbid; `hws` are those before and after."""
    has_gap = term.summary_as_of(as_of, lookup).has_gap
    missing = [f"telemetry of broker {term.broker_id} without a gap"] if has_gap else []
    evidence: dict[str, object] = {"broker": broker_id, "epoch": term.epoch, "hw": list(hws)}
    if missing:
        evidence["missing"] = missing
    return Verdict("hw_moved_back", "unproven" if missing else "proven", evidence, term, *hws)


def _committed_since(truncation: Truncation, terms: Terms, marks: list[CommittedMark]) -> int | None:
    """Hmax of the term that the truncated records may come from, and of all later ones that began with them: a later
    leader may have committed what it inherited. None where more may have been committed than is known: a leader did not
    tell of its term up to its end, and not every start since is known to have had all that was committed."""
    kept = list(zip(terms.terms, marks, strict=True))
    # an epoch may have several terms, and it is not always known in which one the replica fetched: the first counts
    last = None if truncation.last_term is None else truncation.last_term[0]
    place = next((i for i, (t, _) in enumerate(kept) if t.epoch == last), None)
    folded = truncation.last_term is not None and terms.since.get(truncation.replica_id, 0) is None
    if place is not None and kept[place][0].ordinal > 0:
        place, folded = None, True
    if place is None and not folded:
        return None
    since = kept[0 if place is None else place + 1 :]
    of = [terms.base if place is None else marks[place], *(m for t, m in since if _begins_above(t, truncation.to))]
    begun = bool(since) and all(t.loss_excluded for t, _ in since)
    epochs = [*(t.epoch for t, _ in kept[place or 0 : (place or 0) + 1]), *(t.epoch for t, _ in since)]
    told = all(after - before <= 1 for before, after in pairwise(epochs))  # of another leader nothing may be told
    safe = begun or (told and all(m.exact or m.bound is not None for m in of))
    if not safe or not all(mark.whole for mark in of):
        return None
    return max((hw for mark in of for hw in (mark.offset, mark.most) if hw is not None), default=None)


def _lacks_first_start(truncation: Truncation, terms: Terms) -> bool:
    """Whether the replica followed in its leader's epoch before the first start that is known of that epoch.

    An earlier start is missing then, and the records that the replica cut may have been committed since.
    """
    first, since = next((t for t in terms.terms if t.epoch == truncation.epoch), None), truncation.followed_since
    return bool(first and since and first.ordinal == 0 and since < first.ts - 2 * CONFIRMATION_US)


def _begins_above(term: Term, offset: int) -> bool:
    return term.start_offset is None or term.start_offset > offset


def _info(cls: str, truncation: Truncation, term: Term, mark: CommittedMark) -> Verdict:
    evidence = {"broker": truncation.replica_id, "cut": [truncation.to, truncation.before]}
    return Verdict(cls, "proven", evidence, term, mark.offset, truncation.to)


def truncation_of(event: PartitionEvent, due: int, terms: Terms) -> Truncation | None:
    """The truncation that an event reports; the replica's position is updated by it."""
    replica = event.replica_id if event.replica_id is not None else event.broker_id
    if event.leo is None:
        return None
    answered = cut_answer(event.detail)
    if answered is not None and (event.detail or "").startswith(POSITION):
        return Truncation(event.ts, due, replica, event.leo, None, None, None, answered=answered, of_consumer=True)
    position = terms.positions.get(replica)
    if position is not None and position.led and event.leader_epoch in (None, position.epoch):
        return None  # no leader cuts its log: it is that of a copy in another directory
    last_term = position.last_term if position else None
    epoch = event.leader_epoch if event.leader_epoch is not None else position.epoch if position else None
    first = position is not None and not position.led and not position.truncated and position.epoch == epoch
    if position is not None and event.hw is not None and position.hw is not None and event.hw > position.hw:
        first = False  # its HW has risen since its start, so it has fetched
    before = event.before
    if before is None and position is not None and position.leo is not None:
        # a log made anew from the log start of the leader on
        ended_below = first and event.log_start == event.leo
        before = position.leo if position.leo >= event.leo or ended_below else None
    behind_gap = position.has_gap if position is not None else replica in terms.with_initial_gap
    hw = position.hw if position is not None else None
    # states of earlier versions lack `followed_since`: the replica's last start stands for it
    since = position.followed_since or position.ts if position is not None and position.epoch == epoch else None
    if position is not None:
        below = not position.truncated and position.hw is not None and event.leo < position.hw
        position.hw_cut_off = position.hw if below else position.hw_cut_off
        position.truncated = True
        position.leo = event.leo if position.leo is None else min(position.leo, event.leo)  # else it has fetched since
    return Truncation(
        event.ts, due, replica, event.leo, before, event.log_start, last_term, epoch, event.partition_epoch, first,
        behind_gap=behind_gap, hw=hw, answered=answered, followed_since=since,
    )  # fmt: skip
