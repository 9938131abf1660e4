"""Messages between brokers and controllers: registrations, heartbeats, ISR changes, shutdowns, metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from generators.simulator.cluster.broker import Broker
from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.leader_requests import Proposal
from generators.simulator.cluster.metadata_records import image_changes
from generators.simulator.cluster.settings import SECOND

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

RETRY = SECOND
"""How long a broker waits before it repeats a request that failed."""
_Asked = list[tuple[LeaderPartition, Proposal]]


class Channel:
    """A request waits for an active controller, and is answered when its changes are committed."""

    def __init__(self, cluster: Simulation) -> None:
        self._cluster = cluster
        self._due: dict[int, int] = {}
        """By broker the arrival of the last metadata on its way: one change after the other."""

    def _to_controller_us(self) -> int:
        network, settings = self._cluster.network, self._cluster.settings
        return network.between(settings.network_us) + network.between(settings.controller_us)

    # registration and heartbeats

    def register(self, broker: Broker) -> None:
        """A broker that has started requests its registration, again and again."""
        broker.later(self._to_controller_us(), self._ask_to_register, broker)

    def _ask_to_register(self, broker: Broker) -> None:
        process = broker.process
        self._cluster.quorum.ask(lambda: broker.run(process, self._register, broker))

    def _register(self, broker: Broker) -> None:
        process = broker.process
        epoch = self._cluster.controller.register(broker.id, process, broker.clean)
        if epoch is None:
            broker.later(RETRY, self.register, broker)
            return
        self._cluster.quorum.when_committed(
            lambda: broker.run(process, self._registered, broker, epoch),
            lambda: broker.run(process, broker.later, RETRY, self.register, broker),
        )

    def _registered(self, broker: Broker, epoch: int) -> None:
        broker.epoch = epoch
        for record in image_changes(self._cluster.quorum.image()):
            self._deliver(broker, record)
        self._deliver(broker, self._begin)

    def _begin(self, broker: Broker) -> None:
        """It has caught up with the metadata: it sends heartbeats from now on."""
        self._heartbeat(broker)
        settings = self._cluster.settings
        if settings.automatic:
            broker.every(settings.heartbeat_ms, lambda: self._heartbeat(broker))
            broker.every(settings.lag_max_ms // 2, broker.check_isr)
            broker.every(settings.checkpoint_ms, broker.checkpoint)
            broker.every(settings.flush_ms, broker.flush)

    def _heartbeat(self, broker: Broker) -> None:
        self._cluster.network.send(self._on_heartbeat, broker.id, broker.process)

    def _on_heartbeat(self, id: int, process: int) -> None:
        if self._cluster.quorum.working:
            self._cluster.controller.heartbeat(id, process)

    # controlled shutdown

    def stop(self, broker: Broker, stopped: Callable[[], None]) -> None:
        """A broker requests its shutdown; `stopped` is called when other brokers have taken over what it leads."""
        delay = self._cluster.network.between(self._cluster.settings.controller_us)
        self._cluster.event_queue.after(delay, self._ask_to_stop, broker, broker.process, stopped)

    def _ask_to_stop(self, broker: Broker, process: int, stopped: Callable[[], None]) -> None:
        self._cluster.quorum.ask(lambda: self._stop(broker, process, stopped))

    def _stop(self, broker: Broker, process: int, stopped: Callable[[], None]) -> None:
        if broker.process == process and broker.running and broker.epoch is not None:
            self._cluster.controller.shut_down(broker.id)
            patience = 2 * max(self._cluster.settings.metadata_us)
            self._cluster.quorum.when_committed(
                lambda: broker.run(process, broker.later, patience, stopped),
                lambda: self._ask_to_stop(broker, process, stopped),
            )

    def gone(self, broker: Broker) -> None:
        """A broker that was shut down has ended."""
        process = broker.process
        self._cluster.quorum.ask(lambda: self._fence(broker, process))

    def _fence(self, broker: Broker, process: int) -> None:
        if broker.process == process and not broker.running:
            self._cluster.controller.fence(broker.id)

    # log directories

    def directory_failed(self, broker: Broker, keys: list[tuple[str, int]]) -> None:
        """A broker reports, with a heartbeat at once, that it has lost these replicas."""
        self._cluster.network.send(self._ask_about_directory, broker, broker.process, keys)

    def _ask_about_directory(self, broker: Broker, process: int, keys: list[tuple[str, int]]) -> None:
        self._cluster.quorum.ask(lambda: self._directory_failed(broker, process, keys))

    def _directory_failed(self, broker: Broker, process: int, keys: list[tuple[str, int]]) -> None:
        if broker.process == process and broker.epoch is not None:
            self._cluster.controller.directory_failed(broker.id, keys)
            self._cluster.quorum.when_committed(lambda: None, lambda: self._ask_about_directory(broker, process, keys))

    # ISR changes

    def alter_partitions(self, broker: Broker, asked: _Asked) -> None:
        """Send a leader's ISR changes to the controller, and the answer back."""
        self._cluster.event_queue.after(self._alter_us(asked), self._alter, broker, broker.process, broker.epoch, asked)

    def _alter_us(self, asked: _Asked) -> int:
        """Duration of one request with several changes: that of its slowest kind."""
        settings = self._cluster.settings
        given = [settings.alter_us[p.detail] for _, p in asked if p.detail in settings.alter_us]
        return self._cluster.network.between(max(given)) if given else self._to_controller_us()

    def _alter(self, broker: Broker, process: int, epoch: int | None, asked: _Asked) -> None:
        self._cluster.quorum.ask(lambda: self._alter_now(broker, process, epoch, asked))

    def _alter_now(self, broker: Broker, process: int, epoch: int | None, asked: _Asked) -> None:
        cluster = self._cluster
        answers = [
            (
                leader_partition,
                proposal,
                *cluster.controller.alter(broker.id, epoch, leader_partition.replica.key, proposal),
            )
            for leader_partition, proposal in asked
        ]
        cluster.quorum.when_committed(
            lambda: cluster.network.send(broker.run, process, broker.alter_partitions.answered, answers),
            lambda: cluster.event_queue.after(RETRY, self._alter, broker, process, epoch, asked),
        )

    # metadata

    def publish(self, record: Callable[[Broker], None]) -> None:
        """Deliver a change of the metadata to every registered broker in its turn."""
        for id, known in self._cluster.controller.brokers.items():
            broker = self._cluster.brokers[id]
            if broker.running and broker.process == known.process:
                self._deliver(broker, record)

    def _deliver(self, broker: Broker, record: Callable[[Broker], None]) -> None:
        cluster = self._cluster
        due = cluster.event_queue.now + cluster.network.between(cluster.settings.metadata_us)
        due = self._due[broker.id] = max(due, self._due.get(broker.id, 0))
        cluster.event_queue.at(due, broker.run, broker.process, record, broker)
