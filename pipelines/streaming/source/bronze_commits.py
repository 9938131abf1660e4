"""What the commits of bronze did: which files they added, and whether rows were taken out."""

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

    `bounds`: by source (cluster, source_id, source_epoch) the first and the last source_seq; `rest`: whether rows that
    do not say their source or number belong to it; `coverage`: what its rows cover, as rows of COVERAGE, None where
    whoever reads it reads all of them and can tell.
    """

    bounds: list[tuple[str, str, int, int, int]]
    rest: bool
    coverage: list[dict[str, Any]] | None


class Part(NamedTuple):
    """What a task needs to read a file: its path, its values of columns that it does not hold, and which part."""

    path: str
    values: Mapping[str, str | None] = {}
    cut: Cut | None = None


@dataclass(frozen=True)
class File:
    """A data file by its path below the table's folder.

    `clusters` are the least and the largest name in it, where its statistics have them; `committed_ms` is when it
    came into the table, on the wall clock of who committed it; `values` are those of columns that the table is
    partitioned by, as Delta's log has them, which the file does not hold; `cut` is the part of it that is read, None
    all. A path that begins with `closings.OURS` lies below the lake: its rows close sources.
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
        """What a task needs to read it."""
        return Part(self.path, dict(self.values), self.cut)


def added(commit: Sequence[Mapping[str, Any]], accepted: bool = False) -> list[File]:
    """What a commit's actions add; one that rewrote files, to compact them or to age rows, added nothing, or a cluster
    that is to be read again.

    `accepted`: whoever removed rows may have added others; what was read before is a repeat.
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
    """Whether a commit takes rows out, other than by our retention, or files that are `skipped`."""
    taken = {unquote(a["remove"]["path"]) for a in commit if "remove" in a and a["remove"].get("dataChange", True)}
    return bool(taken - set(skipped)) and not _is_retention(commit) and not _is_upsert(commit)


def rewrites(commit: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a commit that takes rows out has added others than those it kept, as a DELETE does not."""
    adds = any("add" in a and a["add"]["dataChange"] for a in commit)
    return adds and _removes(commit) and not _is_retention(commit) and _info(commit).get("operation") != "DELETE"


def _is_upsert(commit: Sequence[Mapping[str, Any]]) -> bool:
    """A MERGE that deleted nothing: the files it wrote anew hold all rows of those it removed. Rows that come once more
    are repeats of their key, and one that it changed contradicts the one that was read."""
    info = _info(commit)
    metrics = info.get("operationMetrics") or {}
    deleted = metrics.get("num_target_rows_deleted", metrics.get("numTargetRowsDeleted"))
    return bool(info.get("operation") == "MERGE" and deleted is not None and int(deleted) == 0)


def _removes(commit: Sequence[Mapping[str, Any]]) -> bool:
    return any(a["remove"].get("dataChange", True) for a in commit if "remove" in a)


def _is_retention(commit: Sequence[Mapping[str, Any]]) -> bool:
    """Whether it took rows away in our upkeep: by its mark, or, of earlier versions, by its only condition."""
    info = _info(commit)
    predicate = str(info.get("operationParameters", {}).get("predicate", ""))
    of_earlier = info.get("operation") == "DELETE" and re.fullmatch(r"ts < (?:(?! AND | OR ).)*", predicate)
    return bool(info.get(MARK) == RETENTION or str(info.get(MARK)).startswith(AGAIN) or of_earlier)


def _info(commit: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    found: Iterator[Mapping[str, Any]] = (a["commitInfo"] for a in commit if "commitInfo" in a)
    return next(found, {})


def operation(commit: Sequence[Mapping[str, Any]]) -> str:
    """What a commit says that it was."""
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
    """The least and the largest cluster of a file, which a table may be partitioned by."""
    return (values["cluster"], values["cluster"]) if "cluster" in values else (least, largest)
