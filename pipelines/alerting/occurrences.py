"""Single occurrences, reported at once: disagreements and gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition, counted_partitions, partition, subjects
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, Kinds, OccurrenceSettings
from pipelines.verdict import words
from schemas.event_types import DROPPED, NOT_ASKED, UNANSWERED
from schemas.replication_events import WATCHER
from schemas.telemetry_gaps import UNREAD

_ENDED = "cluster IN (SELECT cluster FROM ended_recordings) AS ended"
_DISAGREEMENTS = f"SELECT d.*, clock, {_ENDED} FROM disagreements AS d LEFT JOIN clock USING (cluster) ORDER BY ALL"
# Gaps that an evaluator with other kinds has told go on here, too. Rounds in which a broker alone did not answer a
# watcher are no gap to tell: rules about the broker tell it while it lasts.
_GAPS = f"""
SELECT g.*, clock, {_ENDED} FROM gaps AS g LEFT JOIN clock USING (cluster)
WHERE coalesce(starts_with(detail, '{UNREAD}'), false) = $unread
  AND NOT coalesce(starts_with(source_id, '{WATCHER}') AND contains(detail, ' {UNANSWERED}: ')
    AND NOT contains(detail, '{NOT_ASKED}: ') AND NOT contains(detail, '{DROPPED}: '), false)
  AND (list_contains($kinds, kind) OR EXISTS (FROM fired AS f WHERE f.rule = $rule AND f.cluster = g.cluster
    AND f.source_id = g.source_id AND f.cause = g.kind AND g.ts <= f.last))
ORDER BY ALL
"""


@dataclass(frozen=True, config=STRICT)
class GapSettings(OccurrenceSettings):
    """Fires for rows of `silver/telemetry_gaps` of these kinds."""

    kinds: Kinds = ("gap", "clock", "contradiction")


def occurrence(
    name: str, settings: OccurrenceSettings, row: Mapping[str, Any], cause: str, subject: str, item: str
) -> Condition:
    """The condition of a row with its time `ts`, whether its cluster `ended`, and that cluster's `clock`."""
    end = row["ts"] + settings.resolve_after_s * SECOND
    present = row["ts"] if row["clock"] is None else row["clock"]
    return Condition(
        name, row["cluster"], cause, subject, item, row["ts"], row["ts"], row["ts"], end,
        present < end and not row["ended"], row,
    )  # fmt: skip


def _disagreements(name: str, settings: OccurrenceSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Reports that no reconstructed value explains, by the broker that made them."""
    for row in evaluation.ask(_DISAGREEMENTS):
        who = "an unknown broker" if row["leader_id"] is None else f"broker {row['leader_id']}"
        yield occurrence(name, settings, row, "disagree", who, partition(row))


def _disagreement(conditions: Sequence[Condition]) -> str:
    last = max(conditions, key=lambda c: (c.first, c.item))
    who = words.listed(subjects(conditions))
    return (
        f"{words.count(len(conditions), 'HW report')} of {who} in {counted_partitions(conditions)} disagree with the "
        f"reconstruction, the last at {last.item}: reported {last.facts['reported_hw']}, computed {last.facts['hw']}"
    )


def _gaps(name: str, settings: GapSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Missing or misdated telemetry, by source and kind."""
    for row in evaluation.ask(_GAPS, rule=name, kinds=list(settings.kinds), unread=False):
        yield occurrence(name, settings, row, row["kind"], row["source_id"], row["source_id"])


def _gap(conditions: Sequence[Condition]) -> str:
    who = words.listed(subjects(conditions))
    if conditions[0].cause == "clock":
        return f"{who} reported {words.count(len(conditions), 'row')} on a clock that is wrong"
    return f"telemetry of {who}: {words.count(len(conditions), 'row')} of kind {conditions[0].cause}"


def _unread(name: str, settings: OccurrenceSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Files and streams that were offered and could not be read, by source."""
    for row in evaluation.ask(_GAPS, rule=name, kinds=["gap"], unread=True):
        yield occurrence(name, settings, row, "unread", row["source_id"], row["source_id"])


def _left_out(conditions: Sequence[Condition]) -> str:
    count = words.count(len(subjects(conditions)), "source")
    return f"{count} offered and not understood: {words.listed(subjects(conditions))}; `hwmark show verdict` says why"


RULES = (
    AlertRule("disagreement", OccurrenceSettings(), _disagreements, _disagreement, ("disagreements",), look="hw"),
    AlertRule("gap", GapSettings(), _gaps, _gap, ("gaps",), About.SOURCES),
    AlertRule("broker_unread", OccurrenceSettings(severity="critical"), _unread, _left_out, ("gaps",), About.SOURCES),
)
