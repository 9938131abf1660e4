"""Held back at level 1 (docs/kafka-rules.md 7.5): a record that waits, and only the one that is left is named."""

import pytest

from pipelines.replication import Reconstructor
from tests.unit.replication.bronze import events_of
from tests.unit.replication.test_rules_samples_hw import present
from tests.unit.replication.watching import Watched, cluster, in_time, rounds


def waiting(**given) -> list[Watched]:
    """The HW stands at 100 from 5 s to 20 s; replica 2 goes on from 150, above it, replica 3 stays at 120."""
    one, two, three = (one.round(-20_000) for one in cluster())
    isr = given.get("isr", [1, 2, 3])
    one.config(0, lag_max_ms=30_000)
    one.config(0, "clicks", min_isr=given.get("min_isr", 1))
    one.seen(0, 1, 0, isr=isr).began(900, 0, 40, isr=isr)
    for ms, leo in ((5_000, 150), (10_000, 180), (15_000, 190), (20_000, 200)):
        one.leads(ms, 0, leo, given.get("hw", {}).get(ms, 100), isr=given.get("later", isr) if ms > 5_000 else isr)
    for ms, leo in given.get("second", ((4_000, 150), (9_000, 180), (14_000, 190))):
        two.follows(ms, leo)
    for ms, leo in given.get("third", ((4_000, 120),)):
        three.follows(ms, leo)
    rounds(20_000, one, two, three, since=5_000, every=5_000)
    return [one, two, three]


def held(*watched):
    row = present(*watched)
    return row["stalled_ms"], row["holding_replicas"]


def test_who_alone_was_not_seen_to_fetch_above_the_hw_holds_it():
    assert held(*waiting()) == (14_998, [3])


def test_of_several_that_may_hold_it_each_is_listed():
    assert held(*waiting(second=((4_000, 150),))) == (14_998, [2, 3])


def test_who_was_seen_to_go_on_from_the_hw_only_may_hold_it_at_its_end():
    """The leader knows where followers fetch: one that appended [100, 150) and hangs answers 150 and holds 100."""
    assert held(*waiting(second=((4_000, 100), (9_000, 150)))) == (14_998, [2, 3])


def test_who_went_on_from_above_is_never_named():
    assert held(*waiting(third=((4_000, 120), (9_000, 121)))) == (14_998, [])


def test_a_hw_that_moves_past_what_was_there_a_round_ago_is_not_held_back():
    """HW is sampled before the log end: a difference of a few records is noise, and was "held back for 15 s"."""
    moving = {5_000: 149, 10_000: 179, 15_000: 189, 20_000: 199}
    assert held(*waiting(hw=moving)) == (0, [])


def test_a_record_waits_though_the_hw_moves_below_it():
    assert held(*waiting(hw={5_000: 100, 10_000: 110, 15_000: 120, 20_000: 130}, third=((4_000, 100),)))[0] == 14_998


def test_another_isr_begins_anew():
    assert held(*waiting(later=[1, 3]))[0] == 9_999


@pytest.mark.parametrize("min_isr", [1, 2])
def test_with_one_replica_in_the_isr_or_under_min_isr_nobody_holds_anything(min_isr):
    behind = {"second": ((4_000, 40),), "third": ((4_000, 40),)}
    assert held(*waiting(isr=[1], min_isr=min_isr, **behind)) == (0, [])


def test_a_replica_outside_the_isr_that_is_caught_up_may_be_about_to_join():
    second = ((4_000, 100), (9_000, 180), (14_000, 190), (19_000, 200))
    joins = waiting(isr=[1, 3], second=second, third=((4_000, 120),))
    assert held(*joins)[1] == [3]
    joins = waiting(isr=[1, 3], second=((4_000, 100), (19_000, 200)), third=((4_000, 120),))
    assert held(*joins)[1] == [2, 3]


def test_a_stall_counts_no_longer_than_samples_were_read():
    """While newer samples waited for a silent broker, a wait that they end was told as lasting to the present."""
    one, two, three = waiting()
    three.rows = [row for row in three.rows if row["event_type"] != "progress" or len(three.rows) < 0]
    one.leads(21_000, 0, 300, 300).round(25_000, 29_000)
    two.follows(21_000, 300).round(25_000, 29_000)
    machine = Reconstructor()
    machine.update(events_of(in_time(one, two, three)))
    (row,) = machine.health().to_pylist()
    assert (row["hw"], row["stalled_ms"] <= 16_000) == (100, True)


def test_behind_by_less_than_a_round_and_by_always_the_same_is_held_back_as_long():
    """It began anew with each record that was committed, so that it was held back every other round."""
    one, two, three = (one.round(-20_000) for one in cluster())
    one.config(0, lag_max_ms=30_000)
    one.seen(0, 1, 0).began(900, 0, 40)
    for at in range(5, 65, 5):
        one.leads(at * 1_000, 0, at * 10, max(at - 15, 0) * 10)
        two.follows(at * 1_000 - 500, at * 10)
        three.follows(at * 1_000 - 500, max(at - 15, 0) * 10)
    rounds(60_000, one, two, three, since=5_000, every=5_000)
    assert held(one, two, three) == (9_998, [3])


@pytest.mark.parametrize(
    ("told", "isr", "stalled"), [(1, [1, 3], 14_998), (None, [1, 3], 0), (None, [1, 2, 3], 14_998)]
)
def test_an_isr_that_may_be_below_a_min_isr_which_nobody_told_is_not_held_back(told, isr, stalled):
    assert held(*waiting(isr=isr, min_isr=told))[0] == stalled


def test_the_log_of_a_follower_that_grew_before_the_term_says_nothing_of_its_fetches_in_it():
    """It was at 150, its old leader gave it 190: the new leader has not heard of it."""
    one, two, three = (one.round(-20_000) for one in cluster())
    one.config(0, lag_max_ms=30_000)
    two.began(0, 0, 40)
    two.leads(1_000, 0, 190, 100)
    three.follows(1_000, 150)
    one.seen(2_000, 1, 1).began(2_900, 1, 190)
    for at in (5_000, 10_000, 15_000):
        one.leads(at, 1, 200, 100)
    two.follows(4_000, 200, log_epoch=1)
    three.follows(4_500, 190)
    rounds(15_000, one, two, three, since=5_000, every=5_000)
    assert held(one, two, three) == (9_998, [2, 3])


@pytest.mark.parametrize(("log_epoch", "holders"), [(0, [2, 3]), (1, [2]), (None, [2])])
def test_a_log_that_grew_by_records_of_an_earlier_epoch_may_follow_the_former_leader(log_epoch, holders):
    """A leader that is cut off from the controllers goes on to answer fetches: the new one knows nothing of them."""
    one, two, three = (one.round(-20_000) for one in cluster())
    one.config(0, lag_max_ms=30_000)
    one.seen(2_000, 1, 1).began(2_900, 1, 120)
    for at in (5_000, 10_000, 15_000):
        one.leads(at, 1, 200, 100)
    two.follows(4_000, 150, log_epoch=0)
    three.follows(4_500, 150, log_epoch=0).follows(9_500, 190, log_epoch=log_epoch)
    rounds(15_000, one, two, three, since=5_000, every=5_000)
    assert held(one, two, three) == (9_998, holders)


def test_a_replica_that_missed_a_round_may_have_started_again_and_fetched_from_further_below():
    watched = waiting(second=((4_000, 150), (9_000, 180)))
    watched[1].hung(8_000)
    assert held(*watched) == (14_998, [2, 3])


def test_a_hw_that_fell_after_a_missed_round_counts_from_there():
    """The leader may have started again with the HW of its checkpoint: what is above it may have been committed."""
    watched = waiting(hw={5_000: 100, 10_000: 100, 15_000: 90, 20_000: 90})
    watched[0].hung(14_000)
    assert held(*watched)[0] == 4_999
