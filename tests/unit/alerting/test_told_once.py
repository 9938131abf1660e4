"""Told once, whenever it is looked at: what an evaluation tells depends on silver and on what was told."""

import json
import os
import shutil
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from pipelines.alerting import reading
from pipelines.alerting.evaluate import evaluate
from pipelines.alerting.lookup import read_states
from pipelines.alerting.messages import status
from pipelines.alerting.step import Told, untold
from pipelines.commands.forget.command import _remove_records
from pipelines.lake.lake import Lake
from pipelines.lake.records import write_record
from pipelines.streaming.unfinished import RECORD, Removal
from schemas import (
    alerts,
    brokers,
    cluster_minute,
    hw_regressions,
    isr_changes,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import LOSS, PLACE, freeze, health, no_counts, progress, put, stored

pytestmark = pytest.mark.long

DAY = 86_400
GAP = {
    "cluster": "c", "source_id": "s", "source_epoch": 0, "series": "source", "seq_from": 1, "seq_to": 2, "kind": "gap",
    "ts": at(0), "partition": -1,
}  # fmt: skip
JOB = (
    replication_events,
    isr_changes,
    partition_hw,
    replica_sync,
    hw_regressions,
    telemetry_gaps,
    brokers,
    cluster_minute,
)


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def fall(seconds, number=0, **more):
    return LOSS | {"ts": at(seconds), "regression_id": f"r{number}", "partition": number} | more


def told(found):
    return sorted((a.rule, a.state) for a in found)


def events(lake, *rows):
    put(lake, replication_events, *({"topic": None, **row} for row in rows))


def elected(seconds, leader, epoch, number):
    return progress(seconds, number=number) | {
        "event_type": "leader", "topic": "orders", "topic_id": "T" * 22, "partition": 0, "leader_id": leader,
        "leader_epoch": epoch, "isr": [1],
    }  # fmt: skip


def written_by_a_job(lake):
    """The tables that a job makes before its first batch, and its record."""
    for module in JOB:
        if not DeltaTable.is_deltatable(f"{lake}/{module.TABLE.path}"):
            put(lake, module)
    Lake(lake).write_durably("_run/query.json", json.dumps({"query_id": "q", "rules": {}}).encode())


@pytest.mark.parametrize("rule", ["loss", "unproven_loss", "loss_not_excluded"])
@pytest.mark.parametrize("late", [25 * 3600, 8 * DAY], ids=["25 h", "8 d"])
def test_a_loss_that_is_first_looked_at_late_is_told_and_fires_for_as_long_as_any(lake, rule, late):
    severity = {"loss": "critical", "unproven_loss": "warning", "loss_not_excluded": "info"}[rule]
    put(lake, partition_hw)
    health(lake, 0)
    assert evaluate(lake, now=at(0)) == []
    put(lake, hw_regressions, fall(10, severity=severity))
    health(lake, late)
    assert told(evaluate(lake, now=at(late))) == [(rule, "firing")]
    assert told(evaluate(lake, now=at(late + DAY - 1))) == [(rule, "firing")]
    assert told(evaluate(lake, now=at(late + DAY))) == [(rule, "resolved")]
    assert evaluate(lake, now=at(late + 2 * DAY)) == []


def test_the_lasting_alerts_of_a_recording_end_a_day_after_the_last_came_and_not_as_well(lake):
    put(lake, partition_hw, freeze(0))
    events(lake, progress(400), progress(400, "hwmark/drain", "closed", 1))
    health(lake, 400)

    def looked_at(seconds):
        return next(a for a in evaluate(lake, now=at(seconds)) if a.rule == "under_min_isr")

    assert looked_at(400).state == "firing", "a drain alone ends nothing"
    arrived = DeltaTable(f"{lake}/{replication_events.TABLE.path}").history()[0]["timestamp"] / 1000 - at(0).timestamp()
    assert looked_at(arrived + DAY - 60).state == "firing"
    alert = looked_at(arrived + DAY)
    assert (alert.state, alert.labels["end"]) == ("resolved", "recording ended")
    assert alert.summary == "c: recording ended, UNDER MIN ISR then: broker 2 gone: 1 partition under min ISR: orders-0"
    assert told(evaluate(lake, now=at(arrived + 365 * DAY))) == [("job_behind", "firing")]
    events(lake, progress(500, number=2))
    health(lake, 500)
    assert looked_at(arrived + DAY + 60).state == "firing", "a later row opens it again"


def test_a_source_that_is_silent_for_good_does_not_hide_the_next(lake):
    health(lake, 0)
    events(lake, progress(0, "broker-2/server.log"), progress(100_000, "broker-3/server.log"))
    assert told(evaluate(lake, now=at(100_010))) == [("stale_source", "firing")], "also when it is first looked at late"
    events(lake, progress(200_000, "broker-1/server.log"))
    found = evaluate(lake, now=at(200_010))
    assert sorted(a.subject for a in found) == ["broker-2/server.log", "broker-3/server.log"]
    assert len({a.alert_id for a in found}) == 2
    gone = no_counts("c", 1, state="unregistered", state_ts=at(200_005), ts=at(200_005))
    put(lake, brokers, gone)
    assert told(evaluate(lake, now=at(200_020))) == [("stale_source", "resolved")] * 2


def test_a_source_is_forgotten_with_its_cluster(lake):
    health(lake, 0)
    events(lake, progress(0))
    assert told(evaluate(lake, now=at(900))) == [("stale_source", "firing")]
    for module in (replication_events, partition_health):
        shutil.rmtree(f"{lake}/{module.TABLE.path}")
    (ended,) = evaluate(lake, now=at(901))
    assert (status(ended), ended.summary.endswith(" (the cluster was forgotten)")) == ("FORGOTTEN", True)
    assert evaluate(lake, now=at(902)) == []


def test_a_loss_is_forgotten_with_its_cluster_and_was(lake):
    """It was "found no more", as if it had never been."""
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    events(lake, progress(10))
    written_by_a_job(lake)
    assert told(evaluate(lake, now=at(10))) == [("loss", "firing")]
    for module in (hw_regressions, partition_health, replication_events):
        put(lake, module, mode="overwrite")
    (ended,) = evaluate(lake, now=at(20))
    assert (status(ended), ended.labels["end"]) == ("FORGOTTEN", "forgotten")
    put(lake, hw_regressions, fall(0))
    health(lake, 30)
    assert ("loss", "firing") not in told(evaluate(lake, now=at(30))), "a rebuild brings it back: it was told"


def test_what_lasts_is_forgotten_with_its_cluster(lake):
    """It fired for ever: its state was carried along."""
    put(lake, partition_hw, freeze(0))
    events(lake, elected(0, 1, 0, 0), elected(5, -1, 1, 1), progress(10, number=2))
    health(lake, 400)
    written_by_a_job(lake)
    evaluate(lake, now=at(400))
    put(lake, partition_health, PLACE | {"cluster": "another", "last_event_ts": at(400)}, mode="overwrite")
    for module in (partition_hw, replication_events):
        put(lake, module, mode="overwrite")
    for seconds, state in ((460, "resolved"), (520, None)):
        found = {a.rule: a.state for a in evaluate(lake, now=at(seconds))}
        assert (found.get("under_min_isr"), found.get("offline")) == (state, state)


def test_what_is_down_for_good_stays_an_alert(lake):
    """Nothing is reported of a partition that nobody leads."""
    put(lake, partition_hw, freeze(0))
    events(lake, elected(0, 1, 0, 0), elected(5, -1, 1, 1), progress(10, number=2))
    gold = PLACE | {"ar": [1, 2], "isr": [1], "offline": True, "last_event_ts": at(5)}
    put(lake, partition_health, gold)
    put(lake, brokers, no_counts("c", 1, ts=at(400)))
    assert told(evaluate(lake, now=at(30))) == [("offline", "firing"), ("under_min_isr", "firing")]
    put(lake, brokers, no_counts("c", 1, ts=at(30 * DAY)), mode="overwrite")
    found = evaluate(lake, now=at(31))
    assert told(found) == [("offline", "firing"), ("under_min_isr", "firing")]
    assert {a.first_ts for a in found} == {at(0), at(5)}


@pytest.mark.parametrize("module", [partition_hw, replica_sync])
def test_retention_ends_nothing_that_still_holds(lake, module):
    put(lake, partition_hw, *([freeze(0)] if module is partition_hw else []))
    put(lake, replica_sync, *([sync(0)] if module is replica_sync else []))
    minute(lake, 0, 30 * DAY)
    health(lake, 900)
    (before,) = evaluate(lake, now=at(900))
    put(lake, module, mode="overwrite")
    minute(lake, 29 * DAY, 30 * DAY)
    health(lake, 30 * DAY)
    assert evaluate(lake, now=at(30 * DAY)) == [before]
    put(lake, module, freeze(30 * DAY, "thaw") if module is partition_hw else sync(30 * DAY, "in_sync"))
    health(lake, 30 * DAY + 60)
    (after,) = evaluate(lake, now=at(30 * DAY + 60))
    assert (after.first_ts, after.state, after.last_ts) == (at(0), "resolved", at(30 * DAY))


def sync(seconds, state="out_of_sync"):
    return PLACE | {"ts": at(seconds), "replica_id": 3, "state": state, "reason": "silent"}


def minute(lake, first, last):
    counts = {c.name: 0 for c in cluster_minute.TABLE.columns if not c.null and c.type in ("int", "bigint")}
    put(lake, cluster_minute, *(counts | {"cluster": "c", "minute": at(s)} for s in (first, last)), mode="overwrite")


def test_a_missing_table_is_not_one_without_rows(lake):
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    written_by_a_job(lake)
    evaluate(lake, now=at(30))
    shutil.rmtree(f"{lake}/{hw_regressions.TABLE.path}")
    found = {a.rule: a for a in evaluate(lake, now=at(60))}
    assert found["loss"].state == "firing"
    assert found["loss"].summary.endswith("; not known since 2026-11-21 12:00:00 UTC: silver/hw_regressions is missing")
    assert (found["job_behind"].severity, found["job_behind"].state) == ("critical", "firing")
    assert found["job_behind"].summary == (
        "c: NOT JUDGED: silver/hw_regressions is missing: restore it, or start anew with `hwmark run --rebuild`"
    )
    written = DeltaTable(f"{lake}/{alerts.TABLE.path}").version()
    assert told(evaluate(lake, now=at(90))) == [("job_behind", "firing"), ("loss", "firing")]
    assert DeltaTable(f"{lake}/{alerts.TABLE.path}").version() == written
    put(lake, hw_regressions, fall(0))
    found = {a.rule: a for a in evaluate(lake, now=at(120))}
    assert (found["job_behind"].state, found["loss"].summary.endswith("offsets 5..8")) == ("resolved", True)


def test_a_table_that_cannot_be_read_ends_no_other_rule(lake):
    put(lake, hw_regressions, fall(0))
    put(lake, partition_hw, freeze(0))
    health(lake, 400)
    for file in DeltaTable(f"{lake}/{partition_hw.TABLE.path}").file_uris():
        shutil.move(file, f"{lake}/gone")
    assert told(evaluate(lake, now=at(400))) == [("job_behind", "firing"), ("loss", "firing")]


def test_while_silver_is_made_anew_nothing_is_withdrawn(lake):
    put(lake, hw_regressions, fall(0))
    put(lake, partition_hw, freeze(0))
    events(lake, progress(400))
    health(lake, 400)
    written_by_a_job(lake)
    before = told(evaluate(lake, now=at(420)))
    assert before == [("loss", "firing"), ("under_min_isr", "firing")]
    rebuild = {"query_id": "q", "to": 5}
    Lake(lake).write_durably("_run/rebuild.json", json.dumps(rebuild).encode())
    for module in (hw_regressions, partition_hw):
        put(lake, module, mode="overwrite")
    found = [a for a in evaluate(lake, now=at(450)) if a.rule != "job_behind"]
    assert told(found) == before
    assert all("; not known since " in a.summary for a in found)


@pytest.mark.parametrize("at_once", [False, True], ids=["goes on", "begins while the tables are read"])
def test_while_one_cluster_is_made_anew_nothing_is_withdrawn(lake, monkeypatch, at_once):
    """`run --rebuild --cluster c` takes its rows, too, and no mark said so: a gap was over and fired anew."""
    put(lake, telemetry_gaps, GAP)
    health(lake, 400)
    written_by_a_job(lake)
    before = told(evaluate(lake, now=at(420)))
    assert before == [("gap", "firing")]

    def take_out():
        write_record(Lake(lake), RECORD, Removal("c", again=True))
        for module in (telemetry_gaps, partition_health):
            put(lake, module, mode="overwrite")

    if at_once:
        read = reading._sources
        monkeypatch.setattr(reading, "_sources", lambda *given: (take_out(), monkeypatch.undo(), read(*given))[-1])
    else:
        take_out()
    assert told(evaluate(lake, now=at(430))) == before
    Lake(lake).files().delete_file(RECORD)
    put(lake, telemetry_gaps, GAP)
    health(lake, 440)
    assert told(evaluate(lake, now=at(440))) == before
    assert {row[:2] for row in stored(lake)} == {("gap", "firing")}


def test_a_loss_ends_once_though_its_table_was_missing_when_its_time_was_over(lake):
    """Its end was told twice: as its words changed when the table was back."""
    written_by_a_job(lake)
    put(lake, hw_regressions, fall(0))
    health(lake, 100)
    assert told(evaluate(lake, now=at(100))) == [("loss", "firing")]
    os.rename(f"{lake}/{hw_regressions.TABLE.path}", f"{lake}/away")
    (loss,) = (a for a in evaluate(lake, now=at(2 * DAY)) if a.rule == "loss")
    assert (loss.state, "not known since" in loss.summary) == ("firing", True)
    os.rename(f"{lake}/away", f"{lake}/{hw_regressions.TABLE.path}")
    for seconds in (3 * DAY, 4 * DAY):
        evaluate(lake, now=at(seconds))
    assert [row[1] for row in stored(lake) if row[0] == "loss"].count("resolved") == 1


def test_while_one_cluster_is_made_anew_what_others_lost_is_told(lake):
    written_by_a_job(lake)
    health(lake, 100)
    put(lake, hw_regressions, fall(0))
    assert told(evaluate(lake, now=at(100))) == [("loss", "firing")]
    write_record(Lake(lake), RECORD, Removal("c", again=True))
    lost = {"cluster": "other", "ts": at(150), "regression_id": "of another"}
    put(lake, hw_regressions, fall(0) | lost, fall(1))
    put(lake, partition_health, PLACE | {"cluster": "other", "ar": [1, 2], "isr": [1], "last_event_ts": at(200)})
    found = [a for a in evaluate(lake, now=at(200)) if a.rule == "loss"]
    assert {(a.labels["cluster"], "not known since" in a.summary) for a in found} == {("c", True), ("other", False)}
    assert [row[:2] for row in stored(lake) if row[0] == "loss"].count(("loss", "firing")) >= 2


def test_what_is_untold_of_one_cluster_is_told_though_another_was_forgotten(lake):
    """The record of the last evaluation went with the cluster: for all others the next one was the first."""
    put(lake, partition_hw)
    health(lake, 100)
    assert evaluate(lake, now=at(100)) == []
    put(lake, partition_hw, freeze(200), freeze(5000, "thaw"))
    health(lake, 6000)
    assert list(_remove_records(Lake(lake), "old", ()))
    assert told(evaluate(lake, now=at(6000))) == [("under_min_isr", "resolved")]
    assert [row[:2] for row in stored(lake)] == [("under_min_isr", "firing"), ("under_min_isr", "resolved")]


def test_a_table_that_is_another_one_now_is_read_whole_and_tells_nothing_twice(lake):
    rows = [(hw_regressions, fall(0)), (partition_hw, freeze(0))]
    for module, row in rows:
        put(lake, module, row)
    health(lake, 400)
    assert told(evaluate(lake, now=at(400))) == [("loss", "firing"), ("under_min_isr", "firing")]
    for module, row in rows:
        before = DeltaTable(f"{lake}/{module.TABLE.path}").metadata().id
        shutil.rmtree(f"{lake}/{module.TABLE.path}")
        put(lake, module, row)
        assert DeltaTable(f"{lake}/{module.TABLE.path}").metadata().id != before
    written = stored(lake)
    assert told(evaluate(lake, now=at(410))) == [("loss", "firing"), ("under_min_isr", "firing")]
    assert stored(lake) == written
    put(lake, partition_hw, freeze(5) | {"partition": 1})
    (under,) = (a for a in evaluate(lake, now=at(420)) if a.rule == "under_min_isr")
    assert under.labels["partitions"] == "orders-0, orders-1"


def test_a_source_whose_name_has_a_comma_is_handled_by_its_name(lake):
    from schemas import notes

    name = "host/var/log/kafka, old/server.log"
    health(lake, 0)
    events(lake, progress(0, name))
    (silent,) = evaluate(lake, now=at(900))
    assert silent.names == {name}
    note = {"cluster": "c", "handled": True, "text": "moved", "written_at": at(950), "incident_id": silent.alert_id}
    put(lake, notes, note)
    assert told(evaluate(lake, now=at(960))) == [("stale_source", "resolved")]
    from pipelines.alerting.lookup import read_states
    from pipelines.alerting.outbox import handled_sources

    assert set(handled_sources(read_states(Lake(lake)))) == {("c", name)}


def test_of_an_older_copy_of_ops_that_was_restored_all_that_it_lacks_is_told_again(lake, tmp_path):
    """Its tables keep their ids. A double costs a glance."""
    put(lake, partition_hw)
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    assert told(evaluate(lake, now=at(10))) == [("loss", "firing")]
    shutil.copytree(f"{lake}/ops", tmp_path / "ops")
    put(lake, hw_regressions, fall(500, 1))
    put(lake, partition_hw, freeze(1000), freeze(5000, "thaw"))
    health(lake, 6000)
    evaluate(lake, now=at(6000))
    before, up_to = stored(lake), Told(max(one.written_at for one in read_states(Lake(lake))))
    shutil.rmtree(f"{lake}/ops")
    shutil.copytree(tmp_path / "ops", f"{lake}/ops")
    evaluate(lake, now=at(5500))  # by a clock that is behind
    assert stored(lake) == before
    assert told(untold(read_states(Lake(lake)), up_to).fired) == [("loss", "firing"), ("under_min_isr", "resolved")]


def test_a_loss_that_was_told_weeks_ago_is_not_told_again(lake):
    """A rebuild writes it anew, in batches or in one."""
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    evaluate(lake, now=at(10))
    assert told(evaluate(lake, now=at(DAY + 10))) == [("loss", "resolved")]
    put(lake, hw_regressions, mode="overwrite")
    health(lake, 5)
    assert evaluate(lake, now=at(20 * DAY)) == []
    put(lake, hw_regressions, fall(0))
    health(lake, 20 * DAY)
    assert evaluate(lake, now=at(20 * DAY + 60)) == []


def test_a_loss_that_grows_fires_anew_though_it_was_told_long_ago(lake):
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    evaluate(lake, now=at(10))
    assert told(evaluate(lake, now=at(2 * DAY))) == [("loss", "resolved")]
    put(lake, hw_regressions, *(fall(1, n, lost_records=100_000) for n in range(1, 60)))
    (alert,) = evaluate(lake, now=at(2 * DAY + 60))
    assert (alert.state, alert.labels["count"], alert.labels["offsets"]) == ("firing", "60", "5900004")
    assert told(evaluate(lake, now=at(3 * DAY + 59))) == [("loss", "firing")]
    assert told(evaluate(lake, now=at(3 * DAY + 60))) == [("loss", "resolved")]


def test_a_fall_between_two_incidents_that_were_told_joins_the_first(lake):
    put(lake, hw_regressions, fall(0), fall(100, 1))
    health(lake, 200)
    first = {a.subject: a.labels["count"] for a in evaluate(lake, now=at(200))}
    assert list(first.values()) == ["1", "1"]
    put(lake, hw_regressions, fall(50, 2))
    found = evaluate(lake, now=at(230))
    assert {a.subject: a.labels["count"] for a in found} == dict(zip(first, ("2", "1"), strict=True))
    assert {a.state for a in found} == {"firing"}


def test_what_began_and_ended_between_two_evaluations_has_both_rows_however_long_ago(lake):
    health(lake, 0)
    put(lake, partition_hw)
    evaluate(lake, now=at(0))
    put(lake, partition_hw, freeze(100), freeze(800, "thaw"))
    health(lake, 30 * DAY)
    assert told(evaluate(lake, now=at(30 * DAY))) == [("under_min_isr", "resolved")]
    assert stored(lake) == [("under_min_isr", "firing", at(100)), ("under_min_isr", "resolved", at(800))]


def test_nothing_fires_before_it_is_final(lake):
    """The thaw may still come with a time before the present, for as long as the grace."""
    put(lake, partition_hw, freeze(0))
    health(lake, 305)
    put(lake, brokers, no_counts("c", 1, ts=at(305)))
    written_by_a_job(lake)
    assert evaluate(lake, now=at(305)) == []
    put(lake, brokers, no_counts("c", 1, ts=at(310)), mode="overwrite")
    assert told(evaluate(lake, now=at(311))) == [("under_min_isr", "firing")]


def test_two_evaluations_at_one_moment_are_one(lake):
    put(lake, partition_hw, freeze(0))
    put(lake, hw_regressions, fall(-8 * DAY))
    events(lake, progress(0), elected(-8 * DAY, -1, 1, 1))
    health(lake, 8 * DAY)
    first = evaluate(lake, now=at(8 * DAY))
    version = DeltaTable(f"{lake}/{alerts.TABLE.path}").version()
    assert evaluate(lake, now=at(8 * DAY)) == first
    assert DeltaTable(f"{lake}/{alerts.TABLE.path}").version() == version


def test_an_alert_goes_on_naming_who_led_last_where_nobody_is_in_sync(lake):
    events(lake, elected(0, 1, 0, 0), elected(5, -1, 1, 1), progress(400, number=2))
    gone = PLACE | {"ar": [1, 2], "isr": [], "offline": True}
    put(lake, partition_health, gone | {"last_event_ts": at(400)})
    (first,) = evaluate(lake, now=at(400))
    assert first.subject == "broker 1"
    assert evaluate(lake, now=at(400)) == [first]
    put(lake, partition_health, gone | {"last_event_ts": at(DAY)}, mode="overwrite")
    events(lake, progress(DAY, number=3))
    for _ in range(2):
        (later,) = evaluate(lake, now=at(DAY))
        assert later.says_the_same(first), "its elections are a day old"


@pytest.mark.parametrize("cut", ["append", "write_durably"])
def test_an_evaluation_that_was_cut_off_is_told_once_by_the_next(lake, cut, monkeypatch):
    """Before `ops/alerts` has its rows, and before the step that they are of is recorded."""
    health(lake, 0)
    put(lake, partition_hw)
    evaluate(lake, now=at(0))
    put(lake, hw_regressions, fall(5))
    put(lake, partition_hw, freeze(0), freeze(700, "thaw"))
    health(lake, 800)
    with monkeypatch.context() as patched:

        def die(*_given):
            raise KeyboardInterrupt

        patched.setattr(Lake, cut, die)
        with pytest.raises(KeyboardInterrupt):
            evaluate(lake, now=at(800))
    once = [("loss", "firing", at(5)), ("under_min_isr", "firing", at(0)), ("under_min_isr", "resolved", at(700))]
    assert cut == "append" or stored(lake) == once
    assert ("loss", "firing") in told(evaluate(lake, now=at(900)))
    assert stored(lake) == once


def test_a_record_that_is_gone_or_damaged_has_everything_read_anew(lake):
    put(lake, hw_regressions, fall(0))
    put(lake, partition_hw, freeze(0))
    health(lake, 400)
    first = evaluate(lake, now=at(400))
    for damage in (lambda path: path.unlink(), lambda path: path.write_text("{")):
        damage(__import__("pathlib").Path(lake) / "_alerts/step.json")
        assert evaluate(lake, now=at(460)) == first


def test_a_person_ends_what_no_telemetry_does(lake):
    from schemas import notes

    put(lake, hw_regressions, fall(0))
    put(lake, partition_hw, freeze(0))
    health(lake, 400)
    before = {a.rule: a for a in evaluate(lake, now=at(400))}
    note = {"cluster": "c", "handled": True, "text": "topic deleted", "written_at": at(450)}
    put(lake, notes, note | {"incident_id": before["under_min_isr"].alert_id})
    after = {a.rule: a for a in evaluate(lake, now=at(460))}
    assert {rule: a.state for rule, a in after.items()} == {"loss": "firing", "under_min_isr": "resolved"}
    assert after["under_min_isr"].labels["end"] == "handled"
    assert after["under_min_isr"].summary.endswith("; handled: topic deleted")
    assert told(evaluate(lake, now=at(470))) == [("loss", "firing")]
    put(lake, notes, note | {"written_at": at(480)})
    assert told(evaluate(lake, now=at(490))) == [("loss", "resolved")]
    put(lake, hw_regressions, fall(5, 1))
    assert told(evaluate(lake, now=at(500))) == [("loss", "firing")], "more than was handled"


def test_what_is_said_of_a_whole_cluster_ends_losses_and_silent_sources_and_no_state_that_holds(lake):
    """`note --handled "sent again by the producers"` ended an outage that went on."""
    from schemas import notes

    put(lake, hw_regressions, fall(0))
    put(lake, partition_hw, freeze(0))
    events(lake, progress(0))
    health(lake, 400)
    assert len(evaluate(lake, now=at(400))) == 3
    put(lake, notes, {"cluster": "c", "handled": True, "text": "sent again", "written_at": at(450)})
    ends = [("loss", "resolved"), ("stale_source", "resolved"), ("under_min_isr", "firing")]
    assert told(evaluate(lake, now=at(460))) == ends


def test_a_revised_loss_is_withdrawn_and_told_anew_where_it_comes_back(lake):
    put(lake, hw_regressions, fall(0))
    health(lake, 10)
    evaluate(lake, now=at(10))
    put(lake, hw_regressions, fall(0, severity="info", revision=2, **{"class": "stale_leader_hw"}))
    (alert,) = evaluate(lake, now=at(20))
    assert (alert.state, alert.labels["end"]) == ("resolved", "withdrawn")
    put(lake, hw_regressions, fall(0, revision=3))
    assert told(evaluate(lake, now=at(30))) == [("loss", "firing")]


def test_a_rule_first_evaluated_over_history_sends_nothing_of_what_was_over(lake):
    from pipelines.alerting.state import from_arrow
    from pipelines.notify.episodes import episodes

    put(lake, partition_hw, freeze(0), freeze(400, "thaw"), freeze(1000))
    health(lake, 2000)
    evaluate(lake, now=at(2000) + timedelta(days=1))
    found = episodes(from_arrow(Lake(lake).read(alerts.TABLE, alerts.ARROW)), at(2 * DAY))
    assert [(e.first.first_ts, e.firing) for e in found] == [(at(1000), True)]
