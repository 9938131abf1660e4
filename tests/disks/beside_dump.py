"""`hwmark audit` beside kafka-dump-log over the same files, in turns, in one run: `python -m tests.disks.beside_dump`.

Also a program that only reads the files: no audit can take less.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipelines.local_kafka.jars import jars
from pipelines.local_kafka.versions import VERSIONS
from tests.unit.disks.disk_files import TS, batch, directory, record

READ = "import os,sys\nfor p in sys.argv[1:]:\n f,b=os.open(p,0),bytearray(4<<20)\n while os.readv(f,[b]): pass"
LAYOUTS = {"13 KB": (40_000, 120), "170 bytes": (750_000, 1)}
"""Batches of one segment and records of a batch."""


def write_segments(folder, batches, records, replicas=2):
    """One segment for each of two brokers."""
    for broker in range(1, replicas + 1):
        at = directory(folder, broker) / "t-0"
        at.mkdir()
        payload = b"".join(record(k, b"k%d" % k, os.urandom(95)) for k in range(records))
        with open(at / f"{0:020d}.log", "wb") as file:
            file.writelines(batch(k * records, records, ts=TS + k, payload=payload) for k in range(batches))
        (at / f"{0:020d}.index").touch()
    return sorted(map(str, folder.rglob("*.log")))


def seconds(command):
    """Seconds of wall and of CPU that a command took."""
    before, began = os.times(), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall, after = time.monotonic() - began, os.times()
    assert done.returncode in (0, 3), done.stderr.decode()[-400:]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    kafka = VERSIONS["4.1"]
    java = ["java", "-Xmx1g", "-cp", f"{jars(kafka.tools)}/*", kafka.dump_tool, "--files"]
    audit, read = [sys.executable, "-m", "hwmark", "audit"], [sys.executable, "-c", READ]
    for name, layout in LAYOUTS.items():
        with tempfile.TemporaryDirectory(dir="/var/tmp") as made, tempfile.TemporaryDirectory(dir="/var/tmp") as small:
            files, few = write_segments(Path(made), *layout), write_segments(Path(small), 1, 1)
            of = {
                "audit": [[*audit, made], [*audit, small]],
                "kafka-dump-log": [[*java, ",".join(files)], [*java, ",".join(few)]],
                "reading alone": [[*read, *files], [*read, *few]],
            }
            best = {}
            for _ in range(turns):
                for tool, commands in of.items():
                    for k, command in enumerate(commands):
                        best[tool, k] = [*map(min, best.get((tool, k), (99.0, 99.0)), seconds(command))]
            size = sum(map(os.path.getsize, files))
            print(f"batches of {name}, {size / 1e9:.2f} GB, least of {turns}, load {os.getloadavg()[0]:.1f}")
            for tool in of:
                wall, cpu = (best[tool, 0][k] - best[tool, 1][k] for k in (0, 1))
                rate = f"{size / 1e9 / cpu:5.1f} GB/s; start {best[tool, 1][0]:.2f} s"
                print(f"  {tool:15} wall {wall:6.2f} s, CPU {cpu:6.2f} s, {rate}", flush=True)


if __name__ == "__main__":
    main()
