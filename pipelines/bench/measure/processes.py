"""CPU time and memory of a process and all its descendants, from /proc; unknown where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def cpu_seconds(root: int) -> float | None:
    """CPU seconds used so far by `root`, its descendants and those of them that have ended."""
    if not PROC.is_dir():
        return None
    ticks = sum(sum(map(int, fields[11:15])) for _, fields in _tree(root))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(root: int) -> int | None:
    """Resident memory of `root` and its descendants; what they share counts once."""
    if not PROC.is_dir():
        return None
    return sum(_proportional(pid) for pid, _ in _tree(root))


def _tree(root: int) -> Iterator[tuple[int, list[str]]]:
    """(pid, fields of `stat` after the name) of `root` and its descendants."""
    stats = dict(filter(None, (_stat(entry) for entry in PROC.iterdir() if entry.name.isdigit())))
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        if pid in stats:
            yield pid, stats[pid]


def _stat(process: Path) -> tuple[int, list[str]] | None:
    try:
        # The name, in brackets, may itself hold blanks and brackets.
        return int(process.name), (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _proportional(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
