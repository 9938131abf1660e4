"""`hwmark show loss --bootstrap`: which consumer groups read what is gone or was offline, asked of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from generators.cluster.asking.groups import Place
from generators.cluster.committed import Committed, ask_committed
from generators.cluster.watcher import WatchOptions
from pipelines.alerting.lookup import keep_groups, note_once
from pipelines.commands.show import tables
from pipelines.commands.show.command import Question
from pipelines.errors import UsageError, nearest
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, View, rows, select_rows
from pipelines.verdict.loss_rows import pick
from pipelines.verdict.lost_reads import LostRead, Read, lost_reads, offline_reads
from pipelines.verdict.words import NAMED, brokers, count, listed
from schemas import replication_events

Row = dict[str, Any]
NOBODY_ASKED = (
    "No loss is known there, nor a partition that is offline or was within a day: no group was asked for. "
    "`hwmark show verdict` says what was judged."
)
COLUMNS = ("topic_partition", "group", "committed", "log_end", "above_log_end", "lost_read", "what")
GROUP_REFUSED = 30
"""Kafka's error code GROUP_AUTHORIZATION_FAILED."""


def text(lake: Lake, asked: Question, options: WatchOptions, now: datetime) -> str:
    """The groups as a table, and what is not known of them; with --format json or csv the rows alone.

    Incidents keep the groups, with `now` of the wall clock. Raises UsageError, NotAnswering.
    """
    losses, offline = _losses(lake, asked), _offline(lake, asked, now)
    if not losses and not offline:
        return NOBODY_ASKED if asked.format == "table" else _as(asked, [])
    cluster = _only_cluster([*losses, *offline])
    lost, away = ({(row["topic"], row["partition"]) for row in rows_of} for rows_of in (losses, offline))
    answers = ask_committed(options, sorted(lost | away))
    same = [loss for loss in losses if not _recreated(loss, answers)]
    found = lost_reads(same, answers.log_ends, answers.groups.committed)
    waiting = offline_reads(away, answers.log_ends, answers.groups.committed)
    missing = [*_missing(answers, same), *_gone(losses, answers)]
    # A group that was not asked may read it, too: that nobody does is known only if all answered.
    known = [(places if read or not missing else set(), read) for places, read in ((lost, found), (away, waiting))]
    must_return = [*_who_must_return(answers.awaited)]
    kept = _keep(lake, cluster, known, must_return, now)
    found += waiting
    if asked.format != "table":
        return _as(asked, [_row(one) for one in found])
    lines = [*_lines(found[: asked.limit], len(found), missing), *([kept] if kept else [])]
    return "\n".join(
        [
            *must_return,
            *_stable(answers, ",".join(f"{host}:{port}" for host, port in options.bootstrap)),
            *lines,
        ]
    )


def _keep(
    lake: Lake, cluster: str, of: Sequence[tuple[set[Place], list[LostRead]]], must_return: Sequence[str], now: datetime
) -> str:
    """Keep the groups with the incidents that lost something, then with those that had something offline, and note for
    these which brokers must come back; the line about that. If they cannot be kept, the answer holds."""
    try:
        reads = [(places, [(one.topic, one.partition, one.group) for one in found]) for places, found in of]
        lost, offline = (keep_groups(lake, cluster, *each, now, lost=k == 0) for k, each in enumerate(reads))
        if must_return:
            note_once(lake, cluster, offline, "; ".join(must_return), now)
        kept = [*lost, *offline]
    except Exception as error:
        return f"not kept in ops/incidents: {' '.join(str(error).split())[:200]}"
    return f"kept with incident {listed(kept)}" if kept else ""


def _who_must_return(awaited: Mapping[Place, tuple[int, ...]]) -> Iterator[str]:
    """Tell of partitions without a leader which brokers may lead them without loss: the ISR, or Kafka's ELR."""
    for (topic, number), able in sorted(awaited.items())[:NAMED]:
        alone = f"{brokers(able)} must come back: it alone may lead it without loss"
        several = f"one of {brokers(able)} must come back: they may lead it without loss"
        unknown = "which broker may lead it without loss is not known"
        yield f"offline: {topic}-{number}: {unknown if not able else alone if len(able) == 1 else several}"
    if len(awaited) > NAMED:
        yield f"offline: {len(awaited) - NAMED} more partitions"


def _stable(answers: Committed, server: str) -> Iterator[str]:
    """Tell how far consumers with read_committed come: an unclean election may have taken a transaction's end away."""
    if not answers.stable:
        yield "read_committed: not known, no leader answered for its last stable offset"
        return
    waiting = {place: one for place, one in sorted(answers.stable.items()) if one.waits}
    asked = count(len(answers.stable), "partition")
    if not waiting:
        yield f"read_committed: no consumer waits below the HW in the {asked} that answered"
    for (topic, number), one in list(waiting.items())[:NAMED]:
        behind = f"stand at {one.lso}, {count(one.hw - one.lso, 'offset')} below the HW"
        moved = one.later is not None and one.later[1] > one.hw
        known = "which went on: a transaction that has lost its end holds them (KAFKA-20716)"
        open_ = "which did not go on either: whether a transaction holds them is not known; ask again"
        yield f"read_committed: consumers of {topic}-{number} {behind}, {known if moved else open_}"
        yield f"  kafka-transactions.sh --bootstrap-server {server} find-hanging --topic {topic} --partition {number}"
    if len(waiting) > NAMED:
        yield f"read_committed: {len(waiting) - NAMED} more partitions so"


def _losses(lake: Lake, asked: Question) -> Sequence[Row]:
    """The losses that are asked for. Raises UsageError."""
    wanted = replace(asked.wanted, since=None)
    if asked.loss_id is not None:
        loss, _ = pick(lake, wanted, asked.loss_id)
        return [loss] if loss is not None else []
    return rows(lake, "serious", wanted, 1_000_000)[0]


def _offline(lake: Lake, asked: Question, now: datetime) -> Sequence[Row]:
    """The partitions that nobody leads or led at some time within a day; none where one loss is asked for."""
    if asked.loss_id is not None:
        return []
    of, health = "SELECT DISTINCT cluster, topic, partition FROM t WHERE", VIEWS["health"]
    wanted, told = replace(asked.wanted, since=None), View(replication_events.TABLE, "ts", "")
    recent = replace(wanted, since=now - timedelta(days=1)).where(told)
    return [
        *select_rows(lake, health.table, f"{of} offline AND {wanted.where(health)}"),
        *select_rows(lake, told.table, f"{of} leader_id < 0 AND {recent}"),
    ]


def _only_cluster(found: Sequence[Row]) -> str:
    """The cluster of these rows. Raises UsageError where there are several."""
    clusters: list[str] = sorted({row["cluster"] for row in found})
    if len(clusters) > 1:
        raise UsageError(
            f"{len(clusters)} clusters have losses, or were offline in part: say with --cluster which is asked; "
            f"{nearest('', clusters)}"
        )
    return clusters[0]


def _recreated(loss: Row, answers: Committed) -> bool:
    now = answers.topic_ids.get(loss["topic"])
    return now is not None and loss["topic_id"] is not None and now != loss["topic_id"]


def _lines(found: Sequence[LostRead], matching: int, missing: Sequence[str]) -> Iterator[str]:
    if found:
        away = any(one.read is Read.OFFLINE for one in found)
        yield f"Groups that have read what is gone, or may have{', and those that read what was offline' * away}:"
        yield tables.as_table([_row(one) for one in found], COLUMNS)
        if matching > len(found):
            yield f"({matching - len(found)} more; --limit {matching} shows all)"
    elif missing:
        yield "Of the groups that could be asked none has committed an offset above the start of a loss."
    else:
        yield "No group has committed an offset above the start of a loss."
    yield from (f"not known: {why}" for why in missing)


def _missing(answers: Committed, losses: Sequence[Row]) -> Iterator[str]:
    """The refused or unanswered requests, with the missing right."""
    if not answers.all_groups_shown:
        yield "whether there are other groups: allow DESCRIBE on the cluster, or on every group"
    for group, code in sorted(answers.groups.refused.items()):
        what = "allow DESCRIBE on it" if code == GROUP_REFUSED else f"error code {code}; ask again"
        yield f"what group {group} has committed: {what}"
    refused = sorted(answers.refused_topics.keys() | answers.groups.refused_topics.keys())
    if refused:
        yield f"{listed(refused, len(refused))}: the topic is gone, or DESCRIBE on it is not allowed"
    ends = {(loss["topic"], loss["partition"]) for loss in losses} - answers.log_ends.keys()
    if ends := {place for place in ends if place[0] not in refused}:
        yield f"the log end of {listed(sorted(f'{topic}-{number}' for topic, number in ends))}: no leader answers"
    for broker, reason in sorted(answers.silent.items()):
        yield f"the groups that broker {broker} coordinates: {reason}"
    if answers.groups.error:
        yield f"the list of groups: error code {answers.groups.error}; ask again"


def _gone(losses: Sequence[Row], answers: Committed) -> Iterator[str]:
    recreated = sorted({loss["topic"] for loss in losses if _recreated(loss, answers)})
    if recreated:
        yield f"{count(len(recreated), 'topic')} created anew since the loss: {listed(recreated)}"


def _row(one: LostRead) -> Row:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "regression_id": one.regression_id,
        "group": one.group,
        "committed": one.committed,
        "log_end": one.log_end,
        "above_log_end": one.above,
        "lost_read": one.lost_read,
        "what": one.read.value,
    }


def _as(asked: Question, found: Sequence[Row]) -> str:
    columns = ("topic", "partition", "regression_id", *COLUMNS[1:])
    return tables.as_json(found) if asked.format == "json" else tables.as_csv(found, columns)
