"""Facts for the gate from a lake: `gold/partition_health` and `gold/brokers`, if they are fresh and judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipelines.errors import UsageError, nearest
from pipelines.gate.facts import NOBODY, Brokers, Facts, PartitionFacts, chosen
from pipelines.lake import lags
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row, query, text
from pipelines.verdict import Limits, State, words
from pipelines.verdict.collect import survey
from pipelines.verdict.judged import Judged, judged
from pipelines.verdict.known import refuse_unknown
from pipelines.verdict.last_copies import last_copies
from pipelines.verdict.records import ClusterRecord
from pipelines.verdict.sources import DOWN
from schemas import brokers, partition_health
from schemas.levels import FULL, LEAN, POLLED, STOCK
from schemas.partition_health import STALLED_MS

AWAY = ("no_answer", "fenced", "down", "unregistered")
"""States of brokers that are stopped already, as far as can be told."""
ASK = "--bootstrap HOST:PORT asks the cluster itself"
UNTOLD_MIN_ISR = f"its min.insync.replicas is not known: [rules] min_isr sets it, {ASK}"


@dataclass(frozen=True)
class Asked:
    """The question to the gate: cluster, brokers, the greatest age of facts, and whether controllers are separate."""

    cluster: str | None
    brokers: tuple[int, ...]
    rack: str | None
    max_age: timedelta
    controllers_apart: bool = False


def read(lake: Lake, asked: Asked, limits: Limits, now: datetime) -> Facts:
    """Read the facts about a cluster at `now` of the wall clock. Raises UsageError for one not in the lake."""
    record = _cluster(lake, asked.cluster, limits, now)
    seen = judged(record, limits, now)
    known = lags.present_brokers(lake, record.cluster)
    as_of = max((row["ts"] for row in known if row["ts"] is not None), default=None)
    stale = _stale(seen, as_of, asked.max_age, now)
    opened = lake.find(partition_health.TABLE)
    if not known or opened is None:
        missing = lags.not_yet(lake, brokers.TABLE) or stale
        return Facts(record.cluster, frozenset(asked.brokers), (), None, "gold", stale=missing, notes=(seen.text,))
    stopped, doubts = chosen({row["broker_id"]: row["rack"] for row in known}, asked.brokers, asked.rack)
    reported = {row["broker_id"]: row["last_reported_ts"] for row in known}
    down = frozenset(row["broker_id"] for row in known if row["state"] in (*DOWN, *AWAY))
    doubted = frozenset(row["broker_id"] for row in known if (row["state"], row["witness"]) == ("unknown", "log"))
    hosted = query(opened, f"SELECT * FROM t WHERE cluster = {text(record.cluster)} AND {_hosted(stopped)}")
    judged_rows = ((row, partition(row, down, doubted)) for row in hosted)
    partitions = tuple(_fresh(one, row["leader_id"], reported, now - asked.max_age) for row, one in judged_rows)
    return Facts(
        record.cluster, stopped, partitions, as_of, "gold", controllers_apart=asked.controllers_apart, stale=stale,
        unknown=doubts, notes=(seen.text, *(one.text(lake.root) for one in last_copies(lake, Filter(record.cluster)))),
        down=frozenset(row["broker_id"] for row in known if row["state"] in AWAY),
    )  # fmt: skip


def partition(row: Row, down: Brokers, doubted: Brokers = NOBODY) -> PartitionFacts:
    """The facts in a row of `gold/partition_health`.

    `down` are brokers that are fenced, shut down, or do not answer. The state of those in `doubted` is known only from
    a controller that another one had replaced.
    """
    leader = row["leader_id"]
    isr = None if row["isr"] is None else frozenset(row["isr"])
    behind = frozenset(row["out_of_sync"] or ()) | frozenset(row.get("behind") or ()) | down
    if (row["stalled_ms"] or 0) > STALLED_MS:
        behind |= frozenset(row["holding_replicas"] or ()) - {leader}
    told = row.get("level") not in (None, STOCK) and row["out_of_sync"] is not None
    blind = not told or row.get("behind", ()) is None
    why = _blind(row.get("level")) if blind else ""
    if leader in down:
        blind, why = True, f"its leader, broker {leader}, is down or stopping, and its successor has not told its ISR"
    return PartitionFacts(
        row["topic"], row["partition"],
        replicas=None if row["ar"] is None or row.get("ar_told") is False else frozenset(row["ar"]),
        isr=isr, leader=leader, min_isr=row.get("min_isr"),
        behind=behind, unsure=(isr or NOBODY) & doubted | ((isr or NOBODY) - {leader} if blind else NOBODY),
        unsure_why=f"{why}; {ASK}" if why else "", min_isr_why=UNTOLD_MIN_ISR,
    )  # fmt: skip


def _blind(level: int | None) -> str:
    """The reason why it is not known which replicas are caught up."""
    if level == POLLED:
        return "not every replica in its ISR answers, so nothing shows who is caught up"
    if level in (LEAN, FULL):
        return "its log begins inside this term, or has a gap, so not everyone's end is known"
    return f"at {words.level(level)} nothing shows who is caught up"


def _cluster(lake: Lake, name: str | None, limits: Limits, now: datetime) -> ClusterRecord:
    """The cluster that is named, or the only one. Raises UsageError."""
    found = survey(lake, Filter(name), limits.since, limits, now).records
    if name is not None and not found:
        refuse_unknown(lake, Filter(name))
    if len(found) > 1:
        names = [record.cluster for record in found]
        raise UsageError(f"{lake.root} has {len(found)} clusters: name one with --cluster; {nearest('', names)}")
    if not found:
        raise UsageError(f"{lake.root} holds no events yet; {ASK}")
    return found[0]


def _hosted(stopped: Iterable[int]) -> str:
    """SQL: partitions that these brokers host, or may."""
    numbers = ", ".join(map(str, sorted(stopped)))
    return f"(ar IS NULL OR array_has_any(ar, make_array({numbers})) OR array_has_any(isr, make_array({numbers})))"


def _fresh(
    facts: PartitionFacts, leader: int | None, reported: Mapping[int, datetime | None], oldest: datetime
) -> PartitionFacts:
    """The partition, unknown if its leader has reported nothing since `oldest`: only the leader knows its ISR."""
    if leader is None or leader < 0:
        return facts
    last = reported.get(leader)
    if last is not None and last >= oldest:
        return facts
    since = f"has reported nothing since {words.clock(last)}" if last else "reports nothing itself"
    return replace(facts, unknown=f"its leader, broker {leader}, {since}")


def _stale(seen: Judged, as_of: datetime | None, max_age: timedelta, now: datetime) -> str:
    """The reason why none of this can be relied on; empty if it can."""
    if seen.state is State.NOT_JUDGED:
        return f"{seen.text.split(';')[0]}: start `hwmark run`, or {ASK}"
    if as_of is None:
        return f"nothing of its brokers is known; {ASK}"
    if seen.ended:
        return f"its telemetry ended at {words.clock(as_of)}; {ASK}"
    if now - as_of > max_age:
        age = f"what is known is {words.span(now - as_of)} old, and --max-age allows {words.span(max_age)}"
        return f"{age}: are `hwmark ingest logs --follow` and `hwmark run` going? {ASK}"
    return ""
