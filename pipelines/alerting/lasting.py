"""States that must last before they are reported: offline, under min ISR, at risk, out of sync."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition, counted_partitions, items, missing_brokers, partition
from pipelines.alerting.evidence import PLACE
from pipelines.alerting.restarts import firing_time, quiet_for
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, LastingSettings, Seconds
from pipelines.verdict.present import gone
from pipelines.verdict.records import Condition as Standing
from pipelines.verdict.records import State
from pipelines.verdict.words import brokers, listed
from schemas.event_types import TOPIC_DELETED
from schemas.levels import POLLED
from schemas.replication_events import WATCHER

# From marks (who, ts, rank, wrong, missing, reason): of one instant the highest rank counts, and what was known of it
# before, which says who is missing by rows that may be gone; repeats do not, and a spell lasts from a wrong mark to the
# next right one, until the topic is deleted, which controllers alone tell, or until the first event of a new topic of
# that name. That nothing is reported of a partition ends nothing: there are no events where nobody leads, or every
# append is refused.
_SPELLS = """
, carried_marks AS (
  SELECT *, false AS known FROM marks
  UNION ALL SELECT {who}, p.ts, p.rank, true, p.missing, p.reason, true FROM carried AS p WHERE rule = $rule
  UNION ALL SELECT {who}, p.ended, -2, false, p.missing, p.reason, true FROM carried AS p
  WHERE rule = $rule AND ended IS NOT NULL
), instants AS (
  SELECT * FROM carried_marks QUALIFY row_number() OVER (PARTITION BY who, ts ORDER BY rank DESC, known DESC) = 1
), turns AS (
  SELECT * FROM instants QUALIFY wrong IS DISTINCT FROM lag(wrong) OVER (PARTITION BY who ORDER BY ts)
), spells AS (
  SELECT *, lead(ts) OVER (PARTITION BY who ORDER BY ts) AS turned FROM turns
), first_reported AS (
  SELECT cluster, topic, topic_id, partition, min(ts) AS ts FROM leaderships GROUP BY ALL
), gone AS (
  SELECT h.cluster, h.topic, h.partition, h.topic_id, h.ar AS assigned, h.isr, h.level,
    $rule = 'at_risk' AND (coalesce(h.offline, false) OR coalesce(h.under_min_isr, false)) AS worse,
    coalesce(f.ts, h.last_event_ts) AS replaced
  FROM health AS h LEFT JOIN first_reported AS f USING (cluster, topic, topic_id, partition)
), deleted AS (
  SELECT cluster, topic, topic_id, ts FROM leaderships WHERE detail = '{deleted}' AND committed
), told_before AS (
  SELECT {who} AS who, p.ts, true AS told, p.lasting FROM carried AS p WHERE rule = $rule AND ended IS NULL
), rounds AS (
  SELECT cluster, max(holds_s) AS two_rounds_s FROM reported WHERE starts_with(source_id, '{watcher}') GROUP BY cluster
), lasted AS (
  SELECT spells.*, who.cluster AS cluster, clock, g.cluster IS NOT NULL AS judged,
    assigned, g.isr AS isr, level, worse, coalesce(turned, (
      SELECT min(greatest(d.ts, spells.ts)) FROM deleted AS d WHERE d.cluster = who.cluster AND d.topic = who.topic
      AND CASE WHEN d.topic_id IS NULL THEN d.ts >= spells.ts OR g.cluster IS NULL ELSE d.topic_id = who.topic_id END
    ), CASE
    WHEN g.topic_id <> who.topic_id AND who.topic_id <> '' THEN greatest(replaced, spells.ts)
    WHEN b.state = 'unregistered' THEN greatest(b.state_ts, spells.ts) END) AS ended
  FROM spells LEFT JOIN clock ON clock.cluster = who.cluster
  LEFT JOIN gone AS g ON g.cluster = who.cluster AND g.topic = who.topic AND g.partition = who.partition
  LEFT JOIN brokers AS b ON b.cluster = who.cluster AND b.broker_id = who.replica AND $rule = 'out_of_sync'
)
SELECT who.cluster, who.topic, who.topic_id, who.partition, who.replica, ts AS first, rank, missing, reason, assigned,
  isr, CASE WHEN level = {polled} THEN coalesce(two_rounds_s, 0) ELSE 0 END AS two_rounds_s,
  coalesce(ended, greatest(clock, ts)) AS last, ended IS NULL AS open,
  ended IS NULL AND who.cluster IN (SELECT cluster FROM ended_recordings) AS over,
  who.cluster IN (FROM closed) AS closed, judged,
  coalesce(told, false) AS told, lasting
FROM lasted LEFT JOIN rounds USING (cluster) LEFT JOIN told_before USING (who, ts)
WHERE wrong AND CASE WHEN ended IS NULL THEN told OR NOT coalesce(worse, false)
  ELSE ended - ts >= least($lasting, lasting) AND (told OR who.replica < 0 OR NOT coalesce(worse, false)) END
ORDER BY ALL
"""
AGAIN, TWICE = 0.49, 0.75
"""Shares of the time of two rounds: a state that holds was seen by the next round; one that is over, by two rounds."""
_REPLICA = (
    "{'cluster': p.cluster, 'topic': p.topic, 'topic_id': coalesce(p.topic_id, ''), 'partition': p.partition, "
    "'replica': %s}"
)
_WHO = _REPLICA % "-1"
_OF_PLACE = _REPLICA.replace("p.", "who.") % "replica"
SPELLS = _SPELLS.format(who=_REPLICA % "p.replica", watcher=WATCHER, polled=POLLED, deleted=TOPIC_DELETED)
_SAME = (
    "p.cluster = h.cluster AND p.topic = h.topic AND p.topic_id IS NOT DISTINCT FROM h.topic_id "
    "AND p.partition = h.partition"
)

# A leader epoch is one change of leader, whoever reported it and however often; epochs give the order. Who is
# missing is the ISR that stayed behind, else who led last. The present state counts where there is nothing else.
_OUT = "CASE WHEN len({0}.isr) > 0 OR len({0}.ar) <> 1 THEN {0}.isr ELSE {0}.ar END"
"""Brokers that must come back to a partition without a leader: with eligible leader replicas its ISR may be empty."""
_NO_LEADER = f"""
WITH epochs AS (
  SELECT cluster, topic, topic_id, partition, leader_epoch, min(ts) AS ts, max(leader_id) AS leader_id
  FROM leaderships WHERE leader_id IS NOT NULL AND leader_epoch IS NOT NULL GROUP BY ALL
), led AS (
  SELECT *, max(ts) OVER epochs AS at, last_value(nullif(leader_id, -1) IGNORE NULLS) OVER epochs AS last_leader
  FROM epochs WINDOW epochs AS (PARTITION BY cluster, topic, topic_id, partition ORDER BY leader_epoch)
), marks AS (
  SELECT {_WHO} AS who, p.at AS ts, p.leader_epoch AS rank, p.leader_id < 0 AS wrong,
    CASE WHEN h.offline AND len(h.isr) > 0 OR p.last_leader IS NULL
      THEN {_OUT.format("h")} ELSE [p.last_leader] END AS missing,
    '' AS reason
  FROM led AS p LEFT JOIN health AS h ON {_SAME}
  WHERE NOT EXISTS (
    SELECT 1 FROM carried AS c WHERE c.rule = 'offline' AND c.rank > p.leader_epoch AND c.cluster = p.cluster
      AND c.topic = p.topic AND c.partition = p.partition AND c.topic_id = coalesce(p.topic_id, ''))
  UNION ALL
  SELECT {_WHO}, p.last_event_ts, -1, p.offline, CASE WHEN len({_OUT.format("p")}) > 0 THEN {_OUT.format("p")} ELSE
      (SELECT [last(h.last_leader ORDER BY h.leader_epoch)] FROM led AS h WHERE {_SAME}) END, '' FROM health AS p
  WHERE p.offline IS NOT NULL AND p.last_event_ts IS NOT NULL
)"""

# The replicas assigned to a partition, since when, and those before.
_ASSIGNED = f"""assigned AS (
  SELECT who, one.replicas AS ar, lag(one.replicas) OVER of_one AS before,
    CASE WHEN before IS NULL THEN 0 ELSE epoch_us(one.since) END AS ts
  FROM (
    SELECT {_WHO} AS who, unnest(coalesce(assignments, [{{'since': NULL, 'replicas': ar}}])) AS one FROM health AS p)
  WINDOW of_one AS (PARTITION BY who ORDER BY one.since)
)"""

# Changes of an ISR are ordered by partition epoch, as the clocks of leaders differ; polled changes have no epoch and
# are ordered by the watcher's clock.
_CHANGES = f"""changes AS (
  SELECT *, {_WHO} AS who FROM isr AS p WHERE %s
  QUALIFY row_number() OVER (PARTITION BY who, ts, partition_epoch ORDER BY revision DESC) = 1
)"""
_IN_ORDER = "max(ts) OVER (PARTITION BY who, partition_epoch IS NULL ORDER BY partition_epoch, ts)"

# A replica that leaves the ISR of a frozen partition is no freeze: it has marks of its own, or it would be told by the
# name of the first one, which a downtime may explain.
_FROZEN = f"""
WITH {_ASSIGNED}, of_partitions AS (
  SELECT p.who, p.ts, CASE p.kind WHEN 'term_start' THEN 0 ELSE 1 END AS rank,
    CASE p.kind WHEN 'freeze' THEN true WHEN 'thaw' THEN false ELSE p.frozen END AS wrong,
    list_sort(list_filter(h.ar, lambda r: NOT list_contains(p.isr, r))) AS missing, isr
  FROM (SELECT *, {_WHO} AS who FROM min_isr AS p) AS p ASOF LEFT JOIN assigned AS h ON p.who = h.who AND p.ts >= h.ts
  WHERE p.kind IN ('freeze', 'thaw') OR (p.kind = 'term_start' AND p.frozen IS NOT NULL)
), told AS (
  SELECT * FROM carried WHERE rule = $rule AND replica < 0
), freezes AS (
  SELECT * FROM of_partitions
  UNION ALL SELECT {_WHO}, p.ts, -2, true, p.missing, NULL FROM told AS p
  UNION ALL SELECT {_WHO}, p.ended, -2, false, NULL, NULL FROM told AS p WHERE ended IS NOT NULL
), {_CHANGES % f"{_WHO} IN (SELECT who FROM freezes WHERE wrong)"}, thinned AS (
  SELECT who, {_IN_ORDER} AS ts, isr_after AS isr, isr_before AS before FROM changes
), moments AS (
  SELECT who, ts, rank, isr, coalesce(before, lag(isr IGNORE NULLS) OVER earlier) AS before,
    last_value(wrong IGNORE NULLS) OVER earlier AS wrong, last_value(missing IGNORE NULLS) OVER earlier AS missing
  FROM (
    SELECT *, NULL AS before FROM freezes UNION ALL
    SELECT p.who, p.ts, -1, NULL, list_filter(h.ar, lambda r: NOT list_contains(p.isr, r)), p.isr, p.before
    FROM thinned AS p ASOF JOIN assigned AS h ON p.who = h.who AND p.ts >= h.ts)
  WINDOW earlier AS (PARTITION BY who ORDER BY ts, rank)
), of_replicas AS (
  SELECT DISTINCT who, unnest(list_filter(before, lambda r: NOT list_contains(isr, r))) AS replica
  FROM (SELECT *, lag(wrong) OVER (PARTITION BY who ORDER BY ts, rank) AS was FROM moments) WHERE wrong AND was
  UNION SELECT {_WHO}, replica FROM carried AS p WHERE rule = $rule AND replica >= 0
), marks AS (
  SELECT who, ts, rank, wrong, missing, '' AS reason FROM of_partitions
  UNION ALL
  SELECT {_OF_PLACE}, ts, rank, coalesce(wrong AND list_contains(missing, replica), false), [replica], ''
  FROM moments JOIN of_replicas USING (who)
)"""

# A term starts with its leader and the rest of its ISR caught up. From then on the leader before says nothing of
# others: frozen, it does not know, and tells as it wakes that nobody fetched. Within one instant of one term a replica
# gets out of sync before it is back.
_BEHIND = f"""
WITH terms AS (
  SELECT *, {_WHO} AS place FROM min_isr AS p WHERE kind = 'term_start'
), marks AS (
  SELECT {_REPLICA % "p.replica_id"} AS who, p.ts,
    1 + 2 * coalesce(p.leader_epoch, 0) + (p.state <> 'out_of_sync')::INT AS rank, p.state = 'out_of_sync' AS wrong,
    [p.replica_id] AS missing, p.reason
  FROM (SELECT *, {_WHO} AS place FROM sync AS p) AS p ASOF LEFT JOIN terms AS t ON p.place = t.place AND p.ts >= t.ts
  WHERE coalesce(p.leader_epoch >= t.leader_epoch, true)
  UNION ALL
  SELECT {_REPLICA % "replica"}, p.ts, 0, false, NULL, NULL
  FROM (SELECT *, unnest([leader_id] || coalesce(isr, [])) AS replica FROM terms) AS p WHERE replica IS NOT NULL
)"""


# A committed ISR that lacks a replica assigned at that time. An ISR that never changed is taken from starts of terms
# and from its present state. A replica added by a reassignment counts once it has been in the ISR. Partitions offline
# or under min ISR now are left to those rules, unless they were told before.
# There are marks of each replica, too, that leaves while another one is away.
_LESS = f"""
WITH {_CHANGES % "true"}, isrs AS (
  SELECT who, {_IN_ORDER} AS ts, coalesce(partition_epoch, 0) AS rank,
    isr_after AS isr, coalesce(isr_before, []) || isr_after AS been FROM changes
  UNION ALL
  SELECT {_WHO} AS who, ts, -1, isr, isr FROM min_isr AS p
  WHERE kind = 'term_start' AND NOT EXISTS (FROM changes AS c WHERE c.who = {_WHO})
  UNION ALL SELECT {_WHO}, last_event_ts, -2, isr, isr FROM health AS p WHERE last_event_ts IS NOT NULL
), {_ASSIGNED}, adding AS (
  SELECT who, ts, replica, (
    SELECT min(p.ts) FROM isrs AS p WHERE p.who = h.who AND p.ts >= h.ts AND list_contains(p.been, replica)) AS until
  FROM (SELECT *, unnest(list_filter(ar, lambda r: NOT list_contains(before, r))) AS replica FROM assigned) AS h
), moments AS (
  SELECT who, ts, rank, last_value(isr IGNORE NULLS) OVER (PARTITION BY who ORDER BY ts, rank) AS isr
  FROM (SELECT who, ts, rank, isr FROM isrs UNION ALL SELECT who, ts, -3, NULL FROM assigned WHERE before IS NOT NULL)
), counted AS (
  SELECT p.*, ar, isr || coalesce((SELECT list(replica) FROM adding AS a
    WHERE a.who = p.who AND a.ts <= p.ts AND coalesce(until > p.ts, true)), []) AS fine
  FROM moments AS p ASOF JOIN assigned AS h ON p.who = h.who AND p.ts >= h.ts WHERE isr IS NOT NULL
), of_partitions AS (
  SELECT who, ts, rank, len(ar) > 1 AND NOT list_has_all(fine, ar) AS wrong,
    list_sort(list_filter(ar, lambda r: NOT list_contains(fine, r))) AS missing, '' AS reason FROM counted
), of_replicas AS (
  SELECT DISTINCT who, unnest(list_filter(missing, lambda r: NOT list_contains(before, r))) AS replica FROM (
    SELECT *, lag(CASE WHEN wrong THEN missing END) OVER (PARTITION BY who ORDER BY ts, rank) AS before FROM (
      SELECT who, ts, rank, wrong, missing FROM of_partitions
      UNION ALL SELECT {_WHO}, ts, -4, true, missing FROM carried AS p WHERE rule = 'at_risk' AND replica < 0))
  WHERE wrong AND before IS NOT NULL
  UNION SELECT {_WHO}, replica FROM carried AS p WHERE rule = 'at_risk' AND replica >= 0
), marks AS (
  FROM of_partitions
  UNION ALL
  SELECT {_OF_PLACE}, ts, rank, wrong AND list_contains(missing, replica), [replica], ''
  FROM of_partitions JOIN of_replicas USING (who)
)"""


@dataclass(frozen=True, config=STRICT)
class OfflineSettings(LastingSettings):
    """Fires at once; after `one_replica_s` seconds for a partition of one replica, and in a closed recording.

    Any restart takes a single replica away, and the brokers of a recording may have been stopped at its end. A
    partition that was not judged yet may have one replica.
    """

    for_s: Seconds = 0
    one_replica_s: Seconds = 300


def _lasting(marks: str) -> Callable[[str, LastingSettings, Evaluation], Iterator[Condition]]:
    """The states of these marks that lasted long enough; times in microseconds."""

    def conditions(name: str, settings: LastingSettings, evaluation: Evaluation) -> Iterator[Condition]:
        alone = getattr(settings, "one_replica_s", settings.for_s)
        least = min(settings.for_s, alone) * SECOND
        for row in _own(evaluation.ask(marks + SPELLS, lasting=least, rule=name)):
            maybe_alone = len(row["assigned"] or ()) == 1 or row["closed"] or not row["judged"]
            lasts = (alone if maybe_alone else settings.for_s) * SECOND
            two_rounds = row.pop("two_rounds_s") * SECOND
            if not row["open"] and row["last"] - row["first"] < round(TWICE * two_rounds) and not row["told"]:
                continue
            lasts = max(lasts, round(AGAIN * two_rounds))
            quiet = quiet_for(evaluation.restarts, row["cluster"], row["missing"] or ())
            fires = firing_time(row["first"], lasts, quiet)
            row["lasting"] = least_of(lasts, row["lasting"])
            told = row.pop("told") and (row["open"] or row["last"] - row["first"] >= row["lasting"])
            condition = _condition(name, row, min(fires, row["last"]) if told else fires)
            if condition.fires <= condition.last or condition.waits:
                yield condition

    return conditions


def _own(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows but for those of replicas that were missing as their partition's own state began."""
    each = defaultdict[tuple[Any, ...], list[dict[str, Any]]](list)
    for row in rows:
        each[tuple(row[name] for name in PLACE)].append(row)
    for same in each.values():
        others = [row | {"handed_over": False} for row in same if row["replica"] >= 0]
        whole = [row | {"handed_over": _is_handed_over(row, others)} for row in same if row["replica"] < 0]
        yield from whole
        yield from (row for row in others if not any(_began_with(row, one) for one in whole))


def _is_handed_over(whole: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all that a partition's state names came back since, and another one that holds it was told."""
    named = {*(whole["missing"] or ())}
    again = {one["replica"] for one in others if one["open"] and one["first"] > whole["first"]}
    told = {one["replica"] for one in others if one["open"] and one["told"]}
    return bool(named and told - named) and named <= {*(whole["isr"] or ()), *again}


def _began_with(row: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Whether a replica is missing since its partition's state began, or that state names it."""
    later = whole["handed_over"] and row["first"] > whole["first"]
    within = whole["first"] <= row["first"] <= whole["last"]
    return bool(within and not later and row["replica"] in (whole["missing"] or ()))


def least_of(lasts: int, earlier: int | None) -> int:
    """Return the least time after which a state was reported, by other evaluators, too."""
    return lasts if earlier is None else min(lasts, earlier)


def _condition(rule: str, row: Mapping[str, Any], fires: int) -> Condition:
    cause = brokers(row["missing"] or ())
    return Condition(
        rule, row["cluster"], cause, cause, partition(row), row["first"], fires, row["last"], row["last"],
        row["open"] and not row["over"] and not row["handed_over"], {**row, "missing": row["missing"] or ()},
    )  # fmt: skip


def _sentence(standing: Standing, state: State | None = None) -> Callable[[Sequence[Condition]], str]:
    def sentence(conditions: Sequence[Condition]) -> str:
        who = gone(standing, missing_brokers(conditions), counted_partitions(conditions))
        if any(c.facts["over"] for c in conditions):
            begins = f"recording ended, {state.value if state else standing.value} then: "
        else:
            begins = f"{state.value}: " if state else ""
        return f"{begins}{who}: {listed(items(conditions))}"

    return sentence


def _out_of_sync(conditions: Sequence[Condition]) -> str:
    sentence = _sentence(Standing.OUT_OF_SYNC)(conditions)
    behind = all(c.facts["reason"] == "behind" for c in conditions)
    return sentence.replace(" gone: ", " behind: ", 1) if behind else sentence


def _at_risk(conditions: Sequence[Condition]) -> str:
    who, partitions = brokers(missing_brokers(conditions)), counted_partitions(conditions)
    begins = "recording ended, " if any(c.facts["over"] for c in conditions) else ""
    have = "has" if len(items(conditions)) == 1 else "have"
    return (
        f"{begins}{State.AT_RISK.value}: {who} out of the ISR: {partitions} {have} a replica less to count on: "
        f"{listed(items(conditions))}"
    )


RULES = (
    AlertRule(
        "offline",
        OfflineSettings(severity="critical"),
        _lasting(_NO_LEADER),
        _sentence(Standing.OFFLINE, State.OFFLINE),
        ("leaderships", "health"),
        About.BROKERS,
        look="health",
    ),
    AlertRule(
        "under_min_isr",
        LastingSettings(severity="critical"),
        _lasting(_FROZEN),
        _sentence(Standing.UNDER_MIN_ISR, State.UNDER_MIN_ISR),
        ("min_isr", "health"),
        About.BROKERS,
        look="health",
    ),
    AlertRule(
        "at_risk",
        LastingSettings(for_s=600),
        _lasting(_LESS),
        _at_risk,
        ("isr", "min_isr", "health"),
        About.BROKERS,
    ),
    AlertRule(
        "out_of_sync",
        LastingSettings(for_s=600, group_s=0),
        _lasting(_BEHIND),
        _out_of_sync,
        ("sync", "min_isr"),
        About.BROKERS,
        look="sync",
    ),
)
