"""Logs that would fill the memory or keep a reader busy for hours: it stays small, says how far it is, and stops.

HOSTILE_MB=1000 pytest tests/faults/test_ingest_hostile.py tries the full size (a name with HWMARK_ would be a setting).
"""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from generators.brokerlogs.ingest import ingest_logs
from pipelines.lake.bronze import read_events
from tests.unit.brokerlogs.log_lines import recorded

MB = int(os.environ.get("HOSTILE_MB", "200"))
MORE_MEMORY_MB = 100
"""Than the same command takes for two lines, nearly all of it its libraries; the full size needs no more than the small
one."""
BEFORE, AFTER = recorded(2, 0).encode(), recorded(2, 7, ms=900).encode()


def _plain(log: Path, filling: bytes) -> None:
    with open(log, "wb") as file:
        file.write(BEFORE)
        for _ in range(MB):
            file.write(filling * 1_000_000)
        file.write(b"\n" + AFTER)


def _sparse(log: Path) -> None:
    """A hole, as a file system leaves it after a power failure."""
    log.write_bytes(BEFORE)
    os.truncate(log, len(BEFORE) + MB * 1_000_000)
    with open(log, "ab") as file:
        file.write(b"\n" + AFTER)


def _bomb(log: Path, more: int = 1) -> None:
    """Some hundred thousand bytes; gzip members one after the other are one stream."""
    part = gzip.compress(bytes(10_000_000))
    log.with_name("server.log.1.gz").write_bytes(gzip.compress(BEFORE) + part * (MB // 10 * more))
    log.write_bytes(b"\n" + AFTER)


CASES = {
    "a line of text": lambda log: _plain(log, b"x"),
    "zeros": _sparse,
    "a gzip bomb": _bomb,
}


class Ingest:
    """`hwmark ingest logs` of a folder in a process of its own."""

    def __init__(self, folder: Path, lake: Path) -> None:
        command = [sys.executable, "-m", "hwmark", "ingest", "logs", str(folder), "--cluster", "c", "--lake"]
        self.process = subprocess.Popen([*command, str(lake)], stdout=-1, stderr=-1, text=True)
        self.memory_mb = 0
        Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self.process.poll() is None:
            try:
                status = Path(f"/proc/{self.process.pid}/status").read_text()
            except OSError:
                return
            peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
            self.memory_mb = max(self.memory_mb, int(peak) // 1024)
            time.sleep(0.02)

    def said(self, word: str) -> str:
        """The next line of its progress that says so."""
        assert self.process.stderr is not None
        return next(line for line in self.process.stderr if word in line)

    def ended(self) -> tuple[str, str]:
        out, err = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, err
        return out, err


@pytest.fixture(scope="module")
def usual_mb(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The memory of an ingest of two lines."""
    folder = tmp_path_factory.mktemp("usual")
    (folder / "b1").mkdir()
    (folder / "b1" / "server.log").write_bytes(BEFORE + AFTER)
    ingest = Ingest(folder / "b1", folder / "lake")
    ingest.ended()
    return ingest.memory_mb


@pytest.mark.sampled(2)
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux says how much memory another process has"
)
@pytest.mark.parametrize("write", CASES.values(), ids=CASES.keys())
def test_a_line_of_no_end_takes_little_memory_and_the_next_line_is_read(tmp_path: Path, write, usual_mb: int) -> None:
    folder, lake = tmp_path / "b1", tmp_path / "lake"
    folder.mkdir()
    write(folder / "server.log")
    ingest, began = Ingest(folder, lake), time.monotonic()
    out, _ = ingest.ended()
    print(f"{MB} MB: {ingest.memory_mb} MB of memory, {usual_mb} usually, {time.monotonic() - began:.1f} s")
    assert 0 < ingest.memory_mb < usual_mb + MORE_MEMORY_MB
    assert "broker-1/server.log: 1 lines cannot be read, 1 of them longer than 1 MB: their information is lost" in out
    events = read_events(str(lake)).sort_by("source_seq").to_pylist()
    found = [(row["event_type"], row["leo"]) for row in events if row["event_type"] != "progress"]
    assert found == [("fetch", 0), ("lost", None), ("fetch", 7)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_how_far_it_is_and_can_be_stopped_in_the_middle_of_a_gzip_bomb(tmp_path: Path, number: int) -> None:
    folder, lake = tmp_path / "b1", tmp_path / "lake"
    folder.mkdir()
    _bomb(folder / "server.log", more=100)
    ingest = Ingest(folder, lake)
    first, second = ingest.said(" MB"), ingest.said(" MB")
    assert first != second
    ingest.process.send_signal(number)
    began = time.monotonic()
    out, _ = ingest.ended()
    print(f"stopped after {time.monotonic() - began:.2f} s")
    assert out.startswith("c: ")


def test_a_restart_in_a_gzip_bomb_can_be_stopped_while_it_goes_back_to_its_place(tmp_path: Path, monkeypatch) -> None:
    folder, lake = tmp_path / "b1", str(tmp_path / "lake")
    folder.mkdir()
    log = folder / "server.log.1.gz"
    log.write_bytes(gzip.compress(BEFORE * 50_000))
    from threading import Event

    class Soon(Event):
        """Set once it was asked so often."""

        def __init__(self, asked: int) -> None:
            super().__init__()
            self.left = asked

        def is_set(self) -> bool:
            self.left -= 1
            return self.left < 0

    first = ingest_logs([folder], cluster="c", lake=lake)
    log.write_bytes(gzip.compress(BEFORE * 50_000 + AFTER))
    assert first.line_count == 50_000
    assert ingest_logs([folder], cluster="c", lake=lake, stop=Soon(2)).line_count == 0
    assert ingest_logs([folder], cluster="c", lake=lake).line_count == 1
