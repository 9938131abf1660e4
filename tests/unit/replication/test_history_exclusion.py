"""Every start of a term is judged: a loss is excluded, found, or not excluded, with what is missing."""

from __future__ import annotations

import json

import pytest

from schemas.event_types import CLEAN_START, SESSION_EXPIRED, UNCLEAN_START
from tests.unit.replication.history_cases import (
    ALIVE,
    FakeLookup,
    election,
    follower,
    history_of,
    isr,
    leader,
    regressions,
    summary,
    truncate,
)

BLIND = {(1, 0): summary(level=0)}
"""The leader before reported no HWs: stock INFO."""
RECOVERED = election(13_000, 2, 1, unclean=False, isr=(2,), partition_epoch=3, committed=True)
START = leader(0, 1, 0, 0, 0, (1, 2), replicas=(1, 2))
CLEAN = [(900, "controlled_shutdown", 7), (3000, "started", 8), (3100, CLEAN_START, None), (3500, "unfenced", 8)]
GRANTED = [state for state in CLEAN if state[1] != CLEAN_START]
"""A controlled shutdown was granted, and nothing says that the broker closed its logs before it ended."""
KILLED = [(3000, "started", 8), (3500, "unfenced", 8)]


def verdicts(events, terms=BLIND, states=None):
    rows = regressions(events, FakeLookup(terms, states or {}))
    return [(r["class"], r["severity"], json.loads(r["evidence"]).get("missing")) for r in rows]


def not_excluded(*missing):
    severity = "warning" if any("election" in what for what in missing) else "info"
    return [("loss_not_excluded", severity, ["an upper bound of the HW before", *missing])]


@pytest.mark.parametrize(("unclean", "severity"), [(None, "warning"), (False, "info")])
def test_an_election_that_may_have_been_unclean_warns(unclean, severity):
    """Nobody told the ISR before it; leaderRecoveryState is what the leader's own line says, where it says it."""
    events = [leader(0, 1, 0, 0, 0, None), leader(5000, 2, 7, 400, 400, (1, 2), unclean=unclean, partition_epoch=9)]
    (row,) = regressions(events, FakeLookup(BLIND, {}))
    assert (row["class"], row["severity"]) == ("loss_not_excluded", severity)


@pytest.mark.parametrize(("epoch", "severity"), [(1, "info"), (2, "warning")])
def test_an_election_behind_one_that_nobody_told_warns(epoch, severity):
    """Two elections while a watcher stood still: who was in the ISR before the second one is not known."""
    events = [START, leader(5000, 2, epoch, 200, 200, (1, 2))]
    (row,) = regressions(events, FakeLookup(BLIND, {2: KILLED}))
    assert (row["class"], row["severity"]) == ("loss_not_excluded", severity)


def test_the_first_start_seen_is_where_the_history_begins():
    assert verdicts([leader(0, 1, 5, 100, 90, (1, 2))]) == []


@pytest.mark.parametrize("offset", [300, 301])
def test_a_start_at_or_above_an_upper_bound_of_every_hw_is_safe(offset):
    events = [START, leader(5000, 2, 1, offset, offset, (2,), unclean=True)]
    told = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    assert verdicts([*events, follower(6000, 1, 1, 300, 300, 2)], told) == []
    assert verdicts(events, told) == not_excluded("a clean election")  # it may have died before the end of its term


@pytest.mark.parametrize("log_end", [290, 300])
@pytest.mark.parametrize("resumed", [True, False])
def test_what_a_leader_wrote_last_may_be_gone_from_its_log_file_and_its_data_alike(log_end, resumed):
    """A power failure: its next row of that life is no evidence that the life before was told to its end."""
    killed = {1: [(-1000, "unfenced", 7), (4000, "started", 8), (4100, UNCLEAN_START, None)]}
    told = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    events = [leader(5000, 2, 1, 300, 300, (2,), unclean=True), follower(6000, 1, 1, log_end, 280, 2)]
    events = [leader(5000, 1, 0, 300, 300, (1, 2))] if resumed else events
    assert "loss_not_excluded" in [found[0] for found in verdicts([START, *events], told, killed)]


def test_a_start_that_may_be_a_resumption_is_bounded_by_nothing_of_before():
    """Broker 2 was elected at 1.0 s, led, lost its last rows, and starts again at 3.0 s."""
    told = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    elected = election(1000, 2, 1, isr=(2,), partition_epoch=1, committed=True)
    events = [leader(5000, 2, 1, 300, 300, (2,)), follower(6000, 1, 1, 300, 300, 2)]
    again = {2: [(-1000, "unfenced", 7), (3000, "started", 8), (3100, UNCLEAN_START, None)]}
    assert verdicts([START, elected, *events], told, again) == not_excluded(
        "a clean stop of broker 2 before it started again"
    )
    elected = election(4000, 2, 1, isr=(2,), partition_epoch=1, committed=True)
    assert verdicts([START, elected, *events], told, again) == []
    in_this_life = follower(3500, 2, 0, 300, 300, 1)
    assert verdicts([START, in_this_life, *events], told, again) == []


def test_a_clean_election_of_a_member_of_the_last_committed_isr_is_safe():
    assert verdicts([START, leader(5000, 2, 1, 50, 50, (2,))]) == []


@pytest.mark.parametrize(("elected", "missing"), [(1, None), (2, ["broker 2 in the ISR before the election"])])
def test_after_an_isr_without_members_those_of_the_last_one_with_some_are_eligible(elected, missing):
    """KIP-966: the last one in sync leaves the ISR as it stops, and nothing was committed since."""
    nobody = election(2000, -1, 1, isr=(), partition_epoch=2, committed=True)
    events = [START, isr(1000, 1, (1,), 1), nobody, leader(5000, elected, 2, 50, 50, (elected,), partition_epoch=3)]
    fetched = {(1, 0): summary(level=0, fetchers=frozenset({2}))}
    assert verdicts(events, fetched) == (not_excluded(*missing) if missing else [])


def test_an_election_from_outside_the_last_committed_isr_is_not():
    events = [START, isr(1000, 1, (1,), 1), leader(5000, 2, 2, 50, 50, (2,))]
    fetched = {(1, 0): summary(level=0, fetchers=frozenset({2}))}
    assert verdicts(events, fetched) == not_excluded("a clean election")


def test_an_election_after_an_isr_that_nobody_is_known_to_have_committed_is_not():
    events = [leader(0, 1, 3, 0, 0, (1, 3)), leader(5000, 2, 4, 50, 50, (2, 3), partition_epoch=9)]
    assert verdicts(events, {(1, 0): summary(level=0)}) != []


@pytest.mark.parametrize(("states", "safe"), [(CLEAN, True), (GRANTED, False), (KILLED, False)])
def test_a_member_that_started_again_is_safe_after_a_clean_stop_only(states, safe):
    events = [START, leader(5000, 2, 1, 50, 50, (2,))]
    found = verdicts(events, states={2: states})
    assert found == ([] if safe else not_excluded("a clean stop of broker 2 before it started again"))


def test_a_restart_before_it_was_added_to_the_isr_shows_nothing():
    events = [
        START,
        isr(1000, 1, (1,), 1),
        isr(4000, 1, (1, 2), 2),
        leader(5000, 2, 1, 50, 50, (2,), partition_epoch=3),
    ]
    assert verdicts(events, states={2: KILLED}) == []


def test_a_restart_is_known_by_the_brokers_own_lines_too():
    events = [START, follower(10, 2, 0, 0, 0, 1), follower(3000, 2, 0, 40, 30, 1), leader(5000, 2, 1, 50, 50, (2,))]
    assert verdicts(events) == not_excluded("a clean stop of broker 2 before it started again")


def test_a_life_is_known_only_while_a_controller_goes_on_to_tell_of_lives():
    """The controller's log ends an hour before; a broker that it named once may have restarted since."""
    events, ended = [START, leader(3_600_000, 2, 1, 50, 50, (2,))], (-1_000_000, 10_000)
    rows = regressions(events, FakeLookup(BLIND, told=ended))
    assert [json.loads(r["evidence"])["missing"][1:] for r in rows] == [["whether broker 2 has started again"]]
    assert regressions(events, FakeLookup(BLIND)) == []
    itself = FakeLookup(BLIND, starts={2: [-5000]}, told=ended)  # its own log reports starts, and has no gap
    assert regressions(events, itself) == []
    itself.terms = {**BLIND, (2, 0): summary(has_gap=True)}
    assert len(regressions(events, itself)) == 1


def test_a_leader_whose_life_nobody_tells_may_not_have_told_its_term_to_its_end():
    told = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    events = [START, leader(3_600_000, 2, 1, 300, 300, (2,), unclean=True), follower(3_600_100, 1, 1, 300, 300, 2)]
    assert regressions(events, FakeLookup(told)) == []
    rows = regressions(events, FakeLookup(told, told=(-1_000_000, 10_000)))
    assert [row["class"] for row in rows] == ["loss_not_excluded"]


def test_a_start_of_the_leader_before_counts_though_the_controllers_clock_is_ahead():
    """Broker 1 is killed and back as a follower at 6.0 s; the controller says 9.0 s, by a clock that is ahead."""
    told = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    events = [START, leader(5000, 2, 1, 300, 300, (2,), unclean=True), follower(6000, 1, 1, 300, 300, 2)]
    lives = {1: [*ALIVE, (9000, "started", 8)]}
    assert verdicts([*events, isr(30_000, 2, (2, 1), 2)], told, lives) == not_excluded("a clean election")


@pytest.mark.parametrize(("states", "excluded"), [
    pytest.param([(5300, UNCLEAN_START, None), (5310, "started", 8)], True, id="its own log tells it later"),
    pytest.param([(5310, "started", 8)], False, id="the controller alone, whose clock may be ahead"),
    pytest.param([(5200, "started", 8), (5300, UNCLEAN_START, None), (5310, "started", 9)], False, id="two of one"),
    pytest.param(
        [(5300, UNCLEAN_START, None), (5310, "started", 8), (6300, UNCLEAN_START, None), (6310, "started", 9)],
        True, id="two of two",
    ),
])  # fmt: skip
def test_a_start_soon_after_a_term_began_is_none_before_it(states, excluded):
    """Broker 2 leads at 5 s; the leader before it returns, so that the verdict waits for what others tell."""
    events = [START, leader(5000, 2, 1, 50, 50, (2,)), follower(5100, 1, 1, 50, 50, 2), isr(70_000, 2, (2, 1), 2)]
    rows = verdicts(events, states={1: ALIVE, 2: [*ALIVE, *states]})
    missing = not_excluded("a clean stop of broker 2 before it started again")
    assert rows == ([] if excluded else missing)


def test_of_one_start_every_log_directory_says_that_it_was_clean():
    """Two directories; a clean restart and a kill."""
    twice = [(1000, "started", 7), (1100, CLEAN_START, None), (1101, CLEAN_START, None)]
    events = [START, leader(50_000, 2, 1, 50, 50, (2,))]
    assert verdicts(events, states={2: [*ALIVE, *twice]}) == []
    killed = [*ALIVE, *twice, (20_000, "started", 8)]
    assert verdicts(events, states={2: killed}) == not_excluded("a clean stop of broker 2 before it started again")
    clean = [*killed, (20_100, CLEAN_START, None), (20_101, CLEAN_START, None)]
    assert verdicts(events, states={2: clean}) == []


def test_a_start_whose_leader_may_have_restarted_untold_is_bounded_by_nothing():
    """Nobody tells of lives between the election and the start: it may have led, committed, and lost it."""
    told = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    elected = election(1000, 2, 1, isr=(2,), partition_epoch=1, committed=True)
    events = [START, elected, leader(50_000, 2, 1, 300, 300, (2,)), follower(60_000, 1, 1, 300, 300, 2)]
    assert verdicts(events, told) == []
    rows = regressions(events, FakeLookup(told, {2: []}, starts={1: [-1000]}))
    assert [row["class"] for row in rows] == ["loss_not_excluded"]


def test_a_verdict_that_waits_is_given_as_leader_epochs_begin_again():
    """The controller has not registered the life in which broker 2 leads, as a snapshot is restored."""
    clean = {2: [*ALIVE, (4000, CLEAN_START, None)]}
    events = [START, leader(5000, 2, 1, 50, 50, (2,))]
    restored = leader(9000, 2, 0, 20, 20, (2,))
    assert verdicts([*events, isr(40_000, 2, (2, 1), 2)], states=clean) == []
    first = [row["leader_epoch"] for row in regressions([*events, restored], FakeLookup(BLIND, clean))]
    assert 1 in first


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ([(2990, SESSION_EXPIRED, None)], None),
        ([(3010, SESSION_EXPIRED, None)], None),
        ([(2000, "started", 7), (2100, CLEAN_START, None), (2990, SESSION_EXPIRED, None)], None),
        ([(2990, SESSION_EXPIRED, None), (3900, "started", 9)], "a clean stop"),
        ([(2990, SESSION_EXPIRED, None), (3100, UNCLEAN_START, None)], "a clean stop"),
        ([(2990, SESSION_EXPIRED, None), (2995, SESSION_EXPIRED, None), (3900, "started", 9)], "a clean stop"),
    ],
    ids=[
        "before",
        "its clock ahead",
        "after a clean stop",
        "and started again",
        "and found its log torn",
        "a registration that failed",
    ],
)
def test_a_registration_after_an_expired_session_is_no_start(own, missing):
    """With ZooKeeper a broker that is frozen loses its session, and registers again in the same process."""
    states = {2: sorted([*KILLED, *own], key=lambda state: state[0])}
    found = verdicts([START, leader(5000, 2, 1, 50, 50, (2,))], states=states)
    assert found == (not_excluded(f"{missing} of broker 2 before it started again") if missing else [])


def test_a_lost_log_directory_may_have_held_what_was_committed():
    events = [START, leader(5000, 2, 1, 0, 0, (2,))]
    assert verdicts(events, states={2: [(2000, "log_dir_offline", None)]}) == not_excluded(
        "the log directories of broker 2"
    )


def test_a_lost_log_directory_counts_though_the_controllers_clock_is_ahead():
    """Broker 1 says that it started again; the controller tells of its life, and of what was before it, 4 s later."""
    first = [(-1, "started", 7), (4000, CLEAN_START, None)]
    ahead = [(6000, "log_dir_offline", 7), (8000, "started", 8)]
    events = [START, follower(4100, 1, 1, 0, 0, -1), leader(4200, 1, 2, 0, 0, (1,), partition_epoch=2)]
    later = isr(20_000, 1, (1, 2), 3, leader_id=1, leader_epoch=2)
    ((_, _, missing),) = verdicts([*events, later], states={1: [*first, *ahead]})
    assert missing == ["an upper bound of the HW before", "the log directories of broker 1"]
    assert verdicts([*events, later], states={1: [*first, ahead[1]]}) == []
    known = history_of(events, FakeLookup(BLIND, {1: [(-1, "started", 7), (3900, "started", 8), *first[1:]]}))
    assert known.due() is None


def test_a_start_in_the_instant_in_which_the_partition_was_created_cost_nothing():
    events = [START, leader(5000, 2, 1, 50, 50, (2,))]
    assert verdicts(events, states={2: [(0, "started", 7)]}) == []
    assert verdicts(events, states={2: [(1, "started", 7)]}) != []


@pytest.mark.parametrize("states", [[], GRANTED, KILLED])
def test_a_leader_that_resumes_in_its_epoch_is_safe_after_a_clean_stop_only(states):
    events = [START, leader(4000, 1, 0, 50, 40, (1, 2))]
    missing = not_excluded("a clean stop of broker 1 before it started again")
    assert verdicts(events, states={1: states}) == missing
    assert verdicts(events, states={1: CLEAN}) == []


def test_what_becomes_known_to_be_a_loss_replaces_the_row_that_did_not_exclude_it():
    states = {1: [(4000, "fenced", 7)], 2: KILLED}
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(60, level=0)}, states)
    events = [START, leader(5000, 2, 1, 50, 50, (2,)), follower(9000, 1, 1, 80, 70, 2)]
    rows = regressions(events, lookup)
    assert [(r["class"], r["lost_from"], r["lost_to"], r["revision"]) for r in rows if r["class"] != "follower"] == [
        ("committed_loss", 50, 70, 2)
    ]


def test_a_controlled_rolling_restart_has_no_such_rows():
    """Brokers 1 and 2 stop one after the other; each leaves the ISR, comes back, catches up and leads again."""
    states = {
        1: [*ALIVE, (990, "controlled_shutdown", 7), (2000, "started", 17), (2100, CLEAN_START, None)],
        2: [*ALIVE, (4990, "controlled_shutdown", 8), (6000, "started", 18), (6100, CLEAN_START, None)],
    }
    events = [
        START,
        leader(1000, 2, 1, 50, 50, (2,), partition_epoch=1),
        follower(2600, 1, 1, 50, 50, 2),
        isr(3000, 2, (2, 1), 2, "alter_partition", leader_id=2, leader_epoch=1),
        leader(5000, 1, 2, 60, 60, (1,), partition_epoch=3),
        follower(6600, 2, 2, 60, 60, 1),
        isr(7000, 1, (1, 2), 4, "alter_partition", leader_id=1, leader_epoch=2),
        leader(9000, 2, 3, 70, 70, (1, 2), partition_epoch=5),
    ]
    assert (
        verdicts(events, {(1, 0): summary(level=0), (2, 1000): summary(level=0), (1, 5000): summary(level=0)}, states)
        == []
    )


def test_a_start_behind_an_earlier_leader_epoch_is_judged_though_that_one_reported_no_start():
    """The controller's row of the first election is all that is left of it."""
    events = [election(0, 2, 0, isr=(2,), partition_epoch=0), leader(5000, 2, 2, 0, 0, (2,), partition_epoch=2)]
    assert [cls for cls, *_ in verdicts(events)] == ["loss_not_excluded"]
    member = isr(1000, 2, (2, 1), 1, "metadata", leader_id=2, leader_epoch=1)
    assert verdicts([member, leader(5000, 1, 2, 7, 7, (1,), partition_epoch=2)]) == []


def test_a_leader_whose_own_log_reports_that_it_started_again_needs_a_clean_stop():
    """By its own clock: that of the controller may be another one."""
    events = [START, follower(4000, 1, 1, 0, 0, of=-1), leader(5000, 1, 2, 0, 0, (1,))]
    for starts, expected in (({}, []), ({1: [3500]}, ["loss_not_excluded"])):
        rows = regressions(events, FakeLookup(BLIND, {}, starts))
        assert [r["class"] for r in rows] == expected


def test_after_a_loss_inside_a_leader_epoch_others_may_hold_other_records_of_it():
    """Broker 1 came back with an empty log in epoch 0 and wrote on; broker 2 has what it lost."""
    terms = {(1, 0): summary(10, leader_leo=10), (1, 2000): summary(20, leader_leo=20), (2, 9000): summary(20)}
    events = [START, leader(2000, 1, 0, 0, 0, (1, 2)), leader(9000, 2, 1, 20, 20, (2,))]
    rows = regressions(events, FakeLookup(terms, {2: CLEAN}))
    missing = [json.loads(r["evidence"]).get("missing") for r in rows if r["class"] == "loss_not_excluded"]
    assert missing == [["equal records on all replicas from offset 0 of leader epoch 0 on"]]


def test_lives_that_nobody_told_are_not_known():
    events = [START, leader(5000, 2, 1, 50, 50, (2,))]
    assert verdicts(events, states={2: []}) == not_excluded("whether broker 2 has started again")


def test_an_unclean_start_among_clean_ones_is_not_safe():
    states = [*CLEAN[:3], (3110, UNCLEAN_START, None), CLEAN[3]]
    found = verdicts([START, leader(5000, 2, 1, 50, 50, (2,))], states={2: states})
    assert found == not_excluded("a clean stop of broker 2 before it started again")


@pytest.mark.parametrize(("epoch", "offset", "found"), [(0, 0, 0), (3, 0, 1), (0, 7, 1)])
def test_a_start_before_the_partition_was_created_is_none_of_a_member(epoch, offset, found):
    """Where the lake begins later, it may have lost what it had."""
    first = leader(20_000, 1, epoch, offset, 0, (1, 2), replicas=(1, 2))
    states = [(11_000, "started", 2), (12_000, "unfenced", 2)]
    events = [first, leader(25_000, 2, epoch + 1, 50, 50, (2,))]
    assert len(verdicts(events, {(1, 20_000): summary(level=0)}, {2: states})) == found


def test_records_that_differ_since_a_loss_inside_an_epoch_do_so_for_ever():
    """Twelve terms later the lossy one is folded away, and replicas still hold what it lost."""
    terms = {(1, 0): summary(10, leader_leo=10), (1, 2000): summary(20, leader_leo=20)}
    events = [START, leader(2000, 1, 0, 0, 0, (1, 2))]
    events += [leader(5000 + 1000 * e, 1 + e % 2, e, 20, 20, (1, 2)) for e in range(1, 14)]
    rows = regressions(events, FakeLookup(terms))
    assert [r["leader_epoch"] for r in rows if r["class"] == "loss_not_excluded"] == list(range(1, 14))


@pytest.mark.parametrize("how", ["untold", "nobody led", "a controller tells it", "clean"])
def test_a_start_behind_a_leader_epoch_that_nobody_told_is_bounded_by_nothing(how):
    """Who led in epoch 1 may have committed more than broker 2 has, and put it out of the ISR before it was elected."""
    whole = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    between = {
        "nobody led": [follower(4000, 2, 1, 300, 300, of=-1)],
        "a controller tells it": [election(4000, -1, 1, isr=(1, 2), partition_epoch=1, committed=True)],
    }
    begins = leader(5000, 2, 2, 300, 290, (2,), partition_epoch=2, unclean=False if how == "clean" else None)
    events = [START, *between.get(how, []), begins, follower(5001, 1, 2, 300, 300, 2)]
    found = [(cls, severity) for cls, severity, _ in verdicts(events, whole)]
    assert found == [("loss_not_excluded", "warning") if how == "untold" else ("stale_leader_hw", "info")]


@pytest.mark.parametrize(
    ("then", "safe"),
    [
        pytest.param([leader(9000, 2, 2, 500, 480, (2,))], True, id="it has what it had"),
        pytest.param([leader(9000, 2, 2, 490, 480, (2,))], False, id="it has less, of a copy of its disk"),
        pytest.param([leader(9000, 2, 1, 490, 480, (2,))], False, id="it resumes its epoch with less"),
        pytest.param(
            [follower(8000, 2, 1, 490, 480, -1), leader(9000, 2, 2, 490, 480, (2,))],
            False,
            id="it follows nobody first",
        ),
        pytest.param(
            [follower(6000, 2, 1, 500, 480, 1), truncate(6100, 2, 490), leader(9000, 2, 2, 490, 480, (2,))],
            True,
            id="it has cut its log as a follower",
        ),
    ],
)
def test_a_broker_that_comes_with_less_than_it_had_told_has_not_kept_its_log(then, safe):
    """A disk that is restored from a copy of the stopped broker has its clean-shutdown file."""
    events = [START, leader(5000, 2, 1, 500, 480, (2,)), *then]
    states = {2: [*ALIVE, (7000, CLEAN_START, None), (7010, "started", 3)]}
    rows = regressions(events, FakeLookup({(1, 0): summary(480, level=0), (2, 5000): summary(480, level=0)}, states))
    missing = [json.loads(r["evidence"]).get("missing") for r in rows if r["leader_epoch"] == then[-1].leader_epoch]
    assert [words for words in missing if words and "log that" in words[-1]] == (
        [] if safe else [["an upper bound of the HW before", "the log that broker 2 had before it started again"]]
    )


@pytest.mark.parametrize(
    ("partition_epoch", "told", "missing"),
    [
        pytest.param(1, [], [], id="the election alone"),
        pytest.param(2, [], ["the ISR before the election"], id="a change before it"),
        pytest.param(2, [isr(7000, 1, (1, 2), 1)], [], id="a change that is told"),
        pytest.param(2, [RECOVERED], ["the ISR before the election"], id="a leader that has recovered since"),
    ],
)
def test_a_change_that_nobody_told_may_have_taken_the_elected_one_out(partition_epoch, told, missing):
    """The leader is alone in the ISR as its log is cut with its data, and 2 is elected uncleanly."""
    events = [START, *told, leader(12_000, 2, 1, 50, 50, (2,), partition_epoch=partition_epoch)]
    rows = regressions(events, FakeLookup(BLIND, {2: ALIVE}))
    found = [json.loads(r["evidence"])["missing"] for r in rows]
    assert found == ([["an upper bound of the HW before", *missing]] if missing else [])
