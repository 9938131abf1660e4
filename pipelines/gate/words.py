"""A judgement as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pipelines.gate.facts import Brokers
from pipelines.gate.judgement import Answer, Effect, Judgement, PartitionEffect
from pipelines.verdict import words

Row = dict[str, Any]
COLUMNS = ("topic_partition", "effect", "isr", "isr_then", "min_isr", "no_leader", "why")
"""The columns of the table of partitions."""


def headline(judged: Judgement, now: datetime) -> str:
    """The answer and what it rests on, in a line."""
    facts, who = judged.facts, words.brokers(judged.facts.stopped)
    hosted, down = words.count(len(judged.partitions), "partition"), facts.stopped & facts.down
    are = f"{words.brokers(down)} {'is' if len(down) == 1 else 'are'} down already"
    whole = bool(down) and down == facts.stopped
    if judged.answer is Answer.YES:
        said = f"YES: {are if whole else f'{who} may be stopped now'}: {_kept(judged)}"
    elif judged.answer is Answer.NO:
        it = "it" if len(down) == 1 else "them"
        must = f"must not be stopped now{f', {are}' if down else ''}: "
        said = f"NO: {f'{are}: start {it}; without {it} ' if whole else f'{who} {must}'}{_reasons(judged, hosted)}"
    else:
        may = f"{who}, down already, may stay away" if whole else f"{who} may be stopped now"
        said = f"NOT KNOWN whether {may}: {facts.stale or _unknown(judged, hosted)}"
    return f"{facts.cluster}: {said} ({_as_of(judged, now)})"


def remarks(judged: Judgement) -> Iterator[str]:
    """Yield the remarks below the answer, a line each."""
    facts = judged.facts
    yield judged.quorum.text if judged.quorum else facts.quorum_note
    if not facts.stale:
        yield from (f"not known: {why}" for why in facts.unknown)
    anyway = judged.of(Effect.ANYWAY)
    if anyway and judged.must_be_accepted:
        theirs = "its" if len(anyway) == 1 else "their"
        yield (
            f"{words.count(len(anyway), 'partition')} will stop anyway: too few of {theirs} replicas are on other "
            "brokers; --accept-unavailable accepts that"
        )
    yield from facts.notes


def rows(judged: Judgement) -> list[Row]:
    """The partitions that do not keep min ISR for certain, the worst first."""
    return [_row(one) for one in judged.partitions if one.effect is not Effect.KEEPS]


def data(judged: Judgement, status: int) -> Row:
    """Everything, as one object for JSON."""
    facts = judged.facts
    return {
        "cluster": facts.cluster,
        "brokers": sorted(facts.stopped),
        "answer": judged.answer.value,
        "status": status,
        "source": facts.source,
        "as_of": facts.as_of.isoformat() if facts.as_of else None,
        "stale": facts.stale or None,
        "quorum": {"answer": judged.quorum.answer.value, "text": judged.quorum.text} if judged.quorum else None,
        "not_known": list(facts.unknown),
        "notes": [*([] if judged.quorum else [facts.quorum_note]), *facts.notes],
        "hosted": len(judged.partitions),
        "counts": {effect.value: len(judged.of(effect)) for effect in Effect},
        "partitions": [_json(one) for one in judged.partitions if one.effect is not Effect.KEEPS],
    }


def _kept(judged: Judgement) -> str:
    """`its 12 partitions keep min ISR and a caught-up leader`."""
    total, stopping = len(judged.partitions), len(judged.of(Effect.ANYWAY))
    single = len(judged.facts.stopped) == 1
    if not total:
        return f"{'it hosts' if single else 'they host'} no partition"
    keep = f"keep{'s' * (total == 1)} min ISR and a caught-up leader"
    if stopping:
        return f"{total - stopping:,} of {words.count(total, 'partition')} {keep}, {stopping:,} will stop, as accepted"
    return f"{'its' if single else 'their'} {words.count(total, 'partition')} {keep}"


def _reasons(judged: Judgement, hosted: str) -> str:
    said = []
    if broken := judged.of(Effect.BREAKS):
        said.append(f"{len(broken):,} of {hosted} would not keep min ISR or a caught-up leader")
    if judged.must_be_accepted:
        said.append(f"{len(judged.of(Effect.ANYWAY)):,} of {hosted} will stop anyway")
    if judged.quorum and judged.quorum.answer is Answer.NO:
        said.append("the controllers' quorum would lose its majority")
    return "; ".join(said)


def _unknown(judged: Judgement, hosted: str) -> str:
    said = []
    if unknown := judged.of(Effect.NOT_KNOWN):
        said.append(f"{len(unknown):,} of {hosted} cannot be judged ({unknown[0].why})")
    said += judged.facts.unknown
    if judged.quorum is None and not judged.facts.controllers_apart:
        said.append("whether they vote in the controllers' quorum: --controllers-apart says that they do not")
    if judged.quorum and judged.quorum.answer is Answer.NOT_KNOWN:
        said.append(judged.quorum.text)
    return "; ".join(said)


def _as_of(judged: Judgement, now: datetime) -> str:
    facts = judged.facts
    if facts.as_of is None:
        return f"from {facts.source}"
    return f"from {facts.source} as of {words.clock(facts.as_of)}, {words.span(now - facts.as_of)} ago"


def _row(one: PartitionEffect) -> Row:
    facts = one.facts
    return {
        "topic": facts.topic,
        "partition": facts.partition,
        "effect": one.effect.value,
        "isr": _brokers(facts.isr),
        "isr_then": _brokers(one.isr_then),
        "min_isr": "not known" if facts.min_isr is None else facts.least_min_isr,
        "no_leader": "no leader" if one.no_leader else "",
        "why": one.why,
    }


def _json(one: PartitionEffect) -> Row:
    facts = one.facts
    return {
        "topic": facts.topic,
        "partition": facts.partition,
        "effect": one.effect.value,
        "replicas": None if facts.replicas is None else sorted(facts.replicas),
        "leader": facts.leader,
        "isr": None if facts.isr is None else sorted(facts.isr),
        "isr_then": None if one.isr_then is None else sorted(one.isr_then),
        "min_isr": facts.min_isr,
        "no_leader": one.no_leader,
        "why": one.why,
    }


def _brokers(known: Brokers | None) -> str:
    return "not known" if known is None else ",".join(map(str, sorted(known))) or "nobody"
