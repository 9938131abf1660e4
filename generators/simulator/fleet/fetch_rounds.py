"""Appends and fetch rounds of all partitions that one broker leads, in order of time.

A broker's partitions depend only on its own appends and the fetches of its followers, so brokers are run one after the
other. Costs depend on what happens: a partition that nobody writes to is one leaf that is never due.
"""

from __future__ import annotations

from generators.simulator.cluster.settings import SECOND
from generators.simulator.fleet.arrangement import DRAWN, GROWN, LEAVES, NEVER, PARKED, SWEPT, Layout, Live
from generators.simulator.fleet.compiled import kernel
from generators.simulator.fleet.counter_rng import between, exponential, share
from generators.simulator.fleet.event_rows import Rows, RunParameters
from generators.simulator.fleet.leader import append, turn
from generators.simulator.fleet.timer_tree import build, put

TENTH = SECOND // 10


@kernel
def plant(layout: Layout, live: Live, parameters: RunParameters, broker: int, now: int) -> None:
    """Leaves have times only at first: draw those that are not drawn yet, and build the tree of the broker."""
    begin = layout.tree_of[broker]
    half = (layout.tree_of[broker + 1] - begin) // 2
    first, count = layout.partitions_of[broker], layout.partitions_of[broker + 1] - layout.partitions_of[broker]
    pairs = layout.pairs_of[broker + 1] - layout.pairs_of[broker]
    for leaf in range(pairs):
        pair_index = layout.pairs_of[broker] + leaf
        time = live.tree[begin + half + leaf]
        if time < 0:
            time = now + between(layout.pair_key[pair_index], 0, parameters.network_low, parameters.network_high)
        elif live.pair[pair_index, PARKED] and live.pair[pair_index, GROWN]:
            time = now
        live.pair[pair_index, SWEPT] = (
            now * (layout.followers_of[pair_index + 1] - layout.followers_of[pair_index]) // parameters.sweep
        )
        live.tree[begin + half + leaf] = (time << LEAVES) | leaf
    for leaf in range(pairs, pairs + count):
        time = live.tree[begin + half + leaf]
        if time < 0:
            time = next_append(layout, live, parameters, first + leaf - pairs, now)
        live.tree[begin + half + leaf] = (time << LEAVES) | leaf
    build(live.tree, begin, half)


@kernel
def next_append(layout: Layout, live: Live, parameters: RunParameters, partition: int, at: int) -> int:
    """Time of a partition's next append: a Poisson process, thinned by the shape of the load."""
    rate = layout.rate[partition]
    while rate > 0.0 and at < NEVER:
        drawn = live.partition[partition, DRAWN]
        live.partition[partition, DRAWN] = drawn + 2
        at += 1 + int(exponential(layout.partition_key[partition], drawn) / rate * SECOND)
        if (
            share(layout.partition_key[partition], drawn + 1)
            < parameters.shape[layout.load[partition], at // TENTH % parameters.shape.shape[1]]
        ):
            return min(at, NEVER)
    return NEVER


@kernel
def advance(
    layout: Layout, live: Live, parameters: RunParameters, rows: Rows, broker: int, until: int, count: int
) -> int:
    """Run all timers of one broker before `until`, writing after rows[:count]; stops early where rows might not
    suffice."""
    begin = layout.tree_of[broker]
    half = (layout.tree_of[broker + 1] - begin) // 2
    pairs = layout.pairs_of[broker + 1] - layout.pairs_of[broker]
    partitions = layout.partitions_of[broker + 1] - layout.partitions_of[broker]
    last = len(rows.kind) - 3 * partitions - 4
    while count <= last:
        key = live.tree[begin + 1]
        at, leaf = key >> LEAVES, key & ((1 << LEAVES) - 1)
        if at >= until:
            break
        if leaf < pairs:
            count = turn(layout, live, parameters, rows, broker, layout.pairs_of[broker] + leaf, at, count)
        else:
            partition = layout.partitions_of[broker] + leaf - pairs
            count = append(layout, live, parameters, rows, broker, partition, at, count)
            put(live.tree, begin, half, leaf, next_append(layout, live, parameters, partition, at))
    return count


@kernel
def due(layout: Layout, live: Live, broker: int) -> int:
    """Time of a broker's next timer."""
    time: int = live.tree[layout.tree_of[broker] + 1] >> LEAVES
    return time
