"""SQL for the state of a `gold/partition_health` row: its condition, the responsible brokers, whether it is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.lake.queries import instant, text
from pipelines.verdict.records import Condition
from pipelines.verdict.waits import LongerWait
from schemas.partition_health import ONE_OF, STALLED_MS

_IS = {
    Condition.OFFLINE: "offline",
    Condition.UNDER_MIN_ISR: "under_min_isr",
    Condition.HELD_BACK: f"stalled_ms > {STALLED_MS}",
    Condition.UNDER_REPLICATED: (
        "under_replicated OR (cardinality(ar) > 1 AND array_has_any(ar, unheard) AND "
        "NOT coalesce(array_has(unheard, leader_id), false))"
    ),
    Condition.OUT_OF_SYNC: "cardinality(out_of_sync) > 0",
}
_WHO = {
    Condition.OFFLINE: (
        "CASE WHEN cardinality(isr) > 0 THEN isr WHEN cardinality(ar) = 1 THEN ar ELSE array_intersect(ar, unheard) END"
    ),
    Condition.UNDER_MIN_ISR: "array_except(ar, isr)",
    Condition.HELD_BACK: "holding_replicas",
    Condition.UNDER_REPLICATED: "array_distinct(array_concat(array_except(ar, isr), array_intersect(ar, unheard)))",
    Condition.OUT_OF_SYNC: "out_of_sync",
}
_ONE_OF = f"condition = '{Condition.HELD_BACK.name}' AND {ONE_OF}"
_UNSAID = f"leader_id IS NULL OR (condition = '{Condition.IN_SYNC.name}' AND under_replicated IS NULL)"
"""Who leads, who is in sync, or whether a replica is missing, was never reported."""


@dataclass(frozen=True)
class Quiet:
    """A broker that has reported nothing since; None: of all brokers of the cluster, and of those that led nobody."""

    cluster: str
    broker_id: int | None
    since: datetime | None = None
    unheard: bool = False
    """It does not answer a watcher: what has a replica there is at risk."""


def standing(where: str, quiet: Iterable[Quiet], waits: Iterable[LongerWait] = ()) -> str:
    """The query for the rows that match, each with `condition`, `rank`, `who` (broker ids), `one_of` and `unknown`.

    `who` is of what is not known the leader that reports nothing. What a quiet broker led is known where somebody
    else spoke of it since. `one_of`: samples leave several that may hold the HW back. `stalled_ms` is as long as
    `waits` says.
    """
    quiet = list(quiet)
    dead: dict[str, list[int]] = {}
    for one in quiet:
        if one.unheard and one.broker_id is not None:
            dead.setdefault(one.cluster, []).append(one.broker_id)
    unheard = " ".join(f"WHEN cluster = {text(name)} THEN {_ids(brokers)}" for name, brokers in dead.items())
    rows = (
        f"SELECT *, {f'CASE {unheard} ELSE {_ids([-1])} END' if dead else _ids([-1])} AS unheard "
        f"FROM {_with_waits(waits)} WHERE {where}"
    )
    conditions = " ".join(f"WHEN {sql} THEN '{one.name}'" for one, sql in _IS.items())
    ranks = " ".join(f"WHEN '{one.name}' THEN {rank}" for rank, one in enumerate(_IS))
    who = " ".join(f"WHEN '{one.name}' THEN array_to_string(array_sort({sql}), ',')" for one, sql in _WHO.items())
    stands = f"SELECT *, CASE {conditions} ELSE '{Condition.IN_SYNC.name}' END AS condition FROM ({rows})"
    silent = " OR ".join(map(_silent, quiet)) or "false"
    said = (
        f"SELECT *, CASE WHEN {_UNSAID} THEN '' WHEN {silent} THEN cast(leader_id AS string) END AS silent_leader "
        f"FROM ({stands})"
    )
    return (
        f"SELECT *, CASE condition {ranks} ELSE {len(_IS)} END AS rank, silent_leader IS NOT NULL AS unknown, "
        f"coalesce(silent_leader, CASE condition {who} END, '') AS who, coalesce({_ONE_OF}, false) AS one_of "
        f"FROM ({said})"
    )


def _with_waits(waits: Iterable[LongerWait]) -> str:
    """The table, in which records wait for as long as is known."""
    longer = " ".join(
        f"WHEN cluster = {text(one.cluster)} AND topic = {text(one.topic)} "
        f"AND partition IN ({', '.join(map(str, one.partitions))}) THEN {one.longer_ms}"
        for one in waits
    )
    return (
        f"(SELECT * EXCEPT (stalled_ms), stalled_ms + CASE {longer} ELSE 0 END AS stalled_ms FROM t)" if longer else "t"
    )


def _ids(brokers: Sequence[int]) -> str:
    return f"arrow_cast([{', '.join(map(str, brokers))}], 'List(Int32)')"


def _silent(quiet: Quiet) -> str:
    cluster = f"cluster = {text(quiet.cluster)}"
    if quiet.broker_id is None:
        return f"({cluster})"
    led = f"{cluster} AND leader_id = {quiet.broker_id}"
    return f"({led})" if quiet.since is None else f"({led} AND last_event_ts <= {instant(quiet.since)})"
