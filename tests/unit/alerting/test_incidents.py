"""Incidents: one first cause, one incident; what joins, what is another, when it ends."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from pipelines.alerting.downtime import Downtime
from pipelines.alerting.incident_title import LONGEST
from pipelines.alerting.incidents import ENDED, OPEN, PLANNED, from_arrow, incidents, to_arrow, untold
from pipelines.alerting.outbox import in_order
from pipelines.alerting.rule import SEVERITIES
from pipelines.alerting.rules import AlertRules
from pipelines.alerting.state import AlertState, alert_id
from tests.unit.alerting.evidence_rows import NOON, alert_states, at, evidence


def state(
    rule, seconds, brokers="", partitions="orders-0", severity="critical", cluster="prod", written=None, **labels
):
    """The first, firing state of an alert that began so many seconds after noon, written 5 s later."""
    named = {
        "cluster": cluster,
        "brokers": brokers,
        "partitions": partitions,
        "count": str(len(partitions.split(", "))),
    }
    topics = sorted({one.rpartition("-")[0] for one in partitions.split(", ")})
    named["topic" if len(topics) == 1 else "topics"] = ", ".join(topics)
    return AlertState(
        alert_id(rule, cluster, brokers, partitions), rule, severity, "firing", f"broker {brokers}", at(seconds),
        at(seconds + 5), f"{cluster}: {rule}", {k: v for k, v in {**named, **labels}.items() if v},
        at(seconds + 5 if written is None else written),
    )  # fmt: skip


def over(one, seconds):
    return replace(one, state="resolved", last_ts=at(seconds), written_at=at(seconds))


def again(one, seconds):
    return replace(one, last_ts=at(seconds), written_at=at(seconds))


def told(rows):
    """The states of each incident, in order: what became of it."""
    found = {}
    for row in rows:
        found.setdefault(row.incident_id, []).append(row)
    return list(found.values())


def of(*states, now=100_000, windows=()):
    return told(incidents(states, windows, at(now)))


def window(begins, until, brokers=(2,), cluster="prod"):
    return Downtime("d", cluster, brokers, None, at(begins), at(until), "kernel", None, at(begins))


OFFLINE = state("offline", 0, "2", assigned="2")
UNDER = state("under_min_isr", 10, "2", "orders-0, orders-1")
LOST = state("loss", 40, partitions="orders-0", offsets="180")


def test_a_killed_broker_is_one_incident_from_its_first_alert_to_five_minutes_after_the_last():
    (one,) = of(OFFLINE, UNDER, LOST, over(OFFLINE, 60), over(UNDER, 90), over(LOST, 120), now=419)
    assert [row.state for row in one] == [OPEN] * len(one)
    (one,) = of(OFFLINE, UNDER, LOST, over(OFFLINE, 60), over(UNDER, 90), over(LOST, 120), now=420)
    assert (one[-1].state, one[-1].written_at) == (ENDED, at(420))
    assert len({row.incident_id for row in one}) == 1


@pytest.mark.parametrize(("last", "ends"), [(400, [OPEN, ENDED]), (401, [OPEN])])
def test_an_incident_that_was_well_for_five_minutes_when_it_was_first_seen_has_ended(last, ends):
    seen = replace(OFFLINE, last_ts=at(0), written_at=at(700))
    (one,) = of(seen, replace(seen, state="resolved", last_ts=at(last)), now=700)
    assert [row.state for row in one] == ends
    assert one[-1].written_at - one[0].written_at == timedelta(microseconds=len(ends) - 1)


def test_an_alert_that_names_the_same_broker_joins_however_late():
    (one,) = of(OFFLINE, state("under_min_isr", 4_000, "2", "clicks-7"))
    assert len(one[-1].alert_ids) == 2


def test_an_alert_without_a_broker_joins_by_its_partition():
    assert len(of(OFFLINE, state("loss", 4_000, partitions="orders-0"))) == 1
    assert len(of(OFFLINE, state("loss", 4_000, partitions="clicks-0"))) == 2


def test_a_loss_joins_an_outage_that_names_a_hundred_of_its_partitions_at_most():
    """Of 500 partitions offline an alert names 100: a loss of one of the others was another incident."""
    named = f"{', '.join(f'orders-{n}' for n in range(100))} and 400 more"
    outage = state("offline", 0, "2", named, count="500", topic="", topics="audit, orders")
    for lost in ("orders-444", "audit-3"):
        assert len(of(outage, state("loss", 4_000, partitions=lost))) == 1
    assert len(of(outage, state("loss", 4_000, partitions="clicks-444"))) == 2
    assert of(outage)[0][-1].partitions[-1] == "orders-99"


def test_a_broker_that_joins_an_incident_without_one_gives_it_its_name():
    """A loss is told first: what the broker's death does to other partitions was another incident."""
    (one,) = of(LOST, state("under_min_isr", 200, "2", "orders-0"), state("offline", 400, "2", "audit-0"))
    assert one[-1].brokers == [2]
    assert len(of(LOST, state("under_min_isr", 200, "2", "orders-0"), state("offline", 400, "1", "orders-0"))) == 2


def test_what_begins_within_a_minute_joins_whatever_it_names():
    assert len(of(OFFLINE, state("under_min_isr", 60, "1", "clicks-0"))) == 1
    assert len(of(OFFLINE, state("under_min_isr", 61, "1", "clicks-0"))) == 2


def test_another_broker_later_is_another_incident_that_is_linked():
    one, other = of(OFFLINE, state("under_min_isr", 600, "1", "orders-0"))
    assert (one[-1].linked, other[-1].linked) == (None, one[-1].incident_id)
    # What names both goes to the first, and the two never become one.
    first, second = of(OFFLINE, state("under_min_isr", 600, "1"), state("offline", 700, "1, 2", "clicks-3"))
    assert (len(first[-1].alert_ids), len(second[-1].alert_ids)) == (2, 1)


def test_other_clusters_have_incidents_of_their_own():
    assert len(of(OFFLINE, state("offline", 0, "2", cluster="test"))) == 2


def test_what_hwmark_itself_lacks_is_one_incident_with_its_clusters():
    behind = [state("job_behind", 0, partitions="", cluster=name, topic="", count="") for name in ("prod", "test")]
    (one,) = of(*behind)
    assert (one[-1].cluster, one[-1].summary) == ("", "JOB BEHIND hwmark: prod, test")


@pytest.mark.parametrize(("rule", "count"), [("quorum_no_spare", 2), ("unproven_loss", 1)])
def test_a_loss_that_is_only_not_excluded_keeps_no_incident_open_but_that_of_a_loss(rule, count):
    """What a restart leaves open fires for a day, and nobody would be told that the broker is back."""
    warned = state(rule, 0, severity="warning")
    back = state("loss_not_excluded", 50, severity="info")
    found = of(warned, back, over(warned, 60), now=400)
    assert [one[-1].severity for one in found] == ["warning", "info"][:count]
    assert [one[-1].state for one in found] == [ENDED, OPEN][-count:]


def test_an_outage_after_a_loss_that_is_only_not_excluded_ends_when_it_is_over():
    """It joined, and the loss kept it open: its page went on for a day after all was well."""
    slight = state("loss_not_excluded", 0, severity="info")
    first, second = of(slight, state("under_min_isr", 100, "2"), over(state("under_min_isr", 100, "2"), 200), now=600)
    assert ([row.state for row in first], first[-1].severity) == ([OPEN], "info")
    assert (second[-1].state, second[-1].linked) == (ENDED, first[-1].incident_id)


def test_a_title_of_nothing_but_a_state_ends_with_the_cluster():
    assert of(state("no_controller", 0, partitions=""))[0][-1].summary == "NO CONTROLLER prod"


def test_severity_never_falls_while_it_is_open():
    warned = state("under_min_isr", 0, "2", severity="warning")
    (one,) = of(warned, LOST, over(LOST, 100), now=200)
    assert [row.severity for row in one] == ["warning", "critical", "critical"]


def test_what_returns_within_five_minutes_is_the_same_incident_again_and_the_fifth_time_flapping():
    rows, warned = [], state("under_min_isr", 0, "2", severity="info")
    for turn in range(6):
        rows += [again(warned, 40 * turn + 1), over(warned, 40 * turn + 20)]
    (one,) = of(*rows, now=300)
    assert (one[-1].returns, one[-1].severity) == (5, "warning")
    assert [row.severity for row in one if row.returns < 5] == ["info"] * sum(row.returns < 5 for row in one)
    assert "flapping" in one[-1].summary


def test_alerts_that_return_together_are_one_return():
    """A broker that takes two alerts with it was called flapping after three returns."""
    rows = [row for turn in range(4) for one in (OFFLINE, UNDER)
            for row in (again(one, 40 * turn + 10), over(one, 40 * turn + 30))]  # fmt: skip
    (one,) = of(*rows, now=300)
    assert one[-1].returns == 3
    assert "flapping" not in one[-1].summary


def test_what_returns_after_its_end_is_another_incident():
    assert len(of(OFFLINE, over(OFFLINE, 60), again(OFFLINE, 359))) == 1
    assert len(of(OFFLINE, over(OFFLINE, 60), again(OFFLINE, 361))) == 2


def test_what_is_wrong_once_only_a_loss_keeps_an_incident_open_is_another_incident():
    soon, later = again(OFFLINE, 359), again(OFFLINE, 361)
    assert len(of(OFFLINE, LOST, over(OFFLINE, 60), soon)) == 1
    first, second = of(OFFLINE, LOST, over(OFFLINE, 60), later)
    assert (first[-1].state, second[-1].linked) == (OPEN, first[-1].incident_id)
    # Another loss of the same partition is still part of the first.
    assert len(of(OFFLINE, LOST, over(OFFLINE, 60), state("loss", 4_000))) == 1


def test_what_was_over_before_anybody_looked_is_no_incident():
    assert of(over(OFFLINE, 60)) == []


def test_a_downtime_of_its_brokers_makes_it_planned_until_the_window_ends():
    (one,) = of(OFFLINE, now=800, windows=[window(-10, 600)])
    assert [(row.state, row.written_at) for row in one] == [(PLANNED, at(5)), (OPEN, at(600))]
    assert one[0].planned_until == at(600)
    (one,) = of(OFFLINE, over(OFFLINE, 60), windows=[window(-10, 600)])
    assert [row.state for row in one] == [PLANNED, PLANNED, ENDED]


@pytest.mark.parametrize(
    "other",
    [
        LOST,
        state("offline", 30, "1", "clicks-0"),
        state("offline", 30, "1, 2", "clicks-0"),
        state("offline", 30, "", "a-0"),
    ],
    ids=["a loss", "of another broker", "of another broker, too", "of no broker that is known"],
)
def test_a_downtime_explains_what_its_brokers_alone_explain(other):
    (one,) = of(OFFLINE, other, now=300, windows=[window(-10, 600)])
    assert [row.state for row in one] == [PLANNED, OPEN]


def test_a_downtime_does_not_explain_what_nobody_leads_as_other_replicas_are_away_too():
    last_in_sync = state("offline", 0, "2", assigned="1, 2, 3")
    assert of(last_in_sync, windows=[window(-10, 600)])[0][0].state == OPEN
    assert of(last_in_sync, windows=[window(-10, 600, brokers=(1, 2, 3))])[0][0].state == PLANNED
    assert of(last_in_sync, windows=[window(-10, 600, brokers=(2, 7, 8))])[0][0].state == OPEN, "as many others"
    unknown = state("offline", 0, "2")
    assert of(unknown, windows=[window(-10, 600)])[0][0].state == OPEN
    assert of(unknown, windows=[window(-10, 600, brokers=None)])[0][0].state == PLANNED


def test_a_downtime_does_not_explain_what_fell_silent_together_with_its_broker():
    """A source of no known broker was one of "2 sources of broker 2 silent", and nobody was told of it."""
    quiet = {"source_id": "broker-2/server.log", "broker_id": 2, "reported_to": 0}
    other = {"source_id": "server.log", "broker_id": -1, "reported_to": 10}
    for sources, planned in (([quiet], PLANNED), ([quiet, other], OPEN), ([other], OPEN)):
        (found,) = alert_states(evidence(clock=400, reported=sources), AlertRules(), at(400))
        (one,) = of(replace(found, written_at=at(400)), windows=[window(-10, 3_000, cluster="c")])
        assert one[0].state == planned


def test_a_planned_outage_joins_no_incident_that_was_told_of_others():
    """A page "OFFLINE: broker 2" in the window of broker 2: what a restart left open, or another broker, was told."""
    planned = state("under_min_isr", 40, "2", "orders-0")
    for rule, broker, severity in (("loss_not_excluded", "", "info"), ("stale_source", "5", "warning")):
        told_one = state(rule, 0, broker, severity=severity)
        found = of(told_one, planned, now=600, windows=[window(-10, 500)])
        assert [[(row.state, row.severity) for row in one] for one in found] == [
            [(OPEN, severity)],
            [(PLANNED, "critical"), (OPEN, "critical")],
        ]
        assert found[1][0].linked == found[0][0].incident_id
    found = of(OFFLINE, again(planned, 100), now=300, windows=[window(20, 500)])
    assert len(found) == 1, "its own broker was told before the window"


def test_a_planned_outage_raises_no_incident_that_was_told_of_its_broker():
    """A broker at risk was told, a downtime opened, and its stop was paged as critical in that window."""
    risk, stop = state("at_risk", 0, "2", severity="warning"), state("under_min_isr", 700, "2", "audit-3")
    first, second = of(risk, stop, now=2_000, windows=[window(600, 1_500)])
    assert {(row.state, row.severity) for row in first} == {(OPEN, "warning")}
    assert [(row.state, row.severity) for row in second] == [(PLANNED, "critical"), (OPEN, "critical")]


def test_two_downtimes_explain_what_both_their_brokers_do():
    both = state("under_min_isr", 0, "1, 2")
    windows = [window(-10, 600), replace(window(-10, 500, brokers=(1,)), downtime_id="e")]
    assert of(both, windows=windows[:1])[0][0].state == OPEN
    assert (of(both, windows=windows)[0][0].state, of(both, windows=windows)[0][0].planned_until) == (PLANNED, at(500))


def test_a_downtime_of_another_cluster_or_broker_explains_nothing():
    assert of(OFFLINE, windows=[window(-10, 600, cluster="test")])[0][0].state == OPEN
    assert of(OFFLINE, windows=[window(-10, 600, brokers=(1,))])[0][0].state == OPEN
    assert of(OFFLINE, windows=[window(-10, 600, brokers=None)])[0][0].state == PLANNED


def test_of_two_downtimes_of_a_broker_the_last_one_says_until_when():
    windows = [window(-10, 600), replace(window(-5, 3_000), downtime_id="longer")]
    assert [row.planned_until for row in of(OFFLINE, now=700, windows=windows)[0]] == [at(3_000)]


@pytest.mark.parametrize("rule", ["watcher_cut_off", "no_controller", "offline"])
def test_a_downtime_of_all_brokers_explains_what_names_none(rule):
    """A cluster that was stopped on purpose paged as cut off, and as having no controller."""
    found = state(rule, 0, partitions="orders-0" if rule == "offline" else "", topic="", count="")
    assert of(found, windows=[window(-10, 600, brokers=None)])[0][0].state == PLANNED
    for other in (window(-10, 600, brokers=(1, 2, 3)), window(-10, 600, brokers=None, cluster="test")):
        assert of(found, windows=[other])[0][0].state == OPEN


def test_an_incident_that_was_told_does_not_become_planned():
    (one,) = of(OFFLINE, again(replace(OFFLINE, summary="more"), 100), now=300, windows=[window(50, 600)])
    assert {row.state for row in one} == {OPEN}


def test_incidents_do_not_depend_on_when_they_are_looked_at():
    states = [
        OFFLINE,
        UNDER,
        LOST,
        over(OFFLINE, 60),
        over(UNDER, 90),
        again(UNDER, 200),
        over(UNDER, 250),
        over(LOST, 300),
    ]
    windows = [window(70, 220)]
    at_once = incidents(states, windows, at(1_000))
    stored = []
    for now in range(0, 1_001, 7):
        seen = [one for one in states if one.written_at <= at(now)]
        known = [one for one in windows if one.written_at <= at(now)]
        stored += untold(stored, seen, known, at(now))
    assert from_arrow(to_arrow(stored + untold(stored, states, windows, at(1_000)))) == at_once


def test_the_line_of_an_incident_names_state_cluster_broker_and_number():
    (one,) = of(OFFLINE, state("under_min_isr", 10, "2", "orders-0, orders-1, audit-3"))
    assert one[-1].summary == "OFFLINE prod: broker 2, 1 partition of orders"
    lost = state("loss", 40, offsets="180", proof="proven", cause="unclean_loss")
    assert of(lost)[0][-1].summary == "LOST prod: unclean election, 180 offsets of orders"


def test_the_line_of_a_loss_that_is_bounded_says_at_least():
    assert of(LOST)[0][-1].summary == "LOST prod: at least 180 offsets of orders"


def test_the_line_of_an_incident_is_short_whatever_the_names_are():
    long = state("loss_not_excluded", 0, "1, 2, 3, 4, 5", f"{'t' * 249}-0", cluster="c" * 200)
    (one,) = of(long)
    assert len(one[-1].summary) <= LONGEST == 80
    assert one[-1].summary.endswith("1 partition of tttt…ttt")
    assert one[-1].partitions == [f"{'t' * 249}-0"]


def test_rows_are_written_in_order_and_once():
    states = [OFFLINE, over(OFFLINE, 60)]
    rows = incidents(states, [], at(1_000))
    assert untold(rows[:1], states, [], at(1_000)) == rows[1:]
    assert rows[-1].written_at == NOON + timedelta(seconds=360)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_alerts_are_of_one_incident_each_whenever_they_are_looked_at(seed):
    """Whatever fires is in exactly one incident that has not ended, and is told unless a downtime explains it."""
    chance = Random(seed)
    states, windows = list(drawn_states(chance)), [window(b := chance.randrange(1_500), b + 400) for _ in range(2)]
    windows = [replace(one, downtime_id=str(n), brokers=(n + 1,)) for n, one in enumerate(windows)]
    at_once, stored = incidents(states, windows, at(2_500)), []
    for now in sorted(chance.choices(range(2_500), k=30)):
        seen = [one for one in states if one.written_at <= at(now)]
        known = [one for one in windows if one.written_at <= at(now)]
        stored += untold(stored, seen, known, at(now))
    assert stored + untold(stored, states, windows, at(2_500)) == at_once
    last = {row.incident_id: row for row in at_once}
    fires = {one.alert_id for one in {state.episode: state for state in in_order(states)}.values() if one.firing}
    assert sorted(alert for row in last.values() for alert in row.firing) == sorted(fires)
    assert all(row.state != ENDED for row in last.values() if row.firing)
    assert all(row.state == OPEN for row in last.values() if row.firing)  # both windows are over
    severities = {}
    for row in at_once:
        assert SEVERITIES.index(row.severity) >= severities.get(row.incident_id, 0)
        severities[row.incident_id] = SEVERITIES.index(row.severity)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_fires_is_in_a_stored_incident_though_clocks_go_back_and_windows_are_ended_late(seed):
    chance = Random(seed)
    states, stored, told, window_ = sorted(drawn_states(chance), key=lambda s: s.written_at), [], [], window(100, 2_400)
    while len(told) < len(states):
        told = states[: len(told) + chance.randrange(1, 4)]
        now = max(0, int((told[-1].written_at - NOON).total_seconds()) + chance.randrange(-400, 400))
        if chance.random() < 0.3:
            window_ = replace(window_, until=at(max(101, now - chance.randrange(400))))
        stored += untold(stored, told, [window_], at(now))
        last = {row.incident_id: row for row in from_arrow(to_arrow(stored))}
        fires = {one.alert_id for one in {state.episode: state for state in in_order(told)}.values() if one.firing}
        assert sorted(alert for row in last.values() for alert in row.firing) == sorted(fires)
        assert all(row.state != ENDED for row in last.values() if row.firing)


def test_an_incident_that_was_stored_by_other_rules_of_joining_stays_one():
    """An upgrade made two of it: the alert of broker 5 was sent once more."""
    other = state("at_risk", 200, "5", "audit-3", severity="warning")
    assert len(of(OFFLINE, other, now=300)) == 2
    (row,) = incidents([OFFLINE], (), at(100))
    ids = [*row.alert_ids, other.alert_id]
    both = replace(row, alert_ids=ids, firing=ids, brokers=[2, 5], written_at=other.written_at)
    assert {one.incident_id for one in untold([row, both], [OFFLINE, other], (), at(300))} <= {row.incident_id}


def test_an_incident_that_was_stored_apart_by_other_rules_of_joining_stays_so():
    joins = state("under_min_isr", 200, "2", "orders-0")
    assert len(of(OFFLINE, joins, now=300)) == 1
    stored = [*incidents([OFFLINE], (), at(100)), *incidents([joins], (), at(250))]
    assert len({row.incident_id for row in stored}) == 2
    now = untold(stored, [OFFLINE, joins], (), at(300))
    assert [row.alert_ids for row in now] == [[joins.alert_id]], "the one that it is linked to is known now"


def test_alerts_of_an_earlier_version_that_fire_are_incidents():
    before = replace(OFFLINE, written_at=None)
    (row,) = untold([], [before], [], at(100))
    assert (row.state, row.firing) == (OPEN, [before.alert_id])


def test_an_incident_that_no_alert_makes_any_more_ends():
    (row,) = untold([], [OFFLINE], [], at(100))
    (end,) = untold([row], [], [], at(200))
    assert (end.incident_id, end.state, end.firing, end.written_at) == (row.incident_id, ENDED, [], at(200))
    assert untold([row, end], [], [], at(300)) == []


def test_what_two_wrote_at_once_is_one_state():
    (row,) = untold([], [OFFLINE], [], at(100))
    assert from_arrow(to_arrow([row, row])) == [row]


def drawn_states(chance):
    """Alerts of three rules and brokers, each firing and over a few times, no two rows of one at one moment."""
    for rule in ("offline", "under_min_isr", "loss"):
        for broker in ("1", "2", "3"):
            first = state(rule, chance.randrange(1_000), "" if rule == "loss" else broker, f"orders-{broker}")
            first = replace(first, severity=chance.choice(SEVERITIES))
            fires, seconds = True, int((first.written_at - NOON).total_seconds())
            for _ in range(chance.randrange(1, 6)):
                yield again(first, seconds) if fires else over(first, seconds)
                fires, seconds = not fires, seconds + chance.randrange(1, 500)


def test_groups_that_were_asked_stay_with_their_incident():
    stored = incidents([LOST], (), at(50))
    asked = replace(stored[-1], groups=["billing"], groups_asked=at(60), written_at=at(60))
    assert untold([*stored, asked], [LOST], (), at(70)) == []
    (ended,) = untold([*stored, asked], [LOST, over(LOST, 80)], (), at(1_000))[-1:]
    assert (ended.state, ended.groups, ended.groups_asked) == (ENDED, ["billing"], at(60))


def test_what_ended_before_the_last_incident_began_is_not_computed_anew(monkeypatch):
    """20,000 rows of `ops/alerts` took 5 s at each evaluation."""
    fired = [replace(again(OFFLINE, 1_000 * n), first_ts=at(1_000 * n)) for n in range(50)]
    states = [row for n, one in enumerate(fired) for row in (one, over(one, 1_000 * n + 60))]
    stored = untold([], states, (), at(60_000))
    computed = []
    monkeypatch.setattr("pipelines.alerting.incidents._take", lambda state, *_: computed.append(state))
    untold(stored, [*states, again(OFFLINE, 60_001)], (), at(60_001))
    assert computed[:-1] == [one for one in states if one.written_at >= at(49_000)]
