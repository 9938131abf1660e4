"""`hwmark show loss --bootstrap`: which consumer groups have read what is gone, asked of the cluster itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from generators.cluster.committed import Committed, ask_committed
from generators.cluster.watcher import WatchOptions
from pipelines.alerting.lookup import keep_groups
from pipelines.commands.show import tables
from pipelines.commands.show.command import Question
from pipelines.errors import UsageError, nearest
from pipelines.lake.lake import Lake
from pipelines.lake.queries import rows
from pipelines.verdict.loss_rows import pick
from pipelines.verdict.lost_reads import LostRead, lost_reads
from pipelines.verdict.words import NAMED, count, listed

Row = dict[str, Any]
COLUMNS = ("topic_partition", "group", "committed", "log_end", "above_log_end", "lost_read", "what")
GROUP_REFUSED = 30
"""Kafka's error code GROUP_AUTHORIZATION_FAILED."""


def text(lake: Lake, asked: Question, options: WatchOptions, now: datetime) -> str:
    """The groups as a table, and what is not known of them; with --format json or csv the rows alone.

    Incidents keep the groups, with `now` of the wall clock. Raises UsageError, NotAnswering.
    """
    losses = _losses(lake, asked)
    if not losses:
        return "No loss is known there, so no group can have read it." if asked.format == "table" else _as(asked, [])
    answers = ask_committed(options, sorted({(loss["topic"], loss["partition"]) for loss in losses}))
    same = [loss for loss in losses if not _recreated(loss, answers)]
    found = lost_reads(same, answers.log_ends, answers.groups.committed)
    missing = [*_missing(answers, same), *_gone(losses, answers)]
    kept = _keep(lake, losses, found, now) if found or not missing else ""
    if asked.format != "table":
        return _as(asked, [_row(one) for one in found])
    lines = [*_lines(found[: asked.limit], len(found), missing), *([kept] if kept else [])]
    return "\n".join([*_stable(answers, ",".join(f"{host}:{port}" for host, port in options.bootstrap)), *lines])


def _keep(lake: Lake, losses: Sequence[Row], found: Sequence[LostRead], now: datetime) -> str:
    """What is said of incidents that keep the groups; an answer holds without them."""
    places = {(loss["topic"], loss["partition"]) for loss in losses}
    try:
        reads = [(one.topic, one.partition, one.group) for one in found]
        kept = keep_groups(lake, losses[0]["cluster"], places, reads, now)
    except Exception as error:
        return f"not kept in ops/incidents: {' '.join(str(error).split())[:200]}"
    return f"kept with incident {listed(kept)}" if kept else ""


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
    """The losses that are asked for, all of one cluster. Raises UsageError."""
    wanted = replace(asked.wanted, since=None)
    if asked.loss_id is not None:
        loss, _ = pick(lake, wanted, asked.loss_id)
        return [loss] if loss is not None else []
    found, _ = rows(lake, "serious", wanted, 1_000_000)
    clusters = sorted({loss["cluster"] for loss in found})
    if len(clusters) > 1:
        raise UsageError(
            f"{len(clusters)} clusters have losses: say with --cluster which is asked; {nearest('', clusters)}"
        )
    return found


def _recreated(loss: Row, answers: Committed) -> bool:
    now = answers.topic_ids.get(loss["topic"])
    return now is not None and loss["topic_id"] is not None and now != loss["topic_id"]


def _lines(found: Sequence[LostRead], matching: int, missing: Sequence[str]) -> Iterator[str]:
    if found:
        yield "Groups that have read what is gone, or may have:"
        yield tables.as_table([_row(one) for one in found], COLUMNS)
        if matching > len(found):
            yield f"({matching - len(found)} more; --limit {matching} shows all)"
    elif missing:
        yield "Of the groups that could be asked none has committed an offset above the start of a loss."
    else:
        yield "No group has committed an offset above the start of a loss."
    yield from (f"not known: {why}" for why in missing)


def _missing(answers: Committed, losses: Sequence[Row]) -> Iterator[str]:
    """What was refused or not answered, with the right that is missing."""
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
