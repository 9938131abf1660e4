"""One alert: its sentence, how the loss came about that it is on, what was sent of it, and what to type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.alerting.lookup import alert as stored
from pipelines.alerting.state import from_row
from pipelines.errors import UsageError
from pipelines.lake.queries import Filter, Row
from pipelines.notify.notice import command
from pipelines.notify.sent import Sent, sent
from pipelines.verdict.known import refuse_unknown
from pipelines.verdict.loss_rows import Incident, incident
from pipelines.web.answers.common import Sentence, plain, sentences_of, timed, verdicts
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader


@dataclass(frozen=True)
class AlertAnswer:
    """An alert's latest state; `incident` is None where it is on no loss, or that loss is known no more."""

    verdict: Sequence[Sentence]
    alert: Row
    incident: Incident | None
    sent: Sent
    command: str


def alert(reader: Reader, asked: Asked) -> AlertAnswer:
    """The alert `asked.alert_id`. Raises UnknownNameError naming the nearest."""
    if asked.alert_id is None:
        raise UsageError("no alert is named: say alert_id in the URL; /alerts has them")

    def compute(lake: Any) -> tuple[Row, Incident | None, Sent, str]:
        refuse_unknown(lake, asked.wanted)
        row = stored(lake, str(asked.alert_id))
        row["labels"] = row["labels"] or {}
        return plain(row), _incident(lake, row), sent(lake, row["alert_id"]), command(from_row(row), lake.root)

    with timed(asked, "alert"):
        row, loss, deliveries, first = reader.answer(("alert", asked.alert_id, asked.wanted), compute)
    about = replace(asked, cluster=row["labels"].get("cluster") or None, topic=None, partition=None)
    said = sentences_of(verdicts(reader, about))
    return AlertAnswer(said, row, loss, deliveries, first)


def _incident(lake: Any, row: Row) -> Incident | None:
    """Of the loss that the alert names; one that a later revision found harmless is none any more."""
    loss, cluster = row["labels"].get("loss"), row["labels"].get("cluster")
    if not loss:
        return None
    try:
        return incident(lake, Filter(cluster), loss)
    except UsageError:
        return None
