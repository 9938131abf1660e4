"""Offline, under min ISR and out of sync: reported when they have lasted, for as long as they last."""

import pytest

from pipelines.alerting.alerts import conditions, waits
from pipelines.alerting.rules import AlertRules, parse
from tests.unit.alerting.evidence_rows import alert_states, at, evidence, rows, states

pytestmark = pytest.mark.long

AR = {"ar": [1, 2, 3]}
FIVE_MINUTES = parse({"offline": {"for_s": 300}})


def waiting(found, rules=None):
    """(rule, partitions, since, told) of what holds and is not told yet, times in seconds."""
    start = at(0).timestamp()
    rest = waits(conditions(found, rules or AlertRules(), at(0)))
    return [(one.rule, one.partitions, one.since / 1e6 - start, one.fires / 1e6 - start) for one in rest]


def freeze(ts, isr=(1,), **more):
    return {"ts": ts, "kind": "freeze", "isr": list(isr), "frozen": True, **more}


def thaw(ts, **more):
    return {"ts": ts, "kind": "thaw", "isr": [1, 2], "frozen": False, **more}


def term(ts, leader, frozen=False, isr=(1, 2, 3), **more):
    return {"ts": ts, "kind": "term_start", "leader_id": leader, "isr": list(isr), "frozen": frozen, **more}


def sync(ts, state, replica=3, reason="silent", **more):
    return {"ts": ts, "replica_id": replica, "state": state, "reason": reason, **more}


def led(ts, leader, epoch, **more):
    return {"ts": ts, "leader_id": leader, "leader_epoch": epoch, **more}


@pytest.mark.parametrize(
    ("marks", "clock", "expected"),
    [
        pytest.param([freeze(0)], 299, [], id="not yet five minutes"),
        pytest.param([freeze(0)], 300, [("firing", 0, 300)], id="five minutes"),
        pytest.param([freeze(0), thaw(299)], 900, [], id="over before"),
        pytest.param([freeze(0), thaw(310)], 900, [("resolved", 0, 310)], id="fired and over"),
        pytest.param([freeze(0), freeze(200)], 300, [("firing", 0, 300)], id="reported twice lasts from the first"),
        pytest.param([freeze(0), term(10, 2)], 900, [], id="a term that starts free ends it"),
        pytest.param([freeze(0), term(10, 2, True)], 300, [("firing", 0, 300)], id="a frozen term goes on"),
        pytest.param([freeze(0), term(10, 2), freeze(10)], 300, [("firing", 0, 300)], id="frozen as the term starts"),
        pytest.param([term(0, 1, None)], 900, [], id="unknown is not wrong"),
        pytest.param(
            [freeze(0), thaw(310), freeze(320)], 700,
            [("resolved", 0, 310), ("firing", 320, 700)], id="twice",
        ),
    ],
)  # fmt: skip
def test_under_min_isr_for_five_minutes(marks, clock, expected):
    found = states(evidence(clock, min_isr=marks, health=[AR]))
    assert found == [("under_min_isr", state, "brokers 2, 3", first, last) for state, first, last in expected]


@pytest.mark.parametrize(
    ("marks", "clock", "expected"),
    [
        pytest.param([sync(0, "out_of_sync")], 599, [], id="not yet ten minutes"),
        pytest.param([sync(0, "out_of_sync")], 600, [("firing", 0, 600)], id="ten minutes"),
        pytest.param([sync(0, "out_of_sync"), sync(5, "lagging")], 900, [], id="lagging is in sync"),
        pytest.param([sync(0, "lagging")], 900, [], id="lagging never fires"),
        pytest.param([sync(0, "out_of_sync"), sync(700, "in_sync")], 900, [("resolved", 0, 700)], id="back in sync"),
        pytest.param([sync(0, "in_sync"), sync(0, "out_of_sync")], 900, [], id="out and back in one instant"),
        pytest.param(
            [sync(0, "out_of_sync"), sync(0, "in_sync")], 900, [], id="out and back in one instant, as reported"
        ),
        pytest.param(
            [sync(0, "out_of_sync", leader_epoch=5), sync(0, "in_sync", leader_epoch=4)],
            900,
            [("firing", 0, 900)],
            id="back in sync as the next term finds it out of sync",
        ),
        pytest.param(
            [sync(0, "in_sync", leader_epoch=4), sync(0, "out_of_sync", leader_epoch=5)],
            900,
            [("firing", 0, 900)],
            id="back in sync as the next term finds it out of sync, as reported",
        ),
    ],
)
def test_replica_out_of_sync_for_ten_minutes(marks, clock, expected):
    found = states(evidence(clock, sync=marks))
    assert found == [("out_of_sync", state, "broker 3", first, last) for state, first, last in expected]


@pytest.mark.parametrize(
    ("ts", "epoch", "expected"),
    [
        pytest.param(50, 4, [], id="a leader that wakes in its old epoch says nothing of others"),
        pytest.param(50, 5, [("firing", 50, 900)], id="the present leader does"),
        pytest.param(40, 4, [], id="of the moment in which the next term starts"),
        pytest.param(30, 4, [], id="the next term starts with its ISR caught up"),
        pytest.param(50, None, [("firing", 50, 900)], id="nobody told the epoch"),
    ],
)
def test_a_later_term_ends_the_word_of_the_leader_before(ts, epoch, expected):
    starts = [term(0, 1, leader_epoch=4), term(40, 2, isr=(2, 3), leader_epoch=5)]
    found = states(evidence(900, sync=[sync(ts, "out_of_sync", leader_epoch=epoch)], min_isr=starts))
    assert found == [("out_of_sync", state, "broker 3", first, last) for state, first, last in expected]


def test_a_replica_outside_the_isr_stays_out_of_sync_in_the_next_term():
    starts = [term(0, 1, leader_epoch=4), term(40, 2, isr=(2,), leader_epoch=5)]
    found = states(evidence(900, sync=[sync(30, "out_of_sync", leader_epoch=4)], min_isr=starts))
    assert found == [("out_of_sync", "firing", "broker 3", 30, 900)]


def isr(ts, *members, revision=1, **more):
    return {"ts": ts, "partition_epoch": ts, "isr_after": list(members), "revision": revision, **more}


@pytest.mark.parametrize(
    ("changes", "place", "clock", "expected"),
    [
        pytest.param([isr(0, 1, 2)], AR, 599, [], id="not yet ten minutes"),
        pytest.param([isr(0, 1, 2)], AR, 600, [("firing", "broker 3", 0, 600)], id="ten minutes"),
        pytest.param([isr(0, 1, 2), isr(700, 1, 2, 3)], AR, 900, [("resolved", "broker 3", 0, 700)], id="back"),
        pytest.param([isr(0, 1, 2), isr(0, 1, 2, 3, revision=2)], AR, 900, [], id="never committed"),
        pytest.param(
            [isr(100, 1, 2, partition_epoch=5), isr(97, 1, 2, 3, partition_epoch=6)], AR, 900, [],
            id="back on a clock that is behind",
        ),
        pytest.param([isr(0, 1)], {"ar": [1]}, 900, [], id="one replica has none to lose"),
        pytest.param([isr(0, 1, 2)], {"ar": [1, 2]}, 900, [], id="not assigned any more"),
        pytest.param([isr(0, 1, 2)], AR | {"offline": True}, 900, [], id="offline says more"),
        pytest.param([isr(0, 1, 2)], AR | {"under_min_isr": True}, 900, [], id="under min ISR says more"),
        pytest.param(
            [isr(900, 1, 2, 3)], AR | {"last_event_ts": 0, "isr": [1, 2]}, 899,
            [("firing", "broker 3", 0, 899)], id="as it stands",
        ),
    ],
)  # fmt: skip
def test_a_replica_out_of_the_isr_for_ten_minutes_is_a_risk(changes, place, clock, expected):
    found = states(evidence(clock, isr=[row for row in changes if row["ts"] <= clock], health=[place]))
    assert found == [("at_risk", *one) for one in expected]


@pytest.mark.parametrize(
    ("changes", "clock", "expected"),
    [
        ([isr(0, 1, 2), isr(100, 1, 2, 3)], 2_000, []),
        ([isr(0, 1, 2), isr(100, 1, 2, 3), isr(300, 1, 2)], 899, []),
        ([isr(0, 1, 2), isr(100, 1, 2, 3), isr(300, 1, 2)], 900, [("firing", "broker 3", 300, 900)]),
        ([isr(0, 1, 2), isr(700, 1, 2, 3)], 900, [("resolved", "broker 3", 0, 700)]),
    ],
)
def test_polled_changes_of_an_isr_have_no_epochs_and_go_by_their_times(changes, clock, expected):
    """All were taken for the last one: a risk that was over fired, and what began now was said to be minutes old."""
    changes = [one | {"partition_epoch": None} for one in changes]
    found = evidence(clock, isr=changes, health=[AR | {"last_event_ts": clock, "isr": changes[-1]["isr_after"]}])
    assert states(found) == [("at_risk", *one) for one in expected]


def test_a_term_that_begins_without_a_replica_begins_the_risk():
    found = evidence(600, min_isr=[term(0, 1, isr=(1, 2))], health=[AR | {"last_event_ts": 590, "isr": [1, 2]}])
    assert states(found) == [("at_risk", "firing", "broker 3", 0, 600)]


def test_a_replica_that_leaves_while_another_is_away_is_a_risk_of_its_own():
    """Broker 3 died days after broker 2, min ISR is 1: all that was said was that broker 2 is out."""
    place, changes = AR | {"isr": [1], "last_event_ts": 9_000}, [isr(0, 1, 3), isr(9_000, 1)]
    both = [("at_risk", "firing", "broker 2", 0, 9_600), ("at_risk", "firing", "broker 3", 9_000, 9_600)]
    assert states(evidence(9_599, isr=changes, health=[place])) == [(*both[0][:4], 9_599)]
    assert states(evidence(9_600, isr=changes, health=[place])) == both
    carried = {"rule": "at_risk", "replica": -1, "ts": 0, "rank": 1, "missing": [2], "reason": "", "lasting": 0}
    kept = [changes[1] | {"isr_before": [1, 3]}]
    assert states(evidence(9_600, isr=kept, health=[place], carried=[carried])) == both
    second = carried | {"replica": 3, "ts": 9_000, "missing": [3]}
    found = evidence(9_900, isr=[isr(9_700, 1, 3)], health=[place | {"isr": [1, 3]}], carried=[carried, second])
    assert ("at_risk", "resolved", "broker 3", 9_000, 9_700) in states(found), "back once its rows are not kept"
    back = [*changes, isr(9_700, 1, 3)]
    found = states(evidence(9_900, isr=back, health=[place | {"isr": [1, 3], "last_event_ts": 9_700}]))
    assert found == [("at_risk", "firing", "broker 2", 0, 9_900), ("at_risk", "resolved", "broker 3", 9_000, 9_700)]


FROZEN = AR | {"isr": [1], "under_min_isr": True, "last_event_ts": 9_000}
THINNED = [isr(0, 1, 3, isr_before=[1, 2, 3]), isr(9_000, 1, isr_before=[1, 3])]
BOTH_GONE = [("under_min_isr", "firing", "broker 2", 0, 9_300), ("under_min_isr", "firing", "broker 3", 9_000, 9_300)]


def test_a_replica_that_leaves_a_frozen_partition_is_told_by_its_own_name():
    """min ISR 3: broker 2 was gone, broker 3 followed, and all that was said was that broker 2 is gone."""
    frozen = [freeze(0, isr=(1, 3))]
    assert states(evidence(9_299, min_isr=frozen, isr=THINNED, health=[FROZEN])) == [(*BOTH_GONE[0][:4], 9_299)]
    assert states(evidence(9_300, min_isr=frozen, isr=THINNED, health=[FROZEN])) == BOTH_GONE
    back = [*THINNED, isr(9_400, 1, 3, isr_before=[1])]
    found = states(evidence(9_500, min_isr=frozen, isr=back, health=[FROZEN | {"isr": [1, 3]}]))
    assert found == [(*BOTH_GONE[0][:4], 9_500), ("under_min_isr", "resolved", "broker 3", 9_000, 9_400)]
    found = states(evidence(9_500, min_isr=[*frozen, thaw(9_350)], isr=THINNED, health=[FROZEN]))
    assert [one[1:] for one in found] == [("resolved", "broker 2", 0, 9_350), ("resolved", "broker 3", 9_000, 9_350)]


def test_who_is_back_in_the_isr_is_named_no_more_once_another_one_is_told():
    """The end of its downtime was told as "under min ISR: broker 2", which was back: broker 3 held it."""
    back = [*THINNED, isr(9_100, 1, 2, isr_before=[1])]
    place, frozen = FROZEN | {"isr": [1, 2], "last_event_ts": 9_200}, [freeze(0, isr=(1, 3))]
    first = [(*one[:4], 9_400) for one in BOTH_GONE]
    assert states(evidence(9_400, min_isr=frozen, isr=back, health=[place])) == first
    told = {"rule": "under_min_isr", "replica": 3, "ts": 9_000, "rank": -1, "missing": [3], "reason": "", "lasting": 0}
    then = states(evidence(9_400, min_isr=frozen, isr=back, health=[place], carried=[told]))
    assert then == [("under_min_isr", "resolved", *first[0][2:]), first[1]]
    gone = [*back, isr(9_350, 1, isr_before=[1, 2])]
    then = states(evidence(9_400, min_isr=frozen, isr=gone, health=[FROZEN], carried=[told]))
    assert then == [("under_min_isr", "resolved", *first[0][2:]), first[1]], "its next absence has to last, too"
    then = states(evidence(9_650, min_isr=frozen, isr=gone, health=[FROZEN], carried=[told]))
    assert [one[:3] for one in then] == [("under_min_isr", "firing", f"broker {n}") for n in (2, 3)]


def test_the_leader_of_a_frozen_partition_that_dies_is_told_by_the_start_of_the_next_term():
    """At level 0 nobody tells the change of the ISR."""
    frozen = [freeze(0, isr=(1, 3)), term(9_000, 3, True, isr=(3,))]
    found = states(evidence(9_300, min_isr=frozen, health=[FROZEN]))
    assert found == [BOTH_GONE[0], ("under_min_isr", "firing", "broker 1", 9_000, 9_300)]


def test_a_replica_that_left_a_frozen_partition_is_told_on_when_rows_are_not_kept_any_more():
    told = {"rule": "under_min_isr", "replica": -1, "ts": 0, "rank": 1, "missing": [2], "reason": "", "lasting": 0}
    assert states(evidence(9_300, isr=THINNED[1:], health=[FROZEN], carried=[told])) == BOTH_GONE
    second = told | {"replica": 3, "ts": 9_000, "rank": -1, "missing": [3]}
    assert states(evidence(9_300, health=[FROZEN], carried=[told, second])) == BOTH_GONE
    thawed = states(evidence(9_500, min_isr=[thaw(9_350)], health=[FROZEN], carried=[told, second]))
    assert [one[1:] for one in thawed] == [("resolved", "broker 2", 0, 9_350), ("resolved", "broker 3", 9_000, 9_350)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([isr(0, 1, isr_before=[1, 2, 3])], id="who was missing as it froze"),
        pytest.param([isr(0, 1, isr_before=[1, 2, 3]), isr(100, 1, 2, isr_before=[1])], id="one comes back"),
        pytest.param([isr(100, 1, 2, isr_before=[1]), isr(150, 1, isr_before=[1, 2])], id="one comes back and goes"),
        pytest.param([isr(-500, 1, 2, isr_before=[1, 2, 3])], id="a change before it froze"),
    ],
)
def test_a_frozen_partition_that_loses_nobody_more_is_told_once(changes):
    found = states(evidence(700, min_isr=[freeze(0)], isr=changes, health=[FROZEN]))
    assert found == [("under_min_isr", "firing", "brokers 2, 3", 0, 700)]


def test_a_replica_that_a_reassignment_adds_to_a_frozen_partition_is_not_gone():
    moves = [{"since": at(-500), "replicas": [1, 2, 3]}, {"since": at(50), "replicas": [1, 2, 3, 4]}]
    place = FROZEN | {"ar": [1, 2, 3, 4], "assignments": moves}
    changes = [isr(100, 1, 2, isr_before=[1])]
    found = states(evidence(700, min_isr=[freeze(0)], isr=changes, health=[place]))
    assert [one[:3] for one in found] == [("under_min_isr", "firing", "brokers 2, 3")]


def test_replicas_that_leave_in_turn_are_a_risk_of_the_first_until_all_are_back():
    changes = [isr(0, 1, 3), isr(300, 1, 2), isr(600, 1, 3)]
    found = states(evidence(700, isr=changes, health=[AR | {"isr": [1, 3], "last_event_ts": 600}]))
    assert found == [("at_risk", "firing", "broker 2", 0, 700)]


def test_a_risk_says_how_many_partitions_have_a_replica_less():
    places = [AR, AR | {"partition": 1}]
    found = evidence(600, isr=[isr(0, 1, 2), isr(0, 1, 2, partition=1)], health=places)
    (alert,) = alert_states(found, AlertRules(), at(600))
    assert alert.severity == "warning"
    assert alert.summary == (
        "c: AT RISK: broker 3 out of the ISR: 2 partitions have a replica less to count on: orders-0, orders-1"
    )


def test_replica_that_becomes_leader_is_out_of_sync_no_more():
    found = evidence(900, sync=[sync(0, "out_of_sync")], min_isr=[term(60, leader=3)])
    assert states(found) == []


@pytest.mark.parametrize(
    ("leaders", "clock", "expected"),
    [
        pytest.param([led(0, 1, 0), led(50, -1, 1)], 349, [], id="not yet five minutes"),
        pytest.param([led(0, 1, 0), led(50, -1, 1)], 350, [("firing", "broker 1", 50, 350)], id="five minutes"),
        pytest.param([led(50, -1, 1), led(90, 2, 2), led(0, 1, 0)], 900, [], id="led again, in any order of rows"),
        pytest.param(
            [led(0, 1, 0), led(50, -1, 1), led(400, 2, 2)], 900, [("resolved", "broker 1", 50, 400)],
            id="fired and over",
        ),
        pytest.param(
            [led(0, 1, 0), led(50, -1, 1), led(90, 2, 2), led(700, -1, 1), led(710, 2, 2)], 1200, [],
            id="a controller that replays old changes with new times",
        ),
    ],
)  # fmt: skip
def test_offline_for_five_minutes(leaders, clock, expected):
    assert states(evidence(clock, leaderships=leaders), FIVE_MINUTES) == [
        ("offline", state, who, first, last) for state, who, first, last in expected
    ]


@pytest.mark.parametrize(
    ("ar", "clock", "fires"),
    [
        pytest.param([1, 2], 50, True, id="of two replicas, at once"),
        pytest.param(None, 50, True, id="of replicas that nobody told, at once"),
        pytest.param([1], 349, False, id="of one replica, not yet five minutes"),
        pytest.param([1], 350, True, id="of one replica, after five minutes"),
    ],
)
def test_offline_is_told_at_once_but_of_one_replica(ar, clock, fires):
    found = evidence(clock, leaderships=[led(0, 1, 0), led(50, -1, 1)], health=[{"ar": ar}])
    assert states(found) == [("offline", "firing", "broker 1", 50, clock)] * fires


@pytest.mark.parametrize(("clock", "fires"), [(349, False), (350, True)])
def test_offline_at_the_end_of_a_recording_that_was_closed_is_told_after_five_minutes(clock, fires):
    rows = {"leaderships": [led(0, 1, 0), led(50, -1, 1)], "health": [{"ar": [1, 2]}], "closed": [{}]}
    assert [one[:2] for one in states(evidence(clock, **rows))] == [("offline", "firing")] * fires


def test_offline_since_before_the_telemetry_is_told_by_the_present_state():
    health = {"offline": True, "last_event_ts": 5, "isr": [2], "ar": [1, 2]}
    assert states(evidence(305, health=[health])) == [("offline", "firing", "broker 2", 5, 305)]


def test_offline_without_anybody_in_the_isr_names_who_led_last():
    health = {"offline": True, "last_event_ts": 50, "isr": [], "ar": [1, 2], "level": 1}
    found = evidence(305, leaderships=[led(0, 2, 0), led(10, 1, 1)], health=[health])
    assert states(found) == [("offline", "firing", "broker 1", 50, 305)]


def test_gold_that_knows_a_leader_ends_offline():
    found = evidence(900, leaderships=[led(0, 1, 0), led(5, -1, 1)], health=[{"offline": False, "last_event_ts": 60}])
    assert states(found) == [("offline", "resolved", "broker 1", 5, 60)]
    assert states(found, FIVE_MINUTES) == []


def test_a_broker_gone_is_one_alert_and_not_412():
    marks = [sync(n % 60, "out_of_sync", partition=n) for n in range(412)]
    (alert,) = alert_states(evidence(700, sync=marks), AlertRules(), at(0))
    assert alert.summary == "c: broker 3 gone: 412 partitions out of sync: orders-0, orders-1, orders-2 and 409 more"
    assert alert.labels["count"] == "412"
    assert (alert.labels["cluster"], alert.labels["topic"]) == ("c", "orders")


def test_brokers_and_clusters_are_told_apart():
    marks = [sync(0, "out_of_sync", 3), sync(0, "out_of_sync", 2, partition=1), sync(0, "out_of_sync", 3, cluster="d")]
    found = evidence(sync=marks)
    found["clock"] = rows("clock", {"clock": 700}, {"cluster": "d", "clock": 800})
    alerts = alert_states(found, AlertRules(), at(0))
    assert {(a.labels["cluster"], a.subject) for a in alerts} == {
        ("c", "broker 2"),
        ("c", "broker 3"),
        ("d", "broker 3"),
    }
    assert len({a.alert_id for a in alerts}) == 3


def test_partitions_that_one_power_failure_takes_are_one_alert():
    """Their assignments differ, so different brokers are missing of each."""
    health = [{"partition": n, "ar": ar} for n, ar in enumerate(([1, 2], [2, 3], [1, 3]))]
    marks = [freeze(n, isr=[health[n]["ar"][0]], partition=n) for n in range(3)]
    (alert,) = alert_states(evidence(400, min_isr=marks, health=health), AlertRules(), at(0))
    assert alert.subject == "brokers 2, 3"
    assert alert.summary == (
        "c: UNDER MIN ISR: brokers 2, 3 gone: 3 partitions under min ISR: orders-0, orders-1, orders-2"
    )


def test_what_begins_later_for_another_reason_is_an_alert_of_its_own():
    health = [{"partition": 0, "ar": [1, 2]}, {"partition": 1, "ar": [1, 3]}]
    marks = [freeze(0, partition=0), freeze(120, partition=1)]
    assert [subject for _, _, subject, *_ in states(evidence(500, min_isr=marks, health=health))] == [
        "broker 2", "broker 3",
    ]  # fmt: skip


def test_an_alert_counts_only_what_is_wrong_now():
    marks = [sync(0, "out_of_sync"), sync(0, "out_of_sync", partition=1), sync(650, "in_sync", partition=1)]
    (alert,) = alert_states(evidence(700, sync=marks), AlertRules(), at(0))
    assert alert.summary == "c: broker 3 gone: 1 partition out of sync: orders-0; no longer: orders-1"
    assert [alert.labels[name] for name in ("partitions", "count", "over", "over_count")] == [
        "orders-0",
        "1",
        "orders-1",
        "1",
    ]


def test_a_replica_that_fetches_is_behind_and_not_gone():
    (alert,) = alert_states(evidence(700, sync=[sync(0, "out_of_sync", reason="behind")]), AlertRules(), at(0))
    assert alert.summary.startswith("c: broker 3 behind:")


OLD, NEW = "O" * 22, "N" * 22
WRONG = {
    "offline": {"leaderships": [led(0, 1, 0, topic_id=OLD), led(50, -1, 1, topic_id=OLD)]},
    "under_min_isr": {"min_isr": [freeze(50, topic_id=OLD)]},
    "out_of_sync": {"sync": [sync(50, "out_of_sync", topic_id=OLD)]},
}


@pytest.mark.parametrize(("rule", "got"), WRONG.items(), ids=WRONG.keys())
def test_what_is_wrong_with_a_deleted_topic_ends_when_it_is_created_again(rule, got):
    again = [*got.get("leaderships", []), led(2000, 1, 0, topic_id=NEW)]
    health = {"ar": [1, 2, 3], "topic_id": NEW, "last_event_ts": 3000}
    found = evidence(3000, **got | {"leaderships": again}, health=[health])
    assert [(name, state, first, last) for name, state, _, first, last in states(found)] == [
        (rule, "resolved", 50, 2000)
    ]


DELETIONS = {
    "by its id": ({"topic_id": OLD, "ts": 2000}, 2000),
    "told again by a controller that restarts": ({"topic_id": OLD, "ts": 2500}, 2000),
    "another of its name": ({"topic_id": NEW, "ts": 2000}, None),
    "without ids": ({"topic_id": None, "ts": 2000}, 2000),
    "without ids, and told on after it": ({"topic_id": None, "ts": 40}, 50),
    "not committed": ({"topic_id": OLD, "ts": 2000, "committed": False}, None),
}


@pytest.mark.parametrize(("rule", "got"), WRONG.items(), ids=WRONG.keys())
@pytest.mark.parametrize(("deletion", "ended"), DELETIONS.values(), ids=DELETIONS)
def test_what_is_wrong_with_a_topic_ends_as_it_is_deleted(rule, got, deletion, ended):
    first = {"partition": -1, "detail": "topic=deleted", "committed": True}
    told = [first | deletion, *([first | {"topic_id": OLD, "ts": 2000}] if deletion["ts"] == 2500 else [])]
    found = states(evidence(3000, **got | {"leaderships": [*got.get("leaderships", []), *told]}))
    lasted = [(rule, "resolved" if ended else "firing", 50, ended or 3000)] if ended != 50 else []
    assert [(name, state, first, last) for name, state, _, first, last in found] == lasted


@pytest.mark.parametrize(("rule", "got"), WRONG.items(), ids=WRONG.keys())
def test_what_is_wrong_with_a_topic_that_is_there_after_a_deletion_without_an_id_goes_on(rule, got):
    deleted = {"partition": -1, "detail": "topic=deleted", "committed": True, "topic_id": None, "ts": 40}
    health = {"ar": [1, 2, 3], "topic_id": OLD, "offline": rule == "offline", "last_event_ts": 50}
    found = evidence(3000, **got | {"leaderships": [*got.get("leaderships", []), deleted]}, health=[health])
    assert [(name, state) for name, state, *_ in states(found)] == [(rule, "firing")]


@pytest.mark.parametrize(("rule", "got"), WRONG.items(), ids=WRONG.keys())
def test_that_nothing_is_reported_of_a_partition_ends_nothing(rule, got):
    """Where nobody leads, or every append is refused, there are no events by nature."""
    health = {"ar": [1, 2, 3], "topic_id": OLD, "offline": rule == "offline", "last_event_ts": 50}
    found = states(evidence(200_000, **got, health=[health]))
    assert [(name, state, last) for name, state, _, _, last in found] == [(rule, "firing", 200_000)]


def test_an_alert_about_several_topics_names_them_all():
    marks = [sync(0, "out_of_sync", topic=f"t{n:03}") for n in range(120)]
    (alert,) = alert_states(evidence(700, sync=marks), AlertRules(), at(0))
    assert "topic" not in alert.labels
    assert alert.labels["topics"].split(", ") == [f"t{n:03}" for n in range(120)]


@pytest.mark.parametrize(
    ("marks", "clock", "expected"),
    [
        pytest.param([freeze(5)], 5, [("under_min_isr", 1, 5, 305)], id="from the first second"),
        pytest.param([freeze(5), freeze(9, partition=1)], 200, [("under_min_isr", 2, 5, 305)], id="of both since"),
        pytest.param([freeze(5)], 305, [], id="told"),
        pytest.param([freeze(5), thaw(100)], 200, [], id="over before it was told"),
    ],
)
def test_what_must_last_is_pending_until_it_is_told(marks, clock, expected):
    assert waiting(evidence(clock, min_isr=marks, health=[AR, AR | {"partition": 1}])) == expected


@pytest.mark.parametrize(
    ("level", "back", "clock", "found"),
    [
        pytest.param(3, 51, 60, 1, id="logs told it, at once, though it is over"),
        pytest.param(1, 55, 60, 0, id="polled, back in the next round"),
        pytest.param(1, None, 54, 0, id="polled, seen by one round so far"),
        pytest.param(1, None, 55, 1, id="polled, seen by two rounds running"),
        pytest.param(1, 60, 70, 1, id="polled, two rounds, and over"),
    ],
)
def test_offline_at_level_1_is_told_if_two_rounds_running_saw_it(level, back, clock, found):
    turns = [led(0, 1, 0), led(50, -1, 1), *([led(back, 1, 2)] if back else [])]
    watcher = {"source_id": "watch/w/broker-1", "broker_id": 1, "reported_to": clock, "holds_s": 10}
    rows = {"leaderships": turns, "health": [{"ar": [1, 2], "level": level}], "reported": [watcher]}
    assert [one[0] for one in states(evidence(clock, **rows))] == ["offline"] * found
