"""Three brokers of a real Kafka (KRaft, combined), with what is shipped as their logging and ours merged into it."""

from __future__ import annotations

import json
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from generators.cluster.asking.decoded import TopicFilter
from generators.cluster.asking.problems import NotAnswering
from generators.cluster.asking.security import Security
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.metadata.partitions import Partitions
from pipelines.local_kafka import stock_logging
from pipelines.local_kafka.jars import jars
from pipelines.local_kafka.processes import Journal, end, start, wait_until
from pipelines.local_kafka.versions import Version

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, outside the range that outgoing connections draw from.

    From inside it a port could be taken while its broker is down.
    """
    first = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32768
    low, high = (10_000, first) if first > 12_000 else (40_000, 60_000)
    found: list[int] = []
    for port in random.sample(range(low, high), high - low):
        if _free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports from {low} to {high}")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


BROKERS = (1, 2, 3)
SNIPPETS = {1: "yaml", 2: "xml", 3: "yaml"}
"""Which of hwmark's files for log4j2 a broker has, so that both are run."""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
JVM = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]

UP_WITHIN_S = 120
STOPPED_WITHIN_S = 30


@dataclass
class Broker:
    """One node: its folder (`server.properties`, `data/`, `logs/`), its ports and its process."""

    node_id: int
    folder: Path
    port: int
    controller_port: int
    logging: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def logs(self) -> Path:
        """The whole log directory, as a user has it: everything Kafka's start script puts there."""
        return self.folder / "logs"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def replication_log(self) -> str:
        """Everything that hwmark's file made the broker log, the rotated files first, oldest first."""
        rotated = list(self.logs.glob("replication.log.*"))
        oldest_first = sorted(rotated, key=lambda file: file.stat().st_mtime_ns)
        return "".join(file.read_text() for file in [*oldest_first, self.logs / "replication.log"])

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Cluster:
    """The brokers, and the faults that can be done to them."""

    def __init__(
        self,
        folder: Path,
        kafka: Version,
        journal: Journal,
        settings: Mapping[str, object],
        libraries: Path | None = None,
    ) -> None:
        """`libraries`: Kafka's jars; without, those of Maven Central. Raises NoJars."""
        ports = free_ports(2 * len(BROKERS))
        self.kafka, self.journal, self.jars = kafka, journal, libraries or jars(kafka.broker)
        self.brokers = {node: Broker(node, folder / f"broker-{node}", ports.pop(), ports.pop()) for node in BROKERS}
        for broker in self.brokers.values():
            broker.logs.mkdir(parents=True)
            broker.properties.write_text(self._properties(broker, settings))
            shutil.copy(broker.properties, broker.logs)  # beside the logs: no line of them says the lag
            broker.logging = stock_logging.configure(kafka, broker.folder, SNIPPETS[broker.node_id])
        self._format()

    def _format(self) -> None:
        for broker in self.brokers.values():
            self.java(self.jars, ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(broker.properties)])

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    @property
    def log_directories(self) -> list[Path]:
        return [broker.logs for broker in self.brokers.values()]

    def dump(self, *files: Path) -> str:
        """The output of Kafka's tool for segments of the metadata log."""
        arguments = [self.kafka.dump_tool, "--cluster-metadata-decoder", "--files", ",".join(map(str, files))]
        return self.java(jars(self.kafka.tools), arguments)

    def java(self, jars: Path, arguments: list[str]) -> str:
        """The output of a Kafka tool. Raises RuntimeError with its last lines if it fails."""
        done = subprocess.run([*JVM, "-Xmx256m", "-cp", f"{jars}/*", *arguments], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def start(self, *nodes: int) -> None:
        """Start brokers, all unless some are named; what they print goes to `logs/kafkaServer.out`, as with -daemon."""
        for node in nodes or BROKERS:
            broker = self.brokers[node]
            gc = f"-Xlog:gc*:file={broker.logs}/kafkaServer-gc.log:time,tags:filecount=10,filesize=100M"
            flags = [f"-Dkafka.logs.dir={broker.logs}", *broker.logging, gc]
            command = [*JVM, "-Xmx400m", *flags, "-cp", f"{self.jars}/*", "kafka.Kafka", str(broker.properties)]
            self.journal.note("start", broker=node)
            broker.process = start(command, broker.logs / "kafkaServer.out")

    def wait_until_up(self, *nodes: int) -> None:
        """Wait until the brokers named, or all, are in the cluster's metadata."""
        wanted = set(nodes or BROKERS)

        def up() -> bool:
            dead = [node for node in wanted if not self.brokers[node].running]
            if dead:
                raise RuntimeError(f"broker {dead[0]} ended: see {self.brokers[dead[0]].logs}/kafkaServer.out")
            known = self.described()
            return known is not None and wanted <= {broker.broker_id for broker in known.brokers}

        wait_until(up, UP_WITHIN_S, f"brokers {sorted(wanted)} up")

    def create_topic(self, name: str, assignment: list[list[int]], **config: str) -> None:
        """Create a topic whose partitions lie on the brokers named."""
        from kafka.admin import KafkaAdminClient

        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = {"assignments": dict(enumerate(assignment)), "configs": settings}
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            client.create_topics({name: topic}, timeout_ms=30_000)
        finally:
            client.close()
        self.journal.note("topic", name=name, partitions=len(assignment))

    def described(self) -> Partitions | None:
        """The metadata of the first broker that answers, None if none does."""
        links = ClusterLinks(Security(), TopicFilter(internal=True), timeout_s=3)
        servers = [("127.0.0.1", broker.port) for broker in self.brokers.values() if broker.running]
        try:
            return links.bootstrap(servers).partitions
        except NotAnswering:
            return None

    def leaders_and_isrs(self, topic: str) -> list[tuple[int, list[int]]]:
        """By partition, as the first broker that answers knows them; none of a topic that it does not know."""
        seen = self.described()
        if seen is None or topic not in seen.topic_numbers:
            return []
        number, offsets = seen.topic_numbers[topic], seen.isr.offsets
        rows = range(*seen.topics.first[number : number + 2].tolist())
        return [(int(seen.leader[k]), seen.isr.values[offsets[k] : offsets[k + 1]].tolist()) for k in rows]

    def active_controller(self) -> int:
        """The active controller by the newest epoch on a node's disk; -1 during an election."""
        files = [broker.data / "__cluster_metadata-0" / "quorum-state" for broker in self.brokers.values()]
        states = [json.loads(file.read_text()) for file in files if file.exists()]
        return int(max(states, key=lambda state: state["leaderEpoch"])["leaderId"]) if states else -1

    def kill(self, node: int) -> int:
        """kill -9; returns when, in epoch milliseconds."""
        broker = self.brokers[node]
        assert broker.process is not None
        when = self.journal.note("kill", broker=node)
        broker.process.kill()
        broker.process.wait()
        return when

    def freeze(self, node: int) -> int:
        """SIGSTOP; returns when, in epoch milliseconds."""
        return self._signal(node, "freeze", signal.SIGSTOP)

    def thaw(self, node: int) -> int:
        """SIGCONT; returns when, in epoch milliseconds."""
        return self._signal(node, "thaw", signal.SIGCONT)

    def stop(self, node: int, within_s: float = STOPPED_WITHIN_S) -> None:
        """A controlled shutdown (SIGTERM), to its end; without a quorum it has none, and the broker is killed."""
        self._signal(node, "stop", signal.SIGTERM)
        process = self.brokers[node].process
        assert process is not None
        status = end(process, within_s)
        self.journal.note("stopped", broker=node, status=status)

    def stop_all(self) -> None:
        """End whatever still runs."""
        for node in [node for node, broker in self.brokers.items() if broker.running]:
            self.stop(node, within_s=5)

    def _signal(self, node: int, action: str, number: signal.Signals) -> int:
        process = self.brokers[node].process
        assert process is not None
        when = self.journal.note(action, broker=node)
        process.send_signal(number)
        return when

    def _properties(self, broker: Broker, settings: Mapping[str, object]) -> str:
        here, there = f"PLAINTEXT://127.0.0.1:{broker.port}", f"CONTROLLER://127.0.0.1:{broker.controller_port}"
        voters = ",".join(f"{b.node_id}@127.0.0.1:{b.controller_port}" for b in self.brokers.values())
        properties: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": broker.node_id,
            "listeners": f"{here},{there}",
            "advertised.listeners": here,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": voters,
            "log.dirs": broker.data,
            "offsets.topic.num.partitions": 1,
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            **settings,
        }
        return "".join(f"{key}={value}\n" for key, value in properties.items())
