"""The same seed and settings give the same bytes in every process: whatever strings hash to, the zone, the language."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
FAULTS = [
    "--fault",
    "9s kill 1 for 5s",
    "--fault",
    "12s clock-jump 2 by -3s",
    "--rate",
    "cut=4",
    "--rate",
    "throttle=4",
]
CLUSTER = ["--topics", "orders:3x3:min-isr=2,clicks:2x2:unclean", "--duration", "30s", *FAULTS]
LOADS = [
    "--load",
    "orders=wave:60,period=30s,hot=1.1",
    "--load",
    "clicks=bursts:90,acks=all,producers=2,by=key",
]
RUNS = {
    "a cluster": ["--lake", "lake", "--truth", "truth", *CLUSTER, *LOADS],
    "tiles": ["--lake", "lake", "--truth", "truth", "--partitions", "501", "--brokers", "5",
              "--duration", "9s", "--fault", "5s stop 2 for 1s"],
    "a scenario": ["--scenario", "unclean-election", "--explain", "--lake", "lake"],
}  # fmt: skip
PLACES = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4242", "TZ": "Pacific/Chatham", "LC_ALL": "C.UTF-8", "LANG": "tr_TR.UTF-8"},
)


def made(words: list[str], folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """What the command leaves below a folder: digests of every file of data, in the order in which they were added."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "hwmark", "simulate", *words], cwd=folder, capture_output=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )  # fmt: skip
    found = {}
    for log in sorted(folder.glob("**/_delta_log")):
        table = log.parent
        for version in sorted(log.glob("*.json")):
            adds = [entry["add"]["path"] for line in version.open() if "add" in (entry := json.loads(line))]
            found |= {
                f"{table.relative_to(folder)}/{version.stem}/{k}": digest(table / path) for k, path in enumerate(adds)
            }
    if "--explain" in words:
        found["printed"] = hashlib.sha256(done.stdout).hexdigest()
    return found


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("what", RUNS)
def test_the_same_bytes_in_another_process_zone_and_language(what, tmp_path):
    one, other = (made(RUNS[what], tmp_path / str(k), place) for k, place in enumerate(PLACES))
    assert len(one) >= 3
    assert one == other


@pytest.mark.nightly
def test_another_seed_gives_other_bytes(tmp_path):
    words = ["--lake", "lake", "--duration", "5s"]
    one, other = (made([*words, "--seed", str(k)], tmp_path / str(k), PLACES[0]) for k in (1, 2))
    assert one.keys() == other.keys()
    assert set(one.values()).isdisjoint(other.values())
