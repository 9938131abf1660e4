"""Whether the start of a term excludes that committed offsets are lost, where nothing shows that they are.

A start is safe at or above an upper bound of every HW before it. It is safe, too, where a member of the last committed
ISR was elected whose log is still the one it had as a member: its broker has since neither restarted without a
controlled shutdown nor lost a log directory (PartitionChangeBuilder.electAnyLeader, KIP-966).
"""

from __future__ import annotations

from pipelines.replication.metadata.brokers_and_configs import LOG_DIR_OFFLINE
from pipelines.replication.partition.events import TermLookup
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.loss import CRITICAL, wrong_clocks
from pipelines.replication.partition.terms import CommittedMark, Term, Terms

STARTS_US = 1_000_000
"""No broker starts faster: one that is seen in the ISR and answers again within this time had started before that."""


def missing_to_exclude_loss(
    terms: Terms, term: Term, before: CommittedMark, isr: IsrHistory, as_of: int, lookup: TermLookup
) -> list[str]:
    """What would have to be known to exclude a loss as this term began, in words; empty where it is excluded.

    `before` is the largest HW known of the terms before it.
    """
    if differing := _differing_records(terms, term):
        return differing
    bounds = [before.bound, before.offset if before.exact else None]
    if term.start_offset is not None and any(bound is not None and term.start_offset >= bound for bound in bounds):
        return []
    resumed = term.ordinal > 0
    missing = [] if resumed else _missing_of_election(term, isr)
    missing += _missing_of_log(terms, term, isr, min(as_of, term.ts + lookup.grace_us), lookup)
    missing += wrong_clocks(terms, {term.broker_id})
    missing += _missing_of_answers(terms, term, isr, lookup)
    if not missing:
        return []
    start = [] if term.start_offset is not None else ["start offset"]
    return [*start, "an upper bound of the HW before", *missing]


def _missing_of_answers(terms: Terms, term: Term, isr: IsrHistory, lookup: TermLookup) -> list[str]:
    """What is missing where only a watcher saw the term begin: a broker that did not answer may have restarted."""
    if not term.sampled:
        return []
    since = max(isr.member_since(term.broker_id, term.epoch), terms.started_before(term))
    always = lookup.answered_always(term.broker_id, since + STARTS_US, term.ts)
    return [] if always else [f"an answer of broker {term.broker_id} in every round before"]


def _missing_of_election(term: Term, isr: IsrHistory) -> list[str]:
    """What is missing to know that a member of the last committed ISR was elected."""
    if term.unclean:
        return ["a clean election"]
    last = isr.before_epoch(term.epoch)
    if last is None:
        return ["the ISR before the election"]
    return [] if term.broker_id in last.isr else [f"broker {term.broker_id} in the ISR before the election"]


def _differing_records(terms: Terms, term: Term) -> list[str]:
    """Where a leader lost records, or may have, and went on in the same leader epoch.

    Other replicas may still hold what it lost, and cannot see that other records took its place: OffsetsForLeaderEpoch
    gives them the end of an epoch, not its content.
    """
    for earlier in terms.terms[: terms.terms.index(term)]:
        lost = earlier.published is not None and any(
            f'"class": "{cls}"' in earlier.published for cls in (*CRITICAL, "loss_not_excluded")
        )
        if earlier.ordinal > 0 and lost and earlier.epoch < term.epoch:
            offset, epoch = earlier.start_offset, earlier.epoch
            return [f"equal records on all replicas from offset {offset} of leader epoch {epoch} on"]
    return []


def _missing_of_log(terms: Terms, term: Term, isr: IsrHistory, until: int, lookup: TermLookup) -> list[str]:
    """What is missing to know that the log of the new leader is the one that it had in the ISR."""
    broker, resumed = term.broker_id, term.ordinal > 0
    since = terms.started_before(term) if resumed else isr.member_since(broker, term.epoch)
    stopped, restarts, missing = False, 0, []
    for ts, detail, *_ in lookup.broker_states(broker, until):
        if detail == "controlled_shutdown":
            stopped = True
        elif detail == "started":
            restarts += ts >= since and not stopped
            stopped = False
        elif detail == LOG_DIR_OFFLINE and ts >= since:
            missing.append(f"the log directories of broker {broker}")
    led = max((t.ts for t in terms.terms[: terms.terms.index(term)] if t.broker_id == broker), default=None)
    restarted = led is not None and lookup.started_between(broker, max(led, since), term.ts)
    unexplained = (resumed or restarted or terms.restarted.get(broker, -1) >= since) and not _stopped_cleanly(
        broker, since, until, lookup
    )
    if restarts or unexplained:
        missing.append(f"a controlled shutdown of broker {broker} before it started again")
    return missing


def _stopped_cleanly(broker: int, since: int, until: int, lookup: TermLookup) -> bool:
    """Whether a controlled shutdown of this broker was reported since then."""
    states = lookup.broker_states(broker, until)
    return any(detail == "controlled_shutdown" and ts >= since for ts, detail, *_ in states)
