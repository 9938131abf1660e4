"""What could not be read, or is read no more, is not known: it ends nothing, hides nothing and begins nothing anew."""

import json
import shutil
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipelines.alerting.evaluate import evaluate
from pipelines.lake.kept_rows import KeptRows
from pipelines.lake.lake import Lake
from schemas import (
    alerts,
    brokers,
    cluster_minute,
    deliveries,
    hw_regressions,
    notes,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
)
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import LOSS, freeze, health, no_counts, progress, put, stored
from tests.unit.alerting.test_told_once import DAY, events, fall, minute, sync, told, written_by_a_job
from tests.unit.project.lakes import committed_at

pytestmark = pytest.mark.long


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


class Unreadable:
    """A table whose files are away until it is `restored`."""

    def __init__(self, lake, module):
        self.files = DeltaTable(f"{lake}/{module.TABLE.path}").file_uris()
        for file in self.files:
            shutil.move(file, f"{file}.away")

    def restored(self):
        for file in self.files:
            shutil.move(f"{file}.away", file)


def test_a_loss_that_was_withdrawn_fires_again_however_long_after_it_was_told(lake):
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    evaluate(lake, now=at(10))
    put(lake, hw_regressions, fall(0) | {"regression_id": "r", "revision": 2, "severity": "info", "class": "x"})
    assert told(evaluate(lake, now=at(20))) == [("loss", "resolved")]
    put(lake, hw_regressions, LOSS | {"revision": 3})
    assert told(evaluate(lake, now=at(2 * DAY))) == [("loss", "firing")]
    assert told(evaluate(lake, now=at(3 * DAY - 1))) == [("loss", "firing")], "from then on as long as any"
    assert told(evaluate(lake, now=at(3 * DAY))) == [("loss", "resolved")]


def test_a_loss_that_fired_when_its_rule_was_switched_off_ends_as_any(lake, tmp_path):
    off = tmp_path / "off.toml"
    off.write_text("[loss]\nenabled = false\n")
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    evaluate(lake, now=at(10))
    assert told(evaluate(lake, rules_file=off, now=at(20))) == [("loss", "firing")]
    assert told(evaluate(lake, now=at(10 + DAY))) == [("loss", "resolved")]


def test_what_began_and_ended_while_its_table_could_not_be_read_is_told(lake):
    put(lake, partition_hw)
    health(lake, 0)
    evaluate(lake, now=at(0))
    put(lake, partition_hw, freeze(100), freeze(800, "thaw"))
    away = Unreadable(lake, partition_hw)
    health(lake, 10 * DAY)
    assert told(evaluate(lake, now=at(10 * DAY))) == [("job_behind", "firing")]
    away.restored()
    assert ("under_min_isr", "resolved") in told(evaluate(lake, now=at(10 * DAY + 60)))
    assert ("under_min_isr", "firing", at(100)) in stored(lake)


def test_what_began_and_ended_before_the_present_is_told_if_its_telemetry_came_late(lake):
    put(lake, partition_hw)
    health(lake, 3600)
    evaluate(lake, now=at(3600))
    put(lake, partition_hw, freeze(100), freeze(800, "thaw"))
    assert told(evaluate(lake, now=at(3660))) == [("under_min_isr", "resolved")]
    assert ("under_min_isr", "firing", at(100)) in stored(lake)


def test_what_a_changed_setting_finds_of_the_past_is_sent_to_nobody(lake, tmp_path):
    rules = tmp_path / "alerts.toml"
    rules.write_text("[under_min_isr]\nfor_s = 60\n")
    put(lake, partition_hw, freeze(100), freeze(200, "thaw"))
    health(lake, 3600)
    assert evaluate(lake, now=at(3600)) == []
    assert told(evaluate(lake, rules_file=rules, now=at(3660))) == [("under_min_isr", "resolved")]
    assert stored(lake) == [("under_min_isr", "resolved", at(200))]


def test_an_open_state_goes_on_while_retention_has_not_come_to_the_minutes(lake):
    put(lake, partition_hw, freeze(0))
    minute(lake, 0, 900)
    health(lake, 900)
    (before,) = evaluate(lake, now=at(900))
    put(lake, partition_hw, mode="overwrite")
    health(lake, 2 * DAY)
    (after,) = evaluate(lake, now=at(2 * DAY))
    assert after.says_the_same(before)


def test_an_open_state_that_silver_made_anew_does_not_have_is_withdrawn(lake):
    put(lake, partition_hw, freeze(100))
    minute(lake, 0, DAY)
    health(lake, 900)
    written_by_a_job(lake)
    assert told(evaluate(lake, now=at(900))) == [("under_min_isr", "firing")]
    put(lake, partition_hw, mode="overwrite")
    Lake(lake).write_durably("_run/query.json", json.dumps({"query_id": "another", "rules": {}}).encode())
    assert told(evaluate(lake, now=at(960))) == [("under_min_isr", "resolved")]


@pytest.mark.parametrize("module", [partition_health, brokers, cluster_minute])
def test_gold_that_cannot_be_read_ends_no_alert(lake, module):
    put(lake, hw_regressions, LOSS)
    put(lake, replica_sync, sync(0))
    put(lake, brokers, no_counts("c", 1, ts=at(700)))
    minute(lake, 0, 660)
    health(lake, 700)
    assert told(evaluate(lake, now=at(700))) == [("loss", "firing"), ("out_of_sync", "firing")]
    Unreadable(lake, module)
    put(lake, hw_regressions, fall(100, 1))
    found = evaluate(lake, now=at(760))
    assert told(found) == [("job_behind", "firing"), ("loss", "firing"), ("loss", "firing"), ("out_of_sync", "firing")]
    assert f"{module.TABLE.path} cannot be read" in next(a.summary for a in found if a.rule == "job_behind")


def test_all_of_gold_gone_ends_nothing_and_begins_nothing_anew(lake):
    put(lake, hw_regressions, LOSS)
    put(lake, replica_sync, sync(0))
    put(lake, partition_hw, freeze(0))
    put(lake, brokers, no_counts("c", 1, ts=at(710)))
    health(lake, 710)
    written_by_a_job(lake)
    before = {a.episode for a in evaluate(lake, now=at(710))}
    shutil.rmtree(f"{lake}/gold")
    found = evaluate(lake, now=at(770))
    assert {a.rule for a in found} == {"loss", "out_of_sync", "under_min_isr", "job_behind"}
    assert {a.episode for a in found if a.firing} >= before
    health(lake, 800)
    minute(lake, 0, 780)
    put(lake, brokers, no_counts("c", 1, ts=at(810)))
    after = evaluate(lake, now=at(830))
    assert {a.episode for a in after if a.firing} == before


def test_bronze_that_cannot_be_read_ends_no_alert(lake):
    put(lake, hw_regressions, LOSS)
    events(lake, progress(0))
    health(lake, 10)
    assert told(evaluate(lake, now=at(900))) == [("loss", "firing"), ("stale_source", "firing")]
    Path(f"{lake}/{replication_events.TABLE.path}/_delta_log/00000000000000000000.json").write_text("{")
    found = told(evaluate(lake, now=at(960)))
    assert found == [("job_behind", "firing"), ("loss", "firing"), ("stale_source", "firing")]


def test_what_a_person_has_dealt_with_stays_so_while_notes_cannot_be_read(lake):
    put(lake, partition_hw, freeze(0))
    health(lake, 400)
    (alert,) = evaluate(lake, now=at(400))
    put(
        lake,
        notes,
        {"cluster": "c", "incident_id": alert.alert_id, "handled": True, "text": "deleted", "written_at": at(401)},
    )
    assert told(evaluate(lake, now=at(402))) == [("under_min_isr", "resolved")]
    Unreadable(lake, notes)
    assert told(evaluate(lake, now=at(403))) == [("job_behind", "firing")]


def test_a_controlled_restart_stays_one_when_bronze_is_read_no_more(lake):
    put(lake, replica_sync, sync(10), sync(800, "in_sync"))
    states = ((0, "controlled_shutdown", 1), (750, "started", 2))
    for number, (seconds, detail, epoch) in enumerate(states):
        state = {"event_type": "broker_state", "replica_id": 3, "detail": detail, "broker_epoch": epoch}
        events(lake, progress(seconds, number=number) | state)
    health(lake, 900)
    assert told(evaluate(lake, now=at(900))) == []
    for hours in (5, 10, 15):
        health(lake, hours * 3600)
        events(lake, progress(hours * 3600, number=9 + hours))
        assert told(evaluate(lake, now=at(hours * 3600))) == []


def test_a_source_that_reported_and_fell_silent_again_is_told_again(lake):
    health(lake, 0)
    events(lake, progress(0))
    evaluate(lake, now=at(900))
    events(lake, progress(5000, number=1))
    found = evaluate(lake, now=at(6000))
    assert [(a.first_ts, a.state) for a in found] == [(at(5000), "firing"), (at(0), "resolved")]


def test_a_source_whose_clock_once_said_2036_is_silent_when_nothing_comes_of_it(lake):
    health(lake, 0)
    events(lake, progress(10 * 365 * DAY), progress(0, "broker-2/server.log"))
    evaluate(lake, now=at(10))
    events(lake, progress(60, "broker-2/server.log", number=1))
    (alert,) = evaluate(lake, now=at(320))
    assert (alert.rule, alert.subject, alert.first_ts) == ("stale_source", "broker-1/replication.log", at(10))


def test_a_channel_that_is_tried_seldom_still_fails_between_two_attempts(lake):
    attempts = (0, 3600, 3 * 3600, 7 * 3600)
    rows = [
        {"channel": "mail", "outcome": "failed", "attempt": n, "sent_at": at(seconds), "error": "HTTP 500"}
        for n, seconds in enumerate(attempts)
    ]
    put(lake, deliveries, *rows)
    assert told(evaluate(lake, now=at(10 * 3600))) == [("notify_failing", "firing")]
    assert told(evaluate(lake, now=at(20 * 3600))) == [("notify_failing", "resolved")], "tried no more"


def test_a_notifier_sends_what_fires_though_gold_cannot_be_read(lake):
    from pipelines.notify.look import look
    from pipelines.verdict import Limits

    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    Unreadable(lake, partition_health)
    seen = look(Lake(lake), Limits(), "", 0, at(20))
    assert [(e.last.rule, e.firing) for e in seen.episodes] == [("loss", True)]
    assert seen.wrong[0].startswith("the lake cannot be read: ")


def test_what_began_long_before_the_last_evaluation_and_lasts_is_told_when_its_telemetry_comes(lake):
    put(lake, partition_hw, freeze(30 * DAY, "thaw"))
    health(lake, 30 * DAY)
    assert evaluate(lake, now=at(30 * DAY)) == []
    put(lake, partition_hw, freeze(0) | {"partition": 1})
    (alert,) = evaluate(lake, now=at(30 * DAY))
    assert (alert.rule, alert.first_ts, alert.labels["partitions"]) == ("under_min_isr", at(0), "orders-1")


@pytest.mark.parametrize(("first", "second"), [(0, -3600), (10 * 365 * DAY, 60)], ids=["behind", "once ahead"])
def test_the_clock_of_who_writes_a_table_hides_nothing_that_comes_late(lake, first, second):
    now = at(30 * DAY)
    put(lake, partition_hw, freeze(30 * DAY, "thaw"))
    committed_at(lake, 0, now + timedelta(seconds=first), partition_hw.TABLE.path)
    health(lake, 30 * DAY)
    assert evaluate(lake, now=now) == []
    put(lake, partition_hw, freeze(0) | {"partition": 1})
    committed_at(lake, 1, now + timedelta(seconds=second), partition_hw.TABLE.path)
    assert told(evaluate(lake, now=now)) == [("under_min_isr", "firing")]


def test_a_table_that_cannot_be_read_stays_handled_until_it_can_be(lake):
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    evaluate(lake, now=at(10))
    regressions = Unreadable(lake, hw_regressions)
    behind = next(a for a in evaluate(lake, now=at(20)) if a.rule == "job_behind")
    about = {"incident_id": behind.alert_id, "handled": True, "text": "restored tonight"}
    put(lake, notes, {"cluster": "c", "written_at": at(21)} | about)
    assert ("job_behind", "resolved") in told(evaluate(lake, now=at(22)))
    assert told(evaluate(lake, now=at(30))) == [("loss", "firing")]
    regressions.restored()
    evaluate(lake, now=at(40))
    Unreadable(lake, hw_regressions)
    assert ("job_behind", "firing") in told(evaluate(lake, now=at(50)))


def test_a_table_that_may_not_be_opened_silences_no_alert(lake, monkeypatch):
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    written_by_a_job(lake)
    there = Lake.has_table

    def refused(self, table):
        if table is replica_sync.TABLE:
            raise PermissionError(13, "Permission denied")
        return there(self, table)

    monkeypatch.setattr(Lake, "has_table", refused)
    found = evaluate(lake, now=at(20))
    assert {("loss", "firing"), ("job_behind", "firing")} <= set(told(found))
    assert "silver/replica_sync cannot be read" in " ".join(a.summary for a in found if a.rule == "job_behind")


def test_what_fires_is_known_without_what_was_told(lake):
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    evaluate(lake, now=at(10))
    Unreadable(lake, alerts)
    assert told(evaluate(lake, now=at(20), write=False)) == [("loss", "firing")]


@pytest.mark.parametrize(
    "restored", [["silver", "gold"], ["silver", "gold", "_alerts"]], ids=["tables", "with the step"]
)
def test_what_a_restored_silver_does_not_have_yet_is_not_withdrawn(lake, restored):
    put(lake, hw_regressions)
    health(lake, 0)
    written_by_a_job(lake)
    evaluate(lake, now=at(10))
    shutil.copytree(lake, f"{lake}-backup")
    for _ in ("told", "read again from bronze"):
        put(lake, hw_regressions, fall(100))
        health(lake, 600)
        assert told(evaluate(lake, now=at(610))) == [("loss", "firing")]
        for folder in restored:
            shutil.rmtree(f"{lake}/{folder}")
            shutil.copytree(f"{lake}-backup/{folder}", f"{lake}/{folder}")
        for seconds in (620, 680):
            (alert,) = evaluate(lake, now=at(seconds))
            assert alert.firing
            assert alert.summary.endswith(": silver is of 2026-11-21 11:59:50 UTC, as after a restore")
    assert {state for _, state, _ in stored(lake)} == {"firing"}


def test_a_table_that_cannot_be_read_is_told_once_though_the_error_is_another_each_time(lake, monkeypatch):
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    numbers, read = count(), KeptRows.read

    def fails(self, *given):
        if self.table is hw_regressions.TABLE:
            raise OSError(f"request {next(numbers)} failed")
        return read(self, *given)

    monkeypatch.setattr(KeptRows, "read", fails)
    for seconds in (20, 30, 40):
        evaluate(lake, now=at(seconds))
    assert [one for one in stored(lake) if one[0] == "job_behind"] == [("job_behind", "firing", at(20))]
