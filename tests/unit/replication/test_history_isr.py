"""Each rule of `silver/isr_changes`: one happening from many witnesses, and its cause."""

from __future__ import annotations

import pytest

from pipelines.replication.partition.events import PartitionEvent
from tests.unit.replication.history_cases import (
    T1,
    T2,
    FakeLookup,
    changes,
    election,
    history_of,
    isr,
    leader,
    proposed,
)

START = leader(0, 1, 0, 0, 0, (1, 2, 3), replicas=(1, 2, 3))


def columns_of(row):
    return row["change"], row["removed"], row["added"], row["cause"]


def test_the_first_isr_known_is_no_change():
    assert changes([START], FakeLookup()) == []


@pytest.mark.parametrize("detail", ["alter_partition", "metadata"])
def test_lag_is_what_the_leader_proposed_itself(detail):
    events = [START, proposed(1000, 1, (1, 2)), isr(1020, 1, (1, 2), 1, detail, leader_epoch=0)]
    (row,) = changes(events, FakeLookup())
    assert columns_of(row) == ("shrink", [3], [], "lag")
    assert (row["proposed_ts"], row["commit_ms"], row["ts"]) == (1_000_000, 20, 1_020_000)
    assert (row["leader_id"], row["leader_epoch"], row["partition_epoch"]) == (1, 0, 1)


def test_caught_up_is_how_a_replica_joins():
    events = [START, isr(1000, 1, (1, 2), 1), proposed(2000, 1, (1, 2, 3), "expand"), isr(2010, 1, (1, 2, 3), 2)]
    row = changes(events, FakeLookup())[-1]
    assert columns_of(row) == ("expand", [], [3], "caught_up")
    assert row["commit_ms"] == 10


def test_an_expansion_without_a_proposal_can_only_be_the_leaders():
    events = [START, isr(1000, 1, (1, 2), 1), isr(2010, 2, (1, 2, 3), 2)]
    assert changes(events, FakeLookup())[-1]["cause"] == "caught_up"


def test_an_isr_reported_with_its_leader_alone_is_of_that_leaders_term():
    (row,) = changes([START, isr(1000, 1, (1, 2), 1, leader_id=1)], FakeLookup())
    assert (row["leader_id"], row["leader_epoch"], row["level"]) == (1, 0, 3)


def test_controller_fenced_when_the_controller_named_the_broker():
    lookup = FakeLookup(states={3: [(10, "started", 7), (20, "unfenced", 7), (1010, "fenced", 7)]})
    (row,) = changes([START, isr(1000, 1, (1, 2), 1)], lookup)
    assert columns_of(row) == ("shrink", [3], [], "controller_fenced")


def test_a_fence_after_a_commit_that_the_leader_had_asked_for_is_not_its_cause():
    lookup = FakeLookup(states={3: [(20, "unfenced", 7), (1080, "fenced", 7)]})
    events = [START, proposed(990, 1, (1, 2)), isr(1000, 1, (1, 2), 1, "alter_partition", leader_epoch=0)]
    assert changes(events, lookup)[0]["cause"] == "lag"


def test_what_the_controller_reported_before_a_rejoin_that_only_the_leader_tells_is_no_cause():
    lookup = FakeLookup(states={3: [(900, "controlled_shutdown", 7)]})
    joins = [isr(1000, 1, (1, 2), 1), isr(2000, 1, (1, 2, 3), 2, "alter_partition", leader_epoch=0)]
    events = [START, *joins, proposed(8990, 1, (1, 2)), isr(9000, 1, (1, 2), 3, "alter_partition", leader_epoch=0)]
    assert [row["cause"] for row in changes(events, lookup)] == ["controlled_shutdown", "caught_up", "lag"]


@pytest.mark.parametrize("detail", ["log_dir_offline", "fenced"])
def test_a_shrink_that_the_controller_granted_its_leader_is_lag_whatever_was_told_of_the_broker_before(detail):
    """Another log directory of broker 3 had failed: what it costs the controller removes at once, and asks nobody."""
    lookup = FakeLookup(states={3: [(20, "unfenced", 7), (500, detail, 7)]})
    events = [START, proposed(29_490, 1, (1, 2)), isr(29_500, 1, (1, 2), 1, "alter_partition", leader_epoch=0)]
    assert changes(events, lookup)[0]["cause"] == "lag"


def test_a_granted_shrink_says_nothing_of_changes_before_it_that_nobody_told():
    lookup = FakeLookup(states={3: [(20, "unfenced", 7), (500, "fenced", 7)]})
    events = [START, proposed(990, 1, (1,)), isr(1000, 1, (1,), 2, "alter_partition", leader_epoch=0)]
    assert changes(events, lookup)[0]["cause"] == "controller_fenced"


def test_controlled_shutdown_stays_the_cause_when_the_broker_is_fenced_right_after():
    lookup = FakeLookup(states={3: [(990, "controlled_shutdown", 7), (1060, "fenced", 7)]})
    (row,) = changes([START, isr(1000, 1, (1, 2), 1)], lookup)
    assert row["cause"] == "controlled_shutdown"


def test_log_dir_offline_when_a_failed_log_directory_of_the_broker_was_named():
    lookup = FakeLookup(states={3: [(10, "started", 7), (20, "unfenced", 7), (500, "log_dir_offline", None)]})
    events = [START, proposed(990, 1, (1, 2)), isr(1000, 1, (1, 2), 1)]
    assert changes(events, lookup)[0]["cause"] == "log_dir_offline"


def test_a_broker_that_is_fenced_after_its_log_directory_failed_was_fenced():
    lookup = FakeLookup(states={3: [(500, "log_dir_offline", None), (900, "fenced", 7)]})
    assert changes([START, isr(1000, 1, (1, 2), 1)], lookup)[0]["cause"] == "controller_fenced"


def test_a_broker_that_was_added_again_was_not_put_out_by_the_controller():
    lookup = FakeLookup(states={3: [(100, "fenced", 7), (500, "started", 8), (600, "unfenced", 8)]})
    events = [START, proposed(990, 1, (1, 2)), isr(1000, 1, (1, 2), 1)]
    assert changes(events, lookup)[0]["cause"] == "lag"


def test_a_new_incarnation_puts_out_one_that_did_not_stop_cleanly():
    lookup = FakeLookup(states={3: [(100, "unfenced", 7), (980, "started", 8), (1400, "unfenced", 8)]})
    assert changes([START, isr(1000, 1, (1, 2), 1)], lookup)[0]["cause"] == "controller_fenced"


def test_election_only_from_outside_the_isr():
    events = [
        leader(0, 1, 0, 0, 0, (1,), replicas=(1, 2)),
        election(1000, 2, 1, isr=(2,), partition_epoch=1, unclean=True),
        leader(1010, 2, 1, 0, 0, (2,)),
    ]
    (row,) = changes(events, FakeLookup(states={1: [(990, "fenced", 7)]}))
    assert columns_of(row) == ("replace", [1], [2], "election")


def test_a_reassignment_whose_last_replica_to_join_becomes_the_leader_is_no_election():
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3), replicas=(1, 2, 3)),
        proposed(990, 1, (1, 2, 3, 4), "expand"),
        election(1000, 4, 1, isr=(4,), partition_epoch=1, replicas=(4,)),
        leader(1010, 4, 1, 0, 0, (4,), replicas=(4,)),
    ]
    (row,) = changes(events, FakeLookup())
    assert columns_of(row) == ("replace", [1, 2, 3], [4], "reassignment")


def test_a_clean_election_of_a_replica_that_is_new_in_the_isr_ends_a_reassignment():
    """Stock logs do not tell that its leader asked for it."""
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3), replicas=(1, 2, 3)),
        leader(1010, 5, 1, 0, 0, (2, 5), replicas=(5, 2), unclean=False),
    ]
    (row,) = changes(events, FakeLookup())
    assert columns_of(row) == ("replace", [1, 3], [5], "reassignment")


def test_who_was_asked_in_and_is_elected_when_the_leader_dies_before_is_from_outside_the_isr():
    events = [
        leader(0, 1, 0, 0, 0, (1,), replicas=(1, 2)),
        proposed(990, 1, (1, 2), "expand"),
        election(1000, 2, 1, isr=(2,), partition_epoch=1, replicas=(1, 2)),
    ]
    (row,) = changes(events, FakeLookup(states={1: [(990, "fenced", 7)]}))
    assert columns_of(row) == ("replace", [1], [2], "election")


def test_a_shrink_with_a_new_leader_of_the_same_isr_is_no_election():
    events = [START, election(1000, 2, 1, isr=(2, 3), partition_epoch=1), leader(1010, 2, 1, 0, 0, (2, 3))]
    (row,) = changes(events, FakeLookup(states={1: [(990, "fenced", 7)]}))
    assert columns_of(row) == ("shrink", [1], [], "controller_fenced")
    assert (row["leader_id"], row["leader_epoch"]) == (2, 1)


def test_an_election_into_an_empty_isr_is_an_election():
    events = [
        leader(0, 1, 0, 0, 0, (1,), replicas=(1, 2)),
        election(1000, -1, 1, isr=(), partition_epoch=1),
        election(2000, 1, 2, isr=(1,), partition_epoch=2),
    ]
    shut, elected = changes(events, FakeLookup(states={1: [(990, "controlled_shutdown", 7)]}))
    assert columns_of(shut) == ("shrink", [1], [], "controlled_shutdown")
    assert columns_of(elected) == ("expand", [], [1], "election")


def test_reassignment_when_the_replica_is_no_longer_assigned():
    events = [START, isr(1000, 1, (1, 2), 1, leader_epoch=1, leader_id=1, replicas=(1, 2))]
    assert changes(events, FakeLookup())[0]["cause"] == "reassignment"


def test_unknown_when_nobody_reported_why():
    assert changes([START, isr(1000, 1, (1, 2), 1)], FakeLookup())[0]["cause"] == "unknown"


def test_a_proposal_that_was_refused_explains_nothing():
    refused = PartitionEvent(1_010_000, "isr_rejected", 1)
    events = [START, proposed(1000, 1, (1, 2)), refused, isr(9000, 1, (1, 2), 1)]
    (row,) = changes(events, FakeLookup())
    assert (row["cause"], row["proposed_ts"]) == ("unknown", None)


def test_the_isr_of_a_leaders_start_is_a_witness():
    lookup = FakeLookup(states={1: [(990, "fenced", 7)]})
    (row,) = changes([START, leader(1010, 2, 1, 0, 0, (2, 3))], lookup)
    assert columns_of(row) == ("shrink", [1], [], "controller_fenced")


def test_one_happening_counts_once_and_keeps_its_earliest_time():
    events = [
        START,
        isr(1000, 9, (1, 2), 1, "controller"),
        isr(1010, 2, (1, 2), 1),
        isr(1020, 1, (1, 2), 1, "alter_partition"),
    ]
    rows = history_of(events, FakeLookup()).take_isr_changes()
    assert [(r["ts"], r["revision"]) for r in rows] == [(1_000_000, 1)]


def test_old_changes_replayed_by_a_restarted_controller_count_for_nothing():
    events = [
        START,
        isr(1000, 1, (1, 2), 1),
        isr(2000, 1, (1, 2, 3), 2),
        isr(9000, 9, (1, 2), 1, "controller"),
        isr(9001, 9, (1, 2, 3), 2, "controller"),
    ]
    history = history_of(events, FakeLookup())
    assert [r["ts"] for r in history.take_isr_changes()] == [1_000_000, 2_000_000]
    assert history.registration.isr == (1, 2, 3)


def test_a_replay_of_what_was_before_the_telemetry_begins_counts_for_nothing():
    events = [leader(0, 1, 5, 0, 0, (1, 2)), isr(9000, 9, (1, 2, 3), 3, "controller")]
    assert changes(events, FakeLookup()) == []


def test_a_change_reported_after_its_successor_takes_its_place():
    events = [START, isr(2000, 1, (1,), 2), isr(2400, 9, (1, 2), 1, "controller")]
    rows = history_of(events, FakeLookup()).take_isr_changes()
    assert [(r["partition_epoch"], r["revision"], r["isr_before"], r["isr_after"], r["ts"]) for r in rows] == [
        (2, 1, [1, 2, 3], [1], 2_000_000),
        (1, 1, [1, 2, 3], [1, 2], 2_000_000),
        (2, 2, [1, 2], [1], 2_000_000),
    ]


def test_a_cause_reported_later_by_another_source_is_a_higher_revision():
    events = [START, isr(1000, 2, (1, 2), 1), isr(3000, 1, (1, 2), 1, "alter_partition")]
    rows = history_of(events, FakeLookup()).take_isr_changes()
    assert [(r["cause"], r["revision"]) for r in rows] == [("unknown", 1), ("lag", 2)]


def test_changes_without_partition_epoch_are_reported_by_their_members():
    events = [START, isr(1000, 1, (1, 2), None), isr(1010, 2, (2, 1), None), isr(2000, 1, (1, 2, 3), None)]
    rows = history_of(events, FakeLookup()).take_isr_changes()
    assert [(r["ts"], r["change"]) for r in rows] == [(1_000_000, "shrink"), (2_000_000, "expand")]


def test_an_isr_in_another_order_is_the_same():
    assert changes([START, isr(1000, 1, (3, 1, 2), 1)], FakeLookup()) == []


@pytest.mark.parametrize(("least", "under"), [(1, False), (2, True), (5, True)])
def test_under_min_isr_counts_the_replicas_at_most(least, under):
    events = [leader(0, 1, 0, 0, 0, (1, 2), replicas=(1, 2)), isr(1000, 1, (1,), 1, replicas=(1, 2))]
    assert changes(events, FakeLookup(least=least))[0]["under_min_isr"] is under


def test_an_isr_of_all_replicas_is_never_under_min_isr():
    events = [leader(0, 1, 0, 0, 0, (1,), replicas=(1, 2)), isr(1000, 1, (1, 2), 1, replicas=(1, 2))]
    assert changes(events, FakeLookup(least=3))[0]["under_min_isr"] is False


def test_a_recreated_topic_begins_with_its_first_isr():
    events = [START, leader(5000, 2, 0, 0, 0, (2, 1), topic_id=T2), isr(6000, 9, (1, 2), 1, "controller")]
    history = history_of(events, FakeLookup())
    assert (history.take_isr_changes(), history.registration.topic_id, history.identity.forgotten) == ([], T2, [T1])


def test_only_the_newest_commits_are_kept():
    events = [START]
    events += [isr(1000 * e, 1, (1, 2) if e % 2 else (1, 2, 3), e, leader_epoch=0) for e in range(1, 60)]
    history = history_of(events, FakeLookup())
    assert (len(history.take_isr_changes()), len(history.isr.commits)) == (59, 16)


def test_the_registration_is_what_the_newest_row_reported():
    events = [START, election(1000, -1, 1, partition_epoch=1), isr(1001, 1, (1, 2, 3), 0)]
    present = history_of(events, FakeLookup()).registration
    assert (present.leader_id, present.leader_epoch, present.leaderless_since) == (-1, 1, 1_000_000)
    assert (present.isr, present.replicas, present.partition_epoch) == ((1, 2, 3), (1, 2, 3), 1)


def test_a_proposal_explains_one_commit_only():
    events = [START, proposed(1000, 1, (1, 2)), isr(1010, 1, (1, 2), 1), isr(2000, 1, (1, 2, 3), 2)]
    row = changes([*events, isr(9000, 1, (1, 2), 3)], FakeLookup())[-1]
    assert (row["cause"], row["proposed_ts"], row["commit_ms"]) == ("unknown", None, None)


@pytest.mark.parametrize(("let_in", "cause"), [(True, "controller_fenced"), (False, "controlled_shutdown")])
def test_what_the_controller_reported_before_it_let_a_replica_in_does_not_put_it_out(let_in, cause):
    """Before Kafka 3.5 a broker that is stopping joins an ISR again, until it is fenced."""
    lookup = FakeLookup(states={3: [(900, "controlled_shutdown", 7), (4000, "fenced", 7)]})
    joins = [isr(1000, 9, (1, 2), 1, "controller"), isr(2000, 9, (1, 2, 3), 2, "controller")] if let_in else []
    events = [START, *joins, isr(4000, 9, (1, 2), 3, "controller")]
    assert changes(events, lookup)[-1]["cause"] == cause


@pytest.mark.parametrize(("ms", "cause"), [(4000, "controlled_shutdown"), (4060, "reassignment")])
def test_what_the_controller_reports_of_a_broker_after_a_reassignment_removed_it_is_not_its_cause(ms, cause):
    lookup = FakeLookup(states={3: [(ms, "controlled_shutdown", 7)]})
    events = [START, isr(4050, 9, (1,), 1, "controller", replicas=(1,))]
    assert changes(events, lookup)[-1]["cause"] == cause
