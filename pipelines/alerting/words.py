"""What an alert says: one sentence, and labels for machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipelines.alerting.conditions import Condition

NAMED = 3
"""Items that the sentence names; the labels name LABELLED, the silver tables have all."""
LABELLED = 100
LABELLED_TOPICS = 1000


def summary(told: Sequence[Condition]) -> str:
    """One sentence about conditions of one alert; nothing in it changes while only time passes."""
    return _SENTENCES[told[0].rule](told)


def labels(told: Sequence[Condition]) -> dict[str, str]:
    """cluster, cause, and what is concerned: partitions and topics, ranges, or sources; one topic is `topic`."""
    head, items = told[0], _items(told)
    found = {"cluster": head.cluster, "cause": head.cause}
    if head.rule in _ABOUT_SOURCES:
        return {**found, "sources": _listed(items, LABELLED)}
    found |= {"partitions": _listed(items, LABELLED), "count": str(len(items))}
    topics = sorted({item.rpartition("-")[0] for item in items})
    found["topic" if len(topics) == 1 else "topics"] = _listed(topics, LABELLED_TOPICS)
    if len(items) == 1:
        found["partition"] = items[0].rpartition("-")[2]
    if ranges := [r for c in told if (r := _range(c))]:
        found["range" if len(ranges) == 1 else "ranges"] = _listed(ranges, LABELLED)
    return found


def _loss(told: Sequence[Condition]) -> str:
    counts = [c.facts["lost_records"] for c in told]
    least = "at least " if any(c.facts["proof"] != "proven" for c in told) else ""
    lost = f"{least}{sum(n or 0 for n in counts)} offsets lost" if any(counts) else "the HW fell"
    return f"{lost} in {_partitions(told)}, {told[0].subject}: {_falls(told)}"


def _unproven_loss(told: Sequence[Condition]) -> str:
    return f"possible loss, unproven, in {_partitions(told)}, {told[0].subject}: {_falls(told)}"


def _falls(told: Sequence[Condition]) -> str:
    ordered = sorted(told, key=lambda c: (len(c.item), c.item))
    return _listed([_fall(c) for c in ordered], NAMED)


def _fall(condition: Condition) -> str:
    facts = condition.facts
    if _range(condition):
        return f"{condition.item} offsets {facts['lost_from']}..{facts['lost_to'] - 1}"
    return f"{condition.item} HW {facts['hw_before']} to {facts['hw_after']}"


def _range(condition: Condition) -> str:
    lost_from, lost_to = condition.facts.get("lost_from"), condition.facts.get("lost_to")
    return "" if lost_from is None or lost_to is None else f"{condition.item} [{lost_from}, {lost_to})"


def _lasting(what: str) -> Callable[[Sequence[Condition]], str]:
    def sentence(told: Sequence[Condition]) -> str:
        return f"{told[0].cause} gone: {_partitions(told)} {what}: {_listed(_items(told), NAMED)}"

    return sentence


def _out_of_sync(told: Sequence[Condition]) -> str:
    state = "behind" if all(c.facts["reason"] == "behind" for c in told) else "gone"
    return f"{told[0].cause} {state}: {_partitions(told)} out of sync: {_listed(_items(told), NAMED)}"


def _disagreement(told: Sequence[Condition]) -> str:
    last = told[-1].facts
    return (
        f"{_count(len(told), 'HW report')} of {told[0].subject} in {_partitions(told)} disagree with the "
        f"reconstruction, the last at {told[-1].item}: reported {last['reported_hw']}, computed {last['hw']}"
    )


def _gap(told: Sequence[Condition]) -> str:
    if told[0].cause == "clock":
        return f"{told[0].subject} told {_count(len(told), 'row')} ahead of every other clock"
    return f"telemetry of {told[0].subject}: {_count(len(told), 'row')} of kind {told[0].cause}"


def _stale_source(told: Sequence[Condition]) -> str:
    items = _items(told)
    return f"{told[0].subject} tells nothing any more: {_listed(items, NAMED)}"


def _partitions(told: Sequence[Condition]) -> str:
    return _count(len(_items(told)), "partition")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _items(told: Iterable[Condition]) -> list[str]:
    return sorted({c.item for c in told}, key=lambda item: (len(item), item))


def _listed(words: Sequence[str], limit: int) -> str:
    shown = ", ".join(words[:limit])
    return shown if len(words) <= limit else f"{shown} and {len(words) - limit} more"


_ABOUT_SOURCES = ("gap", "stale_source")
_SENTENCES: dict[str, Callable[[Sequence[Condition]], str]] = {
    "loss": _loss,
    "unproven_loss": _unproven_loss,
    "offline": _lasting("offline"),
    "under_min_isr": _lasting("under min ISR"),
    "out_of_sync": _out_of_sync,
    "disagreement": _disagreement,
    "gap": _gap,
    "stale_source": _stale_source,
}
