"""Each rule of `silver/hw_regressions` about the start of a term."""

from __future__ import annotations

import json

import pytest

from pipelines.replication.partition.events import PartitionEvent
from tests.unit.replication.history_cases import (
    T1,
    T2,
    FakeLookup,
    brief,
    changes,
    election,
    follower,
    history_of,
    isr,
    leader,
    regressions,
    summary,
)


def test_a_new_leader_that_has_all_that_was_committed_is_no_finding():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 300, 300, (2,))]
    assert regressions(events, lookup) == []


def test_stale_leader_hw_after_a_clean_failover_is_info():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 310, 290, (2,))]
    (row,) = regressions(events, lookup)
    assert brief(row) == ("stale_leader_hw", "info", "proven", None, None)
    assert (row["hw_before"], row["hw_after"], row["start_offset"]) == (300, 290, 310)


@pytest.mark.parametrize("later", [None, 295, 310])
def test_stale_leader_hw_is_published_at_once_whether_or_not_it_catches_up(later):
    """That it starts with all that was committed is known; that followers fetch again is another matter."""
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2})), (2, 5000): summary(later)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 310, 290, (1, 2))]
    assert [(r["class"], r["severity"], r["revision"]) for r in regressions(events, lookup)] == [
        ("stale_leader_hw", "info", 1)
    ]


def test_unclean_loss_is_proven_once_the_leader_before_has_reported_that_it_knows():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        follower(10, 2, 0, 0, 0, 1),
        leader(5000, 2, 1, 120, 30, (2,), unclean=True),
        follower(20000, 1, 1, 300, 300, 2),
    ]
    rows = [r for r in history_of(events, lookup).take_regressions() if r["class"] == "unclean_loss"]
    assert [(r["proof"], r["revision"], r["regression_id"]) for r in rows] == [
        ("bounded", 1, "c/clicks-0/first-topic-id/term-1.0"),
        ("proven", 2, "c/clicks-0/first-topic-id/term-1.0"),
    ]
    assert brief(rows[-1]) == ("unclean_loss", "critical", "proven", 120, 300)
    assert (rows[-1]["lost_records"], rows[-1]["hw_before"], rows[-1]["hw_after"]) == (180, 300, 30)
    assert (rows[-1]["leader_id_before"], rows[-1]["leader_epoch_before"]) == (1, 0)


def test_committed_loss_is_any_other_start_below_what_was_committed():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 250, 250, (1, 2)),
        follower(5001, 1, 1, 300, 300, 2),
    ]
    assert [brief(r) for r in regressions(events, lookup)] == [("committed_loss", "critical", "proven", 250, 300)]


def test_resuming_the_same_epoch_below_the_hw_is_committed_loss():
    lookup = FakeLookup({(1, 0): summary(278)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 1, 0, 121, 119, (1, 2))]
    (row,) = regressions(events, lookup)
    assert brief(row) == ("committed_loss", "critical", "proven", 121, 278)
    assert row["regression_id"].endswith("term-0.1")


def test_resuming_the_same_epoch_with_an_old_checkpoint_loses_nothing():
    lookup = FakeLookup({(1, 0): summary(653)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 1, 0, 653, 622, (1, 2))]
    assert [brief(r) for r in regressions(events, lookup)] == [("stale_leader_hw", "info", "proven", None, None)]


def test_two_unclean_elections_in_a_row_lose_what_the_term_between_committed():
    lookup = FakeLookup(
        {(1, 0): summary(300, fetchers=frozenset({2})), (2, 5000): summary(150), (1, 9000): summary(300)},
    )
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 120, 100, (2,), unclean=True),
        leader(9000, 1, 2, 300, 300, (1,), unclean=True),
        follower(9500, 2, 2, 150, 150, 1),
    ]
    first, second = regressions(events, lookup)
    assert brief(first) == ("unclean_loss", "critical", "proven", 120, 300)
    assert brief(second) == ("unclean_loss", "critical", "proven", 120, 150)
    assert second["start_offset"] == 300
    assert json.loads(second["evidence"])["since"] == {"epoch": 1, "offset": 120}


def test_an_unclean_leader_of_which_nothing_is_known_gives_no_proof():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 120, 100, (2,), unclean=True)]
    (row,) = regressions(events, lookup)
    assert brief(row) == ("unclean_loss", "warning", "unproven", 120, 300)
    assert json.loads(row["evidence"])["missing"] == ["what broker 2 last replicated"]


def test_hmax_is_set_back_to_the_start_after_a_loss():
    lookup = FakeLookup(
        {(1, 0): summary(300, fetchers=frozenset({2})), (2, 5000): summary(200, fetchers=frozenset({1}))}
    )
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 120, 100, (2,), unclean=True),
        leader(9000, 1, 2, 220, 200, (1, 2)),
    ]
    assert [r["class"] for r in regressions(events, lookup)] == ["unclean_loss"]


def test_a_stored_hw_reported_late_reopens_the_term_after_it_and_counts_for_none_later():
    lookup = FakeLookup(
        {(1, 0): summary(level=0, fetchers=frozenset({2, 3})), (2, 5000): summary(130, fetchers=frozenset({3}))}
    )
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        follower(10, 3, 0, 0, 0, 1),
        leader(5000, 2, 1, 120, 100, (2,), unclean=True),
        leader(8000, 2, 2, 130, 130, (2,)),
        follower(9000, 3, 2, 160, 150, 2),
        leader(12000, 3, 3, 130, 130, (2, 3)),
    ]
    rows = history_of(events, lookup).take_regressions()
    losses = [r for r in rows if r["class"].endswith("_loss")]
    assert [(r["leader_epoch"], brief(r)) for r in losses] == [
        (1, ("unclean_loss", "critical", "bounded", 120, 150)),
    ]
    assert json.loads(losses[0]["evidence"])["hw"]["by"] == "stored by broker 3"
    assert losses[0]["revision"] == 2  # before that a loss was only not excluded


def test_a_stored_hw_reported_late_raises_the_range_in_a_higher_revision():
    lookup = FakeLookup({(1, 0): summary(140, level=1, fetchers=frozenset({2, 3}))})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        follower(10, 3, 0, 0, 0, 1),
        leader(5000, 2, 1, 120, 100, (2,), unclean=True),
        follower(9000, 3, 1, 160, 150, 2),
    ]
    rows = [r for r in history_of(events, lookup).take_regressions() if r["class"] == "unclean_loss"]
    assert [(r["revision"], r["lost_to"]) for r in rows] == [(1, 140), (2, 150)]
    assert all("at_most" not in json.loads(r["evidence"]) for r in rows)  # a follower's end bounds nothing


def test_a_stored_hw_of_a_follower_that_never_fetched_belongs_to_the_term_before():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2, 3})), (2, 5000): summary(130)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        follower(10, 3, 0, 0, 0, 1),
        leader(5000, 2, 1, 120, 100, (2,), unclean=True),
        follower(6000, 3, 1, 300, 290, 2),
        follower(7000, 3, 1, 300, 290, 2),
        leader(9000, 2, 2, 140, 130, (2,)),
    ]
    assert [r["leader_epoch"] for r in regressions(events, lookup) if "loss" in r["class"]] == [1]


def test_a_former_leader_alone_in_the_isr_had_committed_all_it_comes_back_with():
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(level=0)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2), level=0),
        follower(10, 2, 0, 0, 0, 1),
        isr(2000, 1, (1,), 1, leader_id=1, leader_epoch=0),
        follower(4000, 2, 0, 120, 30, 1),
        leader(5000, 2, 1, 120, 30, (2,), unclean=True, partition_epoch=2, level=0),
        follower(9000, 1, 1, 300, 230, 2),
    ]
    (row,) = [r for r in regressions(events, lookup) if r["class"] == "unclean_loss"]
    assert brief(row) == ("unclean_loss", "critical", "bounded", 120, 300)
    assert json.loads(row["evidence"])["bound"] == "at_least"


def test_a_former_leader_alone_below_min_isr_had_committed_only_what_it_stored():
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(level=0)}, least=2)
    events = [
        leader(0, 1, 0, 0, 0, (1, 2), level=0),
        follower(10, 2, 0, 0, 0, 1),
        isr(2000, 1, (1,), 1, leader_id=1, leader_epoch=0),
        follower(4000, 2, 0, 120, 30, 1),
        leader(5000, 2, 1, 120, 30, (2,), unclean=True, partition_epoch=2, level=0),
        follower(9000, 1, 1, 300, 230, 2),
    ]
    (row,) = [r for r in regressions(events, lookup) if r["class"] == "unclean_loss"]
    assert (row["lost_to"], json.loads(row["evidence"])["at_most"]) == (230, [120, 300])


@pytest.mark.parametrize("knew", [True, False])
def test_a_leader_made_the_last_of_its_isr_when_it_was_dead_already_committed_no_more(knew):
    lookup = FakeLookup({(1, 0): summary(0, leader_leo=1, fetchers=frozenset({2}))})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        isr(5000, 9, (1,), 1, "controller", leader_id=1, leader_epoch=0),
        *([isr(5010, 1, (1,), 1, leader_epoch=0)] if knew else []),
        election(5300, -1, 1, isr=(), partition_epoch=2),
        leader(16_000, 1, 2, 1, 0, (1,), unclean=True, partition_epoch=3),
    ]
    assert [row["class"] for row in regressions(events, lookup)] == (["stale_leader_hw"] if knew else [])


def test_an_election_from_outside_the_isr_is_unclean_even_where_nobody_reports_it():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        isr(2000, 1, (1,), 1, leader_id=1, leader_epoch=0),
        leader(5000, 2, 1, 120, 30, (2,), partition_epoch=2),
    ]
    assert [r["class"] for r in regressions(events, lookup)] == ["unclean_loss"]


@pytest.mark.parametrize("earlier", [True, False])
def test_the_controller_reports_that_an_election_was_unclean_before_or_after_the_leader(earlier):
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        election(4990 if earlier else 5100, 2, 1, unclean=True),
        leader(5000, 2, 1, 120, 30, (2,)),
    ]
    rows = regressions(sorted(events, key=lambda n: n.ts), lookup)
    assert [(r["class"], r["revision"]) for r in rows] == [("unclean_loss", 1)]


def test_unproven_when_the_start_is_not_reported():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), election(5000, 2, 1, unclean=True)]
    (row,) = regressions(events, lookup)
    assert brief(row) == ("unclean_loss", "warning", "unproven", None, None)
    assert "start offset" in json.loads(row["evidence"])["missing"]


def test_a_start_reported_after_long_settles_what_was_unproven():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        election(5000, 2, 1, unclean=True),
        leader(40000, 2, 1, 120, 30, (2,)),
        follower(50000, 1, 1, 300, 300, 2),
    ]
    rows = [r for r in history_of(events, lookup).take_regressions() if r["class"] == "unclean_loss"]
    assert [(r["revision"], r["proof"]) for r in rows] == [(1, "unproven"), (2, "bounded"), (3, "proven")]


def test_unproven_when_the_new_leader_has_a_gap():
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2})), (2, 5000): summary(has_gap=True)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 250, 250, (1, 2))]
    (row,) = regressions(events, lookup)
    assert brief(row) == ("committed_loss", "warning", "unproven", 250, 300)
    assert json.loads(row["evidence"])["missing"] == ["telemetry of broker 2 without a gap"]


def test_a_gap_of_the_leader_before_leaves_a_bound():
    lookup = FakeLookup({(1, 0): summary(300, has_gap=True)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 250, 250, (1, 2)), follower(5001, 1, 1, 300, 300, 2)]
    assert [brief(r) for r in regressions(events, lookup)] == [("committed_loss", "critical", "bounded", 250, 300)]


def test_a_stored_hw_behind_a_gap_of_its_broker_proves_nothing():
    """Broker 3 may have followed in a later term by then, of which nothing is known: its HW may be of that."""
    lookup = FakeLookup({(1, 0): summary(level=0, fetchers=frozenset({2, 3})), (2, 5000): summary(level=0)})
    gap = PartitionEvent(8_000_000, "gap", 3)
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        follower(10, 3, 0, 0, 0, 1),
        leader(5000, 2, 1, 20, 20, (2, 3)),
        follower(9000, 3, 2, 100, 100, 2),
    ]
    whole = [r for r in regressions(events, lookup) if r["class"] == "committed_loss"]
    assert [brief(r) for r in whole] == [("committed_loss", "critical", "bounded", 20, 100)]
    (row,) = [r for r in regressions([*events[:3], gap, *events[3:]], lookup) if r["class"] == "committed_loss"]
    assert (row["severity"], row["proof"]) == ("warning", "unproven")
    assert json.loads(row["evidence"])["missing"] == ["telemetry of broker 3 without a gap"]


def test_unproven_when_no_topic_id_distinguishes_the_topic_from_another():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [leader(0, 1, 0, 0, 0, (1, 2), topic_id=None), leader(5000, 2, 1, 250, 250, (1, 2), topic_id=None)]
    (row,) = regressions(events, lookup)
    assert (row["proof"], json.loads(row["evidence"])["missing"]) == ("unproven", ["topic id"])


def test_what_a_deposed_leader_still_committed_counts_for_its_term():
    lookup = FakeLookup({(1, 0): summary(250, fetchers=frozenset({2}))})
    history = history_of([leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 250, 250, (2,))], lookup)
    assert history.take_regressions() == []
    history.zombie_rise(history.terms.terms[0], 260, 6_000_000)
    history.settle(1 << 61, lookup)
    assert [brief(r) for r in history.take_regressions()] == [("committed_loss", "critical", "bounded", 250, 260)]


def test_a_recreated_topic_starts_afresh_and_is_info():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 0, 0, 0, (2, 1), topic_id=T2)]
    (row,) = regressions(events, lookup)
    assert brief(row) == ("topic_recreated", "info", "proven", None, None)
    assert (row["hw_before"], row["hw_after"], row["topic_id"]) == (300, 0, T2)
    assert changes(events, lookup) == []


def test_a_replay_of_a_deleted_topic_by_a_restarted_controller_is_no_recreation():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        election(7000, 3, 0, topic_id="deleted", isr=(3, 4), partition_epoch=0),
        election(7001, 1, 0, isr=(1, 2), partition_epoch=0),
        election(20000, 3, 0, topic_id="deleted", isr=(3, 4), partition_epoch=0),
        isr(20001, 1, (1,), 1, leader_id=1, leader_epoch=0),
    ]
    history = history_of(events, lookup)
    assert (history.take_regressions(), history.registration.isr) == ([], (1,))


def test_the_leader_of_a_zombie_term_is_judged_in_epoch_order():
    lookup = FakeLookup({(1, 0): summary(300), (2, 5000): summary(320), (3, 4990): summary(310)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        leader(4990, 3, 2, 320, 300, (2, 3)),
        leader(5000, 2, 1, 300, 300, (1, 2, 3)),
    ]
    assert [(r["class"], r["leader_epoch"]) for r in regressions(events, lookup)] == [("stale_leader_hw", 2)]


def test_terms_folded_away_still_bound_what_was_committed():
    lookup = FakeLookup({(1, 1000 * i): summary(100 + i) for i in range(20)})
    events = [leader(1000 * i, 1, i, 100 + i, 100 + i, (1, 2)) for i in range(20)]
    history = history_of([*events, leader(30000, 2, 20, 50, 50, (1, 2))], lookup)
    assert len(history.terms.terms) <= 8
    assert [brief(r) for r in history.take_regressions()] == [("committed_loss", "critical", "bounded", 50, 119)]


def test_a_broker_last_seen_in_a_folded_term_is_bound_by_the_first_start_since():
    lookup = FakeLookup({(2, 0): summary(100)} | {(1, 1000 * i): summary(100 + i) for i in range(1, 12)})
    events = [leader(0, 2, 0, 0, 0, (1, 2))]
    events += [leader(1000 * i, 1, i, 100 + i, 100 + i, (1,)) for i in range(1, 12)]
    (row,) = regressions([*events, leader(30000, 2, 12, 500, 90, (2,), unclean=True)], lookup)
    assert (row["class"], row["lost_from"], row["lost_to"]) == ("unclean_loss", 101, 111)


def test_a_resumption_while_still_recovering_is_no_second_unclean_election():
    lookup = FakeLookup({(1, 0): summary(100, fetchers=frozenset({2})), (2, 5000): summary(200)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 100, 100, (2,), unclean=True),
        leader(9000, 2, 1, 150, 150, (2,), unclean=True),
    ]
    assert [brief(r) for r in regressions(events, lookup)] == [("committed_loss", "critical", "proven", 150, 200)]


@pytest.mark.parametrize("epoch", [None, 3])
def test_what_was_committed_in_a_term_reported_from_the_middle_counts(epoch):
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2}))})
    events = [
        PartitionEvent(0, "midflight", 1, leader_epoch=epoch, topic_id=T1),
        leader(5000, 2, 4, 250, 240, (1, 2)),
        follower(5001, 1, 4, 300, 300, 2),
    ]
    assert [brief(r) for r in regressions(events, lookup)] == [("committed_loss", "critical", "bounded", 250, 300)]


def test_a_gap_in_the_middle_of_a_term_begins_no_other():
    events = [leader(0, 1, 0, 0, 0, (1, 2)), PartitionEvent(3_000_000, "midflight", 1, leader_epoch=0)]
    assert len(history_of(events, FakeLookup()).terms.terms) == 1


def test_a_new_topic_that_only_the_controller_reports_is_adopted_when_the_old_one_stays_silent():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        election(7000, 3, 0, topic_id=T2, isr=(3, 4), partition_epoch=0),
        PartitionEvent(40_000_000, "isr", 3, isr=(3,), partition_epoch=1, detail="controller", topic_id=T2),
    ]
    history = history_of(events, lookup)
    assert [r["class"] for r in history.take_regressions()] == ["topic_recreated"]
    assert [(r["topic_id"], r["isr_before"], r["isr_after"]) for r in history.take_isr_changes()] == [
        (T2, [3, 4], [3]),
    ]
