"""Records that still wait at a watcher's newest round, which `run` may not have read yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Row, instant, select_rows, text
from pipelines.streaming.reconstruction import reconstruction
from pipelines.verdict.records import Source
from schemas import brokers, partition_health, replication_events
from schemas.levels import POLLED
from schemas.partition_health import STALLED_MS

LOOKED_AT = 2_000
"""If records of more partitions wait, all are judged as `run` left them, which is some seconds later."""
_JUDGED_TO = "SELECT cluster, broker_id, last_reported_ts FROM t WHERE last_reported_ts IS NOT NULL"
_WAITING = f"""
SELECT cluster, topic, partition, leader_id, leader_epoch, hw, holding_replicas, last_event_ts FROM t
WHERE level = {POLLED} AND stalled_ms > 0 AND stalled_ms <= {STALLED_MS} AND cardinality(holding_replicas) > 0
LIMIT {LOOKED_AT + 1}
"""


@dataclass(frozen=True)
class LongerWait:
    """Milliseconds for which the records of some partitions wait longer than `gold/partition_health` has it."""

    cluster: str
    topic: str
    partitions: tuple[int, ...]
    longer_ms: int


def longer_waits(lake: Lake, sources: Mapping[str, Iterable[Source]]) -> tuple[LongerWait, ...]:
    """Return what waited when `run` read it last, and goes on waiting at a later round of its leader.

    A record is held back only if it waits for STALLED_MS, and `run` reads less often than a watcher asks. Nothing is
    said of a partition of which the later rounds tell more than that records were appended.
    """
    waiting = select_rows(lake, partition_health.TABLE, _WAITING)
    if not waiting or len(waiting) > LOOKED_AT or _is_later_than_brokers(lake):
        return ()
    judged = {
        (r["cluster"], r["broker_id"]): r["last_reported_ts"] for r in select_rows(lake, brokers.TABLE, _JUDGED_TO)
    }
    later = {
        (cluster, one.broker_id): one.reported_to - judged[cluster, one.broker_id]
        for cluster, known in sources.items()
        for one in known
        if one.watched and (cluster, one.broker_id) in judged
    }
    waiting = [row for row in waiting if later.get((row["cluster"], row["leader_id"]), timedelta()) > timedelta()]
    told: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in select_rows(lake, replication_events.TABLE, _told_since(waiting)) if waiting else ():
        told[row["cluster"], row["topic"], row["partition"]].append(row)
    found: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for row in waiting:
        since = told[row["cluster"], row["topic"], row["partition"]]
        if goes_on(row, [one for one in since if one["ts"] > row["last_event_ts"]]):
            longer_ms = later[row["cluster"], row["leader_id"]] // timedelta(milliseconds=1)
            found[row["cluster"], row["topic"], longer_ms].append(row["partition"])
    return tuple(LongerWait(cluster, topic, tuple(found[cluster, topic, ms]), ms) for cluster, topic, ms in found)


def _is_later_than_brokers(lake: Lake) -> bool:
    """Whether the partitions are of a later batch of `run` than the brokers, which it commits one after the other."""
    query = reconstruction(lake).query
    if query is None or not lake.has_table(brokers.TABLE):
        return False
    batches = [lake.open(table).transaction_version(query) or 0 for table in (partition_health.TABLE, brokers.TABLE)]
    return batches[0] > batches[1]


def goes_on(waiting: Row, told: Collection[Row]) -> bool:
    """Whether a partition's oldest record that waits still waits, by the rows of bronze about it since.

    The rule is 7.5 of docs/kafka-rules.md: samples of the leader with the HW of before leave it waiting, and whoever
    held it back may have fetched it if its LEO changed to one above that HW. A leader's or an ISR's row ends it.
    """
    for row in told:
        leads = row["broker_id"] == waiting["leader_id"]
        same_term = row["leader_epoch"] == waiting["leader_epoch"] or (row["leader_epoch"] is None and not leads)
        if row["event_type"] != "sample" or not same_term:  # samples of followers have no epoch
            return False
        if leads and row["hw"] != waiting["hw"]:
            return False
        if row["broker_id"] in waiting["holding_replicas"] and (row["leo"] is None or row["leo"] > waiting["hw"]):
            return False
    return True


def _told_since(waiting: Collection[Row]) -> str:
    """The query for rows of these topics since the last rows of a partition that `run` has applied.

    What `run` has read and not applied, as it waits for other sources, is among them.
    """
    since: dict[str, datetime] = {}
    for row in waiting:
        since[row["cluster"]] = min(row["last_event_ts"], since.get(row["cluster"], row["last_event_ts"]))
    topics = ", ".join(sorted({text(row["topic"]) for row in waiting}))
    times = " OR ".join(f"(cluster = {text(cluster)} AND ts > {instant(ts)})" for cluster, ts in since.items())
    columns = "cluster, topic, partition, event_type, broker_id, leader_epoch, hw, leo, ts"
    return f"SELECT {columns} FROM t WHERE ({times}) AND topic IN ({topics})"
