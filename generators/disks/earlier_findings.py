"""Findings of earlier audits that this one no longer has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from generators.disks.audit import PartitionAudit
from generators.disks.directories import LogDirectory
from generators.disks.findings import Finding, Severity

Row = dict[str, Any]
NOT_COMPARED = frozenset({"not_compared", "topic_ids"})
"""Kinds that say that replicas were not compared: what an earlier audit found of a pair may still be so."""


class EarlierFindings:
    """Findings of earlier audits that still hold, and the replicas among theirs that this audit read whole."""

    def __init__(self, standing: Iterable[Row], directories: Sequence[LogDirectory], *, deep: bool) -> None:
        self._standing = [row for row in standing if deep or not row["deep"]]
        self._places = {(row["topic"], row["partition"]) for row in self._standing}
        self._directories = directories
        self._read: set[tuple[str, int, int | None]] = set()

    def observe(self, audit: PartitionAudit) -> None:
        """Note the replicas of a partition that were read to their ends and compared."""
        if audit.place in self._places and not any(finding.kind in NOT_COMPARED for finding in audit.findings):
            self._read |= {(*audit.place, log.directory.broker_id) for log in audit.logs if not log.is_cut_short}

    def no_longer_found(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """A finding of severity `info` for each earlier one that this audit would have again if it were still so."""
        again = {(one.topic, *one[1:4], one.other_broker_id) for one in findings}
        for row in self._standing:
            if (row["topic"] or "", row["partition"], row["broker_id"], row["kind"], row["other_broker_id"]) in again:
                continue
            brokers = [row["broker_id"], *([row["other_broker_id"]] if row["other_broker_id"] is not None else [])]
            if all(self._covers(row, broker) for broker in brokers):
                detail = f"no longer found: {row['detail']}"
                place = row["topic"] or "", row["partition"], row["broker_id"]
                yield Finding(*place, row["kind"], Severity.INFO, detail, row["from_offset"], row["to_offset"],
                              row["other_broker_id"], row["topic_id"], row["directory_id"])  # fmt: skip

    def _covers(self, row: Row, broker: int | None) -> bool:
        """Whether a broker's replica was read whole, or is gone from its log directory."""
        if (row["topic"], row["partition"], broker) in self._read:
            return True
        given = [one for one in self._directories if one.broker_id == broker]
        same = row["directory_id"] if broker == row["broker_id"] else None
        place = row["topic"], row["partition"]
        return (
            any(same in (None, one.directory_id) for one in given)
            and not any(one.problems for one in given)
            and not any(one.place == place and one.is_replica for directory in given for one in directory.partitions)
        )
