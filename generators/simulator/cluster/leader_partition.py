"""A partition at its leader: appends, answers to fetches, moves of the HW, requests for ISR changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from generators.simulator.cluster import rules
from generators.simulator.cluster.delayed_produces import DelayedProduces
from generators.simulator.cluster.leader_requests import PENDING, REVERTED, Asked, Fetched, Produced, Proposal
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.producer_state import Duplicate, ProducerStates
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.replica import Follower, Replica
from generators.simulator.cluster.threads import NONE, Killed, Pause

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker


class LeaderPartition:
    """One term of one leader. `isr` is the committed ISR; `proposal` is in flight to the controller."""

    def __init__(
        self, broker: Broker, replica: Replica, registration: Registration, before: LeaderPartition | None
    ) -> None:
        self.broker = broker
        self.replica = replica
        self.log = replica.log
        self.term = broker.cluster.next_term()
        self.epoch = registration.leader_epoch
        self.proposal: Proposal | None = None
        self.followers: dict[int, Follower] = {}
        self.producers = ProducerStates.of(replica.log)
        self._delayed: DelayedProduces = before._delayed if before else DelayedProduces()
        self.start = self.log.leo
        self.log.begin_epoch(self.epoch)
        self._register(registration)
        for follower in self._followers_of(registration, before):
            self.followers[follower.id] = follower

    def _followers_of(self, registration: Registration, before: LeaderPartition | None) -> list[Follower]:
        """The followers' states at the start of a new epoch (Replica.resetReplicaState)."""
        now, by_messages = self.broker.clock.ms, self.broker.version.lag_by_messages
        made = []
        for id in self._others(registration):
            synced = id in registration.isr
            known = before.followers.get(id) if before else None
            if known is not None:
                since = now if synced else 0
                fetched = now if by_messages else since
                made.append(Follower(id, known.leo, self.log.leo, fetched, since, known.broker_epoch))
            else:
                made.append(replace(self._new_follower(id), caught_up=now if synced else 0))
        return made

    def _new_follower(self, id: int) -> Follower:
        """A follower that has not fetched; until 0.8 it counts as having done so as it is assigned (Replica)."""
        return Follower(id, fetched=self.broker.clock.ms if self.broker.version.lag_by_messages else 0)

    def _others(self, registration: Registration) -> list[int]:
        return [r for r in registration.replicas if r != self.broker.id]

    def _register(self, registration: Registration) -> None:
        self.isr = registration.isr
        self.replicas = registration.replicas
        self.replica.partition_epoch = registration.partition_epoch
        self.min_isr = registration.min_isr
        self.recovering = registration.recovering

    def begin(self) -> None:
        """Emit the start of the term; a leader alone in a sufficient ISR advances its HW to the LEO at once."""
        self._emit(
            "leader", leo=self.log.leo, leader_leo=self.log.leo, hw=self.replica.hw, min_isr=self.min_isr,
            lag_max_ms=self.broker.settings.lag_max_ms, unclean=self.recovering,
        )  # fmt: skip
        self.attempt()

    def registered(self, registration: Registration) -> None:
        """Metadata of the same leader epoch: its ISR is committed, and a proposal in flight is settled by it
        (Partition.makeLeader)."""
        self._register(registration)
        self.proposal = None
        self.followers = {id: self.followers.get(id) or self._new_follower(id) for id in self._others(registration)}
        self._emit("isr", detail="metadata", hw=self.replica.hw)
        self.attempt()

    # the high watermark

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and the replica about to join it (PendingExpandIsr.isr)."""
        if self.proposal is not None and self.proposal.detail == "expand":
            return self.proposal.isr
        return self.isr

    def attempt(self, late_us: int = 0) -> None:
        """Advance the HW if the rules allow it (Partition.maybeIncrementLeaderHW); it is printed `late_us` later."""
        before = self.replica.hw
        hw = self.raised(before, self.broker.peers.admits)
        if hw > before:
            self.wake()
            self.replica.hw = hw
            self._emit("hw", replica=self.broker.id, hw=hw, hw_before=before, late_us=late_us)
            self._answer_waiting()

    def raised(self, hw: int, admits: Callable[[Follower], bool]) -> int:
        """The HW that follows from `hw` if `admits` decides which followers may join."""
        if not rules.may_advance(len(self.isr), self.min_isr, len(self.replicas), self.broker.version.strict_min_isr):
            return hw
        return rules.high_watermark(hw, self.log.leo, self._shortest(admits))

    def _shortest(self, admits: Callable[[Follower], bool]) -> int:
        now, maximal, shortest = self.broker.clock.ms, self.maximal_isr, self.log.leo
        for follower in self.followers.values():
            if follower.leo < shortest:
                synced = follower.id in maximal
                joins = not synced and self.broker.version.waits_for_joiners
                caught_up = joins and self._is_caught_up(follower, now)
                if rules.counts(synced, caught_up, caught_up and admits(follower)):
                    shortest = follower.leo
        return shortest

    def _is_caught_up(self, follower: Follower, now: int) -> bool:
        lag_max = self.broker.settings.lag_max_ms
        if self.broker.version.lag_by_messages:
            most = self.broker.settings.lag_max_messages
            return rules.is_in_sync_by_messages(follower.leo, self.log.leo, most, now - follower.fetched, lag_max)
        return rules.is_caught_up(follower.leo, self.log.leo, follower.caught_up, now, lag_max)

    # appends

    def append(self, count: int, acks: int, batch: Batch | None, answer: Callable[[Produced], None]) -> None:
        """Append a producer's records (ReplicaManager.appendRecords); `answer` is called now or on their commit."""
        if acks == -1 and len(self.isr) < rules.effective_min_isr(self.min_isr, len(self.replicas)):
            answer(Produced("NOT_ENOUGH_REPLICAS"))
            return
        known = self.producers.check(batch, count) if batch is not None else None
        if isinstance(known, Duplicate):
            self._acknowledge(known.first, known.last, acks, answer)
        elif known is not None:
            answer(Produced(known.error))
        else:
            first, last = self._grow(count, batch)
            self._acknowledge(first, last, acks, answer)

    def _grow(self, count: int, batch: Batch | None) -> tuple[int, int]:
        self.wake()
        first, last = self.log.append(count, self.epoch, self.term, batch)
        if batch is not None:
            self.producers.appended(batch, first, count)
        self._emit("append", leader_leo=self.log.leo)
        self.attempt()
        self.broker.fetches.grown(self.replica.key, self.followers)
        return first, last

    def _acknowledge(self, first: int, last: int, acks: int, answer: Callable[[Produced], None]) -> None:
        """Answer at once, or with acks=all when every replica that counts has the records."""
        if acks != -1:
            answer(Produced(None, first, last))
        else:
            self._delayed.add(first, last, answer)
            self._answer_waiting()

    def _answer_waiting(self) -> None:
        enough = rules.effective_min_isr(self.min_isr, len(self.replicas)) <= len(self.maximal_isr)
        self._delayed.complete(self.replica.hw, None if enough else "NOT_ENOUGH_REPLICAS_AFTER_APPEND")

    def resign(self) -> None:
        """No longer the leader: answer waiting producers with an error."""
        self._delayed.fail("NOT_LEADER_OR_FOLLOWER")

    # fetches

    def fetch(self, id: int, broker_epoch: int | None, asked: Asked, most: int, pause: Pause = NONE) -> Fetched:
        """A follower's fetch: the records are read before the fetch itself counts (ReplicaManager.readFromLog)."""
        follower = self.followers.get(id)
        if asked.topic_id != self.replica.topic_id:
            return Fetched("INCONSISTENT_TOPIC_ID")
        if asked.leader_epoch != self.epoch:
            return Fetched("FENCED_LEADER_EPOCH" if asked.leader_epoch < self.epoch else "UNKNOWN_LEADER_EPOCH")
        if follower is None:
            return Fetched("UNKNOWN_LEADER_EPOCH")
        if self.broker.peers.outdates(id, broker_epoch):
            return Fetched("NOT_LEADER_OR_FOLLOWER")
        answer = self.read(asked, most)
        if answer.error is None and answer.diverging is None:
            self._count(follower, asked.offset, broker_epoch, pause)
        return answer

    def read(self, asked: Asked, most: int) -> Fetched:
        """The answer to a fetch (Partition.readRecords); changes no state."""
        log = self.log
        beyond = Fetched("OFFSET_OUT_OF_RANGE", hw=self.replica.hw, log_start=log.start, leo=log.leo)
        if asked.last_epoch is not None:
            found = log.end_of(asked.last_epoch)
            if found is None:
                return beyond
            if asked.offset >= log.start and rules.diverges(*found, asked.last_epoch, asked.offset):
                return Fetched(hw=self.replica.hw, log_start=log.start, leo=log.leo, diverging=found)
        if not log.start <= asked.offset <= log.leo:
            return beyond
        runs = tuple(log.read(asked.offset, most)) if most > 0 and asked.offset < log.leo else ()
        return Fetched(runs=runs, hw=self.replica.hw, log_start=log.start, leo=log.leo)

    def _count(self, follower: Follower, offset: int, broker_epoch: int | None, pause: Pause) -> None:
        """Update LEO, then ISR, then HW by a fetch (Partition.updateFollowerFetchState)."""
        changed = follower.fetches(offset, self.log.leo, self.broker.clock.ms, broker_epoch)
        self._maybe_expand(follower)
        if changed and self.broker.dies_between_lines:
            self._die_between_lines()
        self._emit(
            "fetch", replica=follower.id, leo=offset, leader_leo=self.log.leo, broker_epoch=broker_epoch,
            late_us=pause.late, stall_us=pause.stall,
        )  # fmt: skip
        if changed:
            self.attempt(pause.late)

    def _die_between_lines(self) -> None:
        """End the process after the HW's line, if this fetch raises the HW: the line of the fetch is never printed."""
        before = self.replica.hw
        if self.raised(before, self.broker.peers.admits) > before:
            self.attempt()
            raise Killed

    def has_all(self, id: int, copy: Replica) -> bool:
        """Whether a follower is in the ISR and known to have the same log and HW: its fetches change nothing."""
        follower, mine = self.followers.get(id), self.replica
        if follower is None or id not in self.isr or copy.topic_id != mine.topic_id:
            return False
        same = copy.log.leo == self.log.leo == follower.leo == follower.leader_leo
        return same and copy.hw == mine.hw and copy.log.start == self.log.start

    def wake(self) -> None:
        """Something is about to change here: no follower rests any longer."""
        cluster = self.broker.cluster
        if cluster.rest is not None:
            for id in self.followers:
                fetcher = cluster.brokers[id].fetchers.get(self.broker.id)
                if fetcher is not None:
                    fetcher.session.wake(self.replica.key)

    def emit_resting(self, follower: Follower, at: int, ts: int) -> None:
        """Emit a fetch that changed nothing, afterwards, with the time (us) and clock (us) it had."""
        cluster = self.broker.cluster
        if cluster.rest is not None:
            leo, epoch = follower.leo, follower.broker_epoch
            fetch_event = self.broker.event(
                "fetch", self.replica, isr=self.isr, replica=follower.id, leo=leo, leader_leo=leo, broker_epoch=epoch
            )
            cluster.rest(fetch_event._replace(at=at, ts=ts))

    # the ISR

    def _maybe_expand(self, follower: Follower) -> None:
        if self.proposal is not None or follower.id in self.isr:
            return
        if rules.may_join(follower.leo, self.replica.hw, self.start) and self.broker.peers.admits(follower):
            self._propose((*self.isr, follower.id), "expand")

    def check_lag(self) -> None:
        """Request an ISR without the replicas that are out of sync; nothing while a change is in flight
        (Partition.maybeShrinkIsr)."""
        if self.proposal is not None:
            return
        now = self.broker.clock.ms
        out = [f.id for f in self.followers.values() if f.id in self.isr and not self._is_caught_up(f, now)]
        if out:
            self._propose(tuple(i for i in self.isr if i not in out), "shrink")

    def _propose(self, isr: tuple[int, ...], detail: str) -> None:
        epochs = {self.broker.id: self.broker.epoch}
        members = tuple((i, epochs[i] if i in epochs else self.followers[i].broker_epoch) for i in isr)
        replica = self.replica
        self.proposal = Proposal(replica.topic_id, isr, detail, self.epoch, replica.partition_epoch, members)
        self._emit("isr_proposed", isr=isr, detail=detail)
        self._submit(self.proposal)

    def _submit(self, proposal: Proposal, retry: bool = False) -> None:
        """Send a proposal; one that is refused before that (OPERATION_NOT_ATTEMPTED) is made anew at the next check."""
        if not self.broker.alter_partitions.propose(self, proposal, retry):
            self.proposal = None
            self._emit("isr_rejected")

    def answered(self, proposal: Proposal, error: str | None, registration: Registration | None) -> None:
        """The controller's answer (Partition.handleAlterPartitionUpdate, handleAlterPartitionError)."""
        if self.proposal is not proposal or self.replica.leader_partition is not self:
            return
        if error is None and registration is not None:
            newer = registration.partition_epoch >= self.replica.partition_epoch
            if newer and registration.leader_epoch == self.epoch:
                self.wake()
                self._register(registration)
                self.proposal = None
                self._emit("isr", detail="alter_partition")
                self.attempt()
        elif error in REVERTED:
            self.proposal = None
            self._emit("isr_rejected")
        elif error not in PENDING:
            self._submit(proposal, retry=True)

    def _emit(self, kind: str, **more: object) -> None:
        self.broker.emit(kind, self.replica, **{"isr": self.isr, **more})
