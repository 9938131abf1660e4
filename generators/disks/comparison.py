"""Replicas of one partition side by side: where they part, what each lacks, and what a start would cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from generators.disks.checkpoint_rows import INTERVAL_S
from generators.disks.findings import Severity
from generators.disks.lineage import cut_offset, parts_at
from generators.disks.replica import ReplicaLog


def compare(logs: Sequence[ReplicaLog]) -> None:
    """Add what only a comparison shows to the findings of each replica."""
    brokers = [log.directory.name for log in logs]
    for log in logs:
        log.has_twin = brokers.count(log.directory.name) > 1
    for one, other in combinations(logs, 2):
        if not _are_of_two_topics(one, other):
            _compare_checksums(one, other)
    for follower in logs:
        _judge_cuts(
            follower, [log for log in logs if log.topic_id in (None, follower.topic_id) or not follower.topic_id]
        )


def _are_of_two_topics(one: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether two logs of one name are of different topics, so that they cannot be compared; adds that as a finding."""
    ids = one.topic_id, other.topic_id
    if None in ids or ids[0] == ids[1]:
        return False
    detail = f"topic id {ids[0]} on {one.name}, {ids[1]} on {other.name}: one is of a deleted topic"
    one.add("topic_ids", Severity.CRITICAL, detail, other=other)
    return True


def _compare_checksums(one: ReplicaLog, other: ReplicaLog) -> None:
    """Add findings on batches of equal epoch and offset that differ above both cleaner offsets and log starts (5.7)."""
    common = parts_at(one.lineage, other.lineage)
    first = max(one.explained_to, other.explained_to, one.log_start, other.log_start)
    if common is None and min(one.end, other.end) <= first:
        return
    if common is None:
        pair = f"{one.name} ({one.lineage.text()}) and {other.name} ({other.lineage.text()})"
        detail = f"{pair} have no epoch in common"
        one.add("not_compared", Severity.UNKNOWN, detail, other=other)
        return
    limits = [log.compared_to for log in (one, other) if log.compared_to is not None]
    if limits:
        one.add(
            "not_compared", Severity.UNKNOWN, "too many batches to compare from here on", min(limits), common, other
        )
        common = min(common, *limits)
    mine, theirs = (log.keys[(log.keys["base"] >= first) & (log.keys["last"] < common)] for log in (one, other))
    both, k, n = np.intersect1d(mine["base"], theirs["base"], assume_unique=True, return_indices=True)
    differ = (mine["crc"][k] != theirs["crc"][n]) | (mine["epoch"][k] != theirs["epoch"][n])
    differ &= ~(mine["cleaned"][k] | theirs["cleaned"][n])
    if differ.any():
        offset, last = int(both[differ][0]), int(mine["last"][k[differ][-1]])
        detail = (
            f"{np.count_nonzero(differ):,} batches of equal epoch and offset differ between {one.name} and "
            f"{other.name}: one is corrupt, or two leaders wrote in one epoch"
        )
        one.add("checksums_differ", Severity.CRITICAL, detail, offset, last + 1, other)
    alone = max(len(mine), len(theirs)) - len(both)
    if alone and not any(finding.kind in ("damaged", "gap") for log in (one, other) for finding in log.findings):
        detail = f"{alone:,} batches below offset {common} lie on only one of {one.name} and {other.name}"
        severity = Severity.UNKNOWN if one.compacted or other.compacted else Severity.CRITICAL
        one.add("batches_differ", severity, detail, first, common, other)


def _judge_cuts(follower: ReplicaLog, logs: Sequence[ReplicaLog]) -> None:
    """Add the offsets that others' lineages lack, which a replica loses when it follows them (5.9)."""
    known = [log.hw for log in logs if log.hw is not None]
    for leader in (log for log in logs if log is not follower and not log.is_cut_short):
        cut = max(cut_offset(follower.lineage, leader.lineage), follower.start)
        if cut >= follower.end:
            continue
        diverged = (back := cut_offset(leader.lineage, follower.lineage)) < leader.end
        committed = max(min(follower.hw or 0, follower.end) - cut, 0)
        unlikely = follower.last_epoch == max(log.last_epoch for log in logs) > leader.last_epoch
        may_be_older = (
            follower.live or 0 < leader.directory.offsets_written < follower.directory.offsets_written - INTERVAL_S
        )
        words = f"following {leader.name} it cuts {cut}..{follower.end - 1} ({follower.end - cut:,} offsets"
        words += f", {committed:,} of them below its high watermark {follower.hw}" if committed else ""
        words += ")" if follower.hw is not None else "; it is not known how many of them were committed)"
        if unlikely:
            words += f", only if {leader.name} were elected uncleanly: its epoch is older"
        if diverged:
            words += f"; {leader.name} has other records from {back} on"
        elif may_be_older and not unlikely:
            words += f"; what is given of {leader.name} may be from before these"
        if not any(parts_at(follower.lineage, log.lineage) == follower.end for log in logs if log is not follower):
            words += "; no other replica given has all of them: copy this directory before a start"
        is_lost = diverged or (committed and not may_be_older)
        is_known = unlikely or may_be_older or follower.hw is not None
        severity = Severity.CRITICAL if is_lost and not unlikely else Severity.INFO if is_known else Severity.UNKNOWN
        follower.add("cut", severity, words, cut, follower.end, leader)
    explained = any(finding.kind in ("hw_above_end", "unreadable") for finding in follower.findings)
    if known and follower.end < max(known) and not explained:
        ahead = max(logs, key=lambda log: log.hw or -1)
        detail = f"its log ends at {follower.end}, below the high watermark {ahead.hw} known on {ahead.name}"
        follower.add("behind", Severity.INFO, detail, follower.end, ahead.hw, ahead)
