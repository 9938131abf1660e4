"""Reports of the broker and values of the reconstruction, matched one to one by value within a term."""

from __future__ import annotations

import pytest

from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.facts.tables import Facts
from tests.unit.replication.bronze import Source, controller, events_of, last_rows, table, values_of


def led(isr=(1, 2), replicas=(1, 2), leo=0, hw=0, **more):
    return Source("broker-1/replication.log").leader(0, 0, leo, hw, list(isr), replicas=list(replicas), **more)


def agreed(telemetry, rules=None):
    """(kind, hw, reported, agreement) of every row after the start of the term; the broker goes on after them."""
    facts = replay(table(telemetry.rejected(59_000).progress(60_000)), rules)
    return values_of(facts.partition_hw, "kind", "hw", "reported_hw", "agreement")[1:]


def up_to(*leos):
    """Broker 2 fetches at these offsets at 100, 200, …; the leader's log ends at 100."""
    telemetry = led().append(10, 100)
    for k, leo in enumerate(leos, 1):
        telemetry.fetch(100 * k, 2, leo)
    return telemetry


def test_exact_right_after_the_event_that_carried_the_report():
    assert agreed(up_to(4).hw(100, 4)) == [("advance", 4, 4, "exact")]


def test_race_when_the_value_moved_on_before_the_report():
    assert agreed(up_to(4).fetch(105, 2, 6).hw(110, 4)) == [
        ("advance", 4, 4, "race"),
        ("advance", 6, None, "unreported"),
    ]


def test_race_when_the_report_came_first():
    assert agreed(led().append(10, 100).hw(90, 4).fetch(100, 2, 4)) == [("advance", 4, 4, "race")]


@pytest.mark.parametrize(("late", "agreement"), [(150, "exact"), (151, "unreported")])
def test_the_race_window_bounds_the_match(late, agreement):
    assert agreed(up_to(4).hw(100 + late, 4))[0] == ("advance", 4, 4 if agreement == "exact" else None, agreement)


@pytest.mark.parametrize(("early", "matched"), [(150, True), (151, False)])
def test_the_race_window_bounds_the_match_before_the_value(early, matched):
    telemetry = led().append(10, 100).hw(1000 - early, 4).fetch(1000, 2, 4)
    found = (
        [("advance", 4, 4, "race")] if matched else [("report", 0, 4, "disagree"), ("advance", 4, None, "unreported")]
    )
    assert agreed(telemetry) == found


def test_disagree_is_a_report_left_over():
    assert agreed(up_to(4).hw(100, 5)) == [("advance", 4, None, "unreported"), ("report", 4, 5, "disagree")]


def test_unreported_is_a_value_that_nothing_reported():
    assert agreed(up_to(4)) == [("advance", 4, None, "unreported")]


def test_one_report_answers_for_one_value_only():
    assert agreed(up_to(4, 6).hw(200, 6).hw(201, 4)) == [
        ("advance", 4, 4, "race"),
        ("advance", 6, 6, "exact"),
    ]


def test_a_value_that_was_reported_cannot_be_reported_again():
    """Once matched, 4 is taken: the second report of 4 after 6 is left over."""
    telemetry = up_to(4).hw(100, 4).fetch(110, 2, 6).hw(111, 6).hw(112, 4)
    assert agreed(telemetry) == [("advance", 4, 4, "exact"), ("advance", 6, 6, "exact"), ("report", 6, 4, "disagree")]


def test_a_report_of_the_hw_as_it_stands_cannot_disagree():
    """Late by more than the race window, or printed twice: it says what the HW is."""
    assert agreed(up_to(4).hw(100, 4).hw(105, 4)) == [("advance", 4, 4, "exact"), ("report", 4, 4, "exact")]
    assert agreed(up_to(4).hw(300, 4)) == [("advance", 4, None, "unreported"), ("report", 4, 4, "exact")]


@pytest.mark.parametrize("wrong_at", [195, 205])
def test_a_wrong_report_does_not_hide_behind_its_neighbour(wrong_at):
    """The broker reports 4 once more where it should report 6, before or after the fetch that makes it 6."""
    found = agreed(up_to(4, 6).hw(100, 4).hw(wrong_at, 4))
    assert ("report", 6, 4, "disagree") in found
    assert ("advance", 6, None, "unreported") in found


def test_reports_of_one_term_do_not_match_values_of_the_next():
    telemetry = led().append(10, 5).hw(15, 4).leader(20, 1, 5, 0, [1, 2], replicas=[1, 2]).fetch(30, 2, 4)
    found = agreed(telemetry)
    assert ("report", 0, 4, "only_witness") in found  # its term ended 5 ms later
    assert ("advance", 4, None, "unreported") in found


def test_only_witness_when_nothing_else_reports_the_end_of_a_sole_member():
    assert agreed(led(isr=[1]).hw(20, 7)) == [("advance", 7, 7, "only_witness")]


def test_only_witness_while_held_after_a_gap():
    telemetry = led().append(10, 100).fetch(20, 2, 4).lost(30).hw(40, 6).fetch(50, 2, 8).append(60, 101)
    assert agreed(telemetry) == [
        ("advance", 4, None, "unreported"),
        ("advance", 6, 6, "only_witness"),
        ("advance", 8, None, "unreported"),
    ]


def test_a_report_is_no_input_to_the_high_watermark():
    telemetry = up_to(4).hw(100, 50).fetch(2000, 2, 5)
    assert [row[1] for row in agreed(telemetry) if row[0] == "advance"] == [4, 5]


def printed(telemetry, ms, before, hw):
    """A report with the HW before it, as the broker prints it."""
    return telemetry.event(ms, "hw", replica_id=1, hw=hw, hw_before=before, leader_id=1)


def test_a_value_that_was_never_computed_is_a_race_where_the_chain_links_it():
    """Broker 2 fetches at 4 in one step; two threads print 2 to 4 ahead of 0 to 2."""
    telemetry = up_to(4)
    printed(telemetry, 100, 2, 4)
    printed(telemetry, 116, 0, 2)
    assert agreed(telemetry) == [("advance", 4, 4, "exact"), ("report", 4, 2, "race")]


def test_the_links_of_the_chain_may_be_printed_in_order():
    telemetry = up_to(4)
    printed(telemetry, 100, 0, 2)
    printed(telemetry, 105, 2, 4)
    assert sorted(agreed(telemetry)) == [("advance", 4, 4, "exact"), ("report", 4, 2, "race")]


def test_a_link_printed_late_counts_where_the_report_after_it_came_ahead_of_its_value():
    """As a recorded cluster printed it: 2 to 4, then the fetch that makes the HW 4, then 0 to 2."""
    telemetry = led().append(10, 6).fetch(20, 2, 0)
    printed(telemetry, 144, 2, 4)
    telemetry.fetch(158, 2, 4)
    printed(telemetry, 160, 0, 2)
    assert agreed(telemetry) == [("advance", 4, 4, "race"), ("report", 4, 2, "race")]


@pytest.mark.parametrize(
    ("before", "hw", "after"),
    [
        (0, 3, 2),  # what follows begins at 2, not at 3
        (1, 2, 2),  # nothing ended at 1
        (None, 2, None),  # without the value before only exact values match
    ],
)
def test_a_value_that_was_never_computed_disagrees_where_the_chain_does_not_link_it(before, hw, after):
    telemetry = up_to(4)
    printed(telemetry, 100, before, hw)
    printed(telemetry, 105, after, 4)
    assert ("report", 4, hw, "disagree") in agreed(telemetry)


def test_a_report_is_wrong_once_a_later_row_of_the_partition_is_past_it():
    """Until then its broker may have been killed between that line and the next."""
    telemetry = up_to(4).hw(100, 5)
    facts = replay(table(telemetry.progress(60_000)))
    assert values_of(facts.partition_hw, "kind", "agreement")[1:] == [
        ("advance", "unreported"),
        ("report", "only_witness"),
    ]
    later = replay(table(up_to(4).hw(100, 5).fetch(251, 2, 4).progress(60_000)))
    assert values_of(later.partition_hw, "kind", "agreement")[1:] == [("advance", "unreported"), ("report", "disagree")]


@pytest.mark.parametrize("kind", ["leader", "follower"])
def test_the_first_row_after_a_restart_is_no_later_row_of_that_incarnation(kind):
    telemetry = up_to(4).hw(100, 5)
    if kind == "leader":
        telemetry.leader(5000, 0, 4, 0, [1, 2], replicas=[1, 2])
    else:
        telemetry.follower(5000, 1, 4, 4, 2)
    facts = replay(table(telemetry.progress(60_000)))
    assert ("report", "only_witness") in values_of(facts.partition_hw, "kind", "agreement")


def test_a_report_left_over_is_judged_alike_however_the_batches_are_cut():
    rows = up_to(4).hw(100, 5).progress(8000).fetch(9000, 2, 4).progress(20_000).rows
    whole = values_of(replay(events_of(rows)).partition_hw, "kind", "hw", "reported_hw", "agreement")
    for cut in range(1, len(rows)):
        reconstructor = Reconstructor()
        parts = [reconstructor.update(events_of(rows[:cut]))]
        reconstructor = Reconstructor.restore(reconstructor.snapshot())
        parts += [reconstructor.update(events_of(rows[cut:])), reconstructor.finish()]
        assert sorted(
            values_of(Facts.concat(parts).partition_hw, "kind", "hw", "reported_hw", "agreement"), key=str
        ) == (sorted(whole, key=str))


def test_the_attempt_that_moves_the_hw_may_show_in_nothing_but_its_report():
    """A joiner's hold on the HW lapsed, or min ISR was lowered: by the LEOs the HW could have been 9 all along."""
    telemetry = (
        led(isr=[1], min_isr=2).append(10, 9).config(50, "clicks", min_isr=1).isr(60, [1], 0, "metadata").hw(70, 9)
    )
    assert ("advance", 9, 9, "exact") in agreed(telemetry)


def critical(telemetry, *others):
    rows = last_rows(
        replay(table(telemetry.rejected(59_000).progress(60_000), *others)).hw_regressions, "regression_id"
    )
    return [(row["class"], row["hw_before"], row["hw_after"]) for row in rows if row["severity"] == "critical"]


def test_one_low_report_is_only_disagree():
    telemetry = up_to(4).hw(100, 4).hw(1000, 2)
    assert agreed(telemetry)[-1] == ("report", 4, 2, "disagree")
    assert critical(telemetry) == []


def test_two_successive_low_reports_are_a_high_watermark_that_moved_back():
    assert critical(up_to(4).hw(100, 4).hw(1000, 2).hw(2000, 3)) == [("hw_moved_back", 4, 3)]


def test_two_low_reports_apart_are_not_successive():
    telemetry = up_to(4).hw(100, 4).hw(1000, 2).fetch(2000, 2, 5).hw(2000, 5).hw(3000, 3)
    assert critical(telemetry) == []


@pytest.mark.parametrize("run", [("broker-1/replication.log", 1), ("broker-1/replication.log+1", 0)])
def test_low_reports_of_another_run_may_be_the_older_ones(run):
    """Lines that are told again, or only now, come behind later ones; a clock that is set back hides it."""
    again = Source(*run).hw(1000, 2).hw(2000, 3).progress(60_000)
    assert critical(up_to(4).hw(100, 4), again) == []


def test_low_reports_of_one_run_moved_back_whatever_another_one_told():
    again = Source(source_epoch=1).fetch(150, 2, 5).hw(150, 5).hw(1000, 2).hw(2000, 3).progress(60_000)
    assert critical(up_to(4).hw(100, 4), again) == [("hw_moved_back", 5, 3)]


def test_low_reports_of_a_time_before_the_higher_one_are_nothing():
    assert critical(up_to(4).fetch(3000, 2, 5).hw(3000, 5).hw(1000, 2).hw(2000, 3)) == []


def test_low_reports_against_one_that_disagreed_are_nothing():
    assert critical(up_to(4).hw(100, 4).hw(1000, 50).hw(2000, 5).hw(3000, 6)) == []


def test_reports_cut_off_by_the_end_are_no_disagreement():
    telemetry = led().append(10, 100).hw(20, 4)
    facts = replay(table(telemetry))
    assert values_of(facts.partition_hw, "kind", "agreement")[1:] == [("report", "only_witness")]


def test_a_wider_race_window_matches_more():
    assert agreed(up_to(4).hw(400, 4), Rules(race_window_ms=500)) == [("advance", 4, 4, "exact")]


def above(*told_since, isr=(1, 2, 3)):
    """Brokers 2 and 3 hold the HW at 4 when a report of 6 comes; then what `told_since` has, as (ms, broker, LEO)."""
    telemetry = led(isr=isr, replicas=(1, 2, 3)).append(10, 100).fetch(20, 2, 4).fetch(30, 3, 4).hw(30, 4).hw(100, 6)
    for ms, broker, leo in told_since:
        telemetry.fetch(ms, broker, leo)
    return [row for row in agreed(telemetry) if row[0] == "report"]


def test_a_report_above_what_was_computed_disagrees_once_every_member_has_fetched():
    assert above((200, 2, 4), (300, 3, 4)) == [("report", 4, 6, "disagree")]


def test_while_a_member_of_the_isr_is_silent_a_report_may_be_right():
    """Its thread may have stood still between the line of the HW and that of the fetch, until the broker died."""
    assert above((200, 2, 6), (400, 2, 8)) == [("report", 4, 6, "only_witness")]


def test_a_report_right_behind_the_line_that_froze_the_hw_is_what_its_thread_did_before():
    telemetry = led(isr=[1], min_isr=1).append(10, 4).hw(10, 4)
    other = Source("broker-2/replication.log").config(100, "clicks", min_isr=2).progress(60_000)
    telemetry.append(120, 6).hw(120, 6).append(400, 8).progress(60_000)
    found = values_of(replay(table(telemetry, other)).partition_hw, "kind", "reported_hw", "agreement")[1:]
    assert ("advance", 6, "exact") in found
    assert not [row for row in found if row[2] == "disagree"]
    telemetry = led(isr=[1], min_isr=1).append(10, 4).hw(10, 4).append(120, 5).append(400, 6).hw(400, 6).append(900, 7)
    found = values_of(
        replay(table(telemetry.progress(60_000), other)).partition_hw, "kind", "reported_hw", "agreement"
    )[1:]
    assert ("report", 6, "disagree") in found


@pytest.mark.parametrize(("last_ms", "agreement"), [(240, "only_witness"), (260, "disagree")])
def test_missing_rows_right_behind_a_report_may_have_shown_it_right(last_ms, agreement):
    """They came after `last_ms`, the last row before them, whenever the next one shows that they are missing."""
    telemetry = (
        led(isr=(1, 2, 3), replicas=(1, 2, 3)).append(10, 100).fetch(20, 2, 4).fetch(30, 3, 4).hw(30, 4).hw(100, 6)
    )
    telemetry.fetch(last_ms, 2, 4).skip().fetch(500, 2, 4).fetch(501, 3, 4).fetch(700, 2, 4)
    assert [row for row in agreed(telemetry) if row[0] == "report"] == [("report", 4, 6, agreement)]


def test_where_rows_are_missing_since_the_isr_was_reported_a_report_alone_is_accepted():
    """The lost row may have been an ISR change; the next one that is reported ends the doubt."""

    def reports(*changes):
        telemetry = led(isr=(1, 2, 3), replicas=(1, 2, 3)).append(10, 100).fetch(20, 2, 6).fetch(30, 3, 4).hw(30, 4)
        telemetry.skip().fetch(500, 2, 6).fetch(501, 3, 4).append(502, 100)
        for ms, isr, epoch in changes:
            telemetry.isr(ms, isr, epoch)
        telemetry.hw(2000, 6).fetch(3000, 2, 6).fetch(3001, 3, 4)
        return [row for row in agreed(telemetry) if row[0] == "report"]

    assert reports() == [("report", 4, 6, "only_witness")]
    assert reports((600, [1, 2, 3], 2)) == [("report", 4, 6, "disagree")]


def test_a_member_that_fetched_no_more_before_it_left_the_isr_refutes_no_report():
    """Its thread stood still in the leader: what it held then is not known."""
    telemetry = led(isr=[1, 2, 3], replicas=[1, 2, 3]).append(10, 9).fetch(20, 2, 4).fetch(21, 3, 4).hw(21, 4)
    telemetry.fetch(30, 2, 9).hw(31, 9).fetch(900, 2, 9).isr(2000, [1, 2], 1).fetch(3000, 2, 9)
    assert ("report", 4, 9, "only_witness") in agreed(telemetry)


def test_the_broker_reports_its_own_start_that_ends_an_incarnation():
    """The controller has not reported it yet; by its version the broker has started again."""
    telemetry = up_to(4).hw(100, 5)
    telemetry.event(4000, "config", True, replica_id=1, detail="kafka=4.1.1").leader(
        5000, 1, 4, 0, [1, 2], replicas=[1, 2]
    )
    started = controller().broker_state(-500, 1, "started", epoch=1).broker_state(-400, 1, "unfenced", epoch=1)
    facts = replay(table(telemetry.fetch(6000, 2, 4).progress(60_000), started.progress(60_000)))
    assert ("report", "only_witness") in values_of(facts.partition_hw, "kind", "agreement")


def test_the_hw_that_a_leader_has_as_it_learns_of_an_isr_is_a_report():
    """The thread that raised it printed nothing any more."""
    telemetry = led(isr=[1, 2], replicas=[1, 2]).append(10, 9).fetch(20, 2, 4).hw(20, 4)
    telemetry.isr(1000, [1], 1, "metadata", hw=7, leader_epoch=0)
    other = Source("broker-2/replication.log").leader(5000, 1, 0, 0, [2], replicas=[1, 2]).progress(60_000)
    recorded = controller(controller_epoch=1, committed=True).election(4990, 2, 1, partition_epoch=2, isr=[2])
    facts = replay(table(telemetry, other, recorded.progress(60_000)))
    row = [r for r in facts.hw_regressions.to_pylist() if r["lost_to"] is not None][-1]
    assert (row["lost_to"], row["proof"]) == (7, "bounded")


def test_at_level_2_the_leos_of_an_attempt_that_raised_nothing_raise_nothing():
    """Broker 2 is outside the ISR and holds the HW: its leader does not know yet that the controller stopped it."""
    telemetry = led(isr=[1], replicas=[1, 2], level=2).append(10, 4).hw(11, 4).append(1000, 8)
    printed(telemetry, 1100, 4, 9)
    stopped = controller().broker_state(990, 2, "controlled_shutdown", epoch=1).progress(60_000)
    facts = replay(table(telemetry.append(2000, 9).progress(60_000), stopped))
    assert values_of(facts.partition_hw, "hw", "agreement", kind="advance")[-1] == (9, "only_witness")


def test_what_a_leader_reports_of_min_isr_as_it_begins_is_newer_than_the_config_of_before():
    """The change was made while nobody could report it."""
    before = controller().config(0, "clicks", min_isr=2).progress(60_000)
    source = (
        Source().leader(1000, 1, 4, 4, [1], replicas=[1, 2], min_isr=1).append(1010, 9).hw(1010, 9).progress(60_000)
    )
    facts = replay(table(source, before))
    assert values_of(facts.partition_hw, "hw", "agreement", kind="advance") == [(9, "exact")]


def test_a_replica_of_which_the_leader_may_not_have_heard_yet_refutes_no_report():
    """The controller let broker 3 in again a moment ago; for its leader it is fenced still, and holds nothing."""
    telemetry = led(isr=[1, 2, 3], replicas=[1, 2, 3]).append(10, 9).fetch(20, 2, 9).fetch(21, 3, 9).hw(21, 9)
    telemetry.isr(500, [1, 2], 1, "metadata").fetch(900, 3, 9, broker_epoch=2).append(990, 12).fetch(1010, 2, 12)
    telemetry.hw(1010, 12).fetch(1400, 2, 12).fetch(1500, 3, 10, broker_epoch=2)
    states = controller().broker_state(-90, 3, "started", epoch=1).broker_state(-80, 3, "unfenced", epoch=1)
    states.broker_state(490, 3, "fenced", epoch=1).broker_state(800, 3, "started", epoch=2)
    states.broker_state(1005, 3, "unfenced", epoch=2).progress(60_000)
    facts = replay(table(telemetry.progress(60_000), states))
    assert values_of(facts.partition_hw, "reported_hw", agreement="disagree") == []


def test_at_level_2_a_change_of_the_isr_raises_only_what_is_printed():
    """Broker 3 is outside the ISR and holds the HW: at level 2 nobody reports its LEO."""
    telemetry = led(isr=[1, 2], replicas=[1, 2, 3], min_isr=2, level=2).append(10, 9).replica_leo(11, 2, 9)
    telemetry.isr(1000, [1], 1, "metadata").isr(2000, [1, 2], 2).append(3000, 12).replica_leo(3001, 2, 12)
    facts = replay(table(telemetry.progress(60_000), controller().progress(60_000)))
    assert values_of(facts.partition_hw, "hw", kind="advance") == []
