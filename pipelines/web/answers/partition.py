"""One partition: how it stands, its replicas, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pipelines.charts.partition import partition_chart
from pipelines.charts.style import Spec
from pipelines.errors import UsageError
from pipelines.lake.queries import VIEWS, Row, text
from pipelines.timeline.happenings import LEADERLESS, LED, SILVER, Timeline, timeline
from pipelines.timeline.line import Happening
from pipelines.timeline.offsets import Point
from pipelines.timeline.partition import PartitionPast, partition_past
from pipelines.verdict import Condition, Unheard, judged, sentences
from pipelines.verdict.words import brokers
from pipelines.web.answers.common import (
    Sentence,
    audit_findings,
    bounds,
    period,
    rows,
    sentences_of,
    standings,
    surveyed,
    timed,
    verdicts,
)
from pipelines.web.answers.incidents import Card, incident_rows, open_cards, state_of
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import hw_regressions
from schemas.partition_health import is_one_of

LINES, FEW = 100, 5
RECENT = timedelta(seconds=60)
"""An end that is older says nothing of now, unless the leader's is the same."""


@dataclass(frozen=True)
class Replica:
    """One replica of the partition; `behind` is in offsets below the leader, None if its LEO of now is not known.

    `leo_ts`: the time of its last LEO; `unheard`: since when its broker does not answer.
    """

    broker_id: int
    leads: bool
    in_isr: bool | None
    out_of_sync: bool | None
    holds_back: bool
    leo: int | None
    leo_ts: datetime | None
    behind: int | None
    unheard: datetime | None


@dataclass(frozen=True)
class Lost:
    """A loss, proven or not: its state and sentence, and which of its offsets other records have now."""

    state: str
    text: str
    again: str


@dataclass(frozen=True)
class PartitionAnswer:
    """The whole view; `read_by`: the groups that read it, None if nobody asked; `opened`: open incidents about it."""

    cluster: str
    topic: str
    partition: int
    verdict: Sequence[Sentence]
    sentence: str
    state: str
    state_since: datetime | None
    lost: Sequence[Lost]
    read_by: str | None
    opened: Sequence[Card]
    row: Mapping[str, Any]
    held_by: str
    replicas: Sequence[Replica]
    lines: Sequence[Happening]
    left_out: int
    audits: Sequence[Row]


def partition(reader: Reader, asked: Asked) -> PartitionAnswer:
    """The view at this moment. Raises UsageError where no partition is named, UnknownNameError where none is known."""
    cluster, topic, number = _place(reader, asked)
    asked = replace(asked, cluster=cluster)
    said = verdicts(reader, asked)
    row = standings(reader, asked, "*")[0]
    record = surveyed(reader, asked).records[0]
    over = judged.ended(record)
    with timed(asked, "incidents"):
        told = incident_rows(reader, asked, f"array_has(topics, {text(topic)})")
    name, well = f"{topic}-{number}", row["rank"] > 3 and not row["unknown"]
    with timed(asked, "offsets"):
        past = past_of(reader, asked, row)
    with timed(asked, "timeline"):
        found = _timeline(reader, asked)
    return PartitionAnswer(
        cluster, topic, number, sentences_of(said), sentences.partition(row, ended=over),
        "ended" if over else row["state"], _since(past, row), _lost(reader, asked, row),
        next((one["readers"][name] or "nobody" for one in told if name in (one.get("readers") or ())), None),
        open_cards((one for one in told if name in one["partitions"] or not well), reader), row, _held_by(row),
        _replicas(row, {point.series: point for point in past.points} if past else {}, record.unheard),
        found.lines, found.left_out, audit_findings(reader, cluster, f"topic = {text(topic)} AND partition = {number}"),
    )  # fmt: skip


def _since(past: PartitionPast | None, row: Row) -> datetime | None:
    """The beginning of its being offline, under min ISR or without a replica, as far as the time asked for shows it."""
    if past is None or row["unknown"]:
        return None
    if row["rank"] < 2:
        return max((one.since for one in past.states if one.until == past.until), default=None)
    left = {one.replica_id: one.until for one in past.stretches if one.until < past.until}
    outside = [left[one] for one in row["osr"] or () if one in left]
    return max(outside) if row["condition"] == Condition.UNDER_REPLICATED.name and outside else None


def _lost(reader: Reader, asked: Asked, row: Row) -> list[Lost]:
    """Its losses within the time asked for, proven or not."""
    view = VIEWS["serious"]
    sql = f"SELECT * FROM ({view.select(period(reader, asked))}) ORDER BY {view.first} LIMIT {FEW}"
    return [
        Lost(state_of("loss" if one["severity"] == "critical" else "unproven_loss"), sentences.regression(one), again)
        for one in rows(reader, hw_regressions.TABLE, sql)
        for again in [_again(one, row["leader_leo"])]
    ]


def _again(loss: Row, end: int | None) -> str:
    """The sentence about lost offsets that were given out again: the log ends above the first; empty if none were."""
    first, last = loss["lost_from"], min(end or 0, loss["lost_to"] or 0) - 1
    return (
        "" if first is None or last < first else f"Offsets {first}..{last} are given out again: other records have them"
    )


def _held_by(row: Row) -> str:
    """The replicas that hold the HW, if that is known: it is their end."""
    holders = row["holding_replicas"] or ()
    if not holders or None in (row["hw"], row["leader_leo"]) or row["hw"] >= row["leader_leo"]:
        return "at the log end" if row["hw"] is not None and row["hw"] == row["leader_leo"] else ""
    return f"held by {'one of ' if is_one_of(row) else ''}{brokers(holders)}"


def chart(reader: Reader, asked: Asked) -> Spec | None:
    """Its offsets and ISR as Vega-Lite; None where nothing was reported in the time asked for."""
    cluster, _, _ = _place(reader, asked)
    asked = replace(asked, cluster=cluster)
    past = past_of(reader, asked, standings(reader, asked, "*")[0])
    within = bounds(reader, asked)
    return (
        None
        if past is None
        else reader.answer(("chart", asked), lambda _: partition_chart(past, pointer=True, until=within and within[1]))
    )


def past_of(reader: Reader, asked: Asked, row: Row) -> PartitionPast | None:
    """Its past within the time asked for, to where it was last reported; None if nothing is known of it."""
    told_to = None if asked.until else row["last_event_ts"]
    return reader.answer(("past", asked), lambda lake: partition_past(lake, period(reader, asked), told_to))


def _timeline(reader: Reader, asked: Asked) -> Timeline:
    kinds = (*SILVER, LEADERLESS, LED)
    return reader.answer(("timeline", asked), lambda lake: timeline(lake, period(reader, asked), LINES, kinds))


def _place(reader: Reader, asked: Asked) -> tuple[str, str, int]:
    """The partition that is asked for; the cluster may be left out where one alone has it."""
    if asked.topic is None or asked.partition is None:
        raise UsageError("no partition is named: say cluster, topic and partition in the URL, or search for one")
    found = [record.cluster for record in surveyed(reader, asked).records if record.partitions]
    if len(found) > 1:
        raise UsageError(f"{asked.topic}-{asked.partition} is in several clusters: add cluster= {', '.join(found[:8])}")
    if not found:
        raise UsageError(f"{asked.topic}-{asked.partition} was never reported on")
    return found[0], asked.topic, asked.partition


def _replicas(row: Row, last: Mapping[str, Point], unheard: Mapping[int, Unheard]) -> list[Replica]:
    """Every assigned replica, the leader first; the leader's LEO is the one that the HW was computed with."""
    ordered = sorted(row["ar"] or (), key=lambda broker: (broker != row["leader_id"], broker))
    return [_replica(row, broker, last.get(f"broker {broker}"), unheard.get(broker)) for broker in ordered]


def _replica(row: Row, broker: int, point: Point | None, unheard: Unheard | None) -> Replica:
    """A replica; the HW is held back by those known to: of several at level 1 one does, and nobody knows which."""
    leads, end, holders = broker == row["leader_id"], row["leader_leo"], row["holding_replicas"] or ()
    leo = end if leads else point.offset if point else None
    fresh = leads or (point is not None and (leo == end or (row["last_event_ts"] - point.ts <= RECENT and not unheard)))
    return Replica(
        broker, leads, None if row["isr"] is None else broker in row["isr"],
        None if row["out_of_sync"] is None or unheard else broker in row["out_of_sync"],
        (row["stalled_ms"] or 0) > 0 and not is_one_of(row) and broker in holders,
        leo, None if leads or not point else point.ts, max(0, end - leo) if fresh and None not in (leo, end) else None,
        unheard.since if unheard else None,
    )  # fmt: skip
