"""The rules by which the leader moves the high watermark: when, up to where, and who holds it."""

from __future__ import annotations

import pytest

from pipelines.replication import Rules, replay
from tests.unit.replication.bronze import Source, advances, controller, table, values_of

SECOND = 1000


def led(isr=(1, 2), replicas=(1, 2), leo=0, hw=0, **more):
    """Broker 1 leads from millisecond 0; nobody has fetched yet."""
    return Source("broker-1/replication.log").leader(0, 0, leo, hw, list(isr), replicas=list(replicas), **more)


def test_an_append_moves_the_high_watermark():
    assert advances(replay(table(led(isr=[1], replicas=[1]).append(10, 4)))) == [(10, 4)]


def test_a_fetch_that_changes_the_leo_of_a_follower_moves_the_high_watermark():
    assert advances(replay(table(led().append(10, 4).fetch(20, 2, 4)))) == [(20, 4)]


def test_a_fetch_at_the_same_leo_does_not_try():
    """Broker 3 held the HW as a joiner; its hold has lapsed, and a repeated fetch is no trigger."""
    telemetry = led(replicas=[1, 2, 3]).fetch(5, 3, 0).append(10, 4).fetch(20, 2, 4).fetch(31 * SECOND, 2, 4)
    assert advances(replay(table(telemetry))) == []


def test_a_new_term_tries_at_once():
    facts = replay(table(led(isr=[1], replicas=[1], leo=7, hw=3)))
    assert values_of(facts.partition_hw, "kind", "hw") == [("term_start", 3), ("advance", 7)]


def test_a_committed_isr_tries_at_once():
    telemetry = led(isr=[1, 2]).append(10, 4).isr(20, [1], epoch=1)
    assert advances(replay(table(telemetry))) == [(20, 4)]


def test_a_refused_proposal_does_not_try():
    """The joiner of a refused expansion counts no more, yet only the next event moves the HW."""
    telemetry = led(isr=[1], replicas=[1, 2]).proposed(5, [1, 2], "expand").append(10, 4).rejected(20)
    assert advances(replay(table(telemetry))) == []
    assert advances(replay(table(telemetry.append(30, 5)))) == [(30, 5)]


def joining(*states):
    """Broker 2 caught up at 10 but not in the ISR, and what the controller says of it before it fetches on."""
    telemetry = led(isr=[1], replicas=[1, 2], leo=4, hw=4).fetch(10, 2, 4).append(20, 6)
    other = controller()
    for ms, state in states:
        other.broker_state(ms, 2, state, epoch=7 + ms)
    return table(telemetry.progress(50 * SECOND), other.progress(50 * SECOND))


def test_the_high_watermark_waits_for_a_caught_up_replica_that_is_about_to_join():
    assert advances(replay(joining())) == []


@pytest.mark.parametrize("state", ["fenced", "controlled_shutdown", "unregistered", "started"])
def test_the_high_watermark_does_not_wait_for_a_replica_that_may_not_join(state):
    assert advances(replay(joining((5, state)))) == [(20, 6)]


def test_the_high_watermark_waits_again_for_an_unfenced_replica():
    assert advances(replay(joining((5, "fenced"), (15, "unfenced")))) == []


def test_a_fenced_member_of_the_isr_holds_the_high_watermark_until_it_is_out():
    other = controller().broker_state(5, 2, "fenced", epoch=7)
    telemetry = led().append(10, 4)
    assert advances(replay(table(telemetry, other))) == []
    assert advances(replay(table(telemetry.isr(30, [1], epoch=1, detail="metadata"), other))) == [(30, 4)]


def test_the_hold_of_a_joiner_lapses_only_at_the_next_event():
    """Nothing happens at 30,011 by itself: there is no timer."""
    telemetry = led(isr=[1], replicas=[1, 2], leo=4, hw=4).fetch(10, 2, 4).append(20, 6)
    telemetry.progress(40 * SECOND).append(41 * SECOND, 7)
    assert advances(replay(table(telemetry))) == [(41 * SECOND, 7)]


def test_a_joiner_holds_for_exactly_the_lag():
    def story(ms):
        return led(isr=[1], replicas=[1, 2], leo=4, hw=4).fetch(10, 2, 4).append(20, 6).append(ms, 7)

    assert advances(replay(table(story(30_010)))) == []
    assert advances(replay(table(story(30_011)))) == [(30_011, 7)]


def test_an_unknown_leo_of_an_isr_member_holds_the_high_watermark():
    telemetry = led(isr=[1, 2, 3], replicas=[1, 2, 3]).append(10, 4).fetch(20, 2, 4)
    assert advances(replay(table(telemetry))) == []
    assert advances(replay(table(telemetry.fetch(30, 3, 2)))) == [(30, 2)]


def test_an_unknown_leader_leo_holds_the_high_watermark():
    """Seen leading without its start: fetches alone do not say where its log ends."""
    telemetry = Source("broker-1/replication.log").isr(0, [1, 2], epoch=4)
    telemetry.fetch(10, 2, 5).fetch(20, 2, 6).hw(20, 5)
    facts = replay(table(telemetry))
    assert values_of(facts.partition_hw, "hw", "agreement", kind="advance") == [(5, "only_witness")]


def test_a_follower_that_fetches_backwards_does_not_lower_the_high_watermark():
    telemetry = led().append(10, 4).fetch(20, 2, 4).fetch(30, 2, 1).fetch(40, 2, 3)
    assert advances(replay(table(telemetry))) == [(20, 4)]


def frozen(min_isr=2, **more):
    """ISR of broker 1 alone from 30 on, broker 2 fenced; 3 records in at 40; back at 60."""
    telemetry = led(min_isr=min_isr, **more).append(10, 2).fetch(20, 2, 2).isr(30, [1], epoch=1, detail="metadata")
    telemetry.append(40, 5).fetch(50, 2, 5).proposed(51, [1, 2], "expand").isr(60, [1, 2], epoch=2)
    return table(
        telemetry, controller().broker_state(25, 2, "fenced", epoch=7).broker_state(45, 2, "unfenced", epoch=8)
    )


def test_under_min_isr_the_high_watermark_freezes_and_thaws():
    facts = replay(frozen())
    found = values_of(facts.partition_hw, "ms", "kind", "hw", "frozen")
    assert found == [
        (0, "term_start", 0, False),
        (20, "advance", 2, False),
        (30, "freeze", 2, True),
        (60, "thaw", 2, False),
        (60, "advance", 5, False),
    ]


def test_before_kafka_3_7_min_isr_does_not_freeze_the_high_watermark():
    facts = replay(frozen(), Rules(strict_min_isr=False))
    assert advances(facts, frozen=False) == [(20, 2), (40, 5)]
    assert values_of(facts.partition_hw, "kind") == ["term_start", "advance", "advance"]


def test_the_effective_min_isr_is_no_more_than_the_number_of_replicas():
    telemetry = led(isr=[1], replicas=[1], min_isr=3).append(10, 4)
    assert advances(replay(table(telemetry))) == [(10, 4)]


def test_only_the_committed_isr_counts_for_min_isr():
    telemetry = led(isr=[1], min_isr=2).append(10, 4).fetch(20, 2, 4).proposed(21, [1, 2], "expand").append(25, 5)
    assert advances(replay(table(telemetry.fetch(26, 2, 5)))) == []


def test_a_configured_min_isr_counts_from_its_time():
    telemetry = led(isr=[1]).progress(5).append(10, 4).append(20, 5)
    facts = replay(table(telemetry, controller().config(15, "clicks", min_isr=2)))
    assert values_of(facts.partition_hw, "ms", "kind") == [(0, "term_start"), (10, "advance"), (20, "freeze")]


@pytest.mark.parametrize(("topic_id", "min_isr"), [("first-id", 1), ("earlier-id", 2), (None, 1)])
def test_what_was_configured_for_a_deleted_topic_counts_for_no_other_of_its_name(topic_id, min_isr):
    telemetry = led(isr=[1], min_isr=2).append(10, 4)
    other = controller().event(-5, "config", True, topic="clicks", topic_id=topic_id, min_isr=1)
    assert advances(replay(table(telemetry, other))) == ([(10, 4)] if min_isr == 1 else [])


def test_a_pending_expansion_counts_for_the_high_watermark():
    """The joiner is long silent, so only the maximal ISR (old and new) lets it hold the HW."""
    telemetry = led(isr=[1], replicas=[1, 2], leo=4, hw=4).fetch(10, 2, 4).proposed(39 * SECOND, [1, 2], "expand")
    assert advances(replay(table(telemetry.append(40 * SECOND, 6)))) == []


def test_a_pending_shrink_keeps_the_old_isr():
    telemetry = led().append(10, 4).fetch(20, 2, 1).proposed(31, [1], "shrink").append(40, 6)
    assert advances(replay(table(telemetry))) == [(20, 1)]
    assert advances(replay(table(telemetry.isr(50, [1], epoch=1)))) == [(20, 1)], "caught up, it may rejoin"


def test_a_rejection_restores_the_committed_isr():
    telemetry = led(isr=[1], replicas=[1, 2], leo=4, hw=4).fetch(10, 2, 4).proposed(39 * SECOND, [1, 2], "expand")
    telemetry.rejected(39_500).append(40 * SECOND, 6)
    assert advances(replay(table(telemetry))) == [(40 * SECOND, 6)]


def test_witnesses_of_one_commit_count_once():
    telemetry = led(isr=[1, 2]).append(10, 4).fetch(20, 2, 4)
    telemetry.isr(30, [1], epoch=1).isr(35, [1], epoch=1, detail="metadata").isr(40, [1, 2], epoch=2)
    telemetry.isr(45, [1], epoch=1, detail="metadata").append(50, 6)
    facts = replay(table(telemetry, controller().isr(29, [1], 1, "controller").isr(39, [1, 2], 2, "controller")))
    assert values_of(facts.isr_changes, "ms", "partition_epoch", "change") == [(29, 1, "shrink"), (39, 2, "expand")]
    assert advances(facts) == [(20, 4)], "the old commit, reported again at 45, changes nothing"


def test_the_controller_never_moves_the_high_watermark():
    """The leader is a controller too: what it logs as such comes earlier than its own commit."""
    telemetry = led().append(10, 4).isr(20, [1], 1, "controller", leader_id=1).progress(25)
    assert advances(replay(table(telemetry))) == []
    assert advances(replay(table(telemetry.isr(30, [1], epoch=1)))) == [(30, 4)]


def test_the_replicas_that_hold_the_high_watermark_are_named():
    telemetry = led(isr=[1, 2, 3], replicas=[1, 2, 3]).append(10, 4).fetch(20, 2, 3).fetch(30, 3, 3)
    assert values_of(replay(table(telemetry)).partition_hw, "holding_replicas", kind="advance") == [[2, 3]]


def test_the_last_value_of_each_window_is_kept_at_a_coarser_resolution():
    telemetry = led(isr=[1], replicas=[1])
    for ms in (100, 400, 900, 1200, 1500, 2100):
        telemetry.append(ms, ms)
    facts = replay(table(telemetry.progress(9000)), Rules(hw_resolution_ms=1000))
    assert advances(facts) == [(900, 900), (1500, 1500), (2100, 2100)]


def test_term_starts_freezes_and_disagreements_are_kept_at_any_resolution():
    telemetry = led(min_isr=2, isr=[1, 2]).append(10, 4).fetch(20, 2, 4).hw(25, 3)
    telemetry.isr(30, [1], epoch=1).isr(40, [1, 2], epoch=2).append(400, 5).fetch(410, 2, 5)
    facts = replay(table(telemetry.progress(9000)), Rules(hw_resolution_ms=1000))
    kept = [(0, "term_start"), (25, "report"), (30, "freeze"), (40, "thaw"), (410, "advance")]
    assert values_of(facts.partition_hw, "ms", "kind") == kept
