"""The common parts of all views: the requested verdict, and rows for JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pipelines.lake.queries import Filter, Row, View, select_rows, text
from pipelines.verdict import Condition, Limits, Line, State, Verdict, judged, verdict
from pipelines.verdict.collect import Survey, survey
from pipelines.verdict.disk_findings import standing_findings
from pipelines.verdict.known import refuse_unknown
from pipelines.verdict.present import STATES
from pipelines.verdict.words import brokers, clock, listed, span
from pipelines.web.asked import SINCE, Asked
from pipelines.web.snapshot import Reader
from schemas import audits, partition_health
from schemas.declaration import Table


@dataclass(frozen=True)
class Sentence:
    """One line of a verdict."""

    cluster: str
    scope: str
    part: str
    state: str
    text: str

    def __str__(self) -> str:
        return f"{self.cluster}{self.scope}: {self.text}"


@contextmanager
def timed(asked: Asked, name: str) -> Iterator[None]:
    """Add how many milliseconds a part of an answer took to the response's Server-Timing header."""
    begun = time.perf_counter()
    yield
    asked.timings[name] = asked.timings.get(name, 0) + (time.perf_counter() - begun) * 1000


def surveyed(reader: Reader, asked: Asked) -> Survey:
    """The requested survey. Raises UnknownNameError for names that the lake does not know.

    Only silent sources, and brokers that had not answered when the lake was read, depend on the wall clock, so the
    result is kept while those stay the same.
    """
    wanted, period = asked.wanted, asked.period
    limits = replace(reader.limits, since=period)

    def silent(found: Survey) -> Sequence[Any]:
        both = judged.silent, judged.unanswered
        return [each(record, limits, reader.as_of) for record in found.records for each in both]

    def compute(lake: Any) -> tuple[Survey, Sequence[Any]]:
        found = survey(lake, wanted, period, limits, reader.as_of)
        if not found.records:
            refuse_unknown(lake, wanted)
        return found, silent(found)

    with timed(asked, "verdict"):
        reader.snapshot()
        return reader.answer(
            ("survey", asked.cluster, asked.topic, asked.partition, asked.since),
            compute,
            lambda kept: silent(kept[0]) == kept[1],
        )[0]


def verdicts(reader: Reader, asked: Asked) -> list[Verdict]:
    """The verdicts on what is asked for at this moment, the worst first."""
    limits: Limits = replace(reader.limits, since=asked.period)
    found = surveyed(reader, asked)
    made = [verdict(record, limits, reader.now()) for record in found.records]
    return sorted(made, key=lambda one: (one.state.rank, one.cluster))


def period(reader: Reader, asked: Asked) -> Filter:
    """The rows wanted, with beginning and end of the time asked for as moments."""
    wanted = surveyed(reader, asked).wanted
    since = wanted.since
    moment = since if since is None or isinstance(since, datetime) else since.get(asked.cluster or "")
    return replace(wanted, since=moment, until=asked.until_ts)


def bounds(reader: Reader, asked: Asked, *, to_now: bool = True) -> tuple[datetime, datetime] | None:
    """Beginning and end of the time that is shown of one cluster; None if nothing is judged in it.

    It ends `to_now`, so that what is missing since then shows, but where all was judged longer ago than it is long.
    """
    record, wanted = surveyed(reader, asked).records[0], period(reader, asked)
    until, begun = wanted.until or record.judged_to, record.judged_from
    given = wanted.since if isinstance(wanted.since, datetime) else None
    since = max((ts for ts in (given, begun) if ts), default=None)
    if since is None or until is None or since >= until:
        return None
    now = reader.now() if to_now and not (wanted.until or judged.ended(record)) else until
    return since, now if until < now < until + (until - since) else until


def period_words(reader: Reader, asked: Asked) -> str:
    """The time asked for in words, `24 h`, or from when on; if only a part of it is judged, how long that is."""
    given = "24 h" if asked.since == SINCE else asked.since
    begun = period(reader, asked).since
    if asked.until or not isinstance(asked.period, timedelta):
        return f"since {clock(begun)}" if isinstance(begun, datetime) else given
    within = bounds(reader, asked, to_now=False)
    if within is None:
        return given
    length = within[1] - within[0]
    return span(length) if length < asked.period - timedelta(minutes=1) else given


def sentence(line: Line) -> Sentence:
    return Sentence(line.cluster, line.scope, line.part, line.state.value, line.text)


def sentences_of(found: Sequence[Verdict]) -> list[Sentence]:
    return [sentence(line) for one in found for line in one.lines]


def rows(reader: Reader, table: Table, sql: str) -> list[Row]:
    """Rows of a query to a table of the snapshot, none where it was never written; maps are objects."""
    return reader.answer(("rows", table.path, sql), lambda lake: [plain(row) for row in select_rows(lake, table, sql)])


def audit_findings(reader: Reader, cluster: str, where: str) -> list[Row]:
    """Findings of audits of disks on these partitions or brokers that still stand."""
    found = standing_findings(f"cluster = {text(cluster)} AND {where}")
    return rows(reader, audits.TABLE, f"{found} ORDER BY severity, topic, partition LIMIT 30")


RANGES = 12
PLACE = "cluster, topic, partition"
RANKED = "ORDER BY CASE WHEN unknown THEN 1.5 ELSE rank END"
WORST_FIRST = f"{RANKED}, {PLACE}"


def standings(reader: Reader, asked: Asked, select: str, where: str = "true", tail: str = "") -> list[Row]:
    """A query over the partitions asked for, with `condition`, `rank`, `who` and `unknown` of each.

    Rows that have the condition have its `state`, too, in the word for that of a cluster.
    """
    seen = surveyed(reader, replace(asked, topic=None, partition=None, timings={}))
    place = asked.wanted.where(View(partition_health.TABLE, "last_event_ts", ""))
    sql = f"SELECT {select} FROM ({seen.standing(place)}) WHERE {where} {tail}"
    return [row | {"state": _state(row)} for row in rows(reader, partition_health.TABLE, sql)]


def _state(row: Row) -> str | None:
    if "condition" not in row:
        return None
    return (State.UNKNOWN if row["unknown"] else STATES.get(Condition[row["condition"]], State.OK)).value


@dataclass(frozen=True)
class Alike:
    """Partitions of one topic in the same state for the same reason (`why`); `row` is the row of the first."""

    state: str
    row: Row
    numbers: Sequence[int]
    why: str

    @property
    def ranges(self) -> str:
        """`0, 2, 4..47`."""
        found: list[list[int]] = []
        for number in self.numbers:
            if found and number == found[-1][-1] + 1:
                found[-1].append(number)
            else:
                found.append([number])
        said = [f"{one[0]}..{one[-1]}" if len(one) > 2 else ", ".join(map(str, one)) for one in found]
        return listed(said, RANGES)


def alike(found: Sequence[Row]) -> list[Alike]:
    """Group rows of `standings` with the same topic, state and reason, in their order."""
    together: dict[tuple[str, ...], list[Row]] = {}
    for row in found:
        together.setdefault((row["cluster"], row["topic"], row["state"], _why(row)), []).append(row)
    return [
        Alike(state, each[0], sorted(row["partition"] for row in each), why)
        for (_, _, state, why), each in together.items()
    ]


def _why(row: Row) -> str:
    if row["unknown"]:
        return ""
    if row["condition"] == Condition.HELD_BACK.name:
        return f"by {brokers(map(int, row['who'].split(',')))}" if row["who"] else ""
    return f"without {brokers(row['osr'])} in the ISR" if row["osr"] else ""


T = TypeVar("T")


def page(asked: Asked, found: Sequence[T]) -> Sequence[T]:
    """The page that is asked for."""
    return found[(asked.page - 1) * asked.limit : asked.page * asked.limit]


def pages(asked: Asked, matching: int) -> int:
    """The number of pages, one at least."""
    return max(1, -(-matching // asked.limit))


def plain(row: Row) -> Row:
    """A row as JSON has it: maps are objects, and a number that is none is unknown."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list) and value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
        return dict(value)
    return value
