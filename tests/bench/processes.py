"""CPU time and memory of a process and all its descendants, from /proc; unknown where there is none."""

import os
import threading
from contextlib import contextmanager
from pathlib import Path

PROC = Path("/proc")


def cpu_seconds(root):
    """CPU seconds used so far by `root`, its descendants and those of them that have ended."""
    if not PROC.is_dir():
        return None
    ticks = sum(sum(map(int, fields[11:15])) for _, fields in _tree(root))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(root):
    """Resident memory of `root` and its descendants; what they share counts once."""
    if not PROC.is_dir():
        return None
    return sum(_proportional(pid) for pid, _ in _tree(root))


def _tree(root):
    """(pid, fields of `stat` after the name) of `root` and its descendants."""
    stats = dict(filter(None, (_stat(entry) for entry in PROC.iterdir() if entry.name.isdigit())))
    children = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        if pid in stats:
            yield pid, stats[pid]


def _stat(process):
    try:
        # The name, in brackets, may itself hold blanks and brackets.
        return int(process.name), (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _proportional(pid):
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@contextmanager
def watching(pid, every_s=0.2):
    """Samples the memory of a process and its descendants; what is yielded returns the peak so far."""
    done, peak = threading.Event(), [memory_bytes(pid)]

    def watch():
        while not done.wait(every_s):
            peak.append(memory_bytes(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: max((p for p in peak if p is not None), default=None)
    finally:
        done.set()
        thread.join()
