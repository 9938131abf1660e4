"""Random plays of a broker's logs, each known by its seed, from the files to the rows in the lake.

`python -m tests.unit.ingest.plays 0 2000` plays seeds 0 to 1999, and prints the fewest steps with which one fails.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from generators.brokerlogs.ingest import NothingToRead, ingest_logs
from generators.brokerlogs.tailing import chosen_files
from pipelines.lake.bronze import read_events
from tests.unit.brokerlogs.log_lines import T0

Step = tuple[str, int]
"""The name of an action, and a number that says how."""
FILES = ("replication.log", "server.log")
PAUSES = (0, 0, 0, 1, 10, 400, 1000, 30_000, 700_000, 4_000_000)
SETBACKS = (1, 5, 900, 5_000, 60_000, 300_000, 3_600_000)
CALLS = ((), (), (), (), (), (), (), (), ("replication.log",), ("server.log",))
"""The files of a call; all of the folder if none is named."""
STEPS = {"print": 8, "shrink": 5, "pause": 5, "set_back": 2, "call": 5, "rotate": 2, "copy": 1, "cut": 1, "switch": 2}
"""How often each step is drawn."""


class Line(NamedTuple):
    """A line that was printed to a file: the HW of a partition at a time (ms)."""

    file: str
    ms: int
    partition: int
    hw: int
    shrinks: bool
    beside: bool
    """Whether another file has it, too, with other HWs: of a shrink it tells none that it told before."""


class Play:
    """Logs of broker 1 that are written and read; `alike`: both have all lines, else one has the stock pattern."""

    def __init__(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="play-"))
        self.logs, self.lake = self.folder / "broker-1", str(self.folder / "lake")
        self.logs.mkdir()
        (self.logs / "server.properties").write_text("node.id=1\n")
        self.alike, self.chunk = seed % 3 == 0, (300, 1 << 20)[seed % 2]
        self.forgets = not self.alike and seed % 5 == 0
        """Whether a position has few of the rows that were told: HWs of shrinks may be told again."""
        self.is_split = False
        """Whether calls were given one of the files."""
        self.prints = True
        """Whether replication.log is written."""
        self.ms, self.hw, self.numbers = T0, 0, Counter[str]()
        self.lines: list[Line] = []
        self.hws = [0, 0]
        self.copies = 0

    def _write(self, file: str, partition: int, hw: int, message: str, level: str, *, shrinks: bool) -> None:
        message = f"[Partition orders-{partition} broker=1] {message}"
        if file == "server.log" and not self.alike:
            stamp = datetime.fromtimestamp(self.ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            text = f"[{stamp},{self.ms % 1000:03}] {level} {message} (kafka.cluster.Partition)\n"
        else:
            self.numbers[file] += 1
            text = f"{self.ms}|t|{level}|kafka.cluster.Partition|{self.numbers[file]}|{message}\n"
        with open(self.logs / file, "a") as log:
            log.write(text)
        self.lines.append(Line(file, self.ms, partition, hw, shrinks, self.prints))

    def print(self, how: int) -> None:
        """Some HWs advance, of which the stock file says nothing."""
        for k in range(1 + how % 3):
            partition = (how + k) % 2
            before, self.hw = self.hws[partition], self.hw + 1
            self.hws[partition] = self.hw
            where = [f"(offset={offset}, segment=[0:7])" for offset in (before, self.hw)]
            for file in self._files()[: 2 if self.alike else 1]:
                if file == "replication.log" or self.alike:
                    text = f"High watermark updated from {where[0]} to {where[1]}"
                    self._write(file, partition, self.hw, text, "DEBUG", shrinks=False)
            self.ms += how // 7 % 2

    def shrink(self, how: int) -> None:
        """An ISR shrinks, which all files say."""
        partition, hw = how % 2, self.hws[how % 2]
        text = (
            f"Shrinking ISR from 1,2,3 to 1,{2 + how // 2 % 2}. Leader: (highWatermark: {hw}, endOffset: {hw + 2}). "
            f"Out of sync replicas: (brokerId: 3, endOffset: {hw}, lastCaughtUpTimeMs: {T0})."
        )
        for file in self._files():
            self._write(file, partition, hw, text, "INFO", shrinks=True)

    def _files(self) -> Sequence[str]:
        return FILES if self.prints else FILES[1:]

    def pause(self, how: int) -> None:
        self.ms += PAUSES[how % len(PAUSES)]

    def set_back(self, how: int) -> None:
        self.ms -= SETBACKS[how % len(SETBACKS)]

    def switch(self, _: int) -> None:
        """Printing of HWs is switched off or on."""
        self.prints = not self.prints
        self.ms += 1

    def rotate(self, how: int) -> None:
        path = self.logs / FILES[how % 2]
        for k in range(9, 0, -1):
            if (older := path.with_name(f"{path.name}.{k}")).exists():
                older.rename(path.with_name(f"{path.name}.{k + 1}"))
        if path.exists():
            path.rename(path.with_name(f"{path.name}.1"))

    def copy(self, how: int) -> None:
        """A copy of whole lines, in another folder, or under another name."""
        path = self.logs / FILES[how % 2]
        if path.exists():
            self.copies += 1
            names = (f"{path.name}.bak", f"x{self.copies}/{path.name}", f"g{self.copies}.log", f"{path.name}-20261130")
            target = self.logs / names[how // 2 % len(names)]
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)

    def cut(self, how: int) -> None:
        """The first, the last or the middle lines of a log, under a name of one's own."""
        path = self.logs / FILES[how % 2]
        if path.exists():
            self.copies += 1
            lines = path.read_text().splitlines(keepends=True)
            third = max(1, len(lines) // 3)
            some = (lines[:third], lines[-third:], lines[third:-third], lines[:: 2 + how % 3])[how // 2 % 4]
            (self.logs / f"w{self.copies}.log").write_text("".join(some))

    def call(self, how: int) -> None:
        names = CALLS[how % len(CALLS)]
        paths = [self.logs / name for name in names] or [self.logs]
        self.is_split |= bool(names)
        if all(path.exists() for path in paths):
            try:
                ingest_logs(paths, cluster="c", lake=self.lake)
            except NothingToRead:
                return

    def fault(self) -> str | None:
        """Return what is wrong; None if each line was told once, or a row says that it may not be."""
        self.call(0)
        if not self.lines:
            return None
        rows = read_events(self.lake).to_pylist()
        if any(row["event_type"] in ("lost", "unread") or row["source_epoch"] for row in rows):
            return None
        hws = [row for row in rows if row["event_type"] == "hw"]
        keys = [(row["partition"], row["hw"], round(row["ts"].timestamp() * 1000)) for row in hws]
        values, told = {(row["partition"], row["hw"]) for row in hws}, {*keys}
        # logs under two names of Kafka's that were given in calls of their own are two logs
        sources = [row["source_id"].partition("+")[0] if self.is_split else "" for row in hws]
        again = {(line.partition, line.hw, line.ms) for line in self.lines if line.shrinks and self.forgets}
        counts = Counter(zip(keys, sources, strict=True))
        twice = [key for key, count in counts.items() if count > 1 and key[0] not in again]
        never = [
            line
            for line in self.lines
            if not (line.shrinks and line.beside)
            if (line.partition, line.hw) not in values
            or (not line.shrinks and (line.partition, line.hw, line.ms) not in told)
        ]
        parts = ([f"never {line}" for line in never if line.hw], [f"twice {key}" for key in twice])
        return "; ".join(part[0] for part in parts if part) or None


def steps_of(seed: int) -> list[Step]:
    """Return the play of a seed."""
    draw = random.Random(seed)
    names = draw.choices([*STEPS], weights=[*STEPS.values()], k=draw.randint(3, 30))
    return [(name, draw.randrange(1 << 16)) for name in names]


def play(steps: Sequence[Step], seed: int) -> str | None:
    """Return what is wrong after these steps; None if nothing is."""
    one = Play(seed)
    chunk, least = (f"generators.brokerlogs.tailing.session.{name}" for name in ("CHUNK", "LEAST_CHUNK"))
    stored = patch("generators.brokerlogs.tailing.chosen_files.STORED", 3 if one.forgets else chosen_files.STORED)
    try:
        with patch(chunk, one.chunk), patch(least, one.chunk), stored:
            for name, how in steps:
                getattr(one, name)(how)
            return one.fault()
    except Exception as error:  # whatever it is, the play fails
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        shutil.rmtree(one.folder, ignore_errors=True)


def fewest(steps: Sequence[Step], seed: int) -> list[Step]:
    """Return those of the steps without which the play does not fail."""
    left, size = [*steps], len(steps)
    while size:
        for k in range(len(left) - size, -1, -size):
            fewer = left[:k] + left[k + size :]
            if play(fewer, seed):
                left = fewer
        size //= 2
    return left


if __name__ == "__main__":
    begin, end = map(int, sys.argv[1:])
    failed = 0
    for seed in range(begin, end):
        if play(steps_of(seed), seed):
            failed += 1
            left = fewest(steps_of(seed), seed)
            print(f"{seed}: {play(left, seed)}", *left, sep="\n  ", flush=True)
    print(f"{end - begin} plays, {failed} failed")
