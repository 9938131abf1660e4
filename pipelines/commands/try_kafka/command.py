"""`hwmark try`: a real Kafka with a fault of choice, hwmark beside it, and its verdicts as they come."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.commands import jobs
from pipelines.commands.demo.command import SHORT_LIVED
from pipelines.commands.try_kafka.faults import FAULTS, SETTINGS, Fault
from pipelines.commands.try_kafka.load import Load
from pipelines.errors import UsageError, nearest
from pipelines.lake.lake import Lake
from pipelines.local_kafka.cluster import Cluster
from pipelines.local_kafka.jars import installed, jars
from pipelines.local_kafka.processes import Journal, end, start
from pipelines.local_kafka.versions import VERSIONS, Version
from pipelines.streaming.session import require_java
from pipelines.verdict.records import State

if TYPE_CHECKING:
    from pipelines.settings import Settings
    from pipelines.verdict import Line

CLUSTER = "try"
LOOK_EVERY_S = 1.0
CALM_S = 6.0
"""Of load before the fault, and of looking after it."""
JUDGED_WITHIN_S = 180.0
ENDED_WITHIN_S = 60

QUICK = {"HWMARK_RUN__SPARK_CONF": json.dumps(SHORT_LIVED)}
"""In the environment of hwmark's processes, which live for two minutes."""

Echo = Callable[[str], None]


class NothingReconstructed(RuntimeError):
    """hwmark's own processes did not come up."""


def try_fault(settings: Settings, fault_name: str, kafka: str, echo: Echo) -> None:
    """All of it; nothing is left running. Raises UsageError, NoJars, UnsuitableSpark."""
    if fault_name not in FAULTS:
        raise UsageError(f"there is no fault {fault_name!r}; {nearest(fault_name, FAULTS)}")
    require_java()
    fault, began = FAULTS[fault_name], time.monotonic()
    version, libraries = _kafka(kafka, echo)
    folder = Path(tempfile.mkdtemp(prefix="hwmark-try-"))

    def say(line: str) -> None:
        echo(f"{time.monotonic() - began:5.0f} s  {line}")

    echo(f"{fault_name}: {fault.words}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the brokers are ended
    with ExitStack() as ends:
        cluster = Cluster(folder, version, Journal(folder, lambda _: None), SETTINGS, libraries)
        ends.callback(cluster.stop_all)
        say(f"three brokers of Kafka {version.kafka} start in {folder}")
        cluster.start()
        cluster.wait_until_up()
        beside = _Beside(folder, settings, cluster)
        ends.callback(beside.stop)
        _play(fault, cluster, beside, settings, say)
    _sum_up(settings, echo)


def _kafka(chosen: str, echo: Echo) -> tuple[Version, Path]:
    """A version that Maven has, or what somebody unpacked. Raises NoJars, UsageError."""
    if chosen in VERSIONS:
        echo(f"Kafka {chosen} from the cache or Maven Central (the first time it takes a minute)")
        return VERSIONS[chosen], jars(VERSIONS[chosen].broker)
    if not Path(chosen).expanduser().exists():
        raise UsageError(f"--kafka is {chosen!r}: a version ({', '.join(VERSIONS)}), Kafka's tarball, or its folder")
    return installed(Path(chosen).expanduser())


class _Beside:
    """hwmark as its user runs it: `ingest logs --follow` and `run`, on the brokers' logs."""

    def __init__(self, folder: Path, settings: Settings, cluster: Cluster) -> None:
        self.folder, lake = folder, settings.lake.path
        logs = [*map(str, cluster.log_directories), "--cluster", CLUSTER, "--follow"]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._start("ingest", "ingest", "logs", *logs, "--lake", lake)
        while not Lake(lake).has_table("replication_events"):
            self.require_alive()
            time.sleep(0.2)
        self._start("run", "run", "--interval", f"{settings.run.interval:g}s", "--lake", lake)

    def require_alive(self) -> None:
        """Raise NothingReconstructed where a process has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                said = (self.folder / f"{name}.txt").read_text().strip().splitlines()[-1:]
                raise NothingReconstructed(f"hwmark {name} ended: {' '.join(said)} ({self.folder}/{name}.txt)")

    def stop(self) -> None:
        """End both, ingest first, so that the job has all of it."""
        for process in self._processes.values():
            end(process, ENDED_WITHIN_S)

    def _start(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "hwmark", *arguments]
        self._processes[name] = start(command, self.folder / f"{name}.txt", QUICK)


def _play(fault: Fault, cluster: Cluster, beside: _Beside, settings: Settings, say: Echo) -> None:
    """The load, the fault, and the verdicts meanwhile."""
    cluster.create_topic(fault.topic.name, [list(one) for one in fault.topic.assignment], **fault.topic.config)
    with Load(cluster.bootstrap, fault.topic.name, len(fault.topic.assignment)):
        say(f"topic {fault.topic.name} is written to with acks=all; hwmark reads the brokers' logs")
        until = time.monotonic() + JUDGED_WITHIN_S
        while not _judged(settings):
            beside.require_alive()
            if time.monotonic() > until:
                raise NothingReconstructed(
                    f"nothing was judged within {JUDGED_WITHIN_S:g} s: see {beside.folder}/run.txt"
                )
            time.sleep(LOOK_EVERY_S)
        with _Verdicts(settings, say):
            time.sleep(CALM_S)
            fault.play(cluster, fault.topic.name, lambda line: say(f"** {line}"))
            time.sleep(2 * CALM_S)


def _judged(settings: Settings) -> bool:
    """Whether hwmark has a verdict yet."""
    lines = _verdicts(settings)
    return bool(lines) and all(line.state is not State.NOT_JUDGED for line in lines)


def _verdicts(settings: Settings) -> list[Line]:
    from deltalake.exceptions import DeltaError

    try:
        return jobs.verdicts(settings, datetime.now(UTC))
    except (DeltaError, FileNotFoundError):  # a table that is just being made
        return []


class _Verdicts:
    """Prints each sentence of the verdict when it is new."""

    def __init__(self, settings: Settings, say: Echo) -> None:
        self._settings, self._say, self._stop = settings, say, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _look(self) -> None:
        known: set[str] = set()
        while not self._stop.wait(LOOK_EVERY_S):
            lines = {_news(line): line for line in _verdicts(self._settings)}
            for news, line in lines.items():
                if news not in known:
                    self._say(str(line))
            known = set(lines) or known


def _news(line: Line) -> str:
    """A sentence without its span of time, which moves on with every batch."""
    return f"{line.part} {line.state.name} {_SPAN.sub('', line.text) if line.part != 'judged' else ''}"


_SPAN = re.compile(r"\(?from [-\d]+ [:\d]+ UTC to [-\d]+ [:\d]+ UTC\)?")


def _sum_up(settings: Settings, echo: Echo) -> None:
    """The last word: everything made final, and how to look further."""
    lake = settings.lake.path
    done = subprocess.run(
        [sys.executable, "-m", "hwmark", "run", "--once", "--drain", "--lake", lake],
        capture_output=True,
        text=True,
        env={**os.environ, **QUICK},
    )
    if done.returncode:
        raise NothingReconstructed(f"hwmark run --once --drain failed: {done.stderr.strip()[-300:]}")
    echo("\nIn the end, when the brokers had been stopped, too:")
    for line in jobs.verdicts(settings, datetime.now(UTC)):
        echo(f"  {line}")
    echo(f"\nThe lake is {lake}. Look around:")
    for table in ("regressions", "isr", "health"):
        echo(f"  hwmark show {table} --lake {lake}")
