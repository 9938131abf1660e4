"""Losses that disks show against those that a lake knows by telemetry: they agree, or the difference is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from generators.disks.audit import PartitionAudit
from generators.disks.findings import Finding, Severity
from generators.disks.replica import ReplicaLog

Row = dict[str, Any]


def lost_by_disks(audit: PartitionAudit) -> dict[tuple[int, int], ReplicaLog]:
    """Offsets [from, to) below a replica's high watermark that it has, and that the newest lineage lacks."""
    newest = max((log.last_epoch for log in audit.logs), default=-1)
    return {
        (finding.from_offset, min(finding.to_offset or 0, log.hw)): log
        for log in audit.logs
        for finding in log.findings
        if finding.kind == "cut" and finding.severity is Severity.CRITICAL and log.hw is not None
        if finding.from_offset is not None and finding.from_offset < log.hw
        if any(one.last_epoch == newest and one.directory.broker_id == finding.other_broker_id
               for one in audit.logs)
    }  # fmt: skip


def differences(audit: PartitionAudit, losses: Sequence[Row]) -> Iterator[Finding]:
    """Findings on offsets that only the disks show as lost, or only the lake; `losses`: rows of silver/hw_regressions.

    A loss of the lake that is a bound ("at least") agrees with a wider one of disks.
    """
    shown, topic_ids = lost_by_disks(audit), {log.topic_id for log in audit.logs} - {None}
    known = [(one["lost_from"], one["lost_to"], one["proof"]) for one in losses
             if one["lost_to"] is not None and (one["topic_id"] is None or one["topic_id"] in topic_ids)]  # fmt: skip
    for (first, end), log in shown.items():
        near = [(a, b, proof) for a, b, proof in known if a < end and first < b]
        if any((a, b) == (first, end) or (proof != "proven" and first <= a and b <= end) for a, b, proof in near):
            continue
        has = ", ".join(f"{a}..{b - 1} ({proof})" for a, b, proof in near) or "no loss there"
        detail = f"disks show that {first}..{end - 1} are lost, the lake has {has}"
        yield _finding(audit, log, detail, first, end)
    for a, b, _ in known:
        if not any(a < end and first < b for first, end in shown):
            detail = f"the lake has {a}..{b - 1} as lost; no log given has them beside one of the newest epoch"
            yield _finding(audit, audit.logs[0], detail, a, b)


def _finding(audit: PartitionAudit, log: ReplicaLog, detail: str, first: int, end: int) -> Finding:
    broker = log.directory.broker_id
    return Finding(*audit.place, broker, "loss_differs", Severity.UNKNOWN, detail, first, end, None, log.topic_id,
                   log.directory.directory_id)  # fmt: skip
