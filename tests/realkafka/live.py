"""Seconds from a fault to who says it, on a real cluster, with `watch`, `run`, `dashboard` and `notify` as shipped.

    python -m tests.realkafka.live freeze kill no-controller --trials 2

Zero is the fault. A line for each sentence of the present that the server says, when it came first, and when each alert
came to the receiver.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from pipelines.commands.try_kafka.faults import Topic as TryTopic
from pipelines.local_kafka.cluster import BROKERS, Cluster, free_ports
from pipelines.local_kafka.processes import Journal, end, start, wait_until
from pipelines.local_kafka.versions import DEFAULT, version
from tests.realkafka.load import Producers, Topic

ROOT = Path(__file__).parents[2]
SETTINGS = {"min.insync.replicas": 2, "offsets.topic.replication.factor": 3, "replica.lag.time.max.ms": 30_000}
ORDERS = TryTopic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], {})
RATE = 20
"""Records a second to each partition."""
EVERY_S, CALM_S, WITHIN_S = 0.25, 15, 240
WATCHED_S = 55
CONFIG = '[notify.channels]\nlocal = { url = "env:RECEIVER" }\n'


@dataclass
class Trial:
    """One fault: when, and what the server and the receiver said since, in seconds, each thing once."""

    name: str
    brokers: tuple[int, ...]
    at: float = field(default_factory=time.time)
    said: dict[str, float] = field(default_factory=dict)
    ok_until: float = 0.0

    def hear(self, text: str) -> None:
        self.said.setdefault(text, time.time() - self.at)

    def lines(self) -> Iterator[str]:
        named = ", ".join(map(str, self.brokers))
        yield f"== {self.name} (brokers {named}): last OK after {self.ok_until:.1f} s"
        yield from (f"   {seconds:6.1f} s  {text}" for text, seconds in self.said.items())


def sentences(port: int) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/verdict", timeout=10) as answer:
        return list(json.load(answer))


def plain(text: str) -> str:
    """A sentence without what passes with time."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "T", re.sub(r"\b\d+ (s|min)\b", "N s", text))


class Live:
    """A cluster under load, and hwmark beside it."""

    def __init__(
        self, folder: Path, ended: ExitStack, cluster: Cluster, topics: Sequence[TryTopic], watched: str = ""
    ) -> None:
        """Start all; `watched`: the addresses that the watcher is given, those of the brokers if empty."""
        self.cluster, self.watched = cluster, watched
        self.folder, self.lake, (self.port,) = folder, str(folder / "lake"), free_ports(1)
        self.trial: Trial | None = None
        self.told: Callable[[str, str], None] = lambda title, body: None
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        ended.callback(self.cluster.stop_all)
        self.cluster.start()
        self.cluster.wait_until_up()
        for topic in topics:
            self.cluster.create_topic(topic.name, [list(one) for one in topic.assignment], **topic.config)
        loads = [Topic(topic.name, len(topic.assignment), RATE) for topic in topics]
        self.producers = Producers(self.cluster.bootstrap, loads)
        self.producers.start()
        ended.callback(self.producers.stop)
        there = ended.enter_context(import_module("tests.unit.notify.receivers").receiver())
        there.answer = self._receive
        (folder / "hwmark.toml").write_text(CONFIG)
        self._environment = {"PYTHONPATH": str(ROOT), "RECEIVER": f"json://127.0.0.1:{there.port}/"}
        ended.callback(self.end)
        self.begin(self.lake)

    def begin(self, lake: str) -> None:
        """Start all of hwmark on a lake."""
        self.lake = lake
        self._start("watch", "--bootstrap", self.watched or self.cluster.bootstrap, "--cluster", "live")
        wait_until(lambda: (Path(lake) / "bronze").exists(), 60, "rows in the lake")
        self._start("run")
        wait_until(lambda: (Path(lake) / "gold" / "brokers").exists(), WITHIN_S, "gold")
        self._start("dashboard", "--port", str(self.port))
        self._start("notify")

    def end(self) -> None:
        """End all of hwmark, the last that was started first."""
        while self.processes:
            end(self.processes.popitem()[1], 30)

    def _start(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "hwmark", name, *arguments, "--lake", self.lake]
        command += ["--config", str(self.folder / "hwmark.toml")]
        self.processes[name] = start(command, self.folder / f"{name}.txt", self._environment)

    def _receive(self, request: Any) -> int:
        title, body = request.json["title"], request.json["message"]
        self.told(title, body)
        if self.trial is not None:
            self.trial.hear(f"[message] {plain(title)}")
        return 200

    def is_ok(self) -> bool:
        """Whether the server says OK, and nothing worse of the present."""
        try:
            present = [line for line in sentences(self.port) if line["part"] != "history"]
        except OSError:
            return False
        return bool(present) and all(line["state"] == "OK" for line in present)

    def watch(self, trial: Trial, seconds: float = WATCHED_S) -> Trial:
        """Hear what is said for so long."""
        self.trial = trial
        while time.time() < trial.at + seconds:
            try:
                for line in sentences(self.port):
                    if line["part"] == "present" and line["state"] == "OK":
                        trial.ok_until = time.time() - trial.at if line["text"].startswith("OK:") else trial.ok_until
                    trial.hear(f"[{line['part']}] {plain(line['text'])}")
            except OSError as error:
                trial.hear(f"[server] {error}")
            time.sleep(EVERY_S)
        self.trial = None
        return trial

    def hwmark(self, *arguments: str) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "hwmark", *arguments, "--lake", self.lake]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self._environment})
        return f"$ hwmark {' '.join(arguments)}  (status {done.returncode})\n{done.stdout}{done.stderr}"


def _freeze(live: Live) -> tuple[Trial, Callable[[], object]]:
    broker = next(b for b in BROKERS if b != live.cluster.active_controller())
    live.cluster.freeze(broker)
    return Trial("freeze", (broker,)), lambda: live.cluster.thaw(broker)


def _kill(live: Live) -> tuple[Trial, Callable[[], object]]:
    broker = next(b for b in BROKERS if b != live.cluster.active_controller())
    live.cluster.kill(broker)
    return Trial("kill", (broker,)), lambda: live.cluster.start(broker)


def _no_controller(live: Live) -> tuple[Trial, Callable[[], object]]:
    brokers = (2, 3)
    for broker in brokers:
        live.cluster.kill(broker)
    return Trial("no-controller", brokers), lambda: live.cluster.start(*brokers)


def _no_spare(live: Live) -> tuple[Trial, Callable[[], object]]:
    trial, heal = _kill(live)
    trial.name = "no-spare"
    return trial, heal


FAULTS = {
    "freeze": (_freeze, 40),
    "kill": (_kill, 40),
    "no-controller": (_no_controller, 100),
    "no-spare": (_no_spare, 130),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("faults", nargs="+", choices=FAULTS)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="live-", dir=given.folder))
    print(f"in {folder}", flush=True)
    with ExitStack() as ended:
        live = Live(folder, ended, Cluster(folder, version(DEFAULT), Journal(folder), SETTINGS), [ORDERS])
        for name in [name for name in given.faults for _ in range(given.trials)]:
            wait_until(live.is_ok, WITHIN_S, "OK", every_s=1)
            time.sleep(CALM_S + random.uniform(0, 5))
            fault, seconds = FAULTS[name]
            trial, heal = fault(live)
            live.watch(trial, seconds)
            print("\n".join(trial.lines()), flush=True)
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)
            print(live.hwmark("show", "verdict"), flush=True)
            print(live.hwmark("check", "--fail-on-alert"), flush=True)
            heal()


if __name__ == "__main__":
    main()
