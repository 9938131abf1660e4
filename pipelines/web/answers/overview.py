"""The overview: what is wrong now, since when, because of whom and what to do; of several clusters a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipelines.lake.queries import Filter
from pipelines.timeline.happenings import KINDS, Timeline, timeline
from pipelines.verdict import ClusterRecord, State, Verdict, judged
from pipelines.verdict.coverage import join
from pipelines.verdict.one_away import one_failure_away
from pipelines.verdict.records import Stretch
from pipelines.verdict.words import NAMED, count, level, levels
from pipelines.verdict.words import brokers as named
from pipelines.web.answers import brokers
from pipelines.web.answers.brokers import Rack
from pipelines.web.answers.common import (
    Sentence,
    bounds,
    page,
    pages,
    period_words,
    sentences_of,
    surveyed,
    timed,
    verdicts,
)
from pipelines.web.answers.incidents import Open, open_incidents
from pipelines.web.answers.present import ClusterLine, Count, cluster_line, counts, worst_first
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader

SOURCES = 400
LINES = 40
HOUR = timedelta(hours=1)
SAID = ("alert", "gate", "note", "downtime")
"""Kinds of lines that were said, beside those that happened."""


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
    """A page of the clusters that need somebody, and the names of the `sound`; of a lake of one all the rest."""

    lake: str
    read_at: datetime
    cluster: str | None
    clusters: Sequence[ClusterLine]
    sound: Sequence[str]
    matching: int
    page: int
    pages: int
    one_failure_away: str | None = None
    incidents: Open | None = None
    counts: Sequence[Count] = ()
    racks: Sequence[Rack] = ()
    quorum: str = ""
    quorum_since: datetime | None = None
    lines: Timeline | None = None
    kinds: Sequence[str] = ()
    sources: Sequence[SourceLine] = ()
    more_sources: int = 0
    level: str = ""
    coverage: Mapping[int, int] = field(default_factory=dict)
    """By broker, the per cent of the time shown in which starts of terms on it could be seen."""
    gaps: int = 0
    period: str = ""

    @property
    def brokers(self) -> int:
        """The number of brokers that are known."""
        return sum(len(rack.brokers) for rack in self.racks)

    @property
    def covered(self) -> str:
        """`95 % of the time covered on broker 2, more on the others`."""
        least = min(self.coverage.values(), default=None)
        if least is None:
            return "coverage not known"
        at = [broker for broker, share in self.coverage.items() if share == least]
        who = named(at) if len(at) <= NAMED else count(len(at), "broker")
        more = ", more on the others" if len(at) < len(self.coverage) else ""
        return f"{least} % of the time covered on {who}{more}"


def overview(reader: Reader, asked: Asked) -> Overview:
    """The view at this moment."""
    found, records = verdicts(reader, asked), surveyed(reader, asked).records
    by_name = {record.cluster: record for record in records}
    lines = worst_first(cluster_line(by_name[one.cluster], one) for one in found)
    lines = [line for line in lines if asked.q.lower() in line.cluster.lower()]
    if len(found) == 1 and (asked.cluster is not None or not asked.q):
        return _of_one(reader, replace(asked, cluster=found[0].cluster), records[0], found[0], lines[0])
    wrong = [line for line in lines if not line.sound]
    sound = [line.cluster for line in lines if line.sound]
    number = pages(asked, len(wrong))
    return Overview(
        reader.lake.root, reader.now(), None, page(asked, wrong), sound, len(lines), asked.page, number
    )  # fmt: skip


def all_sentences(reader: Reader, asked: Asked) -> list[Sentence]:
    """Every sentence of the verdicts on what is asked for."""
    return sentences_of(verdicts(reader, asked))


def _of_one(reader: Reader, asked: Asked, record: ClusterRecord, one: Verdict, line: ClusterLine) -> Overview:
    with timed(asked, "incidents"):
        wrong = open_incidents(reader, asked)
    with timed(asked, "counts"):
        six = counts(reader, record, one, asked.until_ts)
    with timed(asked, "brokers"):
        known, _ = brokers.broker_rows(reader, replace(asked, topic=None, partition=None))
    with timed(asked, "timeline"):
        happened = last_hour(reader, asked, record.judged_to)
    with timed(asked, "sources"):
        sources = source_lines(reader, record)
    quorum, quorum_since = brokers.quorum(known) if one.judged.state is State.OK else ("", None)
    return Overview(
        reader.lake.root, reader.now(), record.cluster, [line], [], 1, 1, 1, _one_away(reader, asked), wrong, six,
        brokers.racks(known), quorum, quorum_since, happened, sorted({kind.name for kind in KINDS} | {*SAID}),
        sources[:SOURCES], max(0, len(sources) - SOURCES), levels(record.levels), _coverage(reader, asked, record),
        record.gaps.get("gap", 0), period_words(reader, asked),
    )  # fmt: skip


def _coverage(reader: Reader, asked: Asked, record: ClusterRecord) -> dict[int, int]:
    within = bounds(reader, asked)
    if within is None or not record.terms:
        return {}
    return {broker: _share(record.terms.get(broker, ()), *within) for broker in sorted(record.replicas)}


def _share(stretches: Sequence[Stretch], since: datetime, until: datetime) -> int:
    """The per cent, rounded down, of a time that is in `stretches`; what `join` closes is no hole, at the ends too."""
    joined = join([(since, since), *stretches, (until, until)])
    covered = sum((max(min(end, until) - max(begun, since), timedelta(0)) for begun, end in joined), timedelta(0))
    return 100 * covered // (until - since)


def last_hour(reader: Reader, asked: Asked, present: datetime | None) -> Timeline:
    """The timeline of the hour before the present of a cluster, or the end of the time asked for.

    Incidents stand beside it: alerts are there only if they are asked for.
    """
    end = asked.until_ts or present
    if end is None:
        return Timeline(())
    wanted = Filter(asked.cluster, asked.topic, asked.partition, end - HOUR, asked.until_ts)
    kinds = [kind for kind in KINDS if asked.kind in (None, kind.name)]
    found = reader.answer(
        ("last hour", asked), lambda lake: timeline(lake, wanted, LINES, kinds, asked.broker, newest=True)
    )
    shown = [line for line in found.lines[::-1] if line.kind == asked.kind or not (asked.kind or line.kind == "alert")]
    return Timeline(tuple(shown), found.left_out)


def _one_away(reader: Reader, asked: Asked) -> str | None:
    """The sentence on one failure away; None of a cluster that has ended, and of one never judged."""
    seen = surveyed(reader, asked)
    if any(judged.ended(record) or not record.partitions for record in seen.records):
        return None
    key = ("one away", asked.cluster, asked.topic, asked.partition, seen.quiet)
    found = reader.answer(key, lambda _: seen.one_failure_away())
    if found is None:
        return "one failure away: not yet: written by the next `hwmark run`"
    return one_failure_away(found[asked.cluster or ""]) if asked.cluster in found else None


def source_lines(reader: Reader, record: ClusterRecord) -> list[SourceLine]:
    """Every source, the silent ones first, then the one that has reported least far."""
    now = reader.now()
    quiet = judged.silent(record, reader.limits, now)
    found = [
        SourceLine(
            record.cluster, one.source_id, one.broker_id, one.reported_to, (now - one.reported_to).total_seconds(),
            one in quiet, one.level, level(one.level),
        )
        for one in record.sources
    ]  # fmt: skip
    return sorted(found, key=lambda line: (not line.silent, line.reported_to, line.source_id))
