"""Topics, the worst first, and one topic: its partitions as cells, what was lost of it, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.errors import UsageError
from pipelines.lake.queries import VIEWS, Row, text
from pipelines.timeline.happenings import KINDS, Timeline, timeline
from pipelines.verdict import sentences
from pipelines.verdict.known import refuse_unknown
from pipelines.web.answers.common import Sentence, rows, sentences_of, standings, surveyed, timed, verdicts
from pipelines.web.answers.incidents import owner_names
from pipelines.web.answers.present import slug_of
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import hw_regressions

CELLS, WORST, LINES = 500, 100, 30


@dataclass(frozen=True)
class TopicLine:
    """One topic: its worst state, and how many of its partitions are not well."""

    cluster: str
    topic: str
    state: str
    unwell: int
    partitions: int
    lost: int
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
class TopicAnswer:
    """The whole view; `cells` have number and state of at most CELLS partitions, none of a topic with more."""

    verdict: Sequence[Sentence]
    cluster: str
    line: TopicLine
    counts: Sequence[tuple[str, int]]
    replicas: Sequence[int]
    min_isr: Sequence[int]
    cells: Sequence[tuple[int, str]]
    unwell: Sequence[Row]
    losses: Sequence[str]
    changed: Timeline


def topic_lines(reader: Reader, asked: Asked, found: str = "true") -> tuple[list[TopicLine], int]:
    """A page of topics, the worst first, and how many there are."""
    groups = standings(
        reader, asked, "cluster, topic, condition, unknown, rank, count(*) AS n", found,
        "GROUP BY cluster, topic, condition, unknown, rank",
    )  # fmt: skip
    of: dict[tuple[str, str], list[Row]] = {}
    for row in groups:
        of.setdefault((row["cluster"], row["topic"]), []).append(row)
    lost = _lost(reader, asked)
    ordered = sorted(of, key=lambda key: (min(map(_rank, of[key])), key not in lost, key))
    shown = ordered[(asked.page - 1) * asked.limit : asked.page * asked.limit]
    return [_line(reader, key, of[key], lost.get(key, 0)) for key in shown], len(ordered)


def _rank(row: Row) -> float:
    return 1.5 if row["unknown"] else min(row["rank"], 4)


def _line(reader: Reader, key: tuple[str, str], groups: Sequence[Row], lost: int) -> TopicLine:
    worst = min(groups, key=_rank)
    unwell, total = sum(row["n"] for row in groups if _rank(row) < 4), sum(row["n"] for row in groups)
    return TopicLine(
        *key, slug_of(worst["condition"], worst["unknown"]), unwell, total, lost, owner_names([key[1]], reader)
    )


def _lost(reader: Reader, asked: Asked) -> dict[tuple[str, str], int]:
    """Offsets lost within the time asked for, by topic."""
    wanted = replace(surveyed(reader, replace(asked, topic=None, partition=None)).wanted, until=asked.until_ts)
    latest = f"SELECT * FROM ({VIEWS['serious'].select(wanted)}) WHERE severity = 'critical'"
    sql = f"SELECT cluster, topic, sum(lost_records) AS n FROM ({latest}) GROUP BY cluster, topic"
    return {(row["cluster"], row["topic"]): row["n"] or 0 for row in rows(reader, hw_regressions.TABLE, sql)}


def topics(reader: Reader, asked: Asked) -> Topics:
    """The view at this moment."""
    said = sentences_of(verdicts(reader, asked))
    with timed(asked, "topics"):
        shown, total = topic_lines(
            reader, asked, f"strpos(lower(topic), {text(asked.q.lower())}) > 0" if asked.q else "true"
        )
    return Topics(said, shown, total, asked.page, max(1, -(-total // asked.limit)))


def topic(reader: Reader, asked: Asked) -> TopicAnswer:
    """The view at this moment. Raises UsageError if no topic is named, or several clusters have it."""
    if asked.topic is None:
        raise UsageError("no topic is named: say cluster and topic in the URL, or search for one")
    refuse_unknown(reader.snapshot(), asked.wanted)
    asked = replace(asked, partition=None, page=1)
    lines, _ = topic_lines(reader, asked)
    if len(lines) != 1:
        names = ", ".join(line.cluster for line in lines[:8])
        raise UsageError(
            f"{asked.topic} is in several clusters: add cluster= {names}"
            if lines
            else f"{asked.topic} was never reported on"
        )
    line = lines[0]
    asked = replace(asked, cluster=line.cluster)
    with timed(asked, "partitions"):
        cells = (
            standings(reader, asked, "partition, condition, unknown", "true", "ORDER BY partition")
            if line.partitions <= CELLS
            else []
        )
        unwell = standings(
            reader,
            asked,
            "*",
            "rank < 4 OR unknown",
            f"ORDER BY CASE WHEN unknown THEN 1.5 ELSE rank END, partition LIMIT {WORST}",
        )
        shape = standings(
            reader, asked, "cardinality(ar) AS replicas, min_isr", "true", "GROUP BY cardinality(ar), min_isr"
        )
        groups = standings(
            reader,
            asked,
            "condition, unknown, count(*) AS n",
            "true",
            "GROUP BY condition, unknown, rank ORDER BY rank",
        )
    counts: dict[str, int] = {}
    for row in groups:
        state = slug_of(row["condition"], row["unknown"])
        counts[state] = counts.get(state, 0) + row["n"]
    wanted = replace(surveyed(reader, asked).wanted, until=asked.until_ts)
    view = VIEWS["serious"]
    lost = f"SELECT * FROM ({view.select(wanted)}) ORDER BY {view.first} LIMIT {LINES}"
    kinds = [kind for kind in KINDS if kind.name in ("config", "topic")]
    with timed(asked, "timeline"):
        changed = reader.answer(("changed", asked), lambda lake: timeline(lake, wanted, LINES, kinds, newest=True))
    return TopicAnswer(
        sentences_of(verdicts(reader, asked)), line.cluster, line, list(counts.items()),
        _several(shape, "replicas"), _several(shape, "min_isr"),
        [(row["partition"], slug_of(row["condition"], row["unknown"])) for row in cells],
        [row | {"state": slug_of(row["condition"], row["unknown"])} for row in unwell],
        [sentences.regression(row) for row in rows(reader, hw_regressions.TABLE, lost)],
        Timeline(tuple(one for one in changed.lines[::-1] if one.kind in ("config", "topic")), changed.left_out),
    )  # fmt: skip


def _several(found: Sequence[Row], name: str) -> list[int]:
    """The values that are known of a column, each once."""
    return sorted({row[name] for row in found if row[name] is not None})
