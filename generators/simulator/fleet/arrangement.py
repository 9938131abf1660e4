"""Partitions laid out for the kernels: by leader, their followers by pair of brokers, next times in trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from generators.simulator.fleet.compiled import F64, I32, I64
from generators.simulator.fleet.counter_rng import key
from generators.simulator.fleet.partitions import NOBODY, Partitions

# Columns of Live.partition
LEO, HW, RAISED, SEQ, DRAWN = range(5)
# Columns of Live.follower
STORED, TAKEN, SEEN, CAUGHT_UP, EMITTED, FOLLOWER_HW = range(6)
# Columns of Live.pair: fetches so far; time of the last one on the leader's clock (ms); time of the last answer;
# whether a fetch is parked; number of partitions with records to answer with, and answered with; followers swept
ROUND, FETCHED, ANSWERED, PARKED, GROWN, CARRIED, SWEPT = range(7)
NEVER = 1 << 42
"""A time after everything, microseconds since the start: 50 days."""
LEAVES = 20
"""Bits of a key that name a leaf of its tree."""


class Layout(NamedTuple):
    """Which belongs to which; brokers, pairs, partitions and followers by position. Ranges are [n + 1] bounds."""

    pairs_of: I64
    """Pairs of a leading broker."""
    partitions_of: I64
    followers_of: I64
    """Followers of a pair."""
    tree_of: I64
    """Where the tree of a broker begins; it is twice as long as it has leaves."""
    follower: I64
    """[partition, k]: its followers, NOBODY where it has fewer."""
    partition: I64
    """Of a follower."""
    pair: I64
    """Of a follower."""
    pair_follower: I32
    """The following broker of a pair."""
    partition_key: I64
    pair_key: I64
    rate: F64
    load: I32
    min_isr: I32
    replicas: I32
    """Number of replicas of a partition."""


class Live(NamedTuple):
    """Arrays that change; see the columns above. Lists of a pair are at the positions of its followers."""

    partition: I64
    follower: I64
    pair: I64
    grown: I64
    """Followers for which there are records to answer with."""
    carried: I64
    """Followers that got records in the last answer."""
    tree: I64


@dataclass(frozen=True)
class Arrangement:
    """Partitions in the order of their leaders, laid out; `partitions` is their state as of the arranging."""

    partitions: Partitions
    layout: Layout
    live: Live
    pairs: list[tuple[int, int]]
    """(leader, follower), as brokers' ids."""

    def state(self) -> Partitions:
        """The partitions as they are now."""
        live, layout = self.live, self.layout
        there = layout.follower >= 0
        at = np.where(there, layout.follower, 0)
        now: dict[str, Any] = {n: getattr(self.partitions, n) for n in _CONSTANT}
        now |= {n: live.partition[:, c].copy() for n, c in _OF_PARTITION.items()}
        for n, c in _OF_FOLLOWER.items():
            now[n] = live.follower[:, c][at] if len(live.follower) else np.zeros(at.shape, dtype=np.int64)
        idle = there & (now["stored"] == now["taken"]) & (now["stored"] >= 0)
        now["caught_up"] = np.where(idle, np.maximum(now["caught_up"], self.fetched()), now["caught_up"])
        return Partitions(**now, next_append=live.tree[_leaves(layout)] >> LEAVES)

    def fetched(self) -> I64:
        """When each follower fetched last, on its leader's clock (ms), [partition, k]."""
        times = np.where(self.layout.follower >= 0, self.layout.follower, 0)
        last: I64 = self.live.pair[self.layout.pair[times], FETCHED] if len(self.live.pair) else 0 * times
        return last

    def kept(self) -> dict[tuple[int, int], Pair]:
        """The state of every pair, independent of its partitions."""
        half = np.diff(self.layout.tree_of) // 2
        leaves = [self.layout.tree_of[b] + half[b] + k for b in range(len(half)) for k in range(self._pairs_of(b))]
        due = (self.live.tree[leaves] >> LEAVES).tolist() if leaves else []
        return {name: Pair(self.live.pair[q].copy(), due[q]) for q, name in enumerate(self.pairs)}

    def _pairs_of(self, broker: int) -> int:
        return int(self.layout.pairs_of[broker + 1] - self.layout.pairs_of[broker])


_CONSTANT = ("number", "replicas", "leader_epoch", "partition_epoch", "min_isr", "rate", "load")
_OF_PARTITION = {"leo": LEO, "hw": HW, "raised": RAISED, "seq": SEQ, "drawn": DRAWN}
_OF_FOLLOWER = {
    "stored": STORED,
    "taken": TAKEN,
    "seen": SEEN,
    "caught_up": CAUGHT_UP,
    "emitted": EMITTED,
    "follower_hw": FOLLOWER_HW,
}


class Keys:
    """Keys of random sequences: of all partitions by number, and of pairs of brokers."""

    def __init__(self, seed: int, partitions: int) -> None:
        self._seed = seed
        self._pairs: dict[tuple[int, int], int] = {}
        self.partition: I64 = np.array([key(seed, 0, n) for n in range(partitions)], dtype=np.int64)

    def pair(self, leader: int, follower: int) -> int:
        if (leader, follower) not in self._pairs:
            self._pairs[leader, follower] = key(self._seed, 1, leader, follower)
        return self._pairs[leader, follower]


@dataclass(frozen=True)
class Pair:
    """The state of a pair of brokers while partitions come and go."""

    state: I64
    due: int


def arrange(
    partitions: Partitions, brokers: Sequence[int], keys: Keys, kept: dict[tuple[int, int], Pair]
) -> Arrangement:
    """Lay out `partitions`; `kept` is the state of pairs.

    New pairs have yet to draw the time of their first fetch.
    """
    of_broker = np.full(max(brokers) + 1, NOBODY, dtype=np.int64)
    of_broker[list(brokers)] = np.arange(len(brokers))
    p = partitions.only(np.lexsort((partitions.number, of_broker[partitions.replicas[:, 0]])))
    leader = of_broker[p.replicas[:, 0]]
    row, slot = np.nonzero(p.replicas[:, 1:] != NOBODY)
    code = leader[row] * len(brokers) + of_broker[p.replicas[row, slot + 1]]
    order = np.argsort(code, kind="stable")
    codes, pair = np.unique(code[order], return_inverse=True)
    row, slot = row[order], slot[order]
    follower = np.full((len(p), p.replicas.shape[1] - 1), NOBODY, dtype=np.int64)
    follower[row, slot] = np.arange(len(row))
    names = [(brokers[c // len(brokers)], brokers[c % len(brokers)]) for c in codes.tolist()]
    pairs_of, partitions_of = _bounds(codes // len(brokers), len(brokers)), _bounds(leader, len(brokers))
    sizes = [1 << int(n).bit_length() for n in np.diff(pairs_of) + np.diff(partitions_of)]
    layout = Layout(
        pairs_of=pairs_of,
        partitions_of=partitions_of,
        followers_of=_bounds(pair, len(codes)),
        tree_of=np.concatenate([[0], 2 * np.cumsum(sizes)]),
        follower=follower,
        partition=row,
        pair=pair,
        pair_follower=np.array([f for _, f in names], dtype=np.int32),
        partition_key=keys.partition[p.number],
        pair_key=np.array([keys.pair(a, b) for a, b in names], dtype=np.int64),
        rate=p.rate,
        load=p.load,
        min_isr=p.min_isr,
        replicas=(p.replicas != NOBODY).sum(axis=1, dtype=np.int32),
    )
    state = np.stack([getattr(p, n)[row, slot] for n in _OF_FOLLOWER], axis=1)
    pairs = np.array([kept[n].state if n in kept else np.zeros(7) for n in names], dtype=np.int64).reshape(-1, 7)
    grown, carried = _lists(layout, pairs, p.leo[row] > state[:, TAKEN], state[:, TAKEN] != state[:, STORED])
    live = Live(
        partition=np.stack([getattr(p, n) for n in _OF_PARTITION], axis=1),
        follower=np.ascontiguousarray(state),
        pair=pairs,
        grown=grown,
        carried=carried,
        tree=np.full(int(layout.tree_of[-1]), NEVER << LEAVES, dtype=np.int64),
    )
    made = Arrangement(p, layout, live, names)
    _plant(made, [kept[n].due if n in kept else -1 for n in names])
    return made


def _bounds(of: I64, count: int) -> I64:
    return np.concatenate([[0], np.cumsum(np.bincount(of, minlength=count))]).astype(np.int64)


def _lists(layout: Layout, pairs: I64, grown: Any, carried: Any) -> tuple[I64, I64]:
    """Both lists of every pair, from which followers lack records and which have not acknowledged theirs; their lengths
    go to `pairs`."""
    made = []
    for column, mask in ((GROWN, grown), (CARRIED, carried)):
        found = np.flatnonzero(mask)
        counts = np.bincount(layout.pair[found], minlength=len(pairs))
        first = np.cumsum(counts) - counts
        lists = np.zeros(len(layout.pair), dtype=np.int64)
        of = layout.pair[found]
        lists[layout.followers_of[of] + np.arange(len(found)) - first[of]] = found
        pairs[:, column] = counts
        made.append(lists)
    return made[0], made[1]


def _leaves(layout: Layout) -> I64:
    """Positions of the partitions in the trees."""
    broker = np.repeat(np.arange(len(layout.partitions_of) - 1), np.diff(layout.partitions_of))
    begin, pairs = layout.tree_of[broker], np.diff(layout.pairs_of)[broker]
    leaves: I64 = (
        begin + np.diff(layout.tree_of)[broker] // 2 + pairs + np.arange(len(broker)) - layout.partitions_of[broker]
    )
    return leaves


def _plant(arrangement: Arrangement, due: list[int]) -> None:
    """Write known times into the leaves: pairs first, then partitions. `fetch_rounds.plant` does the rest."""
    layout, live = arrangement.layout, arrangement.live
    live.tree[_leaves(layout)] = arrangement.partitions.next_append
    of = np.repeat(np.arange(len(layout.pairs_of) - 1), np.diff(layout.pairs_of))
    half = np.diff(layout.tree_of)[of] // 2
    live.tree[layout.tree_of[of] + half + np.arange(len(of)) - layout.pairs_of[of]] = due
