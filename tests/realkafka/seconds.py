"""How many seconds it takes from a fault of a real cluster to the server, the open page, the alert and the message.

    python -m tests.realkafka.seconds election stall --trials 20 --folder /tmp/seconds

Settings as shipped, a lake of its own for each trial, faults at random phases of a round. Zero is when a client could
see it: the refused connection, the election in the metadata. Prints each trial, then of each stage half the trials and
19 of 20, with the limits, and whoever was blamed though nothing was done to it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from pipelines.commands.try_kafka.faults import Topic
from pipelines.local_kafka.cluster import Cluster
from pipelines.local_kafka.processes import Journal, wait_until
from pipelines.local_kafka.versions import DEFAULT, version
from schemas import alerts
from tests.realkafka.live import ORDERS, SETTINGS, WITHIN_S, Live, sentences
from tests.realkafka.stages import Row, committed

CLICKS = Topic("clicks", [[1, 2]], {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"})
PAY = Topic("pay", [[1, 2]], {"min_insync_replicas": "1"})
STALE, LEADER = 2, 1
"""The broker that is killed first, and the one that leads alone then."""
REFRESH_S = 5
"""How often an open page asks."""
STALL_SESSION_MS = 45_000
"""1.5 times the lag: a frozen follower holds the HW back before it is fenced."""
LIMITS = {
    "refused: server": (8, 12), "refused: page": (12, 17),
    "offline: alert": (10, 15), "offline: message": (15, 20),
    "unclean election: page": (17, 28), "unclean election: message": (15, 25),
    "hangs: server": (11, 15), "hangs: page": (15, 20),
    "held back: server": (20, 25), "held back: page": (20, 25),
}  # fmt: skip
"""Seconds of half the trials, and of 19 of 20. Who hangs is known a probe's timeout later than who refuses."""
_BLAME = (
    r"(one of )?\bbrokers? ([\d, ]+) (?:do(?:es)? not answer|has not answered|(?:is|are) (?:down|not)|holds? back|gone)"
)

Found = tuple[dict[str, float], frozenset[int]]
"""Seconds by stage, and the brokers to which something was done."""


class Heard:
    """What the server, an open page and the receiver say, each thing with the time when it was said first."""

    def __init__(self, live: Live) -> None:
        self.live, self.done = live, threading.Event()
        self.server: dict[str, float] = {}
        self.page: dict[str, float] = {}
        self.messages: dict[str, float] = {}
        live.told = self._receive
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._ask, self._look)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self.done.set()
        for thread in self._threads:
            thread.join()

    def _receive(self, title: str, body: str) -> None:
        self.messages.setdefault(title, time.time())

    def _ask(self) -> None:
        while not self.done.wait(0.25):
            try:
                for line in sentences(self.live.port):
                    self.server.setdefault(line["text"], time.time())
            except OSError:
                continue

    def _look(self) -> None:
        self.done.wait(random.uniform(0, REFRESH_S))
        while not self.done.wait(REFRESH_S):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.live.port}/", timeout=10) as answer:
                    html = answer.read().decode()
            except OSError:
                continue
            for text in re.findall(r"[^<>\n]{8,}", html):
                self.page.setdefault(text.strip(), time.time())


def first(heard: Mapping[str, float], pattern: str, zero: float) -> float:
    """Seconds from `zero` until something was said that has the pattern; infinite where nothing was."""
    said = [at - zero for text, at in heard.items() if at >= zero and re.search(pattern, text)]
    return min(said, default=float("inf"))


def wrong_blames(heard: Mapping[str, float], guilty: frozenset[int]) -> Iterator[str]:
    """What blames a broker to which nothing was done."""
    for text in heard:
        for one_of, brokers in re.findall(_BLAME, text):
            named = {int(one) for one in re.findall(r"\d+", brokers)}
            if not named & guilty if one_of else named - guilty:
                yield text


def _election(live: Live, heard: Heard) -> Found:
    """The follower is killed, then the leader that is alone; the follower returns and is elected uncleanly."""
    killed, elected = _end_leader(live.cluster, CLICKS, STALE)
    lost = r"(?i)\bLOST\b.*clicks|unclean election"
    return {
        **_refused(heard, killed),
        "unclean election: page": first(heard.page, lost, elected),
        "unclean election: message": first(heard.messages, r"LOST", elected),
    }, frozenset({STALE, LEADER})  # fmt: skip


def _offline(live: Live, heard: Heard) -> Found:
    """The follower is killed, then the leader that is alone; the follower returns, and nobody is elected."""
    killed, elected = _end_leader(live.cluster, PAY, -1)
    fired = committed(Path(live.lake) / alerts.TABLE.path, _fires)
    return {
        **_refused(heard, killed),
        "offline: alert": fired[0] / 1000 - elected if fired else float("inf"),
        "offline: message": first(heard.messages, r"OFFLINE", elected),
    }, frozenset({STALE, LEADER})  # fmt: skip


def _end_leader(cluster: Cluster, topic: Topic, then: int) -> tuple[float, float]:
    """When the follower was killed, and when the metadata had the leader `then`; all are up again after 32 s."""
    killed = cluster.kill(STALE) / 1000
    wait_until(lambda: cluster.leaders_and_isrs(topic.name) == [(LEADER, [LEADER])], 90, "the leader alone in its ISR")
    time.sleep(max(0.0, killed + 20 - time.time()) + random.uniform(0, REFRESH_S))
    cluster.kill(LEADER)
    cluster.start(STALE)
    wait_until(lambda: [leader for leader, _ in cluster.leaders_and_isrs(topic.name)] == [then], 90, "an election", 0.1)
    elected = time.time()
    time.sleep(32)
    cluster.start(LEADER)
    return killed, elected


def _refused(heard: Heard, killed: float) -> dict[str, float]:
    gone = rf"\bbrokers? [\d, ]*\b{STALE}\b.*(not answer|down)"
    return {"refused: server": first(heard.server, gone, killed), "refused: page": first(heard.page, gone, killed)}


def _stall(live: Live, heard: Heard) -> Found:
    """A follower is frozen whose session outlasts the lag, so that the HW waits for it."""
    broker = next(one for one in (2, 3) if one != live.cluster.active_controller())
    frozen = live.cluster.freeze(broker) / 1000
    time.sleep(38)
    live.cluster.thaw(broker)
    gone, held = rf"\b{broker}\b.*(not answer|down|not reached)", rf"\b{broker}\b.*holds? back"
    return {
        "hangs: server": first(heard.server, gone, frozen),
        "hangs: page": first(heard.page, gone, frozen),
        "held back: server": first(heard.server, held, frozen),
        "held back: page": first(heard.page, held, frozen),
    }, frozenset({broker})  # fmt: skip


def _fires(row: Row) -> bool:
    return (row["rule"], row["state"]) == ("offline", "firing")


FAULTS: dict[str, tuple[Callable[[Live, Heard], Found], Sequence[Topic], Mapping[str, object]]] = {
    "election": (_election, [ORDERS, CLICKS], {}),
    "offline": (_offline, [ORDERS, PAY], {}),
    "stall": (_stall, [ORDERS], {"broker.session.timeout.ms": STALL_SESSION_MS}),
}


def table(found: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """A line for each stage."""
    yield f"{'stage':<28}{'trials':>7}{'half':>8}{'limit':>7}{'19 of 20':>10}{'limit':>7}"
    for stage, seconds in found.items():
        ordered, (half, most) = sorted(seconds), LIMITS[stage]
        at = [ordered[min(len(ordered) - 1, round(share * len(ordered)) - 1)] for share in (0.5, 0.95)]
        yield f"{stage:<28}{len(ordered):>7}{at[0]:>8.1f}{half:>7}{at[1]:>10.1f}{most:>7}"


def _play(name: str, trials: int, folder: Path, found: dict[str, list[float]]) -> int:
    play, topics, settings = FAULTS[name]
    wrong = 0
    with ExitStack() as ended:
        cluster = Cluster(folder, version(DEFAULT), Journal(folder, lambda line: None), {**SETTINGS, **settings})
        live = Live(folder, ended, cluster, topics)
        for trial in range(trials):
            if trial and name != "stall":  # which leaves nothing behind
                live.end()
                live.begin(str(folder / f"lake-{trial}"))
            wait_until(live.is_ok, WITHIN_S, "OK", every_s=1)
            time.sleep(random.uniform(5, 10))
            heard = Heard(live)
            seconds, guilty = play(live, heard)
            heard.end()
            for stage, one in seconds.items():
                found[stage].append(one)
            innocent = sorted({*wrong_blames(heard.server, guilty), *wrong_blames(heard.messages, guilty)})
            wrong += len(innocent)
            said = ", ".join(f"{stage} {one:.1f}" for stage, one in seconds.items())
            now = datetime.now(UTC)
            print(f"{now:%H:%M:%S} {name} {trial + 1}, load {os.getloadavg()[0]:.1f}: {said}", flush=True)
            for text in innocent:
                print(f"   BLAMED {text}", flush=True)
            if float("inf") in seconds.values():
                for kind, texts in (("server", heard.server), ("message", heard.messages)):
                    for text, at in texts.items():
                        print(f"   {datetime.fromtimestamp(at, UTC):%H:%M:%S} {kind} {text}", flush=True)
            wait_until(lambda: _whole(cluster), 120, "all replicas in sync", 1)
    return wrong


def _whole(cluster: Cluster) -> bool:
    seen = cluster.described()
    return seen is not None and len(seen.isr.values) == len(seen.replicas.values)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("faults", nargs="+", choices=FAULTS)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    found: dict[str, list[float]] = defaultdict(list)
    wrong = 0
    for name in given.faults:
        folder = Path(tempfile.mkdtemp(prefix=f"seconds-{name}-", dir=given.folder))
        print(f"in {folder}", flush=True)
        wrong += _play(name, given.trials, folder, found)
    print("\n".join(table(found)))
    print(f"{wrong} blamed though nothing was done to them")


if __name__ == "__main__":
    main()
