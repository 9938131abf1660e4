"""Rows of a controller about brokers after another one has taken its place: nobody ever commits them."""

from __future__ import annotations

import json
from itertools import pairwise

import pyarrow.compute as pc
import pytest

from pipelines.replication import Reconstructor, Rules, replay
from tests.unit.replication.bronze import BASE_MS, Source, advances, controller, events_of, table

SECOND = 1000
NINE = {"controller_epoch": 1, "committed": False}
EIGHT = {"controller_epoch": 2, "committed": False}
START_US = BASE_MS * 1000
UNKNOWN = ("unknown", "told by a controller that another one had replaced")


def woken():
    """9, which registered broker 2 while it was the active controller."""
    return controller(**NINE).broker_state(-99_000, 2, "started", 7).broker_state(-98_000, 2, "unfenced", 7)


def active(ms=0):
    """8, which becomes the active controller."""
    return Source("controller-8/controller.log", level=0, **EIGHT).config(ms, detail="controller=8")


def state(*sources, restored=False):
    reconstructor = Reconstructor(Rules())
    rows = [row for source in sources for row in source.progress(200_000).rows]
    for is_late in (False, True):
        reconstructor.update(events_of([row for row in rows if (row["ts"] > START_US + 35_000_000) == is_late]))
        reconstructor.present()
        reconstructor = Reconstructor.restore(reconstructor.snapshot()) if restored else reconstructor
    reconstructor.finish()
    return next((r["state"], r["reason"]) for r in reconstructor.present().brokers.to_pylist() if r["broker_id"] == 2)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(["fenced"], [], UNKNOWN, id="whether it is fenced is not known"),
        pytest.param(["fenced", "unfenced"], [], UNKNOWN, id="nor whether it is unfenced"),
        pytest.param(["fenced"], [(30_400, "fenced")], ("fenced", "fenced"), id="the new controller fences it as well"),
        pytest.param(["unfenced"], [(9000, "fenced")], UNKNOWN, id="a broker that was fenced is unfenced"),
        pytest.param(["fenced"], [(41_000, None)], ("answers", "unfenced"), id="the new one goes on without it"),
        pytest.param(["unfenced"], [(9000, "fenced"), (41_000, None)], ("fenced", "fenced"), id="and without that"),
        pytest.param(["fenced"], [(70_000, "fenced")], ("fenced", "fenced"), id="a real fence comes later"),
    ],
)
@pytest.mark.parametrize("restored", [False, True])
def test_gold_says_unknown_until_the_new_controller_goes_on(old, new, expected, restored):
    nine, eight = woken(), active()
    for k, detail in enumerate(old):
        nine.broker_state(30_000 + k, 2, detail, 7)
    for ms, detail in new:
        _ = eight.config(ms, min_isr=1) if detail is None else eight.broker_state(ms, 2, detail, 7)
    assert state(nine, eight, restored=restored) == expected


@pytest.mark.parametrize("source_id", ["controller-7/controller.log", "controller-9/controller.log"])
def test_epochs_of_before_a_migration_or_of_another_cluster_of_that_name_depose_nobody(source_id):
    """ZooKeeper's controllers, or the cluster that was there before, had reached epoch 37."""
    before = Source(source_id, level=0, controller_epoch=37, committed=True).config(-500_000, min_isr=1)
    if source_id.startswith("controller-9"):
        before.common |= NINE
        before.config(-490_000, min_isr=1)
        before.common |= {"controller_epoch": 37, "committed": True}
        before.config(-480_000, min_isr=1)
        before.common |= NINE
        nine = before.broker_state(-99_000, 2, "started", 7).broker_state(-98_000, 2, "unfenced", 7)
        before = controller(source_epoch=1)
    else:
        nine = woken()
    assert state(nine.broker_state(30_000, 2, "fenced", 7), before) == ("fenced", "fenced")


@pytest.mark.parametrize("ahead", [-9000, 0, 9000])
def test_a_fence_of_just_before_a_failover_counts_where_a_standby_prints_it_too(ahead):
    nine, standby = woken().broker_state(30_000, 2, "fenced", 7), Source("controller-7/controller.log", level=0)
    for epoch, committed, ms, detail in ((1, True, 30_040, "fenced"), (2, True, 33_000, None)):
        standby.common |= {"controller_epoch": epoch, "committed": committed}
        told = (ms + ahead, 2, detail, 7)
        _ = standby.broker_state(*told) if detail else standby.config(ms + ahead, detail="controller=8")
    assert state(nine, standby) == ("fenced", "fenced")


def joining(fenced_ms, new):
    """2 has caught up with a leader that is alone in the ISR, and the old controller fences it."""
    leader = Source("broker-1/replication.log").leader(0, 0, 4, 4, [1], replicas=[1, 2])
    leader.fetch(20_000, 2, 4).fetch(29_900, 2, 4).append(30_100, 6).append(30_200, 8).fetch(30_300, 2, 8)
    return [leader, woken().broker_state(fenced_ms, 2, "fenced", 7), new]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(controller(), [(30_100, 6), (30_200, 8)], id="nobody else is active"),
        pytest.param(active(10_000), [(30_300, 8)], id="another one was active before"),
        pytest.param(active(30_150), [(30_100, 6), (30_300, 8)], id="another one is heard of soon after"),
    ],
)
def test_a_joiner_that_only_a_deposed_controller_fenced_holds_the_hw_back(new, expected):
    sources = [source.progress(60_000) for source in joining(30_050, new)]
    assert advances(replay(table(*sources))) == expected


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("step_ms", [10, 70, 5000])
def test_how_rows_are_cut_into_batches_changes_nothing(step_ms, restored):
    sources = joining(30_050, active(30_150))
    for source in sources:
        for ms in range(60_000, 100_000, 1000):
            source.progress(ms)
    rows = sorted((row for source in sources for row in source.rows), key=lambda row: row["ts"])
    whole = advances(replay(events_of(rows)))
    reconstructor, found = Reconstructor(Rules()), list[tuple[int, int]]()
    events = events_of(rows)
    times = events["ts"].cast("int64")
    bounds = [-1 << 60, *(START_US + ms * 1000 for ms in range(29_000, 31_000, step_ms)), 1 << 60]
    for since, until in pairwise(bounds):
        batch = events.filter(pc.and_(pc.greater_equal(times, since), pc.less(times, until)))
        found += advances(reconstructor.update(batch)) if len(batch) else []
        reconstructor = Reconstructor.restore(reconstructor.snapshot()) if restored else reconstructor
    assert found + advances(reconstructor.finish()) == whole


@pytest.mark.parametrize(
    ("new_ms", "confirmed", "expected"),
    [
        pytest.param(10_000, False, (1, [1, 2], []), id="another one was active before"),
        pytest.param(38_000, False, (1, [1, 2], []), id="or it may have been"),
        pytest.param(45_000, False, (-1, [2], [(2, [2])]), id="another one comes long after"),
        pytest.param(10_000, True, (2, [2], [(2, [2])]), id="the leader that it names has begun"),
    ],
)
def test_a_change_that_only_a_deposed_controller_tells_was_never_committed(new_ms, confirmed, expected):
    """Partition 0 is led by 1 all the while, whom the old controller fences as it wakes."""
    leader = Source("broker-1/replication.log", level=0).leader(0, 0, 4, 4, [1, 2], replicas=[1, 2], partition_epoch=1)
    nine = woken().broker_state(30_000, 1, "fenced", 7)
    nine.election(30_001, 2 if confirmed else -1, 1, partition_epoch=2, isr=[2], replicas=[1, 2], unclean=False)
    other = Source("broker-2/replication.log", level=0)
    if confirmed:
        other.leader(30_020, 1, 4, 4, [2], replicas=[1, 2], partition_epoch=2)
    reconstructor = Reconstructor(Rules())
    facts = reconstructor.update(table(*(s.progress(99_000) for s in (leader, nine, other, active(new_ms)))))
    rest, present = reconstructor.finish(), reconstructor.present().partition_health.to_pylist()[0]
    changed = [r for made in (facts, rest) for r in made.isr_changes.to_pylist()]
    changes = [(row["partition_epoch"], row["isr_after"]) for row in changed]
    assert (present["leader_id"], present["isr"], changes) == expected


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(
    ("told", "new_ms", "expected"),
    [
        pytest.param([1], None, [(19_000, 6), (40_000, 8)], id="nobody else is active"),
        pytest.param([1], 5000, [], id="another one was active before"),
        pytest.param([1], 30_000, [(19_000, 6), (40_000, 8)], id="another one becomes active long after"),
        pytest.param([1], 19_500, [(19_000, 6)], id="another one is heard of soon after"),
        pytest.param([1, 2], 19_500, [(19_000, 6)], id="what it told is not heard of by then, and is told anew"),
    ],
)
def test_a_min_isr_that_only_a_deposed_controller_tells_does_not_last(told, new_ms, expected, restored):
    """1 is alone in the ISR of a topic whose min ISR is 2; 9 prints 1 as it is frozen, and 8 never does."""
    leader = Source("broker-1/replication.log").leader(0, 0, 4, 4, [1], replicas=[1, 2], min_isr=2)
    leader.append(19_000, 6).append(40_000, 8)
    nine = woken().config(-97_000, topic="clicks", min_isr=2)
    for k, min_isr in enumerate(told):
        nine.config(10_000 + 15_000 * k, topic="clicks", min_isr=min_isr)
    sources = [leader, nine, *([active(new_ms)] if new_ms else [])]
    for source in sources:
        for ms in range(60_000, 100_000, 1000):
            source.progress(ms)
    rows = sorted((row for source in sources for row in source.rows), key=lambda row: row["ts"])
    reconstructor, found = Reconstructor(Rules()), list[tuple[int, int]]()
    for batch in (rows[:4], rows[4:9], rows[9:]) if restored else (rows,):
        found += advances(reconstructor.update(events_of(batch)))
        reconstructor = Reconstructor.restore(reconstructor.snapshot())
    assert found + advances(reconstructor.finish()) == expected


CUT_OFF, HEARS, HEARS_LATE = "9 is cut off", "9 hears of 8", "9 hears of 8 after the election"


@pytest.mark.parametrize(("how", "excluded"), [(CUT_OFF, False), (HEARS, True), (HEARS_LATE, False)])
@pytest.mark.parametrize("was_active", [True, False])
def test_a_controller_that_heard_of_no_later_one_does_not_tell_of_every_start(how, excluded, was_active):
    """8's log has a hole in which 2 may have registered again; 9 prints on, and 2 is elected."""
    leader = Source("broker-1/replication.log", level=0).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    nine = woken()
    for row in nine.rows:
        row["committed"] = not was_active
    hears_ms = {CUT_OFF: None, HEARS: 10_200, HEARS_LATE: 75_000}[how]
    for ms in range(-90_000, 200_000, 5000):
        nine.progress(ms)
        if hears_ms is not None and ms <= hears_ms < ms + 5000:
            nine.common |= {"controller_epoch": 2, "committed": True}
            nine.config(hears_ms, detail="controller=active")
    other = Source("broker-2/replication.log", level=0).leader(60_000, 1, 4, 4, [2], replicas=[1, 2], partition_epoch=1)
    eight = active(10_000).broker_state(11_000, 1, "fenced", 8).lost(40_000)
    found = replay(table(*(source.progress(200_000) for source in (leader, nine, other, eight)))).hw_regressions
    missing = ["an upper bound of the HW before", "whether broker 2 has started again"]
    rows = [json.loads(row["evidence"]).get("missing") for row in found.to_pylist()]
    assert rows == ([] if excluded else [missing])


def test_a_broker_that_is_told_of_in_a_later_registration_has_started_again():
    """The row of its start is missing; the one that unfences it has the broker epoch of its new life."""
    leader = Source("broker-1/replication.log", level=0).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    nine, standby = woken(), Source("controller-7/controller.log", level=0).broker_state(-99_000, 2, "started", 7)
    for ms in range(-90_000, 200_000, 5000):
        nine.progress(ms)
    standby.lost(29_000).broker_state(30_000, 2, "unfenced", 30)
    other = Source("broker-2/replication.log", level=0).leader(60_000, 1, 4, 4, [2], replicas=[1, 2], partition_epoch=1)
    found = replay(table(*(source.progress(200_000) for source in (leader, nine, other, standby)))).hw_regressions
    rows = [json.loads(row["evidence"]).get("missing") for row in found.to_pylist()]
    assert rows == [["an upper bound of the HW before", "a clean stop of broker 2 before it started again"]]


def test_a_start_that_only_a_replaced_controller_tells_took_place():
    """2 registers with 9 just before 8 takes its place, and is elected; no log of 8 is given."""
    leader = Source("broker-1/replication.log", level=0).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    nine = woken().broker_state(30_000, 2, "started", 30)
    nine.event(35_000, "config", True, detail="controller=active", controller_epoch=2, committed=True)
    nine.common |= {"controller_epoch": 2, "committed": True}
    for ms in range(36_000, 200_000, 5000):
        nine.progress(ms)
    other = Source("broker-2/replication.log", level=0).leader(60_000, 1, 4, 4, [2], replicas=[1, 2], partition_epoch=1)
    found = replay(table(*(source.progress(200_000) for source in (leader, nine, other)))).hw_regressions
    rows = [json.loads(row["evidence"]).get("missing") for row in found.to_pylist()]
    assert rows == [["an upper bound of the HW before", "a clean stop of broker 2 before it started again"]]


@pytest.mark.parametrize(("partition_epoch", "excluded"), [(1, True), (2, False)])
def test_a_change_that_only_a_replaced_controller_tells_may_have_taken_the_elected_one_out(partition_epoch, excluded):
    """9 removes 2 just before 8 takes its place; 2 leads, and who elected it, or how, nobody tells."""
    leader = Source("broker-1/replication.log", level=0).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    nine = woken().isr(30_000, [1], 1, "controller", leader_epoch=0)
    eight = active(35_000)
    for source in (nine, eight):
        for ms in range(36_000, 200_000, 5000):
            source.progress(ms)
    nine.event(35_100, "config", True, detail="controller=active", controller_epoch=2, committed=True)
    more = {"replicas": [1, 2], "partition_epoch": partition_epoch}
    other = Source("broker-2/replication.log", level=0).leader(60_000, 1, 4, 4, [2], **more)
    found = replay(table(*(source.progress(200_000) for source in (leader, nine, other, eight)))).hw_regressions
    rows = [json.loads(row["evidence"]).get("missing") for row in found.to_pylist()]
    missing = ["an upper bound of the HW before", "the ISR before the election"]
    assert rows == ([] if excluded else [missing])
