"""A folder under a writer that rotates its log, and people who copy, compress, restore and delete files: each line is
told once, or it is told that lines are missing."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from generators.brokerlogs.discovery.log_series import Series
from generators.brokerlogs.tailing.read_position import Older, PositionLost, ReadPosition
from generators.brokerlogs.tailing.reader import SeriesReader
from generators.brokerlogs.tailing.told_lines import Stretch, Told

LIVE = "rep.log"
KEPT = 4
T0 = 1_700_000_000_000


class Directory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="directory-"))
        self.live = self.folder / LIVE
        self.live.touch()
        self.written = 0
        self.clock = T0
        self.torn = b""
        self.told: Counter[bytes] = Counter()
        self.order: list[list[int]] = [[]]
        self.lost = 0
        self.copies = 0
        self.deleted: dict[str, bytes] = {}
        self.gone_before: set[int] = set()
        """Lines of files that were deleted before they were opened: nothing could show them."""
        self._start([])

    # -- the reader

    def _start(self, states: list) -> None:
        """The readers of these (position, stretch); the first one is the source's own."""
        told = Told()
        self.readers: list[SeriesReader] = []
        for k, (position, stretch) in enumerate(states or [(None, Stretch())]):
            told.stretches.append(stretch)
            only = Older(0, 0, 0) if k else None
            self.readers.append(SeriesReader(Series(self.folder, LIVE), told, stretch, position, only=only))
        self.readers[0].older_readers = self.readers[1:]
        older = self.readers[0].older
        older.extend([Older(0, 0, 0)] * (len(self.readers) - 1 - len(older)))

    @rule(limit=st.sampled_from([50, 300, 1 << 20]), reads=st.sampled_from([1, 3, 1000]))
    def poll(self, limit: int, reads: int) -> None:
        k = 0
        while k < len(self.readers):
            reader = self.readers[k]
            for _ in range(reads):
                try:
                    lines = reader.read(limit)
                except PositionLost:
                    self.lost += 1
                    reader.forget_end()
                    continue
                self.lost += reader.missing() is not None
                if not lines:
                    break
                self._tell(k, lines)
            while len(self.readers) <= len(self.readers[0].older):
                only = self.readers[0].older[len(self.readers) - 1]
                mine = Stretch()
                self.readers[0].told.stretches.append(mine)
                self.readers.append(SeriesReader(Series(self.folder, LIVE), self.readers[0].told, mine, only=only))
                self.readers[0].older_readers.append(self.readers[-1])
                self.order.append([])
            k += 1

    def _tell(self, k: int, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        for line in lines.splitlines():
            if line.endswith(b" ."):
                self.told[line] += 1
                self.order[k].append(int(line.split()[1]))

    @rule()
    def restart(self) -> None:
        states = []
        for reader in self.readers:
            position = reader.read_position
            stored = ReadPosition.from_json(position.as_json()) if position else None
            states.append((stored, reader.mine.until(stored.count if stored else 0)))
        self._start(states)

    @rule(which=st.integers(0, 9))
    def close(self, which: int) -> None:
        """Others are read meanwhile, and no more files may be open."""
        self.readers[which % len(self.readers)].close()

    # -- the writer

    @rule(count=st.integers(1, 6), back=st.sampled_from([0, 0, 0, 3_600_000]))
    def write(self, count: int, back: int) -> None:
        self.clock -= back
        with open(self.live, "ab") as file:
            file.write(self.torn)
            self.torn = b""
            for _ in range(count):
                self.clock += 10
                file.write(b"%d|t|INFO|a.Logger|line %d .\n" % (self.clock, self.written))
                self.written += 1

    @rule(at=st.integers(1, 30))
    def write_torn(self, at: int) -> None:
        if not self.torn:
            line = b"%d|t|INFO|a.Logger|line %d .\n" % (self.clock, self.written)
            self.written += 1
            self.torn = line[at:]
            with open(self.live, "ab") as file:
                file.write(line[:at])

    def _whole(self) -> bool:
        return not self.torn and self.live.stat().st_size > 0

    @precondition(_whole)
    @rule(truncate=st.booleans())
    def rotate(self, truncate: bool) -> None:
        for k in range(KEPT, 0, -1):
            for suffix in ("", ".gz"):
                path = self.folder / f"{LIVE}.{k}{suffix}"
                if path.exists() and k == KEPT:
                    self._forget(path)
                    path.unlink()
                elif path.exists():
                    path.rename(self.folder / f"{LIVE}.{k + 1}{suffix}")
        first = self.folder / f"{LIVE}.1"
        if truncate:
            shutil.copyfile(self.live, first)
            os.truncate(self.live, 0)
        else:
            self.live.rename(first)
            self.live.touch()

    def _forget(self, path: Path) -> None:
        """Expect no lines of a file that goes, where nothing can show that it had them.

        It was not opened, or a copy goes as far as it was read or further: that may be all that it had.
        """
        lines = [line for line in _content(path).splitlines() if line.endswith(b" .")]
        positions = [position for reader in self.readers if (position := reader.read_position)]
        was_opened = any(path.stat().st_ino == inode for position in positions for _, inode in position.seen)
        told = [line for line in lines if self.told[line]]  # numbers of inodes are used again
        ends = [line + b"\n" for line in lines[lines.index(told[-1]) :]] if told else []
        others = [_content(other) for other in self.folder.iterdir() if other != path]
        if not was_opened or not told or any(other.endswith(last) for other in others for last in ends):
            self.gone_before |= {int(line.split()[1]) for line in lines}

    # -- people

    def _rotated(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.name != LIVE and "-" not in path.name)

    @precondition(lambda self: self._rotated())
    @rule(which=st.integers(0, 9))
    def compress(self, which: int) -> None:
        path = self._rotated()[which % len(self._rotated())]
        if path.suffix != ".gz":
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
            path.unlink()

    @rule()
    def copy_live(self) -> None:
        """A copy, of whole lines: one of a torn line is another line."""
        self.copies += 1
        content = self.live.read_bytes()
        (self.folder / f"{LIVE}-202611{self.copies % 28 + 1:02}").write_bytes(content[: content.rfind(b"\n") + 1])

    @rule()
    def replace_live(self) -> None:
        """As rsync does: another inode with the same lines."""
        other = self.folder / "other"
        shutil.copyfile(self.live, other)
        os.replace(other, self.live)

    @precondition(lambda self: self._rotated())
    @rule(which=st.integers(0, 9))
    def delete(self, which: int) -> None:
        path = self._rotated()[which % len(self._rotated())]
        self.deleted[f"{LIVE}-2025{len(self.deleted) % 12 + 1:02}01"] = _content(path)
        self._forget(path)
        path.unlink()

    @precondition(lambda self: self.deleted)
    @rule(which=st.integers(0, 9))
    def restore(self, which: int) -> None:
        """A deleted file comes back, under another name."""
        name = sorted(self.deleted)[which % len(self.deleted)]
        (self.folder / name).write_bytes(self.deleted[name])

    # -- what must hold

    @invariant()
    def no_line_is_told_twice(self) -> None:
        assert self.lost or max(self.told.values(), default=1) == 1, self.told.most_common(3)

    def teardown(self) -> None:
        try:
            for _ in range(50):
                self.poll(1 << 20, 1000)
            assert all(reader.at_end for reader in self.readers)
            self.no_line_is_told_twice()
            there = Counter(line for path in self.folder.iterdir() for line in _content(path).splitlines())
            untold = [line for line in there if line.endswith(b" .") and not self.told[line]]
            if self.torn:
                untold = [line for line in untold if not line.endswith(b"line %d ." % (self.written - 1))]
            assert not untold, (untold, sorted(path.name for path in self.folder.iterdir()))
            told = {int(line.split()[1]) for line in self.told}
            missing = (
                set(range(min(told, default=self.written), self.written - bool(self.torn))) - told - self.gone_before
            )
            assert self.lost or not missing, missing
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_a_last_line_that_was_told_alone_is_known_where_its_copy_ends_with_it() -> None:
    one = Directory()
    one.write_torn(29)
    one.write(2, 3_600_000)
    one.poll(50, 3)
    one.rotate(truncate=False)
    one.write(5, 3_600_000)
    one.compress(0)
    one.restart()
    one.rotate(truncate=True)
    one.poll(300, 1)
    one.restart()
    one.write_torn(15)
    one.write(5, 0)
    one.rotate(truncate=False)
    one.compress(1)
    one.poll(50, 1000)
    one.teardown()


@pytest.mark.long
class TestDirectory(Directory.TestCase):
    settings = settings(max_examples=60, stateful_step_count=25)


@pytest.mark.nightly
class TestLongHistories(Directory.TestCase):
    settings = settings(max_examples=10_000, stateful_step_count=40)
