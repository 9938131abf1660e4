"""What is due next, as a tree of the smaller of two: the root says what and when; a change costs its depth."""

from __future__ import annotations

from generators.simulator.fleet.arrangement import LEAVES
from generators.simulator.fleet.compiled import I64, kernel


@kernel
def put(tree: I64, begin: int, half: int, leaf: int, time: int) -> None:
    """`leaf` is due at `time`. Of what is due at one time the smaller leaf comes first."""
    at = half + leaf
    tree[begin + at] = (time << LEAVES) | leaf
    at >>= 1
    while at > 0:
        tree[begin + at] = min(tree[begin + 2 * at], tree[begin + 2 * at + 1])
        at >>= 1


@kernel
def build(tree: I64, begin: int, half: int) -> None:
    """All above the leaves."""
    for at in range(half - 1, 0, -1):
        tree[begin + at] = min(tree[begin + 2 * at], tree[begin + 2 * at + 1])
