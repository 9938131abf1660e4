"""All partitions, the worst first, a page at a time; and partitions, topics and brokers that a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.lake.queries import Row, text
from pipelines.verdict import judged, sentences
from pipelines.web.answers.brokers import Tile, broker_rows, tile
from pipelines.web.answers.common import (
    PLACE,
    RANKED,
    Sentence,
    pages,
    sentences_of,
    standings,
    surveyed,
    timed,
    verdicts,
)  # fmt: skip
from pipelines.web.answers.topic import TopicLine, lost_by, topic_lines
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader

FEW = 8
_NAME = "lower(concat(cluster, '/', topic, '-', partition))"


@dataclass(frozen=True)
class Partitions:
    """One page of partitions; `matching` are all that were asked for."""

    verdict: Sequence[Sentence]
    partitions: Sequence[Row]
    matching: int
    page: int
    pages: int
    topics: Sequence[TopicLine] = ()
    brokers: Sequence[Tile] = ()


def partitions(reader: Reader, asked: Asked) -> Partitions:
    """The requested partitions, those with a replica on a broker if one is given; sound ones included."""
    said = verdicts(reader, asked)
    found = f"strpos({_NAME}, {text(asked.q.lower())}) > 0" if asked.q else "true"
    found += f" AND array_has(ar, {asked.broker})" if asked.broker is not None else ""
    cut = f"LIMIT {asked.limit} OFFSET {(asked.page - 1) * asked.limit}"
    with timed(asked, "partitions"):
        lost = lost_by(reader, asked, PLACE)
        names = ", ".join(text(f"{cluster}/{topic}-{number}".lower()) for cluster, topic, number in lost)
        first = f"{_NAME} NOT IN ({names}), " if lost else ""  # false sorts before true
        shown = standings(reader, asked, "*", found, f"{RANKED}, {first}{PLACE} {cut}")
        matching = standings(reader, asked, "count(*) AS n", found)
    total = matching[0]["n"] if matching else 0
    over = {record.cluster for record in surveyed(reader, asked).records if judged.ended(record)}
    named = [
        row
        | {"sentence": sentences.partition(row, ended=row["cluster"] in over)}
        | {"lost": lost.get((row["cluster"], row["topic"], row["partition"]), 0)}
        for row in shown
    ]
    others = _others(reader, asked) if asked.q and asked.page == 1 else ([], [])
    return Partitions(sentences_of(said), named, total, asked.page, pages(asked, total), *others)


def _others(reader: Reader, asked: Asked) -> tuple[list[TopicLine], list[Tile]]:
    """Topics and brokers whose name has what is searched for, a few of each."""
    number = asked.q.lower().removeprefix("broker").strip()
    known = broker_rows(reader, replace(asked, topic=None, partition=None))[0] if number.isdigit() else []
    return topic_lines(reader, asked)[:FEW], [tile(row) for row in known if str(row["broker_id"]) == number][:FEW]
