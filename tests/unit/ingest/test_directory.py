"""A folder under a writer that rotates its log, and people who copy, compress, forbid and delete files, and give some
or all of them, or copies: each line is told once, or it is told that lines are missing."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import tempfile
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import time_ns
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from generators.brokerlogs.discovery.log_series import Series
from generators.brokerlogs.tailing.read_position import PositionLost, ReadPosition
from generators.brokerlogs.tailing.reader import SeriesReader
from generators.brokerlogs.tailing.told_lines import Stretch, Told

LIVE = "rep.log"
KEPT = 4
MOST_OPENED = 20_000
"""Files that one poll may open: an endless one fails, and does not hang."""
MOST_READERS = 100
T0 = 1_700_000_000_000
COARSE_S = T0 // 1000 + 1000
"""The beginning of a coarse clock: later than all lines, earlier than now."""
MEANWHILE = [
    ("write",),
    ("move",),
    ("move", "write"),
    ("copy", "write"),
    ("move", "write", "copy", "write"),
    ("replace",),
]
"""What happens between two looks of the reader."""
_AGAIN = " has lines that were told before, they are told again"
_OPEN, _READ = os.open, os.read


class Directory(RuleBasedStateMachine):
    gives_parts = False
    """Whether last lines, and excerpts, are given, and files change as they are opened: 1 in 3,000 such histories tells
    lines in another order without a word yet."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="directory-"))
        self.other = Path(tempfile.mkdtemp(prefix="directory-"))
        self.live = self.folder / LIVE
        self.live.touch()
        self.rising = False
        self.forbidden: set[int] = set()
        """Files, by inode, that cannot be opened."""
        self.written = 0
        self.clock = T0
        self.has_order = True
        """Whether names and times order the files: no clock was set back, no copy has a date beside numbers."""
        self.torn = b""
        self.told: Counter[bytes] = Counter()
        self.last = [-1]
        """The line that each reader told last, -1 where the next one is not known to follow it."""
        self.again: dict[int, int] = {}
        """By reader the file, by inode, of which it said last that it tells lines again, until it has told these."""
        self.begun: set[int] = set()
        """The readers that tell lines of that file."""
        self.spoke: set[int] = set()
        """The readers that said, for whatever reason, that lines may be missing before those to come."""
        self.claimed: list[tuple[int, int]] = []
        """Each two lines that a reader told one after the other without a word on lines between them."""
        self.copies = 0
        self.deleted: dict[str, bytes] = {}
        self.gone_before: set[int] = set()
        """Lines of files that were deleted before they were opened: nothing could show them."""
        self.now = 0.0
        """The clock by which a listing of a folder is used for a second, if the folder had rested before."""
        self.is_coarse = False
        self.meanwhile: tuple[int, tuple[str, ...]] | None = None
        self._offer("here")
        self._start([])

    @initialize(rising=st.booleans(), coarse=st.booleans())
    def begin(self, rising: bool, *, coarse: bool = False) -> None:
        """The newest rotated file has the least number, or the greatest; times of files may be of two seconds."""
        self.rising, self.is_coarse = rising, coarse

    # -- the reader

    def _start(self, states: list) -> None:
        """The readers of these (position, stretch); the first one is the source's own."""
        told = Told()
        self.readers: list[SeriesReader] = []
        for k, (position, stretch) in enumerate(states or [(None, Stretch())]):
            told.stretches.append(stretch)
            older = self.readers[0].older if k else []
            older.extend([[]] if len(older) == k - 1 else ())
            only = older[k - 1] if k else None
            self.readers.append(SeriesReader(self.series, told, stretch, position, only=only))
        self.readers[0].older_readers[:] = self.readers[1:]

    @rule(limit=st.sampled_from([50, 300, 1 << 20]), reads=st.sampled_from([1, 3, 1000]), short=st.booleans())
    def poll(self, limit: int, reads: int, *, short: bool = False) -> None:
        """Read; `short`: the system gives less than there is, as FUSE may."""
        self.opened = 0
        self._set_times()
        clock = patch("generators.brokerlogs.discovery.listing.time", lambda: self.now)
        ticks = patch("generators.brokerlogs.discovery.log_file.time_ns", self._time_ns)
        some = patch("os.read", lambda file, length: _READ(file, min(length, 40)))
        with patch("os.open", self._open), clock, ticks, some if short else nullcontext():
            self._poll(limit, reads)

    @precondition(lambda self: self.gives_parts)
    @rule(limit=st.sampled_from([50, 1 << 20]), at=st.integers(0, 12), steps=st.sampled_from(MEANWHILE))
    def poll_while(self, limit: int, at: int, steps: tuple[str, ...]) -> None:
        """Something happens as the reader is about to open a file, else after it has read."""
        self.meanwhile = at, steps
        self.poll(limit, 1000)
        self._happen()

    def _happen(self) -> None:
        steps, self.meanwhile = self.meanwhile[1] if self.meanwhile else (), None
        for step in steps:
            if step == "write":
                self.write(4, 0)
            elif step == "replace":
                self.replace_live()
            elif self._whole():
                self._rotate(truncate=step == "copy")
        self._set_times()

    def _time_ns(self) -> int:
        return int(self.now * 1e9) + (COARSE_S * 1_000_000_000 if self.is_coarse else time_ns())

    def _set_times(self) -> None:
        """Files that were written have the time of a coarse clock."""
        for path in self._files() if self.is_coarse else ():
            if path.stat().st_mtime > 1.01 * COARSE_S:
                os.utime(path, (COARSE_S + self.now // 2 * 2,) * 2)

    def _open(self, path: Path, *args, **kwargs) -> int:
        if self.meanwhile and self.meanwhile[0] == self.opened:
            self._happen()
        self.opened += 1
        assert self.opened < MOST_OPENED
        if self.forbidden and os.stat(path).st_ino in self.forbidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return _OPEN(path, *args, **kwargs)

    def _poll(self, limit: int, reads: int) -> None:
        k = 0
        while k < len(self.readers):
            reader = self.readers[k]
            for _ in range(reads):
                try:
                    lines = reader.read(limit)
                except PositionLost as lost:
                    self.last[k] = -1
                    self._note(k, str(lost))
                    reader.forget_end()
                    continue
                if why := reader.missing():
                    self._note(k, why)
                if not lines:
                    break
                self._tell(k, lines)
            while len(self.readers) <= len(self.readers[0].older):
                only = self.readers[0].older[len(self.readers) - 1]
                mine = Stretch()
                self.readers[0].told.stretches.append(mine)
                self.readers.append(SeriesReader(self.series, self.readers[0].told, mine, only=only))
                self.readers[0].older_readers.append(self.readers[-1])
                self.last.append(-1)
                assert len(self.readers) < MOST_READERS
            k += 1

    def _note(self, k: int, why: str) -> None:
        """A reader says that lines are missing, or told again."""
        self.spoke.add(k)
        path, says_again, _ = why.partition(_AGAIN)
        if says_again:
            self.begun.discard(k)
            self.again[k] = os.stat(path).st_ino

    def _tell(self, k: int, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        file = self.readers[k].read_position.end
        claims = self.last[k] >= 0 and k not in self.spoke
        self.spoke.discard(k)
        is_said = file is not None and self.again.get(k) == file[1]
        if is_said:
            self.begun.add(k)
        elif k in self.begun:
            self.begun.discard(k)
            del self.again[k]
        for line in lines.splitlines():
            if line.endswith(b" ."):
                number, self.told[line] = int(line.split()[1]), self.told[line] + 1
                assert self.told[line] == 1 or is_said, f"reader {k} tells again: {line}"
                assert number > self.last[k] or not (self.has_order and claims), (number, self.last[k])
                self.claimed += [(self.last[k], number)] if claims else []
                self.last[k], claims = number, True

    @rule()
    def restart(self) -> None:
        states = []
        for reader in self.readers:
            position = reader.read_position
            stored = ReadPosition.from_json(position.as_json()) if position else None
            states.append((stored, reader.mine.until(stored.count if stored else 0)))
        self._start(states)

    def _offer(self, what: str, which: int = 0) -> None:
        here, there = Series(self.folder, LIVE), Series(self.other, LIVE)
        if what == "both":
            here = replace(here, others=(there,))
        elif what in ("live", "one"):
            names = [LIVE] if what == "live" else [path.name for path in self._rotated()] or [LIVE]
            here = replace(here, named=frozenset([names[which % len(names)]]))
        self.series = there if what == "there" and (self.other / LIVE).exists() else here

    @rule(what=st.sampled_from(["here", "both", "there", "live", "one"]), which=st.integers(0, 9))
    def call(self, what: str, which: int) -> None:
        """Another call, which is given other files of the same log."""
        self._offer(what, which)
        self.restart()

    @rule(which=st.integers(0, 9))
    def close(self, which: int) -> None:
        """Others are read meanwhile, and no more files may be open."""
        self.readers[which % len(self.readers)].close()

    @rule()
    def wait(self) -> None:
        """Nothing comes, goes or is renamed for a while: the next listing is used until a second has passed."""
        self.now += 1
        for folder in (self.folder, self.other):
            os.utime(folder, (-60, -60))

    # -- the writer

    @rule(count=st.integers(1, 6), back=st.sampled_from([0, 0, 0, 3_600_000]))
    def write(self, count: int, back: int) -> None:
        self.clock -= back
        self.has_order &= back == 0
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
        self._rotate(truncate=truncate)

    def _rotate(self, *, truncate: bool) -> None:
        def move(k: int, to: int) -> None:
            for suffix in ("", ".gz"):
                path = self.folder / f"{LIVE}.{k}{suffix}"
                if path.exists() and to not in range(1, KEPT + 1):
                    self._forget(path)
                    path.unlink()
                elif path.exists():
                    path.rename(self.folder / f"{LIVE}.{to}{suffix}")

        numbers = [int(path.name.split(".")[2]) for path in self._rotated()]
        if not self.rising:
            for k in range(KEPT, 0, -1):
                move(k, k + 1)
        elif max(numbers, default=0) == KEPT:
            for k in range(1, KEPT + 1):
                move(k, k - 1)
        newest = self.folder / f"{LIVE}.{min(max(numbers, default=0) + 1, KEPT) if self.rising else 1}"
        if truncate:
            shutil.copyfile(self.live, newest)
            os.truncate(self.live, 0)
        else:
            self.live.rename(newest)
            self.live.write_bytes(b"")

    @precondition(lambda self: not self.live.stat().st_size)
    @rule(zeros=st.integers(1, 500))
    def leave_zeros(self, zeros: int) -> None:
        """The writer did not notice that its file was truncated, and goes on at its old place."""
        self.has_order = False  # a file of zeros alone has no time
        os.truncate(self.live, zeros)

    def _forget(self, path: Path) -> None:
        """Expect no lines of a file that goes, where nothing can show that it had them.

        It was not opened, or a copy goes as far as it was read or further: that may be all that it had.
        """
        lines = [line for line in _content(path).splitlines() if line.endswith(b" .")]
        positions = [position for reader in self.readers if (position := reader.read_position)]
        was_opened = any(path.stat().st_ino == inode for position in positions for _, inode in position.seen)
        told = [line for line in lines if self.told[line]]  # numbers of inodes are used again
        ends = [line + b"\n" for line in lines[lines.index(told[-1]) :]] if told else []
        others = [_content(other) for other in self._files() if other != path]
        if not was_opened or not told or any(other.endswith(last) for other in others for last in ends):
            self.gone_before |= {int(line.split()[1]) for line in lines}

    # -- people

    def _files(self) -> list[Path]:
        return sorted([*self.folder.iterdir(), *self.other.iterdir()])

    @rule()
    def mirror(self) -> None:
        """Copies of whole lines of all files, in another folder; what is no more goes there, too."""
        for path in self.other.iterdir():
            if not (self.folder / path.name).exists():
                self._forget(path)
                path.unlink()
        for path in self.folder.iterdir():
            content = path.read_bytes()
            end = None if path.suffix == ".gz" else content.rfind(b"\n") + 1
            (self.other / path.name).write_bytes(content[:end])

    @rule(which=st.integers(0, 99))
    def forbid(self, which: int) -> None:
        self.forbidden.add(self._files()[which % len(self._files())].stat().st_ino)

    @rule()
    def permit(self) -> None:
        """All can be read, by another call or once this one tries again."""
        self.forbidden.clear()
        self.restart()

    @precondition(lambda self: self.gives_parts and self._whole())
    @rule(count=st.integers(1, 9))
    def give_last_lines(self, count: int) -> None:
        """A call with the last lines of the log: what comes before them is given later."""
        path = self.other / LIVE
        if path.exists():
            self._forget(path)
        path.write_bytes(b"".join(_content(self.live).splitlines(keepends=True)[-count:]))
        self._offer("there")
        self.restart()
        self.poll(1 << 20, 1000)

    @precondition(lambda self: self.gives_parts and self.written > 3)  # what was told depends on inodes
    @rule(step=st.sampled_from([2, 3]))
    def take_excerpt(self, step: int) -> None:
        """Single lines of what was told, as `grep` gives them."""
        self.has_order = False
        lines = sorted(self.told, key=lambda line: int(line.split()[1]))[::step]
        (self.folder / f"{LIVE}-20240101").write_bytes(b"".join(line + b"\n" for line in lines))
        there = {line for path in self._files() for line in _content(path).splitlines()}
        numbers = {int(line.split()[1]) for line in there.union(self.told) if line.endswith(b" .")}
        self.gone_before |= {*range(self.written - bool(self.torn))} - numbers  # it may be all that a log had

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
        self.has_order = False
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
        self.has_order = False
        name = sorted(self.deleted)[which % len(self.deleted)]
        (self.folder / name).write_bytes(self.deleted[name])

    # -- what must hold

    def teardown(self) -> None:
        try:
            self._offer("both")
            self.permit()
            for _ in range(50):
                self.wait()
                self.poll(1 << 20, 1000)
            assert all(reader.at_end for reader in self.readers)
            there = Counter(line for path in self._files() for line in _content(path).splitlines())
            untold = [line for line in there if line.endswith(b" .") and not self.told[line]]
            if self.torn:
                untold = [line for line in untold if not line.endswith(b"line %d ." % (self.written - 1))]
            assert not untold, (untold, [*map(str, self._files())])
            told = {int(line.split()[1]) for line in self.told}
            missing = (
                set(range(min(told, default=self.written), self.written - bool(self.torn))) - told - self.gone_before
            )
            silent = [missing.intersection(range(*claim)) for claim in self.claimed]
            assert not any(silent), silent
            assert self.spoke or not missing or max(missing) < max(told), missing
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.rmtree(self.other, ignore_errors=True)


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).lstrip(b"\0")


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


def test_a_log_with_the_inode_of_an_older_file_that_was_deleted_is_read_by_one_reader() -> None:
    """Inodes are used again at once by ext4."""
    one = Directory()
    one.begin(rising=True)
    one.poll(50, 1)
    one.forbid(0)
    for _ in range(2):
        one.write(1, 0)
        one.rotate(truncate=False)
        one.poll(50, 1)
    one.permit()
    one.delete(1)
    one.leave_zeros(1)
    one.rotate(truncate=False)
    one.restore(0)
    one.poll(50, 1)
    one.restart()
    one.poll(50, 1)
    one.write(1, 0)
    one.poll(50, 1)
    one.teardown()


def test_a_file_with_older_lines_that_grows_is_followed_by_one_reader() -> None:
    """What came was told twice, where the last lines of a log were given first, under its name."""
    one = Directory()
    one.write(5, 0)
    one.give_last_lines(2)
    for _ in range(2):
        one.mirror()
        one.poll(300, 3)
        one.write(5, 0)
    one.restart()
    one.mirror()
    one.poll(50, 1000)
    one.teardown()


def test_the_rest_of_a_file_is_laid_on_what_was_told_after_a_restart_in_its_middle() -> None:
    """Its lines were told again without a word: only those of a file that is read in one go were compared."""
    one = Directory()
    one.write(3, 0)
    one.give_last_lines(2)
    one.mirror()
    one.poll(50, 1)
    one.teardown()


def test_a_restart_before_the_last_line_tells_it_once_where_it_was_told_alone() -> None:
    one = Directory()
    one.write(2, 0)
    one.give_last_lines(1)
    one.call("both", 0)
    one.poll(1 << 20, 1)
    one.teardown()


def test_older_lines_of_a_file_that_was_not_named_are_told_if_its_end_is_the_last_line_told() -> None:
    one = Directory()
    one.write(3, 0)
    one.give_last_lines(2)
    one.call("live", 0)
    one.rotate(truncate=False)
    one.poll(1 << 20, 1000)
    one.teardown()


def test_an_excerpt_that_begins_as_its_log_is_nothing_new() -> None:
    one = Directory()
    one.write(4, 0)
    one.poll(50, 1000)
    one.take_excerpt(2)
    one.teardown()


@pytest.mark.long
class TestDirectory(Directory.TestCase):
    settings = settings(max_examples=60, stateful_step_count=25)


class DirectoryInParts(Directory):
    gives_parts = True


@pytest.mark.nightly
class TestLongHistories(DirectoryInParts.TestCase):
    settings = settings(max_examples=10_000, stateful_step_count=40)
