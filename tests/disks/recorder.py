"""Log directories of three real brokers after an unclean election, and what clients wrote.

`python -m tests.disks.recorder 4.1 FOLDER` makes them.

The leader of `orders` writes 300 records, of which its follower got 120 before it was killed; the leader is killed, the
follower elected uncleanly, and 30 more are written. `payments` has a committed transaction, an aborted one and one left
open, `accounts` is compacted, `clicks` is partitioned by key (murmur2), and a topic is deleted and created again.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import shutil
import signal
import socket
import sys
import tarfile
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from pipelines.local_kafka.cluster import CLUSTER_ID, Broker, Cluster
from pipelines.local_kafka.jars import jars
from pipelines.local_kafka.processes import Journal, wait_until
from pipelines.local_kafka.versions import version
from tests.realkafka.segments import log_end

SETTINGS = {
    "replica.lag.time.max.ms": 4000,
    "broker.session.timeout.ms": 6000,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "log.index.size.max.bytes": 16384,
    "log.cleaner.backoff.ms": 500,
    "log.cleaner.min.cleanable.ratio": 0.01,
}
ALONE, STALE, THIRD = 1, 2, 3
WITHIN_S = 90


class Recording:
    """One run of the scenario."""

    def __init__(self, kafka: str, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster(folder / "brokers", version(kafka), Journal(folder), SETTINGS)
        self.written: dict[str, list[tuple[int, str]]] = {}

    def play(self) -> None:
        """All of it; nothing is left running."""
        try:
            self._fill()
            self._lose()
        finally:
            self.cluster.stop_all()
        self._keep("data")
        self._restart()

    def _fill(self) -> None:
        cluster = self.cluster
        cluster.start()
        cluster.wait_until_up()
        sparse = {"index_interval_bytes": "1024"}
        cluster.create_topic(
            "orders", [[ALONE, STALE]], unclean_leader_election_enable="true", min_insync_replicas="1", **sparse
        )
        cluster.create_topic("payments", [[ALONE, STALE, THIRD]], min_insync_replicas="1", **sparse)
        cluster.create_topic("clicks", [[ALONE, STALE], [STALE, THIRD], [THIRD, ALONE]], **sparse)
        cluster.create_topic("accounts", [[ALONE, STALE, THIRD]], cleanup_policy="compact", segment_ms="1000")
        cluster.create_topic("again", [[ALONE, STALE]])
        cluster.create_topic("packed", [[ALONE, STALE]])
        time.sleep(3)
        self._write("orders", range(120), "all")
        self._write("again", range(20), "all")
        self._delete("again")
        for generation in range(4):
            self._write("accounts", range(10), "all", key=lambda k: f"account-{k}", text=f"balance {generation}")
            time.sleep(1.2)
        self._write("clicks", range(90), "all", key=lambda k: f"user-{k}", partition=-1, partitioner="murmur2")
        for codec in ("gzip", "snappy", "lz4", "zstd"):
            settings: dict[str, Any] = {"compression.type": codec}
            self._write("packed", range(5), "all", text=f"{codec} " * 40, **settings)
        self._transactions()
        cluster.create_topic("again", [[ALONE, STALE]])
        time.sleep(6)

    def _lose(self) -> None:
        cluster = self.cluster
        cluster.kill(STALE)
        wait_until(lambda: cluster.leaders_and_isrs("orders") == [(ALONE, [ALONE])], WITHIN_S, "the leader alone")
        self._write("orders", range(120, 300), "all")
        time.sleep(6)
        cluster.kill(ALONE)
        cluster.start(STALE)
        wait_until(
            lambda: [a for a, _ in cluster.leaders_and_isrs("orders")] == [STALE], WITHIN_S, "the stale one leads"
        )
        self._write("orders", range(300, 330), "all")
        time.sleep(6)
        cluster.stop(STALE)
        cluster.stop(THIRD, within_s=8)

    def _restart(self) -> None:
        """Start all again: what the old leader cuts is what an audit has to have said."""
        cluster = self.cluster
        try:
            cluster.start()
            cluster.wait_until_up()
            reached = lambda: [sorted(isr) for _, isr in cluster.leaders_and_isrs("orders")] == [[ALONE, STALE]]  # noqa: E731
            wait_until(reached, WITHIN_S, "all in sync")
            time.sleep(6)
        finally:
            cluster.stop_all()
        ends = {node: log_end(broker.data, ("orders", 0)) for node, broker in cluster.brokers.items() if node != THIRD}
        (self.folder / "clients.json").write_text(json.dumps({"written": self.written, "orders_ends_after": ends}))

    def _producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0, "linger.ms": 0, **settings})

    def _write(
        self, topic: str, numbers: range, acks: str, *, key: Callable[[int], str] | None = None,
        text: str = "order", partition: int = 0, partitioner: str = "murmur2", **settings: Any,
    ) -> None:  # fmt: skip
        producer = self._producer(acks=acks, partitioner=partitioner, **{"enable.idempotence": True}, **settings)
        self._send(producer, topic, numbers, key or (lambda k: f"key-{k}"), text, partition)

    def _send(
        self, producer: Producer, topic: str, numbers: range, key: Callable[[int], str], text: str, partition: int
    ) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            place = f"{topic}-{message.partition()}"
            self.written.setdefault(place, []).append((message.offset(), (message.value() or b"").decode()))

        for k in numbers:
            chosen = {} if partition < 0 else {"partition": partition}
            producer.produce(topic, f"{text} {k}".encode(), key(k).encode(), on_delivery=delivered, **chosen)
            producer.flush(30)

    def _transactions(self) -> None:
        for name, end in (("committed", "commit_transaction"), ("aborted", "abort_transaction"), ("open", "")):
            producer = self._producer(**{"transactional.id": name, "transaction.timeout.ms": 600000})
            producer.init_transactions(30)
            producer.begin_transaction()
            self._send(producer, "payments", range(10), lambda k: f"payment-{k}", name, 0)
            if end:
                getattr(producer, end)(30)
            self._open = producer

    def _delete(self, topic: str) -> None:
        from kafka.admin import KafkaAdminClient

        client = KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap)
        try:
            client.delete_topics([topic], timeout_ms=30_000)
        finally:
            client.close()

    def _keep(self, name: str) -> None:
        """The directories as they lie, and what Kafka's own tool prints of them."""
        kept = self.folder / name
        for node, broker in self.cluster.brokers.items():
            shutil.copytree(broker.data, kept / f"broker-{node}", copy_function=shutil.copy2)
        dumps = self.folder / "dumps"
        dumps.mkdir(exist_ok=True)
        for node in self.cluster.brokers:
            files = sorted((kept / f"broker-{node}" / "__cluster_metadata-0").glob("*.log"))
            (dumps / f"metadata-{node}.txt").write_text(self.cluster.dump(*files))
            logs = sorted(file for file in (kept / f"broker-{node}").glob("*-*/*.log") if "__cluster" not in str(file))
            arguments = [self.cluster.kafka.dump_tool, "--files", ",".join(map(str, logs))]
            (dumps / f"segments-{node}.txt").write_text(self.cluster.java(jars(self.cluster.kafka.tools), arguments))


class Faults(Recording):
    """Faults by which nothing is lost: what disks show of them must be no loss.

    A rolling restart, a leader that is frozen past its session, kills, a disk that is replaced, a topic that is deleted
    and made again, all killed at once. `python -m tests.disks.recorder faults 4.1 FOLDER` makes it.
    """

    def play(self) -> None:
        """All of it; nothing is left running."""
        self._number = 0
        try:
            self._fill()
            self._fail()
        finally:
            self.cluster.stop_all()
        (self.folder / "clients.json").write_text(json.dumps({"written": self.written}))
        self._keep("data")

    def _fill(self) -> None:
        cluster = self.cluster
        cluster.start()
        cluster.wait_until_up()
        cluster.create_topic("safe", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas="2")
        cluster.create_topic(
            "compacted", [[1, 2, 3]], min_insync_replicas="2", cleanup_policy="compact", segment_ms="1000"
        )
        cluster.create_topic("again", [[1, 2]])
        time.sleep(3)
        self._more(30)
        for generation in range(3):
            self._write("compacted", range(10), "all", key=lambda k: f"a{k}", text=f"generation {generation}")
            time.sleep(1.2)
        self._write("again", range(20), "all")
        self._delete("again")
        time.sleep(2)
        cluster.create_topic("again", [[2, 1]])
        time.sleep(2)
        self._write("again", range(5), "all")

    def _fail(self) -> None:
        cluster = self.cluster
        for broker in cluster.brokers:
            cluster.stop(broker)
            self._more(5)
            self._back(broker)
        frozen = cluster.brokers[1].process
        assert frozen is not None
        frozen.send_signal(signal.SIGSTOP)
        time.sleep(14)
        self._more(10)
        frozen.send_signal(signal.SIGCONT)
        self._back()
        for broker in (2, 3):
            cluster.kill(broker)
            time.sleep(8)
            self._back(broker)
        cluster.kill(3)
        time.sleep(8)
        shutil.rmtree(cluster.brokers[3].data)
        properties = str(cluster.brokers[3].properties)
        cluster.java(cluster.jars, ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties])
        self._back(3)
        for broker in cluster.brokers:
            cluster.kill(broker)
        time.sleep(2)
        self._back(*cluster.brokers)
        time.sleep(30)

    def _back(self, *brokers: int) -> None:
        if brokers:
            self.cluster.start(*brokers)
        self.cluster.wait_until_up()
        whole = lambda: [sorted(isr) for _, isr in self.cluster.leaders_and_isrs("safe")] == [[1, 2, 3]] * 3  # noqa: E731
        wait_until(whole, WITHIN_S, "all in sync")
        self._more(5)

    def _more(self, count: int) -> None:
        for partition in range(3):
            self._write("safe", range(self._number, self._number + count), "all", partition=partition)
        self._number += count


class Dynamic(Cluster):
    """Brokers whose quorum of controllers is named in the log (KIP-853), not by configuration."""

    def _format(self) -> None:
        ids = {node: urlsafe_b64encode(bytes([node] * 16)).decode().rstrip("=") for node in self.brokers}
        first = ",".join(f"{b.node_id}@127.0.0.1:{b.controller_port}:{ids[b.node_id]}" for b in self.brokers.values())
        for broker in self.brokers.values():
            arguments = ["format", "-t", CLUSTER_ID, "-c", str(broker.properties), "--initial-controllers", first]
            self.java(self.jars, ["kafka.tools.StorageTool", *arguments])

    def _properties(self, broker: Broker, settings: Mapping[str, object]) -> str:
        text = super()._properties(broker, settings)
        servers = ",".join(f"127.0.0.1:{b.controller_port}" for b in self.brokers.values())
        return re.sub(r"(?m)^controller\.quorum\.voters=.*$", f"controller.quorum.bootstrap.servers={servers}", text)


class Power(Recording):
    """A dynamic quorum, a leader that went on writing while it was frozen out, and a power failure of both replicas.

    `orders` has 120 records on both disks, then 180 more that both acknowledged and neither had flushed when the power
    failed: their segments are put back as they lay before. `zombie` has records by a leader that others had replaced.
    `python -m tests.disks.recorder power 4.1 FOLDER` makes it.
    """

    def __init__(self, kafka: str, folder: Path) -> None:
        self.folder = folder
        settings = {**SETTINGS, "metadata.log.max.record.bytes.between.snapshots": 20_000}
        self.cluster = Dynamic(folder / "brokers", version(kafka), Journal(folder), settings)
        self.written = {}

    def play(self) -> None:
        """All of it; nothing is left running."""
        try:
            self._begin()
            self._freeze()
            self._fail()
            self._keep("down")
            self.cluster.start()
            self.cluster.wait_until_up()
            wait_until(
                lambda: [len(isr) for _, isr in self.cluster.leaders_and_isrs("orders")] == [2], WITHIN_S, "in sync"
            )
            self._write("orders", range(300, 330), "all")
            time.sleep(7)
        finally:
            self.cluster.stop_all()
        (self.folder / "clients.json").write_text(json.dumps({"written": self.written}))
        self._keep("data")

    def _begin(self) -> None:
        cluster = self.cluster
        cluster.start()
        cluster.wait_until_up()
        cluster.create_topic("orders", [[ALONE, STALE]], min_insync_replicas="2")
        cluster.create_topic("zombie", [[THIRD, ALONE]], min_insync_replicas="1")
        time.sleep(3)
        self._write("orders", range(120), "all")
        self._write("zombie", range(50), "all")
        time.sleep(7)

    def _freeze(self) -> None:
        """The frozen leader has 20 records in its socket that it appends once it runs again, with acks of 1."""
        cluster = self.cluster
        cluster.freeze(THIRD)
        late = self._producer(acks="1", **{"message.timeout.ms": 60000, "enable.idempotence": False})
        for k in range(50, 70):
            late.produce("zombie", f"late {k}".encode(), b"late", partition=0)
        wait_until(lambda: cluster.leaders_and_isrs("zombie") == [(ALONE, [ALONE])], WITHIN_S, "another one leads")
        self._write("zombie", range(100, 130), "all")
        cluster.thaw(THIRD)
        wait_until(
            lambda: [sorted(isr) for _, isr in cluster.leaders_and_isrs("zombie")] == [[ALONE, THIRD]], WITHIN_S, "back"
        )
        late.flush(60)
        time.sleep(7)

    def _fail(self) -> None:
        cluster = self.cluster
        for node in (ALONE, STALE):
            shutil.copytree(cluster.brokers[node].data / "orders-0", self.folder / f"flushed-{node}")
        self._write("orders", range(120, 300), "all")
        time.sleep(7)
        for node in cluster.brokers:
            cluster.kill(node)
        for node in (ALONE, STALE):
            for file in (self.folder / f"flushed-{node}").glob("*.log"):
                shutil.copyfile(file, cluster.brokers[node].data / "orders-0" / file.name)


class Proxy:
    """A relay before a broker that cuts a client's connection at the next record, as `armed` says.

    `request`: before the record reaches the broker; `answer`: once the broker has it and has answered.
    """

    def __init__(self, port: int) -> None:
        self._port, self.armed = port, ""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._relay, args=self._server.accept()[:1], daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with (
            contextlib.suppress(OSError, EOFError),
            client,
            socket.create_connection(("127.0.0.1", self._port)) as broker,
        ):
            while True:
                ready, _, _ = select.select([client, broker], [], [])
                if broker in ready:
                    client.sendall(self._frame(broker))
                    continue
                request = self._frame(client)
                armed = self.armed if request[4:6] == b"\0\0" else ""  # the key of Produce
                self.armed = "" if armed else self.armed
                if armed != "request":
                    broker.sendall(request)
                if armed:
                    broker.settimeout(2)  # of acks 0 there is no answer
                    with contextlib.suppress(TimeoutError):
                        self._frame(broker)
                    return

    @staticmethod
    def _frame(end: socket.socket) -> bytes:
        """A request or an answer with its length. Raises EOFError at the end of the connection."""
        content, left = b"", 4
        while left:
            piece = end.recv(left)
            if not piece:
                raise EOFError
            content += piece
            left = 4 + int.from_bytes(content[:4], "big") - len(content) if len(content) >= 4 else 4 - len(content)
        return content


class ByProxy(Cluster):
    """Brokers of which the first is reached by a proxy alone."""

    def _properties(self, broker: Broker, settings: Mapping[str, object]) -> str:
        text = super()._properties(broker, settings)
        if broker.node_id != ALONE:
            return text
        self.proxy = Proxy(broker.port)
        return text.replace(
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{broker.port}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.proxy.port}",
        )


class Guarantees(Recording):
    """One script under acks 0, acks all, and acks all with idempotence: 20 records, two cuts.

    Record 5 does not reach the broker, and the answer to record 10 not the client. `none` has lost 5, `all` has 10
    twice and `idempotent` each once. Only the leader's directory is kept.
    `python -m tests.disks.recorder guarantees 4.1 FOLDER` makes it.
    """

    def __init__(self, kafka: str, folder: Path) -> None:
        self.folder, self.written = folder, {}
        self.cluster: ByProxy = ByProxy(folder / "brokers", version(kafka), Journal(folder), SETTINGS)

    def play(self) -> None:
        """All of it; nothing is left running."""
        cluster = self.cluster
        try:
            cluster.start()
            cluster.wait_until_up()
            for topic, acks, idempotent in (("none", "0", False), ("all", "all", False), ("idempotent", "all", True)):
                cluster.create_topic(topic, [[ALONE, STALE]], min_insync_replicas="2")
                time.sleep(3)
                settings = {"acks": acks, "enable.idempotence": idempotent, "max.in.flight": 1}
                producer = self._producer(**settings)
                for k in range(20):
                    cluster.proxy.armed = {5: "request", 10: "answer"}.get(k, "")
                    self._send(producer, topic, range(k, k + 1), lambda k: f"key-{k}", "order", 0)
                    time.sleep(3 if k in (5, 10) else 0)
            time.sleep(6)
        finally:
            cluster.stop_all()
            cluster.proxy.close()
        (self.folder / "clients.json").write_text(json.dumps({"written": self.written}))
        kept = self.folder / "data" / f"broker-{ALONE}"
        shutil.copytree(
            cluster.brokers[ALONE].data, kept, copy_function=shutil.copy2, ignore=shutil.ignore_patterns("__*")
        )


def pack(folder: Path, out: Path) -> None:
    """One small archive: without the preallocated index files of the metadata log, which nothing reads."""

    def kept(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
        item.uid = item.gid = 0
        item.uname = item.gname = ""
        unread = "__cluster_metadata" in item.name and item.name.endswith(("index", ".snapshot"))
        return None if unread else item

    with tarfile.open(out, "w:xz", preset=9) as archive:
        for name in ("data", "down", "dumps", "clients.json", "actions.jsonl"):
            if (folder / name).exists():
                archive.add(folder / name, name, filter=kept)


if __name__ == "__main__":
    *kind, kafka, folder = sys.argv[1:]
    at = Path(folder)
    at.mkdir(parents=True)
    {"faults": Faults, "guarantees": Guarantees, "power": Power}.get("".join(kind), Recording)(kafka, at).play()
    pack(at, at.with_name(f"{at.name}.tar.xz"))
