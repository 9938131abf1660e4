"""Quality: the expectations of the last check, what is missing of the telemetry, and what was set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.lake.queries import Row, View, text
from pipelines.web.answers.common import Sentence, rows, sentences_of, surveyed, timed, verdicts
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import quality_results, quarantine, telemetry_gaps

SHOWN = 200


@dataclass(frozen=True)
class Quality:
    """The whole view; `checked_at` is None where `hwmark check` never ran."""

    verdict: Sequence[Sentence]
    checked_at: datetime | None
    expectations: Sequence[Row]
    gaps: Sequence[Row]
    quarantined: Sequence[Row]


def quality(reader: Reader, asked: Asked) -> Quality:
    """The view at this moment."""
    said = sentences_of(verdicts(reader, asked))
    with timed(asked, "expectations"):
        expectations = _expectations(reader)
    with timed(asked, "gaps"):
        gaps = _gaps(reader, asked)
    with timed(asked, "quarantine"):
        quarantined = _quarantined(reader, asked)
    checked = expectations[0]["run_ts"] if expectations else None
    return Quality(said, checked, expectations, gaps, quarantined)


def _expectations(reader: Reader) -> list[Row]:
    """Of the last run, the failed ones first."""
    order = "ORDER BY success, suite, expectation"
    last = "SELECT max(run_ts) FROM t"
    return rows(reader, quality_results.TABLE, f"SELECT * FROM t WHERE run_ts = ({last}) {order} LIMIT {SHOWN}")


def _gaps(reader: Reader, asked: Asked) -> list[Row]:
    """By source and kind: how often within the time asked for, when last, and an example."""
    where = surveyed(reader, asked).wanted.where(View(telemetry_gaps.TABLE, "ts", ""))
    keys = "cluster, source_id, kind"
    values = "count(*) AS times, max(ts) AS last, min(detail) AS detail"
    sql = f"SELECT {keys}, {values} FROM t WHERE {where} GROUP BY {keys} ORDER BY times DESC, {keys} LIMIT {SHOWN}"
    return rows(reader, telemetry_gaps.TABLE, sql)


def _quarantined(reader: Reader, asked: Asked) -> list[Row]:
    """By cluster and reason: how many events broke the contract, and when the last did."""
    where = f"cluster = {text(asked.cluster)}" if asked.cluster is not None else "true"
    each = f"SELECT cluster, unnest(reasons) AS reason, quarantined_at FROM t WHERE {where}"
    values = "count(*) AS events, max(quarantined_at) AS last"
    sql = f"SELECT cluster, reason, {values} FROM ({each}) GROUP BY cluster, reason ORDER BY events DESC, reason"
    return rows(reader, quarantine.TABLE, f"{sql} LIMIT {SHOWN}")
