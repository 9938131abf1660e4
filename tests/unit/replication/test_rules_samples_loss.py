"""Losses from samples: where a new leader's epoch begins, against the HWs that were sampled before."""

import json

from tests.unit.replication.bronze import last_rows
from tests.unit.replication.test_rules_samples_hw import facts_of
from tests.unit.replication.watching import ISR, Watched, cluster, rounds

COLUMNS = ("class", "severity", "proof", "lost_from", "lost_to", "leader_epoch", "level")


def led(isr: list[int] = ISR, hw: int = 300) -> list[Watched]:
    """Broker 1 leads to the HW 300 with its LEO at 310; replicas 2 and 3 have records of epoch 0."""
    one, two, three = cluster()
    one.seen(0, 1, 0, isr=[1, 2, 3]).began(900, 0, 0).leads(1000, 0, 100, 90).leads(3000, 0, 310, hw, isr=isr)
    if isr != [1, 2, 3]:
        one.seen(2900, 1, 0, isr=isr)
    two.follows(1000, 120)
    three.follows(1000, 100).follows(3000, 300)
    rounds(30_000, one, two, three)
    return [one, two, three]


def losses(*watched: Watched) -> list[tuple]:
    rows = sorted(last_rows(facts_of(*watched).hw_regressions, "regression_id"), key=lambda row: row["ts"])
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def test_a_new_leader_that_begins_below_a_sampled_hw_has_lost_at_least_that():
    one, two, three = led(isr=[1])
    three.seen(6000, 2, 2, isr=[2])
    two.began(6100, 2, 120, isr=[2]).leads(6100, 2, 120, 120, isr=[2])
    assert losses(one, two, three) == [("unclean_loss", "critical", "bounded", 120, 300, 2, 1)]


def test_a_loss_in_an_epoch_that_nobody_watched_shows_where_the_log_leaves_the_last_epoch_with_a_known_hw():
    """HW 300 in epoch 0, epoch 1 unclean from 120 and grown to 310, epoch 2 clean from 310 (proofs 4.4)."""
    one, two, three = led()
    three.seen(6000, 2, 2)
    two.began(6100, 2, 310, detail="epochs=1:120 2:310").leads(6100, 2, 320, 320)
    assert losses(one, two, three) == [("committed_loss", "critical", "bounded", 120, 300, 2, 1)]


def test_a_start_below_a_known_hw_of_an_epoch_between_is_where_that_epoch_begins_and_no_loss():
    """HW 300 in epoch 0, 305 in epoch 1 from 302, epoch 2 from 310: epoch 0 is left at 302, epoch 1 at 310."""
    one, two, three = led()
    three.seen(5000, 3, 1).began(5100, 1, 302).leads(5100, 1, 305, 305)
    two.seen(6000, 2, 2).began(6100, 2, 310, detail="epochs=1:302 2:310").leads(6100, 2, 320, 320)
    assert losses(one, two, three) == []


def test_a_watcher_that_starts_again_shows_the_loss_of_epochs_that_nobody_watched():
    one, two, three = cluster()
    one.seen(0, 1, 0).began(900, 0, 0).leads(3000, 0, 310, 300)
    rounds(5000, one, two, three)
    again = [Watched(broker, source_epoch=1) for broker in (1, 2, 3)]
    again[1].seen(26_000, 2, 2).began(26_100, 2, 310, detail="epochs=1:120 2:310").leads(26_100, 2, 320, 320)
    rounds(60_000, *again, since=26_000)
    assert losses(one, two, three, *again) == [("committed_loss", "critical", "bounded", 120, 300, 2, 1)]


def test_such_a_loss_says_that_it_may_be_more():
    one, two, three = led(isr=[1])
    three.seen(6000, 2, 2, isr=[2])
    two.began(6100, 2, 120, isr=[2])
    (row,) = facts_of(one, two, three).hw_regressions.to_pylist()
    assert json.loads(row["evidence"])["bound"] == "at_least"
    assert (row["hw_before"], row["hw_after"], row["start_offset"]) == (300, None, 120)


def test_a_member_of_the_isr_that_begins_below_a_sampled_hw_has_lost_it_too():
    one, two, three = led()
    three.seen(6000, 2, 1, isr=[2, 3])
    two.began(6100, 1, 250, isr=[2, 3])
    assert losses(one, two, three) == [("committed_loss", "critical", "bounded", 250, 300, 1, 1)]


def test_a_clean_election_that_begins_at_the_hw_or_above_is_safe():
    one, two, three = led()
    three.seen(6000, 3, 1, isr=[2, 3]).began(6100, 1, 300, isr=[2, 3]).leads(6100, 1, 320, 300, isr=[2, 3])
    assert losses(one, two, three) == []


def test_an_unclean_election_above_every_sampled_hw_does_not_exclude_a_loss():
    """What was committed between the last sample and the election nobody saw."""
    one, two, three = led(isr=[1])
    three.seen(6000, 3, 2, isr=[3]).began(6100, 2, 305, isr=[3])
    assert [row[:3] for row in losses(one, two, three)] == [("loss_not_excluded", "warning", "unproven")]


def test_a_new_leader_that_did_not_answer_meanwhile_does_not_exclude_a_loss():
    one, two, three = led()
    three.hung(5000).seen(6000, 3, 1, isr=[2, 3]).began(6100, 1, 300, isr=[2, 3])
    (row,) = facts_of(one, two, three).hw_regressions.to_pylist()
    assert row["class"] == "loss_not_excluded"
    assert "an answer of broker 3 in every round before" in json.loads(row["evidence"])["missing"]


def test_a_broker_that_was_back_in_the_isr_before_it_answered_again_had_started_by_then():
    """The metadata of a round is asked before the offsets."""
    one, two, three = led()
    two.seen(4000, 1, 0, isr=[1, 2]).seen(8000, 1, 0, isr=[1, 2, 3])
    three.hung(8100).follows(8100, 310).seen(9000, 3, 1, isr=[2, 3]).began(9100, 1, 310, isr=[2, 3])
    assert losses(one, two, three) == []


def test_the_first_term_seen_is_where_the_history_begins():
    assert losses(*led()) == []


def test_a_watcher_that_was_away_takes_what_it_had_sampled_for_a_lower_bound():
    one, two, three = led(isr=[1])
    again = Watched(2, 1).seen(40_000, 2, 4, isr=[2]).began(40_100, 4, 200, isr=[2]).leads(40_100, 4, 250, 250, isr=[2])
    assert losses(one, two, three, again.round(41_000)) == [("unclean_loss", "critical", "bounded", 200, 300, 4, 1)]


def test_a_hw_of_the_new_term_is_none_of_the_old_one():
    one, two, three = led()
    three.seen(6000, 3, 1, isr=[2, 3]).began(6100, 1, 300, isr=[2, 3]).leads(6100, 1, 900, 900, isr=[2, 3])
    rounds(40_000, one, two, three, since=31_000)
    assert losses(one, two, three) == []


def comes_back(end: int, **more) -> list[Watched]:
    """Leader 1, which had answered HW 300, answers an end of its log again in the same epoch."""
    one, two, three = led()
    one.leads(9000, 0, end, end, **more)
    for other in (two, three):
        other.follows(9000, end)
    rounds(60_000, one, two, three, since=10_000)
    return [one, two, three]


def test_a_leader_whose_log_ends_below_a_hw_that_it_answered_in_this_epoch_has_lost_that():
    """Nobody was elected: it was back before it was missed, without the end of its log."""
    assert losses(*comes_back(120)) == [("hw_moved_back", "critical", "bounded", 120, 300, 0, 1)]
    assert losses(*comes_back(300)) == []


def test_what_is_committed_after_such_a_cut_is_judged_by_itself():
    one, two, three = comes_back(120)
    one.leads(20_000, 0, 150, 150)
    for other in (one, two, three):
        other.seen(40_000, 2, 1, isr=[2, 3])
    two.began(40_000, 1, 140).leads(41_000, 1, 140, 140, isr=[2, 3])
    found = losses(one, two, three)
    assert found[0] == ("hw_moved_back", "critical", "bounded", 120, 300, 0, 1)
    assert [row[3:6] for row in found[1:]] == [(140, 150, 1)]


def test_where_topics_have_no_ids_such_a_cut_may_be_of_a_topic_that_was_created_anew():
    watched = comes_back(0)
    for one in watched:
        for row in one.rows:
            row["topic_id"] = None
    assert losses(*watched) == [("hw_moved_back", "warning", "unproven", 0, 300, 0, 1)]


def test_an_older_answer_to_a_watcher_whose_clock_is_ahead_is_no_cut():
    """Its rows lie behind those of another watcher, to which the leader answered later."""
    other = Watched(1)
    other.common = other.common | {"source_id": "watch/second/broker-1"}
    assert losses(*led(), other.leads(4500, 0, 250, 250)) == []
    assert losses(*led(), other.leads(60_000, 0, 260, 260)) == [
        ("hw_moved_back", "critical", "bounded", 260, 300, 0, 1)
    ]


def test_two_losses_in_a_row_are_two():
    one, two, three = led(isr=[1])
    three.seen(6000, 2, 2, isr=[2])
    two.began(6100, 2, 120, isr=[2]).leads(6100, 2, 200, 200, isr=[2])
    three.seen(9000, 3, 4, isr=[3]).began(9100, 4, 150, isr=[3], detail=None)
    found = losses(one, two, three)
    assert [row[:1] + row[3:6] for row in found] == [("unclean_loss", 120, 300, 2), ("unclean_loss", 150, 200, 4)]


def test_a_leader_that_may_have_joined_between_two_rounds_lost_nothing_for_sure():
    """Broker 2 was out of the ISR in one round and led in the next: it may have caught up and joined in between."""
    one, two, three = led(isr=[1, 3])
    three.seen(6000, 2, 2, isr=[2, 3])
    two.began(6100, 2, 305, isr=[2, 3])
    assert [row[:3] for row in losses(one, two, three)] == [("loss_not_excluded", "warning", "unproven")]
