"""Each rule about a log that was cut, and a HW that fell, inside a term."""

from __future__ import annotations

import pytest

from pipelines.replication.partition.events import PartitionEvent, TermSummary
from schemas.event_types import CLEAN_START
from tests.unit.replication.history_cases import (
    FakeLookup,
    brief,
    follower,
    history_of,
    isr,
    leader,
    regressions,
    summary,
    truncate,
)

FAILOVER = [
    leader(0, 1, 0, 0, 0, (1, 2)),
    follower(10, 2, 0, 0, 0, 1),
    leader(5000, 2, 1, 100, 100, (2,)),
    follower(5010, 1, 1, 110, 100, 2),
]


def test_uncommitted_truncation_cuts_what_was_above_the_hw_of_its_own_term():
    lookup = FakeLookup({(1, 0): summary(100, fetchers=frozenset({2})), (2, 5000): summary(500)})
    (row,) = regressions([*FAILOVER, truncate(6000, 1, 100)], lookup)
    assert brief(row) == ("uncommitted_truncation", "info", "proven", None, None)
    assert (row["replica_id"], row["hw_before"], row["hw_after"], row["leader_id"]) == (1, 100, 100, 2)


def test_cutting_nothing_is_no_finding():
    lookup = FakeLookup({(1, 0): summary(100, fetchers=frozenset({2})), (2, 5000): summary(500)})
    assert regressions([*FAILOVER, truncate(6000, 1, 110)], lookup) == []


def test_cutting_committed_records_outside_the_isr_is_what_the_terms_verdict_covers():
    lookup = FakeLookup({(1, 0): summary(105, fetchers=frozenset({2})), (2, 5000): summary(500)})
    classes = {r["class"] for r in regressions([*FAILOVER, truncate(6000, 1, 100)], lookup)}
    assert classes == {"committed_loss", "follower_hw_lowered"}


def test_a_cut_of_a_replica_of_the_isr_below_the_hw_alone_proves_no_loss():
    lookup = FakeLookup({(1, 0): summary(300)})
    (row,) = regressions([leader(0, 1, 0, 0, 0, (1, 2)), truncate(6000, 2, 250, before=300)], lookup)
    assert brief(row) == ("loss_not_excluded", "info", "unproven", None, None)
    assert (row["hw_before"], row["hw_after"], row["replica_id"]) == (300, 250, 2)


def test_a_replica_added_just_now_may_have_been_cut_before():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [leader(0, 1, 0, 0, 0, (1,)), isr(5950, 1, (1, 2), 1), truncate(6000, 2, 250, before=300)]
    assert regressions(events, lookup) == []


def test_followers_cut_back_to_a_leader_that_lost_records_lose_nothing_more():
    lookup = FakeLookup({(1, 0): summary(278), (1, 5000): summary(121)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 1, 0, 121, 119, (1, 2)),
        truncate(5500, 2, 121, before=278),
    ]
    assert [r["class"] for r in regressions(events, lookup)] == ["committed_loss"]


def test_log_start_advance_when_the_log_restarts_past_its_end():
    lookup = FakeLookup({(1, 0): summary(900)})
    events = [leader(0, 1, 0, 0, 0, (1,)), truncate(6000, 2, 400, before=300, log_start=400)]
    assert [brief(r) for r in regressions(events, lookup)] == [("log_start_advance", "info", "proven", None, None)]


def test_follower_hw_lowered_when_it_starts_below_its_own_hw():
    events = [leader(0, 1, 0, 0, 0, (1, 2)), follower(10, 2, 0, 90, 80, 1), follower(9000, 2, 0, 90, 60, 1)]
    (row,) = regressions(events, FakeLookup())
    assert brief(row) == ("follower_hw_lowered", "info", "proven", None, None)
    assert (row["replica_id"], row["hw_before"], row["hw_after"]) == (2, 80, 60)


def test_follower_hw_lowered_when_a_former_leader_comes_back_with_its_checkpoint():
    lookup = FakeLookup({(1, 0): summary(100, fetchers=frozenset({2}))})
    events = [*FAILOVER[:3], follower(9000, 1, 1, 100, 70, 2)]
    assert [(r["class"], r["hw_before"], r["hw_after"]) for r in regressions(events, lookup)] == [
        ("follower_hw_lowered", 100, 70),
    ]


@pytest.mark.parametrize(("hw", "found"), [(70, ["follower_hw_lowered"]), (80, []), (85, [])])
def test_follower_hw_lowered_when_its_leader_lowers_it(hw, found):
    events = [leader(0, 1, 0, 0, 0, (1, 2)), follower(10, 2, 0, 90, 80, 1)]
    fell = PartitionEvent(20_000, "hw", 2, replica_id=2, hw=hw)
    assert [r["class"] for r in regressions([*events, fell], FakeLookup())] == found


@pytest.mark.parametrize(("held", "severity", "proof"), [(False, "critical", "proven"), (True, "warning", "unproven")])
def test_hw_moved_back_when_successive_reports_lie_below_an_earlier_one(held, severity, proof):
    back = PartitionEvent(20_000, "hw", 1, replica_id=1, hw=70, before=90, detail="reports_back")
    lookup = FakeLookup({(1, 0): summary(90, has_gap=held)})
    (row,) = regressions([leader(0, 1, 0, 0, 0, (1, 2)), back], lookup)
    assert brief(row) == ("hw_moved_back", severity, proof, None, None)
    assert (row["hw_before"], row["hw_after"], row["leader_id"]) == (90, 70, 1)


def test_a_gap_reported_in_a_term_leaves_its_loss_bounded():
    lookup = FakeLookup({(1, 0): summary(300)})
    gap = PartitionEvent(100_000, "gap", 1)
    events = [leader(0, 1, 0, 0, 0, (1, 2)), gap, leader(5000, 2, 1, 250, 250, (2,)), follower(5001, 1, 1, 300, 300, 2)]
    assert [r["proof"] for r in regressions(events, lookup)] == ["bounded"]


class Rising(FakeLookup):
    """The HW passes 250 only at 5.9 s on the leader's clock."""

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSummary:
        return summary(250 if as_of < 5_900_000 else 300)


def test_a_cut_within_the_race_window_of_an_advance_is_not_below_the_hw():
    assert regressions([leader(0, 1, 0, 0, 0, (1, 2)), truncate(6000, 2, 250, before=300)], Rising()) == []


def test_a_cut_behind_missing_rows_of_its_replica_is_not_proven():
    """That it began to follow, and may cut its log, is missing."""
    events = [leader(0, 1, 0, 0, 0, (1, 2)), PartitionEvent(900_000, "gap", 2), truncate(1000, 2, 4)]
    row = regressions(events, FakeLookup({(1, 0): summary(9)}))[-1]
    assert (row["class"], row["proof"]) == ("loss_not_excluded", "unproven")


def test_a_cut_in_another_leader_epoch_than_the_present_one_is_no_hw_that_moved_back():
    """The replica's clock is ahead: it does not know the present leader yet."""
    events = [leader(0, 1, 0, 0, 0, (1, 2, 3)), leader(1000, 3, 1, 9, 9, (2, 3)), truncate(2000, 2, 4, leader_epoch=0)]
    assert "loss_not_excluded" not in [
        r["class"] for r in regressions(events, FakeLookup({(1, 0): summary(9), (3, 1000): summary(9)}))
    ]


def test_a_cut_far_from_the_return_of_its_leader_may_be_of_two_clocks():
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 1, 0, 4, 0, (1, 2)), truncate(600_000, 2, 4, leader_epoch=0)]
    rows = regressions(events, FakeLookup({(1, 0): summary(9), (1, 5000): summary(20)}))
    assert [r["proof"] for r in rows if "cut" in r["regression_id"]] == ["unproven"]


def test_a_log_recreated_from_the_log_start_of_its_leader_is_no_cut():
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        follower(1000, 2, 0, 0, 0, of=1),
        truncate(1001, 2, 5, leader_epoch=0, log_start=5),
    ]
    assert [r["class"] for r in regressions(events, FakeLookup({(1, 0): summary(9)}))] == ["log_start_advance"]


COMMITTED_LATER = [
    leader(0, 1, 0, 0, 0, (1, 2)),
    follower(10, 2, 0, 0, 0, 1),
    leader(5000, 2, 1, 20, 10, (2, 1)),
    leader(9000, 2, 1, 10, 10, (2, 1)),
    follower(9500, 1, 1, 20, 10, 2),
]


def test_what_a_later_leader_committed_and_lost_is_not_cut_uncommitted():
    """[10, 20) was not committed in epoch 0, inherited and committed in epoch 1, lost at its leader's restart."""
    terms = {(1, 0): summary(10, fetchers=frozenset({2})), (2, 5000): summary(20), (2, 9000): summary(15)}
    clean = {2: [(8000, "started", 8), (8100, CLEAN_START, None)]}
    rows = regressions([*COMMITTED_LATER, truncate(9600, 1, 10)], FakeLookup(terms, clean))
    assert [r["class"] for r in rows if r["class"] == "uncommitted_truncation"] == []
    terms[2, 5000] = summary(10)
    rows = regressions([*COMMITTED_LATER, truncate(9600, 1, 10)], FakeLookup(terms, clean))
    assert [r["class"] for r in rows if r["class"] == "uncommitted_truncation"] == ["uncommitted_truncation"]
    rows = regressions([*COMMITTED_LATER, truncate(9600, 1, 10)], FakeLookup(terms))  # 2 may have led on, untold
    assert [r["class"] for r in rows if r["class"] == "uncommitted_truncation"] == []


@pytest.mark.parametrize("level", [0, 3])
def test_a_cut_is_harmless_only_where_hws_can_be_reported(level):
    events = [leader(0, 1, 0, 0, 0, (1, 2), level=level), *FAILOVER[1:2]]
    events += [leader(5000, 2, 1, 100, 100, (2,), level=level), follower(5010, 1, 1, 110, 90, 2)]
    terms = {(1, 0): summary(100, level=level, fetchers=frozenset({2})), (2, 5000): summary(100, level=level)}
    rows = regressions([*events, truncate(6000, 1, 100)], FakeLookup(terms))
    assert [r["class"] for r in rows if "cut" in r["regression_id"]] == (["uncommitted_truncation"] if level else [])


def test_a_replica_that_cuts_below_its_own_hw_is_not_harmless():
    """The lake begins late; of its leader's start nothing is known."""
    events = [follower(0, 3, 4, 300, 280, 1), truncate(10, 3, 250), leader(2000, 1, 5, 260, 260, (1, 3))]
    rows = regressions(events, FakeLookup())
    assert "uncommitted_truncation" not in [r["class"] for r in rows]


def test_a_leader_cuts_no_log():
    """The line is of the copy in another directory that it is being moved to (ReplicaAlterLogDirsThread)."""
    lookup = FakeLookup({(1, 0): summary(300)})
    assert regressions([leader(0, 1, 0, 0, 0, (1, 2)), truncate(6000, 1, 250, before=300)], lookup) == []


def test_a_cut_is_not_harmless_where_no_start_since_is_known():
    """Leader 1 told HW 100 and no more; what it did after, and who leads now, nobody told."""
    events = [leader(0, 1, 1, 0, 0, (1, 2, 3)), follower(10, 3, 1, 0, 0, 1), follower(5010, 3, 2, 150, 100, 2)]
    lookup = FakeLookup({(1, 0): summary(100, fetchers=frozenset({3}))})
    rows = regressions([*events, truncate(6000, 3, 120)], lookup)
    assert "uncommitted_truncation" not in [r["class"] for r in rows]


@pytest.mark.parametrize("next_start", [
    [truncate(60_010, 1, 100)],
    [truncate(60_010, 1, 100), follower(60_050, 1, 1, 100, 100, 2)],
    [truncate(60_010, 1, 100), follower(60_050, 1, 2, 100, 100, 3)],
    [follower(60_005, 1, 1, 110, 100, 2), truncate(60_010, 1, 100)],
], ids=["it goes on", "it starts again", "it follows another leader", "it started again before it cut"])  # fmt: skip
def test_a_cut_is_not_harmless_where_its_replica_followed_before_the_first_start_of_the_epoch_that_is_told(next_start):
    """In the first one, which is not told, its leader committed [100, 110); it resumed without these."""
    events = [*FAILOVER[:2], follower(5010, 1, 1, 110, 100, 2), leader(60_000, 2, 1, 100, 100, (2,)), *next_start]
    lookup = FakeLookup({(1, 0): summary(100, fetchers=frozenset({2})), (2, 60_000): summary(500)})
    assert "uncommitted_truncation" not in [r["class"] for r in regressions(events, lookup)]


def test_a_former_leader_that_cuts_what_the_unclean_start_lost_loses_nothing_more():
    """The new leader's log ends above where the lost term began, with records of before it that nobody committed."""
    events = [
        leader(0, 2, 0, 0, 0, (1, 2)),
        leader(3000, 1, 1, 995, 990, (1,)),
        leader(9000, 2, 2, 1460, 990, (2,), unclean=True),
        follower(9010, 1, 2, 1495, 1495, 2),
        truncate(9020, 1, 995, before=1495),
    ]
    lookup = FakeLookup({(2, 0): summary(995), (1, 3000): summary(1495), (2, 9000): summary(1460)})
    (row,) = [row for row in regressions(events, lookup) if row["class"] != "stale_leader_hw"]
    assert (row["class"], row["lost_from"], row["lost_to"]) == ("unclean_loss", 995, 1495)


@pytest.mark.parametrize("rows", [
    [truncate(60_010, 1, 100)], [follower(60_005, 1, 1, 110, 100, 2), truncate(60_010, 1, 100)],
], ids=["it goes on", "it started again before it cut"])  # fmt: skip
def test_a_state_of_before_positions_knew_since_when_they_follow_makes_no_cut_harmless(rows):
    lookup = FakeLookup({(1, 0): summary(100, fetchers=frozenset({2})), (2, 60_000): summary(500)})
    history = history_of([*FAILOVER[:2], follower(5010, 1, 1, 110, 100, 2)], lookup)
    history.terms.positions[1].followed_since = 0
    for event in [leader(60_000, 2, 1, 100, 100, (2,)), *rows]:
        history.apply(event, lookup)
    history.settle(1 << 61, lookup)
    assert "uncommitted_truncation" not in [r["class"] for r in history.take_regressions()]
