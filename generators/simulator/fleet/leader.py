"""What a leader does in rounds, by the rules of the simulator: appends, fetches that count, answers, the HW."""

from __future__ import annotations

from generators.simulator.cluster import rules
from generators.simulator.fleet.arrangement import (
    ANSWERED,
    CARRIED,
    CAUGHT_UP,
    DRAWN,
    FETCHED,
    FOLLOWER_HW,
    GROWN,
    HW,
    LEO,
    PARKED,
    RAISED,
    ROUND,
    SEEN,
    STORED,
    SWEPT,
    TAKEN,
    TOLD,
    Layout,
    Live,
)
from generators.simulator.fleet.compiled import kernel, rule
from generators.simulator.fleet.draws import between
from generators.simulator.fleet.due import put
from generators.simulator.fleet.telling import APPEND, FETCH, HW_ROW, Course, Rows, clock, tell

high_watermark = rule(rules.high_watermark)
may_advance = rule(rules.may_advance)
last_caught_up = rule(rules.last_caught_up)


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
    before = state[p, HW]
    if hw == before:
        return n
    state[p, HW] = hw
    state[p, RAISED] = at
    return tell(live, rows, n, HW_ROW, clock(course, broker, at), p, course.broker[broker], hw, before)


@kernel
def append(layout: Layout, live: Live, course: Course, rows: Rows, broker: int, p: int, at: int, n: int) -> int:
    """A producer's batch; whoever waits for records is answered at once (Partition.appendRecordsToLeader)."""
    state = live.partition
    before = state[p, LEO]
    drawn = state[p, DRAWN]
    state[p, DRAWN] = drawn + 1
    state[p, LEO] = before + between(layout.partition_key[p], drawn, course.records_low, course.records_high + 1)
    n = tell(live, rows, n, APPEND, clock(course, broker, at), p, -1, 0, state[p, LEO])
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
def turn(layout: Layout, live: Live, course: Course, rows: Rows, broker: int, q: int, at: int, n: int) -> int:
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
    return tell(live, rows, n, FETCH, now, p, layout.pair_follower[q], leo, leader_leo)


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
