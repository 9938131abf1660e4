"""Each rule of `silver/hw_regressions` about the start of a term."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from pipelines.replication.partition.events import PartitionEvent
from schemas.event_types import CLEAN_START, UNCLEAN_START
from tests.unit.replication.history_cases import (
    ALIVE,
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
    proposed,
    regressions,
    summary,
)

GONE_FOR_LONG = [*ALIVE, (500, "fenced", None), (25_000, "unfenced", None)]


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
    assert brief(row) == ("committed_loss", "critical", "bounded", 121, 278)  # it may have led on, and lost that line
    assert row["regression_id"].endswith("term-0.1")


def test_resuming_the_same_epoch_with_an_old_checkpoint_loses_nothing():
    lookup = FakeLookup({(1, 0): summary(653)}, {1: [(4000, "started", 8), (4100, CLEAN_START, None)]})
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


def test_an_unclean_leader_of_which_nothing_is_known_lost_at_least_what_its_log_lacks():
    """What it replicated can only lower the start."""
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 120, 100, (2,), unclean=True)]
    (row,) = regressions(events, lookup)
    assert brief(row) == ("unclean_loss", "critical", "bounded", 120, 300)
    assert json.loads(row["evidence"])["bound"] == "at_least"


def test_three_unclean_elections_in_a_row_lose_from_the_least_start_between():
    terms = {(1, 0): summary(300, fetchers=frozenset({2, 3})), (2, 5000): summary(150), (3, 9000): summary(110)}
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        leader(5000, 2, 1, 120, 100, (2,), unclean=True),
        leader(9000, 3, 2, 100, 100, (3,), unclean=True),
        leader(13_000, 1, 3, 300, 300, (1,), unclean=True),
    ]
    last = regressions(events, FakeLookup(terms))[-1]
    assert (last["leader_epoch"], last["severity"], last["lost_from"], last["lost_to"]) == (3, "critical", 100, 110)
    assert json.loads(last["evidence"])["since"] == {"epoch": 2, "offset": 100}


def _lead_in_turns(*leaders):
    """Brokers 1 to 3 have [0, 300); then brokers lead alone from an offset to a HW each, (broker, start, hw)."""
    lookup = {(1, 0): summary(300, fetchers=frozenset({2, 3}))}
    lookup |= {(b, 5000 * i): summary(hw) for i, (b, _, hw) in enumerate(leaders, 1)}
    starts = [leader(5000 * i, b, i, start, start, (b,), unclean=True) for i, (b, start, _) in enumerate(leaders, 1)]
    rows = regressions([leader(0, 1, 0, 0, 0, (1, 2, 3)), *starts], FakeLookup(lookup))
    return [(r["leader_epoch"], r["lost_from"], r["lost_to"]) for r in rows if r["severity"] == "critical"]


def test_an_old_log_that_is_elected_uncleanly_again_lost_nothing_where_it_lay_aside():
    """Broker 2 went on from 100; brokers 3 and 1 have what it lacked, each a log of before."""
    assert _lead_in_turns((2, 100, 100), (3, 300, 300), (1, 300, 300)) == [(1, 100, 300)]
    assert _lead_in_turns((2, 100, 150), (3, 300, 300), (1, 300, 300)) == [(1, 100, 300), (2, 100, 150)]
    assert _lead_in_turns((2, 100, 100), (3, 300, 320), (1, 300, 300)) == [(1, 100, 300), (3, 300, 320)]


def test_so_does_one_where_the_terms_between_are_folded_away():
    turns = [(2, 100, 150), *[(3, 300 + i, 301 + i) for i in range(9)], (1, 300, 300)]
    assert _lead_in_turns(*turns) == [(1, 100, 300), (2, 100, 150), (11, 300, 309)]


def test_a_restart_inside_an_epoch_is_a_start_between_unclean_elections_too():
    terms = {(1, 0): summary(300, fetchers=frozenset({2})), (2, 5000): summary(210), (2, 9000): summary(130)}
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 200, 100, (2,), unclean=True),
        leader(9000, 2, 1, 120, 110, (2,)),
        leader(13_000, 1, 2, 300, 300, (1,), unclean=True),
    ]
    last = regressions(events, FakeLookup(terms))[-1]
    assert (last["leader_epoch"], last["severity"], last["lost_from"], last["lost_to"]) == (2, "critical", 120, 130)


def test_of_folded_terms_the_least_start_counts():
    """Broker 2 led first, and was gone; of the ten terms since the fourth began lowest."""
    starts = [0, 101, 102, 50, *range(104, 112)]
    terms = {(1, 1000 * i): summary(100 + i) for i in range(1, 12)} | {(2, 0): summary(100)}
    events = [leader(1000 * i, 1 if i else 2, i, starts[i], 0, (1,)) for i in range(12)]
    lookup = FakeLookup(terms, states={2: GONE_FOR_LONG})
    rows = regressions([*events, leader(30_000, 2, 12, 500, 90, (2,), unclean=True)], lookup)
    assert (rows[-1]["class"], rows[-1]["lost_from"], rows[-1]["lost_to"]) == ("unclean_loss", 50, 111)


def log(source_id, *events):
    for event in events:
        event.source_id = source_id
    return list(events)


@pytest.mark.parametrize("epochs", [(1, 5), range(1, 13)])
def test_leader_epochs_that_go_back_in_one_source_break_the_lineage(epochs):
    """A snapshot of quorum and disks was restored: what it lacks is lost, whatever the epochs, folded ones too."""
    terms = {(1, 1000 * e): summary(1000) for e in epochs}
    starts = [leader(1000 * e, 1, e, 0 if e == 1 else 1000, 0, (1,)) for e in epochs]
    back = leader(90_000, 1, 3, 100, 100, (1,), partition_epoch=4)
    rows = regressions(log("b1", *starts, back), FakeLookup(terms))
    losses = [(r["leader_epoch"], r["lost_from"], r["lost_to"]) for r in rows if r["severity"] == "critical"]
    assert losses == [(3, 100, 1000)]
    assert rows[-1]["regression_id"].endswith("term-3.0-1")


@pytest.mark.parametrize("late", [False, True])
def test_what_is_told_late_of_before_a_restoration_is_judged_with_the_terms_of_before(late):
    """Broker 2 led epoch 5 up to HW 1000; its log comes when broker 1 has long gone back to epoch 3, from 100."""
    before = log("b1", leader(1000, 1, 1, 0, 0, (1, 2)), follower(50_010, 1, 5, 500, 500, 2))
    back = log("b1", leader(90_000, 1, 3, 100, 100, (1,), partition_epoch=4))
    led = log("b2", follower(1010, 2, 1, 0, 0, 1), leader(50_000, 2, 5, 500, 500, (1, 2), partition_epoch=9))
    events = [*before, *back, *led] if late else [before[0], *led, before[1], *back]
    lookup = FakeLookup({(1, 1000): summary(500), (2, 50_000): summary(1000)})
    losses = [
        (r["leader_epoch"], r["lost_from"], r["lost_to"])
        for r in regressions(events, lookup)
        if r["severity"] == "critical"
    ]
    assert losses == [(3, 100, 1000)]


def test_a_former_leader_that_joined_the_isr_later_stored_its_hw_there():
    """At level 0, where broker 1 does not tell that it followed."""
    lookup = FakeLookup({(1, 0): summary(100, level=0), (2, 5000): summary(150, level=0)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 120, 100, (2,), partition_epoch=1),
        isr(6000, 2, (1, 2), 2, leader_id=2, leader_epoch=1),
        election(29_990, 1, 2, isr=(1,), partition_epoch=3, unclean=False, committed=True),
        leader(30_000, 1, 2, 150, 150, (1,), partition_epoch=3),
    ]
    assert [r["class"] for r in regressions(events, lookup) if r["severity"] == "critical"] == []


@pytest.mark.parametrize(("resumed", "lost"), [
    pytest.param(90_000, [], id="the leader was down while another led"),
    pytest.param(49_000, [(1, 100, 150)], id="it resumed before that"),
])  # fmt: skip
def test_epochs_go_back_as_a_leader_resumes_one_that_a_follower_goes_back_to(resumed, lost):
    events = [
        *log("b1", leader(0, 1, 0, 0, 0, (1, 2))),
        *log("b2", follower(10, 2, 0, 0, 0, 1), leader(50_000, 2, 1, 100, 100, (2,))),
        *log("b1", leader(resumed, 1, 0, 100, 100, (1, 2))),
        *log("b2", follower(90_050, 2, 0, 100, 100, 1)),
    ]
    lookup = FakeLookup({(1, 0): summary(100), (2, 50_000): summary(100), (1, resumed): summary(150)})
    rows = regressions(sorted(events, key=lambda event: event.ts), lookup)
    critical = [(r["leader_epoch"], r["lost_from"], r["lost_to"]) for r in rows if r["severity"] == "critical"]
    assert critical == lost


RESUMES = leader(120_000, 1, 0, 0, 0, (1, 2))
ENDED = election(50_000, 2, 1, isr=(2,), partition_epoch=1, committed=True)


@pytest.mark.parametrize(("rows", "restorations"), [
    pytest.param([ENDED, RESUMES], 1, id="its leader's process began after another's election"),
    pytest.param([replace(ENDED, committed=None), RESUMES], 0, id="or after one that may not be committed"),
    pytest.param([replace(ENDED, ts=57_000_000), RESUMES], 0, id="or perhaps before that"),
    pytest.param([isr(59_000, 1, (2,), 1, leader_id=2, leader_epoch=1), RESUMES], 1, id="it told the later ISR before"),
    pytest.param(
        [leader(59_000, 2, 1, 0, 0, (2,)), RESUMES, isr(150_000, 2, (1,), 1, leader_id=1, leader_epoch=0)],
        1,
        id="the later leader tells the earlier ISR",
    ),
])  # fmt: skip
def test_epochs_go_back_though_only_other_rows_tell_of_the_later_one(rows, restorations):
    events = [leader(1, 1, 0, 0, 0, (1, 2)), *(replace(row) for row in rows)]
    for event in events:
        event.source_id = f"b{event.broker_id}"
    history = history_of(events, FakeLookup(states={1: [(115_000, "started", 7)]}))
    assert history.terms.lineage == restorations
    assert [t.start_ts for t in history.terms.terms if t.epoch == 0][-1] == RESUMES.ts


@pytest.mark.parametrize("leo", [300, pytest.param(280, id="it has lost [280, 300), which its successor has")])
def test_a_leader_that_recovered_its_logs_resumes_as_of_the_metadata_of_before_that(leo):
    """Killed at 40 s and restarted at 42 s, as it still led: recovery took until 60 s, the controller fenced it at 49 s
    and registered it then."""
    events = [
        *log("b1", leader(0, 1, 0, 0, 0, (1, 2))),
        *log("c", election(49_000, 2, 1, isr=(2,), partition_epoch=1, committed=True)),
        *log("b2", follower(10, 2, 0, 0, 0, 1), leader(49_010, 2, 1, 300, 290, (2,))),
        *log("b1", leader(60_000, 1, 0, leo, 250, (1, 2)), follower(60_050, 1, 1, leo, 250, 2)),
    ]
    events.sort(key=lambda event: event.ts)
    lives = [(41_000, UNCLEAN_START, None), (49_000, "fenced", 3), (49_500, "started", 7)]
    lookup = FakeLookup({(1, 0): summary(300), (2, 49_010): summary(500), (1, 60_000): summary(250)}, {1: lives})
    history = history_of(events, lookup)
    assert history.terms.lineage == 0
    rows = regressions(events, lookup)
    assert [r["class"] for r in rows if r["severity"] == "critical"] == []
    assert ("committed_loss" in [r["class"] for r in rows if r["severity"] == "warning"]) == (leo < 300)


def test_hws_of_a_leader_that_resumed_an_epoch_when_it_was_over_are_not_known_to_be_of_before_the_next():
    """No controller is read, and no line of a follower: a snapshot may be restored after epoch 1 lost nothing."""
    led = {(1, 0): summary(100, fetchers=frozenset({2})), (2, 20_000): summary(100), (1, 60_000): summary(130)}
    events = [
        *log("b1", leader(0, 1, 0, 0, 0, (1, 2))),
        *log("b2", leader(20_000, 2, 1, 100, 100, (1, 2))),
        *log("b1", leader(60_000, 1, 0, 100, 100, (1, 2), partition_epoch=0)),
    ]
    lookup = FakeLookup(led, {1: [], 2: []}, {1: [59_000], 2: [59_000]})
    rows = [row for row in regressions(events, lookup) if row["class"] == "committed_loss"]
    assert [(brief(row), json.loads(row["evidence"])["missing"]) for row in rows] == [
        (
            ("committed_loss", "warning", "unproven", 100, 130),
            ["whether broker 1 began before leader epoch 0 was over"],
        )
    ]


def test_a_broker_may_have_replicated_in_a_term_whose_leaders_clock_is_ahead_of_the_controllers():
    """3 led from 98 s on, by its clock 107 s, and 1, whose log of then is gone, stored its HW; it was fenced at 105 s.
    No controller at INFO tells of that election."""
    events = [
        *log("b2", leader(1000, 2, 0, 0, 0, (1, 2, 3))),
        *log("b1", follower(1010, 1, 0, 0, 0, 2)),
        *log("b3", leader(107_000, 3, 1, 100, 100, (1, 3))),
        *log("c", election(106_000, 2, 2, isr=(2,), partition_epoch=2, unclean=True, committed=True)),
        *log("b2", leader(106_010, 2, 2, 300, 100, (2,))),
        *log("b1", follower(200_000, 1, 2, 300, 300, 2)),
    ]
    lives = [(0, "unfenced", 1), (105_000, "fenced", 1), (199_000, "started", 9), (199_000, UNCLEAN_START, None)]
    lookup = FakeLookup({(2, 1000): summary(100), (3, 107_000): summary(100), (2, 106_010): summary(300)}, {1: lives})
    rows = regressions(sorted(events, key=lambda event: event.ts), lookup)
    assert [r["class"] for r in rows if r["severity"] == "critical"] == []


def test_what_a_leader_did_last_before_epochs_go_back_is_not_known():
    """The quorum alone was restored: 2 leads an earlier epoch from above the last HW that the leader before told."""
    events = [
        *log("b1", leader(0, 1, 5, 0, 0, (1,))),
        *log("b2", follower(10, 2, 5, 0, 0, 1), leader(90_000, 2, 3, 120, 100, (2,), partition_epoch=4)),
    ]
    rows = regressions(events, FakeLookup({(1, 0): summary(100)}))
    assert [r["class"] for r in rows if r["leader_epoch"] == 3] == ["loss_not_excluded"]


def test_a_partition_epoch_that_goes_back_in_one_leader_epoch_breaks_the_lineage():
    """The snapshot that was restored is of the same leader epoch."""
    shrunk = isr(2000, 1, (1, 2), 1, leader_id=1, leader_epoch=0)
    events = [leader(0, 1, 0, 0, 0, (1, 2, 3)), shrunk, leader(5000, 1, 0, 0, 0, (1, 2, 3), partition_epoch=0)]
    assert history_of(events, FakeLookup()).terms.lineage == 1
    events[-1] = leader(5000, 1, 0, 0, 0, (1, 2), partition_epoch=1)
    assert history_of(events, FakeLookup()).terms.lineage == 0


def test_a_lower_leader_epoch_of_another_source_breaks_no_lineage():
    terms = {(1, 0): summary(300), (2, 5000): summary(320), (3, 4990): summary(310)}
    events = [
        *log("b1", leader(0, 1, 0, 0, 0, (1, 2, 3))),
        *log("b3", leader(4990, 3, 2, 320, 300, (2, 3))),
        *log("b2", leader(5000, 2, 1, 300, 300, (1, 2, 3))),
    ]
    assert history_of(events, FakeLookup(terms)).terms.lineage == 0


COMES_BACK = [follower(20_000, 1, 5, 300, 300, 2)]


@pytest.mark.parametrize("cut", [True, False])
def test_the_first_start_known_is_judged_where_a_hw_of_before_is(cut):
    """The lake begins with an unclean election; the former leader comes back and cuts off what it had committed."""
    events = [
        election(-10, 2, 5, isr=(2,), replicas=(1, 2), partition_epoch=9, unclean=True),
        leader(0, 2, 5, 120, 100, (2,), partition_epoch=9, unclean=True),
        *COMES_BACK,
    ]
    cuts = [PartitionEvent(20_100_000, "truncate", 1, replica_id=1, leo=120)] if cut else []
    (row,) = [r for r in regressions([*events, *cuts], FakeLookup()) if "term" in r["regression_id"]]
    lost, unknown = (
        ("unclean_loss", "critical", "bounded", 120, 300),
        ("loss_not_excluded", "warning", "unproven", None, None),
    )
    assert brief(row) == (lost if cut else unknown)


def test_a_followers_own_hw_counts_where_its_leaders_end_earlier():
    terms = {(1, 0): summary(100, fetchers=frozenset({2, 3}))}
    events = [leader(0, 1, 0, 0, 0, (1, 2, 3)), leader(5000, 2, 1, 150, 100, (2,), unclean=True)]
    last = PartitionEvent(4_000_000, "hw", 3, leader_epoch=0, hw=300, detail="of_follower")
    (row,) = regressions([*events, last], FakeLookup(terms))
    assert brief(row) == ("unclean_loss", "critical", "bounded", 150, 300)
    assert json.loads(row["evidence"])["hw"]["by"] == "reported by follower 3"


def test_what_the_leader_reported_above_the_computed_hw_counts_and_bounds():
    terms = {(1, 0): summary(100, fetchers=frozenset({2}), witnessed=300, witnessed_ts=1, reported=100)}
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 100, 100, (2,), unclean=True)]
    assert [brief(r) for r in regressions(events, FakeLookup(terms))] == [
        ("unclean_loss", "critical", "bounded", 100, 300)
    ]


def test_a_computed_hw_that_its_leader_never_reported_is_at_most():
    """min.insync.replicas is 2, and nobody told it."""
    terms = {(1, 0): summary(300, fetchers=frozenset({2}), reported=200)}
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 150, 150, (2,), unclean=True)]
    (row,) = regressions(events, FakeLookup(terms))
    assert brief(row) == ("unclean_loss", "critical", "bounded", 150, 200)
    assert json.loads(row["evidence"])["at_most"] == [150, 300]
    (row,) = regressions([events[0], leader(5000, 2, 1, 200, 200, (2,), unclean=True)], FakeLookup(terms))
    assert brief(row)[:2] == ("loss_not_excluded", "warning")


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ([], ["loss_not_excluded"]),
        ([(4000, "fenced", 7)], ["loss_not_excluded"]),
        ([(4000, "fenced", 7), (9000, "unfenced", 7)], []),
        ([(4000, "fenced", 7), (8000, "started", 8), (9000, "unfenced", 8)], ["loss_not_excluded"]),
        ([(4000, "fenced", 7), (8000, "started", 8), (8100, UNCLEAN_START, None)], ["loss_not_excluded"]),
        ([(4000, "fenced", 7), (8000, "started", 8), (8100, CLEAN_START, None)], []),
    ],
)
def test_a_leader_told_all_its_hws_where_it_goes_on_in_the_same_life_or_had_stopped_cleanly(states, found):
    """A power failure cuts the log file like the data."""
    terms = {(1, 0): summary(300, leader_leo=300, fetchers=frozenset({2}))}
    events = [leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 300, 300, (2,), unclean=True)]
    back = [follower(10_000, 1, 1, 300, 280, 2)] if len(states) > 1 else []
    rows = regressions([*events, *back], FakeLookup(terms, {1: [(-1000, "unfenced", 7), *states]}))
    assert [r["class"] for r in rows if "term" in r["regression_id"] and "withdrawn" not in r["evidence"]] == found


@pytest.mark.parametrize(("log_start", "lost"), [(0, (0, 1000)), (990, (990, 1000)), (1000, None)])
def test_nothing_is_lost_below_the_log_start(log_start, lost):
    terms = {(1, 0): summary(1000, fetchers=frozenset({2}))}
    deleted = isr(4000, 1, (1,), 1, leader_id=1, leader_epoch=0, log_start=log_start)
    events = [leader(0, 1, 0, 0, 0, (1, 2)), deleted, leader(5000, 2, 2, 0, 0, (2,), unclean=True)]
    rows = [r for r in regressions(events, FakeLookup(terms)) if r["class"] == "unclean_loss"]
    assert [(r["lost_from"], r["lost_to"]) for r in rows] == ([lost] if lost else [])


def test_a_term_that_only_the_controller_told_is_one_of_which_nothing_is_known():
    """Its leader may have begun below, and what it wrote since reaches as far."""
    terms = {(1, 0): summary(300, fetchers=frozenset({2, 3})), (3, 9000): summary(320)}
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        election(5000, 2, 1, isr=(2,), partition_epoch=1, committed=True),
        leader(9000, 3, 2, 310, 290, (3,), partition_epoch=2),
    ]
    assert "stale_leader_hw" not in [r["class"] for r in regressions(events, FakeLookup(terms))]


def test_a_clean_election_whose_leader_told_no_start_is_judged():
    killed = {2: [(-1000, "unfenced", 7), (4000, "started", 8), (4500, "unfenced", 8)]}
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        election(5000, 2, 1, isr=(2,), partition_epoch=1, committed=True),
    ]
    rows = regressions(events, FakeLookup({(1, 0): summary(300)}, killed))
    assert [(r["class"], r["leader_epoch"]) for r in rows] == [("loss_not_excluded", 1)]


def test_a_former_leader_that_another_leader_saw_fetch_has_its_hw_from_there():
    """Its own start as a follower is missing."""
    terms = {(1, 0): summary(200, fetchers=frozenset({2})), (2, 5000): summary(300, fetchers=frozenset({1, 3}))}
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 200, 200, (1, 2, 3)),
        leader(50_000, 3, 2, 300, 300, (3, 1)),
        follower(60_000, 1, 2, 300, 300, 3),
    ]
    assert regressions(events, FakeLookup(terms)) == []


def test_hmax_is_set_back_to_the_start_after_a_loss():
    lookup = FakeLookup(
        {(1, 0): summary(300, fetchers=frozenset({2})), (2, 5000): summary(200, fetchers=frozenset({1}))}
    )
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        leader(5000, 2, 1, 120, 100, (2,), unclean=True),
        leader(9000, 1, 2, 220, 200, (1, 2)),
        follower(9100, 2, 2, 220, 200, 1),
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


KILLED = [(-1000, "unfenced", 7), (3000, "fenced", 7), (8000, "started", 8), (8500, "unfenced", 8)]
AWAY = [(-1000, "unfenced", 6), (1950, "fenced", 6), (3500, "unfenced", 6)]
"""Out of the cluster for as long as the leader was alone in the ISR."""


def test_a_former_leader_alone_in_the_isr_had_committed_all_it_comes_back_with():
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(level=0)}, {1: KILLED, 2: AWAY})
    (row,) = [r for r in regressions(alone(), lookup) if r["class"] == "unclean_loss"]
    assert brief(row) == ("unclean_loss", "critical", "bounded", 250, 300)
    assert json.loads(row["evidence"])["bound"] == "at_least"


@pytest.mark.parametrize("states", [{}, {2: [*AWAY[:2], (2100, "unfenced", 6)]}, {2: [(-1000, "unfenced", 6)]}])
def test_the_hw_of_a_leader_that_is_alone_may_have_waited_for_a_replica_that_was_there(states):
    """At level 0 nobody tells that it fetched, and had caught up."""
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(level=0)}, {1: KILLED} | states)
    assert "unclean_loss" not in [r["class"] for r in regressions(alone(), lookup)]


def test_a_former_leader_alone_below_min_isr_had_committed_only_what_it_stored():
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(level=0)}, {1: KILLED, 2: AWAY}, least=2)
    events = [
        leader(0, 1, 0, 0, 0, (1, 2), level=0),
        follower(10, 2, 0, 0, 0, 1),
        isr(2000, 1, (1,), 1, leader_id=1, leader_epoch=0),
        follower(4000, 2, 0, 120, 30, 1),
        leader(5000, 2, 1, 120, 30, (2,), unclean=True, partition_epoch=2, level=0),
        follower(9000, 1, 1, 300, 230, 2),
    ]
    (row,) = [r for r in regressions(events, lookup) if r["class"] == "unclean_loss"]
    assert (row["lost_from"], row["lost_to"]) == (120, 230)
    assert "at_most" not in json.loads(row["evidence"])  # its log may have been longer, too


def alone(*between, at_level=0, replicas=(1, 2)):
    return [
        leader(0, 1, 0, 0, 0, (1, 2), level=at_level, replicas=replicas),
        follower(10, 2, 0, 0, 0, 1),
        isr(2000, 1, (1,), 1, leader_id=1, leader_epoch=0),
        *between,
        leader(5000, 2, 1, 250, 30, (2,), unclean=True, partition_epoch=2, level=0),
        follower(9000, 1, 1, 300, 230, 2),
    ]


def test_who_is_alone_in_the_isr_is_not_known_where_nobody_tells_who_is_assigned():
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(level=0)}, {1: KILLED, 2: AWAY})
    assert "unclean_loss" not in [r["class"] for r in regressions(alone(replicas=None), lookup)]


def test_the_hw_of_a_leader_that_is_alone_waits_for_the_replica_that_it_asked_to_let_in():
    """KAFKA-4485: it appended to 300 and was killed before the controller had answered."""
    lookup = FakeLookup({(1, 0): summary(level=0), (2, 5000): summary(level=0)}, {1: KILLED, 2: AWAY})
    asked = proposed(4000, 1, (1, 2), "expand")
    assert [r["lost_to"] for r in regressions(alone(), lookup) if r["class"] == "unclean_loss"] == [300]
    assert [r["lost_to"] for r in regressions(alone(asked), lookup) if r["class"] == "unclean_loss"] == []


def test_of_a_term_that_was_told_to_its_end_the_hws_count_and_not_what_its_leader_comes_back_with():
    stopped = [*KILLED, (8100, CLEAN_START, None)]
    lookup = FakeLookup({(1, 0): summary(250, fetchers=frozenset({2}))}, {1: stopped})
    assert [r["class"] for r in regressions(alone(at_level=3), lookup) if "loss" in r["class"]] != ["unclean_loss"]


def test_min_isr_counts_as_it_was_in_the_term_of_a_leader_alone():
    """An operator lowered it after the leader was dead: its HW had stood still."""

    class Lowered(FakeLookup):
        def min_isr(self, as_of, by_leader=None):
            return 2 if as_of < 3_000_000 else 1

    lookup = Lowered({(1, 0): summary(level=0), (2, 5000): summary(level=0)}, {1: KILLED, 2: AWAY})
    assert [r["lost_to"] for r in regressions(alone(), lookup) if r["class"] == "unclean_loss"] == []


@pytest.mark.parametrize("knew", [True, False])
def test_a_leader_made_the_last_of_its_isr_when_it_was_dead_already_committed_no_more(knew):
    dead = [(-1000, "unfenced", 7), (5300, "fenced", 7), (15_000, "started", 8)]
    lookup = FakeLookup({(1, 0): summary(0, leader_leo=1, level=0)}, {1: dead, 2: [(4990, "fenced", 6)]})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2), level=0, replicas=(1, 2)),
        isr(5000, 9, (1,), 1, "controller", leader_id=1, leader_epoch=0),
        *([isr(5010, 1, (1,), 1, leader_epoch=0)] if knew else []),
        election(5300, -1, 1, isr=(), partition_epoch=2),
        leader(16_000, 1, 2, 1, 0, (1,), unclean=True, partition_epoch=3),
    ]
    assert [(row["class"], row["hw_before"]) for row in regressions(events, lookup)] == [
        ("loss_not_excluded", 1 if knew else 0)
    ]


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
    events = [leader(0, 1, 0, 0, 0, (1, 2), topic_id=None), leader(5000, 1, 0, 250, 250, (1, 2), topic_id=None)]
    (row,) = regressions(events, lookup)
    assert (row["proof"], json.loads(row["evidence"])["missing"]) == ("unproven", ["topic id"])


def test_a_loss_of_a_cluster_without_topic_ids_is_bounded_where_leader_epochs_go_on():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [leader(0, 1, 0, 0, 0, (1, 2), topic_id=None), leader(5000, 2, 1, 250, 250, (1, 2), topic_id=None)]
    (row,) = regressions(events, lookup)
    assert (row["severity"], row["proof"], row["lost_from"], row["lost_to"]) == ("critical", "bounded", 250, 300)


def test_what_a_deposed_leader_still_committed_counts_for_its_term():
    lookup = FakeLookup({(1, 0): summary(250, fetchers=frozenset({2}))})
    history = history_of([leader(0, 1, 0, 0, 0, (1, 2)), leader(5000, 2, 1, 250, 250, (2,))], lookup)
    assert history.take_regressions() == []
    lookup.terms[1, 0] = summary(260, fetchers=frozenset({2}))
    history.zombie_rise(history.terms.terms[0], 260, 6_000_000, lookup)
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
    terms = {(2, 0): summary(100)} | {(1, 1000 * i): summary(100 + i) for i in range(1, 12)}
    lookup = FakeLookup(terms, states={2: GONE_FOR_LONG})
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
    losses = [brief(r) for r in regressions(events, lookup) if r["class"] != "loss_not_excluded"]
    assert losses == [("committed_loss", "critical", "bounded", 150, 200)]


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
