"""The next timer, as a tree of minima: the root has its time and leaf; a change costs its depth."""

from __future__ import annotations

from generators.simulator.fleet.arrangement import LEAVES
from generators.simulator.fleet.compiled import I64, kernel


@kernel
def put(tree: I64, begin: int, half: int, leaf: int, time: int) -> None:
    """Set the timer of `leaf` to `time`. Of equal times the smaller leaf comes first."""
    at = half + leaf
    tree[begin + at] = (time << LEAVES) | leaf
    at >>= 1
    while at > 0:
        tree[begin + at] = min(tree[begin + 2 * at], tree[begin + 2 * at + 1])
        at >>= 1


@kernel
def build(tree: I64, begin: int, half: int) -> None:
    """Compute all nodes above the leaves."""
    for at in range(half - 1, 0, -1):
        tree[begin + at] = min(tree[begin + 2 * at], tree[begin + 2 * at + 1])
