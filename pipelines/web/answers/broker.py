"""Brokers as a list, and one broker: its state, its history, what it leads and follows, and whom it holds back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipelines.alerting.lookup import read_downtimes
from pipelines.charts.counts import Panel, Value, counts_chart
from pipelines.charts.steps import step_path
from pipelines.charts.style import Spec
from pipelines.errors import UsageError
from pipelines.lake.queries import VIEWS, Filter, Row, View, instant, text
from pipelines.timeline.happenings import EVENTS, KINDS, Timeline, timeline
from pipelines.verdict import judged, sentences
from pipelines.verdict.known import UnknownNameError
from pipelines.web.answers import common
from pipelines.web.answers.brokers import STATES, Tile, broker_rows, tile
from pipelines.web.answers.common import WORST_FIRST, Sentence, rows, sentences_of, standings, surveyed, timed, verdicts
from pipelines.web.answers.incidents import Card, incident_rows, open_cards
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import broker_lag, broker_minute, isr_changes, partition_hw, replication_events
from schemas.declaration import Table
from schemas.levels import POLLED

WORST, LINES = 100, 60
PIECES = 96
POINTS = 300
"""Minutes or intervals that a chart shows; more are thinned to the worst of each piece."""


@dataclass(frozen=True)
class Brokers:
    """A page of brokers, those that do not answer first; `complete`: their racks and states are known."""

    verdict: Sequence[Sentence]
    brokers: Sequence[Row]
    matching: int
    page: int
    pages: int
    complete: bool


@dataclass(frozen=True)
class Stretch:
    """A state of a broker between two moments, as parts of 1000 of the time shown."""

    state: str
    words: str
    since: datetime
    left: int
    width: int


@dataclass(frozen=True)
class BrokerAnswer:
    """One broker: its state, its history within the time asked for, and what it leads or follows that is in trouble."""

    cluster: str
    broker: int
    verdict: Sequence[Sentence]
    row: Row
    tile: Tile
    complete: bool
    in_isr: int | None
    within: tuple[datetime, datetime] | None
    band: Sequence[Stretch]
    planned: Sequence[Stretch]
    left: Sequence[tuple[str, int, str]]
    lines: Timeline
    partitions: Sequence[Row]
    more_partitions: int
    audits: Sequence[Row]
    period: str
    alike: Sequence[common.Alike]
    opened: Sequence[Card]

    @property
    def pieces(self) -> float:
        """The length of the time shown in steps of `left`."""
        return (self.within[1] - self.within[0]) / _step(self.within) if self.within else PIECES


def broker_list(reader: Reader, asked: Asked) -> Brokers:
    """The view at this moment: brokers of the cluster asked for, or of all."""
    asked = replace(asked, topic=None, partition=None)
    said = sentences_of(verdicts(reader, asked))
    with timed(asked, "brokers"):
        found, complete = broker_rows(reader, asked)
    named = [row | {"tile": tile(row)} for row in found if asked.q in str(row["broker_id"])]
    named.sort(key=lambda row: (row["tile"].state == "ok", row["cluster"], row["broker_id"]))
    return Brokers(said, common.page(asked, named), len(named), asked.page, common.pages(asked, len(named)), complete)


def broker(reader: Reader, asked: Asked) -> BrokerAnswer:
    """The view at this moment. Raises UsageError if no broker is named, UnknownNameError if it is not known."""
    asked = _place(reader, asked)
    with timed(asked, "brokers"):
        found, complete = broker_rows(reader, asked)
    row = next((row for row in found if row["broker_id"] == asked.broker), None)
    if row is None:
        known = ", ".join(str(row["broker_id"]) for row in found[:8])
        raise UnknownNameError(f"cluster {asked.cluster} has no broker {asked.broker}; known: {known or 'none'}")
    with timed(asked, "partitions"):
        concerned, matching = _concerned(reader, asked)
    wanted = common.period(reader, asked)
    with timed(asked, "timeline"):
        lines = reader.answer(
            ("broker lines", asked), lambda lake: timeline(lake, wanted, LINES, KINDS, asked.broker, newest=True)
        )
    within = common.bounds(reader, asked)
    own, name = tile(row), asked.cluster or ""
    outside, unknown = row["outside_isr"], row.get("isr_unknown", 0)
    return BrokerAnswer(
        name, row["broker_id"], sentences_of(verdicts(reader, asked)), row, own, complete,
        None if unknown else row.get("replicas", row["led"] + row["followed"]) - outside, within,
        _band(reader, asked, within, own), _planned(reader, asked, within), _left(reader, asked, within),
        Timeline(lines.lines[::-1], lines.left_out), concerned, matching - len(concerned),
        common.audit_findings(reader, name, f"broker_id = {asked.broker}"), common.period_words(reader, asked),
        common.alike(concerned),
        open_cards(incident_rows(reader, asked, f"array_has(brokers, {asked.broker})"), reader),
    )  # fmt: skip


_STATE_KINDS = [kind for kind in EVENTS if kind.name == "broker"]


def _band(reader: Reader, asked: Asked, within: tuple[datetime, datetime] | None, now: Tile) -> list[Stretch]:
    """Its states one after another; before the first change, and after the last that was told, nothing is said."""
    if within is None:
        return []
    wanted = Filter(asked.cluster, until=asked.until_ts)
    found = reader.answer(
        ("band", wanted, asked.broker),
        lambda lake: timeline(lake, wanted, LINES, _STATE_KINDS, asked.broker, newest=True),
    )
    told = [(line.ts, line.text.partition(": ")[2]) for line in found.lines if line.kind == "broker"]
    states = [(ts, STATES.get(words.partition(":")[0].replace(" ", "_"))) for ts, words in told]
    changes = [(ts, *state) for ts, state in states if state]
    begun = changes[-1][0] if changes else now.since
    answered = f"cluster = {text(asked.cluster or '')} AND replica_id = {asked.broker} AND detail = 'answers'"
    first = rows(reader, replication_events.TABLE, f"SELECT min(ts) AS ts FROM t WHERE {answered}")
    if (
        changes and first and first[0]["ts"] and first[0]["ts"] < changes[0][0]
    ):  # what a watcher finds first is no change
        changes.insert(0, (first[0]["ts"], *STATES["answers"]))
    if begun and not asked.until:  # the last one is the present, as gold/brokers has it
        changes[-1:] = [(begun, now.state, now.words)]
    told_to = within[1] if now.state == "unknown" else surveyed(reader, asked).records[0].judged_to
    ends = [ts for ts, _, _ in changes[1:]] + [min(within[1], told_to or within[1])]
    each = zip(changes, ends, strict=False)
    return [_stretch(state, words, ts, end, within) for (ts, state, words), end in each if end > within[0]]


def _planned(reader: Reader, asked: Asked, within: tuple[datetime, datetime] | None) -> list[Stretch]:
    """The windows in which it may be away."""
    return [
        _stretch("planned", one.reason, one.begins, min(one.until, within[1]), within)
        for one in reader.answer("windows", read_downtimes)
        if within and one.cluster == asked.cluster and (one.brokers is None or asked.broker in one.brokers)
        if one.begins < within[1] and one.until > within[0]
    ]


def _stretch(state: str, words: str, since: datetime, until: datetime, within: tuple[datetime, datetime]) -> Stretch:
    left, right = (int(1000 * ((ts - within[0]) / (within[1] - within[0]))) for ts in (max(since, within[0]), until))
    return Stretch(state, words, since, left, max(2, right - left))


def _step(within: tuple[datetime, datetime]) -> timedelta:
    """A piece of the time: whole seconds, so that a query for the time up to now is asked once for many looks."""
    return timedelta(seconds=(within[1] - within[0]) // timedelta(seconds=1) // PIECES + 1)


def _left(reader: Reader, asked: Asked, within: tuple[datetime, datetime] | None) -> list[tuple[str, int, str]]:
    """ISRs left and terms begun in each of PIECES pieces of the time: name, most, path of SVG; none without a table."""
    if within is None:
        return []
    wanted = Filter(asked.cluster, since=within[0], until=asked.until_ts)
    step = _step(within)
    bin = f"date_bin(interval '{step // timedelta(seconds=1)} seconds', ts, {instant(within[0])})"
    lost = f"SELECT {bin} AS bin FROM ({VIEWS['isr'].select(wanted)}) WHERE array_has(removed, {asked.broker})"
    began = f"kind = 'term_start' AND leader_id = {asked.broker} AND {wanted.where(VIEWS['hw'])}"
    led = f"SELECT {bin} AS bin FROM t WHERE {began}"
    said = []
    for name, table, sql in (("ISRs left", isr_changes.TABLE, lost), ("began to lead", partition_hw.TABLE, led)):
        if not reader.snapshot().has_table(table):
            continue
        counts = rows(reader, table, f"SELECT bin, count(*) AS n FROM ({sql}) GROUP BY bin")
        of = {(row["bin"] - within[0]) // step: row["n"] for row in counts}
        values = [of.get(place, 0) for place in range(PIECES)]
        said.append((name, max(values), step_path(values, max(values))))
    return said


def chart(reader: Reader, asked: Asked) -> Spec | None:
    """Lags and counts of the broker over time; None if none are known. Raises UsageError if no broker is named."""
    asked = _place(reader, asked)
    panels = [
        _panel(reader, asked, "largest lag behind its leaders", "offsets", broker_lag.TABLE, "lag_records"),
        *(
            _panel(reader, asked, title, unit, broker_minute.TABLE, column)
            for title, unit, column in (
                ("largest lag of its followers, per minute", "offsets", "max_lag_records"),
                ("most under-replicated partitions that it leads, per minute", "partitions", "under_replicated_max"),
                ("append to HW as leader, p99 per minute", "ms", "append_to_hw_p99_ms"),
            )
        ),
    ]
    if not any(panel.values for panel in panels):
        return None
    within = common.bounds(reader, asked)
    return reader.answer(("broker chart", asked), lambda _: counts_chart(panels, within and within[1]))


def _place(reader: Reader, asked: Asked) -> Asked:
    """The question with the cluster of its broker, which may be left out where there is one."""
    asked = replace(asked, topic=None, partition=None)
    found = surveyed(reader, asked).records
    if asked.broker is None:
        raise UsageError("no broker is named: say cluster and broker in the URL; /brokers has them")
    if asked.cluster is None and len(found) != 1:
        names = ", ".join(record.cluster for record in found[:8]) or "none yet"
        raise UsageError(f"brokers are those of one cluster: add cluster=, one of {names}")
    return replace(asked, cluster=asked.cluster or found[0].cluster)


def _concerned(reader: Reader, asked: Asked) -> tuple[list[Row], int]:
    """The partitions in trouble that the broker leads or is the cause of, and all of its own that are unknown."""
    mine = f"leader_id = {asked.broker} OR array_has(string_to_array(who, ','), '{asked.broker}')"
    mine += f" OR (unknown AND array_has(ar, {asked.broker}))"
    where = f"(rank < 5 OR unknown) AND ({mine})"
    found = standings(reader, asked, "*, count(*) OVER () AS matching", where, f"{WORST_FIRST} LIMIT {WORST}")
    over = any(judged.ended(record) for record in surveyed(reader, asked).records)
    named = [row | {"sentence": sentences.partition(row, ended=over)} for row in found]
    return named, found[0]["matching"] if found else 0


def _panel(reader: Reader, asked: Asked, title: str, unit: str, table: Table, column: str) -> Panel:
    """The largest of each piece of the time asked for.

    What was sampled is anything from 0 to the most of three samples: the follower went on before its leader's.
    """
    minutes = table is broker_minute.TABLE
    time, low = ("minute", "NULL") if minutes else ("ts", f"CASE WHEN min(level) = {POLLED} THEN 0 END")
    within = common.period(reader, asked).where(View(table, time, ""))
    where = f"{within} AND {column} IS NOT NULL AND broker_id = {asked.broker}"
    found = rows(reader, table, f"SELECT min({time}) AS first, max({time}) AS last FROM t WHERE {where}")
    if not found or found[0]["first"] is None:
        return Panel(title, unit, ())
    step = max(1, int((found[0]["last"] - found[0]["first"]) / timedelta(milliseconds=1)) // POINTS)
    binned = f"date_bin(interval '{step} milliseconds', {time})"
    columns = f"min({time}) AS ts, max({time}) AS last, max({column}) AS most, {low} AS low"
    each = f"SELECT {columns} FROM t WHERE {where} GROUP BY {binned}"
    around = "max(most) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)"
    sql = f"SELECT ts, last, low, CASE WHEN low IS NULL THEN most ELSE {around} END AS most FROM ({each}) ORDER BY ts"
    found, name = rows(reader, table, sql), f"broker {asked.broker}"
    values = _intervals(found, name) if minutes else [Value(row["ts"], name, row["most"], row["low"]) for row in found]
    return Panel(title, unit, values, minutes)


def _intervals(found: Sequence[Row], name: str) -> list[Value]:
    """A value at the begin and at the end of the minutes of each row; minutes without a row have no line."""
    values: list[Value] = []
    for row in found:
        if values and row["ts"] > values[-1].ts:
            values.append(Value(values[-1].ts + (row["ts"] - values[-1].ts) / 2, name, None))
        if not values or row["ts"] > values[-1].ts:
            values.append(Value(row["ts"], name, row["most"]))
        values.append(Value(row["last"] + timedelta(minutes=1), name, row["most"]))
    return values
