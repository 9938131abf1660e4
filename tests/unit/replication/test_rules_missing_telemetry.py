"""What is missing, late, repeated, conflicting or broken in the telemetry, and what is then claimed no more."""

from __future__ import annotations

from collections import Counter

import pytest

from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.facts.tables import Facts
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS
from tests.unit.replication.bronze import BASE_MS, Source, advances, controller, events_of, table, values_of

GAP = ("ms", "series", "kind", "seq_from", "seq_to")


def led(isr=(1, 2), replicas=(1, 2), leo=0, hw=0, source="broker-1/replication.log", epoch=0, **more):
    return Source(source, epoch).leader(0, 0, leo, hw, list(isr), replicas=list(replicas), **more)


def agreed(*sources):
    facts = replay(table(*sources))
    return values_of(facts.partition_hw, "ms", "hw", "agreement", kind="advance")


def gaps(*batches, rules=None):
    """The gaps published for these batches of events, closed at the end."""
    reconstructor = Reconstructor(rules)
    facts = Facts.concat([*(reconstructor.update(batch) for batch in batches), reconstructor.finish()])
    return sorted(values_of(facts.telemetry_gaps, *GAP))


def test_a_hole_in_the_numbers_of_a_partition_holds_it_until_every_member_is_reported():
    telemetry = led(isr=[1, 2, 3], replicas=[1, 2, 3]).append(10, 9).fetch(20, 2, 4).fetch(21, 3, 4).skip()
    telemetry.fetch(30, 2, 8).hw(31, 7).fetch(40, 3, 8).append(50, 10).fetch(60, 2, 10)
    assert agreed(telemetry) == [(21, 4, "unreported"), (31, 7, "only_witness"), (50, 8, "unreported")]


def test_a_hold_does_not_wait_for_those_outside_the_isr():
    telemetry = led(isr=[1, 2], replicas=[1, 2, 3]).append(10, 9).fetch(20, 2, 4).skip().fetch(30, 2, 8).append(40, 10)
    assert agreed(telemetry) == [(20, 4, "unreported"), (40, 8, "unreported")]


def test_a_hold_ends_for_a_member_that_leaves_the_isr():
    telemetry = led(isr=[1, 2, 3], replicas=[1, 2, 3]).append(10, 9).fetch(20, 2, 4).fetch(21, 3, 4).skip()
    telemetry.append(30, 10).fetch(40, 2, 8).isr(50, [1, 2], epoch=1, detail="metadata")
    fenced = controller().broker_state(45, 3, "fenced", epoch=7)
    assert agreed(telemetry, fenced) == [(21, 4, "unreported"), (50, 8, "unreported")]


def test_a_replica_leo_reported_again_after_a_gap_ends_the_hold():
    telemetry = led().append(10, 9).fetch(20, 2, 4).skip().replica_leo(30, 2, 4).append(40, 10).fetch(50, 2, 6)
    assert agreed(telemetry) == [(20, 4, "unreported"), (50, 6, "unreported")]


def test_a_new_term_ends_the_hold():
    telemetry = led().append(10, 9).fetch(20, 2, 4).skip().leader(30, 1, 9, 4, [1, 2], replicas=[1, 2]).fetch(40, 2, 6)
    assert agreed(telemetry) == [(20, 4, "unreported"), (40, 6, "unreported")]


def test_a_lost_row_holds_every_partition_that_the_broker_leads():
    telemetry = led().append(10, 9).on(partition=1).leader(11, 0, 0, 0, [1, 2], replicas=[1, 2]).append(12, 9).lost(20)
    telemetry.on(partition=0).fetch(30, 2, 5).on(partition=1).fetch(31, 2, 6)
    assert advances(replay(table(telemetry))) == []
    telemetry.on(partition=0).append(40, 10).on(partition=1).append(41, 10)
    assert advances(replay(table(telemetry))) == [(40, 5), (41, 6)]


def test_a_lost_row_of_another_broker_holds_nothing():
    telemetry, other = led().append(10, 9), Source("broker-2/replication.log").lost(20)
    assert agreed(telemetry.fetch(30, 2, 5), other) == [(30, 5, "unreported")]


def test_a_hole_in_the_numbers_of_a_source_holds_every_partition_that_the_broker_leads():
    telemetry = led().append(10, 9).on(partition=1).skip().on(partition=0).progress(20)
    assert agreed(telemetry.fetch(30, 2, 5).progress(40)) == []
    assert agreed(telemetry.append(50, 10)) == [(50, 5, "unreported")]


def test_a_fetch_that_repeats_the_end_of_the_leader_ends_its_hold():
    telemetry = led().append(10, 9).fetch(20, 2, 4).lost(25).fetch(30, 2, 5, leader_leo=9)
    assert agreed(telemetry) == [(20, 4, "unreported"), (30, 5, "unreported")]


def test_gap_rows_name_the_missing_numbers():
    telemetry = led().append(10, 9).skip(3).fetch(30, 2, 4)
    assert gaps(table(telemetry)) == [(30, "partition", "gap", 2, 4), (30, "source", "gap", 2, 4)]


def test_a_gap_is_dated_at_the_first_row_after_it():
    telemetry = led().append(10, 9).on(partition=1).skip().on(partition=0).fetch(30, 2, 4).progress(5000)
    assert gaps(table(telemetry)) == [(30, "source", "gap", 2, 2)]


def test_a_first_number_above_0_is_a_gap():
    telemetry = Source("broker-1/replication.log").skip(2).leader(10, 0, 0, 0, [1, 2], replicas=[1, 2])
    assert ("partition", "gap", 0, 1) in [g[1:] for g in gaps(table(telemetry))]


def test_a_lost_row_is_a_gap_of_its_source():
    facts = replay(table(led().append(10, 9).lost(20, "7 lines: rotated away")))
    assert values_of(facts.telemetry_gaps, "ms", "kind", "series", "detail") == [
        (20, "gap", "source", "7 lines: rotated away")
    ]


def test_a_row_that_comes_after_its_number_was_given_up_is_late():
    telemetry = led().append(10, 9).fetch(20, 2, 4).fetch(30, 2, 6).progress(40_000)
    rows = telemetry.rows
    found = gaps(events_of(rows[:2] + rows[3:]), events_of(rows[2:3]))
    assert found == [(20, "partition", "late", 2, 2), (30, "partition", "gap", 2, 2), (30, "source", "gap", 2, 2)]


def test_a_source_that_comes_back_with_a_greater_epoch_is_a_reset():
    first = led().append(10, 9)
    second = led(epoch=1)
    for row in second.rows:
        row["ts"] += 1_000_000
    assert gaps(table(first, second)) == [(10, "source", "reset", 1, 1)]


def test_a_row_a_minute_ahead_of_everybody_is_a_wrong_clock_and_moves_nobodys():
    telemetry = led().append(10, 9).fetch(20, 2, 4).progress(90_000)
    other = Source("broker-2/replication.log").progress(5).progress(1000)
    facts = replay(table(telemetry, other))
    assert values_of(facts.telemetry_gaps, "ms", "kind", "seq_from", "seq_to") == [(90_000, "clock", 3, 3)]
    assert facts.replica_sync.num_rows == 0, "nobody is out of sync by a wrong clock"


def clocks(*sources):
    return [(g[0], g[3]) for g in gaps(table(*sources)) if g[2] == "clock"]


def test_the_first_row_of_a_source_may_be_the_wrong_clock():
    """What it goes on with shows it; and it makes no later wrong clock look right."""
    telemetry = Source("broker-1/replication.log").leader(1_000_000, 0, 0, 0, [1, 2], replicas=[1, 2])
    telemetry.append(10, 9).fetch(800_000, 2, 4).fetch(30, 2, 8)
    assert clocks(telemetry, controller().progress(40)) == [(800_000, 2), (1_000_000, 0)]


def wrong_or_late(*batches):
    """The rows of kind `clock` and `late` that these batches give, and what they leave to be published by the end."""
    reconstructor = Reconstructor()
    parts = [reconstructor.update(batch) for batch in batches]
    before = values_of(Facts.concat(parts).telemetry_gaps, "source_id", "kind", "seq_from")
    parts.append(reconstructor.finish())
    after = values_of(Facts.concat(parts).telemetry_gaps, "source_id", "kind", "seq_from")
    found = [[g for g in telemetry if g[1] in ("clock", "late")] for telemetry in (before, after)]
    return found[0], [g for g in found[1] if g not in found[0]]


def test_a_first_row_far_ahead_is_judged_once_it_or_another_source_shows_which_is_right():
    """An hour ahead of what broker 1 reported so far broker 2 begins: with a clock that is not set yet, or later."""
    hour, wrong = 3_600_000, ("broker-2/replication.log", "clock", 0)
    one = led().append(10, 9).fetch(20, 2, 9).progress(30_000).append(60_000, 12).fetch(60_010, 2, 12).progress(90_000)
    first, rest = events_of(one.rows[:4]), events_of(one.rows[4:])
    two = Source("broker-2/replication.log").follower(hour, 0, 0, 0, 1)
    ahead, falls = table(two), two.follower(95_000, 0, 12, 9, 1).progress(99_000).rows[1:]
    assert wrong_or_late(first, ahead, rest, events_of(falls)) == ([wrong], [])
    assert wrong_or_late(first, ahead, rest) == ([wrong], []), "others have gone on behind it for the grace"
    assert wrong_or_late(first, ahead) == ([], [wrong])
    goes_on = Source("broker-2/replication.log").skip().progress(hour + 20_000)
    assert wrong_or_late(first, ahead, table(goes_on)) == ([], [])
    near = led().skip(3).progress(hour + 500)
    assert wrong_or_late(first, ahead, events_of(near.rows[1:])) == ([], [])


def heard_one_by_one(*, first_ms):
    """Three brokers that have been silent for over a minute are first heard again in batches of their own."""
    brokers = [led(), Source("broker-2/replication.log"), Source("broker-3/replication.log")]
    for one in brokers:
        one.progress(1000)
    before = table(*brokers)
    heard = [
        events_of(one.progress(ms).progress(ms + 900).rows[-2:]) for one, ms in zip(brokers, first_ms, strict=True)
    ]
    return [before, *heard]


def test_nobody_has_a_wrong_clock_where_all_were_silent_and_are_heard_in_batches_of_their_own():
    assert wrong_or_late(*heard_one_by_one(first_ms=(90_000, 91_000, 89_500))) == ([], [])


def test_a_clock_is_wrong_while_others_go_on_behind_it_for_the_grace():
    *batches, last = heard_one_by_one(first_ms=(900_000, 20_000, 21_000))
    wrong = [("broker-1/replication.log", "clock", 2)]
    assert wrong_or_late(*batches, last) == (wrong, [])
    assert wrong_or_late(*batches[:2]) == ([], wrong), "nothing shows it until the end"


def test_a_clock_is_right_where_its_source_goes_on_for_the_grace_and_nobody_else_says_anything():
    before, ahead, *_ = heard_one_by_one(first_ms=(900_000, 0, 0))
    more = led().skip(3).progress(911_000).rows[-1:]
    assert wrong_or_late(before, ahead, events_of(more)) == ([], [])


def test_rows_that_swap_after_a_silence_are_no_gap():
    """The hole is as old as the row behind it: it was taken to be as old as the row before it."""
    telemetry = led().append(10, 9).progress(30_000).append(30_100, 12)
    first, late, behind = telemetry.rows[:2], telemetry.rows[2], telemetry.rows[3]
    assert gaps(events_of(first), events_of([behind]), events_of([late])) == []


@pytest.mark.parametrize("ms", [-BASE_MS, 8_646_566_400_000])
def test_the_time_of_a_row_that_is_refused_for_it_moves_nobodys_clock(ms):
    telemetry = led().append(ms, 9).fetch(20, 2, 4)
    other = Source("broker-2/replication.log").event(ms, "progress", True).progress(30)
    reconstructor = Reconstructor()
    facts = reconstructor.update(table(telemetry, other))
    assert len(facts.quarantine) == 2
    assert facts.telemetry_gaps.num_rows == 0
    assert {source.first_ts // 1000 - BASE_MS for source in reconstructor.state.sources.known.values()} == {0, 30}
    assert reconstructor.finish().telemetry_gaps.num_rows == 0


def test_a_row_that_is_set_aside_is_set_aside_once():
    rows, twin = twins()
    bad = led().append(10, 9).event(20, "gossip").rows[-1]
    assert replay(events_of([*rows, twin, twin, twin])).quarantine["leo"].to_pylist() == [6]
    reconstructor = Reconstructor()
    parts = [reconstructor.update(events_of(part)) for part in ([*rows[:2], bad, bad], [bad], [bad])]
    assert len(Facts.concat(parts).quarantine) == 1


def test_a_row_that_is_refused_does_not_win_over_a_good_one_with_its_number():
    rows, twin = twins()
    bad = twin | {"event_type": "gossip", "ts": (BASE_MS + 19) * 1000}
    for order in ([*rows, bad], [bad, *rows]):
        facts = replay(events_of(order))
        assert advances(facts) == [(20, 4)]
        assert facts.quarantine["event_type"].to_pylist() == ["gossip"]


def test_two_broker_wide_rows_with_one_number_count_like_others():
    one = Source().progress(0).broker_state(10, 2, "fenced", 5)
    twin = one.rows[1] | {"detail": "started"}
    seen = []
    for order in ([*one.rows, twin, twin], [twin, *one.rows]):
        facts = replay(events_of(order))
        seen.append(facts.quarantine["detail"].to_pylist())
    assert seen == [["started"], ["started"]]


def test_two_wrong_clocks_far_from_each_other_prove_neither():
    telemetry, other = (
        led().append(10, 9).fetch(200_000, 2, 4).fetch(30, 2, 8),
        Source("broker-2/replication.log"),
    )
    other.progress(20).progress(900_000).progress(1000)
    assert clocks(telemetry, other) == [(200_000, 2), (900_000, 1)]


def test_a_jump_of_the_clock_that_others_follow_is_none():
    telemetry = led().append(10, 9).fetch(20, 2, 9).progress(90_000)
    other = Source("broker-2/replication.log").progress(5).progress(91_000)
    assert [g for g in gaps(table(telemetry, other)) if g[2] == "clock"] == []


def test_a_broken_row_goes_to_quarantine_and_fills_its_number():
    telemetry = led().append(10, 9).event(15, "gossip").fetch(20, 2, 4)
    facts = replay(table(telemetry))
    (row,) = facts.quarantine.to_pylist()
    assert (row["event_type"], row["reasons"]) == ("gossip", ["unknown_event_type: event_type = gossip"])
    assert facts.telemetry_gaps.num_rows == 0


def test_a_broken_row_holds_its_partition_like_a_missing_one():
    telemetry = led().append(10, 9).fetch(20, 2, 4).event(25, "fetch", replica_id=2, leo=-7).fetch(30, 2, 6)
    assert agreed(telemetry) == [(20, 4, "unreported")]
    assert agreed(telemetry.append(40, 10)) == [(20, 4, "unreported"), (40, 6, "unreported")]


def twins():
    """Two different rows under one number: the fetch at 20 says 4 or 6."""
    telemetry = led().append(10, 9).fetch(20, 2, 4)
    return telemetry.rows, telemetry.rows[2] | {"leo": 6}


def test_of_conflicting_twins_the_smaller_counts_and_the_other_is_quarantined():
    rows, twin = twins()
    for order in ([*rows, twin], [twin, *rows]):
        facts = replay(events_of(order))
        assert advances(facts) == [(20, 4)]
        (aside,) = facts.quarantine.to_pylist()
        assert aside["leo"] == 6
        assert aside["reasons"][0].startswith("conflict")


def test_of_conflicting_twins_the_earlier_counts():
    rows, twin = twins()
    facts = replay(events_of([*rows, twin | {"ts": (BASE_MS + 19) * 1000}]))
    assert advances(facts) == [(19, 6)]


def test_of_three_rows_with_one_number_the_smallest_counts():
    rows, twin = twins()
    facts = replay(events_of([twin, *rows, twin | {"leo": 5}]))
    assert advances(facts) == [(20, 4)]
    assert sorted(facts.quarantine["leo"].to_pylist()) == [5, 6]


def test_one_number_on_two_partitions_counts_on_both():
    rows = led().append(10, 9).fetch(20, 2, 4).rows
    rows += [row | {"partition": 1} for row in rows]
    facts = replay(events_of(rows))
    assert values_of(facts.partition_hw, "partition", "hw", kind="advance") == [(0, 4), (1, 4)]
    assert facts.quarantine.num_rows == 0


def test_repeats_are_dropped():
    rows = led().append(10, 9).fetch(20, 2, 4).rows
    once, thrice = replay(events_of(rows)), replay(events_of(rows * 3))
    assert once.partition_hw.equals(thrice.partition_hw)
    assert thrice.quarantine.num_rows == 0
    assert counts(thrice) == counts(once)


def test_a_number_already_passed_is_a_repeat():
    rows, twin = twins()
    reconstructor = Reconstructor()
    reconstructor.update(events_of(rows))
    facts = reconstructor.update(events_of([twin]))
    assert facts.quarantine.num_rows == 0
    assert advances(Facts.concat([facts, reconstructor.finish()])) == [(20, 4)]


def closing(seq=0):
    telemetry = Source("hwmark-0/drain").progress(0)
    (row,) = telemetry.rows
    return events_of(
        [row | {"source_id": "hwmark/drain", "detail": "closed", "source_seq": seq, "seq": seq, "broker_id": -1}]
    )


def test_the_closing_row_makes_final_what_was_reported():
    rows = table(led().append(10, 9).fetch(20, 2, 4))
    reconstructor = Reconstructor()
    assert advances(reconstructor.update(rows)) == []
    assert advances(reconstructor.update(closing())) == [(20, 4)]


def test_the_closing_row_advances_no_clock():
    """What comes after a drain is not late: the sources go on where they were."""
    telemetry = led().append(10, 9).fetch(20, 2, 4)
    reconstructor = Reconstructor()
    reconstructor.update(table(telemetry))
    reconstructor.update(closing())
    more = events_of(telemetry.fetch(30, 2, 6).progress(1000).rows[3:])
    facts = reconstructor.update(more)
    assert advances(facts) == [(30, 6)]
    assert facts.telemetry_gaps.num_rows == 0


def test_a_fact_is_final_once_its_source_is_past_it_by_the_race_window():
    telemetry = led().append(10, 9).fetch(20, 2, 4)
    early, late = Reconstructor(), Reconstructor()
    assert advances(early.update(table(telemetry.progress(169)))) == []
    assert advances(late.update(table(telemetry.progress(170)))) == [(20, 4)]


def counts(facts):
    total = Counter()
    for row in facts.minute_stats.to_pylist():
        total.update(dict(row["counts"]))
    return {name: count for name, count in total.items() if count}


def histogram(telemetry, name):
    """The buckets of one histogram that hold anything, added up over all partials."""
    total = Counter()
    for row in replay(table(telemetry)).minute_stats.to_pylist():
        total.update({k: count for k, count in enumerate(row[name]) if count})
    return dict(total)


def test_minute_stats_count_what_the_other_tables_hold():
    telemetry = (
        led(min_isr=2)
        .append(10, 9)
        .fetch(20, 2, 4)
        .hw(20, 4)
        .hw(500, 7)
        .fetch(600, 2, 4)
        .isr(700, [1], epoch=1)
        .skip()
        .progress(50_000)
    )
    facts = replay(table(telemetry))
    found = counts(facts)
    agreement = Counter(values_of(facts.partition_hw, "agreement", kind="advance"))
    assert {k: found[k] for k in agreement} == dict(agreement)
    assert found["freeze"] == 1
    assert found["events"] == len(telemetry.rows)
    assert (found["term_start"], found["disagree"]) == (1, 1)


def test_minute_stats_are_partials_that_add_up():
    rows = led().append(10, 9).fetch(20, 2, 4).hw(20, 4).append(61_000, 12).fetch(62_000, 2, 12).progress(90_000).rows
    whole, reconstructor = replay(events_of(rows)), Reconstructor()
    parts = [reconstructor.update(events_of([row]), batch_id=k) for k, row in enumerate(rows)]
    assert counts(Facts.concat([*parts, reconstructor.finish(99)])) == counts(whole)


def test_append_to_high_watermark_is_a_histogram_of_milliseconds():
    telemetry = led().append(10, 9).fetch(110, 2, 9).append(200, 10).fetch(900, 2, 10)
    buckets = [next(k for k, bound in enumerate(BOUNDS_MS) if bound >= ms) for ms in (100, 700)]
    assert histogram(telemetry, "append_to_hw") == dict.fromkeys(buckets, 1)


def test_lag_is_a_histogram_of_records_at_each_fetch():
    telemetry = led().append(10, 9).fetch(20, 2, 9).fetch(30, 2, 9).append(40, 14).fetch(50, 2, 11)
    assert {BOUNDS_RECORDS[k]: count for k, count in histogram(telemetry, "lag").items()} == {0: 2, 4: 1}


def test_rows_of_a_later_leader_epoch_begin_a_term_whose_start_was_lost():
    """What it commits there is no HW of the term before, of which it never reported the end."""
    telemetry = led(isr=[1, 2], replicas=[1, 2]).append(10, 9).fetch(20, 2, 9).hw(20, 9)
    other = Source("broker-2/replication.log").leader(1000, 1, 9, 9, [2], replicas=[1, 2]).append(1100, 20).hw(1100, 20)
    telemetry.skip(2).event(5000, "append", leader_leo=70, leader_id=1, leader_epoch=2).hw(5001, 70).progress(60_000)
    facts = replay(table(telemetry, other.progress(60_000), controller().progress(60_000)))
    assert values_of(facts.hw_regressions, "class", severity="critical") == []
    assert values_of(facts.partition_hw, "leader_epoch", leader_id=1, reported_hw=70) == [2]


def test_the_start_of_a_leaders_next_term_is_no_hw_of_the_one_that_it_never_ended():
    """Broker 1 leads epochs 0 and 2; that it followed in between was lost. The HW that it has then it learnt there."""
    telemetry = led(isr=[1, 2], replicas=[1, 2]).append(10, 9).fetch(20, 2, 9).hw(20, 9)
    other = Source("broker-2/replication.log").follower(5, 0, 0, 0, 1)
    other.leader(1000, 1, 9, 9, [2], replicas=[1, 2]).append(1100, 90).hw(1100, 90).isr(2000, [1, 2], 2)
    telemetry.skip().leader(30_000, 2, 90, 90, [1], replicas=[1, 2], partition_epoch=3).progress(60_000)
    facts = replay(
        table(telemetry, other.follower(30_001, 2, 90, 90, 1).progress(60_000), controller().progress(60_000))
    )
    assert values_of(facts.hw_regressions, "class", severity="critical") == []


def test_numbers_that_start_anew_inside_an_epoch_are_reported_once():
    """A writer that forgot to begin a new source_epoch: its rows from then on look like repeats."""
    telemetry = led().append(10, 1).append(20, 2).append(30, 3)
    again = led().append(10, 1).append(20, 2)
    restarted = [row | {"ts": row["ts"] + 5_000_000} for row in again.rows]
    reconstructor = Reconstructor()
    parts = [reconstructor.update(table(telemetry)), reconstructor.update(table(again))]
    assert values_of(Facts.concat(parts).telemetry_gaps, "kind") == [], "repeats are no news"
    parts += [reconstructor.update(events_of(restarted)), reconstructor.finish()]
    assert values_of(Facts.concat(parts).telemetry_gaps, "kind", "seq_from", "ms") == [("reset", 3, 5000)]


def test_what_comes_after_missing_rows_refutes_no_report_of_before():
    """What is missing is the start of another topic of that name."""
    telemetry = led(level=2).append(10, 9).hw(20, 9).skip().replica_leo(1000, 2, 0).append(1010, 1).progress(60_000)
    facts = replay(table(telemetry))
    assert values_of(facts.partition_hw, "reported_hw", agreement="disagree") == []


def test_a_report_below_the_hw_after_missing_rows_proves_nothing():
    """The leader started again with a shorter log, and that line is missing."""
    telemetry = led().append(10, 9).fetch(20, 2, 9).hw(20, 9).skip().append(5000, 3).fetch(5010, 2, 3)
    telemetry.event(5010, "hw", replica_id=1, hw=2, hw_before=0, leader_id=1).append(9000, 4).progress(60_000)
    assert ("report", "only_witness") in values_of(
        replay(table(telemetry)).partition_hw, "kind", "agreement", reported_hw=2
    )


def test_a_hold_by_a_replica_outside_the_isr_is_a_guess_while_its_fetches_are_missing():
    """Broker 3 counts as caught up by a fetch that it did not make, since the one before it is missing."""
    telemetry = led(isr=[1, 2, 3], replicas=[1, 2, 3]).append(10, 9).fetch(20, 2, 9).fetch(21, 3, 9).hw(21, 9)
    telemetry.append(1000, 12).skip().fetch(1010, 2, 12).fetch(2000, 3, 10).fetch(2500, 2, 12)
    telemetry.isr(3000, [1, 2], 1).hw(3000, 12).fetch(3500, 2, 12).fetch(3600, 3, 11).progress(60_000)
    facts = replay(table(telemetry), Rules(lag_max_ms=6000))
    assert values_of(facts.partition_hw, "reported_hw", agreement="disagree") == []


def test_a_first_term_behind_missing_rows_of_its_leader_is_judged():
    """The rows before it may have shown that this broker led before, in the same leader epoch."""
    telemetry = Source(level=0).skip().leader(1000, 0, 0, 0, [1, 2], replicas=[1, 2]).progress(90_000)
    facts = replay(table(telemetry, controller().election(10, 1, 0, isr=[1, 2]).progress(90_000)))
    assert values_of(facts.hw_regressions, "class") == ["loss_not_excluded"]
