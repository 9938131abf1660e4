"""All partitions, the worst first, a page at a time; and those whose name has what is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.lake.queries import Row, text
from pipelines.verdict import judged, sentences
from pipelines.web.answers.common import Sentence, sentences_of, standings, surveyed, timed, verdicts
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader

_NAME = "lower(concat(cluster, '/', topic, '-', partition))"


@dataclass(frozen=True)
class Partitions:
    """One page of partitions; `matching` are all that were asked for."""

    verdict: Sequence[Sentence]
    partitions: Sequence[Row]
    matching: int
    page: int
    pages: int


def partitions(reader: Reader, asked: Asked) -> Partitions:
    """The partitions of what is asked for, sound ones included."""
    said = verdicts(reader, asked)
    found = f"strpos({_NAME}, {text(asked.q.lower())}) > 0" if asked.q else "true"
    order = "ORDER BY CASE WHEN unknown THEN 1.5 ELSE rank END, cluster, topic, partition"
    cut = f"LIMIT {asked.limit} OFFSET {(asked.page - 1) * asked.limit}"
    with timed(asked, "partitions"):
        shown = standings(reader, asked, "*", found, f"{order} {cut}")
        matching = standings(reader, asked, "count(*) AS n", found)
    total = matching[0]["n"] if matching else 0
    over = {record.cluster for record in surveyed(reader, asked).records if judged.ended(record)}
    named = [row | {"sentence": sentences.partition(row, ended=row["cluster"] in over)} for row in shown]
    return Partitions(sentences_of(said), named, total, asked.page, max(1, -(-total // asked.limit)))
