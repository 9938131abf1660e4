"""One broker's connection, on a thread of its own: a broker that hangs holds up no other.

The thread, the sockets, TLS and SASL are kafka-python's. A name that takes long to resolve blocks its thread, so
brokers do not share one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import kafka.errors as errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import FetchRequest

from generators.cluster.asking.problems import CLOSED, TIMED_OUT, kind
from generators.cluster.asking.security import Security
from generators.cluster.metadata.partitions import BrokerAddress

CLIENT_ID = "hwmark"
LARGEST_ANSWER = 256 << 20
"""Bytes: metadata of a million partitions and more."""
BACKOFF_MS, LONGEST_BACKOFF_MS = 200, 5_000
PROBE_S = 3.0
"""How long a broker may take to show that it answers at all."""
REFUSED_FOR_S = 30.0
"""The pause after a broker refused the login: it logs a line for each attempt."""
_PAUSE_S = 0.02
_DAY_MS = 86_400_000


def silence_library(shown: bool) -> None:
    """Drop kafka-python's log lines unless `shown` (--debug); hwmark says the same in one line of its own."""
    logger = logging.getLogger("kafka")
    logger.handlers = [logging.NullHandler()] if not shown else []
    logger.propagate = shown


class BrokerLink:
    """A broker that is asked over one connection, made when it is needed; one piece of work at a time."""

    def __init__(self, address: BrokerAddress, security: Security, timeout_s: float) -> None:
        self.address, self._security = address, security
        self._timeout_ms = self._limit_ms = round(timeout_s * 1000)
        self._refused: tuple[float, Exception] | None = None
        self._last_error: Exception | None = None
        self._work: Future | None = None
        self.described: tuple[Any, Any] | None = None
        """The last metadata answer in bytes, and decoded."""
        self._is_open = False

    def begin(self, work: Callable[..., Awaitable[Any]], *arguments: Any, done: Callable[[], None]) -> Future:
        """Start `work(self, *arguments)` on the link's thread; `done` is called there when it has ended.

        A broker that is never asked costs no thread and no socket.
        """
        if not self._is_open:
            self._net = NetworkSelector(client_id=CLIENT_ID, slow_task_threshold_secs=0)
            self._manager, self._is_open = self._new_manager(), True
            self._net.start()
        self._work = self._net.call_soon_with_future(work, self, *arguments)
        self._work.add_both(lambda _: done())
        return self._work

    @property
    def busy(self) -> bool:
        """Whether the last work is still running."""
        return self._work is not None and not self._work.is_done

    async def ask(self, request: Any) -> Any:
        """The broker's answer. Raises kafka-python's errors."""
        connection = await self._connected()
        until = monotonic() + self._limit_ms / 1000
        while connection.paused and connection.connected and monotonic() < until:  # it throttles us
            await self._net.sleep(_PAUSE_S)
        return await connection.send_request(request, request_timeout_ms=self._limit_ms)

    async def version(self, request: Any, most: int) -> int:
        """The version of a kind of request that the broker knows, too. Raises kafka-python's errors."""
        connection = await self._connected()
        return int(connection.broker_version_data.api_version(request, max_version=most))

    async def kafka_version(self) -> str | None:
        """The newest release of Kafka that has the requests that the broker knows, as 4.1, without a patch's number.

        None for what knows no Fetch, by which releases with other rules differ. Raises kafka-python's errors.
        """
        told = (await self._connected()).broker_version_data
        return str(told.broker_version_str) if FetchRequest.API_KEY in told.api_versions else None

    async def probe(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """The result of `work` within PROBE_S; after a timeout or closed connection tried once more on a new one.

        A round has its own connections, so that none waits because an earlier one failed. Raises kafka-python's errors.
        """
        self._limit_ms = min(self._timeout_ms, round(PROBE_S * 1000))
        try:
            if self._last_error is not None:
                self._renew()
            try:
                return await work()
            except Exception as error:
                if kind(error) not in (TIMED_OUT, CLOSED):
                    raise
                self._renew()
                return await work()
        finally:
            self._limit_ms = self._timeout_ms

    async def sleep(self, seconds: float) -> None:
        """Wait on the link's thread."""
        await self._net.sleep(seconds)

    def close(self) -> None:
        """Cancel running work and end the thread, without waiting for a name that is being resolved."""
        if not self._is_open:
            return
        self._net.call_soon_threadsafe(self._manager.close)
        self._net.stop(timeout_ms=50)

    async def _connected(self) -> KafkaConnection:
        if self._refused is not None:
            since, error = self._refused
            if monotonic() - since < REFUSED_FOR_S:
                raise error
            self._renew()
            self._refused = None
        try:
            return await self._connection()
        except errors.NodeNotReadyError:
            raise self._last_error or errors.KafkaConnectionError("not ready") from None
        except (errors.SaslAuthenticationFailedError, errors.AuthorizationError) as error:
            self._refused = monotonic(), error
            raise
        except Exception as error:
            self._last_error = error
            raise

    async def _connection(self) -> KafkaConnection:
        node = self._manager.cluster.bootstrap_brokers()[0].node_id
        connection = self._manager.get_connection(node, timeout_ms=self._limit_ms, refresh_metadata_on_err=False)
        if not connection.connected:
            try:
                await self._manager.wait_for(connection.init_future, self._limit_ms)
            except errors.KafkaTimeoutError as error:
                connection.close(error)
                raise
        return connection

    def _renew(self) -> None:
        """Send the next request over a new connection, without a pause."""
        self._manager.close()
        self._manager, self._last_error = self._new_manager(), None

    def _new_manager(self) -> KafkaConnectionManager:
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return KafkaConnectionManager(
            self._net,
            bootstrap_servers=[f"{host}:{self.address.port}"],
            client_id=CLIENT_ID,
            client_software_name=CLIENT_ID,
            receive_message_max_bytes=LARGEST_ANSWER,
            request_timeout_ms=self._timeout_ms,
            socket_connection_setup_timeout_ms=self._timeout_ms,
            connections_max_idle_ms=_DAY_MS,
            reconnect_backoff_ms=BACKOFF_MS,
            reconnect_backoff_max_ms=LONGEST_BACKOFF_MS,
            **self._security.kafka(),
        )
