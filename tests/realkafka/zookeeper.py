"""Three brokers of a Kafka with ZooKeeper, and the truth about ISRs and leaders: ZooKeeper's transaction log."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from pipelines.local_kafka.cluster import UP_WITHIN_S, Broker, Cluster, free_ports
from pipelines.local_kafka.jars import jars
from pipelines.local_kafka.processes import Journal, end, start, wait_until
from pipelines.local_kafka.versions import DUMP_IN_CORE, LOG_BINDING, Bundle, Version
from tests.realkafka.load import Place
from tests.realkafka.metadata_log import Election, Isr

SERVER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PRINTER = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
BINDING = "org.slf4j:slf4j-reload4j:1.7.36"
SHIPPED = """
log4j.logger.org.apache.zookeeper=INFO
log4j.logger.kafka.controller=TRACE, controllerAppender
log4j.additivity.kafka.controller=false
"""
"""Lines that Kafka's own log4j.properties had beside those of 3.9, for the controller that ZooKeeper names."""
UP_TO_2_5 = "log4j.logger.state.change.logger=TRACE, stateChangeAppender, hwmark\n"
"""The level in Kafka's own file up to 2.5: no other line shows that a broker left an ISR with its death."""


def _version(kafka: str) -> Version:
    classes = ("kafka.Kafka", DUMP_IN_CORE, LOG_BINDING, SERVER)
    bundle = Bundle(kafka, (f"org.apache.kafka:kafka_2.13:{kafka}", BINDING), classes)
    return Version(".".join(kafka.split(".")[:2]), bundle, bundle, DUMP_IN_CORE, log4j1=True)


VERSIONS = {version.name: version for version in map(_version, ("2.5.1", "2.8.2", "3.0.2", "3.6.2"))}
PRINTS = VERSIONS["3.6"]
"""With the ZooKeeper of this version all transaction logs are printed: the tool of 2.8 fails at a node without data."""


def is_listening(port: int) -> bool:
    """Return whether somebody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class ZooKeeperCluster(Cluster):
    """The brokers of a cluster whose controller is the one that ZooKeeper names."""

    def __init__(self, folder: Path, kafka: Version, journal: Journal, settings: Mapping[str, object]) -> None:
        self.folder, (self.port,) = folder / "zookeeper", free_ports(1)
        self._server: subprocess.Popen[bytes] | None = None
        super().__init__(folder, kafka, journal, settings)

    def start(self, *nodes: int) -> None:
        """Start ZooKeeper, unless it runs, and brokers."""
        if self._server is None:
            self._server = start([*self._java, SERVER, str(self.folder / "zoo.cfg")], self.folder / "zookeeper.out")
        super().start(*nodes)

    def wait_until_up(self, *nodes: int) -> None:
        """Wait until the brokers named, or all, are in the cluster's metadata and listen, which they do after it."""
        super().wait_until_up(*nodes)
        ports = [self.brokers[node].port for node in nodes or self.brokers]
        wait_until(lambda: all(map(is_listening, ports)), UP_WITHIN_S, f"brokers {nodes or [*self.brokers]} listening")

    def stop_all(self) -> None:
        """End the brokers that still run, ZooKeeper last."""
        super().stop_all()
        if self._server is not None:
            end(self._server, 10)

    def active_controller(self) -> int:
        """The controller that the brokers name in their metadata; -1 where none does."""
        return int(AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=30).controller_id)

    def print_truth(self, out: Path) -> Path:
        """Print what ZooKeeper was told, in its order."""
        logs = sorted(self.folder.glob("data/version-2/log.*"), key=lambda file: int(file.suffix[1:], 16))
        out.write_text("".join(self.java(jars(PRINTS.broker), [PRINTER, str(log)]) for log in logs))
        return out

    @property
    def _java(self) -> list[str]:
        return ["java", "-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{self.jars}/*"]

    def _format(self) -> None:
        """Nothing has to be formatted; ZooKeeper gets its configuration, and brokers what was shipped for it."""
        self.folder.mkdir()
        (self.folder / "zoo.cfg").write_text(
            f"dataDir={self.folder}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\ntickTime=1000\n"
        )
        for broker in self.brokers.values():
            logging = broker.folder / "log4j.properties"
            more = SHIPPED + UP_TO_2_5 if self.kafka.name == "2.5" else SHIPPED
            logging.write_text(logging.read_text() + more)

    def _properties(self, broker: Broker, settings: Mapping[str, object]) -> str:
        properties: dict[str, object] = {
            "broker.id": broker.node_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port}",
            "zookeeper.connect": f"127.0.0.1:{self.port}",
            "log.dirs": broker.data,
            "offsets.topic.num.partitions": 1,
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
        }
        renamed = {"broker.session.timeout.ms": "zookeeper.session.timeout.ms"}
        known = {renamed.get(key, key): value for key, value in settings.items() if not key.startswith("share.")}
        return "".join(f"{key}={value}\n" for key, value in (properties | known).items())


STATE = re.compile(r"(?:create|setData):.{4}/brokers/topics/([^/]+)/partitions/(\d+)/state.{4}(\{.*?\})", re.DOTALL)
"""A part of a transaction, printed as it is encoded: each text behind the four bytes of its length."""
TIME = re.compile(r"(\d+/\d+/\d+, \d+:\d+:\d+)\s([AP]M) UTC session")


class ZooKeeperLog:
    """The changes of partitions in a printed transaction log: each state that one got in place of another."""

    def __init__(self, path: Path) -> None:
        self.isrs: list[Isr] = []
        self.elections: list[Election] = []
        self.removals: list[tuple[int, int]] = []
        """When a broker was taken out of an ISR, and which."""
        self._states: dict[Place, dict[str, Any]] = {}
        self._versions: Counter[Place] = Counter()
        for ts_ms, place, state in _states(path):
            if place in self._states:
                self._versions[place] += 1
                self._change(ts_ms, place, self._states[place], state)
            self._states[place] = state

    def _change(self, ts_ms: int, place: Place, before: dict[str, Any], after: dict[str, Any]) -> None:
        if after["leader_epoch"] != before["leader_epoch"] and after["leader"] >= 0:
            self.elections.append(Election(ts_ms, place, after["leader"], after["leader"] not in before["isr"]))
        if {*after["isr"]} != {*before["isr"]}:
            self.isrs.append(Isr(*place, self._versions[place], tuple(sorted(after["isr"]))))
            self.removals += [(ts_ms, broker) for broker in {*before["isr"]} - {*after["isr"]}]


def _states(path: Path) -> Iterator[tuple[int, Place, dict[str, Any]]]:
    """When a partition got a state, which, and the state. The tool prints whole seconds: each stands at its end."""
    ts_ms = 0
    for line in path.read_text().split("\n"):
        if found := TIME.match(line):
            at = datetime.strptime(" ".join(found.groups()), "%m/%d/%y, %I:%M:%S %p").replace(tzinfo=UTC)
            ts_ms = round(at.timestamp() * 1000) + 999
        for topic, partition, state in STATE.findall(line):
            yield ts_ms, (topic, int(partition)), json.loads(state)
