"""Falls of a HW that cost committed records, or may have, grouped by what they came of."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, select_rows
from pipelines.verdict.losses import NOT_EXCLUDED
from pipelines.verdict.records import FallGroup
from pipelines.verdict.words import NAMED, clock
from schemas import alerts, hw_regressions

ABOUT = timedelta(minutes=1)
"""The time of a fall may be known better than when it was told."""
_PLACE = "concat(topic, '-', partition)"
_FELL = f"""CASE
  WHEN class = '{NOT_EXCLUDED}' THEN {_PLACE}
  WHEN hw_before IS NULL THEN {_PLACE}
  WHEN hw_after IS NULL AND lost_from IS NULL THEN concat({_PLACE}, ' HW ', hw_before)
  WHEN lost_from IS NULL OR lost_to IS NULL THEN concat({_PLACE}, ' HW ', hw_before, ' to ', hw_after)
  ELSE concat({_PLACE}, ' offsets ', lost_from, '..', lost_to - 1) END"""
_LOSS = f"severity <> 'info' OR class = '{NOT_EXCLUDED}'"
_RULES = ("loss", "unproven_loss", "loss_not_excluded")
"""The rules of alerts on losses, the gravest first."""
_TOLD = f"""
SELECT labels['cluster'] AS cluster, rule, first_ts, last_ts, state, summary, written_at,
  coalesce(labels['falls'], labels['count']) AS falls, labels['offsets'] AS offsets,
  {{place}} OR labels['partitions'] IS NULL AS wanted,
  state <> 'firing' AND labels['end'] IS NOT DISTINCT FROM 'handled' AS handled
FROM ({VIEWS["alerts"].select(Filter())})
WHERE state = 'firing' OR rule IN {_RULES} AND labels['end'] IS DISTINCT FROM 'withdrawn' ORDER BY first_ts
"""
_RULE = "CASE severity WHEN 'critical' THEN 'loss' WHEN 'warning' THEN 'unproven_loss' ELSE 'loss_not_excluded' END"
_STRINGS = r'"missing": ?(\[(?:"(?:[^"\\]|\\.)*"(?:, ?)?)*\])'
_CHANGE = "cluster, class, severity, leader_id, missing"
_GROUPS = f"""
SELECT {_CHANGE}, min(proof) AS proof, min(ts) AS first, max(ts) AS last,
  CASE WHEN min(coalesce(leader_id_before, -2)) = max(coalesce(leader_id_before, -2)) THEN max(leader_id_before) END
    AS leader_id_before,
  count(DISTINCT place) AS partitions, sum(lost_records) AS lost_records,
  array_slice(array_agg(fell ORDER BY character_length(fell), fell) FILTER (WHERE nth = 1), 1, {NAMED}) AS examples
FROM (SELECT *, row_number() OVER (PARTITION BY {_CHANGE}, fell) AS nth FROM (
  SELECT *, {_PLACE} AS place, {_FELL} AS fell,
    CASE WHEN class = '{NOT_EXCLUDED}' THEN regexp_match(evidence, '{_STRINGS}')[1] END AS missing FROM ({{falls}})))
WHERE {_LOSS}
GROUP BY {_CHANGE}
"""
"""Falls by what they came of: who led before differs by partition, and is named where it is the same of all."""
_PARTITIONS = f"""
SELECT cluster, severity, count(DISTINCT {_PLACE}) AS partitions FROM ({{falls}})
WHERE severity <> 'info' AND class <> '{NOT_EXCLUDED}' GROUP BY cluster, severity
"""


@dataclass
class Falls:
    """The losses of one cluster in groups, and the numbers of partitions with a loss and with a possible loss."""

    groups: list[FallGroup] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)


def falls(lake: Lake, wanted: Filter) -> dict[str, Falls]:
    """The falls by cluster, the latest revision of each."""
    found: dict[str, Falls] = defaultdict(Falls)
    latest = VIEWS["regressions"].select(wanted)
    for row in select_rows(lake, hw_regressions.TABLE, _GROUPS.format(falls=latest)):
        found[row["cluster"]].groups.append(_group(row))
    for row in select_rows(lake, hw_regressions.TABLE, _PARTITIONS.format(falls=latest)):
        found[row["cluster"]].partitions[row["severity"]] = row["partitions"]
    return found


Starts = datetime | Mapping[str, datetime] | None
Told = Mapping[str, list[Row]]
Times = Mapping[tuple[str, str], list[datetime]]
"""By cluster and alert rule, when each fall was, in order."""


def not_told(told: Told, times: Times, since: Starts) -> Starts:
    """From when on, by cluster, losses are looked for: no later than the first that `ops/alerts` lacks, or has firing.

    Only where `since` is some time before the present: who names a moment means that. An alert covers the falls of its
    rule within its time, if they are no more than it told: it does not name all of them.
    """
    if not isinstance(since, Mapping):
        return since
    starts = dict(since)
    for (cluster, rule), falls in times.items():
        over, firing = set[int](), set[int]()
        for row in (row for row in told.get(cluster, ()) if row["rule"] == rule):
            own = _between(falls, row["first_ts"], row["last_ts"])
            if row["state"] == "firing":
                firing.update(own)
            elif row["falls"] is None or len(own) <= int(row["falls"]):  # earlier versions did not count
                over.update(own)
        left = (ts for k, ts in enumerate(falls) if k in firing or k not in over)
        if cluster in starts:
            starts[cluster] = min(starts[cluster], next(left, starts[cluster]))
    return starts


def firing_since(told: Iterable[Row]) -> dict[str, datetime]:
    """By alert rule, the begin (event time) of the first alert that fires on what is wanted."""
    return {row["rule"]: row["first_ts"] for row in reversed([*told]) if row["state"] == "firing" and row["wanted"]}


def told_alone(told: Told, times: Times, wanted: Filter) -> dict[str, list[tuple[str, str]]]:
    """Rules and sentences, by cluster, of losses that fire and of which silver has no row any more."""
    found = defaultdict[str, list[tuple[str, str]]](list)
    for cluster, rows in told.items() if wanted.topic is None and wanted.partition is None else ():
        since = wanted.since
        for row in (row for row in rows if row["rule"] in _RULES):
            as_grave = _RULES[: _RULES.index(row["rule"]) + 1]
            of = [ts for rule in as_grave for ts in times.get((cluster, rule), ())]
            first, last = row["first_ts"] - ABOUT, row["last_ts"] + ABOUT
            asked = wanted.cluster in (None, cluster) and not (isinstance(since, datetime) and last < since)
            if asked and row["state"] == "firing" and not any(first <= ts <= last for ts in of):
                said = row["summary"].removeprefix(f"{cluster}: ").partition("; not known since")[0]
                words = f"{said}; told at {clock(row['written_at'])}, silver has no row of it any more"
                found[cluster].append((row["rule"], words))
    return found


def with_handled(
    groups: Iterable[FallGroup], told: Iterable[Row], times: Mapping[str, Sequence[datetime]] | None = None
) -> tuple[FallGroup, ...]:
    """The groups, marked as handled if a person ended the alert on them, or several alerts that have all their falls.

    Alerts do not name all that they are about. An alert covers the groups of its rule within its time if they are no
    more than it told, and no alert that goes on was told of that time: else one of them may be a loss that nobody saw.
    `times` are those of a cluster's falls by rule.
    """
    every, told, handled = tuple(groups), tuple(told), set[FallGroup]()
    for row in (row for row in told if row["handled"]):
        own = [one for one in every if _rule(one) == row["rule"] and _spans(row, one)]
        same = sum(one.partitions for one in own) <= int(row["falls"] or 0)
        if same and sum(one.lost_records or 0 for one in own) <= int(row["offsets"] or 0):
            handled.update(own)
    for rule, falls in (times or {}).items():
        rows = [row for row in told if row["handled"] and row["rule"] == rule]
        own = [one for one in every if _rule(one) == rule]
        handled.update(one for one in own if one not in handled and _are_handled_together(one, own, rows, falls))
    firing = [row for row in told if row["state"] == "firing"]
    handled -= {one for one in handled if any(_overlaps(row, one) and row["rule"] == _rule(one) for row in firing)}
    return tuple(replace(one, handled=one in handled) for one in every)


def _are_handled_together(
    one: FallGroup, alike: Sequence[FallGroup], handled: Iterable[Row], falls: Sequence[datetime]
) -> bool:
    """Whether several alerts, none of which spans the group, have all its falls; each told all falls of its time."""
    rows = [row for row in handled if _overlaps(row, one)]
    if any(_spans(row, one) for row in rows):
        return False
    within = [(row, _between(falls, row["first_ts"], row["last_ts"])) for row in rows]
    within = [(row, own) for row, own in within if len(own) <= int(row["falls"] or 0)]
    mine, over = _between(falls, one.first, one.last), {k for _, own in within for k in own}
    lost = sum(each.lost_records or 0 for each in alike if any(_overlaps(row, each) for row, _ in within))
    return bool(mine) and over.issuperset(mine) and lost <= sum(int(row["offsets"] or 0) for row, _ in within)


def _between(falls: Sequence[datetime], first: datetime, last: datetime) -> range:
    """The places of ordered times from `first` to `last`."""
    return range(bisect_left(falls, first), bisect_right(falls, last))


def _rule(one: FallGroup) -> str:
    """The rule of the alert on these falls."""
    return _RULES[("critical", "warning", "info").index(one.severity)]


def _overlaps(row: Row, one: FallGroup) -> bool:
    return bool(row["first_ts"] <= one.last and one.first <= row["last_ts"])


def _spans(row: Row, one: FallGroup) -> bool:
    return bool(row["first_ts"] <= one.first and one.last <= row["last_ts"])


def told_alerts(lake: Lake, wanted: Filter) -> Told:
    """The last rows in `ops/alerts` of losses and of what fires, by cluster, in order of time."""
    found = defaultdict[str, list[Row]](list)
    place = Filter(topic=wanted.topic, partition=wanted.partition).where(VIEWS["alerts"])
    for row in select_rows(lake, alerts.TABLE, _TOLD.format(place=place)):
        found[row["cluster"]].append(row)
    return found


def loss_times(lake: Lake) -> Times:
    """The times of losses in silver."""
    losses = f"SELECT *, {_RULE} AS rule FROM ({VIEWS['regressions'].select(Filter())}) WHERE {_LOSS}"
    sql = f"SELECT cluster, rule, ts, count(*) AS falls FROM ({losses}) GROUP BY cluster, rule, ts ORDER BY ts"
    found = defaultdict[tuple[str, str], list[datetime]](list)
    for row in select_rows(lake, hw_regressions.TABLE, sql):
        found[row["cluster"], row["rule"]] += [row["ts"]] * row["falls"]
    return found


def _group(row: Row) -> FallGroup:
    return FallGroup(
        row["class"], row["severity"], row["proof"], row["leader_id"], row["leader_id_before"], row["partitions"],
        row["first"], row["last"], row["lost_records"], tuple(row["examples"]),
        tuple(json.loads(row["missing"])) if row["missing"] else (),
    )  # fmt: skip
