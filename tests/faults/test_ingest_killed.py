"""An ingest that is killed at any point and started again loses nothing and writes nothing twice."""

import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from generators.brokerlogs import ingest
from generators.brokerlogs.ingest import ingest_logs, read_logs
from generators.brokerlogs.tailing import session
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from tests.unit.ingest.comparing import numbers_without_holes, reported

BROKER = traces.path("unclean_election") / "broker-2"
LOGS = ("replication.log", "controller.log")

FOLLOW = """
import signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
print("it can be asked to stop", flush=True)
from generators.brokerlogs.ingest import ingest_logs
ingest_logs(sys.argv[1:2], cluster="c", lake=sys.argv[2], follow=True, stop=stop)
"""


def _lines(log: str) -> list[bytes]:
    return gzip.decompress((BROKER / f"{log}.gz").read_bytes()).splitlines(keepends=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    folder = tmp_path_factory.mktemp("whole") / "broker-2"
    folder.mkdir()
    for log in LOGS:
        (folder / log).write_bytes(b"".join(_lines(log)))
    return reported(read_logs([folder], "c"))


class Killed(BaseException):
    """Stands for the end of the process."""


POINTS = {
    "before the write-ahead": ("write", True),
    "between write-ahead and commit": ("append_round", True),
    "between commit and clean-up": ("append_round", False),
    "after the clean-up": ("mark_committed", False),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("point", "before"), POINTS.values(), ids=POINTS.keys())
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_around_a_commit(
    tmp_path: Path, point: str, before: bool, seed: int, undisturbed: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lake, chance = tmp_path / "broker-2", str(tmp_path / "lake"), random.Random(seed)
    folder.mkdir()
    for log in LOGS:
        (folder / log).write_bytes(b"".join(_lines(log)))
    monkeypatch.setattr(session, "ROUND_BYTES", 1)
    deaths = 0
    while True:
        monkeypatch.setattr(session, "CHUNK", chance.randrange(20_000, 200_000))
        with monkeypatch.context() as dying:
            target = ingest if point == "append_round" else ingest.Checkpoints
            dying.setattr(target, point, _dying(getattr(target, point), chance.randrange(1, 4), before))
            try:
                ingest_logs([folder], cluster="c", lake=lake)
                break
            except Killed:
                deaths += 1
    assert deaths > 3
    events = read_events(lake)
    assert numbers_without_holes(events)
    assert reported(events) == undisturbed


def _dying(call: Callable, nth: int, before: bool) -> Callable:
    """`call`, that at its nth time ends the process, before or after doing its work."""
    calls = iter(range(1, 1 << 30))

    def dying(*args: object, **kwargs: object) -> object:
        last = next(calls) == nth
        if last and before:
            raise Killed
        result = call(*args, **kwargs)
        if last:
            raise Killed
        return result

    return dying


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_while_following_through_rotation_and_truncation(
    tmp_path: Path, seed: int, undisturbed: list[dict]
) -> None:
    folder, lake, chance = tmp_path / "broker-2", tmp_path / "lake", random.Random(seed)
    folder.mkdir()
    writers = [_writing(folder / log, _lines(log), chance) for log in LOGS]
    reader, deaths = _start(folder, lake), 0
    while writers:
        writers = [writer for writer in writers if next(writer, None) is not None]
        time.sleep(0.03)
        if reader.poll() is not None or (deaths < 3 and chance.random() < 0.02):
            reader.kill()
            reader.wait()
            reader, deaths = _start(folder, lake), deaths + 1
    _wait_for(lake, len(undisturbed))
    assert _stopped(reader) == 0
    events = read_events(str(lake))
    assert numbers_without_holes(events), f"seed {seed}"
    assert reported(events) == undisturbed, f"seed {seed}"
    assert (events["event_type"].to_numpy(zero_copy_only=False) == "progress").sum() > 50


def _start(folder: Path, lake: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", FOLLOW, str(folder), str(lake)], stdout=subprocess.PIPE)


def _stopped(reader: subprocess.Popen) -> int:
    """Its exit code. All rows may be there by those before it: then it may just have begun, and not hear a signal."""
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.send_signal(signal.SIGTERM)
    return reader.wait(300)


def _wait_for(lake: Path, rows: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and len(reported(_events(lake))) < rows:
        time.sleep(0.5)


def _events(lake: Path) -> pa.Table:
    return read_events(str(lake))


def _writing(log: Path, lines: list[bytes], chance: random.Random) -> Iterator[int]:
    """Write a log piece by piece, cut anywhere, and rotate it now and then by either way."""
    content, at, rotations = b"".join(lines), 0, 0
    size = len(content) // 120
    log.touch()
    while at < len(content):
        piece = content[at : at + chance.randrange(1, 2 * size)]
        if chance.random() < 0.04:
            piece = piece[: piece.rfind(b"\n") + 1] or piece
            rotations += _rotate(log, rotations, chance) if content[:at].endswith(b"\n") else 0
        with open(log, "ab") as file:
            file.write(piece)
        at += len(piece)
        yield at


def _rotate(log: Path, rotations: int, chance: random.Random) -> int:
    old = log.with_name(f"{log.name}.2026-11-20-{rotations:02}")
    if chance.random() < 0.5:
        log.rename(old)
        log.touch()
    else:
        shutil.copyfile(log, old)
        os.truncate(log, 0)
    return 1
