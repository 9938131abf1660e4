"""What somebody on call is told through faults of a real cluster, with the truth beside; all settings as shipped.

    python -m tests.realkafka.oncall return --folder /tmp/oncall

Prints in order of time what is done, how the cluster really stands, each sentence of the present that comes (+) or goes
(-), and every message, whole. At the end the messages of each fault are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from pipelines.commands.try_kafka.faults import SESSION_MS, Topic
from pipelines.local_kafka.cluster import BROKERS, Broker, Cluster, free_ports
from pipelines.local_kafka.processes import Journal, wait_until
from pipelines.local_kafka.versions import DEFAULT, Version, version
from tests.realkafka.live import ORDERS, SETTINGS, WITHIN_S, Live, plain, sentences

CLICKS = Topic("clicks", [[1, 2]], {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"})
AUDIT = Topic("audit", [[2], [3]], {"min_insync_replicas": "1"})
ENDED_S = 330
"""An incident ends once it was well for 300 s."""


class Roads:
    """A TCP road to each broker for the watcher alone; what is cut lets nothing through, and closes nothing."""

    def __init__(self) -> None:
        self.ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        self._loop = asyncio.new_event_loop()
        self._open: dict[int, asyncio.Event] = {}
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def lead(self, targets: Mapping[int, int]) -> None:
        """Begin to forward to the port of each broker."""
        asyncio.run_coroutine_threadsafe(self._lead(targets), self._loop).result()

    def cut(self, *brokers: int) -> None:
        """Cut these roads and mend the others."""
        for broker, event in self._open.items():
            self._loop.call_soon_threadsafe(event.clear if broker in brokers else event.set)

    async def _lead(self, targets: Mapping[int, int]) -> None:
        for broker, port in targets.items():
            event = self._open[broker] = asyncio.Event()
            event.set()
            await asyncio.start_server(partial(self._connect, port, event), "127.0.0.1", self.ports[broker])

    async def _connect(
        self, port: int, event: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await event.wait()
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pipe(reader, back, event), self._pipe(there, writer, event))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, event: asyncio.Event) -> None:
        try:
            while data := await reader.read(1 << 16):
                await event.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        await event.wait()
        writer.close()


class Watched(Cluster):
    """A cluster with a listener of its own for the watcher, to which only `Roads` lead."""

    def __init__(self, folder: Path, kafka: Version, journal: Journal, settings: Mapping[str, object]) -> None:
        self.roads, self._behind = Roads(), dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        super().__init__(folder, kafka, journal, settings)
        self.roads.lead(self._behind)

    @property
    def watchers_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.roads.ports.values())

    def _properties(self, broker: Broker, settings: Mapping[str, object]) -> str:
        lines = super()._properties(broker, settings).splitlines()
        given = dict(line.split("=", 1) for line in lines)
        given["listeners"] += f",WATCH://127.0.0.1:{self._behind[broker.node_id]}"
        given["advertised.listeners"] += f",WATCH://127.0.0.1:{self.roads.ports[broker.node_id]}"
        given["listener.security.protocol.map"] += ",WATCH:PLAINTEXT"
        return "".join(f"{key}={value}\n" for key, value in given.items())


class OnCall:
    """Writes down what is said and what is true, by the second since the last fault."""

    def __init__(self, live: Live, cluster: Watched) -> None:
        self.live, self.cluster = live, cluster
        self.messages = Counter[str]()
        self.name, self._at = "start", time.time()
        self._lock = threading.Lock()
        live.told = self._message
        for each in (self._truth, self._verdict):
            threading.Thread(target=each, daemon=True).start()

    def say(self, text: str) -> None:
        with self._lock:
            print(f"{time.strftime('%H:%M:%S', time.gmtime())} {time.time() - self._at:6.1f} s  {text}", flush=True)

    def fault(self, name: str) -> None:
        self.name, self._at = name, time.time()
        self.say(f"===== {name}")

    def act(self, what: str, done: Callable[[], object]) -> None:
        self.say(f"ACT    {what}")
        done()

    def listen(self, seconds: float) -> None:
        time.sleep(seconds)

    def calm(self) -> None:
        """Wait until the server says OK of the present."""
        wait_until(self.live.is_ok, WITHIN_S, "OK", every_s=1)

    def _message(self, title: str, body: str) -> None:
        self.messages[self.name] += 1
        below = "".join(f"\n         | {line}" for line in body.splitlines())
        self.say(f"MESSAGE {self.messages[self.name]} ({len(title)} characters) {title}{below}")

    def _truth(self) -> None:
        before: dict[str, str] = {}
        acked: dict[str, int] = {}
        still: set[str] = set()
        while True:
            now = self._metadata()
            if now != before:
                new = [f"{k} {v}" for k, v in now.items() if before.get(k) != v]
                self.say(f"TRUTH  {'; '.join(new)}")
                before = now
            counts = {f"{p[0]}-{p[1]}": len(found) for p, found in list(self.live.producers.acked.items())}
            stands = {name for name, count in counts.items() if acked.get(name) == count}
            if stands != still:
                self.say(f"TRUTH  acks=all stands still: {', '.join(sorted(stands)) or 'nowhere'}")
                still = stands
            acked = counts
            time.sleep(2)

    def _metadata(self) -> dict[str, str]:
        seen = self.cluster.described()
        if seen is None:
            return {"metadata": "nobody answers"}
        found = {"metadata": f"lists brokers {sorted(one.broker_id for one in seen.brokers)}"}
        offsets, firsts = seen.isr.offsets, seen.topics.first
        for name, number in seen.topic_numbers.items():
            if not name.startswith("_"):
                for at, k in enumerate(range(*firsts[number : number + 2].tolist())):
                    isr = sorted(seen.isr.values[offsets[k] : offsets[k + 1]].tolist())
                    found[f"{name}-{at}"] = f"leader {seen.leader[k]} ISR {isr}"
        return found

    def _verdict(self) -> None:
        before: dict[str, str] = {}
        while True:
            try:
                lines = {plain(line["text"]): f"[{line['part']}] {line['text']}" for line in sentences(self.live.port)}
            except OSError as error:
                lines = {str(error): f"[server] {error}"}
            for key in before.keys() - lines.keys():
                self.say(f"  -    {before[key][:70]}")
            for key in lines.keys() - before.keys():
                self.say(f"  +    {lines[key]}")
            before = lines
            time.sleep(0.5)


def _follower(cluster: Cluster) -> int:
    """A broker that is not the active controller, 2 if it can be."""
    return next(broker for broker in (2, 3, 1) if broker != cluster.active_controller())


def _return(call: OnCall) -> None:
    call.fault("a broker is killed and returns")
    call.act("kill -9 broker 2", lambda: call.cluster.kill(2))
    call.listen(110)
    call.act("start broker 2", lambda: call.cluster.start(2))
    call.calm()
    call.say("OK again")
    call.listen(ENDED_S)


def _unclean(call: OnCall) -> None:
    cluster = call.cluster
    call.fault("an unclean election")
    call.act("kill -9 broker 2, a follower of clicks-0", lambda: cluster.kill(2))
    wait_until(partial(_alone, cluster, 1), 60, "the leader alone in its ISR")
    call.listen(8)
    call.act("kill -9 broker 1, which leads clicks-0", lambda: cluster.kill(1))
    call.act("start broker 2", lambda: cluster.start(2))
    wait_until(lambda: _leads(cluster, 2), 90, "broker 2 leading", every_s=0.5)
    call.say("TRUTH  broker 2 leads clicks-0 uncleanly")
    call.listen(60)
    call.act("start broker 1", lambda: cluster.start(1))
    call.listen(60)
    call.say(call.live.hwmark("show", "verdict"))
    call.say(call.live.hwmark("note", "--cluster", "live", "--handled", "told to data"))
    call.listen(ENDED_S)


def _alone(cluster: Cluster, broker: int) -> bool:
    return cluster.leaders_and_isrs("clicks")[0][1] == [broker]


def _leads(cluster: Cluster, broker: int) -> bool:
    found = cluster.leaders_and_isrs("clicks")
    return bool(found) and found[0][0] == broker


def _rolling(call: OnCall) -> None:
    """The documented loop: gate, stop, start, with a topic of one replica on brokers 2 and 3."""
    call.fault("a rolling restart under downtimes")
    for broker in BROKERS:
        window = ["--cluster", "live", "--broker", str(broker)]
        said = call.live.hwmark("downtime", *window, "--for", "15m", "--reason", "restart")
        call.say(said)
        call.act(f"stop broker {broker}", partial(call.cluster.stop, broker))
        call.listen(20)
        call.act(f"start broker {broker}", partial(call.cluster.start, broker))
        call.cluster.wait_until_up(broker)
        call.calm()
        call.say(call.live.hwmark("downtime", "end", said.splitlines()[1].partition(":")[0]))
    call.listen(60)


def _roads(call: OnCall, *brokers: int) -> None:
    call.fault(f"the watcher's road to {len(brokers)} brokers is cut")
    call.act(f"cut {brokers}", lambda: call.cluster.roads.cut(*brokers))
    call.listen(75 if len(brokers) < len(BROKERS) else 100)
    call.act("mend", call.cluster.roads.cut)
    call.calm()
    call.say("OK again")
    call.listen(10)


def _paused(call: OnCall) -> None:
    process = call.live.processes["watch"]
    for seconds in (12, 40, 100):
        call.fault(f"the watcher is stopped by a signal for {seconds} s")
        call.act("SIGSTOP", lambda: process.send_signal(signal.SIGSTOP))
        call.listen(seconds)
        call.act("SIGCONT", lambda: process.send_signal(signal.SIGCONT))
        call.calm()
        call.say("OK again")
        call.listen(20)


def _freeze(call: OnCall) -> None:
    broker = _follower(call.cluster)
    call.fault(f"broker {broker} is frozen")
    call.act("SIGSTOP", lambda: call.cluster.freeze(broker))
    call.listen(60)
    call.act("SIGCONT", lambda: call.cluster.thaw(broker))
    call.calm()
    call.say("OK again")
    call.listen(20)


def _controllers(call: OnCall) -> None:
    call.fault("two of three brokers and controllers are killed")
    call.act("kill -9 brokers 2 and 3", lambda: (call.cluster.kill(2), call.cluster.kill(3)))
    call.listen(100)
    call.act("start 2 and 3", lambda: call.cluster.start(2, 3))
    call.calm()
    call.say("OK again")
    call.listen(60)


def _reassign(call: OnCall) -> None:
    """clicks-0 gets a third replica so slowly that it does not arrive; then that is taken back."""
    from kafka import TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    client, clicks = KafkaAdminClient(bootstrap_servers=call.cluster.bootstrap), TopicPartition("clicks", 0)
    topic = {"follower.replication.throttled.replicas": "0:3"}
    rate = {"follower.replication.throttled.rate": "1"}
    call.fault("a reassignment adds broker 3 to clicks-0")
    client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "clicks", topic)])
    client.alter_configs([ConfigResource(ConfigResourceType.BROKER, "3", rate)], raise_on_unknown=False)
    call.act("begin", lambda: client.alter_partition_reassignments({clicks: [1, 2, 3]}))
    call.listen(75)
    call.act("cancel", lambda: client.alter_partition_reassignments({clicks: None}))
    call.listen(45)
    client.close()


def _unwatched(call: OnCall) -> None:
    """Two unclean elections while the watcher is away."""
    cluster = call.cluster
    call.fault("two unclean elections while nobody watches")
    call.act("the watcher stands still", lambda: call.live.processes["watch"].send_signal(signal.SIGSTOP))
    for stale, leader in ((2, 1), (1, 2)):
        call.act(f"kill -9 broker {stale}", partial(cluster.kill, stale))
        wait_until(partial(_alone, cluster, leader), 60, "alone in its ISR")
        call.listen(8)
        call.act(f"kill -9 broker {leader}", partial(cluster.kill, leader))
        call.act(f"start broker {stale}", partial(cluster.start, stale))
        wait_until(partial(_leads, cluster, stale), 90, f"broker {stale} leading", every_s=0.5)
        call.act(f"start broker {leader}", partial(cluster.start, leader))
        wait_until(lambda: len(cluster.leaders_and_isrs("clicks")[0][1]) == 2, 90, "both in sync", every_s=0.5)
    call.act("the watcher goes on", lambda: call.live.processes["watch"].send_signal(signal.SIGCONT))
    call.listen(60)
    call.say(call.live.hwmark("show", "verdict"))


FAULTS: dict[str, Callable[[OnCall], None]] = {
    "return": _return,
    "unclean": _unclean,
    "rolling": _rolling,
    "road-to-one": lambda call: _roads(call, 3),
    "roads-to-most": lambda call: _roads(call, 2, 3),
    "roads-to-all": lambda call: _roads(call, *BROKERS),
    "paused": _paused,
    "freeze": _freeze,
    "controllers": _controllers,
    "reassign": _reassign,
    "unwatched": _unwatched,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("faults", nargs="+", choices=FAULTS)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--session-ms", type=int, default=SESSION_MS, help="above the lag of 30 s a freeze holds back")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="oncall-", dir=given.folder))
    print(f"in {folder}", flush=True)
    settings = {**SETTINGS, "broker.session.timeout.ms": given.session_ms}
    with ExitStack() as ended:
        cluster = Watched(folder, version(DEFAULT), Journal(folder, lambda line: None), settings)
        call = OnCall(Live(folder, ended, cluster, [ORDERS, CLICKS, AUDIT], cluster.watchers_bootstrap), cluster)
        for name in given.faults:
            call.calm()
            call.listen(20)
            FAULTS[name](call)
        for name, count in call.messages.items():
            print(f"{count} messages: {name}")
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
