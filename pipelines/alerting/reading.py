"""The evidence that a lake holds, read through `deltalake`: few columns, only the rows the rules look at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.alerting.behind import JOB_BEHIND, JobBehindSettings
from pipelines.alerting.conditions import SECOND, not_known_since
from pipelines.alerting.evidence import PARTS, SCHEMAS, Evidence, Part, evidence_of, in_microseconds
from pipelines.alerting.rules import RULES, AlertRules
from pipelines.alerting.silence import WATCHER_CUT_OFF
from pipelines.alerting.step import Step
from pipelines.lake.kept_rows import KeptRows
from pipelines.lake.lake import Lake
from pipelines.lake.queries import microseconds, moment, text
from pipelines.lake.records import damaged_records
from pipelines.streaming.checkpoint.offsets import interval
from pipelines.streaming.reconstruction import MARK, reconstruction
from pipelines.streaming.source.unread import Backlog, Bronze, bronze_of
from pipelines.streaming.unfinished import RECORD as REMOVAL
from pipelines.verdict.judged import REBUILT, blind_since, cut_off, told_by_logs
from pipelines.verdict.records import ClusterRecord, Limits
from pipelines.verdict.sources import Progress, clocks_ahead, progress, reports_of
from schemas import brokers, incidents, notes, replication_events
from schemas.event_types import QUORUM, by_watcher
from schemas.replication_events import WATCHER

if TYPE_CHECKING:
    from pyarrow.dataset import Expression

    from schemas.declaration import Table

T = TypeVar("T")
_log = logging.getLogger("hwmark.alerting")
MILLISECOND = timedelta(milliseconds=1)
OVER = timedelta(days=1)
"""A cluster that was closed, and of which nothing came for so long (wall clock), is not recorded any more."""
FROM_BRONZE = ("reported", "leaderships", "broker_states")
FROM_GOLD = ("minutes", "health", "brokers")
OF_OTHERS = ("deliveries",)
"""Evidence from tables that commands other than `run` write."""
OUT_OF_ORDER_MS = 7_200_000
"""Milliseconds by which a file may be older than one committed before it, by the clocks of their hosts."""
MADE_ANEW = ("regressions", "min_isr", "disagreements", "isr", "sync", "gaps", "health", "brokers")
"""Evidence that is incomplete while silver and gold are made anew."""

_KEPT: dict[tuple[str, str], KeptRows] = {}
"""Rows that this process has read, by lake and kind of evidence: it may evaluate every few seconds."""


@dataclass
class Reading:
    """The input of an evaluation, and `after`, the record for the next one.

    `clocks`: by cluster, the event time (microseconds) up to which facts are final. `blind`: by name of the evidence
    that could not be read, the reason. `kept_from`: by cluster, the event time of the oldest rows in silver.
    `handled`: the rows of `ops/notes` that end alerts. `alerts_of`: by id of an incident, its alerts. `rebuilt`: the
    one cluster with silver that is being rebuilt: it is not in `clocks`, nor in the evidence MADE_ANEW.
    """

    evidence: Evidence
    after: Step
    clocks: Mapping[str, int] = field(default_factory=dict)
    blind: dict[str, str] = field(default_factory=dict)
    kept_from: Mapping[str, datetime] = field(default_factory=dict)
    handled: pa.Table = field(default_factory=notes.ARROW.empty_table)
    alerts_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rebuilt: str | None = None


@dataclass(frozen=True)
class _Tables:
    """The tables of a lake, each read once.

    `unread`: by name of the evidence that could not be read, the reason. `newest`: by path of a table, the time
    (milliseconds) when its last file was written.
    """

    lake: Lake
    now: datetime
    made: bool
    unread: dict[str, str]
    newest: dict[str, int] = field(default_factory=dict)

    def attempt(self, table: Table, names: Iterable[str], read: Callable[[], T], otherwise: T) -> T:
        """Return the result of `read`, or `otherwise` if it raises anything: the other rules go on."""
        try:
            return read()
        except Exception as error:
            _log.debug("%s cannot be read: %s", table.path, error)  # its words may differ each time
            why = f"{table.path} cannot be read"
            self.unread.update(dict.fromkeys(names, why))
            return otherwise

    def rows(self, name: str, begins: Mapping[str, datetime] | None = None) -> pa.Table:
        """The rows of a table, of each cluster from its time on; a missing table that the job made is unread."""
        part = PARTS[name]

        def look() -> pa.Table:
            if self.made and name not in OF_OTHERS and not self.lake.has_table(part.table):
                self.unread.setdefault(name, f"{part.table.path} is missing")
            if name in self.unread:
                return part.schema.empty_table()
            kept = _KEPT.setdefault((self.lake.root, name), KeptRows(part.table, part.schema, _wanted(part)))
            rows = kept.read(self.lake, _files(begins))
            return rows.filter(_recent(begins)) if begins else rows

        return self.attempt(part.table, (name,), look, part.schema.empty_table())

    def oldest_new(self, name: str, before: Mapping[str, int]) -> datetime | None:
        """The oldest time in files written after the `newest` of the evaluation before; None if there are none.

        Late telemetry is older than the rows that were read then.
        """
        table = PARTS[name].table

        def look() -> datetime | None:
            opened = self.lake.find(table)
            files = None if opened is None else pa.table(opened.get_add_actions(flatten=True))
            if not files or "min.ts" not in files.column_names:
                return None
            self.newest[table.path] = min(pc.max(files["modification_time"]).as_py(), microseconds(self.now) // 1000)
            after = before.get(table.path, 0) - OUT_OF_ORDER_MS
            oldest: datetime | None = pc.min(files.filter(pc.field("modification_time") > after)["min.ts"]).as_py()
            return oldest

        return self.attempt(table, (name,), look, None)


def read(lake: Lake, rules: AlertRules, before: Step, now: datetime, interval_s: float = 0) -> Reading:
    """Read the rows that the alert rules need, from some time before the end of the evaluation `before`.

    `interval_s`: the job's interval in seconds, if the job has not recorded it itself.
    """
    lake = lake.at_once()
    written_by, history = reconstruction(lake), rules.history
    why = f"{MARK} is damaged" if MARK in damaged_records(lake) else REBUILT
    rebuilt = written_by.rebuilt or None
    anew_whole = written_by.rebuilding and rebuilt is None
    tables = _Tables(lake, now, written_by.made, dict.fromkeys(MADE_ANEW, why) if anew_whole else {})
    earlier = Bronze(frozenset(one.cluster for one in before.sources.reported))
    bronze, sources = tables.attempt(
        replication_events.TABLE, FROM_BRONZE, lambda: _sources(lake, before.sources, now), (earlier, before.sources)
    )
    minutes, health, states = (tables.rows(name) for name in FROM_GOLD)
    unjudged = before.sources.led
    led = {c: min(at, unjudged.get(c, at)) for c, at in {**unjudged, **sources.led}.items()}
    closed = _closed(sources)
    final = closed | _polled(sources)
    clocks = {
        cluster: microseconds(ts) - (0 if cluster in final else written_by.grace_ms * 1000)
        for cluster, ts in _ends("max", minutes, health, states).items()
    }
    for cluster, (to, _) in clocks_ahead(sources).items():
        clocks |= {cluster: min(microseconds(to), clocks[cluster])} if cluster in clocks else {}
    if any(tables.unread.get(name, REBUILT) is not REBUILT for name in FROM_GOLD):  # time stands still
        for one in before.clocks.values():
            clocks |= {cluster: max(at, clocks.get(cluster, at)) for cluster, at in one.items()}
    clocks.pop(written_by.rebuilt, None)
    anew, kept_from = before.query not in (None, written_by.query), _ends("min", minutes)

    def starts(keys: Iterable[str], seconds: int) -> dict[str, datetime]:
        """By cluster, the time from which rows are read; without one, all are, as a key was not evaluated yet."""
        each = [before.clocks.get(key, {}) for key in keys]
        return {
            cluster: moment(min([at, *(one[cluster] for one in each)]) - seconds * SECOND)
            for cluster, at in clocks.items()
            if each and all(cluster in one for one in each)
        }

    def since(name: str, seconds: int) -> pa.Table:
        """Rows that a rule may not have seen, and earlier ones, which show the begin of states that end in them."""
        asking = [rules.key(n) for n, one in rules.settings.items() if one.enabled and name in RULES[n].needs]
        begins, of_late = starts(asking or before.clocks, seconds), led if name == "leaderships" else {}
        late = None if name in FROM_BRONZE else tables.oldest_new(name, before.newest)
        since_each = {c: min(at, late or at, moment(of_late[c]) if c in of_late else at) for c, at in begins.items()}
        return tables.rows(name, {} if anew else since_each)

    of_brokers = in_microseconds(since("broker_states", history.bronze_s)).to_pylist()
    first = {cluster: microseconds(at) for cluster, at in starts(before.clocks, history.silver_s).items()}
    restarts = _without_repeats(
        row for row in (*before.restarts, *of_brokers) if row["ts"] >= first.get(row["cluster"], 0)
    )
    known = clocks.keys() | bronze.clusters
    waiting, begun = dict(bronze.backlogs or {}), before.unread.get(REMOVAL, microseconds(now))
    if rebuilt:  # cut off, it may have put nothing into bronze yet
        rest = waiting.get(rebuilt, Backlog(0, now))
        waiting[rebuilt] = replace(rest, oldest=min(moment(begun), rest.oldest))
    blind = tables.attempt(
        brokers.TABLE,
        ("blind_watchers",),
        lambda: _blind_watchers(
            lake.read(brokers.TABLE, states.schema) if "brokers" in tables.unread else states, known, sources, now
        ),
        list[dict[str, Any]](),
    )
    found = evidence_of(
        **{name: since(name, history.silver_s) for name in ("min_isr", "disagreements", "isr", "sync", "gaps")},
        regressions=tables.rows("regressions"),
        leaderships=since("leaderships", history.bronze_s),
        deliveries=tables.rows("deliveries"),
        health=health,
        brokers=states,
        broker_states=restarts,
        clock=[{"cluster": c, "clock": ts} for c, ts in clocks.items()],
        backlog=backlog(lake, waiting, clocks.keys(), rules.of(JOB_BEHIND), interval_s),
        # Nothing lasts in a cluster that is in neither gold nor bronze.
        carried=[
            _doubted(row, before, health) if anew else row
            for row in before.carried
            if (row["cluster"] in known or written_by.rebuilding)
            and (not anew or _is_not_made_anew(row, kept_from, now))
        ],
        blind_watchers=blind if rules.of(WATCHER_CUT_OFF).enabled else (),
        reported=[vars(one) for one in sources.reported if one.cluster in known],
        closed=[{"cluster": c} for c in closed & known],
        ended_recordings=[
            {"cluster": c} for c in closed if sources.arrived.get(c, microseconds(now)) <= microseconds(now - OVER)
        ],
    )
    if rebuilt:
        found |= {name: found[name].filter(pc.not_equal(found[name]["cluster"], rebuilt)) for name in MADE_ANEW}
    handled = tables.attempt(
        notes.TABLE, ("notes",), lambda: lake.read(notes.TABLE, notes.ARROW), notes.ARROW.empty_table()
    )
    said = sorted({why for why in tables.unread.values() if why is not REBUILT})
    paths = {why: why.partition(" ")[0] for why in said}
    unread = {path: before.unread.get(path, microseconds(now)) for path in paths.values()}
    unread |= {REMOVAL: begun} if rebuilt else {}
    blinds = [{"cluster": c, "why": why, "since": unread[path]} for c in sorted(known) for why, path in paths.items()]
    found["blind"] = pa.Table.from_pylist(blinds, SCHEMAS["blind"])
    made_by = (before.query, before.newest) if tables.unread or rebuilt else (written_by.query, tables.newest)
    sources = replace(sources, led=led if {*FROM_GOLD} & tables.unread.keys() else {})
    after = replace(
        before, sources=sources, restarts=restarts, query=made_by[0], newest=made_by[1], clocks={}, unread=unread
    )  # fmt: skip
    alerts_of = tables.attempt(incidents.TABLE, ("notes",), lambda: _alerts_of(lake, handled), dict[str, list[str]]())
    if reconstruction(lake).rebuilding and not written_by.rebuilding:  # rows may have gone between two tables
        return read(lake, rules, before, now, interval_s)
    return Reading(found, after, clocks, tables.unread, kept_from, handled, alerts_of, rebuilt)


def _is_not_made_anew(row: Mapping[str, Any], kept_from: Mapping[str, datetime], now: datetime) -> bool:
    """Whether rebuilt silver cannot show an open state, because that began before its rows; elections are in bronze."""
    of_bronze = row["rule"] in RULES and {*RULES[row["rule"]].needs} & {*FROM_BRONZE}
    return bool(of_bronze) or row["ts"] < microseconds(kept_from.get(row["cluster"], now))


def _doubted(row: Mapping[str, Any], before: Step, health: pa.Table) -> Mapping[str, Any]:
    """Return the open state, marked as not known since the last evaluation if rebuilt gold has no ISR for it."""
    place = [pc.field(name) == row[name] for name in ("cluster", "topic", "partition")]
    if row["partition"] < 0 or health.filter(place[0] & place[1] & place[2] & pc.field("isr").is_valid()).num_rows:
        return row
    since = max(row["ts"], *(one.get(row["cluster"], 0) for one in before.clocks.values()), 0)
    return {**row, "reason": not_known_since(since)}


def _without_repeats(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return each of these rows once, without a watcher's rows of each round about a broker that does not answer.

    Of a run of equal rows about the controllers, the first and the last one are kept.
    """
    each = {tuple(row.values()): row for row in rows}.values()
    quorum = [row for row in each if row["detail"].startswith(QUORUM)]
    quorum.sort(key=itemgetter("cluster", "ts", "detail"))
    runs = (list(run) for _, run in groupby(quorum, itemgetter("cluster", "detail")))
    ends = [row for run in runs for row in run[:: max(1, len(run) - 1)]]
    return [row for row in each if not by_watcher(row["detail"])] + ends


def _blind_watchers(states: pa.Table, known: Collection[str], sources: Progress, now: datetime) -> list[dict[str, Any]]:
    """The clusters with watchers that see nothing, since when, and why; a drain does not end that."""
    limits, rows = Limits(), states.sort_by([("cluster", "ascending"), ("broker_id", "ascending")]).to_pylist()
    records = (
        ClusterRecord(cluster, **vars(of) | {"closed": None})
        for cluster, of in sorted(reports_of(rows, known, sources).items())
    )
    found = {one.cluster: blind_since(told_by_logs(one, limits, now), limits, now) for one in records}
    return [{"cluster": c, "since": blind[0], "words": cut_off(*blind)} for c, blind in found.items() if blind]


def _alerts_of(lake: Lake, handled: pa.Table) -> dict[str, list[str]]:
    """The alerts of the incidents that these notes name, by their ids."""
    named = pc.drop_null(handled["incident_id"])
    if not len(named):
        return {}
    rows = lake.read(incidents.TABLE, incidents.ARROW, pc.field("incident_id").isin(named))
    return {row["incident_id"]: row["alert_ids"] for row in rows.sort_by("written_at").to_pylist()}


def _sources(lake: Lake, before: Progress, now: datetime) -> tuple[Bronze, Progress]:
    bronze = bronze_of(lake)
    return bronze, progress(lake, before, bronze, now)


def _closed(sources: Progress) -> set[str]:
    """The clusters without reports after a drain closed them."""
    last: dict[str, int] = {}
    for one in sources.reported:
        last[one.cluster] = max(one.reported_to, last.get(one.cluster, 0))
    return {cluster for cluster, ts in sources.closed.items() if last.get(cluster, ts) <= ts}


def _polled(sources: Progress) -> set[str]:
    """The clusters with reports from watchers only: their rounds are final at once and wait for no other source."""
    found = {one.cluster for one in sources.reported}
    return found - {one.cluster for one in sources.reported if not one.source_id.startswith(WATCHER)}


def _ends(which: str, *times: pa.Table) -> dict[str, datetime]:
    """The first or last (min, max) time of each cluster; tables have the cluster in column 0 and a time in the last."""
    each = [
        table.select([0, table.num_columns - 1]).rename_columns(SCHEMAS["clock"].names).cast(SCHEMAS["clock"])
        for table in times
    ]
    found = pa.concat_tables(each).drop_null().group_by("cluster").aggregate([("clock", which)])
    return dict(zip(found["cluster"].to_pylist(), found[f"clock_{which}"].to_pylist(), strict=True))


def backlog(
    lake: Lake, waiting: Mapping[str, Backlog], judged: Collection[str], settings: JobBehindSettings, interval_s: float
) -> list[dict[str, Any]]:
    """The clusters with rows that the job has not read; those in `judged` were read at least once."""
    limit_s = settings.limit_s(max(interval_s, interval(lake) or 0))
    return [
        {"cluster": cluster, "oldest": unread.oldest, "judged_once": cluster in judged, "limit_s": limit_s}
        for cluster, unread in sorted(waiting.items())
    ]


def _wanted(part: Part) -> Expression | None:
    """Return the filter for the rows of a table that are of this kind of evidence."""
    return pc.field(part.column).isin(pa.array(part.values, pa.string())) if part.column else None


def _recent(begins: Mapping[str, datetime]) -> Expression:
    """Return the filter for the rows of a cluster from its time in `begins` on, and all of one without a time."""
    cluster, ts = pc.field("cluster"), pc.field("ts")
    recent = ~cluster.isin(pa.array(begins, pa.string()))
    for name, start in begins.items():
        recent = recent | ((cluster == name) & (ts >= pa.scalar(start, pa.timestamp("us", tz="UTC"))))
    return recent


def _files(begins: Mapping[str, datetime] | None) -> str | None:
    """Return the condition in SQL on files that have such rows; statistics may be cut off at milliseconds."""
    if not begins:
        return None
    others = f"cluster NOT IN ({', '.join(map(text, begins))})"
    each = (f"(cluster = {text(c)} AND ts >= '{(ts - MILLISECOND).isoformat()}')" for c, ts in begins.items())
    return " OR ".join([others, *each])
