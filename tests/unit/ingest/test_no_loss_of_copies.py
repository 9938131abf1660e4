"""Logs of a broker that lost nothing, rotated, copied, cut and given in any order: no loss is shown by them."""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import NothingToRead, ingest_logs
from pipelines.lake.bronze import read_events
from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.facts.tables import Facts

LIVE = "replication.log"
KEY = ("source_id", "source_epoch", "source_seq")
FROM, TO = datetime(2026, 10, 25, 1), "%Y-%m-%d %H:%M:%S,%f"
HEAD = (
    "[Broker id=1] Leader orders-1 with topic id Some(8x30CauwR6S1Ou0qiySY3A) starts at leader epoch {epoch} from "
    "offset {hw} with partition epoch {epoch}, high watermark {hw}, ISR [1,2,3], adding replicas [] and removing "
    "replicas [] . Previous leader None and previous leader epoch was -1."
)


class Copies:
    """A broker's folder, another one beside it for copies, and a lake that reads what it is given call by call."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.draw, self.lake = draw, str(folder / "lake")
        self.logs, self.beside = folder / "broker-1", folder / "beside"
        for there in (self.logs, self.beside):
            there.mkdir()
            (there / "server.properties").write_text("node.id=1\nmin.insync.replicas=2\n")
        self.live, self.steps = self.logs / LIVE, list[str]()
        self.numbered, self.count, self.hw, self.epoch, self.clock = draw.random() < 0.3, 0, 0, 5, FROM
        self.deleted: list[bytes] = []
        self.ran, self.read = Reconstructor(Rules()), set[tuple[str, int, int]]()
        """What runs after each call, and the keys of the rows that it has read."""
        self.facts = list[Facts]()
        self.live.write_text("")
        self._print("state.change.logger", "INFO", HEAD.format(epoch=self.epoch, hw=self.hw))

    def _print(self, logger: str, level: str, message: str) -> None:
        self.count += 1
        ms = int((self.clock - datetime(1970, 1, 1)).total_seconds() * 1000)
        stamp = self.clock.strftime(TO)[:-3]
        numbered = f"{ms}|data-plane-1|{level}|{logger}|{self.count}|{message}\n"
        with self.live.open("a") as file:
            file.write(numbered if self.numbered else f"[{stamp}] {level} {message} ({logger})\n")

    def write(self) -> None:
        for _ in range(self.draw.randint(1, 8)):
            self.clock += timedelta(milliseconds=self.draw.choice([0, 1, 400, 1000]))
            before, after = (f"(offset={offset}, segment=[0:{offset}])" for offset in (self.hw, self.hw + 10))
            message = f"[Partition orders-1 broker=1] High watermark updated from {before} to {after}"
            self._print("kafka.cluster.Partition", "DEBUG", message)
            self.hw += 10

    def lead(self) -> None:
        """The broker begins to lead again: in a new leader epoch, or in the same one after a restart."""
        self.epoch += self.draw.random() < 0.7
        self.clock += timedelta(seconds=self.draw.choice([0, 1, 120]))
        self._print("state.change.logger", "INFO", HEAD.format(epoch=self.epoch, hw=self.hw))
        self.write()

    def set_clock_back(self) -> None:
        self.clock -= timedelta(hours=self.steps.count("set_clock_back") == 1)
        self.write()

    def older_files(self) -> list[Path]:
        return sorted(path for path in self.logs.iterdir() if re.match(rf"{LIVE}\.\d", path.name))

    def rotate(self) -> None:
        if not self.live.stat().st_size:
            return
        for path in sorted(self.older_files(), key=lambda path: -int(path.name.split(".")[2])):
            number = int(path.name.split(".")[2])
            path.rename(path.with_name(path.name.replace(f".log.{number}", f".log.{number + 1}")))
        if self.draw.random() < 0.4:
            shutil.copyfile(self.live, self.logs / f"{LIVE}.1")
            os.truncate(self.live, 0)
        else:
            self.live.rename(self.logs / f"{LIVE}.1")
            self.live.write_text("")

    def compress(self) -> None:
        for path in self.older_files()[:1]:
            if path.suffix != ".gz":
                Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()

    def delete(self) -> None:
        for path in self.older_files()[-1:]:
            content = path.read_bytes()
            self.deleted.append(gzip.decompress(content) if path.suffix == ".gz" else content)
            path.unlink()

    def restore(self) -> None:
        for content in self.deleted[:1]:
            (self.logs / f"{LIVE}-20250101").write_bytes(content)

    def copy_beside(self) -> None:
        name = self.draw.choice([LIVE, "server.log", "copy.log", f"{LIVE}.bak"])
        there = self.draw.choice([self.beside, self.logs])
        if there / name != self.live:
            shutil.copyfile(self.live, there / name)

    def mirror(self) -> None:
        for path in self.logs.iterdir():
            shutil.copyfile(path, self.beside / path.name)

    def copy_last_lines(self) -> None:
        lines = self.live.read_bytes().splitlines(keepends=True)
        (self.beside / LIVE).write_bytes(b"".join(lines[-self.draw.randint(1, 9) :]))

    def copy_some_lines(self) -> None:
        lines = [line for path in (self.live, *self.older_files()) for line in _lines(path)]
        (self.beside / "found.log").write_bytes(b"".join(lines[:: self.draw.randint(1, 3)]))

    def replace(self) -> None:
        shutil.copyfile(self.live, self.logs / "other")
        os.replace(self.logs / "other", self.live)

    def call(self) -> None:
        files = [path for there in (self.logs, self.beside) for path in there.iterdir() if path.suffix != ".properties"]
        given = self.draw.choice([[self.logs], [self.logs, self.beside], [self.beside], [self.draw.choice(files)]])
        self.steps[-1] += f" {[path.name for path in given]}"
        with suppress(NothingToRead):
            ingest_logs(given, cluster="c", lake=self.lake)
        self.run()

    def run(self) -> None:
        events = read_events(self.lake).sort_by([(name, "ascending") for name in KEY])
        keys = [tuple(row.values()) for row in events.select(KEY).to_pylist()]
        self.facts.append(self.ran.update(events.filter([key not in self.read for key in keys])))
        self.read.update(keys)

    def damage(self) -> None:
        for path in Path(self.lake, "_ingest").rglob("*"):
            if path.is_file() and path.name != "names.json":
                path.write_text("damaged")

    def proven(self) -> set[str]:
        """The kinds of loss that are shown by all rows together, and by those of each call after those before."""
        events = read_events(self.lake).sort_by([(name, "ascending") for name in KEY])
        reconstructor = Reconstructor(Rules())
        self.run()
        live = Facts.concat([reconstructor.update(events), reconstructor.finish()])
        ran = Facts.concat([*self.facts, self.ran.finish()])
        tables = (replay(events, Rules()).hw_regressions, live.hw_regressions, ran.hw_regressions)
        return {row["class"] for table in tables for row in table.to_pylist() if row["proof"] != "unproven"}


def _lines(path: Path) -> list[bytes]:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines(keepends=True)


STEPS: list[Callable[[Copies], None]] = [
    *[Copies.write] * 6, *[Copies.call] * 6, *[Copies.rotate] * 4, *[Copies.lead] * 3, Copies.set_clock_back,
    Copies.compress, Copies.delete, Copies.restore, Copies.copy_beside, Copies.mirror, Copies.copy_last_lines,
    Copies.copy_some_lines, Copies.replace, Copies.damage,
]  # fmt: skip


def play(folder: Path, seed: int) -> tuple[list[str], set[str]]:
    draw = random.Random(seed)
    copies = Copies(folder, draw)
    for step in [*draw.choices(STEPS, k=draw.randint(4, 16)), Copies.call, Copies.write]:
        copies.steps.append(step.__name__)
        step(copies)
    ingest_logs([copies.logs, copies.beside], cluster="c", lake=copies.lake)
    return copies.steps, copies.proven()


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(100))
def test_no_loss_is_shown_of_a_broker_that_lost_nothing(seed: int, tmp_path: Path) -> None:
    steps, proven = play(tmp_path, seed)
    assert proven <= {"stale_leader_hw"}, (seed, steps)
