"""What a source has told of each partition so far, as arrays by place (a partition's number in this source)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from generators.brokerlogs.events.event_rows import UNKNOWN
from generators.brokerlogs.events.snapshots import pack, unpack

REPLICAS = 16
"""Replicas remembered per partition; beyond it the one told longest ago is forgotten, and told again."""

PLACE = np.dtype(
    [
        ("wanted", "i1"),
        ("again", "i1"),  # after a gap: the leader's LEO is to be told even if unchanged
        ("unclean", "i1"),  # marked as RECOVERING, until the next leader line
        ("members", "i2"),  # of the ISR as a line named it last, 0 where none did
        ("changed", "i8"),  # when that was
        ("leader_epoch", "i4"),
        ("partition_epoch", "i4"),
        ("topic_id", "i4"),
        ("leader_leo", "i8"),
        ("hw", "i8"),
    ],
    align=True,
)
TOLD = np.dtype([("replica", "i4"), ("leo", "i8"), ("ts", "i8")], align=True)


def split(name: str) -> tuple[str, int] | None:
    """Topic and partition of `name`: the partition is what follows the last hyphen. None if it is neither."""
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and partition.isdecimal() and len(partition) < 10 else None


class Known:
    """Partitions of one source and what was told of them; grows, never shrinks."""

    def __init__(self, internal_topics: bool) -> None:
        self.internal_topics = internal_topics
        self.names: list[bytes] = []
        self.places: list[tuple[str | None, int]] = []
        self.ids: dict[bytes, int] = {}
        self.state = np.zeros(0, PLACE)
        self.told = np.zeros((0, REPLICAS), TOLD)

    def add(self, names: Iterable[bytes]) -> None:
        """Places for names not known before, in this order."""
        for name in names:
            parts = split(name.decode("utf-8", "replace"))
            self.ids[name] = len(self.names)
            self.names.append(name)
            self.places.append(parts or (None, -1))
        self._grow()

    def setting(self, topic: str) -> int:
        """The place that stands for a whole topic, its partition -1."""
        key = b"\0" + topic.encode()
        if key not in self.ids:
            self.add([key])
            self.places[-1] = (topic, -1)
            self.state["wanted"][-1] = self._wanted(topic)
        return self.ids[key]

    def place(self, name: str) -> int:
        """The place of a partition by its name, e.g. `orders-0`."""
        key = name.encode()
        if key not in self.ids:
            self.add([key])
        return self.ids[key]

    def _grow(self) -> None:
        start, size = len(self.state), len(self.names)
        if size <= start:
            return
        state = np.zeros(size, PLACE)
        state[:start] = self.state
        for name in ("leader_epoch", "partition_epoch", "leader_leo", "hw"):
            state[name][start:] = UNKNOWN
        state["topic_id"][start:] = -1
        state["wanted"][start:] = [self._wanted(topic) for topic, _ in self.places[start:]]
        told = np.zeros((size, REPLICAS), TOLD)
        told[:start] = self.told
        told["replica"][start:] = -1
        self.state, self.told = state, told

    def _wanted(self, topic: str | None) -> bool:
        if topic is None or topic == "__cluster_metadata":
            return False
        return self.internal_topics or not topic.startswith("__")

    def dump(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        full = self.told["replica"] >= 0
        return {
            "names": [name.decode("latin-1") for name in self.names],
            "state": pack(self.state),
            "full": pack(np.packbits(full)),
            "told": pack(self.told[full]),
        }

    def load(self, dumped: dict[str, Any]) -> None:
        """What `dump` held, into a new one."""
        for name in dumped["names"]:
            key = name.encode("latin-1")
            if key.startswith(b"\0"):
                self.setting(key[1:].decode())
            else:
                self.add([key])
        self.state = unpack(dumped["state"], PLACE)
        count = len(self.names) * REPLICAS
        full = np.unpackbits(unpack(dumped["full"], np.dtype("u1")), count=count).astype(bool)
        self.told[full.reshape(-1, REPLICAS)] = unpack(dumped["told"], TOLD)

    def forget(self, place: int) -> None:
        """A new term: nothing of its LEOs was told yet."""
        self.told["replica"][place] = -1
        self.state["leader_leo"][place] = UNKNOWN
        self.state["again"][place] = 0

    def tell_again(self) -> None:
        """After a gap every LEO is to be told again, changed or not."""
        self.told["replica"] = -1
        self.state["again"] = 1
