"""Appends and fetch rounds of all partitions that one broker leads, in order of time, by the rules of the simulator.

A broker's partitions depend on nothing but its own appends and the fetches of its followers, so brokers are run one
after the other. Costs go with what happens: a partition that nobody writes to is one leaf that is never due.
"""

from __future__ import annotations

from typing import NamedTuple

from generators.simulator import rules
from generators.simulator.fleet.arrangement import (
    ANSWERED,
    CARRIED,
    CAUGHT_UP,
    DRAWN,
    FETCHED,
    FOLLOWER_HW,
    GROWN,
    HW,
    LEAVES,
    LEO,
    NEVER,
    PARKED,
    RAISED,
    ROUND,
    SEEN,
    SEQ,
    STORED,
    SWEPT,
    TAKEN,
    TOLD,
    Layout,
    Live,
)
from generators.simulator.fleet.compiled import F64, I8, I32, I64, kernel, rule
from generators.simulator.fleet.draws import between, exponential, share
from generators.simulator.fleet.due import build, put

APPEND, FETCH, HW_ROW = range(3)
TYPES = ("append", "fetch", "hw")
SECOND = 1_000_000
TENTH = SECOND // 10

high_watermark = rule(rules.high_watermark)
may_advance = rule(rules.may_advance)
last_caught_up = rule(rules.last_caught_up)


class Course(NamedTuple):
    """How brokers fetch and producers write; microseconds where nothing else is said."""

    start: int
    """Since 1970; times of the fleet count from here."""
    passed: int
    """What had passed of the brokers' time by then."""
    network_low: int
    network_high: int
    wait_max: int
    most: int
    """Records that one fetch takes from one partition."""
    tell_unchanged: int
    """A fetch that changes nothing is told once it has been so long since the last one told of its follower."""
    sweep: int
    """How often followers are looked at for that."""
    records_low: int
    records_high: int
    strict: bool
    """`Version.strict_min_isr`"""
    shape: F64
    """[load, tenth of a second]: the share of their rate at which partitions are written to, over and over."""
    skew: I64
    drift: F64
    """Of the brokers' clocks, ppm."""
    broker: I32
    """Their ids."""


class Rows(NamedTuple):
    """Telemetry as it is told, one row each. `offset`: LEO of the follower (FETCH) or HW (HW_ROW)."""

    kind: I8
    ts: I64
    partition: I32
    """Position in the layout."""
    replica: I32
    offset: I64
    leader_leo: I64
    seq: I64


@kernel
def clock(course: Course, broker: int, at: int) -> int:
    """What the clock of a broker shows, milliseconds since 1970 (BrokerClock.ms)."""
    shown: int = (
        course.start + at + course.skew[broker] + int((course.passed + at) * course.drift[broker] / 1e6)
    ) // 1000
    return shown


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
            n = _turn(layout, live, course, rows, broker, layout.pairs_of[broker] + leaf, at, n)
        else:
            p = layout.partitions_of[broker] + leaf - pairs
            n = _append(layout, live, course, rows, broker, p, at, n)
            put(live.tree, begin, half, leaf, next_append(layout, live, course, p, at))
    return n


@kernel
def due(layout: Layout, live: Live, broker: int) -> int:
    """When something happens next at a broker."""
    time: int = live.tree[layout.tree_of[broker] + 1] >> LEAVES
    return time


@kernel
def _tell(
    live: Live, rows: Rows, n: int, kind: int, now: int, p: int, replica: int, offset: int, leader_leo: int
) -> int:  # fmt: skip
    """One row, at `now` on the clock of the leader: whole milliseconds, as Kafka's clocks have them."""
    rows.kind[n] = kind
    rows.ts[n] = now * 1000
    rows.partition[n] = p
    rows.replica[n] = replica
    rows.offset[n] = offset
    rows.leader_leo[n] = leader_leo
    rows.seq[n] = live.partition[p, SEQ]
    live.partition[p, SEQ] += 1
    return n + 1


@kernel
def _attempt(layout: Layout, live: Live, course: Course, rows: Rows, broker: int, p: int, at: int, n: int) -> int:
    """Moves the HW if the rules let it; all replicas are in the ISR (Partition.maybeIncrementLeaderHW)."""
    replicas = layout.replicas[p]
    if not may_advance(replicas, layout.min_isr[p], replicas, course.strict):
        return n
    state = live.partition
    shortest = state[p, LEO]
    for k in range(replicas - 1):
        shortest = min(shortest, live.follower[layout.follower[p, k], STORED])
    hw = high_watermark(state[p, HW], state[p, LEO], shortest)
    if hw == state[p, HW]:
        return n
    state[p, HW] = hw
    state[p, RAISED] = at
    return _tell(live, rows, n, HW_ROW, clock(course, broker, at), p, course.broker[broker], hw, 0)


@kernel
def _append(layout: Layout, live: Live, course: Course, rows: Rows, broker: int, p: int, at: int, n: int) -> int:
    """A producer's batch; whoever waits for records is answered at once (Partition.appendRecordsToLeader)."""
    state = live.partition
    before = state[p, LEO]
    drawn = state[p, DRAWN]
    state[p, DRAWN] = drawn + 1
    state[p, LEO] = before + between(layout.partition_key[p], drawn, course.records_low, course.records_high + 1)
    n = _tell(live, rows, n, APPEND, clock(course, broker, at), p, -1, 0, state[p, LEO])
    n = _attempt(layout, live, course, rows, broker, p, at, n)
    for k in range(layout.replicas[p] - 1):
        f = layout.follower[p, k]
        q = layout.pair[f]
        if live.follower[f, TAKEN] == before:
            live.grown[layout.followers_of[q] + live.pair[q, GROWN]] = f
            live.pair[q, GROWN] += 1
        if live.pair[q, PARKED]:
            _answer(layout, live, course, broker, q, at, live.pair[q, FETCHED])
    return n


@kernel
def _turn(layout: Layout, live: Live, course: Course, rows: Rows, broker: int, q: int, at: int, n: int) -> int:
    """A fetch arrives, or one that waits has waited long enough."""
    pair = live.pair
    if pair[q, PARKED]:
        _answer(layout, live, course, broker, q, at, pair[q, FETCHED])
        return n
    previous = pair[q, FETCHED]
    n = _count(layout, live, course, rows, broker, q, at, n)
    if pair[q, GROWN]:
        _answer(layout, live, course, broker, q, at, previous)
    else:
        pair[q, PARKED] = 1
        _due(layout, live, broker, q, at + course.wait_max)
    return n


@kernel
def _due(layout: Layout, live: Live, broker: int, q: int, time: int) -> None:
    begin = layout.tree_of[broker]
    half = (layout.tree_of[broker + 1] - begin) // 2
    put(live.tree, begin, half, q - layout.pairs_of[broker], time)


@kernel
def _count(layout: Layout, live: Live, course: Course, rows: Rows, broker: int, q: int, at: int, n: int) -> int:
    """A fetch counts wherever the last answer brought records (Partition.updateFollowerFetchState)."""
    follower, pair, first = live.follower, live.pair, layout.followers_of[q]
    now = clock(course, broker, at)
    for k in range(pair[q, CARRIED]):
        f = live.carried[first + k]
        p = layout.partition[f]
        leader_leo = live.partition[p, LEO]
        follower[f, CAUGHT_UP] = last_caught_up(
            follower[f, CAUGHT_UP], follower[f, TAKEN], leader_leo, follower[f, SEEN], pair[q, FETCHED], now
        )
        follower[f, STORED] = follower[f, TAKEN]
        follower[f, SEEN] = max(follower[f, SEEN], leader_leo)
        follower[f, FOLLOWER_HW] = live.partition[p, HW]
        n = _tell_fetch(layout, live, rows, n, now, q, f, at)
        n = _attempt(layout, live, course, rows, broker, p, at, n)
    pair[q, CARRIED] = 0
    n = _sweep(layout, live, course, rows, q, at, now, n)
    pair[q, FETCHED] = now
    pair[q, ROUND] += 1
    return n


@kernel
def _tell_fetch(layout: Layout, live: Live, rows: Rows, n: int, now: int, q: int, f: int, at: int) -> int:
    p = layout.partition[f]
    live.follower[f, TOLD] = at
    leo, leader_leo = live.follower[f, STORED], live.partition[p, LEO]
    return _tell(live, rows, n, FETCH, now, p, layout.pair_follower[q], leo, leader_leo)


@kernel
def _sweep(layout: Layout, live: Live, course: Course, rows: Rows, q: int, at: int, now: int, n: int) -> int:
    """Tells of fetches that change nothing, where none has been told of a follower for long."""
    first = layout.followers_of[q]
    followers = layout.followers_of[q + 1] - first
    swept = at * followers // course.sweep
    for k in range(max(live.pair[q, SWEPT], swept - followers), swept):
        f = first + k % followers
        if at - live.follower[f, TOLD] >= course.tell_unchanged:
            n = _tell_fetch(layout, live, rows, n, now, q, f, at)
    live.pair[q, SWEPT] = swept
    return n


@kernel
def _answer(layout: Layout, live: Live, course: Course, broker: int, q: int, at: int, previous: int) -> None:
    """The answer to a fetch, at once or to one that waited; the next fetch comes when it has gone there and back.

    What was fetched counts as of its arrival: a fetch that waited found every follower at its leader's LEO
    (rule 2.6). `previous`: when the pair fetched before, or this one arrived if it waited.
    """
    follower, pair, first = live.follower, live.pair, layout.followers_of[q]
    waited, left, carried = pair[q, PARKED], 0, 0
    for k in range(pair[q, GROWN]):
        f = live.grown[first + k]
        p = layout.partition[f]
        leo, taken = live.partition[p, LEO], follower[f, TAKEN]
        if waited or follower[f, TOLD] != at:
            follower[f, CAUGHT_UP] = max(follower[f, CAUGHT_UP], previous)
            follower[f, FOLLOWER_HW] = live.partition[p, HW]
            follower[f, SEEN] = max(follower[f, SEEN], taken if waited else leo)
        follower[f, TAKEN] = min(leo, taken + course.most)
        live.carried[first + carried] = f
        carried += 1
        if follower[f, TAKEN] < leo:
            live.grown[first + left] = f
            left += 1
    pair[q, GROWN], pair[q, CARRIED], pair[q, PARKED], pair[q, ANSWERED] = left, carried, 0, at
    number = 2 * pair[q, ROUND]
    there = between(layout.pair_key[q], number, course.network_low, course.network_high)
    back = between(layout.pair_key[q], number + 1, course.network_low, course.network_high)
    _due(layout, live, broker, q, at + there + back)
