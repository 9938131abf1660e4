"""A leader in rounds, by the rules of the simulator: appends, fetches that count, answers, the HW."""

from __future__ import annotations

from generators.simulator.cluster import rules
from generators.simulator.fleet.arrangement import (
    ANSWERED,
    CARRIED,
    CAUGHT_UP,
    DRAWN,
    EMITTED,
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
    Layout,
    Live,
)
from generators.simulator.fleet.compiled import kernel, rule
from generators.simulator.fleet.counter_rng import between
from generators.simulator.fleet.event_rows import APPEND, FETCH, HW_ROW, Row, Rows, RunParameters, append_row, clock
from generators.simulator.fleet.timer_tree import put

high_watermark = rule(rules.high_watermark)
may_advance = rule(rules.may_advance)
last_caught_up = rule(rules.last_caught_up)


@kernel
def _attempt(
    layout: Layout, live: Live, parameters: RunParameters, rows: Rows, broker: int, partition: int, at: int, count: int
) -> int:
    """Advance the HW if the rules allow it; all replicas are in the ISR (Partition.maybeIncrementLeaderHW)."""
    replicas = layout.replicas[partition]
    if not may_advance(replicas, layout.min_isr[partition], replicas, parameters.strict):
        return count
    state = live.partition
    shortest = state[partition, LEO]
    for k in range(replicas - 1):
        shortest = min(shortest, live.follower[layout.follower[partition, k], STORED])
    hw = high_watermark(state[partition, HW], state[partition, LEO], shortest)
    before = state[partition, HW]
    if hw == before:
        return count
    state[partition, HW] = hw
    state[partition, RAISED] = at
    row = Row(HW_ROW, clock(parameters, broker, at), partition, parameters.broker[broker], hw, before)
    return append_row(live, rows, count, row)


@kernel
def append(
    layout: Layout, live: Live, parameters: RunParameters, rows: Rows, broker: int, partition: int, at: int, count: int
) -> int:
    """Append a producer's batch; parked fetches are answered at once (Partition.appendRecordsToLeader)."""
    state = live.partition
    before = state[partition, LEO]
    drawn = state[partition, DRAWN]
    state[partition, DRAWN] = drawn + 1
    state[partition, LEO] = before + between(
        layout.partition_key[partition], drawn, parameters.records_low, parameters.records_high + 1
    )
    row = Row(APPEND, clock(parameters, broker, at), partition, -1, 0, state[partition, LEO])
    count = append_row(live, rows, count, row)
    count = _attempt(layout, live, parameters, rows, broker, partition, at, count)
    for k in range(layout.replicas[partition] - 1):
        follower_index = layout.follower[partition, k]
        pair_index = layout.pair[follower_index]
        if live.follower[follower_index, TAKEN] == before:
            live.grown[layout.followers_of[pair_index] + live.pair[pair_index, GROWN]] = follower_index
            live.pair[pair_index, GROWN] += 1
        if live.pair[pair_index, PARKED]:
            _answer(layout, live, parameters, broker, pair_index, at, live.pair[pair_index, FETCHED])
    return count


@kernel
def turn(
    layout: Layout, live: Live, parameters: RunParameters, rows: Rows, broker: int, pair_index: int, at: int, count: int
) -> int:
    """A fetch arrives, or a parked one has waited long enough."""
    pair = live.pair
    if pair[pair_index, PARKED]:
        _answer(layout, live, parameters, broker, pair_index, at, pair[pair_index, FETCHED])
        return count
    previous = pair[pair_index, FETCHED]
    count = _count(layout, live, parameters, rows, broker, pair_index, at, count)
    if pair[pair_index, GROWN]:
        _answer(layout, live, parameters, broker, pair_index, at, previous)
    else:
        pair[pair_index, PARKED] = 1
        _due(layout, live, broker, pair_index, at + parameters.wait_max)
    return count


@kernel
def _due(layout: Layout, live: Live, broker: int, pair_index: int, time: int) -> None:
    begin = layout.tree_of[broker]
    half = (layout.tree_of[broker + 1] - begin) // 2
    put(live.tree, begin, half, pair_index - layout.pairs_of[broker], time)


@kernel
def _count(
    layout: Layout, live: Live, parameters: RunParameters, rows: Rows, broker: int, pair_index: int, at: int, count: int
) -> int:
    """Count a fetch for the followers that got records in the last answer (Partition.updateFollowerFetchState)."""
    follower, pair, first = live.follower, live.pair, layout.followers_of[pair_index]
    now = clock(parameters, broker, at)
    for k in range(pair[pair_index, CARRIED]):
        follower_index = live.carried[first + k]
        partition = layout.partition[follower_index]
        leader_leo = live.partition[partition, LEO]
        follower[follower_index, CAUGHT_UP] = last_caught_up(
            follower[follower_index, CAUGHT_UP],
            follower[follower_index, TAKEN],
            leader_leo,
            follower[follower_index, SEEN],
            pair[pair_index, FETCHED],
            now,
        )
        follower[follower_index, STORED] = follower[follower_index, TAKEN]
        follower[follower_index, SEEN] = max(follower[follower_index, SEEN], leader_leo)
        follower[follower_index, FOLLOWER_HW] = live.partition[partition, HW]
        count = _append_fetch(layout, live, rows, count, now, pair_index, follower_index, at)
        count = _attempt(layout, live, parameters, rows, broker, partition, at, count)
    pair[pair_index, CARRIED] = 0
    count = _sweep(layout, live, parameters, rows, pair_index, at, now, count)
    pair[pair_index, FETCHED] = now
    pair[pair_index, ROUND] += 1
    return count


@kernel
def _append_fetch(
    layout: Layout, live: Live, rows: Rows, count: int, now: int, pair_index: int, follower_index: int, at: int
) -> int:
    partition = layout.partition[follower_index]
    live.follower[follower_index, EMITTED] = at
    leo, leader_leo = live.follower[follower_index, STORED], live.partition[partition, LEO]
    row = Row(FETCH, now, partition, layout.pair_follower[pair_index], leo, leader_leo)
    return append_row(live, rows, count, row)


@kernel
def _sweep(
    layout: Layout, live: Live, parameters: RunParameters, rows: Rows, pair_index: int, at: int, now: int, count: int
) -> int:
    """Append rows for fetches that change nothing, of followers without a row for long."""
    first = layout.followers_of[pair_index]
    followers = layout.followers_of[pair_index + 1] - first
    swept = at * followers // parameters.sweep
    for k in range(max(live.pair[pair_index, SWEPT], swept - followers), swept):
        follower_index = first + k % followers
        if at - live.follower[follower_index, EMITTED] >= parameters.emit_unchanged:
            count = _append_fetch(layout, live, rows, count, now, pair_index, follower_index, at)
    live.pair[pair_index, SWEPT] = swept
    return count


@kernel
def _answer(
    layout: Layout, live: Live, parameters: RunParameters, broker: int, pair_index: int, at: int, previous: int
) -> None:
    """Answer a fetch, at once or after it was parked; the next fetch comes when the answer has gone there and back.

    What was fetched counts as of its arrival: a parked fetch found every follower at its leader's LEO. `previous`: when
    the pair fetched before, or when this one arrived if it was parked.
    """
    follower, pair, first = live.follower, live.pair, layout.followers_of[pair_index]
    waited, left, carried = pair[pair_index, PARKED], 0, 0
    for k in range(pair[pair_index, GROWN]):
        follower_index = live.grown[first + k]
        partition = layout.partition[follower_index]
        leo, taken = live.partition[partition, LEO], follower[follower_index, TAKEN]
        if waited or follower[follower_index, EMITTED] != at:
            follower[follower_index, CAUGHT_UP] = max(follower[follower_index, CAUGHT_UP], previous)
            follower[follower_index, FOLLOWER_HW] = live.partition[partition, HW]
            follower[follower_index, SEEN] = max(follower[follower_index, SEEN], taken if waited else leo)
        follower[follower_index, TAKEN] = min(leo, taken + parameters.most)
        live.carried[first + carried] = follower_index
        carried += 1
        if follower[follower_index, TAKEN] < leo:
            live.grown[first + left] = follower_index
            left += 1
    pair[pair_index, GROWN], pair[pair_index, CARRIED], pair[pair_index, PARKED], pair[pair_index, ANSWERED] = (
        left,
        carried,
        0,
        at,
    )
    number = 2 * pair[pair_index, ROUND]
    there = between(layout.pair_key[pair_index], number, parameters.network_low, parameters.network_high)
    back = between(layout.pair_key[pair_index], number + 1, parameters.network_low, parameters.network_high)
    _due(layout, live, broker, pair_index, at + there + back)
