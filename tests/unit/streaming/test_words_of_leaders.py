"""Minutes count what a leader says, a HW that is held back and replicas out of sync, for as long as it leads."""

import pyarrow as pa
import pytest

from pipelines.lake.lake import declared
from pipelines.replication import Reconstructor, replay
from pipelines.streaming.sinks import gold
from tests.unit.replication.bronze import Source, controller, events_of, since_base, table
from tests.unit.replication.test_rules_held_back import waiting
from tests.unit.replication.watching import in_time

MINUTE_MS = 60_000


def minutes(kind, partials):
    rows = gold.changed(kind, declared(kind).arrow().empty_table(), partials, partials).to_pylist()
    return {(since_base(row["minute"]) // MINUTE_MS, *(row[name] for name in gold.WHO[kind][1:])): row for row in rows}


def held(partials, kind="cluster_minute"):
    names = ("held_back", "held_back_max", "held_back_s")
    return {place: tuple(row[name] for name in names) for place, row in minutes(kind, partials).items()}


def leading(**more):
    """Broker 1 leads, replicas 2 and 3 fetch all that it has until 1 s."""
    one = Source().leader(0, 0, 0, 0, [1, 2, 3], min_isr=2, lag_max_ms=30_000, **more)
    one.append(1_000, 10).fetch(1_010, 2, 10, 10).fetch(1_010, 3, 10, 10)
    return one


def one_hangs(until=20_000):
    """Records that replica 3 does not fetch wait from 2 s on."""
    one = leading().append(2_000, 20).fetch(2_010, 2, 20, 20)
    return one.progress(until)


def test_a_hw_that_stands_for_more_than_ten_seconds_is_held_back_from_then_on():
    one = one_hangs().fetch(20_000, 3, 20, 20).progress(50_000)
    assert held(replay(table(one)).minute_stats) == {(0,): (0, 1, 8.5)}
    assert held(replay(table(one)).minute_stats, "broker_minute") == {(0, 1): (0, 1, 8.5)}


def test_a_hw_that_moves_in_time_was_never_held_back():
    one = one_hangs(11_000).fetch(11_400, 3, 20, 20).progress(50_000)
    assert held(replay(table(one)).minute_stats) == {(0,): (0, 0, 0.0)}


def test_what_is_still_held_back_counts_to_the_end_of_the_minute_and_in_the_next_one():
    one = one_hangs(50_000).append(MINUTE_MS + 5_000, 30).progress(MINUTE_MS + 50_000)
    assert held(replay(table(one)).minute_stats) == {(0,): (1, 1, 48.5), (1,): (1, 1, 60.0)}


def test_a_hw_that_moves_and_stands_again_is_held_back_ten_seconds_later():
    one = one_hangs().append(20_000, 30).fetch(21_000, 3, 20, 20).progress(50_000)
    assert held(replay(table(one)).minute_stats) == {(0,): (1, 1, 9.5 + 29.5)}


def test_under_min_isr_nobody_holds_a_hw_back():
    one = one_hangs().isr(15_000, [1], 1).progress(50_000)
    assert held(replay(table(one, controller().progress(50_000))).minute_stats) == {(0,): (0, 1, 3.5)}


def test_a_hw_is_held_back_by_the_word_of_the_present_leader_only():
    """A broker that hangs for longer than its session goes on to say so after another one leads."""
    one = one_hangs(50_000).append(MINUTE_MS + 1_000, 40).progress(MINUTE_MS + 50_000)
    two = Source("broker-2/replication.log").leader(15_000, 1, 20, 10, [2, 3]).fetch(15_010, 3, 20, 20)
    found = held(replay(table(one, two.progress(MINUTE_MS + 50_000))).minute_stats)
    assert found == {(0,): (0, 1, 3.5), (1,): (0, 0, 0.0)}


def test_a_leader_that_was_down_until_it_leads_again_held_nothing_back_meanwhile():
    one = one_hangs(3_000).leader(20_000, 0, 20, 10, [1, 2, 3], min_isr=2, lag_max_ms=30_000).progress(50_000)
    assert held(replay(table(one)).minute_stats) == {(0,): (1, 1, 30.5)}


def out_of_sync(partials, kind="broker_minute"):
    return {place: row["out_of_sync_replicas"] for place, row in minutes(kind, partials).items()}


def both_out_of_sync():
    """Replicas 2 and 3 fetch nothing more after 2 s: out of sync by the word of broker 1 from 32 s on."""
    return leading().append(2_000, 20).progress(50_000).append(MINUTE_MS + 1_000, 30).progress(2 * MINUTE_MS)


def test_replicas_out_of_sync_by_the_word_of_a_former_leader_count_no_more():
    two = Source("broker-2/replication.log").leader(MINUTE_MS + 5_000, 1, 20, 10, [2]).progress(2 * MINUTE_MS)
    facts = replay(table(both_out_of_sync(), two)).minute_stats
    assert [out_of_sync(facts)[minute, 1] for minute in (0, 1)] == [2, 0]
    assert out_of_sync(facts, "cluster_minute")[1,] == 2, "1 and 3, by the word of broker 2"


def test_replicas_out_of_sync_count_while_nothing_else_is_told():
    found = out_of_sync(replay(table(both_out_of_sync(), controller().progress(2 * MINUTE_MS))).minute_stats)
    assert [found[minute, 1] for minute in range(3)] == [2, 2, 2]


def test_a_log_that_begins_inside_a_term_has_its_word_counted():
    one = Source().append(1_000, 10).fetch(1_010, 2, 10, 10).fetch(1_010, 3, 10, 10).hw(1_010, 10)
    one.append(2_000, 20).fetch(2_010, 2, 20, 20).progress(50_000)
    assert held(replay(table(one)).minute_stats) == {(0,): (1, 1, 48.5)}


def test_samples_that_show_a_record_wait_for_rounds_are_held_back():
    """It waits from 5 s on, by the round of then, and still at 20 s."""
    facts = replay(events_of(in_time(*waiting())))
    assert held(facts.minute_stats)[0,][:2] == (1, 1)
    gone = replay(events_of(in_time(*waiting(hw={20_000: 195}))))
    assert held(gone.minute_stats)[0,] == (0, 1, pytest.approx(5.5, abs=0.1))


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param(lambda: [one_hangs(50_000).fetch(50_000, 3, 20, 20), controller().progress(50_000)], id="a log"),
        pytest.param(lambda: [both_out_of_sync(), controller().progress(2 * MINUTE_MS)], id="out of sync"),
        pytest.param(waiting, id="samples"),
    ],
)
def test_minutes_are_the_same_however_events_come_and_whenever_the_job_is_restored(sources):
    rows = sorted(in_time(*sources()), key=lambda row: row["ts"])
    whole = replay(events_of(rows)).minute_stats
    machine, parts = Reconstructor(), []
    for row in rows:
        parts.append(machine.update(events_of([row])).minute_stats)
        machine = Reconstructor.restore(machine.snapshot())
    parts.append(machine.finish().minute_stats)
    assert minutes("broker_minute", pa.concat_tables(parts)) == minutes("broker_minute", whole)
