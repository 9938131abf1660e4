"""Losses that rest on what leaders and followers report themselves: rows in, verdicts out."""

from __future__ import annotations

import json
from itertools import groupby

import pytest

from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.facts.tables import Facts
from pipelines.replication.state import state
from schemas.event_types import CLEAN_START
from tests.unit.replication.bronze import Source, controller, events_of, last_rows, table


def broker(number, level=3):
    return Source(f"broker-{number}/replication.log").at_level(level)


def losses(*sources):
    rows = last_rows(replay(table(*sources), Rules()).hw_regressions, "regression_id")
    return [
        (r["class"], r["severity"], r["lost_from"], r["lost_to"])
        for r in sorted(rows, key=lambda r: r["ts"])
        if r["severity"] == "critical"
    ]


def reported(source, ms, hw, before):
    return source.event(ms, "hw", replica_id=source.broker, hw=hw, hw_before=before, leader_id=source.broker)


@pytest.mark.parametrize("gone_on", [True, False])
def test_a_replica_that_the_controller_removed_is_no_joiner_that_the_hw_waits_for(gone_on):
    """3 is killed, and removed without the leader asking; nobody tells that it is fenced (isReplicaIsrEligible)."""
    a, b, c, q = broker(1), broker(2), broker(3), controller()
    a.leader(0, 0, 0, 0, [1, 2, 3], min_isr=1)
    b.follower(1, 0, 0, 0, of=1)
    c.follower(1, 0, 0, 0, of=1)
    a.append(10, 100).fetch(20, 2, 100).fetch(21, 3, 100)
    reported(a, 21, 100, 0)
    for ms in range(500, 10_000, 500):
        a.fetch(ms, 2, 100).fetch(ms + 1, 3, 100)
    a.isr(19_010, [1, 2], 1, "metadata")
    for hw in range(101, 301):
        ms = 19_100 + (hw - 100) * 50
        reported(a.append(ms, hw).fetch(ms + 10, 2, hw), ms + 10, hw, hw - 1)
    (a.append(29_500, 301) if gone_on else a).progress(30_000)
    c.follower(35_000, 1, 100, 100, of=-1).leader(40_000, 3, 100, 100, [3], partition_epoch=4, unclean=True)
    for source in (c, q):
        source.progress(290_000)
    assert losses(a, b, c, q) == [("unclean_loss", "critical", 100, 300)]


def under_other_rules(*hws):
    """Kafka 3.6 by the rules of 3.7: ISR {1}, min ISR 2 told, the HW goes on."""
    a, b, q = broker(1), broker(2), controller()
    q.config(-7000, topic="clicks", min_isr=2)
    a.leader(0, 0, 100, 100, [1, 2], replicas=[1, 2])
    b.follower(1, 0, 100, 100, of=1)
    reported(a.append(10, 200).fetch(20, 2, 200), 20, 200, 100)
    q.broker_state(40, 2, "fenced", 2)
    a.isr(50, [1], 1, "metadata")
    for k, (before, hw) in enumerate(hws):
        reported(a.append(1000 + k * 10, 300), 1000 + k * 10, hw, before)
    a.append(4000, 301).progress(9000)
    b.leader(10_000, 1, 200, 200, [2], partition_epoch=2, replicas=[1, 2], unclean=True)
    for source in (b, q):
        source.progress(90_000)
    return losses(a, b, q)


def test_a_chain_of_reports_above_the_computed_hw_counts():
    assert under_other_rules(*((hw - 1, hw) for hw in range(201, 301))) == [("unclean_loss", "critical", 200, 300)]


def test_one_wrong_report_above_the_computed_hw_does_not():
    assert under_other_rules((200, 299)) == []
    assert under_other_rules((200, 250), (240, 299)) == []


def test_a_followers_own_hw_counts_though_its_leaders_rows_end_before():
    a, b, c, q = broker(1), broker(2), broker(3), controller()
    a.leader(0, 0, 0, 0, [1, 2, 3], min_isr=1)
    b.follower(1, 0, 0, 0, of=1)
    c.follower(1, 0, 0, 0, of=1)
    reported(a.append(10, 100).fetch(20, 2, 100).fetch(21, 3, 100), 21, 100, 0)
    for ms, hw in ((30, 100), (500, 300)):
        c.event(ms, "hw", replica_id=3, hw=hw, leader_id=1, leader_epoch=0)
    b.leader(10_000, 1, 150, 100, [2], partition_epoch=2, unclean=True)
    for source in (b, q):
        source.progress(90_000)
    assert losses(a, b, c, q) == [("unclean_loss", "critical", 150, 300)]


def test_a_computed_hw_that_a_leader_which_prints_every_hw_never_reported_is_at_most():
    """min.insync.replicas is 2, which nobody tells: the HW stands still at 200 since the ISR is {1}."""
    a, b, q = broker(1), broker(2), controller()
    a.leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    b.follower(1, 0, 0, 0, of=1)
    reported(a.append(10, 200).fetch(20, 2, 200), 20, 200, 0)
    q.broker_state(40, 2, "fenced", 2)
    a.isr(50, [1], 1, "metadata").append(60, 300).progress(9000)
    b.leader(10_000, 1, 200, 200, [2], partition_epoch=2, replicas=[1, 2], unclean=True)
    for source in (a, b, q):
        source.progress(90_000)
    assert losses(a, b, q) == []
    rows = replay(table(a, b, q), Rules()).hw_regressions.to_pylist()
    assert [(r["class"], r["hw_before"], json.loads(r["evidence"])["missing"][:2]) for r in rows] == [
        ("loss_not_excluded", 200, ["an upper bound of the HW before", "a clean election"])
    ]


@pytest.mark.parametrize(
    ("replicas", "min_isr", "expected"),
    [
        (None, 2, []),
        (None, 1, [("unclean_loss", "critical", 50, 100)]),
        ([1], 2, [("unclean_loss", "critical", 50, 100)]),
        ([1, 2], 2, []),
    ],
)
def test_a_hw_that_rose_below_min_isr_as_no_more_replicas_were_named_is_at_most(replicas, min_isr, expected):
    """Brokers' logs name those in the ISR. Where one more is assigned, the HW stands still at 50."""
    a, b = broker(1, 1), broker(2, 1)
    a.leader(0, 0, 100, 50, [1], replicas=replicas, min_isr=min_isr).progress(9000)
    b.leader(10_000, 1, 50, 50, [2], partition_epoch=1, replicas=replicas and [1, 2], unclean=True)
    assert losses(a.progress(90_000), b.progress(90_000)) == expected


@pytest.mark.parametrize(("replicas", "expected"), [(None, []), ([1], [("unclean_loss", "critical", 60, 100)])])
@pytest.mark.parametrize("over", [True, False])
def test_so_is_one_that_rose_after_min_isr_was_set_above_the_replicas_that_are_known(replicas, expected, over):
    """The lane does not look at settings while all replicas that it knows are in the ISR."""
    a, b, q = broker(1, 1), broker(2, 1), controller()
    a.leader(0, 0, 60, 60, [1], replicas=replicas, min_isr=1).progress(2000)
    q.config(3000, "clicks", min_isr=2)
    a.append(5000, 100).progress(9000)
    if over:
        a.follower(9500, 1, 100, 60, of=2)
    b.leader(10_000, 1, 60, 60, [2], partition_epoch=1, replicas=replicas and [1, 2], unclean=True)
    for source in (a, b, q):
        source.progress(90_000)
    assert losses(a, b, q) == expected


def present(a, **rules):
    r = Reconstructor(Rules(lag_max_ms=30_000, **rules))
    r.update(table(a))
    (row,) = r.health().to_pylist()
    return row


def test_every_member_that_is_not_where_its_leader_was_some_seconds_ago_is_behind():
    """2 hangs at 100 and holds the HW, 3 hangs at 110: both are in the ISR for the rest of the lag."""
    a = broker(1).leader(0, 0, 0, 0, [1, 2, 3], min_isr=1)
    for k in range(1, 11):
        a.append(k * 100, k * 10).fetch(k * 100 + 10, 2, k * 10).fetch(k * 100 + 10, 3, k * 10)
    a.append(1100, 110).fetch(1110, 3, 110)
    for k in range(12, 131):
        a.append(k * 100, k * 10)
    assert present(a.progress(13_100))["behind"] == [2, 3]


def test_a_member_that_was_idle_with_its_leader_is_not_behind_as_that_appends():
    a = broker(1).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(10, 100).fetch(20, 2, 100)
    row = present(a.append(60_000, 200).progress(60_500))
    assert (row["behind"], row["holding_replicas"]) == ([], [2])


@pytest.mark.parametrize(
    ("told", "rules", "known"),
    [({}, {}, None), ({"min_isr": 2}, {}, 2), ({}, {"min_isr": 2}, 2)],
)
def test_min_isr_is_not_known_of_a_topic_whose_own_setting_nobody_told(told, rules, known):
    """The broker's default, which is told, may be overridden."""
    a = broker(1).config(-10, min_isr=1).leader(0, 0, 0, 0, [1, 2, 3], **told).progress(500)
    assert present(a, **rules)["min_isr"] == (known if told or known is None else 1)


def classes(*sources):
    rows = last_rows(replay(table(*sources), Rules()).hw_regressions, "regression_id")
    return [r["class"] for r in rows if "withdrawn" not in r["evidence"]]


@pytest.mark.parametrize("hole", [True, False])
def test_a_hole_reaches_from_the_row_before_it_to_the_row_after(hole):
    """Leader 1 stops cleanly and tells its next start; what it told last of its term is missing."""
    a, b, q = broker(1), broker(2), controller()
    for number in (1, 2):
        q.broker_state(-5000, number, "unfenced", epoch=number)
    a.leader(0, 0, 0, 0, [1, 2], min_isr=1).append(10, 5)
    reported(a.fetch(20, 2, 5), 20, 5, 0)
    b.follower(1, 0, 0, 0, of=1).leader(5000, 1, 5, 5, [2], unclean=True, partition_epoch=2)
    q.progress(50_000)
    if hole:
        a.lost(8000)
    a.event(8001, "config", True, detail=CLEAN_START).follower(8100, 1, 5, 5, of=2)
    assert ("loss_not_excluded" in classes(a, b, q)) == hole


def test_facts_do_not_depend_on_how_many_terms_are_over(monkeypatch):
    """A hole in the log of a follower that never comes back holds the history back, for longer than ended terms are
    kept where there are many."""
    a, b, q = broker(1), broker(2), controller()
    a.leader(0, 0, 0, 0, [1, 2], min_isr=1).append(10, 5)
    reported(a.fetch(20, 2, 5), 20, 5, 0).isr(5000, [1], 1, "metadata")
    b.follower(1, 0, 0, 0, of=1).follower_hw(20, 3, of=1).follower_hw(30, 5, of=1)
    del b.rows[1]
    reported(a.leader(20_000, 0, 5, 5, [1], min_isr=1, partition_epoch=1).append(21_000, 9), 21_000, 9, 5)
    reported(a.leader(40_000, 0, 9, 9, [1], min_isr=1, partition_epoch=1).append(41_000, 12), 41_000, 12, 9)
    a.leader(60_000, 0, 12, 9, [1], min_isr=1, partition_epoch=1)
    for source in (a, q):
        source.progress(400_000)
    found = classes(a, b, q)
    monkeypatch.setattr(state, "KEPT_TERMS", 0)
    assert classes(a, b, q) == found


@pytest.mark.parametrize("cut_every", [None, 60_000], ids=["replayed", "live"])
def test_a_gap_is_not_forgotten_however_long_the_term_goes_on(cut_every):
    """Lines of leader 1 are missing at 10 s; an hour later 2 is elected uncleanly."""
    a, b, q = broker(1), broker(2), controller()
    a.leader(0, 0, 0, 0, [1, 2], replicas=[1, 2], min_isr=1).append(10, 100).fetch(20, 2, 100)
    reported(a, 20, 100, 0)
    b.follower(1, 0, 0, 0, of=1)
    q.broker_state(-1000, 1, "unfenced", 7)
    a.lost(10_000)
    for ms in range(20_000, 3_600_001, 20_000):
        a.progress(ms)
        b.progress(ms)
        q.progress(ms)
    b.leader(3_620_000, 1, 100, 100, [2], replicas=[1, 2], unclean=True)
    a.follower(3_620_010, 1, 100, 100, of=2)
    for ms in range(3_640_000, 3_700_001, 20_000):
        for source in (a, b, q):
            source.progress(ms)
    assert verdicts_in_batches((a, b, q), cut_every) == [("loss_not_excluded", "warning", "unproven")]


def verdicts_in_batches(sources, every_ms):
    """What is said of these rows, in one replay or in batches of so many milliseconds, kept as bytes in between."""
    rows = sorted((row for source in sources for row in source.rows), key=lambda row: row["ts"])
    one, said = Reconstructor(Rules()), []
    for _, batch in groupby(rows, key=lambda row: row["ts"] // (every_ms * 1000) if every_ms else 0):
        said.append(one.update(events_of(list(batch))))
        one = Reconstructor.restore(one.snapshot()) if every_ms else one
    facts = Facts.concat([*said, one.finish()])
    found = sorted(last_rows(facts.hw_regressions, "regression_id"), key=lambda row: row["ts"])
    return [(row["class"], row["severity"], row["proof"]) for row in found]


@pytest.mark.parametrize("cut_every", [None, 5000], ids=["replayed", "live"])
@pytest.mark.parametrize(("controller_says", "classes"), [
    pytest.param([70_000], [], id="goes on"),
    pytest.param([], ["loss_not_excluded"], id="its log has ended"),
    pytest.param([190_000], ["stale_leader_hw"], id="goes on two minutes later, and no row is missing"),
    pytest.param(["lost", 70_000], ["loss_not_excluded"], id="its log has a hole"),
    pytest.param(["skipped", 70_000], ["loss_not_excluded"], id="rows of it are missing"),
])  # fmt: skip
def test_a_broker_has_not_restarted_where_the_controller_goes_on(controller_says, classes, cut_every):
    """Stock INFO: leader 1 ends, 2 is elected from its ISR at 60 s, and its own log shows no start."""
    a, b, q = broker(1, level=0), broker(2, level=0), controller()
    for number in (1, 2):
        q.broker_state(-8000, number, "unfenced", epoch=number)
    a.leader(0, 0, 100, 100, [1, 2], replicas=[1, 2])
    b.follower(1, 0, 100, 100, of=1)
    for says in controller_says:
        if says == "lost":
            q.lost(30_000)
        elif says == "skipped":
            q.skip()
        else:
            q.progress(says)
    b.leader(60_000, 1, 200, 150, [2], replicas=[1, 2], partition_epoch=1)
    for ms in range(70_000, 260_000, 10_000):
        b.progress(ms)
    assert [row[0] for row in verdicts_in_batches((a, b, q), cut_every)] == classes


@pytest.mark.parametrize("is_told", [True, False])
def test_a_term_that_only_a_controller_tells_is_one_of_which_nothing_is_known(is_told):
    """Broker 2 may have committed in epoch 2 what broker 3, elected cleanly in epoch 3, has lost since."""
    a, b, c, q = broker(1), broker(2), broker(3), controller()
    for k in (1, 2, 3):
        q.broker_state(-9000, k, "started", k).broker_state(-8900, k, "unfenced", k)
    elected = {"replicas": [1, 2, 3], "unclean": False, "committed": True}
    q.config(-8000, topic="clicks", min_isr=1).election(-10, 1, 1, isr=[1, 2, 3], partition_epoch=1, **elected)
    a.leader(0, 1, 0, 0, [1, 2, 3])
    b.follower(1, 1, 0, 0, of=1)
    c.follower(1, 1, 0, 0, of=1)
    reported(a.append(10, 100).fetch(20, 2, 100).fetch(21, 3, 100), 21, 100, 0)
    if is_told:
        q.election(5000, 2, 2, isr=[2, 3], partition_epoch=2, **elected)
    q.election(9990, 3, 2 + is_told, isr=[3], partition_epoch=2 + is_told, **elected)
    c.leader(10_000, 2 + is_told, 100, 90, [3], partition_epoch=2 + is_told)
    a.follower(10_010, 2 + is_told, 100, 100, of=3)
    facts = replay(table(*(source.progress(90_000) for source in (a, b, c, q))), Rules())
    found = [(r["leader_epoch"], r["class"], r["proof"]) for r in last_rows(facts.hw_regressions, "regression_id")]
    not_known = [(epoch, "loss_not_excluded", "unproven") for epoch in (2, 3)]
    assert found == (not_known if is_told else [(2, "stale_leader_hw", "proven")])


def fallen(hws, then, level):
    """Rows of a partition whose follower reports these HWs, and tells what `then` adds."""
    a, b = broker(1, level), broker(2, level)
    a.leader(0, 0, 300, 300, [1, 2])
    b.follower(1, 0, 300, 300, of=1)
    for k, (before, hw) in enumerate(hws):
        b.event(1000 * k + 1000, "hw", replica_id=2, leader_id=1, leader_epoch=0, hw=hw, hw_before=before)
    facts = replay(table(a, *(source.progress(90_000) for source in (a, b, *then(b)))), Rules())
    return [(r["class"], r["hw_before"], r["hw_after"]) for r in facts.hw_regressions.to_pylist()]


def starts_again(source):
    source.follower(9000, 0, 300, 100, of=1)
    return []


def prints_it_in_another_file(source):
    other = Source("broker-2/server.log").at_level(0)
    return [other.event(2000, "hw", replica_id=2, leader_id=1, leader_epoch=0, hw=100, hw_before=300)]


@pytest.mark.parametrize("level", [3, 2, 0])
@pytest.mark.parametrize("then", [starts_again, prints_it_in_another_file])
def test_a_hw_that_falls_is_told_once(then, level):
    (found, *more) = fallen([(299, 300), (300, 100)], then, level)
    assert (found[1:], more) == ((300, 100), [])


@pytest.mark.parametrize("level", [3, 2, 0])
@pytest.mark.parametrize("own_file", [True, False])
def test_a_cut_below_the_hw_and_the_fall_that_it_brings_are_one_row(own_file, level):
    """UnifiedLog.truncateTo prints the cut, and then the HW that it lowers to it."""
    a, b = broker(1, level), broker(2, level)
    a.leader(0, 0, 300, 300, [1, 2])
    b.follower(1, 0, 300, 299, of=1).follower_hw(1000, 300, of=1)
    cuts = b if own_file else Source("broker-2/server.log").at_level(0)
    cuts.event(2000 if own_file else 1999, "truncate", replica_id=2, leader_epoch=0, leo=100)
    b.event(2000, "hw", replica_id=2, leader_id=1, leader_epoch=0, hw=100, hw_before=300)
    facts = replay(table(*(source.progress(90_000) for source in {a, b, cuts})), Rules())
    found = [(r["class"], r["hw_before"], r["hw_after"]) for r in facts.hw_regressions.to_pylist()]
    assert found == [("loss_not_excluded", 300, 100)]


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_fence_by_a_controller_that_was_frozen_makes_no_leader_alone_whose_follower_goes_on(goes_on):
    """What 9 prints as it wakes, deposed by 8, is never committed: 2 fetches on, and holds the HW at 250 of 300."""
    a, b, woken = broker(1, 0), broker(2, 0), controller()
    active = Source("controller-8/controller.log", level=0)
    for k in (1, 2):
        woken.broker_state(-9000, k, "started", k).broker_state(-8000, k, "unfenced", k)
    woken.config(-7000, topic="clicks", min_isr=1).broker_state(30_000, 2, "fenced", 2)
    a.leader(0, 0, 200, 200, [1, 2], replicas=[1, 2], partition_epoch=1)
    b.follower(1, 0, 200, 200, of=1)
    a.proposed(60_000, [1], "shrink").isr(60_010, [1], 2, leader_epoch=0)
    for ms in range(30_000, 81_000, 1_000) if goes_on else ():
        b.progress(ms)
    active.broker_state(80_000, 1, "fenced", 1).broker_state(90_000, 1, "started", 11)
    b.leader(81_000, 1, 250, 250, [2], replicas=[1, 2], partition_epoch=3, unclean=True)
    a.follower(90_500, 1, 300, 250, of=2).truncate(90_510, 250)
    found = losses(*(source.progress(200_000) for source in (a, b, woken, active)))
    assert found == ([] if goes_on else [("unclean_loss", "critical", 250, 300)])


SAYS_NOTHING = "nobody else tells who is the active controller"
BEFORE, AS_IT_WAKES, LONG_AFTER = "8 won before", "9 learns of 8 as it wakes", "8 wins a minute later"
CONFIRMED = "8 prints the fence, too"


@pytest.mark.parametrize(
    ("replaced", "lost"),
    [
        (SAYS_NOTHING, [("unclean_loss", "critical", 250, 300)]),
        (BEFORE, []),
        (AS_IT_WAKES, []),
        (LONG_AFTER, [("unclean_loss", "critical", 250, 300)]),
        (CONFIRMED, [("unclean_loss", "critical", 250, 300)]),
    ],
)
def test_a_fence_by_a_controller_that_was_replaced_by_then_proves_nothing(replaced, lost):
    """No log of 2 is given: 9 says that 2 is fenced, by 8 it never was, and it holds the HW at 250 of 300."""
    a, c, woken = broker(1, 0), broker(3, 0), controller(controller_epoch=1, committed=False)
    active = Source("controller-8/controller.log", level=0, controller_epoch=2, committed=False)
    for k in (1, 2, 3):
        woken.broker_state(-99_000, k, "started", k).broker_state(-98_000, k, "unfenced", k)
    woken.config(-97_000, topic="clicks", min_isr=1).broker_state(-60_000, 3, "fenced", 3)
    if replaced in (BEFORE, CONFIRMED):
        active.config(-2000, detail="controller=8")
    woken.broker_state(30_000, 2, "fenced", 2)
    if replaced == AS_IT_WAKES:
        woken.event(30_005, "config", True, detail="controller=8", controller_epoch=2, committed=True)
    if replaced == CONFIRMED:
        active.broker_state(30_030, 2, "fenced", 2)
    a.leader(0, 0, 200, 200, [1, 2], replicas=[1, 2, 3], partition_epoch=1)
    a.proposed(60_000, [1], "shrink").isr(60_010, [1], 2, leader_epoch=0)
    active.broker_state(90_000, 1, "fenced", 1).broker_state(100_000, 1, "started", 11)
    c.leader(91_000, 1, 250, 250, [3], replicas=[1, 2, 3], partition_epoch=3, unclean=True)
    a.follower(100_500, 1, 300, 250, of=3).truncate(100_510, 250)
    assert losses(*(source.progress(200_000) for source in (a, c, woken, active))) == lost


@pytest.mark.parametrize(
    ("leo", "stop", "missing"),
    [
        *((leo, "start=unclean", ["a clean stop of broker 2"]) for leo in (250, 301, 400)),
        (400, "kafka=4.1.1", ["a clean stop of broker 2"]),
        (400, "start=clean", None),
        (400, "", ["whether broker 2 has started again"]),
        (400, "it goes on", None),
    ],
)
def test_a_hw_that_may_have_been_stored_before_a_cut_proves_no_loss_of_after_it(leo, stop, missing):
    """2 cut to 100 under leader 3 and is killed before its HW is stored again: it comes with 300 of the term before. Of
    one that goes on it is the one that it had from 3."""
    b, q = [broker(k) for k in (1, 2, 3)], controller()
    if stop == "it goes on":
        b[1].event(0, "config", True, replica_id=2, detail="kafka=4.1.1")
    q.config(0, topic="clicks", min_isr=2)
    q.election(5, 1, 0, isr=[1, 2, 3], replicas=[1, 2, 3], partition_epoch=0, unclean=False)
    b[0].leader(10, 0, 0, 0, [1, 2, 3]).append(100, 300).fetch(200, 2, 300, 300).fetch(210, 3, 300, 300).hw(211, 300)
    for one in b[1:]:
        one.follower(11, 0, 0, 0, 1).follower_hw(300, 300, 1)
    q.broker_state(9000, 1, "fenced").broker_state(9000, 2, "fenced")
    b[2].event(10_000, "config", True, replica_id=3, detail="start=unclean")
    q.election(20_000, 3, 1, isr=[3], replicas=[1, 2, 3], partition_epoch=1, unclean=False)
    b[2].leader(20_010, 1, 100, 100, [3], partition_epoch=1)
    b[1].follower(20_020, 1, 300, 300, 3).truncate(20_030, 100).follower_hw(20_030, 100, 3)
    b[2].append(20_500, leo).fetch(20_600, 2, 100, leo).fetch(20_700, 2, leo, leo).progress(24_000)
    q.broker_state(30_000, 3, "fenced").broker_state(30_000, 2, "fenced")
    q.election(30_005, -1, 2, isr=[3], replicas=[1, 2, 3], partition_epoch=2)
    b[0].event(40_000, "config", True, replica_id=1, detail="start=unclean")
    if "=" in stop:
        b[1].event(40_000, "config", True, replica_id=2, detail=stop)
    q.election(41_000, 1, 3, isr=[1], replicas=[1, 2, 3], partition_epoch=3, unclean=True)
    b[0].leader(41_010, 3, 300, 300, [1], partition_epoch=3, unclean=True).progress(90_000)
    b[1].follower(41_020, 3, leo, min(300, leo), 1).truncate(41_030, 100).progress(90_000)
    rows = last_rows(replay(table(*b, q.progress(90_000)), Rules()).hw_regressions, "regression_id")
    second = [(r["severity"], json.loads(r["evidence"]).get("missing")) for r in rows if r["class"] == "unclean_loss"]
    assert losses(*b, q)[0] == ("committed_loss", "critical", 100, 300)
    assert second == [("warning" if missing else "critical", missing)]


@pytest.mark.parametrize("level", [0, 3])
def test_a_stored_hw_of_a_former_leader_that_joined_proves_no_loss_after_a_resumption_of_the_epoch(level):
    """2 joined before 1 came back with 200 in its epoch: 300 may be of before that, and [200, 300) was lost there."""
    (a, b, c), q = (broker(k, level) for k in (1, 2, 3)), controller()
    q.config(-10, topic="clicks", min_isr=1)
    b.leader(0, 0, 0, 0, [1, 2, 3])
    for one in (a, c):
        one.follower(1, 0, 0, 0, of=2)
    a.leader(10_000, 1, 100, 100, [1, 3]).isr(15_000, [1, 2, 3], 2, leader_epoch=1)
    c.follower(10_001, 1, 100, 100, of=1)
    a.leader(30_000, 1, 200, 200, [1, 2, 3], partition_epoch=2)
    c.leader(50_000, 2, 200, 200, [1, 2, 3], partition_epoch=3)
    a.follower(50_001, 2, 200, 200, of=3)
    b.follower(50_002, 2, 300, 300, of=3)
    assert losses(*(source.progress(200_000) for source in (a, b, c, q))) == []


@pytest.mark.parametrize("told_before", [True, False])
def test_an_unclean_leader_that_had_joined_the_isr_under_another_one_has_its_records(told_before):
    """3 joins under 2, whose log parts from that of 1 at 50, and is elected uncleanly after 1: [50, 100) is lost."""
    (a, b, c), q = (broker(k, 0) for k in (1, 2, 3)), controller()
    q.config(-10, topic="clicks", min_isr=1)
    a.leader(0, 0, 0, 0, [1, 2])
    b.follower(1, 0, 0, 0, of=1)
    if told_before:
        c.follower(1, 0, 0, 0, of=1)
    b.leader(20_000, 1, 50, 50, [2], partition_epoch=1, unclean=True)
    b.isr(25_000, [2, 3], 2, leader_epoch=1).isr(28_000, [2], 3, leader_epoch=1)
    a.leader(40_000, 2, 100, 100, [1], partition_epoch=4, unclean=True)
    c.leader(60_000, 3, 120, 60, [3], partition_epoch=5, unclean=True)
    a.follower(60_001, 3, 100, 100, of=3)
    b.follower(60_002, 3, 120, 60, of=3)
    found = losses(*(source.progress(200_000) for source in (a, b, c, q)))
    assert found[-1] == ("unclean_loss", "critical", 50, 100)


def test_a_hw_computed_without_a_joiner_that_a_hole_hides_is_no_loss():
    """3 joined in the hole, as the controller alone tells, and holds the HW at 100: the leader reported no other."""
    a, b, c, q = broker(1), broker(2), broker(3), controller(committed=True)
    q.config(-10, topic="clicks", min_isr=1)
    q.election(0, 1, 0, isr=[1, 2], replicas=[1, 2, 3], partition_epoch=0, unclean=False)
    a.leader(10, 0, 100, 100, [1, 2], min_isr=1, partition_epoch=0).fetch(30, 2, 100, 100).skip(2)
    for one in (b, c):
        one.follower(20, 0, 100, 100, 1)
    q.isr(1000, [1, 2, 3], 1, "controller", leader_id=1, leader_epoch=0)
    a.append(2000, 300).fetch(2100, 2, 300, 300).progress(3000)
    q.broker_state(12_000, 1, "fenced", 1)
    q.election(12_000, 3, 1, isr=[2, 3], replicas=[1, 2, 3], partition_epoch=2, unclean=False)
    c.leader(12_010, 1, 100, 100, [2, 3], partition_epoch=2)
    b.follower(12_020, 1, 300, 100, 3).truncate(12_030, 100)
    assert losses(a, *(source.progress(200_000) for source in (b, c, q))) == []


def test_a_loss_after_one_inside_an_epoch_is_proven_by_no_offset():
    """1 comes back with 200 of 300, which a copy of its disk calls clean, and commits others in the same epoch: 2 kept
    its own [200, 300), which nobody asks of, so that more than [350, 400) is lost as it is elected."""
    a, b, q = broker(1), broker(2), controller(committed=True)
    elected = {"replicas": [1, 2], "unclean": False}
    q.config(-10, topic="clicks", min_isr=1)
    for k in (1, 2):
        q.broker_state(-9000, k, "started", k).broker_state(-8900, k, "unfenced", k)
    q.election(0, 1, 0, isr=[1, 2], partition_epoch=0, **elected)
    a.leader(10, 0, 0, 0, [1, 2], replicas=[1, 2], partition_epoch=0)
    b.follower(20, 0, 0, 0, 1)
    reported(a.append(100, 300).fetch(200, 2, 0, 300).fetch(210, 2, 300, 300), 210, 300, 0)
    b.follower_hw(720, 300, 1)
    a.event(20_000, "config", True, replica_id=1, detail=CLEAN_START)
    a.leader(20_010, 0, 200, 200, [1, 2], replicas=[1, 2], partition_epoch=0).append(20_020, 400)
    b.follower(20_030, 0, 300, 300, 1)
    reported(a.fetch(20_500, 2, 300, 400).fetch(20_510, 2, 400, 400), 20_510, 400, 200)
    q.broker_state(40_000, 1, "fenced", 1).election(40_000, 2, 1, isr=[2], partition_epoch=1, **elected)
    b.event(40_000, "config", True, replica_id=2, detail=CLEAN_START)
    b.leader(40_010, 1, 350, 300, [2], replicas=[1, 2], partition_epoch=1)
    a.event(59_000, "config", True, replica_id=1, detail=CLEAN_START).follower(60_000, 1, 400, 400, 2)
    facts = replay(table(*(source.progress(200_000) for source in (a, b, q))), Rules())
    found = [(r["lost_from"], r["lost_to"], r["proof"]) for r in last_rows(facts.hw_regressions, "regression_id")]
    assert found == [(200, 300, "proven"), (350, 400, "bounded")]
