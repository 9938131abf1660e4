"""A leader's state of idempotent producers, by which a retried batch is stored once."""

from __future__ import annotations

from typing import NamedTuple

from generators.simulator.cluster.log import Batch, ReplicaLog

REMEMBERED = 5
"""Batches that a leader recognizes when they are repeated: as many as a producer may have in flight
(ProducerStateEntry)."""

NO_PRODUCER = -1
"""The producer id of batches that carry no sequence numbers."""

_SEQUENCES = 2**31


class Duplicate(NamedTuple):
    """Stored before at these offsets, which are the answer; nothing is appended."""

    first: int
    last: int


class Rejected(NamedTuple):
    """Refused with this error of Kafka; nothing is appended."""

    error: str


class Stored(NamedTuple):
    """One batch of a producer in the log: first and last sequence number, first and last offset."""

    first_sequence: int
    last_sequence: int
    first: int
    last: int


class Entry(NamedTuple):
    """The state of one producer id: its epoch, and its last batches, oldest first."""

    epoch: int
    batches: tuple[Stored, ...]


def sequence_after(sequence: int, count: int = 1) -> int:
    """The sequence number `count` further on: 0 follows the largest 32-bit one (DefaultRecordBatch)."""
    return (sequence + count) % _SEQUENCES


class ProducerStates:
    """The producers of one partition as its log has them (ProducerStateManager)."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}

    @classmethod
    def of(cls, log: ReplicaLog) -> ProducerStates:
        """The state that a new leader builds from its log."""
        states = cls()
        for run in log.runs:
            if run.batch is not None:
                states.appended(run.batch, run.start, run.end - run.start)
        return states

    def check(self, batch: Batch, count: int) -> Duplicate | Rejected | None:
        """Why a batch of `count` records is not to be appended, or None (ProducerAppendInfo.checkSequence)."""
        entry = self.entries.get(batch.producer)
        if batch.producer == NO_PRODUCER or entry is None:
            return None
        if batch.producer_epoch < entry.epoch:
            return Rejected("INVALID_PRODUCER_EPOCH")
        if batch.producer_epoch > entry.epoch:
            return None if batch.first_sequence == 0 else Rejected("OUT_OF_ORDER_SEQUENCE_NUMBER")
        sequences = batch.first_sequence, sequence_after(batch.first_sequence, count - 1)
        for stored in entry.batches:
            if (stored.first_sequence, stored.last_sequence) == sequences:
                return Duplicate(stored.first, stored.last)
        if batch.first_sequence == sequence_after(entry.batches[-1].last_sequence):
            return None
        return Rejected("OUT_OF_ORDER_SEQUENCE_NUMBER")

    def appended(self, batch: Batch, first: int, count: int) -> None:
        """The batch is in the log from offset `first`; replicated batches are not checked, only recorded."""
        if batch.producer == NO_PRODUCER:
            return
        last_sequence = sequence_after(batch.first_sequence, count - 1)
        stored = Stored(batch.first_sequence, last_sequence, first, first + count - 1)
        entry = self.entries.get(batch.producer)
        before = entry.batches if entry and entry.epoch == batch.producer_epoch else ()
        self.entries[batch.producer] = Entry(batch.producer_epoch, (*before, stored)[-REMEMBERED:])
