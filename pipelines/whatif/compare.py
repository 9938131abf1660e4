"""Every partition as it was, beside what the state machine makes of the same events under other settings.

Fetches, appends, elections and what controllers did stay as they were. What the lag rule did to ISRs does not: a first
replay under the other settings says which replicas are out of sync (`replica_sync`), and a second one reads events in
which the leaders report the ISRs that come of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from pipelines.lake.queries import VIEWS
from pipelines.replication import Facts, Rules, replay
from pipelines.whatif.change import Change
from pipelines.whatif.tables import Row, measure, rows_of, with_isrs

LEVEL = 3
"""Only there every fetch, append and LEO is reported."""
Place = tuple[str, str, int]
"""(cluster, topic, partition)"""
place_of = itemgetter("cluster", "topic", "partition")
_TERM, _SYNC, _COMMIT = 0, 1, 2
"""The order of what has one time."""


@dataclass(frozen=True)
class Window:
    """Only times from `begin` on and before `end` are counted, in microseconds."""

    begin: int
    end: int


@dataclass
class Course:
    """The course of a partition within the window; times in microseconds, time out of sync summed over replicas."""

    isrs: list[tuple[int, ...]] = field(default_factory=list)
    """The ISR at first, and after each change, over the whole history."""
    shrinks: int = 0
    expands: int = 0
    out_of_sync_us: int = 0
    hw_stood_us: int = 0
    under_min_isr_us: int = 0


@dataclass(frozen=True)
class Compared:
    """One partition; where `unknown` says why, nothing is estimated."""

    cluster: str
    topic: str
    partition: int
    unknown: str = ""
    was: Course | None = None
    would: Course | None = None


def compare(
    events: pa.Table, rules: Rules, change: Change, window: Window, gaps: Mapping[Place, str] | None = None
) -> list[Compared]:
    """Every partition of `events` (bronze schema), in order of names.

    `rules`: what was assumed. `gaps`: partitions of whose telemetry something is missing, and what; of these, and of
    those that were not reported at level 3 throughout, nothing is estimated.
    """
    was = replay(events, rules)
    facts, isrs = otherwise(events, was, rules, change)
    sides = _courses(events, was, _isrs(was), window), _courses(events, facts, isrs, window)
    unknown = _unknown(events, was) | dict(gaps or {})
    return [
        Compared(*place, unknown=why) if (why := unknown[place]) else Compared(*place, "", *(s[place] for s in sides))
        for place in sorted(unknown)
    ]


def otherwise(events: pa.Table, was: Facts, rules: Rules, change: Change) -> tuple[Facts, list[Row]]:
    """(the facts under other settings, the ISRs in them); `was`: the facts under `rules`."""
    events, rules = change.events(events), change.rules(rules)
    isrs = _isrs(was, replay(events, rules))
    return replay(
        with_isrs(events, [row for row in isrs if not row["begins"] and row["leader_id"] in row["isr"]]), rules
    ), isrs


def _isrs(was: Facts, other: Facts | None = None) -> list[Row]:
    """Every ISR of each partition, in order of time, as it was recorded.

    With `other` the lag rule is that of these facts: what it did in `was` counts only where a replica came back.
    """
    return [isr for place, rows in groupby(_isr_rows(was, other), place_of) for isr in _follow(rows, other)]


def _isr_rows(was: Facts, other: Facts | None) -> list[Row]:
    """Terms, committed ISRs, and the states of replicas, by partition and in order of time."""
    columns = "cluster, topic, partition, epoch_us(ts) AS us, leader_id"
    return rows_of(
        f"""
        SELECT {columns}, {_TERM} AS step, isr, NULL::INT[] AS removed, NULL::VARCHAR AS said
        FROM partition_hw WHERE kind = 'term_start'
        UNION ALL SELECT {columns}, {_SYNC}, NULL, [replica_id], state FROM replica_sync
        UNION ALL (
            SELECT {columns}, {_COMMIT}, added, removed, cause FROM isr_changes WHERE len(isr_after) > 0
            QUALIFY row_number() OVER ({VIEWS["isr"].latest}) = 1 AND change <> 'retracted'
        )
        ORDER BY cluster, topic, partition, us, step, removed, said""",
        partition_hw=was.partition_hw,
        isr_changes=was.isr_changes,
        replica_sync=(other or was).replica_sync,
    )


def _follow(rows: Iterator[Row], other: Facts | None) -> Iterator[Row]:
    """Every ISR of one partition, `before`: the one before; `begins`: with a term."""
    members, outside, leader, before = set[int](), set[int](), None, None
    for row in rows:
        isr, removed, begins = set(row["isr"] or ()), set(row["removed"] or ()), row["step"] == _TERM
        if begins:
            members, outside, leader = isr, set(), row["leader_id"]
        elif row["step"] == _COMMIT:
            members = (members | isr) - (set() if other and row["said"] == "lag" else removed)
        elif other and row["leader_id"] == leader:
            outside = outside | removed if row["said"] == "out_of_sync" else outside - removed
        if (now := members - outside) != before:
            yield row | {"isr": now, "before": now if before is None else before, "begins": begins, "leader_id": leader}
            before = now


def _courses(events: pa.Table, facts: Facts, isrs: list[Row], window: Window) -> dict[Place, Course]:
    found: dict[Place, Course] = defaultdict(Course)
    for row in isrs:
        course = found[place_of(row)]
        course.isrs.append(tuple(sorted(row["isr"])))
        if window.begin <= row["us"] < window.end:
            course.shrinks += bool(row["before"] - row["isr"])
            course.expands += bool(row["isr"] - row["before"])
    for row in measure(events, facts, window.begin, window.end):
        setattr(found[place_of(row)], row["measure"], row["us"])
    return found


def _unknown(events: pa.Table, facts: Facts) -> dict[Place, str]:
    """By partition why nothing is estimated, empty where something is: by the levels of its facts, and its gaps."""
    rows = rows_of(
        """
        SELECT cluster, topic, partition, min(f.level) AS level, bool_or(coalesce(f.missing, false)) AS missing
        FROM (SELECT DISTINCT cluster, topic, partition FROM events WHERE partition >= 0) LEFT JOIN (
            SELECT cluster, topic, partition, level, false AS missing FROM partition_hw
            UNION ALL SELECT cluster, topic, partition, level, false FROM replica_sync
            UNION ALL SELECT cluster, topic, partition, NULL, true FROM telemetry_gaps WHERE kind IN ('gap', 'reset')
        ) f USING (cluster, topic, partition) GROUP BY ALL""",
        events=events,
        partition_hw=facts.partition_hw,
        replica_sync=facts.replica_sync,
        telemetry_gaps=facts.telemetry_gaps,
    )
    found = {}
    for row in rows:
        level = "an unknown level" if row["level"] is None else f"level {row['level']}"
        why = "" if row["level"] == LEVEL else f"not known at {level}"
        found[place_of(row)] = "not known: telemetry is missing" if row["missing"] else why
    return found
