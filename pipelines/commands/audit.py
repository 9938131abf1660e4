"""`hwmark audit`: replicas' logs side by side, as they lie on brokers' disks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.common_options import Debug
from pipelines.commands.exits import AUDIT_DAMAGE, AUDIT_NOT_KNOWN
from pipelines.commands.progress import echo, working

if TYPE_CHECKING:
    from generators.disks.audit import PartitionAudit, Totals
    from generators.disks.findings import Finding
    from generators.disks.replica import ReplicaLog

REPLICA_COLUMNS = (
    *("topic", "partition", "broker", "start", "end", "hw", "recovery_point", "stopped", "batches", "records"),
    *("index", "scan", "producers", "transactions", "epochs"),
)
FINDING_COLUMNS = ("topic", "partition", "broker", "severity", "kind", "from", "to", "summary")


class AuditFormat(StrEnum):
    """How `hwmark audit` prints."""

    table = "table"
    json = "json"


def audit(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Log directories, or folders of several.")],
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic, with all that was seen.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", help="Only this partition of it.")] = None,
    live: Annotated[bool, typer.Option("--live", help="The brokers run: ends of logs may be half written.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Partitions without a finding, too.")] = False,
    format: Annotated[AuditFormat, typer.Option(help="How to print.")] = AuditFormat.table,
    debug: Debug = False,
) -> None:
    """Lay the logs of several brokers' disks side by side: where they diverge, what is damaged, what a start would cut.

    For brokers that are stopped, or copies of their log directories. Nothing below DIR is written. Exit status 0:
    nothing found; 3: divergence or damage; 4: something could not be read or compared.

    \b
    Examples:
      hwmark audit /mnt/broker-1 /mnt/broker-2 /mnt/broker-3
      hwmark audit copies/ --topic orders --partition 0
      hwmark audit /var/lib/kafka --live --format json
    """
    from generators.disks.audit import Totals, directory_findings, partition_audits
    from generators.disks.directories import find_log_directories
    from generators.disks.findings import Severity

    began, totals, shown = time.monotonic(), Totals(), []
    directories = find_log_directories(paths)
    general = directory_findings(directories)
    totals.count_findings(general)
    chosen = None if topic is None else (topic, partition)
    with working("audit", each=False) as say:
        for one in partition_audits(directories, live=live, chosen=chosen, on_progress=say):
            totals.count(one)
            if every or topic is not None or any(finding.severity is not Severity.INFO for finding in one.findings):
                shown.append(one)
    findings = [*general, *(finding for one in shown for finding in one.findings)]
    brokers = len({directory.name for directory in directories})
    head = totals.words(brokers, time.monotonic() - began)
    status = _status(totals)
    printed = _json(totals, shown, general, status) if format is AuditFormat.json else _text(head, shown, findings)
    echo(printed)
    if status == AUDIT_DAMAGE:
        raise typer.Exit(AUDIT_DAMAGE)
    if status == AUDIT_NOT_KNOWN:
        raise typer.Exit(AUDIT_NOT_KNOWN)


def _status(totals: Totals) -> int:
    from generators.disks.findings import Severity

    if totals.findings[Severity.CRITICAL]:
        return AUDIT_DAMAGE
    return AUDIT_NOT_KNOWN if totals.findings[Severity.UNKNOWN] else 0


def _text(head: str, shown: Sequence[PartitionAudit], findings: Sequence[Finding]) -> str:
    from pipelines.commands.show.tables import as_table

    lines = [head]
    if shown:
        rows = [replica_row(log) for one in shown for log in one.logs]
        lines += ["", as_table(rows, REPLICA_COLUMNS)]
    if findings:
        lines += ["", as_table([finding_row(finding) for finding in findings], FINDING_COLUMNS)]
    return "\n".join(lines)


def _json(totals: Totals, shown: Sequence[PartitionAudit], general: Sequence[Finding], status: int) -> str:
    partitions = [
        {
            "topic": one.place[0],
            "partition": one.place[1],
            "replicas": [replica_row(log) for log in one.logs],
            "findings": [finding_row(finding) for finding in one.findings],
        }
        for one in shown
    ]
    found = {"findings": [finding_row(finding) for finding in general], "partitions": partitions}
    return json.dumps({"status": status, "totals": totals.data(), **found})


def replica_row(log: ReplicaLog) -> dict[str, Any]:
    """One replica as it is printed; `scan`: bytes that a look-up through the index reads at most."""
    producers = log.producers
    ended = f"{producers.committed} committed, {producers.aborted} aborted, {len(producers.open)} open"
    return {
        "topic": log.source.place[0],
        "partition": log.source.place[1],
        "broker": log.directory.broker_id,
        "start": log.log_start,
        "end": log.end,
        "hw": log.hw,
        "recovery_point": log.recovery_point,
        "stopped": "running" if log.live else "cleanly" if log.directory.clean else "uncleanly",
        "batches": log.batches,
        "records": log.records,
        "index": log.index_entries,
        "scan": log.longest_scan,
        "producers": len(producers.ids),
        "transactions": ended if producers.committed + producers.aborted + len(producers.open) else None,
        "epochs": log.lineage.text(),
    }


def finding_row(finding: Finding) -> dict[str, Any]:
    """One finding as it is printed; offsets are half-open."""
    return {
        "topic": finding.topic or None,
        "partition": finding.partition if finding.topic else None,
        "broker": finding.broker_id,
        "severity": finding.severity.value,
        "kind": finding.kind,
        "from": finding.from_offset,
        "to": finding.to_offset,
        "other_broker": finding.other_broker_id,
        "summary": finding.detail,
    }
