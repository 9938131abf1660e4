"""The one reader of what verdicts rest on: few queries to a lake, without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row, View, beginnings, presents, query, select_first, select_rows, text
from pipelines.streaming.reconstruction import reconstruction
from pipelines.streaming.source.unread import Bronze, bronze_of
from pipelines.verdict import judged, words
from pipelines.verdict.coverage import terms_seen
from pipelines.verdict.falls import (
    Times,
    falls,
    firing_since,
    loss_times,
    not_told,
    told_alerts,
    told_alone,
    with_handled,
)
from pipelines.verdict.last_copies import last_copies
from pipelines.verdict.one_away import NOT_KNOWN
from pipelines.verdict.records import Backlog, ClusterRecord, Condition, Limits, NotUnderstood, PartitionGroup
from pipelines.verdict.since import Since, starts
from pipelines.verdict.sources import Reports, clocks_ahead, found_unread, progress_now, reports
from pipelines.verdict.standing import Quiet, standing
from pipelines.verdict.waits import LongerWait, longer_waits
from schemas import (
    brokers,
    cluster_minute,
    coverage,
    downtimes,
    hw_regressions,
    isr_changes,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    tables,
    telemetry_gaps,
)
from schemas.replication_events import WATCHER
from schemas.telemetry_gaps import NOT_UNDERSTOOD, UNREAD

CLOCKS_DIFFER = timedelta(seconds=10)
"""What others say of a partition sooner after its leader's last word may come of clocks that differ."""
_HEALTH = View(partition_health.TABLE, "last_event_ts", "")
_COVERAGE = View(coverage.TABLE, "to_ts", "")
_CHANGES = View(isr_changes.TABLE, "ts", "")
_GAPS = View(telemetry_gaps.TABLE, "ts", "")

_LED = "NOT coalesce(offline, false)"

Groups = Mapping[str, list[PartitionGroup]]


@dataclass(frozen=True)
class Survey:
    """The clusters of a lake as they were found, and the brokers that report nothing."""

    lake: Lake
    wanted: Filter
    records: tuple[ClusterRecord, ...]
    quiet: tuple[Quiet, ...]
    waits: tuple[LongerWait, ...] = ()

    def standing(self, where: str) -> str:
        """The query for the rows of `gold/partition_health` that match, as the verdict judges them."""
        return standing(where, self.quiet, self.waits)

    def partitions(self, limit: int, *, sound: bool) -> tuple[list[Row], int]:
        """At most `limit` partitions, the worst first, and how many there are; `sound`: those too that are in sync.

        Else those of clusters that have ended are left out: how they stood is history.
        """
        rows = f"SELECT * FROM ({self.standing(_now(self.wanted))}) WHERE {self._kept(sound)}"
        order = "CASE WHEN unknown THEN 1.5 ELSE rank END, cluster, topic, partition"
        return select_first(self.lake, partition_health.TABLE, rows, order, limit)

    def one_failure_away(self) -> Mapping[str, Mapping[str, int]] | None:
        """By cluster how many partitions are one failure away from what; None where the job never wrote that.

        What a silent leader leads is not known.
        """
        table = self.lake.find(partition_health.TABLE)
        if table is None:
            return {}
        if not any(field.name == "one_failure_away" for field in table.schema().fields):
            return None
        risk = f"CASE WHEN unknown THEN '{NOT_KNOWN}' ELSE coalesce(one_failure_away, '{NOT_KNOWN}') END"
        rows = f"SELECT cluster, {risk} AS risk FROM ({self.standing(_now(self.wanted))}) WHERE {_LED}"
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for row in query(table, f"SELECT cluster, risk, count(*) AS n FROM ({rows}) GROUP BY cluster, risk"):
            found[row["cluster"]][row["risk"]] = row["n"]
        return found

    def _kept(self, sound: bool) -> str:
        ended = [text(record.cluster) for record in self.records if judged.ended(record)]
        if sound:
            return "true"
        wrong = f"(rank < {len(Condition) - 1} OR unknown)"
        return f"{wrong} AND cluster NOT IN ({', '.join(ended)})" if ended else wrong


_MODULES = hw_regressions, partition_health, brokers, partition_hw, isr_changes, cluster_minute, telemetry_gaps
_NEEDED = [module.TABLE for module in (*_MODULES, replica_sync, replication_events)]
"""Without one of these a verdict, or an alert rule, would say less than there is."""


def survey(lake: Lake, wanted: Filter, since: Since, limits: Limits, now: datetime) -> Survey:
    """Return all that is known of the clusters that `wanted` selects, at the moment `now` of the wall clock."""
    lake = lake.at_once()
    known, bronze = presents(lake), bronze_of(lake)
    known = {cluster: ts for cluster, ts in known.items() if wanted.cluster in (None, cluster)}
    names = {name for name in known.keys() | bronze.clusters if wanted.cluster in (None, name)}
    reported, begun = reports(lake, known, bronze, now), beginnings(lake)
    for cluster, (to, _) in clocks_ahead(progress_now(lake, bronze, now)).items():
        known |= {cluster: min(to, known[cluster])} if cluster in known else {}
    written_by = reconstruction(lake)
    needed = _NEEDED if written_by.made else ()
    missing = [f"{table.path} is missing" for table in needed if not lake.has_table(table)]
    gone = written_by.made and not lake.has_table(coverage.TABLE)
    uncovered = judged.restore(f"{coverage.TABLE.path} is missing") if gone else ""
    unread = lake.unread or [path for path in found_unread(lake) if not _is_readable(lake, path)]
    blind = f"{', '.join(unread)} cannot be read" if unread else next(iter(missing), "")
    planned = _planned(lake, now)
    records = [
        replace(
            _seen(name, begun.get(name), known.get(name), bronze, reported[name]),
            rebuilding=written_by.rebuilding if written_by.rebuilt in ("", name) else "",
            blind=blind, uncovered=uncovered, older=written_by.older.get(name), planned=planned.get(name, ""),
        )
        for name in sorted(names)
    ]  # fmt: skip
    records = [judged.told_by_logs(one, limits, now) for one in records]
    records = [replace(one, unheard={**judged.late(one, limits, now), **one.unheard}) for one in records]
    quiet = tuple(q for record in records for q in _quiet(record, reported[record.cluster], limits, now))
    wanted = replace(wanted, since=starts(since, known))
    told, times = told_alerts(lake, wanted), loss_times(lake)
    alone = told_alone(told, times, wanted)
    lost = replace(wanted, since=not_told(told, times, wanted.since))
    records = [
        replace(one, told=tuple(alone[one.cluster]), fires=firing_since(told.get(one.cluster, ()))) for one in records
    ]
    waits = longer_waits(lake, {name: reported[name].sources for name in names})
    asked = tuple(
        replace(
            record, falls=with_handled(record.falls, told.get(record.cluster, ()), _own_times(times, record.cluster))
        )
        for record in _filled(lake, wanted, lost, records, quiet, waits)
        if _concerned(record)
    )
    return Survey(lake, wanted, asked, quiet, waits)


def _is_readable(lake: Lake, path: str) -> bool:
    """Whether a table can be read that an evaluation of the alerts could not read, or that is missing by now."""
    try:
        for table in (one for one in tables().values() if one.path == path):
            lake.read(table, table.arrow().empty_table().select([0]).schema)
    except Exception:
        return False
    return True


def _concerned(record: ClusterRecord) -> bool:
    """Whether a cluster has what is asked for, or may have."""
    return bool(not record.scope or record.partitions or record.falls or record.backlog)


def _planned(lake: Lake, now: datetime) -> dict[str, str]:
    """The planned downtimes that are open at `now` (wall clock), in words, by cluster."""
    last = "row_number() OVER (PARTITION BY downtime_id ORDER BY written_at DESC) = 1"
    found = defaultdict[str, list[str]](list)
    for row in select_rows(lake, downtimes.TABLE, f"SELECT * FROM t QUALIFY {last} ORDER BY begins"):
        if row["begins"] <= now < row["until"]:
            whom = "all brokers" if row["brokers"] is None else words.brokers(row["brokers"])
            found[row["cluster"]].append(f"planned downtime of {whom} until {words.clock(row['until'])}")
    return {cluster: "; ".join(dict.fromkeys(said)) for cluster, said in found.items()}


def _own_times(times: Times, cluster: str) -> dict[str, list[datetime]]:
    return {rule: found for (name, rule), found in times.items() if name == cluster}


def _seen(
    name: str, begun: datetime | None, present: datetime | None, bronze: Bronze, reports: Reports
) -> ClusterRecord:
    unread = bronze.backlog(name)
    return ClusterRecord(
        name,
        reconstructed=present is not None or unread is None,
        judged_from=begun,
        judged_to=present,
        backlog=Backlog(unread.events, unread.oldest) if unread else None,
        closed=reports.closed,
        down=reports.down,
        sources=tuple(reports.sources),
        unheard=reports.unheard,
        ahead=reports.ahead,
        quorum=reports.quorum,
        waits=reports.waits,
    )


def _quiet(record: ClusterRecord, reports: Reports, limits: Limits, now: datetime) -> Iterator[Quiet]:
    """The brokers of which nothing is reported: their sources are silent, or they went down and nobody followed."""
    if judged.ended(record):
        return
    silent = judged.silent(record, limits, now)
    if len(silent) == len(record.sources) or record.cut_off:
        yield Quiet(record.cluster, None)
        return
    unanswered = judged.unanswered(record, limits, now)
    for broker in sorted(record.unheard.keys() | unanswered):
        yield Quiet(record.cluster, broker, unheard=broker in record.unheard)
    last: dict[int, datetime] = {}
    for source in record.sources:
        last[source.broker_id] = max(source.reported_to, last.get(source.broker_id, source.reported_to))
    reporting = {source.broker_id for source in record.sources if source not in silent}
    gone = {broker: ts for broker, ts in last.items() if broker not in reporting} | reports.down
    for broker, ts in sorted(gone.items()):
        yield Quiet(record.cluster, broker, ts + CLOCKS_DIFFER)


def _filled(
    lake: Lake,
    wanted: Filter,
    lost: Filter,
    records: Iterable[ClusterRecord],
    quiet: Iterable[Quiet],
    waits: Iterable[LongerWait],
) -> Iterator[ClusterRecord]:
    """The records with what the tables say of each cluster; losses are looked for as in `lost`."""
    groups, (levels, unstarted, unassigned, alone) = _groups(lake, wanted, quiet, waits), _levels(lake, wanted)
    fallen, copies = falls(lake, lost), defaultdict[str, list[str]](list)
    for one in last_copies(lake, lost) if any(one.partitions for one in fallen.values()) else ():
        copies[one.cluster].append(one.text(lake.root))
    gaps, odd, assigned = _gaps(lake, wanted), _not_understood(lake, wanted), _assigned(lake, wanted)
    unread, stretches, former = _unread(lake, wanted), _stretches(lake, lost), _former(lake, wanted)
    for record in records:
        name = record.cluster
        told = {source.broker_id for source in record.sources}
        yield replace(
            record, groups=tuple(groups[name]), levels=levels[name], gaps=gaps[name], not_understood=tuple(odd[name]),
            unread=tuple(unread[name]),
            falls=tuple(fallen[name].groups), copies=tuple(copies[name]),
            lost_in=fallen[name].partitions.get("critical", 0),
            suspect=fallen[name].partitions.get("warning", 0), scope=_scope(wanted),
            unread_brokers=tuple(sorted(assigned[name] - told)) if told else (), unstarted=unstarted[name],
            replicas=frozenset(assigned[name]), former=frozenset(former[name]), unassigned=unassigned[name],
            alone=alone[name],
            terms=terms_seen(record.sources, stretches[name]),
            lost_since=lost.since.get(name) if isinstance(lost.since, Mapping) else None,
        )  # fmt: skip


def _scope(wanted: Filter) -> str:
    """The requested part of a cluster, as it stands behind its name."""
    if wanted.topic is None:
        return "" if wanted.partition is None else f"/*-{wanted.partition}"
    return f"/{wanted.topic}" + ("" if wanted.partition is None else f"-{wanted.partition}")


def _now(wanted: Filter) -> str:
    """Rows of the present are filtered by place, never by time."""
    return replace(wanted, since=None).where(_HEALTH)


def _groups(lake: Lake, wanted: Filter, quiet: Iterable[Quiet], waits: Iterable[LongerWait]) -> Groups:
    keys, table = "cluster, condition, who, one_of, unknown", lake.find(partition_health.TABLE)
    values, there = "count(*) AS partitions, max(stalled_ms) AS stalled_ms", set()
    if table is not None:
        there = {column.name for column in table.schema().fields}
    if "min_isr" in there:
        values += f", count(*) FILTER (WHERE {_STOPS}) AS stops, count(*) FILTER (WHERE {_LEFT} < 1) AS ends"
    if "assignments" in there:
        values += f", count(*) FILTER (WHERE {_ADDING}) > 0 AS adding"
    sql = f"SELECT {keys}, {values} FROM ({standing(_now(wanted), quiet, waits)}) GROUP BY {keys} ORDER BY {keys}"
    found: Groups = defaultdict(list)
    for row in select_rows(lake, _HEALTH.table, sql):
        who = tuple(int(number) for number in row["who"].split(",") if number)
        known = row["partitions"], row["unknown"], row["stalled_ms"], row["one_of"]
        more = row.get("stops", 0), row.get("ends", 0), row.get("adding", True)
        found[row["cluster"]].append(PartitionGroup(Condition[row["condition"]], who, *known, *more))
    return found


_LEFT = "coalesce(cardinality(array_except(isr, unheard)), 0) - 1"
"""In-sync replicas that answer, after one more failure."""
_ADDING = "cardinality(array_except(array_except(ar, isr), array_element(assignments, -2)['replicas'])) > 0"
"""A replica out of the ISR was not assigned before the last reassignment; it may have been in the ISR since."""
_STOPS = f"min_isr IS NOT NULL AND {_LEFT} >= 1 AND {_LEFT} < least(min_isr, cardinality(ar))"


def _levels(
    lake: Lake, wanted: Filter
) -> tuple[Mapping[str, dict[int | None, int]], Mapping[str, int], Mapping[str, int], Mapping[str, int]]:
    """By cluster its partitions by level, and how many have no HW, no known replicas, and one replica."""
    levels = defaultdict[str, dict[int | None, int]](dict)
    unstarted, unassigned, alone = (Counter[str]() for _ in range(3))
    counts = (
        "count(*) AS n, count(*) FILTER (WHERE hw IS NULL) AS unstarted, "
        "count(*) FILTER (WHERE cardinality(ar) = 1) AS alone, "
        "count(*) FILTER (WHERE ar IS NULL OR cardinality(ar) = 0) AS unassigned"
    )
    sql = f"SELECT cluster, level, {counts} FROM t WHERE {_now(wanted)} GROUP BY cluster, level"
    for row in select_rows(lake, _HEALTH.table, sql):
        levels[row["cluster"]][row["level"]] = row["n"]
        unstarted[row["cluster"]] += row["unstarted"]
        unassigned[row["cluster"]] += row["unassigned"]
        alone[row["cluster"]] += row["alone"]
    return levels, unstarted, unassigned, alone


def _assigned(lake: Lake, wanted: Filter) -> Mapping[str, set[int]]:
    """The brokers of each cluster that have replicas, or are in an ISR."""
    found = defaultdict[str, set[int]](set)
    rows = " UNION ALL ".join(
        f"SELECT cluster, unnest({name}) AS broker FROM t WHERE {_now(wanted)}" for name in ("ar", "isr")
    )
    for row in select_rows(
        lake, _HEALTH.table, f"SELECT DISTINCT cluster, broker FROM ({rows}) WHERE broker IS NOT NULL"
    ):
        found[row["cluster"]].add(row["broker"])
    return found


def _former(lake: Lake, wanted: Filter) -> Mapping[str, set[int]]:
    """By cluster the brokers that a change of an ISR names."""
    found = defaultdict[str, set[int]](set)
    rows = " UNION ALL ".join(
        f"SELECT cluster, unnest({name}) AS broker FROM t WHERE {wanted.where(_CHANGES)}"
        for name in ("isr_before", "isr_after")
    )
    for row in select_rows(
        lake, _CHANGES.table, f"SELECT DISTINCT cluster, broker FROM ({rows}) WHERE broker IS NOT NULL"
    ):
        found[row["cluster"]].add(row["broker"])
    return found


def _stretches(lake: Lake, wanted: Filter) -> Mapping[str, list[Row]]:
    """The stretches of each cluster in which a source says that it would have told of starts of terms.

    A source's last stretch is included however old it is: the broker may have been down since.
    """
    found: dict[str, list[Row]] = defaultdict(list)
    keys, places = "cluster, broker_id, source_id, source_epoch, from_ts", Filter(wanted.cluster)
    where = f"kind = {text(coverage.TERMS)} AND {places.where(_COVERAGE)}"
    each = f"SELECT {keys}, max(to_ts) AS to_ts FROM t WHERE {where} GROUP BY {keys}"
    last = "row_number() OVER (PARTITION BY cluster, source_id ORDER BY to_ts DESC)"
    recent = replace(places, since=wanted.since).where(_COVERAGE)
    sql = f"SELECT * FROM (SELECT *, {last} AS nth FROM ({each})) WHERE nth = 1 OR {recent}"
    for row in select_rows(lake, _COVERAGE.table, sql):
        found[row["cluster"]].append(row)
    return found


def _gaps(lake: Lake, wanted: Filter) -> Mapping[str, dict[str, int]]:
    """By kind: how many, of clocks and of numbers that start anew how many sources have them."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    kind = f"CASE WHEN kind = 'reset' AND detail IS NOT NULL THEN '{judged.ANEW}' ELSE kind END AS kind"
    others = " AND ".join(f"NOT {one}" for one in (_ODD, _UNREAD, _MISSED))
    rows = f"SELECT cluster, source_id, {kind} FROM t WHERE {_noticed(wanted)} AND {others}"
    values = "count(*) AS n, count(DISTINCT source_id) AS sources"
    for row in select_rows(lake, _GAPS.table, f"SELECT cluster, kind, {values} FROM ({rows}) GROUP BY cluster, kind"):
        found[row["cluster"]][row["kind"]] = row["sources" if row["kind"] in ("clock", judged.ANEW) else "n"]
    return found


def _not_understood(lake: Lake, wanted: Filter) -> Mapping[str, list[NotUnderstood]]:
    found: dict[str, list[NotUnderstood]] = defaultdict(list)
    keys, values = "cluster, source_id", "count(*) AS n, min(detail) AS detail"
    sql = f"SELECT {keys}, {values} FROM t WHERE {_noticed(wanted)} AND {_ODD} GROUP BY {keys} ORDER BY {keys}"
    for row in select_rows(lake, _GAPS.table, sql):
        shape = row["detail"].removeprefix(NOT_UNDERSTOOD)
        found[row["cluster"]].append(NotUnderstood(row["source_id"], row["n"], shape))
    return found


def _unread(lake: Lake, wanted: Filter) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    keys = "cluster, source_id, detail"
    sql = f"SELECT DISTINCT {keys} FROM t WHERE {_noticed(wanted)} AND {_UNREAD} ORDER BY {keys}"
    for row in select_rows(lake, _GAPS.table, sql):
        found[row["cluster"]].append(f"{row['source_id']}: {row['detail'].removeprefix(UNREAD)}")
    return found


_UNREAD = f"coalesce(starts_with(detail, {text(UNREAD)}), false)"
_MISSED = f"(kind = 'gap' AND starts_with(source_id, {text(WATCHER)}))"
"""What a watcher misses is not missing in a broker's log; silver/coverage has for how long."""
_ODD = f"coalesce(starts_with(detail, {text(NOT_UNDERSTOOD)}), false)"


def _noticed(wanted: Filter) -> str:
    """Gaps are those of a cluster's telemetry, whatever of it is asked for."""
    return Filter(wanted.cluster, since=wanted.since).where(_GAPS)
