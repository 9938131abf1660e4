"""What other rules would have made of the same events: small histories by hand, and the same rules on a simulation."""

import pyarrow.compute as pc
import pytest

from pipelines.replication import Rules, replay
from pipelines.settings import Simulate
from pipelines.whatif.change import Change
from pipelines.whatif.compare import Window, compare, otherwise
from tests.unit.replication.bronze import BASE_MS, Source, controller, table
from tests.unit.simulator.simulated_runs import simulated

pytestmark = pytest.mark.long

SECOND = 1_000_000


def window(begin=0.0, end=1e6):
    return Window(BASE_MS * 1000 + int(begin * SECOND), BASE_MS * 1000 + int(end * SECOND))


def silent_follower(level=3):
    """Two replicas; broker 2 is silent from second 10 to 30, then fetches up to the end; an append each second."""
    source = Source(level=level).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    for second in range(1, 41):
        source.append(second * 1000, 10 * second)
        if second <= 10 or second > 30:
            source.fetch(second * 1000 + 5, 2, 10 * second)
    return source.progress(41_000)


def one(source, change, rules=None, within=None):
    (found,) = compare(table(source), rules or Rules(), change, within or window(end=41))
    return found


def seconds(us):
    return round(us / SECOND, 3)


def test_a_shorter_lag_shrinks_the_isr_and_lets_the_hw_go_on():
    """Last caught up at 10.005: out of sync 10 s and 1 ms later, until it fetches at 31.005."""
    found = one(silent_follower(), Change(lag_max_ms=10_000))
    assert (found.was.shrinks, found.would.shrinks, found.would.expands) == (0, 1, 1)
    assert (seconds(found.was.out_of_sync_us), seconds(found.would.out_of_sync_us)) == (0.0, 10.999)
    assert found.would.isrs == [(1, 2), (1,), (1, 2)]
    assert seconds(found.was.hw_stood_us) == pytest.approx(20.005)
    assert seconds(found.would.hw_stood_us) == pytest.approx(9.006)


def test_under_a_greater_min_isr_the_hw_stands_until_the_isr_is_large_enough():
    found = one(silent_follower(), Change(lag_max_ms=10_000, min_isr=2))
    assert seconds(found.would.under_min_isr_us) == 10.999
    assert seconds(found.would.hw_stood_us) == pytest.approx(20.005)
    assert found.was.under_min_isr_us == 0


def test_min_isr_counts_as_at_most_the_assigned_replicas():
    found = one(silent_follower(), Change(min_isr=5))
    assert found.would.under_min_isr_us == 0


def test_a_setting_that_an_event_reports_is_overridden():
    source = silent_follower()
    source.rows[0] |= {"min_isr": 1}
    settings = Source("broker-1/server.log").config(0, lag_max_ms=60_000).progress(41_000)
    (found,) = compare(table(source, settings), Rules(), Change(lag_max_ms=10_000), window(end=41))
    assert (found.was.shrinks, found.would.shrinks) == (0, 1)


def test_what_a_controller_did_stays_and_what_the_lag_rule_did_does_not():
    """Broker 2 was stopped at second 20 and came back; broker 3 was put out for its lag at second 25, until it came."""
    source = Source(level=3).leader(0, 0, 0, 0, [1, 2, 3])
    for second in range(1, 41):
        source.append(second * 1000, 10 * second)
        if second < 20 or second > 32:
            source.fetch(second * 1000 + 5, 2, 10 * second)
        if second < 15 or second > 35:
            source.fetch(second * 1000 + 6, 3, 10 * second)
        if change := {20: ([1, 3], "metadata"), 25: ([1], "alter_partition"), 33: ([1, 2], "alter_partition")}.get(
            second
        ):
            source.isr(second * 1000 + 7, change[0], second, change[1])
    source.proposed(24_990, [1], "shrink")
    source.isr(36_007, [1, 2, 3], 36).progress(41_000)
    stopped = controller().broker_state(20_000, 2, "controlled_shutdown", 7).broker_state(31_000, 2, "unfenced", 8)
    (found,) = compare(table(source, stopped), Rules(lag_max_ms=10_000), Change(lag_max_ms=40_000), window(end=41))
    assert found.was.isrs == [(1, 2, 3), (1, 3), (1,), (1, 2), (1, 2, 3)]
    assert found.would.isrs == [(1, 2, 3), (1, 3), (1, 2, 3)]


def test_only_what_lies_in_the_window_counts():
    found = one(silent_follower(), Change(lag_max_ms=10_000), within=window(25, 28))
    assert (found.would.shrinks, seconds(found.would.out_of_sync_us)) == (0, 3.0)
    assert seconds(found.was.hw_stood_us) == 3.0


@pytest.mark.parametrize("level", [0, 1, 2])
def test_below_level_3_nothing_is_estimated(level):
    found = one(silent_follower(level), Change(lag_max_ms=10_000))
    assert (found.unknown, found.was, found.would) == (f"not known at level {level}", None, None)


def test_where_telemetry_is_missing_nothing_is_estimated():
    source = silent_follower().skip().append(42_000, 500).progress(60_000)
    assert one(source, Change(lag_max_ms=10_000)).unknown == "not known: telemetry is missing"


def test_the_same_rules_give_the_same_isrs_and_hws_on_a_clean_run():
    run = simulated(Simulate(seed=7, duration=60, partitions=3))
    ts = pc.min_max(run.events["ts"]).as_py()
    within = Window(*(int(ts[name].timestamp() * 1e6) for name in ("min", "max")))
    found = compare(run.events, run.rules, Change(), within)
    assert len(found) >= 3
    for each in found:
        assert each.would == each.was
    was = replay(run.events, run.rules)
    would, _ = otherwise(run.events, was, run.rules, Change())
    moves = ["topic", "partition", "ts", "kind", "hw", "leader_leo"]
    before, after = (sorted(map(str, facts.partition_hw.select(moves).to_pylist())) for facts in (was, would))
    assert before == after


def test_a_simulation_under_other_rules_shrinks_as_the_estimate_says():
    """A link is cut for 25 s: with a lag of 30 s nothing shrinks, with 10 s each partition that is followed over it."""
    cut = {"seed": 3, "duration": 90, "partitions": 3, "fault": ["20s cut 1-3 for 25s"]}
    found = None
    for lag_max_ms in (30_000, 10_000):
        run = simulated(Simulate(lag_max_ms=lag_max_ms, **cut))
        ts = pc.min_max(run.events["ts"]).as_py()
        within = Window(*(int(ts[name].timestamp() * 1e6) for name in ("min", "max")))
        estimate = compare(run.events, run.rules, Change(lag_max_ms=10_000), within)
        found = [*(found or []), (sum(e.was.shrinks for e in estimate), sum(e.would.shrinks for e in estimate))]
    (was_long, would_long), (was_short, _) = found
    assert was_long == 0
    assert would_long == was_short > 0


def test_a_line_in_two_files_is_one_start_of_a_term():
    copied = Source("broker-1/server.log", level=0).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).progress(41_000)
    (found,) = compare(table(silent_follower(), copied), Rules(), Change(lag_max_ms=10_000), window(end=41))
    assert (found.unknown, found.would.shrinks) == ("", 1)


def test_an_old_election_that_is_printed_again_changes_nothing():
    once = controller().election(1, 1, 0, isr=[1, 2], replicas=[1, 2])
    again = controller().election(1, 1, 0, isr=[1, 2], replicas=[1, 2]).election(20_000, -1, 0, isr=[1, 2])
    alone, twice = (
        compare(table(silent_follower(), states), Rules(), Change(lag_max_ms=10_000), window(end=41))[0]
        for states in (once, again)
    )
    assert (alone.would, alone.was) == (twice.would, twice.was)
