"""All that is too long for CI, one part after another: `make nightly`; one part: `python -m tests.nightly test-months`.

`--list` says what each would run. A line each with its name, its seconds and what came of it; a part that fails ends
no other. What a part prints is in build/nightly/<name>.log. The status is 1 where a part failed, or was not done within
its minutes or the whole time.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARTS = (
    ("test-all", 35),
    ("test-wheels", 45),
    ("test-kafka", 15),
    ("test-kafka-zookeeper", 15),
    ("test-kafka-roads", 20),
    ("test-faults", 130),
    ("test-model", 120),
    ("test-months", 30),
    ("test-properties", 20),
    ("test-histories", 35),
    ("test-spark", 15),
)
"""Targets of the Makefile, and the most minutes that each takes on two cores. A new one is a line here."""
HOURS = 8
LOGS = Path("build/nightly")


def main(parts=PARTS, hours=HOURS):
    LOGS.mkdir(parents=True, exist_ok=True)
    begun, failed = time.monotonic(), 0
    for name, minutes in parts:
        since = time.monotonic()
        result = run(name, min(60 * minutes, begun + 3600 * hours - since))
        failed |= result != "done"
        print(f"nightly: {name} {time.monotonic() - since:.0f} s: {result}", flush=True)
    return int(failed)


def run(name, seconds):
    """Makes a target, for so long; returns what came of it."""
    if seconds <= 0:
        return f"not begun: {HOURS} hours are over"
    with open(LOGS / f"{name}.log", "wb") as log:
        making = subprocess.Popen(["make", "--no-print-directory", name], stdout=log, stderr=log, process_group=0)
        try:
            status = making.wait(seconds)
        except subprocess.TimeoutExpired:
            stop(making)
            return f"STOPPED after {seconds / 60:.0f} minutes, see {log.name}"
    return "done" if status == 0 else f"FAILED, see {log.name}"


def stop(making):
    """Ends a target and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(making.pid, number)
            making.wait(20)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue


def listed(parts):
    """A line for each part with its minutes, then the commands that it would run; 1 where make knows none."""
    failed = 0
    for name, minutes in parts:
        words = ["make", "-n", "--no-print-directory", "-o", ".venv/ready", name]
        would = subprocess.run(words, capture_output=True, text=True)
        failed |= would.returncode != 0
        print(f"{name}, at most {minutes} minutes:", *(would.stdout or would.stderr).splitlines(), sep="\n  ")
    return int(failed)


if __name__ == "__main__":
    asked = {*sys.argv[1:]} - {"--list"}
    if wrong := asked - {name for name, _ in PARTS}:
        sys.exit(f"nightly: no part is named {', '.join(sorted(wrong))}: see --list")
    chosen = [part for part in PARTS if not asked or part[0] in asked]
    sys.exit(listed(chosen) if "--list" in sys.argv else main(chosen))
