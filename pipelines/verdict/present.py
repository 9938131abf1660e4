"""The second part of a verdict: how the partitions of a cluster stand now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from pipelines.lake.queries import moment
from pipelines.verdict import controllers, words
from pipelines.verdict.judged import CLOSING, Judged
from pipelines.verdict.records import LATE, ClusterRecord, Condition, Limits, PartitionGroup, State, Wait
from schemas.event_types import NOT_LOOKED_AT
from schemas.levels import POLLED

STATES = {
    Condition.OFFLINE: State.OFFLINE,
    Condition.UNDER_MIN_ISR: State.UNDER_MIN_ISR,
    Condition.HELD_BACK: State.HELD_BACK,
    Condition.UNDER_REPLICATED: State.AT_RISK,
}
"""The conditions that are states of a cluster; the others are remarks on one that works."""
EVALUATED = timedelta(minutes=1)
"""So long after its time a state is told by an evaluation that goes on; after that nobody evaluates."""
SHOWN = 3
"""Groups of brokers that a sentence names."""


def present(record: ClusterRecord, judged: Judged) -> list[tuple[State, str]]:
    """Return a sentence and its state for each state that partitions are in; empty only if there are no partitions."""
    if not record.partitions:
        return []
    if judged.ended:
        return [(State.OK, _ended(record))]
    if judged.state is State.NOT_JUDGED:
        return [(State.OK, f"when last judged, {_summed(record.groups, record)}")]
    said, of_controllers = list(_troubles(record, judged)), _controllers(record, judged)
    if of_controllers and controllers.is_gone(record.quorum[0]):
        said, of_controllers = [*said, (State.AT_RISK, f"{State.AT_RISK.value}: {of_controllers}")], ""
    if not said:
        alone = f"no redundancy: {words.count(record.alone, 'partition')}" if record.alone else ""
        every = f"OK: {_sound(record, judged)}", alone, of_controllers, record.planned
        return [(State.OK, "; ".join(filter(None, every)))]
    remarks = _remarks([group for group in record.groups if not group.unknown], record)
    remarks += filter(None, (of_controllers, record.planned))
    return [*said, (State.OK, "; ".join(remarks))] if remarks else said


def _controllers(record: ClusterRecord, judged: Judged) -> str:
    """The sentence about the controllers from a running watcher, if anything is wrong or not known."""
    if judged.answered is None or judged.answered > timedelta(seconds=Limits.answer_s):
        return ""
    return controllers.sentence(*record.quorum)


def gone(condition: Condition, brokers: Iterable[int], partitions: str) -> str:
    """The missing brokers, then the effect: `brokers 2, 3 gone: 12 of 40 partitions under min ISR`."""
    missing = tuple(brokers)
    if not missing:
        return f"{partitions} {condition.value}; which brokers must come back is not known"
    return f"{words.brokers(missing)} gone: {partitions} {condition.value}"


def _troubles(record: ClusterRecord, judged: Judged) -> Iterator[tuple[State, str]]:
    known = [group for group in record.groups if not group.unknown]
    for condition, state in STATES.items():
        if groups := [group for group in known if group.condition is condition]:
            said = f"{_together(groups, record)}{_age(record, judged, ', as of')}"
            yield state, f"{state.value}: {since(record, state)}{said}"
            yield from ((state, text) for text in pending_since(state, state.name.lower(), record))
    if unknown := [group for group in record.groups if group.unknown]:
        yield State.UNKNOWN, f"{State.UNKNOWN.value}: {_unknown(unknown, record, judged)}"
    elif _is_outdated(record, judged):
        who = f"`hwmark run` has read nothing newer than {words.clock(record.judged_to)}"
        yield State.UNKNOWN, f"{State.UNKNOWN.value}: {_before(who, record.groups, record)}"


def since(record: ClusterRecord, state: State) -> str:
    """`since …, ` if an alert fires on partitions offline or under min ISR; a pending one has its own sentence."""
    first = record.fires.get(state.name.lower()) if state in (State.OFFLINE, State.UNDER_MIN_ISR) else None
    return f"since {words.clock(first)}, " if first else ""


def _is_outdated(record: ClusterRecord, judged: Judged) -> bool:
    """Whether answers to a watcher that were read are too old for a claim of the present."""
    holds = max((source.holds_s or 0 for source in record.sources if source.watched), default=0)
    oldest = timedelta(seconds=max(Limits.answer_s, holds))
    return POLLED in record.levels and judged.age is not None and judged.age > oldest


def pending_since(state: State, rule: str, record: ClusterRecord) -> Iterator[str]:
    """Since when a state holds of which nobody is told yet, and when somebody will be."""
    wait = record.waits.get(rule)
    if wait is None or record.judged_to is None or moment(wait.fires) + EVALUATED < record.judged_to:
        return
    yield f"{state.value}: {pending(wait)}"


def pending(wait: Wait) -> str:
    """`1 partition pending since …, told from … on`."""
    since, told = words.clock(moment(wait.since)), words.clock(moment(wait.fires))
    return f"{words.count(wait.partitions, 'partition')} pending since {since}, told from {told} on"


def _remarks(groups: Sequence[PartitionGroup], record: ClusterRecord) -> list[str]:
    """Remarks that are no state of the cluster."""
    by_condition = (
        [group for group in groups if group.condition is condition] for condition in (Condition.OUT_OF_SYNC,)
    )
    return [_together(found, record) for found in by_condition if found]


def _together(groups: Sequence[PartitionGroup], record: ClusterRecord) -> str:
    """Groups of one condition, the largest first."""
    ordered = sorted(groups, key=lambda group: (-group.partitions, group.brokers))
    said = [_group(group, record) for group in ordered[:SHOWN]]
    if rest := ordered[SHOWN:]:
        said.append(f"{words.count(_sum(rest), 'more partition')} because of others")
    return "; ".join(said)


def _group(group: PartitionGroup, record: ClusterRecord) -> str:
    partitions = _of(group.partitions, record)
    if group.condition is Condition.HELD_BACK:
        longest = (
            f", the longest for {words.span(timedelta(milliseconds=group.stalled_ms))}" if group.stalled_ms else ""
        )
        if not group.brokers:
            return f"{partitions} held back{longest}; by whom is not known"
        who = f"{'one of ' if group.one_of else ''}{words.brokers(group.brokers)}"
        back = "holds" if group.one_of or len(group.brokers) == 1 else "hold"
        return f"{who} {back} back {partitions}{longest}"
    if group.condition is Condition.OUT_OF_SYNC:
        return f"{words.brokers(group.brokers)} out of sync in {partitions}"
    if group.condition is Condition.UNDER_REPLICATED:
        have = "has" if group.partitions == 1 else "have"
        return f"{_risk(group, record)}: {partitions} {have} a replica less to count on{_next_failure(group)}"
    return gone(group.condition, group.brokers, partitions)


def _next_failure(group: PartitionGroup) -> str:
    """`; one more failure: 12 stop acks=all, 3 go offline`."""
    said = [f"{group.stops:,} stop{'s' * (group.stops == 1)} acks=all"] if group.stops else []
    said += [f"{group.ends:,} go{'es' * (group.ends == 1)} offline"] if group.ends else []
    return f" (one more failure: {', '.join(said)})" if said else ""


def _risk(group: PartitionGroup, record: ClusterRecord) -> str:
    """Whom the assignment names and nobody can count on: who does not answer, and who is out of the ISR."""
    quiet = [broker for broker in group.brokers if broker in record.unheard]
    out = [broker for broker in group.brokers if broker not in record.unheard]
    said = [unanswering(quiet, record)] if quiet else []
    if out:
        adding = group.adding or (record.quorum[0] or "").startswith(NOT_LOOKED_AT)
        said.append(f"{words.brokers(out)} out of the ISR{' (or being added)' if adding else ''}")
    return ", ".join(said)


def unanswering(brokers: Sequence[int], record: ClusterRecord) -> str:
    """`broker 3 does not answer since …`, with the word for it where that is the same of all.

    Of several times it names the first, and says so.
    """
    states = {record.unheard[broker].state for broker in brokers}
    times = sorted({one.since for broker in brokers if (one := record.unheard[broker]).since})
    first = ", the first" if len(times) > 1 else ""
    verb = {"down": "is down", "not_reached": "is not reached from here", LATE: "has not answered"}.get(
        next(iter(states)) if len(states) == 1 else "", "does not answer"
    )
    verb = verb if len(brokers) == 1 else verb.replace("is ", "are ").replace("does ", "do ").replace("has ", "have ")
    return f"{words.brokers(brokers)} {verb}{first} since {words.clock(times[0] if times else None)}"


def _unknown(groups: Sequence[PartitionGroup], record: ClusterRecord, judged: Judged) -> str:
    """The sentence about unknown partitions: the silent brokers or sources, and the state before."""
    if len(judged.silent) == len(record.sources):
        last = max((source.reported_to for source in record.sources), default=None)
        who = f"no source reports any more, the last did at {words.clock(last)}" if last else "no source reports"
        ends = CLOSING if last else f"{CLOSING}, as far as bronze still has it"
        return f"{who}; then {_summed(groups, record)}; {ends}"
    unheard = [group for group in groups if record.unheard.keys() & set(group.brokers)]
    silent, said = [group for group in groups if group.brokers and group not in unheard], []
    if unheard:
        said.append(_before(unanswering(_leaders(unheard), record), unheard, record))
    if silent:
        said.append(_before(_unanswered(_leaders(silent), record, judged), silent, record))
    if unsaid := _sum(group for group in groups if not group.brokers):
        of = _of(unsaid, record)
        said.append(f"who leads {of}, is in sync, or is missing, was never told: lay controller.log beside")
    return "; ".join(said)


def _unanswered(leaders: Sequence[int], record: ClusterRecord, judged: Judged) -> str:
    """The silent ones, in words: brokers, or the watcher that asks them."""
    told = [source.reported_to for source in record.sources if source.watched and source.broker_id in judged.unanswered]
    if judged.unanswered >= set(leaders) and leaders:
        return f"the watcher has told nothing since {words.clock(max(told))}"
    return f"{words.brokers(leaders)} stopped reporting"


def _leaders(groups: Iterable[PartitionGroup]) -> list[int]:
    return sorted({broker for group in groups for broker in group.brokers})


def _before(who: str, groups: Sequence[PartitionGroup], record: ClusterRecord) -> str:
    stand = "stands" if _sum(groups) == 1 else "stand"
    return f"{who}: how {_of(_sum(groups), record)} {stand} is not known; before, {_summed(groups, None)}"


def _ended(record: ClusterRecord) -> str:
    return f"ended at {words.clock(record.judged_to)}; then {_summed(record.groups, record)}"


def _summed(groups: Sequence[PartitionGroup], record: ClusterRecord | None) -> str:
    """`6 of 19 partitions were offline, 13 in sync`."""
    told = [g for g in groups if g.brokers or not g.unknown or g.condition is not Condition.IN_SYNC]
    counts = {condition.value: _sum(group for group in told if group.condition is condition) for condition in Condition}
    counts["never reported on"] = _sum(groups) - _sum(told)
    there = [(number, condition) for condition, number in counts.items() if number]
    if len(there) == 1:
        number, condition = there[0]
        every = f"{words.count(number, 'partition')}" if record is None or number == record.partitions else None
        return f"{every or _of(number, record)} {'was' if number == 1 else 'were'} {condition}"
    return ", ".join(f"{number:,} {'was' if number == 1 else 'were'} {condition}" for number, condition in there)


def _sound(record: ClusterRecord, judged: Judged) -> str:
    """The sentence about a cluster in which all partitions work."""
    partitions = words.count(record.partitions, "partition")
    if remarks := _remarks(record.groups, record):
        return "; ".join([partitions, *remarks])
    if any(not level for level in record.levels):
        return f"{partitions}, every replica in the ISR; at level 0 nothing shows who holds a HW back"
    if POLLED in record.levels:
        age = _age(record, judged, ",")
        return f"{partitions}, every replica in the ISR, and none known to be out of sync, as last answered{age}"
    return f"{partitions}, all in sync"


def _age(record: ClusterRecord, judged: Judged, begin: str) -> str:
    """The age of a claim of the present that rests on answers to a watcher; empty if none does, or it is not known."""
    known = POLLED in record.levels and judged.age is not None
    return f"{begin} {words.span(judged.age)} ago at most" if known and judged.age is not None else ""


def _of(number: int, record: ClusterRecord | None) -> str:
    total = number if record is None else record.partitions
    return (
        words.count(number, "partition") if number == total == 1 else f"{number:,} of {words.count(total, 'partition')}"
    )


def _sum(groups: Iterable[PartitionGroup]) -> int:
    return sum(group.partitions for group in groups)
