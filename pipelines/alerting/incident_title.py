"""The one line that an incident is known by: state, cluster, cause and number, at most LONGEST characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipelines.alerting.rule import SEVERITIES
from pipelines.alerting.state import AlertState
from pipelines.printable import printable
from pipelines.verdict import words
from pipelines.verdict.records import State

_MAY_BE_LOST = "loss not excluded"
LONGEST = 80
NAME, SHORTER = 32, (20, 12)
"""Longer names are cut in the middle, and further where the line is too long; they stand whole below it."""
_STATES = {"loss": State.LOST.value, "unproven_loss": State.LOSS_NOT_EXCLUDED.value}


def title(cluster: str, alerts: Sequence[AlertState], flapping: bool = False) -> str:
    """`OFFLINE prod: broker 2 gone, 12 partitions of audit`, for the first of the gravest alerts."""
    lines = (_line(cluster, alerts, flapping, length) for length in (NAME, *SHORTER))
    line = printable(next((line for line in lines if len(line) <= LONGEST), "") or _line(cluster, alerts, flapping, 8))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _line(cluster: str, alerts: Sequence[AlertState], flapping: bool, length: int) -> str:
    """The title with names of at most so many characters."""
    head = gravest(alerts)
    state = _STATES.get(head.rule, head.rule.replace("_", " ").upper())
    who = _who(head, length) if cluster else _listed(dict.fromkeys(map(_place, alerts)), length)
    more = _MAY_BE_LOST if not head.rule.endswith("loss") and any(one.rule == "unproven_loss" for one in alerts) else ""
    parts = who, *_causes(head), _number(head, length), more, "flapping" if flapping else ""
    said = ", ".join(filter(None, parts))
    return f"{state} {cut(cluster, length) or 'hwmark'}: {said}".removesuffix(": ")


def gravest(alerts: Sequence[AlertState]) -> AlertState:
    """The alert that an incident is named by."""
    return max(alerts, key=weight)


def weight(alert: AlertState) -> tuple[int, int]:
    """The weight of an alert: by severity, then losses, then partitions that stand still, then all others."""
    return SEVERITIES.index(alert.severity), -_WEIGHT.get(alert.rule, len(_WEIGHT))


_WEIGHT = {rule: rank for rank, rule in enumerate(("loss", "offline", "no_controller", "under_min_isr"))}


def cut(name: str, length: int = NAME) -> str:
    """A name, without its middle where it is longer than so many characters."""
    half = (length - 1) // 2
    return name if len(name) <= length else f"{name[: length - 1 - half]}…{name[-half:]}"


_CAUSES = {
    "unclean_loss": "unclean election",
    "committed_loss": "leader began below the HW",
    "hw_moved_back": "HW moved back",
}
"""The cause of a loss by its class."""


def _causes(alert: AlertState) -> list[str]:
    """The causes of a loss; none for other alerts."""
    return [_CAUSES[one] for one in alert.labels.get("cause", "").split(", ") if one in _CAUSES]


def _who(alert: AlertState, length: int) -> str:
    brokers = [one for one in alert.labels.get("brokers", "").split(", ") if one]
    if brokers:
        return f"broker{'s' * (len(brokers) > 1)} {words.listed(brokers)}"
    return _listed(alert.labels["sources"].split(", "), length) if "sources" in alert.labels else ""


def _place(alert: AlertState) -> str:
    """The subject of an alert about hwmark itself."""
    return alert.labels.get("cluster") or alert.labels.get("channel") or alert.subject


def _number(alert: AlertState, length: int) -> str:
    topics = alert.labels.get("topic") or alert.labels.get("topics")
    if not topics:
        return ""
    each = topics.split(", ")
    of = cut(each[0], length) if len(each) == 1 else words.count(len(each), "topic")
    partitions, offsets, _ = alert.size
    if offsets:
        least = "" if alert.labels.get("proof") == "proven" else "at least "
        return f"{least}{words.count(offsets, 'offset')} of {of}"
    return f"{words.count(partitions or 0, 'partition')} of {of}"


def _listed(names: Iterable[str], length: int) -> str:
    return words.listed([cut(name, length) for name in names if name])
