"""Topics, the worst first, and one topic: its partitions as cells, what was lost of it, and what changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pipelines.errors import UsageError
from pipelines.lake.queries import VIEWS, Row, text
from pipelines.timeline.happenings import KINDS, timeline
from pipelines.timeline.line import Happening
from pipelines.verdict import State, sentences
from pipelines.verdict.known import refuse_unknown
from pipelines.web.answers import common
from pipelines.web.answers.common import (
    WORST_FIRST,
    Alike,
    Sentence,
    rows,
    sentences_of,
    standings,
    surveyed,
    timed,
    verdicts,
)  # fmt: skip
from pipelines.web.answers.incidents import LOOKED_AT, Card, incident_rows, open_cards, owner_names
from pipelines.web.answers.present import Field, records_field
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import hw_regressions

CELLS, WORST, LINES = 500, 100, 30
CHANGES = ("config", "reassignment", "topic")
"""The kinds of lines of a timeline that say what was changed of a topic."""


@dataclass(frozen=True)
class TopicLine:
    """One topic: its worst state, its partitions that are not well, and its lost offsets; None: not known how many."""

    cluster: str
    topic: str
    state: str
    counts: Mapping[str, int]
    unwell: int
    partitions: int
    lost: int | None
    owner: str


@dataclass(frozen=True)
class Topics:
    """A page of topics, the worst first."""

    verdict: Sequence[Sentence]
    topics: Sequence[TopicLine]
    matching: int
    page: int
    pages: int


@dataclass(frozen=True)
class LossLine:
    """A loss in a sentence, and its partition."""

    cluster: str
    topic: str
    partition: int
    text: str


@dataclass(frozen=True)
class TopicAnswer:
    """The whole view; `cells` have number and state of at most CELLS partitions, none of a topic with more.

    `groups`: who reads it, None if nobody asked; `opened`: open incidents about it.
    """

    verdict: Sequence[Sentence]
    cluster: str
    line: TopicLine
    records: Field
    since: datetime | None
    groups: Sequence[str] | None
    replicas: Sequence[int]
    min_isr: Sequence[int]
    cells: Sequence[tuple[int, str]]
    unwell: Sequence[Row]
    losses: Sequence[LossLine]
    changed: Sequence[Happening]
    period: str
    alike: Sequence[Alike]
    opened: Sequence[Card]


def topic_lines(reader: Reader, asked: Asked) -> list[TopicLine]:
    """The topics whose name has what is searched for, the worst first."""
    found = f"strpos(lower(topic), {text(asked.q.lower())}) > 0" if asked.q else "true"
    keys = "cluster, topic, condition, unknown, rank"
    groups = defaultdict[tuple[str, str], list[Row]](list)
    for row in standings(reader, asked, f"{keys}, count(*) AS n", found, f"GROUP BY {keys}"):
        groups[row["cluster"], row["topic"]].append(row)
    lost = lost_by(reader, asked, "cluster, topic")
    ordered = sorted(groups, key=lambda key: (min(map(_rank, groups[key])), key not in lost, key))
    return [_line(reader, key, groups[key], lost.get(key, 0)) for key in ordered]


def _rank(row: Row) -> float:
    return 1.5 if row["unknown"] else min(row["rank"], 4)


def _line(reader: Reader, key: tuple[str, str], groups: Sequence[Row], lost: int | None) -> TopicLine:
    groups = sorted(groups, key=_rank)
    counts: dict[str, int] = {}
    for row in groups:
        counts[row["state"]] = counts.get(row["state"], 0) + row["n"]
    unwell = sum(row["n"] for row in groups if _rank(row) < 4)
    return TopicLine(
        *key, groups[0]["state"], counts, unwell, sum(counts.values()), lost, owner_names([key[1]], reader)
    )


def lost_by(reader: Reader, asked: Asked, keys: str) -> dict[tuple[Any, ...], int | None]:
    """Offsets lost within the time asked for, by topic or partition: those of LOOKED_AT that lost the most."""
    wanted = replace(surveyed(reader, replace(asked, topic=None, partition=None)).wanted, until=asked.until_ts)
    latest = f"SELECT * FROM ({VIEWS['serious'].select(wanted)}) WHERE severity = 'critical'"
    summed = f"SELECT {keys}, sum(lost_records) AS n FROM ({latest}) GROUP BY {keys} ORDER BY n DESC, {keys}"
    found = rows(reader, hw_regressions.TABLE, f"{summed} LIMIT {LOOKED_AT}")
    return {tuple(row[name] for name in keys.split(", ")): row["n"] for row in found}


def topics(reader: Reader, asked: Asked) -> Topics:
    """The view at this moment."""
    said = sentences_of(verdicts(reader, asked))
    with timed(asked, "topics"):
        found = topic_lines(reader, asked)
    return Topics(said, common.page(asked, found), len(found), asked.page, common.pages(asked, len(found)))


def topic(reader: Reader, asked: Asked) -> TopicAnswer:
    """The view at this moment. Raises UsageError if no topic is named, or several clusters have it."""
    if asked.topic is None:
        raise UsageError("no topic is named: say cluster and topic in the URL, or search for one")
    refuse_unknown(reader.snapshot(), asked.wanted)
    asked = replace(asked, partition=None, q="")
    lines = topic_lines(reader, asked)
    if len(lines) != 1:
        names = ", ".join(line.cluster for line in lines[:8]) or "none yet"
        raise UsageError(f"{asked.topic} is a topic of one cluster: add cluster=, one of {names}")
    line = lines[0]
    asked = replace(asked, cluster=line.cluster)
    with timed(asked, "partitions"):
        each = "ORDER BY partition" if line.partitions <= CELLS else "LIMIT 0"
        cells = standings(reader, asked, "partition, condition, unknown", tail=each)
        unwell = standings(reader, asked, "*", "rank < 4 OR unknown", f"{WORST_FIRST} LIMIT {WORST}")
        shape = "cardinality(ar) AS replicas, min_isr"
        shapes = standings(reader, asked, shape, tail="GROUP BY cardinality(ar), min_isr")
    wanted, view = common.period(reader, asked), VIEWS["serious"]
    lost = f"SELECT * FROM ({view.select(wanted)}) ORDER BY {view.first} LIMIT {LINES}"
    kinds = [kind for kind in KINDS if kind.name in CHANGES]
    with timed(asked, "timeline"):
        changed = reader.answer(("changed", asked), lambda lake: timeline(lake, wanted, LINES, kinds, newest=True))
    told = incident_rows(reader, asked, f"array_has(topics, {text(line.topic)})")
    said, record = verdicts(reader, asked), surveyed(reader, asked).records[0]
    begun = [row["first_ts"] for row in told if row["state"] != "ended" and line.unwell]
    begun += [record.cut_off] if record.cut_off and line.state == State.UNKNOWN.value else []
    return TopicAnswer(
        sentences_of(said), line.cluster, line, records_field(record, said[0]),
        min(begun, default=None),
        next((row["groups"] for row in told if row["groups"] is not None), None),
        _several(shapes, "replicas"), _several(shapes, "min_isr"),
        [(row["partition"], row["state"]) for row in cells], unwell,
        [
            LossLine(row["cluster"], row["topic"], row["partition"], sentences.regression(row).split(": ", 1)[1])
            for row in rows(reader, hw_regressions.TABLE, lost)
        ],
        [one for one in changed.lines[::-1] if one.kind in CHANGES], common.period_words(reader, asked),
        common.alike([row | {"sentence": sentences.partition(row)} for row in unwell]),
        open_cards(told, reader),
    )  # fmt: skip


def _several(found: Sequence[Row], name: str) -> list[int]:
    return sorted({row[name] for row in found if row[name] is not None})
