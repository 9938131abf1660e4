"""Whether the start of a term excludes that committed offsets are lost, where nothing shows that they are.

A start is safe at or above an upper bound of every HW before it. It is safe, too, where a member of the last committed
ISR was elected whose log is still the one it had as a member: its broker has since neither restarted without a clean
stop nor lost a log directory (PartitionChangeBuilder.electAnyLeader, KIP-966). A controlled shutdown is no clean stop
yet: a broker may be killed before its logs are closed.
"""

from __future__ import annotations

from itertools import pairwise

from pipelines.replication.metadata.brokers_and_configs import LOG_DIR_OFFLINE, STARTS, BrokerState
from pipelines.replication.partition.broker_lives import (
    STARTS_US,
    UNTOLD_US,
    count_clean_starts,
    is_life_told,
)
from pipelines.replication.partition.events import TermLookup
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.loss import differing_records, wrong_clocks
from pipelines.replication.partition.one_term import CommittedMark, Term
from pipelines.replication.partition.terms import Terms
from schemas.event_types import CLEAN_START, UNCLEAN_START
from schemas.hw_regressions import UPPER_BOUND

ENDED = frozenset({"fenced", "unregistered", "started", UNCLEAN_START})


def missing_to_exclude_loss(
    terms: Terms, term: Term, before: CommittedMark, isr: IsrHistory, as_of: int, lookup: TermLookup
) -> list[str]:
    """The evidence, in words, that is missing to exclude a loss as this term began; empty if the loss is excluded.

    `before` is the largest HW known of the terms before it.
    """
    if differing := differing_records(terms, term):
        offset, epoch = differing
        return [f"equal records on all replicas from offset {offset} of leader epoch {epoch} on"]
    if term.across_seam:
        return [f"the order of this start of broker {term.broker_id} and of its rows of other source epochs or files"]
    bounds = [before.bound, before.offset if before.exact else None]
    untold = _is_behind_untold_epoch(terms, term, isr)
    if untold or _may_have_led_before(terms, term, isr, as_of, lookup):
        bounds = []
    if term.known_start is not None and any(bound is not None and term.known_start >= bound for bound in bounds):
        return []
    resumed = term.ordinal > 0
    missing = [] if resumed else _missing_of_election(term, isr)
    missing += ["the ISR before the election"] if untold and term.unclean is None and not missing else []
    missing += _missing_of_log(terms, term, isr, as_of, lookup)
    missing += wrong_clocks(terms, {term.broker_id})
    missing += _missing_of_answers(terms, term, isr, lookup)
    if not missing:
        return []
    start = [] if term.known_start is not None else ["start offset"]
    return [*start, UPPER_BOUND, *missing]


def _is_behind_untold_epoch(terms: Terms, term: Term, isr: IsrHistory) -> bool:
    """Whether nobody told of a leader epoch since the last start before this term: who led in it, what it committed and
    from which ISR the next leader was elected is not known."""
    begun = [t.epoch for t in terms.before(term) if t.start_ts is not None]
    if not begun or term.ordinal > 0 or term.sampled:
        return False
    told = {t.epoch for t in terms.before(term)} | isr.leader_epochs | {terms.leaderless}
    return not told.issuperset(range(begun[-1] + 1, term.epoch))


def _may_have_led_before(terms: Terms, term: Term, isr: IsrHistory, as_of: int, lookup: TermLookup) -> bool:
    """Whether the first start told of an epoch may be a resumption, as its leader started again after the election, or
    nobody told when that was: what it had begun with, and committed, is not known then."""
    if term.ordinal > 0:
        return False
    since = max(term.own_before, terms.started_before(term), isr.elected_at(term.epoch))
    states = lookup.broker_states(term.broker_id, min(as_of, term.ts + lookup.race_window_us))
    started = any(ts > since and detail in ("started", *STARTS) for ts, detail, *_ in states)
    if started or lookup.started_between(term.broker_id, since, term.ts):
        return True
    if term.ts - since <= STARTS_US or term.sampled:
        return False
    return is_life_told(term.broker_id, since, term.ts, as_of, lookup) is False


def _missing_of_answers(terms: Terms, term: Term, isr: IsrHistory, lookup: TermLookup) -> list[str]:
    """The missing answers, if only a watcher saw the term begin: a broker that did not answer may have restarted."""
    if not term.sampled:
        return []
    since = max(isr.member_since(term.broker_id, term.epoch), terms.started_before(term))
    always = lookup.answered_always(term.broker_id, since + STARTS_US, term.ts)
    return [] if always else [f"an answer of broker {term.broker_id} in every round before"]


def may_be_unclean(terms: Terms, term: Term, isr: IsrHistory) -> bool:
    """Whether the leader of a term was elected from outside the ISR, or nobody told that it was not: neither who was in
    it, nor of every election before."""
    if term.ordinal > 0 or term.unclean is False:
        return False
    before = isr.before_epoch(term.epoch)
    told = [t.epoch for t in terms.before(term)] + [before.leader_epoch or 0 if before is not None else 0]
    return term.epoch > max(told) + 1 or bool(_missing_of_election(term, isr))


def _missing_of_election(term: Term, isr: IsrHistory) -> list[str]:
    """The missing evidence that a member of the last committed ISR was elected."""
    if term.unclean:
        return ["a clean election"]
    last = isr.before_epoch(term.epoch)
    if last is None:
        return ["the ISR before the election"]
    members = last.isr or isr.last_members(term.epoch)
    if term.unclean is None and isr.has_untold_changes(term.epoch):
        return ["the ISR before the election"]
    return [] if term.broker_id in members else [f"broker {term.broker_id} in the ISR before the election"]


def awaited_until(
    terms: Terms, term: Term, isr: IsrHistory, excluded: bool, as_of: int, lookup: TermLookup
) -> int | None:
    """Until when somebody may still tell whether a loss is `excluded` after all, or is not; None where nothing is to be
    waited for.

    The leader before may go on, and so have told all that it did. The controller tells of the life in which the leader
    started, where only that broker told so far that it began: what it tells before that, as of a lost log directory,
    was before this term. Its clock may be ahead.
    """
    until, since = term.ts + lookup.grace_us, _had_its_log_since(terms, term, isr)
    settled = max((t.returned + UNTOLD_US for t in terms.before(term) if t.returned), default=0)
    if not is_leaders_life_told(terms, term, isr, as_of, lookup):
        settled = max(settled, term.ts + UNTOLD_US)
    _, last_own = _states_before(term, since, as_of, lookup)
    settled = max(settled, last_own + lookup.grace_us)
    if excluded and as_of < settled:
        return settled
    if as_of >= until:
        return None
    if not excluded:
        return until if any(_may_go_on(one, term, as_of, lookup) for one in terms.before(term)[-1:]) else None
    states = lookup.broker_states(term.broker_id, as_of)
    starts = [ts for ts, detail, *_ in states if detail == CLEAN_START and ts >= since]
    registered = max((ts for ts, detail, *_ in states if detail == "started"), default=0)
    return until if starts and registered < starts[-1] - lookup.race_window_us else None


def _may_go_on(before: Term, term: Term, as_of: int, lookup: TermLookup) -> bool:
    """Whether the leader of the term before may go on in its life, and has told nothing since."""
    states = lookup.broker_states(before.broker_id, as_of)
    ended = any(detail in ENDED and ts > before.ts for ts, detail, *_ in states)
    return before.whole is None and before.broker_id != term.broker_id and not ended


def _had_its_log_since(terms: Terms, term: Term, isr: IsrHistory) -> int:
    """Since when a restart may have cost what the new leader had. As a partition is created its log is empty."""
    if term.ordinal > 0:
        return terms.started_before(term)
    created = 0 if terms.created is None else terms.created + 1
    return max(isr.member_since(term.broker_id, term.epoch), created)


def is_leaders_life_told(terms: Terms, term: Term, isr: IsrHistory, as_of: int, lookup: TermLookup) -> bool | None:
    """Whether all starts of the leader in the ISR until it led are known to be reported, see `is_life_told`."""
    since = max(_had_its_log_since(terms, term, isr), isr.begins)
    return term.sampled or is_life_told(term.broker_id, since, term.ts, as_of, lookup)


def _states_before(term: Term, since: int, as_of: int, lookup: TermLookup) -> tuple[list[BrokerState], int]:
    """(the states of a leader since then that it may have been in before it led, when its own log told the last start
    after that, 0 if none). The controller's clock may be ahead; a start that the broker's own log tells later, by the
    clock by which it led, is a later one, and so are as many as the controller tells until then, if no more."""
    grace_us = lookup.grace_us
    states = lookup.broker_states(term.broker_id, min(as_of, term.ts + 2 * grace_us))
    states = [state for state in states if state[0] >= since]
    lives = sorted({ts for ts, detail, *_ in states if detail in STARTS and ts > term.ts})
    own = lives[-1] if lives else 0
    started = sum(ts - before >= STARTS_US for before, ts in pairwise([0, *lives]))  # each log directory tells of one
    told = sum(detail == "started" and term.ts < ts <= own + grace_us for ts, detail, *_ in states)
    after = {*STARTS, *(["started"] if told <= started else [])}
    may_be_before = [s for s in states if s[0] <= term.ts or (s[0] <= term.ts + grace_us and s[1] not in after)]
    return may_be_before, own


def _later_lives(broker: int, since: int, until: int, lookup: TermLookup) -> int:
    """The number of broker epochs that began in a stretch of time: the row of the start itself may be missing."""
    begun = dict[int, int]()
    for ts, _, epoch, *_ in lookup.broker_states(broker, until):
        if epoch is not None:
            begun.setdefault(epoch, ts)
    return sum(ts >= since for ts in [*begun.values()][1:])


def _missing_of_log(terms: Terms, term: Term, isr: IsrHistory, as_of: int, lookup: TermLookup) -> list[str]:
    """The missing evidence that the new leader's log is the one that it had in the ISR."""
    broker, resumed = term.broker_id, term.ordinal > 0
    since = _had_its_log_since(terms, term, isr)
    states, _ = _states_before(term, since, as_of, lookup)
    details = [detail for _, detail, *_ in states]
    led = max((t.ts for t in terms.terms[: terms.terms.index(term)] if t.broker_id == broker), default=None)
    by_version = led is not None and lookup.started_between(broker, max(led, since), term.ts)
    by_own_lines = resumed or by_version or term.restarted >= max(since, 1)
    starts = max(details.count("started"), _later_lives(broker, since, term.ts, lookup), int(by_own_lines))
    missing = [f"the log directories of broker {broker}"] if LOG_DIR_OFFLINE in details else []
    if term.shrunk >= max(since, 1):  # a disk that is restored from a copy has its clean-shutdown file, too
        missing.append(f"the log that broker {broker} had before it started again")
    if UNCLEAN_START in details or starts > count_clean_starts(states, lookup.grace_us):
        missing.append(f"a clean stop of broker {broker} before it started again")
    elif is_leaders_life_told(terms, term, isr, as_of, lookup) is False:
        missing.append(f"whether broker {broker} has started again")
    return missing
