"""What an alert says: one sentence in the words of the verdicts, and labels for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from pipelines.alerting.conditions import SECOND, Condition
from pipelines.verdict import losses, words
from pipelines.verdict.judged import silence
from pipelines.verdict.present import gone
from pipelines.verdict.records import Condition as Standing
from pipelines.verdict.records import FallGroup, Source, State

LABELLED = 100
"""Items that the labels name; the sentence names fewer, the silver tables have all."""
LABELLED_TOPICS = 1000


def summary(told: Sequence[Condition]) -> str:
    """One sentence about conditions of one alert; nothing in it changes while only time passes."""
    return f"{told[0].cluster}: {_SENTENCES[told[0].rule](told)}"


def subject(told: Sequence[Condition]) -> str:
    """What an alert is about: brokers, a source, a cluster, or an incident."""
    names = sorted({c.subject for c in told}, key=lambda name: (len(name), name))
    if len(names) > 1 and told[0].rule in _ABOUT_BROKERS:
        return words.brokers(_missing(told))
    return words.listed(names)


def labels(told: Sequence[Condition]) -> dict[str, str]:
    """cluster, cause, and what is concerned: partitions and topics, ranges, or sources; one topic is `topic`."""
    head, items = told[0], _items(told)
    found = {"cluster": head.cluster, "cause": words.listed(sorted({_cause(c) for c in told}))}
    if head.rule in _ABOUT_SOURCES:
        return {**found, "sources": words.listed(items, LABELLED)}
    if head.rule == "job_behind":
        return found
    found |= {"partitions": words.listed(items, LABELLED), "count": str(len(items))}
    topics = sorted({item.rpartition("-")[0] for item in items})
    found["topic" if len(topics) == 1 else "topics"] = words.listed(topics, LABELLED_TOPICS)
    if len(items) == 1:
        found["partition"] = items[0].rpartition("-")[2]
    if ranges := [r for c in told if (r := _range(c))]:
        found["range" if len(ranges) == 1 else "ranges"] = words.listed(ranges, LABELLED)
    return found


def _cause(condition: Condition) -> str:
    """A loss is one incident, whatever the classes of its falls."""
    return str(condition.facts.get("class", condition.cause))


def _falls(told: Sequence[Condition]) -> list[FallGroup]:
    """The falls by what they came of."""
    ordered = sorted(told, key=lambda c: (_change(c), c.item))
    return [_group(list(same)) for _, same in groupby(ordered, _change)]


def _change(condition: Condition) -> tuple[Any, ...]:
    facts = condition.facts
    leaders = (-2 if facts[name] is None else facts[name] for name in ("leader_id", "leader_id_before"))
    return (facts["class"], *leaders, _not_shown(condition))


def _group(told: Sequence[Condition]) -> FallGroup:
    facts, times = told[0].facts, [c.first for c in told]
    lost = [c.facts["lost_records"] for c in told if c.facts["lost_records"] is not None]
    proof = "proven" if all(c.facts["proof"] == "proven" for c in told) else "bounded"
    examples = sorted({_fall(c) for c in told}, key=lambda fall: (len(fall), fall))
    return FallGroup(
        facts["class"], facts["severity"], proof, facts["leader_id"], facts["leader_id_before"], len(_items(told)),
        _time(min(times)), _time(max(times)), sum(lost) if lost else None, tuple(examples), _not_shown(told[0]),
    )  # fmt: skip


def _not_shown(condition: Condition) -> tuple[str, ...]:
    """What there was not to exclude a loss with."""
    if condition.facts["class"] != losses.NOT_EXCLUDED:
        return ()
    return tuple(json.loads(condition.facts["evidence"] or "{}").get("missing", ()))


def _fall(condition: Condition) -> str:
    facts = condition.facts
    if facts["class"] == losses.NOT_EXCLUDED:
        return condition.item
    if _range(condition):
        return f"{condition.item} offsets {facts['lost_from']}..{facts['lost_to'] - 1}"
    return f"{condition.item} HW {facts['hw_before']} to {facts['hw_after']}"


def _range(condition: Condition) -> str:
    lost_from, lost_to = condition.facts.get("lost_from"), condition.facts.get("lost_to")
    return "" if lost_from is None or lost_to is None else f"{condition.item} [{lost_from}, {lost_to})"


def _loss(told: Sequence[Condition]) -> str:
    return losses.lost(_falls(told), len(_items(told)))


def _unproven_loss(told: Sequence[Condition]) -> str:
    return losses.may_be_lost(_falls(told), len(_items(told)))


def _not_excluded(told: Sequence[Condition]) -> str:
    return losses.not_excluded(_falls(told))


def _lasting(condition: Standing, state: str = "") -> Callable[[Sequence[Condition]], str]:
    def sentence(told: Sequence[Condition]) -> str:
        return f"{state}{gone(condition, _missing(told), _partitions(told))}: {words.listed(_items(told))}"

    return sentence


def _out_of_sync(told: Sequence[Condition]) -> str:
    sentence = _lasting(Standing.OUT_OF_SYNC)(told)
    return sentence.replace(" gone: ", " behind: ", 1) if all(c.facts["reason"] == "behind" for c in told) else sentence


def _disagreement(told: Sequence[Condition]) -> str:
    last = max(told, key=lambda c: (c.first, c.item))
    return (
        f"{words.count(len(told), 'HW report')} of {subject(told)} in {_partitions(told)} disagree with the "
        f"reconstruction, the last at {last.item}: reported {last.facts['reported_hw']}, computed {last.facts['hw']}"
    )


def _gap(told: Sequence[Condition]) -> str:
    if told[0].cause == "clock":
        return f"{subject(told)} told {words.count(len(told), 'row')} on a clock that is wrong"
    return f"telemetry of {subject(told)}: {words.count(len(told), 'row')} of kind {told[0].cause}"


def _stale_source(told: Sequence[Condition]) -> str:
    return silence([Source(c.item, c.facts["broker_id"], _time(c.first)) for c in told])


def _job_behind(told: Sequence[Condition]) -> str:
    return str(told[0].facts["words"])


def _missing(told: Iterable[Condition]) -> list[int]:
    return sorted({broker for c in told for broker in c.facts["missing"]})


def _partitions(told: Sequence[Condition]) -> str:
    return words.count(len(_items(told)), "partition")


def _items(told: Iterable[Condition]) -> list[str]:
    return sorted({c.item for c in told}, key=lambda item: (len(item), item))


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / SECOND, UTC)


_ABOUT_SOURCES = ("gap", "stale_source")
_ABOUT_BROKERS = ("offline", "under_min_isr", "out_of_sync")
_SENTENCES: dict[str, Callable[[Sequence[Condition]], str]] = {
    "loss": _loss,
    "unproven_loss": _unproven_loss,
    "loss_not_excluded": _not_excluded,
    "offline": _lasting(Standing.OFFLINE, f"{State.OFFLINE.value}: "),
    "under_min_isr": _lasting(Standing.UNDER_MIN_ISR, f"{State.UNDER_MIN_ISR.value}: "),
    "out_of_sync": _out_of_sync,
    "disagreement": _disagreement,
    "gap": _gap,
    "stale_source": _stale_source,
    "job_behind": _job_behind,
}
