"""Each replication rule of the simulator, as numbers."""

import pytest

from generators.simulator.cluster import rules

LAG = 30_000


@pytest.mark.parametrize(
    ("current", "leader_leo", "shortest", "hw"),
    [(0, 3, 1, 1), (2, 3, 1, 2), (3, 5, 5, 5), (0, 2, rules.UNKNOWN, 0)],
    ids=["rises to the shortest", "never falls", "all caught up", "not while a LEO is unknown"],
)
def test_the_high_watermark_is_the_shortest_replica_and_never_falls(
    current: int, leader_leo: int, shortest: int, hw: int
) -> None:
    assert rules.high_watermark(current, leader_leo, shortest) == hw


@pytest.mark.parametrize(
    ("leader_hw", "log_start", "leo", "hw"),
    [(3, 0, 5, 3), (9, 0, 5, 5), (1, 2, 5, 2)],
    ids=["the leader's", "no more than it has", "no less than its log start"],
)
def test_a_follower_takes_the_leaders_high_watermark_within_its_own_log(
    leader_hw: int, log_start: int, leo: int, hw: int
) -> None:
    assert rules.follower_high_watermark(leader_hw, log_start, leo) == hw


@pytest.mark.parametrize(
    ("synced", "caught_up", "eligible", "waits"),
    [
        (True, False, False, True),
        (False, True, True, True),
        (False, True, False, False),
        (False, False, True, False),
    ],
)
def test_the_high_watermark_waits_for_the_isr_and_for_who_is_about_to_join(
    synced: bool, caught_up: bool, eligible: bool, waits: bool
) -> None:
    assert rules.counts(synced, caught_up, eligible) is waits


def test_min_isr_is_no_more_than_there_are_replicas() -> None:
    assert rules.effective_min_isr(3, 2) == 2


@pytest.mark.parametrize(("strict", "moves"), [(True, False), (False, True)])
def test_under_min_isr_the_high_watermark_stands_still_since_3_7(strict: bool, moves: bool) -> None:
    assert rules.may_advance(1, 2, 3, strict) is moves


def test_caught_up_now_when_it_fetches_at_the_leaders_end() -> None:
    assert rules.last_caught_up(100, fetched=5, leader_leo=5, last_leader_leo=3, last_fetch=200, now=300) == 300


def test_caught_up_at_its_previous_fetch_when_it_has_what_the_leader_had_then() -> None:
    assert rules.last_caught_up(100, fetched=3, leader_leo=9, last_leader_leo=3, last_fetch=200, now=300) == 200


def test_not_caught_up_when_it_is_behind_both() -> None:
    assert rules.last_caught_up(100, fetched=2, leader_leo=9, last_leader_leo=3, last_fetch=200, now=300) == 100


@pytest.mark.parametrize(
    ("leo", "ago", "in_sync"),
    [(5, LAG * 9, True), (4, LAG, True), (4, LAG + 1, False)],
    ids=["equal offsets win over any time", "exactly the lag", "strictly more than the lag"],
)
def test_out_of_sync_by_time_is_strictly_longer_than_the_lag(leo: int, ago: int, in_sync: bool) -> None:
    assert rules.is_caught_up(leo, 5, caught_up=0, now=ago, lag_max=LAG) is in_sync


@pytest.mark.parametrize(
    ("leo", "silent_ms", "in_sync"),
    [(6, LAG, True), (5, 0, False), (6, LAG + 1, False), (10, LAG + 1, True), (-1, LAG, True), (-1, LAG + 1, False)],
)
def test_out_of_sync_by_messages_is_more_than_the_allowed_number_behind_or_no_fetch_for_the_lag(
    leo: int, silent_ms: int, in_sync: bool
) -> None:
    assert rules.is_in_sync_by_messages(leo, 10, 4, silent_ms, LAG) is in_sync


@pytest.mark.parametrize(
    ("leo", "joins"), [(9, False), (11, False), (12, True)], ids=["below the HW", "below the epoch's start", "at both"]
)
def test_a_follower_joins_at_the_high_watermark_and_at_the_start_of_the_epoch(leo: int, joins: bool) -> None:
    assert rules.may_join(leo, high_watermark=10, epoch_start=12) is joins


@pytest.mark.parametrize(
    ("found", "asked", "parted"),
    [((3, 126), (3, 130), True), ((2, 140), (3, 130), True), ((3, 130), (3, 130), False)],
    ids=["the epoch ended earlier", "the epoch is not there", "the same log"],
)
def test_logs_part_where_the_followers_last_epoch_ends_earlier_at_the_leader(
    found: tuple[int, int], asked: tuple[int, int], parted: bool
) -> None:
    assert rules.diverges(*found, *asked) is parted
