"""`hwmark audit`: replicas' logs side by side, as they lie on brokers' disks."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, Lake, TableOrJson, settings_of_existing_lake
from pipelines.commands.exits import AUDIT_DAMAGE, AUDIT_NOT_KNOWN
from pipelines.commands.progress import echo, working
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from generators.disks.audit import PartitionAudit, Totals
    from generators.disks.findings import Finding
    from generators.disks.replica import ReplicaLog
    from pipelines.lake.lake import Lake as LakeTables

SHOWN = 1000
"""Partitions that are printed at most: of a million damaged ones each took kilobytes."""
FINDING_COLUMNS = ("topic", "partition", "broker", "severity", "kind", "from", "to", "summary")


def audit(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Log directories, or folders of several.")],
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic, its sound partitions, too.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", help="Only this partition of it.")] = None,
    live: Annotated[bool, typer.Option("--live", help="The brokers run: ends of logs may be half written.")] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read the records inside batches, too: uncompressed, keys.")
    ] = False,
    offset: Annotated[
        int | None, typer.Option(metavar="N", help="Show how this offset is found: segment, index entry, position.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Partitions without a grave finding, too.")] = False,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="With --lake: whose disks these are.")] = None,
    lake: Lake = None,
    format: Annotated[TableOrJson, typer.Option(help="How to print.")] = TableOrJson.table,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Lay the logs of several brokers' disks side by side: where they diverge, what is damaged, what a start would cut.

    For brokers that are stopped, or copies of their log directories; --live for running ones. Nothing below DIR is
    written. Exit status 0: nothing critical; 3: divergence or damage; 4: something could not be read or compared.

    \b
    Examples:
      hwmark audit /mnt/broker-1 /mnt/broker-2 /mnt/broker-3
      hwmark audit copies/ --topic orders --partition 0
      hwmark audit /var/lib/kafka --live --format json
      hwmark audit copies/ --cluster prod --lake lake
    """
    from generators.disks.audit import PartitionAudit, Totals, directory_findings, partition_audits
    from generators.disks.directories import find_log_directories
    from generators.disks.earlier_findings import EarlierFindings
    from generators.disks.findings import Finding, Severity
    from generators.disks.lake_losses import differences
    from generators.disks.segments import look_up

    if offset is not None and partition is None:
        raise UsageError(f"--offset {offset} of which partition? Name it with --topic and --partition")
    if partition is not None and topic is None:
        raise UsageError(f"--partition {partition} of which topic? Name it with --topic")
    place = None if lake is None else _lake(lake, cluster, config)
    began, totals, shown, rows, left_out = time.monotonic(), Totals(), list[PartitionAudit](), [], 0
    directories = find_log_directories(paths)
    chosen = None if topic is None else (topic, partition)
    general = directory_findings(directories, chosen)
    losses = {} if place is None else _losses(place, str(cluster))
    earlier = EarlierFindings([] if place is None else _standing(place, str(cluster)), directories, deep=deep)
    totals.count_findings(general)
    with working("audit", each=False) as say:
        for one in partition_audits(directories, live=live, deep=deep, chosen=chosen, on_progress=say):
            one.findings += differences(one, losses.get(one.place, ())) if place is not None else []
            totals.count(one)
            earlier.observe(one)
            rows += one.findings if place is not None else []
            if every or topic is not None or any(finding.severity is not Severity.INFO for finding in one.findings):
                shown += [one.without_batches()] if len(shown) < SHOWN else []
                left_out += len(shown) == SHOWN and shown[-1].place != one.place
    if not totals.partitions and (topic is not None or not general):
        named = "a partition" if topic is None else topic if partition is None else f"{topic}-{partition}"
        raise UsageError(f"no log of {named} below {', '.join(map(str, paths))}: check the name, and the directories")
    findings = [*general, *(finding for one in shown for finding in one.findings)]
    brokers = len({directory.name for directory in directories})
    head = totals.words(brokers, time.monotonic() - began)
    status = _status(totals)
    if place is not None:
        found = [*general, *rows]
        covered = f"{', '.join(dict.fromkeys(one.name for one in directories))}: {head}"
        itself = Finding(topic or "", -1 if partition is None else partition, None, "audited", Severity.INFO, covered)
        _keep(place, str(cluster), [*earlier.no_longer_found(found), *found, itself], deep=deep)
    as_json = format is TableOrJson.json
    echo(_json(totals, shown, general, status, left_out) if as_json else _text(head, shown, findings))
    if left_out and not as_json:
        echo(f"{left_out:,} more partitions: name --topic, or keep all findings with --cluster and --lake")
    for log in (log for one in shown for log in one.logs if offset is not None and format is TableOrJson.table):
        way = look_up(log.source.path, offset or 0)
        echo(
            f"{log.name}: {way.words(offset or 0) if way else f'offset {offset}: not there, the log ends at {log.end}'}"
        )
    if status == AUDIT_DAMAGE:
        raise typer.Exit(AUDIT_DAMAGE)
    if status == AUDIT_NOT_KNOWN:
        raise typer.Exit(AUDIT_NOT_KNOWN)


def _lake(lake: str, cluster: str | None, config: Path | None) -> LakeTables:
    if cluster is None:
        raise UsageError("whose disks are these? Name the cluster with --cluster")
    return settings_of_existing_lake(config, lake={"path": lake}).tables


def _losses(place: LakeTables, cluster: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The losses that the lake has of a cluster, by partition."""
    from pipelines.lake.queries import Filter, rows

    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows(place, "serious", Filter(cluster), 1_000_000)[0]:
        found.setdefault((row["topic"], row["partition"]), []).append(row)
    return found


def _standing(place: LakeTables, cluster: str) -> list[dict[str, Any]]:
    """Findings of earlier audits of a cluster that still stand."""
    from pipelines.lake.queries import select_rows, text
    from pipelines.verdict.disk_findings import standing_findings
    from schemas import audits

    return select_rows(place, audits.TABLE, standing_findings(f"cluster = {text(cluster)}"))


def _keep(place: LakeTables, cluster: str, findings: Sequence[Finding], *, deep: bool) -> None:
    """Append the findings to ops/audits."""
    import pyarrow as pa

    from schemas import audits

    same = {"audit_id": uuid.uuid4().hex, "audited_at": clock.now(), "cluster": cluster, "deep": deep}
    rows = [{**same, **finding._asdict(), "severity": finding.severity.value, "topic": finding.topic or None}
            for finding in findings]  # fmt: skip
    place.append(audits.TABLE, pa.Table.from_pylist(rows, schema=audits.ARROW))


def _status(totals: Totals) -> int:
    from generators.disks.findings import Severity

    if totals.findings[Severity.CRITICAL]:
        return AUDIT_DAMAGE
    return AUDIT_NOT_KNOWN if totals.findings[Severity.UNKNOWN] else 0


def _text(head: str, shown: Sequence[PartitionAudit], findings: Sequence[Finding]) -> str:
    from pipelines.commands.show.tables import as_table

    lines = [head]
    if rows := [replica_row(log) for one in shown for log in one.logs]:
        lines += ["", as_table(rows, tuple(rows[0]))]
    if findings:
        lines += ["", as_table([finding_row(finding) for finding in findings], FINDING_COLUMNS)]
    return "\n".join(lines)


def _json(
    totals: Totals, shown: Sequence[PartitionAudit], general: Sequence[Finding], status: int, left_out: int
) -> str:  # fmt: skip
    partitions = [
        {
            "topic": one.place[0],
            "partition": one.place[1],
            "replicas": [replica_row(log) for log in one.logs],
            "findings": [finding_row(finding) for finding in one.findings],
        }
        for one in shown
    ]
    found = {"findings": [finding_row(finding) for finding in general], "partitions": partitions, "left_out": left_out}
    return json.dumps({"status": status, "totals": totals.data(), **found})


def replica_row(log: ReplicaLog) -> dict[str, Any]:
    """One replica as it is printed; `scan`: bytes that a look-up through the index reads at most."""
    from generators.disks.keys import words

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
        "keys": words(log.key_counts, log.partitions),
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
