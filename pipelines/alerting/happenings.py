"""Single happenings, told at once: losses, disagreements, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pipelines.alerting.conditions import SECOND, Ask, Condition, partition
from pipelines.alerting.rules import GapRule, HappeningRule, LossRule
from pipelines.verdict.losses import LOSSES, NOT_EXCLUDED

_LOSSES = """
WITH verdicts AS (
  SELECT * FROM regressions
  QUALIFY row_number() OVER (PARTITION BY regression_id ORDER BY revision DESC NULLS LAST) = 1)
SELECT verdicts.*, clock FROM verdicts LEFT JOIN clock USING (cluster)
WHERE severity = $severity AND list_contains($classes, "class")
ORDER BY cluster, ts, topic, partition
"""
_DISAGREEMENTS = "SELECT d.*, clock FROM disagreements AS d LEFT JOIN clock USING (cluster) ORDER BY ALL"
_GAPS = """
SELECT g.*, clock FROM gaps AS g LEFT JOIN clock USING (cluster) WHERE list_contains($kinds, kind) ORDER BY ALL
"""


def losses(name: str, rule: LossRule, severity: str, ask: Ask) -> Iterator[Condition]:
    """The last verdicts of that severity; those of one cluster close to each other are one incident."""
    cluster, last, start = None, 0, 0
    for row in ask(_LOSSES, severity=severity, classes=[*LOSSES, NOT_EXCLUDED]):
        if row["cluster"] != cluster or row["ts"] - last > rule.group_s * SECOND:
            cluster, start = row["cluster"], row["ts"]
        last = row["ts"]
        subject = f"incident at {datetime.fromtimestamp(start // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"
        yield _happening(name, rule, row, "loss", subject, partition(row))


def disagreements(name: str, rule: HappeningRule, ask: Ask) -> Iterator[Condition]:
    """Reports that no reconstructed value explains, by the broker that made them."""
    for row in ask(_DISAGREEMENTS):
        who = "an unknown broker" if row["leader_id"] is None else f"broker {row['leader_id']}"
        yield _happening(name, rule, row, "disagree", who, partition(row))


def gaps(name: str, rule: GapRule, ask: Ask) -> Iterator[Condition]:
    """Missing or misdated telemetry, by source and kind."""
    for row in ask(_GAPS, kinds=list(rule.kinds)):
        yield replace(_happening(name, rule, row, row["kind"], row["source_id"], row["source_id"]), kin=row["kind"])


def _happening(
    name: str, rule: HappeningRule, row: Mapping[str, Any], cause: str, subject: str, item: str
) -> Condition:
    end = row["ts"] + rule.resolve_after_s * SECOND
    present = row["ts"] if row["clock"] is None else row["clock"]
    return Condition(
        name, row["cluster"], cause, subject, item, row["ts"], row["ts"], row["ts"], end, present < end, row
    )
