"""The limit's loop keeps Kafka's rules: its answers are compared with those of the others, at every size."""

import numpy as np

from pipelines.bench.engines.limit_loop import KINDS, Events, LoopState, loop

SECOND = 1_000_000
LAG = 6 * SECOND


def stretches(*events):
    """(replica, since, until) of one partition of brokers 9, 10 and 11; an event is (kind, us, replica, LEO)."""
    state = LoopState(1, SECOND, LAG)
    kind, ts, replica, leo = zip(("leader", SECOND, -1, 0), *events, strict=True)
    ends = np.full(len(kind) + 1, 3, dtype=np.int32)
    ends[0] = 0
    columns = Events(
        np.array([KINDS[k] for k in kind]), np.zeros(len(kind), dtype=np.int64), np.array(ts, dtype=np.int64),
        np.array(replica, dtype=np.int32), np.array(leo, dtype=np.int64), np.array(leo, dtype=np.int64),
        ends, np.array([9, 10, 11], dtype=np.int32),
    )  # fmt: skip
    loop(columns, state.grown(len(kind)))
    return [tuple(row[1:].tolist()) for row in state.stretches]


def test_who_has_what_its_leader_had_at_the_fetch_before_had_caught_up_then_though_it_never_was_level():
    behind = [("append", 2 * SECOND, -1, 13), ("fetch", 2 * SECOND + 5, 10, 12), ("append", 3 * SECOND, -1, 28)]
    again = [("fetch", 3 * SECOND + 5, 10, 13), ("fetch", 11 * SECOND, 10, 28), ("fetch", 11 * SECOND + 5, 10, 28)]
    caught_up = 2 * SECOND + 5
    assert stretches(*behind, *again) == [(10, caught_up + LAG + 1000, 11 * SECOND)]


def test_who_never_fetched_has_no_stretch():
    assert stretches(("append", 2 * SECOND, -1, 13), ("append", 20 * SECOND, -1, 28)) == []
