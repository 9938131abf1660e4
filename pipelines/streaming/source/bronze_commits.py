"""The commits of bronze: the files that they added, and whether they removed rows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict
from urllib.parse import unquote

from pipelines.lake.engines import MARK
from pipelines.lake.table import AGAIN, RETENTION


class Cut(TypedDict):
    """The part of a file that one batch reads.

    `bounds`: first and last source_seq by source (cluster, source_id, source_epoch); `rest`: whether rows without
    source or number belong to it; `coverage`: the coverage of its rows as rows of COVERAGE, None if the reader reads
    all rows and computes it.
    """

    bounds: list[tuple[str, str, int, int, int]]
    rest: bool
    coverage: list[dict[str, Any]] | None


class Part(NamedTuple):
    """A task's description of a file: its path, the values of columns that it lacks, and the part to read."""

    path: str
    values: Mapping[str, str | None] = {}
    cut: Cut | None = None


@dataclass(frozen=True)
class File:
    """A data file by its path below the table's folder.

    `clusters` are the least and largest name in it, if its statistics have them; `committed_ms` is the time of its
    commit by the writer's wall clock; `values` are those of the partition columns in Delta's log, which the file lacks;
    `cut` is the part that is read, None for all. A path that begins with `closings.OURS` is below the lake: its rows
    close sources.
    """

    path: str
    size: int
    rows: int
    clusters: tuple[str | None, str | None] = (None, None)
    committed_ms: int = 0
    values: tuple[tuple[str, str | None], ...] = ()
    cut: Cut | None = None

    @property
    def part(self) -> Part:
        """The part for a task to read."""
        return Part(self.path, dict(self.values), self.cut)


def added(commit: Sequence[Mapping[str, Any]], accepted: bool = False) -> list[File]:
    """The files that a commit adds; one that only rewrote files adds nothing, or a cluster that is to be read again.

    `accepted` if the commit may also have added rows while it removed some; rows that were read before are repeats.
    """
    mark = str(_info(commit).get(MARK))
    if _removes(commit) and not mark.startswith(AGAIN) and not accepted and not _is_upsert(commit):
        return []
    at = next((a["commitInfo"].get("timestamp") for a in commit if "commitInfo" in a), None)
    files = [_file(a["add"], at) for a in commit if "add" in a and a["add"]["dataChange"]]
    if not mark.startswith(AGAIN):
        return files
    cluster = mark.removeprefix(AGAIN)
    return [file for file in files if file.clusters == (cluster, cluster)]


def removes_rows(commit: Sequence[Mapping[str, Any]], skipped: Collection[str] = ()) -> bool:
    """Whether a commit removes rows, other than by our retention or of `skipped` files."""
    taken = {unquote(a["remove"]["path"]) for a in commit if "remove" in a and a["remove"].get("dataChange", True)}
    return bool(taken - set(skipped)) and not _is_retention(commit) and not _is_upsert(commit)


def rewrites(commit: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a commit that removes rows has also added new ones, which a DELETE does not."""
    adds = any("add" in a and a["add"]["dataChange"] for a in commit)
    return adds and _removes(commit) and not _is_retention(commit) and _info(commit).get("operation") != "DELETE"


def _is_upsert(commit: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a commit is a MERGE that deleted nothing, so that its files have all rows of those it removed.

    Rows that come again are repeats of their key; a changed row contradicts the one that was read.
    """
    info = _info(commit)
    metrics = info.get("operationMetrics") or {}
    deleted = metrics.get("num_target_rows_deleted", metrics.get("numTargetRowsDeleted"))
    return bool(info.get("operation") == "MERGE" and deleted is not None and int(deleted) == 0)


def _removes(commit: Sequence[Mapping[str, Any]]) -> bool:
    return any(a["remove"].get("dataChange", True) for a in commit if "remove" in a)


def _is_retention(commit: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a commit is our retention: by its mark or, from earlier versions, by its single condition."""
    info = _info(commit)
    predicate = str(info.get("operationParameters", {}).get("predicate", ""))
    of_earlier = info.get("operation") == "DELETE" and re.fullmatch(r"ts < (?:(?! AND | OR ).)*", predicate)
    return bool(info.get(MARK) == RETENTION or str(info.get(MARK)).startswith(AGAIN) or of_earlier)


def _info(commit: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    found: Iterator[Mapping[str, Any]] = (a["commitInfo"] for a in commit if "commitInfo" in a)
    return next(found, {})


def operation(commit: Sequence[Mapping[str, Any]]) -> str:
    """The operation of a commit, from its own description."""
    info = _info(commit)
    by = info.get("engineInfo") or info.get("clientVersion") or "an engine that does not say its name"
    return f"{info.get('operation', 'an operation that is not named')} by {by}"


def _file(add: Mapping[str, Any], committed_ms: int | None) -> File:
    stats = json.loads(add.get("stats") or "{}")
    least, largest = (stats.get(end, {}).get("cluster") for end in ("minValues", "maxValues"))
    at = int(committed_ms or add.get("modificationTime") or 0)
    values = dict(add.get("partitionValues") or {})
    clusters = with_clusters(least, largest, values)
    rows = int(stats.get("numRecords", -1))
    return File(unquote(add["path"]), int(add["size"]), rows, clusters, at, tuple(values.items()))


def with_clusters(
    least: str | None, largest: str | None, values: Mapping[str, str | None]
) -> tuple[str | None, str | None]:
    """The file with its least and largest cluster, which may be a partition column."""
    return (values["cluster"], values["cluster"]) if "cluster" in values else (least, largest)
