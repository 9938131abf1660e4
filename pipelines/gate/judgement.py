"""The rules of the gate: the effect of stopping brokers on each partition and on the quorum. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipelines.gate.facts import NO_LEADER, NOBODY, Brokers, Facts, PartitionFacts, Quorum
from pipelines.verdict.words import brokers as named
from pipelines.verdict.words import count


class Answer(Enum):
    """May these brokers be stopped now?"""

    YES = "yes"
    NO = "no"
    NOT_KNOWN = "not known"


class Effect(Enum):
    """The effect on a partition; in the order of a listing."""

    BREAKS = "breaks"
    ANYWAY = "will stop anyway"
    NOT_KNOWN = "not known"
    KEEPS = "keeps min ISR"


@dataclass(frozen=True)
class PartitionEffect:
    """One partition that the brokers to be stopped host: what becomes of it, and why; `isr_then` None: not known."""

    facts: PartitionFacts
    effect: Effect
    why: str
    isr_then: Brokers | None
    no_leader: bool


@dataclass(frozen=True)
class QuorumEffect:
    """The effect on the controllers' quorum."""

    answer: Answer
    text: str


@dataclass(frozen=True)
class Judgement:
    """The effect of stopping brokers. `accepted`: partitions that will stop anyway are no reason to say no."""

    facts: Facts
    partitions: tuple[PartitionEffect, ...]
    quorum: QuorumEffect | None
    accepted: bool = False

    def of(self, effect: Effect) -> tuple[PartitionEffect, ...]:
        """The partitions of this effect."""
        return tuple(one for one in self.partitions if one.effect is effect)

    @property
    def answer(self) -> Answer:
        """No, if something breaks for certain; yes, if everything holds for certain."""
        if self.facts.stale:
            return Answer.NOT_KNOWN
        unseen = Answer.YES if self.facts.controllers_apart else Answer.NOT_KNOWN
        quorum = unseen if self.quorum is None else self.quorum.answer
        if self.of(Effect.BREAKS) or self.must_be_accepted or quorum is Answer.NO:
            return Answer.NO
        if self.of(Effect.NOT_KNOWN) or self.facts.unknown or quorum is Answer.NOT_KNOWN:
            return Answer.NOT_KNOWN
        return Answer.YES

    @property
    def must_be_accepted(self) -> bool:
        """Whether partitions will stop anyway and --accept-unavailable was not given: waiting does not help."""
        return not self.facts.stale and not self.accepted and bool(self.of(Effect.ANYWAY))


def judge(facts: Facts, *, accepted: bool = False) -> Judgement:
    """Judge what stopping `facts.stopped` does; `accepted` as in Judgement."""
    effects = (effect_on(one, facts.stopped) for one in facts.partitions)
    order = list(Effect)
    found = sorted(
        (one for one in effects if one is not None),
        key=lambda one: (order.index(one.effect), one.facts.topic, one.facts.partition),
    )
    quorum = None if facts.quorum is None else quorum_without(facts.quorum, facts.stopped)
    return Judgement(facts, tuple(found), quorum, accepted)


def effect_on(facts: PartitionFacts, stopped: Brokers) -> PartitionEffect | None:
    """The effect on a partition if these brokers stop; None if they host no replica of it."""
    hosts = facts.replicas if facts.replicas is not None else facts.isr
    touched = (hosts or NOBODY) & stopped
    if facts.replicas is None and not touched and _effect(facts, stopped)[0] is not Effect.KEEPS:
        return PartitionEffect(facts, Effect.NOT_KNOWN, "which brokers host it is not known", None, no_leader=False)
    if not touched:
        return None
    effect, why = _effect(facts, stopped)
    then = facts.may_count - stopped
    isr_then = None if facts.isr is None or facts.unknown else then
    no_leader = facts.leader == NO_LEADER or not (then or (facts.eligible - stopped))
    return PartitionEffect(facts, effect, why, isr_then, no_leader)


def _effect(facts: PartitionFacts, stopped: Brokers) -> tuple[Effect, str]:
    """The effect on a partition, and why.

    A certain loss of min ISR goes before what is not known. A partition "will stop anyway" only if all replicas that
    are left are in sync: else waiting for them helps.
    """
    if facts.leader == NO_LEADER and not facts.unknown:
        return Effect.BREAKS, "nobody leads it now"
    then = facts.may_count - stopped
    left = None if facts.replicas is None else facts.replicas - stopped
    if left is not None and len(left) < facts.least_min_isr and left == facts.counts - stopped and not facts.unknown:
        return Effect.ANYWAY, f"{count(len(left), 'replica')} left of {len(facts.replicas or NOBODY)}"
    if left is not None and len(left) < facts.least_min_isr and left == then:
        return Effect.NOT_KNOWN, _not_known(facts)
    if len(then) < facts.least_min_isr:
        return Effect.BREAKS, _breaks(facts, then)
    if len(facts.counts - stopped) >= facts.most_min_isr and facts.leader is not None:
        return Effect.KEEPS, ""
    return Effect.NOT_KNOWN, _not_known(facts)


def _breaks(facts: PartitionFacts, then: Brokers) -> str:
    if len(facts.may_count) < facts.least_min_isr:
        why = "under min ISR already"
    elif not then:
        why = "no caught-up replica is left to lead"
    else:
        why = "under min ISR then"
    late = (facts.isr or NOBODY) & facts.behind
    return f"{why}; {named(late)} in the ISR but behind or down" if late else why


def _not_known(facts: PartitionFacts) -> str:
    if facts.unknown:
        return facts.unknown
    if facts.isr is None:
        return "its ISR is not known"
    if facts.leader is None:
        return "its leader is not known"
    if facts.min_isr is None:
        return facts.min_isr_why
    return facts.unsure_why or f"whether {named(facts.unsure)} {'is' if len(facts.unsure) == 1 else 'are'} caught up"


def quorum_without(quorum: Quorum, stopped: Brokers) -> QuorumEffect:
    """Whether a majority of the voters, caught up, is left (Raft: of all voters, not of those that are up)."""
    voters, majority = quorum.voters, len(quorum.voters) // 2 + 1
    left = {voter: state for voter, state in voters.items() if voter not in stopped}
    sure, may = (sum(state is True for state in left.values()), sum(state is not False for state in left.values()))
    text = f"quorum: {count(len(voters), 'voter')}, {sure} caught up afterwards, a majority is {majority}"
    if may < majority:
        return QuorumEffect(Answer.NO, text)
    if sure >= majority:
        return QuorumEffect(Answer.YES, text)
    unknown = [voter for voter, state in left.items() if state is None]
    return QuorumEffect(Answer.NOT_KNOWN, f"{text}; not known: {', '.join(f'voter {one}' for one in unknown)}")
