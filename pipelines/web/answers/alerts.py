"""Alerts: the latest state of each, what fires first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.lake.queries import VIEWS, Row, text
from pipelines.verdict.known import refuse_unknown
from pipelines.web.answers.common import Sentence, rows, sentences_of, timed, verdicts
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import alerts as table

_SEARCHED = "lower(concat_ws(' ', alert_id, rule, severity, state, subject, summary))"


@dataclass(frozen=True)
class Alerts:
    """One page of alerts; `evaluated`: whether `hwmark check` ever wrote any."""

    verdict: Sequence[Sentence]
    alerts: Sequence[Row]
    matching: int
    firing: int
    page: int
    pages: int
    evaluated: bool


def alerts(reader: Reader, asked: Asked) -> Alerts:
    """The view at this moment: alerts that were firing at any time, whenever that was."""
    said = sentences_of(verdicts(reader, asked))
    view = VIEWS["alerts"]
    found = f"strpos({_SEARCHED}, {text(asked.q.lower())}) > 0" if asked.q else "true"
    latest = f"SELECT * FROM ({view.select(asked.wanted)}) WHERE {found}"
    counts = "count(*) OVER () AS matching, count(*) FILTER (WHERE state = 'firing') OVER () AS firing"
    cut = f"LIMIT {asked.limit} OFFSET {(asked.page - 1) * asked.limit}"
    with timed(asked, "alerts"):
        shown = rows(reader, table.TABLE, f"SELECT *, {counts} FROM ({latest}) ORDER BY {view.first}, alert_id {cut}")
    if not shown and asked.cluster is not None:
        refuse_unknown(reader.snapshot(), replace(asked.wanted, topic=None, partition=None))
    matching, firing = (shown[0]["matching"], shown[0]["firing"]) if shown else (0, 0)
    evaluated = reader.snapshot().has_table(table.TABLE)
    return Alerts(said, shown, matching, firing, asked.page, max(1, -(-matching // asked.limit)), evaluated)
