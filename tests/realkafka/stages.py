"""From a fault to the message about it: when each stage was reached, as the files and the receiver have it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

Row = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """One stage; `at_ms` in epoch milliseconds, None: it never came."""

    name: str
    at_ms: int | None


def committed(table: Path, is_row: Callable[[Row], bool]) -> tuple[int, Row] | None:
    """When the first commit with such a row could be read (epoch ms), and the row; None where no commit has one."""
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for row in filter(is_row, _added(table, commit)):
            return commit.stat().st_mtime_ns // 1_000_000, row
    return None


def _added(table: Path, commit: Path) -> Iterator[Row]:
    for line in commit.read_text().splitlines():
        if added := json.loads(line).get("add"):
            yield from pq.ParquetFile(table / unquote(added["path"])).read().to_pylist()


def in_order(stages: Sequence[Stage]) -> bool:
    """Whether every stage came, and none before the one that it follows from."""
    times = [stage.at_ms for stage in stages if stage.at_ms is not None]
    return len(times) == len(stages) and all(a <= b for a, b in pairwise(times))


def report(stages: Sequence[Stage]) -> Iterator[str]:
    """A line per stage: seconds since the fault, and since the stage before."""
    yield f"{'stage':<44} {'since the fault':>15} {'since the stage before':>23}"
    first = before = stages[0].at_ms
    for stage in stages:
        yield f"{stage.name:<44} {_seconds(first, stage.at_ms):>15} {_seconds(before, stage.at_ms):>23}"
        before = stage.at_ms


def _seconds(begin_ms: int | None, end_ms: int | None) -> str:
    return "not seen" if begin_ms is None or end_ms is None else f"{(end_ms - begin_ms) / 1000:.1f} s"
