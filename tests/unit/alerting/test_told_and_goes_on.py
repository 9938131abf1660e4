"""What fires goes on until something shows its end, and what begins anew is told anew."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipelines.alerting.evaluate import evaluate
from pipelines.alerting.evidence import SCHEMAS
from pipelines.alerting.lookup import read_states
from pipelines.alerting.step import Told, last_step, untold
from pipelines.lake.lake import Lake
from pipelines.notify.episodes import INCIDENT
from pipelines.notify.look import look
from pipelines.verdict import Limits
from schemas import (
    alerts,
    brokers,
    cluster_minute,
    deliveries,
    hw_regressions,
    isr_changes,
    notes,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)
from schemas.event_types import NO_CONTROLLER, NONE_TO_SPARE, NOT_LOOKED_AT, QUORUM
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import PLACE, freeze, health, no_counts, progress, put
from tests.unit.alerting.test_told_once import DAY, elected, events, fall, told, written_by_a_job
from tests.unit.project.lakes import committed_at

pytestmark = pytest.mark.long


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def clock(lake, seconds, **row):
    put(lake, brokers, no_counts("c", 1, ts=at(seconds), **row), mode="overwrite")


def nobody_leads(lake, seconds, **row):
    offline = {"ar": [1, 2, 3], "isr": [1], "offline": True, "under_min_isr": False, "last_event_ts": at(100)}
    events(lake, elected(0, 1, 0, 0), elected(100, -1, 1, 1))
    put(lake, partition_health, PLACE | offline | row)
    clock(lake, seconds)


def one(lake, seconds, **options):
    (alert,) = (a for a in evaluate(lake, now=at(seconds), **options) if a.rule != "job_behind")
    return alert


def test_a_drain_ends_no_offline_that_fires(lake):
    nobody_leads(lake, 130)
    events(lake, progress(130, number=2))
    fires = one(lake, 130)
    events(lake, progress(150, number=3), progress(150, "hwmark/drain", "closed", 1) | {"broker_id": -1})
    clock(lake, 150)
    assert one(lake, 160).says_the_same(fires)


def test_rounds_that_take_longer_end_no_offline_that_fires(lake):
    watched = {"level": 1, "detail": "holds 10 s"}
    nobody_leads(lake, 130, level=1)
    events(lake, progress(130, "watch/a/broker-1") | watched)
    fires = one(lake, 130)
    events(lake, progress(150, "watch/a/broker-1", number=1) | watched | {"detail": "holds 120 s"})
    clock(lake, 150)
    assert one(lake, 155).says_the_same(fires)


@pytest.mark.parametrize(("log", "fires_at"), [(False, 105), (True, 115)])
def test_what_only_a_watcher_tells_waits_for_no_source_that_may_come_later(lake, log, fires_at):
    watched = {"level": 1, "detail": "holds 10 s"}
    written_by_a_job(lake)
    for now in range(100, 125, 5):
        nobody_leads(lake, now, level=1)
        events(lake, progress(now, "watch/a/broker-1", number=now) | watched, *([progress(now, number=now)] * log))
        if found := [a for a in evaluate(lake, now=at(now)) if a.rule == "offline"]:
            break
    assert ([a.firing for a in found], now) == ([True], fires_at)


@pytest.mark.parametrize("ends", ["handled", "expired"])
def test_a_loss_of_another_partition_is_told_though_it_is_as_large_as_one_told(lake, ends):
    put(lake, hw_regressions, fall(0, 0))
    health(lake, 10)
    assert told(evaluate(lake, now=at(10))) == [("loss", "firing")]
    then = 30 if ends == "handled" else 10 + DAY
    if ends == "handled":
        put(lake, notes, {"cluster": "c", "text": "sent again", "handled": True, "written_at": at(20)})
    assert told(evaluate(lake, now=at(then))) == [("loss", "resolved")]
    harmless = {"severity": "info", "class": "stale_leader_hw", "revision": 2}
    put(lake, hw_regressions, fall(0, 0, **harmless), fall(5, 1))
    alert = one(lake, then + 10)
    assert (alert.state, alert.present) == ("firing", {"orders-1"})


def test_a_partition_that_is_bad_again_is_told_though_another_was_all_the_time(lake):
    other = {"partition": 1}

    def looked_at(seconds, *rows):
        put(lake, partition_hw, *rows)
        row = PLACE | {"ar": [1, 2], "isr": [1], "under_min_isr": True, "last_event_ts": at(seconds)}
        put(lake, partition_health, row, row | other, mode="overwrite")
        return one(lake, seconds).present

    def told_since(moment):
        return [state.present for state in untold(read_states(Lake(lake)), moment).fired]

    both = {"orders-0", "orders-1"}
    assert looked_at(400, freeze(0), freeze(0) | other) == both
    first = Told(max(state.written_at for state in read_states(Lake(lake))))
    assert (looked_at(900, freeze(500, "thaw") | other), told_since(first)) == ({"orders-0"}, [])
    assert (looked_at(19_000, freeze(18_000) | other), told_since(first)) == (both, [both])


def test_a_sentence_that_changes_is_told_once(lake):
    put(lake, partition_hw, freeze(0), freeze(0) | {"partition": 1})
    health(lake, 400)
    one(lake, 400)
    up_to = Told(max(state.written_at for state in read_states(Lake(lake))))
    for number, seconds in enumerate((500, 900)):
        put(lake, partition_hw, freeze(seconds, "thaw") | {"partition": number})
        health(lake, seconds + 100)
        one(lake, seconds + 100)
    assert untold(read_states(Lake(lake)), up_to).fired == ()


@pytest.mark.parametrize("lost", ["settings", "step"])
def test_what_was_over_before_a_changed_setting_alone_is_history(lake, tmp_path, lost):
    health(lake, 50)
    put(lake, partition_hw, freeze(0) | {"partition": 7}, freeze(40, "thaw") | {"partition": 7})
    put(lake, hw_regressions, fall(0, severity="info", **{"class": "loss_not_excluded"}))
    evaluate(lake, now=at(60))
    put(lake, partition_hw, freeze(100), freeze(2500, "thaw"))
    health(lake, 3600)
    rules = tmp_path / "alerts.toml"
    rules.write_text("[under_min_isr]\nfor_s = 20\n" if lost == "settings" else "")
    if lost == "step":
        (Path(lake) / "_alerts/step.json").unlink()
    evaluate(lake, now=at(3600), rules_file=rules)
    fired = {(s.rule, *s.names) for s in read_states(Lake(lake)) if s.firing}
    assert ("under_min_isr", "orders-0") in fired
    assert ("under_min_isr", "orders-7") not in fired


@pytest.mark.parametrize("blind", [False, True], ids=["as all is judged", "while silver is made anew"])
def test_an_offline_that_comes_days_late_is_told(lake, blind):
    """Rows that came during an evaluation which could judge nothing were read by none."""
    health(lake, 2 * DAY)
    clock(lake, 2 * DAY)
    events(lake, progress(2 * DAY, number=9))
    assert evaluate(lake, now=at(2 * DAY)) == []
    back = elected(5000, 1, 2, 2)
    events(lake, elected(0, 1, 0, 0), elected(100, -1, 1, 1), back)
    if blind:
        written_by_a_job(lake)
        Lake(lake).write_durably("_run/rebuild.json", json.dumps({"query_id": "q", "to": 5}).encode())
        evaluate(lake, now=at(2 * DAY + 1))
        evaluate(lake, now=at(2 * DAY + 2))
        Lake(lake).files().delete_file("_run/rebuild.json")
    evaluate(lake, now=at(2 * DAY + 10))
    assert ("offline", "firing") in told(read_states(Lake(lake)))


def test_a_controller_is_not_reached_because_nobody_may_look(lake):
    clock(lake, 200, quorum=NO_CONTROLLER, quorum_since=at(100))
    put(lake, brokers, no_counts("c", 2, ts=at(200)))
    assert one(lake, 200).rule == "no_controller"
    clock(lake, 300, quorum=NO_CONTROLLER, quorum_since=at(100))
    put(lake, brokers, no_counts("c", 2, ts=at(300), quorum=NOT_LOOKED_AT, quorum_since=at(250)))
    assert one(lake, 300).firing


def test_a_rebuild_ends_nothing_that_gold_told_of_brokers(lake):
    clock(lake, 200, quorum=NO_CONTROLLER, quorum_since=at(100))
    written_by_a_job(lake)
    fires = one(lake, 200)
    Lake(lake).write_durably("_run/rebuild.json", json.dumps({"query_id": "q", "to": 5}).encode())
    clock(lake, 50)
    assert one(lake, 260).episode == fires.episode
    assert one(lake, 260).firing


def test_after_a_rebuild_from_later_telemetry_what_lasted_is_not_known_since(lake):
    """It fired on as if somebody had seen it: bronze did not reach back to what told of the partition."""
    put(lake, partition_hw, freeze(0))
    put(lake, cluster_minute, {"cluster": "c", "minute": at(0)})
    health(lake, 400)
    written_by_a_job(lake)
    fires = one(lake, 400)
    Lake(lake).write_durably("_run/query.json", json.dumps({"query_id": "r", "rules": {}}).encode())
    for module in (partition_hw, partition_health):
        put(lake, module, mode="overwrite")
    put(lake, cluster_minute, {"cluster": "c", "minute": at(DAY)}, mode="overwrite")
    clock(lake, DAY)
    for seconds in (DAY, DAY + 600):
        assert one(lake, seconds).summary == (
            f"{fires.summary}; not known since {clocked(390)}: its rows are not kept any more"
        )
    put(lake, partition_hw, freeze(DAY + 700, "thaw"))
    clock(lake, DAY + 900)
    assert told(evaluate(lake, now=at(DAY + 900))) == [("under_min_isr", "resolved")]


def test_controllers_of_a_recording_that_ended_are_history(lake):
    clock(lake, 200, quorum=NO_CONTROLLER, quorum_since=at(100))
    events(lake, progress(200), progress(200, "hwmark/drain", "closed", 1) | {"broker_id": -1})
    committed_at(lake, 0, at(200))
    assert one(lake, 210).firing
    assert one(lake, 300 + DAY).labels["end"] == "recording ended"


NO_SPARE = f"{QUORUM}: 3 voters, 2 caught up, without 3, {NONE_TO_SPARE}"
WELL = f"{QUORUM}: 3 voters, 3 caught up"


def quorum_told(lake, *told):
    """Put rows of a watcher on the controllers: (second, detail)."""
    row = {"event_type": "broker_state", "replica_id": 1, "level": 1}
    events(lake, *(progress(ts, "watch/a/broker-1", detail, ts) | row for ts, detail in told))


def rows_of(lake, rule):
    states = sorted(read_states(Lake(lake)), key=lambda s: (s.first_ts, not s.firing))
    return [(s.state, s.first_ts, s.last_ts) for s in states if s.rule == rule]


@pytest.mark.parametrize(("rule", "detail"), [("no_controller", NO_CONTROLLER), ("quorum_no_spare", NO_SPARE)])
def test_how_the_controllers_were_between_two_checks_is_told_each_time_by_itself(lake, rule, detail):
    quorum_told(lake, (0, WELL))
    clock(lake, 50, quorum=WELL, quorum_since=at(0))
    evaluate(lake, now=at(50))
    quorum_told(lake, (100, detail), (115, detail), (1900, WELL), (2500, detail), (2510, WELL), (5000, detail))
    clock(lake, 6000, quorum=detail, quorum_since=at(5000))
    evaluate(lake, now=at(6000))
    over = [("firing", at(100), at(100)), ("resolved", at(100), at(1900))]
    if rule == "no_controller":  # which fires at once
        over += [("firing", at(2500), at(2500)), ("resolved", at(2500), at(2510))]
    assert rows_of(lake, rule) == [*over, ("firing", at(5000), at(6000))]
    quorum_told(lake, (7000, WELL), (8000, detail))
    clock(lake, 9000, quorum=detail, quorum_since=at(8000))
    evaluate(lake, now=at(9000))
    again = [("resolved", at(5000), at(7000)), ("firing", at(8000), at(9000))]
    assert rows_of(lake, rule) == [*over, ("firing", at(5000), at(6000)), *again], "no part of the one before"


def test_where_nobody_may_look_it_is_not_known_since_when_a_controller_is_reached(lake):
    quorum_told(lake, (100, NO_CONTROLLER))
    clock(lake, 200)
    fires = one(lake, 200)
    why = f"{NOT_LOOKED_AT}: no right"
    quorum_told(lake, (250, why), (400, why))
    clock(lake, 500)
    assert one(lake, 500).summary == f"{fires.summary}; not known since {clocked(250)}: {why}"
    quorum_told(lake, (600, WELL))
    clock(lake, 700)
    (ended,) = (a for a in evaluate(lake, now=at(700)) if a.rule == "no_controller")
    assert (ended.state, ended.summary, ended.last_ts) == ("resolved", fires.summary, at(600))


def test_a_quorum_without_another_controller_says_which_one(lake):
    quorum_told(lake, (100, NO_SPARE))
    clock(lake, 200)
    assert one(lake, 200).labels["brokers"] == "3"
    quorum_told(lake, (300, NO_SPARE.replace("without 3", "without 2")))
    clock(lake, 400)
    assert one(lake, 400).labels["brokers"] == "2"


def silent_watched(lake):
    """Two brokers that a watcher asks, of which one is silent for 400 s."""
    watched = {"level": 1, "detail": "holds 10 s"}
    health(lake, 0)
    events(
        lake, progress(0, "watch/a/broker-2") | watched | {"broker_id": 2}, progress(400, "watch/a/broker-1") | watched
    )
    return one(lake, 400)


def test_a_watcher_that_dies_ends_no_silence_that_fires(lake):
    fires = silent_watched(lake)
    rules = {(a.rule, a.state) for a in evaluate(lake, now=at(2000))}
    assert {("stale_source", "firing"), ("watcher_cut_off", "firing")} <= rules
    assert fires.rule == "stale_source"


def test_a_clock_set_back_ends_no_silence_that_fires(lake):
    fires = silent_watched(lake)
    assert evaluate(lake, now=at(-3200))[0].says_the_same(fires)


def test_all_of_many_silent_sources_go_on_after_a_drain(lake):
    health(lake, 0)
    events(lake, *(progress(0, f"broker-{n}/server.log") | {"broker_id": n} for n in range(150)))
    assert one(lake, 400).labels["count"] == "150"
    events(lake, progress(0, "hwmark/drain", "closed", 1) | {"broker_id": -1})
    assert one(lake, 500).labels["count"] == "150"


def test_drains_keep_no_recording_alive(lake):
    put(lake, partition_hw, freeze(0))
    events(lake, progress(400), progress(400, "hwmark/drain", "closed", 1) | {"broker_id": -1})
    committed_at(lake, 0, at(400))
    health(lake, 400)
    assert one(lake, 400).firing
    for day in (1, 2):
        events(lake, progress(400, "hwmark/drain", "closed", 1 + day) | {"broker_id": -1})
        committed_at(lake, DeltaTable(f"{lake}/{replication_events.TABLE.path}").version(), at(300 + day * DAY))
        found = [a for a in evaluate(lake, now=at(400 + day * DAY)) if a.rule == "under_min_isr"]
        assert [a.labels.get("end") for a in found] == ["recording ended"] * (day == 1)


def test_a_note_by_a_clock_ahead_ends_no_loss_that_is_told_after_it(lake):
    put(lake, hw_regressions, fall(0, 0))
    health(lake, 10)
    evaluate(lake, now=at(10))
    put(lake, notes, {"cluster": "c", "text": "sent again", "handled": True, "written_at": at(3600)})
    assert told(evaluate(lake, now=at(20))) == [("loss", "resolved")]
    put(lake, hw_regressions, fall(100, 5))
    health(lake, 130)
    assert told(evaluate(lake, now=at(130))) == [("loss", "firing")]
    assert told(evaluate(lake, now=at(140))) == [("loss", "firing")]


def test_a_rule_that_one_evaluator_has_off_ends_nothing_that_another_told(lake, tmp_path):
    off = tmp_path / "alerts.toml"
    off.write_text("[under_min_isr]\nenabled = false\n")
    put(lake, partition_hw, freeze(0))
    health(lake, 400)
    fires = one(lake, 400)
    health(lake, 460)
    assert one(lake, 460, rules_file=off).says_the_same(fires)
    health(lake, 460 + DAY)
    assert one(lake, 460 + DAY, rules_file=off).summary == (
        f"{fires.summary}; not known since {clocked(400)}: the rule is off; "
        f"`hwmark note 'rule is off' --handled --cluster c --incident {fires.alert_id}` ends it"
    )
    put(lake, partition_hw, freeze(500) | {"partition": 7}, freeze(900, "thaw") | {"partition": 7})
    assert one(lake, 470 + DAY, rules_file=off).firing
    evaluate(lake, now=at(480 + DAY))
    states = read_states(Lake(lake))
    assert [s.summary for s in states if s.firing and s.names == {"orders-0"}][-1] == fires.summary
    assert any(s.firing and "orders-7" in s.names for s in states), "what began and ended meanwhile"


def clocked(seconds):
    return f"{at(seconds):%Y-%m-%d %H:%M:%S} UTC"


@pytest.mark.parametrize("rule", ["under_min_isr", "out_of_sync"])
def test_rows_that_retention_took_with_the_last_step_end_nothing_and_later_ones_do(lake, rule):
    table, begins, ends = {
        "under_min_isr": (partition_hw, freeze(0), freeze(11 * DAY, "thaw")),
        "out_of_sync": (replica_sync, behind(0), behind(11 * DAY, state="in_sync")),
    }[rule]
    put(lake, table, begins)
    health(lake, 700)
    fires = one(lake, 700)
    put(lake, table, mode="overwrite")
    put(lake, cluster_minute, {"cluster": "c", "minute": at(9 * DAY)})
    health(lake, 10 * DAY)
    (Path(lake) / "_alerts/step.json").unlink()
    for _ in range(2):
        goes_on = one(lake, 10 * DAY)
        assert (goes_on.episode, goes_on.firing) == (fires.episode, True)
        assert goes_on.summary.startswith(f"{fires.summary}; not known since ")
    put(lake, table, ends)
    health(lake, 12 * DAY)
    assert one(lake, 12 * DAY).summary == fires.summary
    assert told(read_states(Lake(lake)))[-1] == (rule, "resolved")


def behind(seconds, **more):
    return PLACE | {
        "ts": at(seconds), "replica_id": 2, "state": "out_of_sync", "leader_epoch": 1, "reason": "silent", **more
    }  # fmt: skip


def test_reports_that_retention_took_with_the_last_step_end_no_silence(lake):
    health(lake, 0)
    events(lake, progress(0))
    fires = one(lake, 400)
    put(lake, replication_events, progress(9 * DAY, "broker-2/server.log") | {"topic": None}, mode="overwrite")
    (Path(lake) / "_alerts/step.json").unlink()
    (goes_on,) = (a for a in evaluate(lake, now=at(9 * DAY)) if a.rule == "stale_source")
    assert (goes_on.episode, goes_on.firing) == (fires.episode, True)
    assert "not known since" in goes_on.summary


def reassigned(lake, seconds, *assignments, **more):
    """The present of orders-0 with what was assigned: (second or None: from the beginning, replicas)."""
    each = [{"since": at(since), "replicas": [*replicas]} for since, *replicas in assignments]
    row = {"ar": sorted(each[-1]["replicas"]), "assignments": each if len(each) > 1 else None, "under_min_isr": False}
    put(lake, partition_health, PLACE | row | {"last_event_ts": at(seconds)} | more, mode="overwrite")


def isr_change(seconds, epoch, before, after):
    place = PLACE | {"ts": at(seconds), "partition_epoch": epoch, "change": "replace", "cause": "unknown"}
    return place | {"isr_before": before, "isr_after": after, "revision": 1}


def test_a_replica_that_a_reassignment_adds_is_no_risk_until_it_was_in_the_isr(lake):
    put(lake, isr_changes, isr_change(0, 1, [1, 2], [1, 2, 3]))
    old, running = (0, 1, 2, 3), (5000, 1, 2, 4, 3)
    reassigned(lake, DAY, old, running, isr=[1, 2, 3])
    assert evaluate(lake, now=at(DAY)) == []
    put(lake, isr_changes, isr_change(DAY + 10, 3, [1, 2, 3], [1, 2, 4]))
    done = (DAY + 10, 1, 2, 4)
    put(lake, isr_changes, isr_change(DAY + 1000, 4, [1, 2, 4], [1, 2]))
    reassigned(lake, DAY + 2000, old, running, done, isr=[1, 2])
    alert = one(lake, DAY + 2000)
    assert (alert.rule, alert.first_ts, alert.subject) == ("at_risk", at(DAY + 1000), "broker 4")


@pytest.mark.parametrize("looked_at", [[1000, 9000], [9000]], ids=["meanwhile", "afterwards"])
@pytest.mark.parametrize("assigned", [[1, 2, 4], [1, 2]], ids=["another replica", "one less"])
def test_a_reassignment_ends_a_risk_and_does_not_hide_it(lake, looked_at, assigned):
    put(lake, isr_changes, isr_change(0, 1, [1, 2], [1, 2, 3]))
    reassigned(lake, 10, (0, 1, 2, 3), isr=[1, 2, 3])
    assert evaluate(lake, now=at(10)) == []
    put(lake, isr_changes, isr_change(100, 2, [1, 2, 3], [1, 2]))
    for seconds in looked_at:
        given = [(0, 1, 2, 3)]
        if seconds > 5000:
            given += [(4000, 1, 2, 4, 3), (5000, *assigned)] if 4 in assigned else [(5000, *assigned)]
            if 4 in assigned:
                put(lake, isr_changes, isr_change(5000, 3, [1, 2], [1, 2, 4]))
        reassigned(lake, seconds, *given, isr=given[-1][1:] if seconds > 5000 else [1, 2])
        evaluate(lake, now=at(seconds))
    last = at(1000 if len(looked_at) > 1 else 100)
    assert rows_of(lake, "at_risk") == [("firing", at(100), last), ("resolved", at(100), at(5000))]


def test_a_second_fall_of_a_partition_is_told_though_nobody_knows_how_much_it_lost(lake):
    unknown = {"lost_from": None, "lost_to": None, "lost_records": None}
    put(lake, hw_regressions, fall(0, 0, **unknown))
    health(lake, 10)
    (first,) = evaluate(lake, now=at(10))
    up_to = Told(max(state.written_at for state in read_states(Lake(lake))))
    put(lake, hw_regressions, fall(20, 0, **unknown) | {"regression_id": "second"})
    (both,) = evaluate(lake, now=at(30))
    assert both.episode == first.episode
    assert [state.labels["falls"] for state in untold(read_states(Lake(lake)), up_to).fired] == ["2"]


def test_a_partition_that_was_not_judged_yet_may_have_one_replica(lake):
    events(lake, elected(0, 1, 0, 0), elected(100, -1, 1, 1), progress(130, number=2))
    assert evaluate(lake, now=at(130)) == []
    nobody_leads(lake, 130)
    assert one(lake, 140).rule == "offline", "three replicas are assigned"


def test_of_what_is_told_of_the_controllers_again_and_again_the_ends_are_carried(lake):
    """A watcher says every 15 s that none is reached, for as long as that lasts."""
    quorum_told(lake, (0, WELL), *((second, NO_CONTROLLER) for second in range(15, 900, 15)), (900, WELL))
    clock(lake, 1000, quorum=WELL, quorum_since=at(900))
    evaluate(lake, now=at(1000))
    kept = json.loads((Path(lake) / "_alerts/step.json").read_text())["restarts"]
    assert [(row["ts"] - kept[0]["ts"]) // 1_000_000 for row in kept] == [0, 15, 885, 900]
    assert rows_of(lake, "no_controller") == [("resolved", at(15), at(900))]


def test_a_person_ends_an_alert_by_its_id_whose_rule_is_off_and_that_is_of_no_cluster(lake, tmp_path):
    off = tmp_path / "alerts.toml"
    off.write_text("[notify_failing]\nenabled = false\n")
    put(lake, deliveries, {"channel": "mail", "outcome": "failed", "attempt": 1, "sent_at": at(0), "error": "HTTP 500"})
    health(lake, 0)
    fires = one(lake, 600)
    assert one(lake, 7200, rules_file=off).summary.endswith(f"--incident {fires.alert_id}` ends it")
    note = {"cluster": "c", "incident_id": fires.alert_id, "handled": True, "text": "mail is gone"}
    put(lake, notes, note | {"written_at": at(7201)})
    assert told(evaluate(lake, rules_file=off, now=at(7210))) == [("notify_failing", "resolved")]


THEN = {
    "another replica is assigned": lambda lake: reassigned(
        lake, 9000, (0, 1, 2), (5000, 1, 3, 2), (6000, 1, 3), isr=[1]
    ),
    "the topic is created anew": lambda lake: reassigned(lake, 9000, (0, 1, 2), isr=[1, 2], topic_id="N" * 22),
    "the topic is deleted": lambda lake: put(lake, partition_health, mode="overwrite"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("then", THEN.values(), ids=THEN)
@pytest.mark.parametrize("rule", ["under_min_isr", "offline"])
def test_what_was_over_is_not_told_anew_under_another_name(lake, rule, then):
    """Who was missing is known by the replicas that are assigned, and by the ISR of now."""
    if rule == "offline":
        events(lake, elected(0, 1, 0, 0), elected(10, -1, 1, 1))
    else:
        put(lake, partition_hw, freeze(10))
    clock(lake, 350)
    reassigned(lake, 350, (0, 1, 2), isr=[2], offline=rule == "offline")
    assert [a.rule for a in evaluate(lake, now=at(350))] == [rule]
    events(lake, elected(400, 1, 2, 2))
    put(lake, partition_hw, freeze(400, "thaw"))
    clock(lake, 500)
    reassigned(lake, 500, (0, 1, 2), isr=[1, 2], offline=False)
    evaluate(lake, now=at(500))
    for seconds in (600, 9000):
        clock(lake, seconds)
        if seconds == 9000:
            then(lake)
        evaluate(lake, now=at(seconds))
    assert [(state, first) for state, first, _ in rows_of(lake, rule)] == [("firing", at(10)), ("resolved", at(10))]


def test_a_deletion_that_comes_late_ends_what_fires(lake):
    """The controller's log is given a day later: its rows are older than what an evaluation reads again."""
    events(lake, elected(0, 1, 0, 0), elected(10, -1, 1, 1))
    for seconds in (350, 90_000):
        clock(lake, seconds)
        reassigned(lake, seconds, (0, 1, 2), isr=[2], offline=True)
        evaluate(lake, now=at(seconds))
    deleted = {"event_type": "config", "partition": -1, "detail": "topic=deleted", "committed": True}
    events(lake, elected(400, 1, 0, 0) | {"leader_id": None, "leader_epoch": None} | deleted)
    put(lake, partition_health, mode="overwrite")
    clock(lake, 90_100)
    evaluate(lake, now=at(90_100))
    assert [(state, last) for state, _, last in rows_of(lake, "offline")][-1] == ("resolved", at(400))


def test_who_was_missing_is_known_by_the_replicas_that_were_assigned_then(lake):
    put(lake, partition_hw, freeze(0))
    reassigned(lake, 9000, (0, 1, 2), (5000, 1, 3, 2), (6000, 1, 3), isr=[1])
    assert {a.subject for a in evaluate(lake, now=at(9000)) if a.rule == "under_min_isr"} == {"broker 2"}


def test_what_one_evaluator_told_as_over_does_not_fire_again_with_another(lake, tmp_path):
    """A gap paged once a minute: each of two evaluators has it last for another time."""
    shorter = tmp_path / "alerts.toml"
    shorter.write_text("[gap]\nresolve_after_s = 300\n")
    missing = {"cluster": "c", "source_id": "s", "series": "source", "kind": "gap", "partition": -1, "source_epoch": 0}
    put(lake, telemetry_gaps, missing | {"ts": at(300), "seq_from": 3, "seq_to": 8})
    found = []
    for number, seconds in enumerate(range(400, 1000, 60)):
        clock(lake, seconds)
        evaluate(lake, now=at(seconds), rules_file=shorter if number % 2 else None)
        found = [state for state, *_ in rows_of(lake, "gap")]
    assert found == ["firing", "resolved"]
    put(lake, telemetry_gaps, missing | {"ts": at(1100), "seq_from": 13, "seq_to": 18})
    clock(lake, 1200)
    assert told(evaluate(lake, now=at(1200))) == [("gap", "firing")]


def test_two_evaluators_with_other_kinds_of_gaps_tell_one_alert(lake, tmp_path):
    """One withdrew what the other told, and that told it anew."""
    fewer = tmp_path / "alerts.toml"
    fewer.write_text('[gap]\nkinds = ["gap"]\n')
    wrong = {"cluster": "c", "source_id": "s", "series": "source", "kind": "clock", "partition": -1, "source_epoch": 0}
    put(lake, telemetry_gaps, wrong | {"ts": at(300), "seq_from": 3, "seq_to": 8})
    put(lake, telemetry_gaps, wrong | {"ts": at(310), "seq_from": 9, "seq_to": 9, "kind": "late"})
    for number, seconds in enumerate((400, 460, 520, 3000, 4500, 4560)):
        clock(lake, seconds)
        evaluate(lake, now=at(seconds), rules_file=fewer if number in (1, 3, 4) else None)
    assert [state for state, *_ in rows_of(lake, "gap")] == ["firing", "resolved"]


def test_rounds_that_a_broker_did_not_answer_before_a_gap_are_none_of_it_at_the_next_evaluation(lake):
    """A watcher that was paused for 12 s was told three times: two brokers had been away some time before."""
    gap = {"cluster": "c", "series": "source", "kind": "gap", "partition": -1, "source_epoch": 0, "seq_to": 9}
    sources = ["watch/main/broker-1", "watch/main/broker-2"]
    alone = gap | {"source_id": sources[1], "ts": at(0), "seq_from": 1}
    put(lake, telemetry_gaps, alone | {"detail": "from a to b 6 times without an answer: timed out"})
    paused = gap | {"ts": at(1_000), "seq_from": 9, "detail": "from a to b once not asked: the watcher stood still"}
    put(lake, telemetry_gaps, *(paused | {"source_id": source} for source in sources))
    for seconds in (1_010, 1_020):
        clock(lake, seconds)
        (alert,) = evaluate(lake, now=at(seconds))
        assert (alert.subject, alert.first_ts) == (", ".join(sources), at(1_000)), seconds


def test_what_an_evaluator_told_after_less_time_goes_on_with_another(lake, tmp_path):
    """The job was behind, and a channel failed, once a minute."""
    later = tmp_path / "alerts.toml"
    later.write_text("[job_behind]\nafter_s = 3600\n[notify_failing]\nafter_s = 3600\n")
    written_by_a_job(lake)
    events(lake, progress(0))
    committed_at(lake, DeltaTable(f"{lake}/{replication_events.TABLE.path}").version(), at(0))
    tried = {"channel": "oncall", "outcome": "failed", "attempt": 1, "alert_id": "a", "key": "k", "error": "HTTP 500"}
    put(lake, deliveries, tried | {"sent_at": at(0)})
    for number, seconds in enumerate(range(400, 1000, 60)):
        evaluate(lake, now=at(seconds), rules_file=later if number % 2 else None)
    for rule in ("job_behind", "notify_failing"):
        assert [state for state, *_ in rows_of(lake, rule)] == ["firing"], rule


def test_what_an_evaluator_told_after_less_time_was_so_for_another_when_it_is_over(lake, tmp_path):
    """It was withdrawn, and the other evaluator told its end once more."""
    sooner = tmp_path / "alerts.toml"
    sooner.write_text("[under_min_isr]\nfor_s = 60\n[no_controller]\nfor_s = 5\n")
    put(lake, partition_hw, freeze(0))
    put(lake, brokers, no_counts("c", 1, ts=at(100), quorum=f"{NO_CONTROLLER} is reached", quorum_since=at(90)))
    health(lake, 100)
    evaluate(lake, now=at(100), rules_file=sooner)
    evaluate(lake, now=at(101))
    put(lake, partition_hw, freeze(120, "thaw"))
    well = no_counts("c", 1, ts=at(200), quorum="quorum: 3 voters, 3 caught up", quorum_since=at(110))
    put(lake, brokers, well, mode="overwrite")
    health(lake, 200)
    for seconds in (200, 260):
        evaluate(lake, now=at(seconds), rules_file=sooner if seconds > 200 else None)
    for rule in ("under_min_isr", "no_controller"):
        each = sorted(read_states(Lake(lake)), key=lambda state: state.written_at)
        assert [(s.state, s.withdrawn) for s in each if s.rule == rule] == [("firing", False), ("resolved", False)], (
            rule
        )


@pytest.mark.parametrize("rule", ["loss", "under_min_isr"])
def test_an_evaluator_that_groups_nothing_takes_no_alert_apart_that_another_told(lake, tmp_path, rule):
    """An alert that was told as one came again, one for each partition."""
    apart = tmp_path / "apart.toml"
    apart.write_text("[loss]\ngroup_s = 0\n[under_min_isr]\ngroup_s = 0\n")
    if rule == "loss":
        put(lake, hw_regressions, fall(0, 0), fall(30, 1))
    else:
        put(lake, partition_hw, freeze(0), freeze(20) | {"partition": 1, "isr": [2]})
    health(lake, 400)
    for number, seconds in enumerate((400, 460, 520)):
        evaluate(lake, now=at(seconds), rules_file=apart if number % 2 else None)
    assert [state for state, *_ in rows_of(lake, rule)] == ["firing"]


def test_an_offline_of_one_replica_that_was_shorter_than_any_restart_is_withdrawn(lake):
    nobody_leads(lake, 500, ar=[1])
    assert one(lake, 500).firing
    events(lake, elected(150, 1, 2, 2))
    put(lake, partition_health, PLACE | {"ar": [1], "isr": [1], "offline": False}, mode="overwrite")
    clock(lake, 600)
    assert one(lake, 600).withdrawn


def test_a_clock_that_is_a_day_ahead_ends_no_loss_for_good(lake):
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    assert told(evaluate(lake, now=at(10))) == [("loss", "firing")]
    assert told(evaluate(lake, now=at(10 + 25 * 3600))) == [("loss", "resolved")]
    for seconds in (20, 30, 13 * 3600):
        assert told(evaluate(lake, now=at(seconds))) == [("loss", "firing")]
    assert sorted(state for state, *_ in rows_of(lake, "loss")) == ["firing", "firing", "resolved"]


def test_what_a_newer_version_tells_by_a_rule_that_is_not_known_here_goes_on(lake):
    """After an upgrade that was taken back no evaluation came to its end, so that nothing was told at all."""
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    told_by_it = {
        "alert_id": "1" * 16, "rule": "of_later", "severity": "warning", "state": "firing", "subject": "x",
        "first_ts": at(0), "last_ts": at(0), "summary": "c: x", "labels": [("cluster", "c")], "written_at": at(0),
    }  # fmt: skip
    put(lake, alerts, told_by_it)
    written_by_a_job(lake)
    clocks, carried = {"of_later settings": {"c": 5}}, dict.fromkeys(SCHEMAS["carried"].names)
    carried |= PLACE | {"rule": "of_later", "replica": -1, "ts": 0, "rank": 0}
    record = {"clocks": clocks, "carried": [carried], "query": "another", "waits": []}
    Lake(lake).write_durably("_alerts/step.json", json.dumps(record).encode())
    assert told(evaluate(lake, now=at(20))) == [("loss", "firing"), ("of_later", "firing")]
    assert last_step(Lake(lake)).clocks["of_later settings"] == {"c": 5}, "it has looked so far, and will go on there"
    seen = look(Lake(lake), Limits(), "", 10, at(30), per=INCIDENT)
    assert {one.last.rule for one in seen.episodes} == {INCIDENT}
    assert "of_later" in {one.rule for one in seen.alerts.values()}
