"""Damaged logs: each damage has a clear word, and what can be read is read."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import ingest_logs
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from tests.unit.ingest.comparing import numbers_without_holes

LOG = gzip.decompress((traces.path("slow_follower") / "broker-3" / "replication.log.gz").read_bytes())
HALF = LOG.rindex(b"\n", 0, len(LOG) // 2) + 1


def _torn(folder: Path) -> None:
    (folder / "replication.log").write_bytes(LOG[: HALF + 40])


def _garbage(folder: Path) -> None:
    noise = bytes(range(256)) * 64
    (folder / "replication.log").write_bytes(LOG[:HALF] + noise + b"\n" + LOG[HALF:])


def _cut_gzip(folder: Path) -> None:
    packed = gzip.compress(LOG[:HALF])
    (folder / "replication.log.1.gz").write_bytes(packed[: len(packed) * 2 // 3])
    (folder / "replication.log").write_bytes(LOG[HALF:])


def _broken_gzip(folder: Path) -> None:
    (folder / "replication.log.1.gz").write_bytes(b"\x1f\x8b no gzip")
    (folder / "replication.log").write_bytes(LOG[HALF:])


def _unreadable(folder: Path) -> None:
    (folder / "controller.log").write_bytes(LOG[:HALF])
    (folder / "replication.log").write_bytes(LOG[HALF:])


def _foreign(folder: Path) -> None:
    (folder / "replication.log").write_bytes(LOG)
    (folder / "application.log").write_bytes(b"2026-11-20 10:00:00 INFO something else altogether\n" * 20)


CASES = {
    "a torn last line": (_torn, "replication.log: torn last line (40 bytes)", False),
    "binary garbage in the middle": (_garbage, "replication.log: lines are missing in", True),
    "a truncated gzip": (_cut_gzip, "replication.log.1.gz: truncated gzip, what could be read", True),
    "no gzip behind the name": (_broken_gzip, "replication.log.1.gz: broken gzip", True),
    "an unreadable file": (_unreadable, "controller.log: cannot be read (Permission denied), left for later", False),
    "another program's log": (_foreign, "application.log: nothing of it was understood, its first line is", False),
}


@pytest.mark.parametrize(("damage", "word", "lost"), CASES.values(), ids=CASES.keys())
def test_damage_has_a_word_and_the_rest_goes_on(
    tmp_path: Path, damage: Callable[[Path], None], word: str, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lake, opened = tmp_path / "broker-3", str(tmp_path / "lake"), os.open
    folder.mkdir()
    damage(folder)

    def refuse(path: object, *args: int, **kwargs: int) -> int:
        if str(path) == str(folder / "controller.log"):
            raise PermissionError(13, os.strerror(13))
        return opened(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", refuse)
    summary = ingest_logs([folder, tmp_path / "missing.log"], cluster="c", lake=lake)
    events = read_events(lake)
    assert word in str(summary)
    assert "missing.log: there is no such file, left out" in str(summary)
    assert numbers_without_holes(events)
    assert pc.sum(pc.equal(events["event_type"], "hw")).as_py() > 200
    assert pc.any(pc.equal(events["event_type"], "lost")).as_py() == lost
