"""The HW with which a broker starts is the one it had stored: it belongs to the last term that the broker took part in.

A broker checkpoints its HWs (replication-offset-checkpoint) and starts with them, as leader or as follower.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.terms import (
    STORED_BY,
    BrokerPosition,
    CommittedMark,
    PendingHw,
    Term,
    TermKey,
    Terms,
)
from pipelines.replication.partition.topic_ids import CONFIRMATION_US
from schemas.event_types import CLEAN_START


@dataclass(frozen=True)
class StoredHw:
    """A HW that a broker reports as it starts; `by` names the witness in words, see CommittedMark for the others."""

    broker_id: int
    hw: int
    by: str
    behind_gap: bool = False
    unreported_epoch: int | None = None


def attribute_stored_hw(
    event: PartitionEvent, terms: Terms, isr: IsrHistory, replicas: tuple[int, ...] | None, lookup: TermLookup
) -> TermKey | None:
    """Counts the HW of a start for the last term its broker took part in, and returns that term.

    A follower that starts again with the log and HW of its last start has replicated nothing since.
    """
    position = terms.positions.get(event.broker_id)
    if position is not None and not position.led and position.starts_unchanged(event):
        return position.last_term
    if position is not None and not position.led and event.hw is not None and terms.may_still_start(position.epoch):
        moved = position.truncated or position.leo != event.leo
        due = event.ts + CONFIRMATION_US
        pending = PendingHw(position.epoch, event.broker_id, event.hw, moved, due, position.last_term)
        terms.pending_hws.append(pending)
        return (position.epoch, 0) if moved else position.last_term
    joined = isr.added_under(position.epoch) if position else frozenset()
    led = terms.at(position.last_term) if position is not None and position.led else None
    if led is not None and led.whole is None:
        led.whole = not _lost_its_end(led, event, lookup)
    key = terms.last_participated(event, joined, lookup)
    term, hw, by = terms.at(key), event.hw, f"{STORED_BY}{event.broker_id}"
    if term is not None and term is led and event.leo is not None:
        term.returned_leo = max(event.leo, term.returned_leo or 0)
        restarted = _may_have_restarted(term, event, lookup)
        if restarted and sole_isr_member(terms, term, isr, replicas, event.ts, lookup):
            hw, by = max(event.leo, event.hw or 0), "former leader alone in the ISR"
    if hw is not None:
        _store(terms, key, StoredHw(event.broker_id, hw, by, _behind_gap(position, event, lookup)))
    return key


def _may_have_restarted(term: Term, event: PartitionEvent, lookup: TermLookup) -> bool:
    """Whether a leader may have restarted since its term began: one that did not reports its HW itself."""
    states = lookup.broker_states(event.broker_id, event.ts)
    return not states or any(detail == "started" and ts > term.ts for ts, detail, *_ in states)


def _lost_its_end(term: Term, event: PartitionEvent, lookup: TermLookup) -> bool:
    """Whether a leader may have written more in its term than it told of: it is known to have started again, not to
    have stopped cleanly, and its log does not end where it told. A power failure cuts both."""
    if event.leo is not None and event.leo == term.summary_as_of(event.ts, lookup).leader_leo:
        return False
    states = lookup.broker_states(event.broker_id, event.ts)
    started = any(detail == "started" and ts > term.ts for ts, detail, *_ in states)
    started = started or lookup.started_between(event.broker_id, term.ts, event.ts)
    return started and not any(detail == CLEAN_START and ts > term.ts for ts, detail, *_ in states)


def _behind_gap(position: BrokerPosition | None, event: PartitionEvent, lookup: TermLookup) -> bool:
    """Whether telemetry of a broker is missing between its last start and this one: it may have led or followed in
    another term by then, and the HW may be one of that."""
    if position is None:
        return False
    return position.has_gap or lookup.term(event.broker_id, position.ts, event.ts).has_gap


def _store(terms: Terms, key: TermKey | None, stored: StoredHw) -> None:
    """Counts a HW for a term, or for those that are folded away."""
    term, folded = terms.at(key), terms.folded_term
    if term is not None and stored.hw > (-1 if term.stored_hw is None else term.stored_hw):
        term.stored_hw, term.stored_by = stored.hw, stored.by
        term.stored_behind_gap, term.stored_in_epoch = stored.behind_gap, stored.unreported_epoch
    if term is None and folded is not None and terms.since.get(stored.broker_id, 0) is None:
        before, terms.base = terms.base, raised(terms.base, stored.hw, stored.by, folded)
        if terms.base is not before:
            terms.base.unreported_epoch = stored.unreported_epoch


def attribute_pending(terms: Terms, at: int, lookup: TermLookup) -> bool:
    """Counts the pending HWs whose term has started by now, or need wait no longer; whether there were any."""
    ready = [p for p in terms.pending_hws if p.due <= at or terms.last_of_epoch(p.epoch) is not None]
    terms.pending_hws = [p for p in terms.pending_hws if p not in ready]
    for pending in ready:
        term, broker_id = terms.last_of_epoch(pending.epoch), pending.broker_id
        took_part = term is not None and (pending.moved or terms.fetched(term, broker_id, at, lookup))
        key = term.key if term is not None and took_part else pending.last_term
        unreported_epoch = pending.epoch if term is None else None
        stored = StoredHw(broker_id, pending.hw, f"{STORED_BY}{broker_id}", unreported_epoch=unreported_epoch)
        _store(terms, key, stored)
    return bool(ready)


def sole_isr_member(
    terms: Terms, term: Term, isr: IsrHistory, replicas: tuple[int, ...] | None, as_of: int, lookup: TermLookup
) -> bool:
    """Whether a term ended with its leader alone in an ISR that satisfied min.insync.replicas all the time.

    Its HW was then its LEO, but only if it knew: a controller also makes a leader that is dead the last of its ISR. It
    was not where it waited for a replica that it had asked to let in; and where it told all its HWs they count.
    """
    if not isr.ended_with_leader_only(term.epoch, term.broker_id):
        return False
    after = next((t.ts for t in terms.terms[terms.terms.index(term) + 1 :]), as_of)
    summary = term.summary_as_of(min(after, as_of), lookup)
    if summary.complete and term.whole:
        return False
    if replicas == (term.broker_id,):
        return True
    at_most = max(lookup.min_isr(ts, term.min_isr) for ts in (term.ts, min(after, as_of)))
    return at_most <= 1 and lookup.min_isr_told(term.min_isr)


def count_hw_of_follower(event: PartitionEvent, terms: Terms) -> None:
    """Counts the last HW that a broker reported as a follower: it has that from a leader of that epoch."""
    term = terms.last_of_epoch(event.leader_epoch) if event.leader_epoch is not None else None
    if term is not None and event.hw is not None:
        _store(terms, term.key, StoredHw(event.broker_id, event.hw, f"reported by follower {event.broker_id}"))


def count_hws_of_before(terms: Terms) -> bool:
    """Counts the HWs with which brokers came that nothing of is known before, and that they cut off as they followed
    the first leader known: they are of before it. Returns whether there was one."""
    first = terms.terms[0] if terms.terms and terms.folded_term is None else None
    before = terms.base
    for broker, position in terms.positions.items():
        cut = position.hw_cut_off is not None and position.last_term is None and position.leo is not None
        if first is None or not cut or position.epoch != first.epoch or first.start_offset is None:
            continue
        if (position.leo or 0) <= first.start_offset:
            terms.base = raised(terms.base, position.hw_cut_off or 0, f"{STORED_BY}{broker}", None)
    return terms.base is not before


def raised(mark: CommittedMark, offset: int, by: str, term: Term | None) -> CommittedMark:
    """The mark after a HW was reported in one of the terms it stands for."""
    if mark.offset is not None and offset <= mark.offset:
        return mark
    exact = mark.exact and by == "telemetry"
    epoch, broker_id = (term.epoch, term.broker_id) if term else (None, None)
    return replace(mark, offset=offset, exact=exact, by=by, epoch=epoch, broker_id=broker_id)
