"""Appends and fetch rounds of all partitions that one broker leads, in order of time.

A broker's partitions depend on nothing but its own appends and the fetches of its followers, so brokers are run one
after the other. Costs go with what happens: a partition that nobody writes to is one leaf that is never due.
"""

from __future__ import annotations

from generators.simulator.fleet.arrangement import DRAWN, GROWN, LEAVES, NEVER, PARKED, SWEPT, Layout, Live
from generators.simulator.fleet.compiled import kernel
from generators.simulator.fleet.draws import between, exponential, share
from generators.simulator.fleet.due import build, put
from generators.simulator.fleet.leader import append, turn
from generators.simulator.fleet.telling import Course, Rows

SECOND = 1_000_000
TENTH = SECOND // 10


@kernel
def plant(layout: Layout, live: Live, course: Course, broker: int, now: int) -> None:
    """Leaves hold bare times at first: draws what is not drawn yet, and builds the tree of the broker."""
    begin = layout.tree_of[broker]
    half = (layout.tree_of[broker + 1] - begin) // 2
    first, count = layout.partitions_of[broker], layout.partitions_of[broker + 1] - layout.partitions_of[broker]
    pairs = layout.pairs_of[broker + 1] - layout.pairs_of[broker]
    for leaf in range(pairs):
        q = layout.pairs_of[broker] + leaf
        time = live.tree[begin + half + leaf]
        if time < 0:
            time = now + between(layout.pair_key[q], 0, course.network_low, course.network_high)
        elif live.pair[q, PARKED] and live.pair[q, GROWN]:
            time = now
        live.pair[q, SWEPT] = now * (layout.followers_of[q + 1] - layout.followers_of[q]) // course.sweep
        live.tree[begin + half + leaf] = (time << LEAVES) | leaf
    for leaf in range(pairs, pairs + count):
        time = live.tree[begin + half + leaf]
        if time < 0:
            time = next_append(layout, live, course, first + leaf - pairs, now)
        live.tree[begin + half + leaf] = (time << LEAVES) | leaf
    build(live.tree, begin, half)


@kernel
def next_append(layout: Layout, live: Live, course: Course, p: int, at: int) -> int:
    """When a partition is written to next: a Poisson process, thinned by the shape of the load."""
    rate = layout.rate[p]
    while rate > 0.0 and at < NEVER:
        drawn = live.partition[p, DRAWN]
        live.partition[p, DRAWN] = drawn + 2
        at += 1 + int(exponential(layout.partition_key[p], drawn) / rate * SECOND)
        if (
            share(layout.partition_key[p], drawn + 1)
            < course.shape[layout.load[p], at // TENTH % course.shape.shape[1]]
        ):
            return min(at, NEVER)
    return NEVER


@kernel
def advance(layout: Layout, live: Live, course: Course, rows: Rows, broker: int, until: int, n: int) -> int:
    """All that is due at one broker before `until`, told from row `n` on; stops early where rows might not suffice."""
    begin = layout.tree_of[broker]
    half = (layout.tree_of[broker + 1] - begin) // 2
    pairs = layout.pairs_of[broker + 1] - layout.pairs_of[broker]
    partitions = layout.partitions_of[broker + 1] - layout.partitions_of[broker]
    last = len(rows.kind) - 3 * partitions - 4
    while n <= last:
        key = live.tree[begin + 1]
        at, leaf = key >> LEAVES, key & ((1 << LEAVES) - 1)
        if at >= until:
            break
        if leaf < pairs:
            n = turn(layout, live, course, rows, broker, layout.pairs_of[broker] + leaf, at, n)
        else:
            p = layout.partitions_of[broker] + leaf - pairs
            n = append(layout, live, course, rows, broker, p, at, n)
            put(live.tree, begin, half, leaf, next_append(layout, live, course, p, at))
    return n


@kernel
def due(layout: Layout, live: Live, broker: int) -> int:
    """When something happens next at a broker."""
    time: int = live.tree[layout.tree_of[broker] + 1] >> LEAVES
    return time
