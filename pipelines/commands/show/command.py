"""`hwmark show`: the verdicts on a lake's clusters and one view of it, as text, or the view alone as data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pipelines.alerting.owners import Owners
from pipelines.commands.show import brokers, happened, loss, tables
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, newest, presents, rows, tally
from pipelines.printable import printable
from pipelines.verdict import Limits, lines, sentences, verdict
from pipelines.verdict.collect import Survey, survey
from pipelines.verdict.judged import ended
from pipelines.verdict.known import refuse_unknown, refuse_unwritten
from pipelines.verdict.losses import NOT_EXCLUDED, unjudged
from pipelines.verdict.one_away import one_failure_away
from pipelines.verdict.since import Since, starts
from pipelines.verdict.words import clock

VERDICT = ("cluster", "scope", "part", "state", "text")
"""The columns of a verdict as data."""

_WHERE = "ts cluster topic_partition "

COLUMNS = {
    "hw": _WHERE + "leader_id leader_epoch kind hw reported_hw leader_leo isr holding_replicas agreement",
    "isr": _WHERE + "leader_id partition_epoch change isr_before isr_after cause witness commit_ms under_min_isr",
    "sync": _WHERE + "replica_id previous_state state in_isr leo leader_leo lag_records lag_ms reason",
    "alerts": "last_ts alert_id cluster state severity rule subject first_ts summary",
    "incidents": "last_ts incident_id cluster state planned_until severity first_ts returns summary",
}
"""What the table of a view shows; JSON and CSV carry every column."""


@dataclass(frozen=True)
class Question:
    """A question to a lake: the view, the filter of rows, the limit and the output format."""

    view: str
    wanted: Filter
    limits: Limits
    since: Since = None
    limit: int = 30
    format: str = "table"
    loss_id: str | None = None
    broker: int | None = None
    owners: Owners = field(default_factory=dict)


def show(lake: Lake, asked: Question, now: datetime) -> str:
    """The answer as text; `now` is the wall clock. Raises UsageError for what the lake does not know."""
    if asked.format != "table" and asked.view != "verdict":
        return _data(lake, asked)
    seen = survey(lake, asked.wanted, asked.limits.since, asked.limits, now)
    if not seen.records:
        refuse_unknown(lake, asked.wanted)
    known = lines(verdict(record, asked.limits, now) for record in seen.records)
    if asked.format == "table":
        found = list(_view(seen, asked))
        return "\n".join([*map(str, known), *found]) or f"{lake.root} holds no events yet."
    fields = ((line.cluster, line.scope, line.part, line.state.value, line.text) for line in known)
    values = [dict(zip(VERDICT, each, strict=True)) for each in fields]
    return tables.as_json(values) if asked.format == "json" else tables.as_csv(values, VERDICT)


def _data(lake: Lake, asked: Question) -> str:
    if asked.view in brokers.COLUMNS:
        return _as(asked, *brokers.data(lake, asked.view, asked.wanted, asked.limit))
    if asked.view == "timeline":
        return _as(asked, happened.data(lake, _since(lake, asked), asked.limit, asked.broker), happened.COLUMNS)
    if asked.view == "loss":
        refuse_unwritten(lake, VIEWS["serious"])
        return _as(asked, loss.data(lake, _since(lake, asked), asked.loss_id), loss.COLUMNS)
    refuse_unwritten(lake, VIEWS[asked.view])
    found, _ = rows(lake, asked.view, _since(lake, asked), asked.limit)
    if not found:
        refuse_unknown(lake, asked.wanted)
    return _as(asked, found, [column.name for column in VIEWS[asked.view].table.columns])


def _as(asked: Question, found: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    return tables.as_json(found) if asked.format == "json" else tables.as_csv(found, columns)


def _since(lake: Lake, asked: Question) -> Filter:
    return replace(asked.wanted, since=starts(asked.since, presents(lake)) if asked.since else None)


def _view(seen: Survey, asked: Question) -> Iterator[str]:
    if asked.view == "health":
        return map(printable, _health(seen, asked))
    if asked.view == "regressions":
        return map(printable, _regressions(seen, asked))
    if asked.view == "timeline":
        return happened.table(seen.lake, seen.wanted, asked.limit, asked.broker)
    if asked.view == "loss":
        refuse_unwritten(seen.lake, VIEWS["serious"])
        return map(printable, loss.lines(seen.lake, seen.wanted, asked.loss_id, asked.limit, asked.owners))
    if asked.view in brokers.COLUMNS:
        return brokers.table(seen.lake, asked.view, asked.wanted, asked.limit)
    return iter(()) if asked.view == "verdict" else _table(seen.lake, asked)


def _health(seen: Survey, asked: Question) -> Iterator[str]:
    """The partitions in trouble; of a topic that is asked for, all."""
    found, matching = seen.partitions(asked.limit, sound=asked.wanted.topic is not None)
    if not found:
        refuse_unknown(seen.lake, asked.wanted)
    over = {record.cluster for record in seen.records if ended(record)}
    yield from (sentences.partition(row, ended=row["cluster"] in over) for row in found)
    yield from _more(matching - len(found), matching)
    yield from _one_away(seen, over)


def _one_away(seen: Survey, over: Collection[str]) -> Iterator[str]:
    """The line about partitions that are one failure away, for each cluster that has not ended."""
    counts = seen.one_failure_away()
    if counts is None:
        yield "one failure away: not yet: written by the next `hwmark run`"
        return
    for record in seen.records:
        if record.cluster not in over and record.cluster in counts:
            yield f"{record.cluster}{record.scope}: {one_failure_away(counts[record.cluster])}"


def _regressions(seen: Survey, asked: Question) -> Iterator[str]:
    """One sentence for each loss or possible loss, then what was not judged; harmless falls are counted."""
    found, matching = rows(seen.lake, "serious", seen.wanted, asked.limit)
    if not found:
        refuse_unknown(seen.lake, asked.wanted)
    yield from sentences.harmless(tally(seen.lake, "harmless", seen.wanted, "class"))
    yield from map(sentences.regression, found)
    yield from _more(matching - len(found), matching)
    for record in seen.records:
        open_ = [group for group in record.falls if group.name == NOT_EXCLUDED]
        yield from (f"{record.cluster}{record.scope}: loss not excluded: {unjudged(group)}" for group in open_)
    _, ever = rows(seen.lake, "serious", replace(seen.wanted, since=None), 1)
    if ever > matching:
        yield f"({ever - matching} older; --since all shows them)"


def _table(lake: Lake, asked: Question) -> Iterator[str]:
    refuse_unwritten(lake, VIEWS[asked.view])
    wanted = _since(lake, asked)
    found, matching = rows(lake, asked.view, wanted, asked.limit)
    if not found:
        refuse_unknown(lake, asked.wanted)
        yield _nothing(lake, asked, wanted)
        return
    yield tables.as_table(found, COLUMNS[asked.view].split())
    yield from _more(matching - len(found), matching)


def _more(left: int, matching: int) -> Iterator[str]:
    if left > 0:
        yield f"({left} more; --limit {matching} shows all)"


def _nothing(lake: Lake, asked: Question, wanted: Filter) -> str:
    last = newest(lake, asked.view, wanted) if asked.since else None
    if last is None:
        return f"{lake.root} has no such row in {VIEWS[asked.view].table.path}."
    since = clock(wanted.since) if isinstance(wanted.since, datetime) else "then"
    return f"Nothing since {since}; the newest row is of {clock(last)}."
