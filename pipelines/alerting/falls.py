"""Falls of a HW by which committed records are gone, or may be: reported at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition, items, lost_range, partition
from pipelines.alerting.lasting import TWICE
from pipelines.alerting.rule import STRICT, AlertRule, Evaluation, OccurrenceSettings, Seconds
from pipelines.lake.queries import moment
from pipelines.verdict import losses
from pipelines.verdict.records import FallGroup
from schemas.hw_regressions import UPPER_BOUND
from schemas.levels import POLLED
from schemas.replication_events import WATCHER

_FALLS = f"""
WITH rounds AS (
  SELECT cluster, max(holds_s) AS two_rounds_s FROM reported WHERE starts_with(source_id, '{WATCHER}') GROUP BY cluster
), verdicts AS (
  SELECT * FROM regressions
  QUALIFY row_number() OVER (PARTITION BY regression_id ORDER BY revision DESC NULLS LAST) = 1)
SELECT *, CASE WHEN level = {POLLED} THEN coalesce(two_rounds_s, 0) ELSE 0 END AS two_rounds_s
FROM verdicts LEFT JOIN rounds USING (cluster) LEFT JOIN clock USING (cluster)
WHERE severity = $severity AND list_contains($classes, "class")
ORDER BY cluster, ts, topic, partition
"""
_ANSWERS = ("an answer of broker ", "whether broker ")
"""Prefixes of missing evidence that a restarted broker may still report."""


@dataclass(frozen=True, config=STRICT)
class LossSettings(OccurrenceSettings):
    """A loss pages on its own: only falls up to `group_s` seconds apart are one alert, and no others.

    It fires for `resolve_after_s` seconds of the wall clock from when it was told, however old it was then.
    """

    resolve_after_s: Seconds = 86_400


def _falls(severity: str) -> Callable[[str, LossSettings, Evaluation], Iterator[Condition]]:
    """The last verdicts of that severity; those of one cluster close to each other are one incident."""

    def conditions(name: str, settings: LossSettings, evaluation: Evaluation) -> Iterator[Condition]:
        for row in evaluation.ask(_FALLS, severity=severity, classes=[*losses.LOSSES, losses.NOT_EXCLUDED]):
            ts = row["ts"]
            incident = f"incident at {datetime.fromtimestamp(ts // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"
            answered, clock = ts + _awaited_us(row, row.pop("two_rounds_s")), row.pop("clock")
            fires, last = (answered, clock) if clock is not None and ts <= clock < answered else (ts, ts)
            yield Condition(name, row["cluster"], "loss", incident, partition(row), ts, fires, ts, last, True, row)

    return conditions


def _awaited_us(row: Mapping[str, Any], two_rounds_s: int) -> int:
    """Microseconds that a loss not excluded waits for a restarted broker's answer (two rounds without one), else 0."""
    missing = [one for one in _missing(row) if one != UPPER_BOUND]
    awaits = bool(missing) and all(one.startswith(_ANSWERS) for one in missing)
    return round(TWICE * two_rounds_s * SECOND) if awaits else 0


def _grouped(conditions: Sequence[Condition]) -> list[FallGroup]:
    """The falls, grouped by cause."""
    ordered = sorted(conditions, key=lambda c: (_change(c), c.item))
    return [_group(list(same)) for _, same in groupby(ordered, _change)]


def _change(condition: Condition) -> tuple[Any, ...]:
    facts = condition.facts
    return facts["class"], -2 if facts["leader_id"] is None else facts["leader_id"], _missing(facts)


def _group(conditions: Sequence[Condition]) -> FallGroup:
    facts, times = conditions[0].facts, [c.first for c in conditions]
    lost = [c.facts["lost_records"] for c in conditions if c.facts["lost_records"] is not None]
    proof = "proven" if all(c.facts["proof"] == "proven" for c in conditions) else "bounded"
    before = {c.facts["leader_id_before"] for c in conditions}
    examples = sorted({_fall(c) for c in conditions}, key=lambda fall: (len(fall), fall))
    return FallGroup(
        facts["class"], facts["severity"], proof, facts["leader_id"], before.pop() if len(before) == 1 else None,
        len(items(conditions)), moment(min(times)), moment(max(times)), sum(lost) if lost else None, tuple(examples),
        _missing(conditions[0].facts),
    )  # fmt: skip


def _missing(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the evidence without which a loss is not excluded."""
    if row["class"] != losses.NOT_EXCLUDED:
        return ()
    return tuple(json.loads(row["evidence"] or "{}").get("missing", ()))


def _fall(condition: Condition) -> str:
    facts = condition.facts
    if facts["class"] == losses.NOT_EXCLUDED:
        return condition.item
    if lost_range(condition):
        return f"{condition.item} offsets {facts['lost_from']}..{facts['lost_to'] - 1}"
    return f"{condition.item} HW {facts['hw_before']} to {facts['hw_after']}"


def _lost(conditions: Sequence[Condition]) -> str:
    return losses.lost(_grouped(conditions), len(items(conditions)))


def _may_be_lost(conditions: Sequence[Condition]) -> str:
    suspect = [condition for condition in conditions if condition.facts["class"] != losses.NOT_EXCLUDED]
    return losses.may_be_lost(_grouped(conditions), len(items(suspect)))


def _not_excluded(conditions: Sequence[Condition]) -> str:
    return losses.not_excluded(_grouped(conditions))


def _rule(
    name: str, severity: str, falls: str, sentence: Callable[[Sequence[Condition]], str], look: str = "loss"
) -> AlertRule[Any]:
    """A rule about falls of that severity. A loss does not heal: its alert ends when it is no longer notified."""
    settings = LossSettings(severity=severity)
    ends = "no longer notified"
    return AlertRule(name, settings, _falls(falls), sentence, ("regressions",), ends=ends, from_told=True, look=look)


RULES = (
    _rule("loss", "critical", "critical", _lost),
    _rule("unproven_loss", "warning", "warning", _may_be_lost),
    _rule("loss_not_excluded", "info", "info", _not_excluded, look="regressions"),
)
