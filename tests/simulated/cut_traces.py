"""Recorded logs cut to what a lower log level prints."""

import gzip
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from generators.recordings.traces import path

# Lean TRACE: what a filter in the broker's log4j2 configuration denies.
LEAN_DENIES = ("Recorded replica", "Progress awaiting", "Follower received")


def lean(lines: Iterable[str]) -> Iterator[str]:
    """The lines that lean TRACE prints: all without those of every fetch and every waiting producer."""
    return (line for line in lines if not any(text in line for text in LEAN_DENIES))


def info(lines: Iterable[str]) -> Iterator[str]:
    """The lines that a stock broker prints: INFO and above, with the stack traces that belong to them."""
    keep = True
    for line in lines:
        fields = line.split("|", 3)
        if len(fields) == 4 and fields[0].isdigit():
            keep = fields[2] not in ("TRACE", "DEBUG")
        if keep:
            yield line


def cut(name: str, level: Callable[[Iterable[str]], Iterable[str]], folder: str | Path) -> Path:
    """Write scenario `name` into `folder`, its broker logs (plain) passed through `level`: `lean` or `info`."""
    target = Path(folder)
    for source in sorted(path(name).rglob("*")):
        written = target / source.relative_to(path(name))
        if source.is_dir():
            written.mkdir(parents=True, exist_ok=True)
        elif source.name.endswith(".log.gz"):
            with gzip.open(source, "rt") as lines, open(written.with_suffix(""), "w") as out:
                out.writelines(level(lines))
        else:
            written.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, written)
    return target
