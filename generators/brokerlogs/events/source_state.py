"""The state of each partition of a source, in arrays by place: the number of a partition within its source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from generators.brokerlogs.events.event_rows import UNKNOWN
from generators.brokerlogs.events.snapshots import pack, unpack

MAX_REPLICAS = 16
"""LEOs stored per partition; beyond it the one written longest ago is dropped, and its next value is written as a row
again."""

PARTITION = np.dtype(
    [
        ("wanted", "i1"),
        ("again", "i1"),  # after a gap: the leader's next LEO becomes a row even if unchanged
        ("unclean", "i1"),  # marked as RECOVERING, until the next leader line
        ("members", "i2"),  # size of the ISR in the last line that names it, 0 where none did
        ("changed", "i8"),  # time of that line
        ("leader_epoch", "i4"),
        ("partition_epoch", "i4"),
        ("topic_id", "i4"),
        ("leader_leo", "i8"),
        ("hw", "i8"),
    ],
    align=True,
)
REPLICA_LEO_RECORD = np.dtype([("replica", "i4"), ("leo", "i8"), ("ts", "i8")], align=True)


def split_partition_name(name: str) -> tuple[str, int] | None:
    """Topic and partition of `name`, e.g. `orders-0`: the partition follows the last hyphen. None for any other
    text."""
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and partition.isdecimal() and len(partition) < 10 else None


class PartitionStates:
    """Partitions of one source and what is known of them; only grows."""

    def __init__(self, internal_topics: bool) -> None:
        self.internal_topics = internal_topics
        self.names: list[bytes] = []
        self.places: list[tuple[str | None, int]] = []
        self.ids: dict[bytes, int] = {}
        self.state = np.zeros(0, PARTITION)
        self.leos = np.zeros((0, MAX_REPLICAS), REPLICA_LEO_RECORD)
        self._spare: tuple[Any, Any] | None = None

    def add_names(self, names: Iterable[bytes]) -> None:
        """Add places for new names, in this order."""
        for name in names:
            parts = split_partition_name(name.decode("utf-8", "replace"))
            self.ids[name] = len(self.names)
            self.names.append(name)
            self.places.append(parts or (None, -1))
        self._grow()

    def place_of_topic(self, topic: str) -> int:
        """The place of a whole topic, for its configuration; its partition is -1."""
        key = b"\0" + topic.encode()
        if key not in self.ids:
            self.add_names([key])
            self.places[-1] = (topic, -1)
            self.state["wanted"][-1] = self._wanted(topic)
        return self.ids[key]

    def place_of(self, name: str) -> int:
        """The place of a partition by its name, e.g. `orders-0`."""
        key = name.encode()
        if key not in self.ids:
            self.add_names([key])
        return self.ids[key]

    def _grow(self) -> None:
        start, size = len(self.state), len(self.names)
        if size <= start:
            return
        state, leos = self._room(size)
        for name in ("leader_epoch", "partition_epoch", "leader_leo", "hw"):
            state[name][start:] = UNKNOWN
        state["topic_id"][start:] = -1
        state["wanted"][start:] = [self._wanted(topic) for topic, _ in self.places[start:]]
        leos["replica"][start:] = -1
        self.state, self.leos = state, leos

    def _room(self, size: int) -> tuple[Any, Any]:
        """Return both arrays with `size` places; twice as many are allocated, because new names may come one by one."""
        start = len(self.state)
        if self._spare is not None and len(self._spare[0]) >= size and start and self._owns_spare():
            state, leos = self._spare
            return state[:size], leos[:size]
        state, leos = np.zeros(2 * size, PARTITION), np.zeros((2 * size, MAX_REPLICAS), REPLICA_LEO_RECORD)
        state[:start], leos[:start] = self.state, self.leos
        self._spare = state, leos
        return state[:size], leos[:size]

    def _owns_spare(self) -> bool:
        return self._spare is not None and bool(self.state.base is self._spare[0])

    def _wanted(self, topic: str | None) -> bool:
        if topic is None or topic == "__cluster_metadata":
            return False
        return self.internal_topics or not topic.startswith("__")

    def dump(self) -> dict[str, Any]:
        """The state as a JSON value."""
        full = self.leos["replica"] >= 0
        return {
            "names": [name.decode("latin-1") for name in self.names],
            "state": pack(self.state),
            "has_leo": pack(np.packbits(full)),
            "leos": pack(self.leos[full]),
        }

    def load(self, stored: dict[str, Any]) -> None:
        """Restore what `dump` gave, into an empty object."""
        for name in stored["names"]:
            key = name.encode("latin-1")
            if key.startswith(b"\0"):
                self.place_of_topic(key[1:].decode())
            else:
                self.add_names([key])
        self.state = unpack(stored["state"], PARTITION)
        count = len(self.names) * MAX_REPLICAS
        full = np.unpackbits(unpack(stored["has_leo"], np.dtype("u1")), count=count).astype(bool)
        self.leos[full.reshape(-1, MAX_REPLICAS)] = unpack(stored["leos"], REPLICA_LEO_RECORD)

    def start_term(self, place: int) -> None:
        """A new term begins: no LEO of it is known."""
        self.leos["replica"][place] = -1
        self.state["leader_leo"][place] = UNKNOWN
        self.state["again"][place] = 0

    def repeat_leos(self) -> None:
        """After a gap every LEO becomes a row again, changed or not."""
        self.leos["replica"] = -1
        self.state["again"] = 1
