"""Single happenings, told at once: losses, disagreements, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pipelines.alerting.conditions import SECOND, Ask, Condition, partition
from pipelines.alerting.rules import GapRule, HappeningRule, LossRule

LOSSES = ("unclean_loss", "committed_loss", "hw_moved_back")

_LOSSES = """
WITH verdicts AS (
  SELECT * FROM regressions
  QUALIFY row_number() OVER (PARTITION BY regression_id ORDER BY revision DESC NULLS LAST) = 1)
SELECT verdicts.*, clock FROM verdicts LEFT JOIN clock USING (cluster)
WHERE severity = $severity AND list_contains($losses, "class")
ORDER BY cluster, "class", leader_id, leader_id_before, ts, topic, partition
"""
_DISAGREEMENTS = "SELECT d.*, clock FROM disagreements AS d LEFT JOIN clock USING (cluster) ORDER BY ALL"
_GAPS = """
SELECT g.*, clock FROM gaps AS g LEFT JOIN clock USING (cluster) WHERE list_contains($kinds, kind) ORDER BY ALL
"""


def losses(name: str, rule: LossRule, severity: str, ask: Ask) -> Iterator[Condition]:
    """The last verdicts of that severity; falls of one class and leader close to each other share a subject."""
    chain, last, start = None, 0, 0
    for row in ask(_LOSSES, severity=severity, losses=list(LOSSES)):
        key = (row["cluster"], row["class"], row["leader_id"], row["leader_id_before"])
        if key != chain or row["ts"] - last > rule.group_s * SECOND:
            chain, start = key, row["ts"]
        last = row["ts"]
        subject = f"{_what(row)} at {datetime.fromtimestamp(start / SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"
        yield _happening(name, rule, row, row["class"], subject, partition(row))


def _what(row: Mapping[str, Any]) -> str:
    leader, before = row["leader_id"], row["leader_id_before"]
    who = "an unknown broker" if leader is None else f"broker {leader}"
    after = "" if before is None or before == leader else f" after broker {before}"
    words = {
        "unclean_loss": f"unclean election of {who}{after}",
        "committed_loss": f"term of {who}{after} from a log that ends below the HW",
        "hw_moved_back": f"HW moved back under {who}",
    }
    return words[row["class"]]


def disagreements(name: str, rule: HappeningRule, ask: Ask) -> Iterator[Condition]:
    """Reports that no reconstructed value explains, by the broker that made them."""
    for row in ask(_DISAGREEMENTS):
        who = "an unknown broker" if row["leader_id"] is None else f"broker {row['leader_id']}"
        yield _happening(name, rule, row, "disagree", who, partition(row))


def gaps(name: str, rule: GapRule, ask: Ask) -> Iterator[Condition]:
    """Missing or misdated telemetry, by source and kind."""
    for row in ask(_GAPS, kinds=list(rule.kinds)):
        yield _happening(name, rule, row, row["kind"], row["source_id"], row["source_id"])


def _happening(
    name: str, rule: HappeningRule, row: Mapping[str, Any], cause: str, subject: str, item: str
) -> Condition:
    end = row["ts"] + rule.resolve_after_s * SECOND
    present = row["ts"] if row["clock"] is None else row["clock"]
    return Condition(
        name, row["cluster"], cause, subject, item, row["ts"], row["ts"], row["ts"], end, present < end, row
    )
