"""The overview: the verdict on each cluster, incidents, who holds back whom, and how fresh every source is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.lake.queries import Row
from pipelines.verdict import Verdict, judged, sentences
from pipelines.verdict.one_away import one_failure_away
from pipelines.verdict.words import level
from pipelines.web.answers.common import (
    Sentence,
    plain,
    sentence,
    sentences_of,
    surveyed,
    timed,
    verdicts,
)
from pipelines.web.answers.incidents import FEW, Incident, open_incidents
from pipelines.web.answers.matrix import Matrix, matrices
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader

SOURCES = 40
"""Of several clusters; of one ten times as many."""


@dataclass(frozen=True)
class ClusterLine:
    """One cluster: its worst state and the sentence that says it; the state of one that has ended is history."""

    cluster: str
    state: str
    ended: bool
    sentence: str
    lines: Sequence[Sentence]


@dataclass(frozen=True)
class SourceLine:
    """Up to when a source has reported everything, on the brokers' clocks; its age is by the wall clock."""

    cluster: str
    source_id: str
    broker_id: int
    reported_to: datetime
    age_s: float
    silent: bool
    level: int | None
    level_words: str


@dataclass(frozen=True)
class Overview:
    """The whole view; `cluster` is the one that incidents, matrix and sources are of, None: of all."""

    lake: str
    read_at: datetime
    cluster: str | None
    clusters: Sequence[ClusterLine]
    matching: int
    page: int
    pages: int
    one_failure_away: str | None
    incidents: Sequence[Incident]
    more_incidents: int
    last_incident: Row | None
    matrices: Sequence[Matrix]
    partitions: Sequence[Row]
    more_partitions: int
    sources: Sequence[SourceLine]
    more_sources: int


def overview(reader: Reader, asked: Asked) -> Overview:
    """The view at this moment."""
    found = verdicts(reader, asked)
    named = [one for one in found if asked.q.lower() in one.cluster.lower()]
    pages = max(1, -(-len(named) // asked.limit))
    shown = named[(asked.page - 1) * asked.limit : asked.page * asked.limit]
    if asked.cluster is None and len(found) == 1:
        asked = replace(asked, cluster=found[0].cluster)
    with timed(asked, "incidents"):
        wrong = open_incidents(reader, asked)
    with timed(asked, "matrix"):
        held = matrices(reader, asked) if asked.cluster is not None else []
    with timed(asked, "partitions"):
        worst, matching = _worst(reader, asked)
    with timed(asked, "sources"):
        sources = _sources(reader, asked)
    shown_sources = SOURCES if asked.cluster is None else 10 * SOURCES
    return Overview(
        lake=reader.lake.root,
        read_at=reader.now(),
        cluster=asked.cluster,
        clusters=[_line(one) for one in shown],
        matching=len(named),
        page=asked.page,
        pages=pages,
        one_failure_away=_one_away(reader, asked),
        incidents=wrong.shown,
        more_incidents=wrong.more,
        last_incident=wrong.last,
        matrices=held,
        partitions=worst,
        more_partitions=matching - len(worst),
        sources=sources[:shown_sources],
        more_sources=max(0, len(sources) - shown_sources),
    )


def all_sentences(reader: Reader, asked: Asked) -> list[Sentence]:
    """Every sentence of the verdicts on what is asked for."""
    return sentences_of(verdicts(reader, asked))


def _line(one: Verdict) -> ClusterLine:
    lines = [sentence(line) for line in one.lines]
    return ClusterLine(one.cluster, one.state.value, one.judged.ended, str(one.lines[0]), lines)


def _one_away(reader: Reader, asked: Asked) -> str | None:
    """What is one failure away, in words; None of several clusters, of one that has ended, and of one never judged."""
    seen = surveyed(reader, asked)
    if asked.cluster is None or any(judged.ended(record) or not record.partitions for record in seen.records):
        return None
    key = ("one away", asked.cluster, asked.topic, asked.partition, seen.quiet)
    counts = reader.answer(key, lambda _: seen.one_failure_away())
    if counts is None:
        return "one failure away: not yet: written by the next `hwmark run`"
    return one_failure_away(counts[asked.cluster]) if asked.cluster in counts else None


def _worst(reader: Reader, asked: Asked) -> tuple[list[Row], int]:
    """The partitions in trouble, the worst first, and how many there are; of clusters that have ended none."""
    seen = surveyed(reader, asked)
    key = ("worst", asked.cluster, asked.topic, asked.partition, seen.quiet)
    found, matching = reader.answer(key, lambda _: seen.partitions(FEW, sound=False))
    return [plain(row) | {"sentence": sentences.partition(row)} for row in found], matching


def _sources(reader: Reader, asked: Asked) -> list[SourceLine]:
    """Every source, the silent ones first, then the one that has reported least far."""
    now, found = reader.now(), []
    for record in surveyed(reader, asked).records:
        quiet = judged.silent(record, reader.limits, now)
        for one in record.sources:
            age = (now - one.reported_to).total_seconds()
            line = (
                record.cluster,
                one.source_id,
                one.broker_id,
                one.reported_to,
                age,
                one in quiet,
                one.level,
                level(one.level),
            )
            found.append(SourceLine(*line))
    return sorted(found, key=lambda line: (not line.silent, line.reported_to, line.cluster, line.source_id))
