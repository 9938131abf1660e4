"""High watermarks that brokers had stored: each belongs to the last term that its broker took part in.

A broker checkpoints its HWs (replication-offset-checkpoint) and starts with them, as leader or as follower.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from msgspec.structs import replace

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.partition.broker_lives import UNTOLD_US, count_clean_starts, is_life_told, next_look
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.one_term import STORED_BY, BrokerPosition, CommittedMark, PendingHw, Term, TermKey
from pipelines.replication.partition.terms import Terms
from pipelines.replication.partition.topic_ids import CONFIRMATION_US
from schemas.event_types import CLEAN_START, UNCLEAN_START, epoch_entries

GONE = frozenset({"fenced", "unregistered", "controlled_shutdown"})
LASTING = GONE | {"unfenced"}
"""A broker that is only registered is not served yet."""
SESSION_US = 5_000_000
"""A broker that is fenced has not been heard of for longer than this: 9 s at the default session timeout."""


@dataclass(frozen=True)
class StoredHw:
    """A HW that a broker reports as it starts; `by` names the witness in words, see CommittedMark for the others."""

    broker_id: int
    hw: int
    by: str
    ts: int
    behind_gap: bool = False
    unreported_epoch: int | None = None
    behind_kill: bool | None = False
    on: tuple[str, int, int, int] | None = None


def attribute_stored_hw(
    event: PartitionEvent, terms: Terms, isr: IsrHistory, replicas: tuple[int, ...] | None, lookup: TermLookup
) -> TermKey | None:
    """Count the HW of a start for the last term its broker took part in, and return that term.

    A follower that starts again with the log and HW of its last start has replicated nothing since.
    """
    position = terms.positions.get(event.broker_id)
    if position is not None and position.has_lost_log(event):
        terms.shrunk[event.broker_id] = event.ts
    if position is not None and not position.led and position.starts_unchanged(event):
        return position.last_term
    led = terms.at(position.last_term) if position is not None and position.led else None
    if led is not None and led.whole is None:
        ended = lookup.term(event.broker_id, led.ts, event.ts)
        led.has_gap |= ended.has_gap
        resumes = event.event_type == "leader" and event.leader_epoch == led.epoch
        started = resumes or lookup.started_between(event.broker_id, led.ts, event.ts)
        led.whole = not led.has_gap and _told_its_end(led, event.ts, event.ts, started, lookup)
        led.returned = event.ts
        led.summary = replace(led.summary, leader_leo=ended.leader_leo) if led.summary else None
    behind_gap = _behind_gap(position, event, lookup)
    key = terms.last_participated(event, isr.added_under, lookup)
    silent = _followed_untold(position, key, event, terms, lookup, behind_gap=behind_gap)
    untold = _ran_untold(position, event, terms, isr, lookup)
    for other in [*untold, *silent]:
        other.perhaps |= {event.broker_id}
    known = not (behind_gap or silent or untold)
    waits = known and position is not None and not position.led and terms.may_still_start(position.epoch)
    if waits and position is not None and event.hw is not None and (key is None or key[0] <= position.epoch):
        moved = position.truncated or position.leo != event.leo or position.has_grown(event)
        due = event.ts + CONFIRMATION_US
        pending = PendingHw(position.epoch, event.broker_id, event.hw, moved, due, position.last_term)
        terms.pending_hws.append(pending)
        return (position.epoch, 0) if moved else position.last_term
    term, hw, by = terms.at(key), event.hw, f"{STORED_BY}{event.broker_id}"
    if term is not None and term is led and event.leo is not None:
        term.returned_leo = max(event.leo, term.returned_leo or 0) if term.whole else None
        if sole_isr_member(terms, term, isr, replicas, event.ts, lookup):
            hw, by = max(event.leo, event.hw or 0), "former leader alone in the ISR"
    if hw is not None:
        doubtful = behind_gap or terms.crosses_seam(event) or terms.in_another_of_epoch(key, event.broker_id)
        doubtful = doubtful or bool(silent)
        killed = False if doubtful else bool(untold) or _is_of_before_a_cut(position, hw, event, lookup)
        followed = None if position is None or position.led or terms.has_begun(position.epoch) else position.epoch
        doubtful = doubtful or killed is not False
        store(terms, key, StoredHw(event.broker_id, hw, by, event.ts, doubtful, followed, killed))
    return key


def _told_its_end(term: Term, returned: int, as_of: int, started: bool, lookup: TermLookup) -> bool:
    """Whether a leader told all that it did in its term: it goes on in the same life, or has stopped cleanly. A power
    failure cuts its log file like its data, and a life that nobody told may have ended so.

    `returned` is when it told something again, `started` whether its own lines show that it has started before that.
    """
    until = min(as_of, returned + lookup.grace_us)  # the controller's clock may be ahead
    states = [state for state in lookup.broker_states(term.broker_id, until) if state[0] > term.ts]
    details = [detail for _, detail, *_ in states]
    starts = max(details.count("started"), int(started))
    known = is_life_told(term.broker_id, term.ts, returned, as_of, lookup) is not False
    return known and UNCLEAN_START not in details and starts <= count_clean_starts(states, lookup.grace_us)


def settle_ends(terms: Terms, as_of: int, lookup: TermLookup) -> int | None:
    """Look again whether leaders that returned had told all of their terms, until the controller has told of a start
    between, or that it goes on. Returns when to look again."""
    again = None
    for term in terms.terms:
        if term.returned:
            later = next_look(term.returned, as_of)
            started = lookup.started_between(term.broker_id, term.ts, term.returned)
            started |= any(t.epoch == term.epoch and t.start_ts == term.returned for t in terms.terms)
            if not term.has_gap:
                term.whole = _told_its_end(term, term.returned, as_of, started, lookup)
            if later is None or (as_of >= term.returned + UNTOLD_US and term.whole):
                term.returned = 0
            else:
                again = later if again is None else min(again, later)
    return again


def _behind_gap(position: BrokerPosition | None, event: PartitionEvent, lookup: TermLookup) -> bool:
    """Whether telemetry of a broker is missing between its last start and this one: it may have led or followed in
    another term by then, and the HW may be one of that. Of two logs one has to tell all the time between."""
    if position is None:
        return False
    if position.has_gap or lookup.term(event.broker_id, position.ts, event.ts).has_gap:
        return True
    logs = {(position.source_id, position.source_epoch), (event.source_id, event.source_epoch)}
    return bool(position.source_id) and len(logs) > 1 and not lookup.told_through(logs, position.ts, event.ts)


def _is_of_before_a_cut(
    position: BrokerPosition | None, hw: int, event: PartitionEvent, lookup: TermLookup
) -> bool | None:
    """Whether a HW may have been stored before its broker cut its log below that HW.

    HWs are stored every 5 s: after an unclean stop the stored one may be from before the cut. None if it is not known
    whether the broker stopped.
    """
    if position is None or hw > (position.hw_cut_off or -1):
        return False
    broker, since = event.broker_id, position.ts
    details = {detail for ts, detail, *_ in lookup.broker_states(broker, event.ts) if ts > since}
    if UNCLEAN_START not in details and CLEAN_START in details:
        return False
    if details & {"started", UNCLEAN_START} or lookup.started_between(broker, since, event.ts):
        return True
    return False if is_life_told(broker, since, event.ts, event.ts, lookup) else None


def _followed_untold(
    position: BrokerPosition | None,
    key: TermKey | None,
    event: PartitionEvent,
    terms: Terms,
    lookup: TermLookup,
    *,
    behind_gap: bool,
) -> list[Term]:
    """The terms of other leaders, of later epochs, in which the broker was in the cluster with that leader and told no
    start as its follower: nobody reads these lines of it, and the HW may be one of these terms."""
    if not terms.terms:
        return []
    told = (position.epoch, position.ts) if position else (-1, 0)
    epoch, found = max(told[0], key[0] if key else -1), []
    until = event.ts - (0 if behind_gap else lookup.grace_us)
    for term, end in zip(terms.terms, [*(t.ts for t in terms.terms[1:]), until], strict=False):
        if term.ts < until and term.epoch > epoch and term.broker_id != event.broker_id:
            since = _there_since(event.broker_id, max(term.ts, told[1]), min(end, until), lookup)
            tells_fetches = term.whole and term.summary_as_of(event.ts, lookup).complete
            known = tells_fetches or terms.fetched(term, event.broker_id, event.ts, lookup)
            if since is not None and not known and not _was_gone(term.broker_id, since, end, lookup):
                found.append(term)
    return found


def _there_since(broker_id: int, since: int, until: int, lookup: TermLookup) -> int | None:
    """When a broker first ran in a stretch of time as a member of the cluster, None where nobody tells that it did."""
    states = [(ts, detail) for ts, detail, *_ in lookup.broker_states(broker_id, until + SESSION_US)]
    served = "unfenced" if any(detail == "unfenced" for _, detail in states) else "started"
    states = [(ts, detail) for ts, detail in states if detail in GONE or detail == served]
    for (ts, detail), (end, next_detail) in pairwise([*states, (NEVER, "")]):
        if detail == served and max(ts, since) < min(until, end - SESSION_US * (next_detail == "fenced")):
            return max(ts, since)
    return since if lookup.started_between(broker_id, since, until) else None


def _ran_untold(
    position: BrokerPosition | None, event: PartitionEvent, terms: Terms, isr: IsrHistory, lookup: TermLookup
) -> list[Term]:
    """The terms of later epochs in which the broker may have run, before an unclean stop, without a line in its log.

    A power failure cuts the log file like the data, so the stored HW may be of one of these terms.
    """
    if position is None or terms.terms[-1:] == [] or terms.terms[-1].epoch <= position.epoch:
        return []
    states = [state for state in lookup.broker_states(event.broker_id, event.ts) if state[0] > position.ts]
    starts = [ts for ts, detail, *_ in states if detail == "started"]
    unclean = [ts for ts, detail, *_ in states if detail == UNCLEAN_START]
    if not unclean and len(starts) <= count_clean_starts(states, lookup.grace_us):
        return []
    # with ZooKeeper its registration is told before its start, by another clock
    until = starts[-1] - lookup.grace_us if starts else unclean[-1]
    later = [t for t in terms.terms if t.epoch > position.epoch and t.ts < until]
    gone = [ts for ts, detail, *_ in states if detail in GONE]
    began = ((t, isr.elected_at(t.epoch) or _earliest_start(t, gone, lookup)) for t in later)
    told = ((t, since, isr.elected_at(t.epoch + 1) or until) for t, since in began)
    ran = [t for t, since, end in told if not _was_gone(event.broker_id, since, min(end, until), lookup)]
    own = [t for t in terms.terms[-1:] if t.broker_id == event.broker_id and t.start_ts is None]
    return ran or [t for t in own if 0 < isr.elected_at(t.epoch) < max(starts, default=0)]


def _earliest_start(term: Term, gone: list[int], lookup: TermLookup) -> int:
    """The earliest time, by the controller's clock, at which a term may have begun: its leader's clock may be ahead.

    If the broker was `gone` within a race window of the leader's row, the election was at the time of that row.
    """
    elected = any(abs(term.ts - ts) <= lookup.race_window_us for ts in gone)
    return term.ts if elected else term.ts - lookup.grace_us


def store(terms: Terms, key: TermKey | None, stored: StoredHw) -> None:
    """Count a HW for a term, or for those that are folded away."""
    term, folded = terms.at(key), terms.folded_term
    known = -1 if term is None or term.stored_hw is None else term.stored_hw
    settles = term is not None and term.stored_behind_gap and not stored.behind_gap
    if term is not None and (stored.hw > known or (stored.hw == known and settles)):
        term.stored_hw, term.stored_by = stored.hw, stored.by
        term.stored_behind_gap, term.stored_in_epoch = stored.behind_gap, stored.unreported_epoch
        term.stored_at, term.stored_behind_kill = stored.ts, stored.behind_kill
        same = term.stored_on is not None and stored.on is not None and term.stored_on[0] == stored.on[0]
        term.stored_on = term.stored_on if same else stored.on
    if term is None and folded is not None and terms.since.get(stored.broker_id, 0) is None:
        before, terms.base = terms.base, raised(terms.base, stored.hw, stored.by, folded)
        if terms.base is not before:
            terms.base.unreported_epoch = stored.unreported_epoch


def attribute_pending(terms: Terms, at: int, lookup: TermLookup) -> bool:
    """Count the pending HWs whose term has started by now, or need wait no longer; whether there were any."""
    ready = [p for p in terms.pending_hws if p.due <= at or terms.last_of_epoch(p.epoch) is not None]
    terms.pending_hws = [p for p in terms.pending_hws if p not in ready]
    for pending in ready:
        ts, broker_id = pending.due - CONFIRMATION_US, pending.broker_id
        term = next(iter(terms.begun_in_epoch(pending.epoch, ts)), None)
        took_part = term is not None and (pending.moved or terms.fetched(term, broker_id, at, lookup))
        key = term.key if term is not None and took_part else pending.last_term
        unreported_epoch = None if terms.has_begun(pending.epoch) else pending.epoch
        stored = StoredHw(broker_id, pending.hw, f"{STORED_BY}{broker_id}", ts, unreported_epoch=unreported_epoch)
        store(terms, key, stored)
    return bool(ready)


def sole_isr_member(
    terms: Terms, term: Term, isr: IsrHistory, replicas: tuple[int, ...] | None, as_of: int, lookup: TermLookup
) -> bool:
    """Whether a term ended with its leader alone in an ISR that satisfied min.insync.replicas all the time.

    The leader's HW was then its LEO. That does not hold if the leader did not know of this ISR (a controller leaves a
    dead leader as its last member), or waited for a replica that it had proposed. Not every level shows proposals, so
    all other replicas have to be away. If the leader reported all its HWs, these count instead.
    """
    since = isr.with_leader_only_since(term.epoch, term.broker_id)
    if since is None:
        return False
    after = min(as_of, next((t.ts for t in terms.terms[terms.terms.index(term) + 1 :]), as_of))
    if term.whole and term.summary_as_of(after, lookup).complete:
        return False
    if replicas == (term.broker_id,):
        return True
    if replicas is None:  # others may be assigned of which nothing was told
        return False
    at_most = lookup.most_min_isr(term.ts, after, term.min_isr)
    if at_most > 1 or not lookup.min_isr_told(term.min_isr, after):
        return False
    states = lookup.broker_states(term.broker_id, after)
    gone = (ts - (detail == "fenced") * SESSION_US for ts, detail, *_ in states if detail in GONE and ts >= since)
    until = max(min(gone, default=after), since + lookup.race_window_us)
    others = (set(replicas) | set(terms.positions) | isr.members) - {term.broker_id}
    return all(_is_away(broker, terms.positions.get(broker), (since, until, as_of), lookup) for broker in others)


def _is_away(broker_id: int, position: BrokerPosition | None, times: tuple[int, int, int], lookup: TermLookup) -> bool:
    """Whether a broker cannot have fetched in these times (since, until, as of): the controller had it out, and
    its own log does not go on in one life. An active controller that was frozen fences brokers as it wakes, which
    is never committed."""
    since, until, as_of = times
    if not _was_gone(broker_id, since, until, lookup):
        return False
    if position is None or not position.source_id:
        return True
    again = [ts for ts, detail, *_ in lookup.broker_states(broker_id, as_of) if detail == "started" and ts > since]
    if again or lookup.started_between(broker_id, since, as_of):
        return True
    return not lookup.told_through({(position.source_id, position.source_epoch)}, since, until)


def _was_gone(broker_id: int, since: int, until: int, lookup: TermLookup) -> bool:
    """Whether the controller had a broker out of the cluster through all of this time."""
    states = lookup.broker_states(broker_id, until)
    last = [detail for ts, detail, *_ in states if detail in LASTING and ts <= since + lookup.race_window_us]
    return last[-1:] != [] and last[-1] in GONE and not any(d == "unfenced" and ts > since for ts, d, *_ in states)


def count_hw_of_follower(event: PartitionEvent, terms: Terms, lookup: TermLookup) -> None:
    """Count the last HW that a broker reported as a follower: it has that from a leader of that epoch, which may have
    lost it since if it is known to have had it before it started again."""
    of_epoch = [] if event.leader_epoch is None else terms.begun_in_epoch(event.leader_epoch, event.ts)[::-1]
    if of_epoch and event.hw is not None:
        hws = ((t, t.summary_as_of(event.ts, lookup).hmax) for t in of_epoch)
        term = next((t for t, hw in hws if hw is not None and hw >= event.hw), of_epoch[-1])
        by = f"reported by follower {event.broker_id}"
        store(terms, term.key, StoredHw(event.broker_id, event.hw, by, event.ts))


def has_unknown_epoch(event: PartitionEvent, terms: Terms) -> bool:
    """Whether a leader-epoch-checkpoint has an epoch after all known terms: its election may be reported later."""
    newest = terms.terms[-1].epoch if terms.terms else terms.newest_folded
    return any(newest is None or epoch > newest for epoch, _ in epoch_entries(event.detail))


def take_checkpoints(event: PartitionEvent, terms: Terms, grace_us: int) -> None:
    """Take from a replica's checkpoints its HW, and at which offsets leader epochs began at most.

    A leader of the epoch that the log ends in, or of an earlier one, had committed as much as the HW (proofs 5.4). Of
    an epoch's start its leader alone knows more (5.3). Near a resumption clocks do not tell whose HW it is.
    """
    for epoch, start in epoch_entries(event.detail):
        term = terms.first_of_epoch(epoch)
        if term is not None and term.start_ts is None:
            term.start_offset = start if term.start_offset is None else min(start, term.start_offset)
    resumed = [t for t in terms.terms if t.epoch == event.leader_epoch and t.ordinal > 0]
    if event.hw is None or event.leader_epoch is None or any(abs(t.ts - event.ts) <= grace_us for t in resumed):
        return
    upto = [t for t in terms.terms if t.epoch <= event.leader_epoch and (t.ordinal == 0 or t.ts <= event.ts)]
    own = bool(upto) and upto[-1].epoch == event.leader_epoch
    on = (event.source_id, event.source_epoch, event.hw, event.ts) if own else None
    stored = StoredHw(event.broker_id, event.hw, f"{STORED_BY}{event.broker_id}", event.ts, on=on)
    if upto and event.source_id in upto[-1].contradicted:
        return
    if upto:
        store(terms, upto[-1].key, stored)
    elif terms.folded_term is None:
        terms.base = raised(terms.base, event.hw, stored.by, None)


def count_hws_of_before(terms: Terms) -> bool:
    """Count the HWs with which brokers came that nothing of is known before, and that they cut off as they followed
    the first leader known: they are of before it. Returns whether there was one."""
    first = terms.terms[0] if terms.terms and terms.folded_term is None else None
    before = terms.base
    for broker, position in terms.positions.items():
        cut = position.hw_cut_off is not None and position.last_term is None and position.leo is not None
        if first is None or not cut or position.epoch != first.epoch or first.known_start is None:
            continue
        if (position.leo or 0) <= first.known_start:
            terms.base = raised(terms.base, position.hw_cut_off or 0, f"{STORED_BY}{broker}", None)
    return terms.base is not before


def raised(mark: CommittedMark, offset: int, by: str, term: Term | None) -> CommittedMark:
    """The mark after a HW was reported in one of the terms it stands for."""
    if mark.offset is not None and offset <= mark.offset:
        return mark
    exact = mark.exact and by == "telemetry"
    epoch, broker_id = (term.epoch, term.broker_id) if term else (None, None)
    return replace(mark, offset=offset, exact=exact, by=by, epoch=epoch, broker_id=broker_id)
