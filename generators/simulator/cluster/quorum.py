"""The controllers of a cluster: one is active and decides, the others follow its log; a majority commits it (KRaft).

The active controller prints a change when it makes it, the others when it is committed (QuorumController.handleCommit),
and one that restarts prints the whole log again. So an active controller that is frozen or isolated has printed, and
prints when it continues, what is never committed: it does not know yet that another one has been elected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from generators.simulator.cluster.metadata_log import Batch, Image, Node, Record, Waiting
from generators.simulator.cluster.registration import NOBODY
from generators.simulator.cluster.settings import MS, SECOND
from generators.simulator.cluster.simulation_event import CONTROLLER, SimulationEvent

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

ASK_AGAIN = 100 * MS
"""How long a request waits before it looks for an active controller again."""
ELECTION_US = (1_200_000, 2_500_000)
"""From an active controller's last message to the next one's election (controller.quorum.fetch.timeout.ms: 2 s)."""
RESIGN_US = 3 * SECOND
"""How long an active controller without a majority stays active (KAFKA-15489)."""
LEARN_US = (20_000, 400_000)
"""How long a controller that was isolated takes until it knows who is active."""
BOOT_US = (1_000_000, 2_500_000)
"""From the start of a process until its controller reads the log."""


class Quorum:
    """The metadata log and who may write to it. A controller without others commits at once."""

    def __init__(self, cluster: Simulation, nodes: Iterable[Node]) -> None:
        self.cluster = cluster
        self.nodes = {node.id: node for node in nodes}
        self.active: Node | None = next(iter(self.nodes.values()))
        self.epoch = 1
        self.log: list[Record] = []
        """Committed records; a controller without others keeps none."""
        self._pending: list[Batch] = []
        self._replicated: list[Batch] = []
        """Pending batches that another controller may have."""
        self._due: list[Batch] = []
        """Pending batches that would be committed if there were a majority."""
        self._waiting: list[Waiting] = []
        self._read_due: dict[int, int] = {}

    @property
    def alone(self) -> bool:
        return len(self.nodes) == 1

    @property
    def working(self) -> bool:
        """Whether requests are answered; what is decided may still never be committed."""
        return self.active is not None and self.active.up

    def start(self) -> None:
        """Start with the first one active, which all know."""
        for node in self.nodes.values():
            node.epoch = self.epoch
            self._print_role(node, "active" if node is self.active else "standby")

    def ask(self, action: Callable[[], object]) -> None:
        """Run `action` at the active controller, as soon as there is one."""
        if self.working:
            action()
        else:
            self.cluster.event_queue.after(ASK_AGAIN, self.ask, action)

    # the log

    def append(self, record: Record) -> None:
        """A change by the active controller: it prints it now, and a majority has it some time later."""
        assert self.active is not None
        now = self.cluster.event_queue.now
        self._print(self.active, record, committed=False)
        if self.alone:
            self._commit(record, now)
            return
        if not self._pending or self._pending[-1].made != now:
            batch = Batch(now)
            self._pending.append(batch)
            if not self.active.isolated:
                self._replicated.append(batch)
            delay = self.cluster.network.between(self.cluster.settings.controller_us)
            self.cluster.event_queue.after(delay, self._replicate, batch)
        self._pending[-1].records.append(record)

    def when_committed(self, then: Callable[[], object], never: Callable[[], object]) -> None:
        """Call `then` once all that is written now is committed, `never` if it is discarded instead."""
        if self.alone or not self._pending:
            then()
        else:
            self._waiting.append(Waiting(self._pending[-1], then, never))

    def _replicate(self, batch: Batch) -> None:
        """Other controllers have the log up to this batch, if its author is still active and reaches them."""
        if batch in self._pending:
            self._due = self._pending[: self._pending.index(batch) + 1]
            self._commit_due()

    def _commit_due(self) -> None:
        if self.active is not None and self._has_majority(self.active):
            self._commit_all(self._due[:])

    def _has_majority(self, node: Node) -> bool:
        reached = [n for n in self.nodes.values() if n is node or (n.up and not (n.isolated or node.isolated))]
        return node.up and 2 * len(reached) > len(self.nodes)

    def _commit_all(self, batches: list[Batch]) -> None:
        for batch in batches:
            for record in batch.records:
                self.log.append(record)
                self._commit(record, batch.made)
        for left in (self._pending, self._replicated, self._due):
            left[:] = [batch for batch in left if batch not in batches]
        if self.active is not None and self.active.up:
            self.active.read = len(self.log)
        done = [w for w in self._waiting if w.batch in batches]
        self._waiting = [w for w in self._waiting if w.batch not in batches]
        for node in self.nodes.values():
            if node is not self.active:
                self._read_soon(node)
        for waiting in done:
            waiting.then()

    def _commit(self, record: Record, made: int) -> None:
        by = self.active or next(iter(self.nodes.values()))
        self.cluster.record([self._event(by, *printed)._replace(ts=made) for printed in record.printed])
        if record.publish is not None:
            self.cluster.channel.publish(record.publish)

    def image(self) -> Image:
        """The image of all that is committed."""
        if self.alone:
            return Image(self.cluster.controller.partitions, self.cluster.controller.brokers)
        image = Image()
        for record in self.log:
            record.put(image)
        return image

    def _read_soon(self, node: Node) -> None:
        cluster = self.cluster
        due = cluster.event_queue.now + cluster.network.between(cluster.settings.metadata_us)
        due = self._read_due[node.id] = max(due, self._read_due.get(node.id, 0))
        cluster.event_queue.at(due, self._read, node, node.process, len(self.log))

    def _read(self, node: Node, process: int, position: int) -> None:
        """A controller that is not active prints what is committed."""
        if process != node.process or not node.up or node.isolated or node.zombie is not None or node is self.active:
            return
        for record in self.log[node.read : position]:
            self._print(node, record, committed=True)
        node.read = max(node.read, position)

    # who is active

    def kill(self, id: int) -> None:
        """The process of a controller ends."""
        node = self.nodes[id]
        node.running = node.frozen = False
        node.zombie = None
        if node is self.active:
            self.active = None
        self._check_on(node)

    def restart(self, id: int) -> None:
        """A new process: it reads the whole log again, and prints it."""
        node = self.nodes[id]
        node.running, node.process, node.read = True, node.process + 1, 0
        self.cluster.event_queue.after(self.cluster.network.between(BOOT_US), self._boot, node, node.process)

    def _boot(self, node: Node, process: int) -> None:
        if process == node.process and node.running:
            self._print_role(node, "started")
            self._learn(node, process)
            self._commit_due()

    def freeze(self, id: int) -> None:
        """Suspend the process of a controller."""
        node = self.nodes[id]
        if node.running:
            node.frozen = True
            self._check_on(node)

    def thaw(self, id: int) -> None:
        """Continue: one that was active still believes so, and acts on overdue timers."""
        node = self.nodes[id]
        if node.frozen:
            node.frozen = False
            self._back(node)

    def isolate(self, id: int) -> None:
        """Let no other controller reach it."""
        node = self.nodes[id]
        node.isolated = True
        self._check_on(node)

    def rejoin(self, id: int) -> None:
        node = self.nodes[id]
        if node.isolated:
            node.isolated = False
            self._back(node)

    def _back(self, node: Node) -> None:
        if node.zombie is not None:
            node.zombie.check_sessions()
        if node is self.active:
            self._commit_due()
        elif node.up:
            delay = self.cluster.network.between(LEARN_US)
            self.cluster.event_queue.after(delay, self._learn, node, node.process)
            self._commit_due()

    def check_zombies(self) -> None:
        """Run timers of controllers that wrongly believe to be active."""
        for node in self.nodes.values():
            if node.zombie is not None and node.up:
                node.zombie.check_sessions()

    def _learn(self, node: Node, process: int) -> None:
        """It learns who is active, discards what it decided since, and reads what it has missed."""
        if process != node.process or not node.up or node.isolated or node is self.active:
            return
        renounced = node.zombie is not None
        node.zombie, node.epoch = None, self.epoch
        self._print_role(node, "renounced" if renounced else "standby")
        self._read_soon(node)

    def _check_on(self, node: Node) -> None:
        """Plan an election if a controller that is gone was the active one, or leaves that without a majority."""
        if self.active is not None and node is not self.active:
            if self._has_majority(self.active):
                return
            self.cluster.event_queue.after(RESIGN_US, self._resign, self.epoch)
        self.cluster.event_queue.after(self.cluster.network.between(ELECTION_US), self._elect, self.epoch)

    def _resign(self, epoch: int) -> None:
        """Resign if still active and still without a majority."""
        if epoch == self.epoch and self.active is not None and not self._has_majority(self.active):
            node, self.active = self.active, None
            if node.up:
                self._print_role(node, "nobody")
            self._elect(epoch)

    def _elect(self, epoch: int) -> None:
        """Elect another one if the controller of `epoch` has no majority, and others have one."""
        if epoch != self.epoch or (self.active is not None and self._has_majority(self.active)):
            return
        voters = [n for n in self.nodes.values() if n.up and not n.isolated and n is not self.active]
        if 2 * len(voters) <= len(self.nodes):
            self.cluster.event_queue.after(self.cluster.network.between(ELECTION_US), self._elect, epoch)
            return
        random = self.cluster.random
        deposed, self.active = self.active, None
        kept = self._replicated[: random.randint(0, len(self._replicated))]
        if deposed is not None and deposed.running:
            # It prints what it decides from here on, and nothing of that is replicated.
            deposed.zombie = self.cluster.controller.copy(partial(self._print, deposed, committed=False))
        self._commit_all(kept)
        lost, self._waiting = self._waiting, []
        for thrown in (self._pending, self._replicated, self._due):
            thrown.clear()
        self.epoch += random.choice((1, 1, 2))
        self._begin(random.choice(voters))
        for waiting in lost:
            waiting.never()

    def _begin(self, chosen: Node) -> None:
        if chosen.zombie is not None:
            chosen.zombie = None
            self._print_role(chosen, "renounced")
        self._read(chosen, chosen.process, len(self.log))
        self.active, chosen.epoch = chosen, self.epoch
        self.cluster.controller.restore(self.image())
        self._print_role(chosen, "active")
        for node in self.nodes.values():
            if node is not chosen and node.up and not node.isolated:
                delay = self.cluster.network.between(LEARN_US)
                self.cluster.event_queue.after(delay, self._learn, node, node.process)

    # printing

    def _print(self, node: Node, record: Record, committed: bool) -> None:
        for printed in record.printed:
            event = self._event(node, *printed)
            self.cluster.observe(event._replace(controller_epoch=node.epoch or None, committed=committed))

    def _event(self, node: Node, kind: str, fields: dict[str, Any]) -> SimulationEvent:
        return SimulationEvent(self.cluster.event_queue.now, node.clock.us, node.id, CONTROLLER, kind, **fields)

    def _print_role(self, node: Node, role: str) -> None:
        leader = self.active.id if self.active is not None else NOBODY
        fields = {"leader": leader, "detail": role, "controller_epoch": self.epoch}
        self.cluster.observe(self._event(node, "role", fields))
