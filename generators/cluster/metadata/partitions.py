"""A broker's metadata of every watched partition, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from generators.cluster.metadata.lists import I32, I64, Lists, Mask


class Topics(NamedTuple):
    """The watched topics by name; the partitions of topic k are rows `first[k]` to `first[k + 1]`."""

    names: tuple[str, ...]
    ids: tuple[str | None, ...]
    """Topic ids in Kafka's 22 characters; None from brokers before 2.8."""
    first: I64

    @property
    def partition_count(self) -> int:
        return int(self.first[-1])

    def rows(self) -> tuple[I32, I32]:
        """The topic number and the partition number of each row."""
        sizes = np.diff(self.first)
        topic = np.repeat(np.arange(len(self.names)), sizes)
        return topic.astype(np.int32), (np.arange(self.partition_count) - self.first[:-1][topic]).astype(np.int32)


class BrokerAddress(NamedTuple):
    """The address of a broker that is up."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


NOT_TOLD = -2


@dataclass(frozen=True, eq=False)
class Partitions:
    """The metadata of a cluster at one moment; a row is a partition."""

    topics: Topics
    leader: I32
    """-1 without a leader; NOT_TOLD if the leader has no listener with the requested name."""
    leader_epoch: I32
    """The leader epoch of each partition; -1 if not known."""
    isr: Lists
    """The ISR of each partition, sorted: its order in the answer has no meaning."""
    replicas: Lists
    """The replicas of each partition in assignment order."""
    brokers: tuple[BrokerAddress, ...]
    cluster_id: str = ""
    adding: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """The replicas that a reassignment is adding, by row."""

    @cached_property
    def _places(self) -> tuple[I32, I32]:
        return self.topics.rows()

    @property
    def topic(self) -> I32:
        """The number of each row's topic."""
        return self._places[0]

    @property
    def number(self) -> I32:
        """The partition number of each row."""
        return self._places[1]

    @cached_property
    def topic_numbers(self) -> dict[str, int]:
        """The number of each topic by its name."""
        return {name: k for k, name in enumerate(self.topics.names)}

    @cached_property
    def behind_other_listeners(self) -> frozenset[int]:
        """Members of an ISR whose leader is NOT_TOLD: they are up, since a fenced broker leaves such an ISR."""
        rows = np.repeat(self.leader == NOT_TOLD, self.isr.sizes)
        return frozenset(np.unique(self.isr.values[rows]).tolist())

    @cached_property
    def assignment(self) -> Lists:
        """The replicas, without those that a reassignment is adding and that are not in the ISR yet."""
        if not self.adding:
            return self.replicas
        offsets, values = self.replicas
        kept = np.ones(len(values), np.bool_)
        for row, adding in self.adding.items():
            at, isr = slice(*offsets[row : row + 2]), self.isr.values[slice(*self.isr.offsets[row : row + 2])]
            kept[at] = ~np.isin(values[at], list(adding)) | np.isin(values[at], isr)
        return Lists(np.concatenate([[0], np.cumsum(kept)])[offsets].astype(np.int32), values[kept])

    def with_adding(self, adding: Mapping[tuple[str, int], frozenset[int]]) -> Partitions:
        """A copy with the replicas that are being added, given by topic and partition."""
        rows = {}
        for (topic, number), replicas in adding.items():
            known = self.topic_numbers.get(topic)
            if known is not None and number < self.topics.first[known + 1] - self.topics.first[known]:
                rows[int(self.topics.first[known]) + number] = replicas
        return replace(self, adding=rows) if rows else self

    def __len__(self) -> int:
        return len(self.leader)

    def same_places(self, other: Partitions) -> bool:
        """Whether both have the same partitions on the same brokers, row by row."""
        mine, theirs = self.topics, other.topics
        return self is other or (
            mine.names == theirs.names
            and mine.ids == theirs.ids
            and np.array_equal(mine.first, theirs.first)
            and np.array_equal(self.replicas.offsets, other.replicas.offsets)
            and np.array_equal(self.replicas.values, other.replicas.values)
        )

    def rows_in(self, other: Partitions) -> I64:
        """For each row the row of the same topic id and partition in `other`, -1 if there is none."""
        there = {key: k for k, key in enumerate(zip(other.topics.names, other.topics.ids, strict=True))}
        found = np.array(
            [there.get(key, -1) for key in zip(self.topics.names, self.topics.ids, strict=True)], np.int64
        ).reshape(-1)
        topic = found[self.topic]
        first, sizes = other.topics.first, np.diff(other.topics.first)
        if not len(sizes):
            return np.full(len(self), -1, np.int64)
        inside = (topic >= 0) & (self.number < sizes[topic])
        return np.where(inside, first[:-1][topic] + self.number, -1)

    def new_terms_since(self, earlier: Partitions) -> Mask:
        """A mask of the rows that are new or have another leader or leader epoch than in `earlier`."""
        rows = self.rows_in(earlier)
        new: Mask = rows < 0
        known = np.flatnonzero(rows >= 0)
        then = rows[known]
        new[known] = (self.leader[known] != earlier.leader[then]) | (
            self.leader_epoch[known] != earlier.leader_epoch[then]
        )
        return new

    def changed_since(self, earlier: Partitions) -> Mask:
        """A mask of the rows that are new or have another leader, epoch, ISR or assignment than in `earlier`."""
        rows = self.rows_in(earlier)
        changed: Mask = rows < 0
        known = np.flatnonzero(rows >= 0)
        then = rows[known]
        changed[known] = (
            (self.leader[known] != earlier.leader[then])
            | (self.leader_epoch[known] != earlier.leader_epoch[then])
            | self.isr.take(known).differs(earlier.isr.take(then))
            | self.assignment.take(known).differs(earlier.assignment.take(then))
        )
        return changed

    def older_than(self, known: Partitions) -> bool:
        """Whether some partition has a lower leader epoch than is known: this broker's metadata lags."""
        rows = self.rows_in(known)
        there = rows >= 0
        return bool((self.leader_epoch[there] < known.leader_epoch[rows[there]]).any())

    def differs_in_isr(self, known: Partitions) -> bool:
        """Whether some partition has another ISR than is known for the same leader epoch."""
        rows = self.rows_in(known)
        there = np.flatnonzero(rows >= 0)
        there = there[self.leader_epoch[there] == known.leader_epoch[rows[there]]]
        return bool(self.isr.take(there).differs(known.isr.take(rows[there])).any())
