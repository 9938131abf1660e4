"""Brokers that speak Kafka's protocol, with what they hold set by a test: an event loop in a thread, a port each.

The messages are kafka-python's, as the watcher's are; tests/realkafka has the watcher beside brokers of Kafka's own.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import threading
import uuid
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer.offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.metadata.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from tests.cluster import fake_admin
from tests.cluster.fake_admin import AdminAnswers, FakeGroup

NOT_LEADER, UNKNOWN_TOPIC, TOPIC_REFUSED, CLUSTER_REFUSED, FENCED, UNKNOWN_EPOCH = 6, 3, 29, 31, 74, 75
REQUESTS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        MetadataRequest,
        ListOffsetsRequest,
        OffsetForLeaderEpochRequest,
        DescribeConfigsRequest,
        SaslHandshakeRequest,
        SaslAuthenticateRequest,
        *fake_admin.REQUESTS,
    )
}
VERSIONS = {18: (0, 4), 3: (0, 12), 2: (1, 9), 23: (2, 4), 32: (1, 4), 17: (0, 1), 36: (0, 2), **fake_admin.VERSIONS}


@dataclass
class FakePartition:
    """One partition: who leads it, and the log end of each replica."""

    replicas: list[int]
    leader: int = -2
    epoch: int = 0
    isr: list[int] = field(default_factory=list)
    leo: dict[int, int] = field(default_factory=dict)
    hw: int = 0
    lso: int | None = None
    """What consumers with read_committed read up to; None: up to the HW."""
    starts: dict[int, int] = field(default_factory=lambda: {0: 0})
    """Where each epoch begins in the leader's log."""
    errors: dict[int, int] = field(default_factory=dict)
    """By broker the error code for its LEO."""
    hw_error: int = 0
    eligible: list[int] = field(default_factory=list)
    adding: list[int] = field(default_factory=list)
    """The ones among `replicas` that a reassignment adds."""

    def __post_init__(self) -> None:
        self.leader = self.replicas[0] if self.leader == -2 else self.leader
        self.isr = self.isr or list(self.replicas)
        self.leo = {broker: self.leo.get(broker, 0) for broker in self.replicas}

    def write(self, leo: int, hw: int | None = None) -> None:
        """All replicas have records up to `leo`, of which `hw` (all of them) are committed."""
        self.leo, self.hw = dict.fromkeys(self.leo, leo), leo if hw is None else hw

    def reassign(self, *adding: int) -> None:
        """Begin to add replicas, or end it where none is named."""
        self.replicas = [one for one in self.replicas if one not in self.adding or one in self.isr]
        self.adding, self.replicas = list(adding), [*self.replicas, *adding]
        self.leo |= {broker: self.leo.get(broker, 0) for broker in adding}

    def elect(self, leader: int, start: int, isr: list[int] | None = None) -> None:
        """Another leader, whose term begins at `start`."""
        self.leader, self.epoch = leader, self.epoch + 1
        self.starts[self.epoch] = start
        self.isr = isr or self.isr


@dataclass
class FakeTopic:
    partitions: list[FakePartition]
    topic_id: uuid.UUID = field(default_factory=uuid.uuid4)
    internal: bool = False
    refused: bool = False
    min_isr: int = 1


@dataclass
class FakeBroker:
    """One broker, and what is wrong with it."""

    broker_id: int
    rack: str | None = None
    port: int = 0
    delay_s: float = 0.0
    hung: bool = False
    up: bool = True
    listed: bool = True
    """Whether the other brokers know it to be up."""
    other_listener: bool = False
    """Whether it has no listener of the name that clients ask: metadata leave it out, and do not say what it leads."""
    garbage: bytes = b""
    """What it sends instead of an answer."""
    stale_isr: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """By topic and partition the ISR that its metadata still has."""
    frozen: tuple[dict[str, FakeTopic], list[int]] | None = None
    """The topics and the brokers that it goes on telling, as it is cut off from the controllers."""
    requests: list[str] = field(default_factory=list)
    server: Any = None
    writers: set[asyncio.StreamWriter] = field(default_factory=set)


class FakeCluster:
    """Brokers and topics; a test changes `topics` and `brokers` as it likes."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        users: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        describe_configs: bool = True,
        describe_cluster: bool = True,
    ) -> None:
        self.brokers = {k: FakeBroker(k, rack=f"rack-{k}") for k in range(1, brokers + 1)}
        self.topics: dict[str, FakeTopic] = {}
        self.users, self.tls, self.describe_configs = users, tls, describe_configs
        self.describe_cluster = describe_cluster
        self.voters = dict.fromkeys(self.brokers, 0)
        """Milliseconds by which each voter of the controllers' quorum is behind; the first one leads it."""
        self.registered: set[int] = set()
        """The brokers that the controllers tell to be registered."""
        self.cluster_id = "fake"
        self.invented = 0
        """So many more brokers, that are nowhere, stand in the metadata."""
        self.groups: dict[str, FakeGroup] = {}
        self.versions = dict(VERSIONS)
        self.host = self.advertised_host = "127.0.0.1"
        """Where brokers listen, and what metadata says of it."""
        self.controller_hangs = False
        """Brokers keep what they forward to it, and all later requests of that connection."""
        self.on_request: Callable[[int, Any], None] = lambda broker, request: None
        """Called before a request is answered."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FakeCluster:
        self._thread.start()
        for broker in self.brokers:
            self.start(broker)
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            self.stop(broker)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def bootstrap(self, broker: int = 1) -> tuple[str, int]:
        return self.host, self.brokers[broker].port

    def topic(self, name: str, *replicas: list[int], **settings: Any) -> FakeTopic:
        """A topic whose partitions lie on these brokers."""
        self.topics[name] = FakeTopic([FakePartition(one) for one in replicas], **settings)
        return self.topics[name]

    def start(self, broker: int) -> None:
        """The broker comes (again), on the port it had."""
        self._run(self._listen(self.brokers[broker]))

    def cut_off(self, *brokers: int) -> None:
        """These brokers learn nothing more of the controllers, who fence them."""
        for broker in brokers:
            self.brokers[broker].frozen = deepcopy(self.topics), list(self.brokers)
            self.brokers[broker].listed = False

    def stop(self, broker: int) -> None:
        """The broker goes: its connections are closed, and its port is."""
        self._run(self._close(self.brokers[broker]))

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _listen(self, broker: FakeBroker) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            broker.writers.add(writer)
            try:
                await _Connection(self, broker, reader, writer).serve()
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                broker.writers.discard(writer)
                writer.close()

        broker.server = await asyncio.start_server(serve, self.host, broker.port, ssl=self.tls)
        broker.port, broker.up = broker.server.sockets[0].getsockname()[1], True

    async def _close(self, broker: FakeBroker) -> None:
        broker.up = False
        if broker.server is not None:
            broker.server.close()
        for writer in list(broker.writers):
            writer.close()


class _Connection(AdminAnswers):
    def __init__(
        self, cluster: FakeCluster, broker: FakeBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.cluster, self.broker, self.reader, self.writer = cluster, broker, reader, writer
        self.user: str | None = None

    async def serve(self) -> None:
        while True:
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            if not 0 < size < 100 << 20:
                return
            frame = await self.reader.readexactly(size)
            key, version = struct.unpack(">hh", frame[:4])
            request = REQUESTS[key].decode(frame, version=version, header=True)
            if self.cluster.users is not None and self.user is None and key not in (17, 18, 36):
                return
            self.broker.requests.append(type(request).__name__)
            self.cluster.on_request(self.broker.broker_id, request)
            await self._answer(request, key, version)

    async def _answer(self, request: Any, key: int, version: int) -> None:
        is_forwarded = type(request).__name__.startswith("DescribeQuorum")
        while self.broker.hung or (is_forwarded and self.cluster.controller_hangs):
            await asyncio.sleep(0.05)
        if self.broker.delay_s:
            await asyncio.sleep(self.broker.delay_s)
        if self.broker.garbage:
            self.writer.write(self.broker.garbage)
            return
        response = getattr(self, f"_{key}")(request, version)
        response.API_VERSION = version
        response.with_header(correlation_id=request.header.correlation_id)
        self.writer.write(response.encode(header=True, framed=True))
        await self.writer.drain()

    def _18(self, _: Any, version: int) -> Any:
        item = ApiVersionsResponse.ApiVersion
        keys = [item(api_key=k, min_version=low, max_version=high) for k, (low, high) in self.cluster.versions.items()]
        return ApiVersionsResponse(version=version, error_code=0, api_keys=keys, throttle_time_ms=0)

    def _17(self, request: Any, version: int) -> Any:
        taken = ("PLAIN", "OAUTHBEARER")
        code = 34 if self.cluster.users is None else 0 if request.mechanism in taken else 33
        return SaslHandshakeResponse(version=version, error_code=code, mechanisms=list(taken))

    def _36(self, request: Any, version: int) -> Any:
        said = bytes(request.auth_bytes).decode()
        if said.startswith("n,,\1auth=Bearer "):
            user, password = said.split()[1].strip("\1").split(".")
        else:
            _, user, password = said.split("\0")
        known = (self.cluster.users or {}).get(user) == password
        self.user = user if known else None
        return SaslAuthenticateResponse(
            version=version,
            error_code=0 if known else 58,
            error_message=None if known else "Authentication failed",
            auth_bytes=b"",
            session_lifetime_ms=0,
        )

    def _3(self, request: Any, version: int) -> Any:
        item = MetadataResponse.MetadataResponseTopic
        named = [t.name for t in request.topics] if request.topics is not None else None
        topics = []
        known, up = self.broker.frozen or (self.cluster.topics, None)
        for name in sorted(known) if named is None else named:
            topic = known.get(name)
            if topic is not None and not topic.refused:
                topics.append(self._described(name, topic, version))
            elif named is not None:
                code = UNKNOWN_TOPIC if topic is None else TOPIC_REFUSED
                topics.append(item(version=version, error_code=code, name=name, partitions=[]))
        place = MetadataResponse.MetadataResponseBroker
        brokers = [
            place(version=version, node_id=b.broker_id, host=self.cluster.advertised_host, port=b.port, rack=b.rack)
            for b in self.cluster.brokers.values()
            if (b.broker_id in up if up else b.up and not b.other_listener and (b.listed or b is self.broker))
        ]
        brokers += [
            place(version=version, node_id=1_000 + k, host=f"nowhere-{k}.invalid", port=9, rack=None)
            for k in range(self.cluster.invented)
        ]
        return MetadataResponse(
            version=version,
            throttle_time_ms=0,
            brokers=brokers,
            cluster_id=self.cluster.cluster_id,
            controller_id=1,
            topics=topics,
        )

    def _described(self, name: str, topic: FakeTopic, version: int) -> Any:
        item = MetadataResponse.MetadataResponseTopic
        partition = item.MetadataResponsePartition
        return item(
            version=version,
            error_code=0,
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=[
                partition(
                    version=version,
                    error_code=72 if self._leads_elsewhere(p) else 0,
                    partition_index=k,
                    leader_id=-1 if self._leads_elsewhere(p) else p.leader,
                    leader_epoch=p.epoch,
                    replica_nodes=p.replicas,
                    isr_nodes=self.broker.stale_isr.get((name, k), p.isr),
                    offline_replicas=[],
                )
                for k, p in enumerate(topic.partitions)
            ],
        )

    def _leads_elsewhere(self, partition: FakePartition) -> bool:
        leader = self.cluster.brokers.get(partition.leader)
        return leader is not None and leader.other_listener

    def _2(self, request: Any, version: int) -> Any:
        item = ListOffsetsResponse.ListOffsetsTopicResponse
        partition = item.ListOffsetsPartitionResponse
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                code, offset, epoch = self._offset(topic.name, asked, request.replica_id, request.isolation_level)
                answers.append(
                    partition(
                        version=version,
                        partition_index=asked.partition_index,
                        error_code=code,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                )
            topics.append(item(version=version, name=topic.name, partitions=answers))
        # As Kafka does from 3.9 on: not in the order of the request.
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=topics[::-1])

    def _offset(self, name: str, asked: Any, replica_id: int, isolation_level: int) -> tuple[int, int, int]:
        topic, broker = self.cluster.topics.get(name), self.broker.broker_id
        if topic is not None and topic.refused:
            return TOPIC_REFUSED, -1, -1
        if topic is None or asked.partition_index >= len(topic.partitions):
            return UNKNOWN_TOPIC, -1, -1
        p = topic.partitions[asked.partition_index]
        if replica_id == -1:
            code = _leader_error(p, broker, asked.current_leader_epoch) or p.hw_error
            stable = p.hw if p.lso is None or not isolation_level else p.lso
            return (code, -1, -1) if code else (0, stable, p.epoch)
        code = p.errors.get(broker, 0 if broker in p.leo else UNKNOWN_TOPIC)
        return (code, -1, -1) if code else (0, p.leo[broker], p.epoch)

    def _23(self, request: Any, version: int) -> Any:
        item = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        partition = item.EpochEndOffset
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                p = self.cluster.topics[topic.topic].partitions[asked.partition]
                code = _leader_error(p, self.broker.broker_id, asked.current_leader_epoch)
                later = [start for epoch, start in sorted(p.starts.items()) if epoch > asked.leader_epoch]
                upto = [epoch for epoch in p.starts if epoch <= asked.leader_epoch]
                end = later[0] if later else p.leo[self.broker.broker_id]
                answers.append(
                    partition(
                        version=version,
                        error_code=code,
                        partition=asked.partition,
                        leader_epoch=max(upto, default=asked.leader_epoch),
                        end_offset=-1 if code else end,
                    )
                )
            topics.append(item(version=version, topic=topic.topic, partitions=answers))
        return OffsetForLeaderEpochResponse(version=version, throttle_time_ms=0, topics=topics)

    def _32(self, request: Any, version: int) -> Any:
        result = DescribeConfigsResponse.DescribeConfigsResult
        config = result.DescribeConfigsResourceResult
        results = []
        for asked in request.resources:
            values = {"replica.lag.time.max.ms": "30000", "min.insync.replicas": "1"}
            if asked.resource_type == 2:
                values = {"min.insync.replicas": str(self.cluster.topics[asked.resource_name].min_isr)}
            refused = 0 if self.cluster.describe_configs else (29 if asked.resource_type == 2 else 31)
            results.append(
                result(
                    version=version,
                    error_code=refused,
                    error_message=None,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[]
                    if refused
                    else [
                        config(version=version, name=k, value=v, read_only=False, config_source=5, is_sensitive=False)
                        for k, v in values.items()
                    ],
                )
            )
        return DescribeConfigsResponse(version=version, throttle_time_ms=0, results=results)


def _leader_error(partition: FakePartition, broker: int, epoch: int) -> int:
    if epoch >= 0 and epoch < partition.epoch:
        return FENCED
    if epoch > partition.epoch:
        return UNKNOWN_EPOCH
    return 0 if partition.leader == broker else NOT_LEADER
