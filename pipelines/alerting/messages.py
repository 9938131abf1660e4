"""The text of an alert: one sentence in the words of the verdicts, and labels for machines."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.alerting.conditions import Condition, items, lost_range, missing_brokers, subjects
from pipelines.alerting.rule import About
from pipelines.alerting.rules import RULES
from pipelines.alerting.state import END, LABELLED, NOT_KNOWN, OTHERS, RECORDING_ENDED, AlertState, listed
from pipelines.verdict import words

LABELLED_TOPICS = 1000


def summary(conditions: Sequence[Condition], over: Sequence[str] = ()) -> str:
    """Return the sentence of an alert's conditions, with the items that are `over`; it changes only as the facts do."""
    sentence, cluster = RULES[conditions[0].rule].sentence(conditions), conditions[0].cluster
    sentence += f"; no longer: {words.listed(over)}" if over else ""
    not_known = [str(c.facts["reason"]) for c in conditions if c.open and NOT_KNOWN in str(c.facts.get("reason"))]
    sentence += f"; {not_known[0]}" if not_known else ""
    return f"{cluster}: {sentence}" if cluster else sentence


def status(state: AlertState) -> str:
    """`FIRING`; for an ended alert `RESOLVED`, or its rule's own word, as a loss is never resolved."""
    if state.firing or END in state.labels:
        return state.labels.get(END, state.state).upper()
    return (RULES[state.rule].ends if state.rule in RULES else state.state).upper()


def subject(conditions: Sequence[Condition]) -> str:
    """The subject of an alert: brokers, a source, a cluster, or an incident, named by its first fall."""
    names = subjects(conditions)
    if RULES[conditions[0].rule].from_told:
        return conditions[0].subject
    if len(names) > 1 and RULES[conditions[0].rule].about is About.BROKERS:
        return words.brokers(missing_brokers(conditions))
    return words.listed(names)


def labels(conditions: Sequence[Condition], over: Sequence[str] = ()) -> dict[str, str]:
    """cluster, cause, and what is concerned: partitions and topics, ranges, or sources; one topic is `topic`."""
    about, named = RULES[conditions[0].rule].about, items(conditions)
    found = {"cluster": conditions[0].cluster, "cause": words.listed(sorted({_cause(c) for c in conditions}))}
    if any(c.facts.get("over") for c in conditions):
        found[END] = RECORDING_ENDED
    if named_brokers := _brokers(conditions):
        found["brokers"] = ", ".join(map(str, named_brokers))
        found |= {} if all(map(_is_explained, conditions)) else {OTHERS: "true"}
    if assigned := sorted({broker for c in conditions for broker in c.facts.get("assigned") or ()}):
        found["assigned"] = ", ".join(map(str, assigned))
    if about is About.SOURCES:
        return {**found, "sources": listed(named), "count": str(len(named))}
    if about is About.CLUSTER:
        return found
    if about is About.CHANNEL:
        return {**found, "channel": listed(named)}
    found |= {"partitions": listed(named), "count": str(len(named))}
    if over:
        found |= {"over": listed(over), "over_count": str(len(over))}
    topics = sorted({item.rpartition("-")[0] for item in named})
    found["topic" if len(topics) == 1 else "topics"] = words.listed(topics, LABELLED_TOPICS)
    if len(named) == 1:
        found["partition"] = named[0].rpartition("-")[2]
    if loss := _weightiest(conditions):
        found["loss"] = loss
        if len(conditions) > len(named):
            found["falls"] = str(len(conditions))
        found["offsets"] = str(sum(c.facts["lost_records"] or 0 for c in conditions))
        found["proof"] = "proven" if all(c.facts["proof"] == "proven" for c in conditions) else "bounded"
    if ranges := [lost for c in conditions if (lost := lost_range(c))]:
        found["range" if len(ranges) == 1 else "ranges"] = words.listed(ranges, LABELLED)
    return found


def _brokers(conditions: Sequence[Condition]) -> list[int]:
    """The brokers that are missing, or that the sources are of, as far as that is known."""
    named = (c.facts.get("missing") or [c.facts.get("broker_id")] for c in conditions)
    return sorted({broker for each in named for broker in each if broker is not None and broker >= 0})


def _is_explained(condition: Condition) -> bool:
    """Whether it names its brokers; where nobody leads, those that it is assigned to."""
    return bool(condition.facts.get("assigned") if condition.rule == "offline" else _brokers([condition]))


def _weightiest(conditions: Sequence[Condition]) -> str:
    """The regression_id of the fall that lost most, the first of those that lost as much; empty if nothing fell."""
    falls = [c for c in conditions if c.facts.get("regression_id")]
    heaviest = min(falls, key=lambda c: (-(c.facts["lost_records"] or 0), c.first, c.item), default=None)
    return str(heaviest.facts["regression_id"]) if heaviest else ""


def _cause(condition: Condition) -> str:
    """A loss is one incident, whatever the classes of its falls."""
    return str(condition.facts.get("class", condition.cause))
