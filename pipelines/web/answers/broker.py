"""One broker, or all of a cluster: what they lead and follow, whom they hold back, and how that went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pipelines.charts.counts import Panel, Value, counts_chart
from pipelines.charts.style import Spec
from pipelines.errors import UsageError
from pipelines.lake.queries import Row, View
from pipelines.verdict import judged, sentences
from pipelines.verdict.known import UnknownNameError
from pipelines.web.answers.common import Sentence, columns_of, rows, sentences_of, standings, surveyed, timed, verdicts
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import broker_lag, broker_minute, brokers, partition_health
from schemas.declaration import Table

FEW = 30
POINTS = 300
"""Minutes or intervals that a chart shows; more are thinned to the worst of each piece."""

_FROM_PARTITIONS = """
SELECT broker_id, sum(leads) AS led, count(*) - sum(leads) AS followed, sum(CASE WHEN isr IS NULL THEN 0 WHEN
  array_has(isr, broker_id) THEN 0 ELSE 1 END) AS outside_isr,
  sum(CASE WHEN array_has(out_of_sync, broker_id) THEN 1 ELSE 0 END) AS out_of_sync,
  sum(CASE WHEN stalled_ms > 10000 AND array_has(holding_replicas, broker_id)
    AND NOT coalesce({one_of}, false) THEN 1 ELSE 0 END) AS holds_back
FROM (SELECT *, CASE WHEN broker_id = leader_id THEN 1 ELSE 0 END AS leads
  FROM (SELECT unnest(ar) AS broker_id, leader_id, isr, out_of_sync, stalled_ms, holding_replicas, level
    FROM t WHERE {where}))
GROUP BY broker_id ORDER BY broker_id
"""


@dataclass(frozen=True)
class BrokerAnswer:
    """The brokers of a cluster, and of the one asked for what it leads or follows that is in trouble."""

    cluster: str
    broker: int | None
    verdict: Sequence[Sentence]
    brokers: Sequence[Row]
    complete: bool
    partitions: Sequence[Row]
    more_partitions: int


def broker(reader: Reader, asked: Asked) -> BrokerAnswer:
    """The view at this moment. Raises UsageError where no cluster is named, UnknownNameError for no such broker."""
    asked = replace(asked, cluster=_cluster(reader, asked), topic=None, partition=None)
    with timed(asked, "brokers"):
        found, complete = _brokers(reader, asked)
    if asked.broker is not None and asked.broker not in {row["broker_id"] for row in found}:
        known = ", ".join(str(row["broker_id"]) for row in found[:8])
        raise UnknownNameError(f"cluster {asked.cluster} has no broker {asked.broker}; known: {known or 'none'}")
    with timed(asked, "partitions"):
        concerned, matching = _concerned(reader, asked)
    shown = [row for row in found if asked.broker in (None, row["broker_id"])]
    said = sentences_of(verdicts(reader, asked))
    name = asked.cluster or ""
    return BrokerAnswer(name, asked.broker, said, shown, complete, concerned, matching - len(concerned))


def chart(reader: Reader, asked: Asked) -> Spec | None:
    """Lags and counts of the broker over time, or of every broker of the cluster; None where none are known."""
    asked = replace(asked, cluster=_cluster(reader, asked), topic=None, partition=None)
    panels = [
        Panel("lag, offsets", _values(reader, asked, broker_lag.TABLE, "ts", "lag_records")),
        Panel("largest lag of what it leads", _values(reader, asked, broker_minute.TABLE, "minute", "max_lag_records")),
        Panel("most under-replicated", _values(reader, asked, broker_minute.TABLE, "minute", "under_replicated_max")),
        Panel("append to HW p99, ms", _values(reader, asked, broker_minute.TABLE, "minute", "append_to_hw_p99_ms")),
    ]
    if not any(panel.values for panel in panels):
        return None
    return reader.answer(("broker chart", asked), lambda _: counts_chart(panels))


def _cluster(reader: Reader, asked: Asked) -> str:
    found = surveyed(reader, replace(asked, topic=None, partition=None)).records
    if asked.cluster is None and len(found) != 1:
        names = ", ".join(record.cluster for record in found[:8]) or "none yet"
        raise UsageError(f"brokers are those of one cluster: add cluster=, one of {names}")
    return asked.cluster or found[0].cluster


def _brokers(reader: Reader, asked: Asked) -> tuple[list[Row], bool]:
    """From gold/brokers; of a lake without it from the partitions, which know neither racks nor states."""
    where = asked.wanted.where(View(brokers.TABLE, "ts", ""))
    found = rows(reader, brokers.TABLE, f"SELECT * FROM t WHERE {where} ORDER BY broker_id")
    if found:
        return found, True
    place = asked.wanted.where(View(partition_health.TABLE, "last_event_ts", ""))
    return rows(
        reader, partition_health.TABLE, _FROM_PARTITIONS.format(where=place, one_of=partition_health.ONE_OF)
    ), False


def _concerned(reader: Reader, asked: Asked) -> tuple[list[Row], int]:
    """The partitions in trouble that the broker leads, or for which it is the cause; of all where none is asked for."""
    mine = f"leader_id = {asked.broker} OR array_has(string_to_array(who, ','), '{asked.broker}')"
    where = "(rank < 5 OR unknown)" + (f" AND ({mine})" if asked.broker is not None else "")
    order = f"ORDER BY CASE WHEN unknown THEN 1.5 ELSE rank END, topic, partition LIMIT {FEW}"
    found = standings(reader, asked, "*, count(*) OVER () AS matching", where, order)
    over = any(judged.ended(record) for record in surveyed(reader, asked).records)
    return [row | {"sentence": sentences.partition(row, ended=over)} for row in found], found[0][
        "matching"
    ] if found else 0


def _values(reader: Reader, asked: Asked, table: Table, time: str, column: str) -> list[Value]:
    """The largest of each piece of the time asked for; of many brokers those that reach highest."""
    if column not in columns_of(reader, table):
        return []
    since = surveyed(reader, asked).wanted
    where = f"{since.where(View(table, time, ''))} AND {column} IS NOT NULL AND broker_id >= 0"
    where += "" if asked.broker is None else f" AND broker_id = {asked.broker}"
    ends = rows(reader, table, f"SELECT min({time}) AS first, max({time}) AS last FROM t WHERE {where}")[0]
    if ends["first"] is None:
        return []
    step = max(1, int((ends["last"] - ends["first"]) / timedelta(milliseconds=1)) // POINTS)
    binned = f"date_bin(interval '{step} milliseconds', {time})"
    most = f"SELECT broker_id FROM t WHERE {where} GROUP BY broker_id ORDER BY max({column}) DESC, broker_id LIMIT 8"
    sql = (
        f"SELECT broker_id, {binned} AS ts, max({column}) AS number FROM t WHERE {where} AND broker_id IN ({most}) "
        f"GROUP BY broker_id, {binned} ORDER BY broker_id, ts"
    )
    return [Value(row["ts"], f"broker {row['broker_id']}", row["number"]) for row in rows(reader, table, sql)]
