"""The exporter: what it reads and when, counters that grow, bounded cardinality, lakes that cannot be read."""

import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipelines.alerting.evaluate import evaluate
from tests.unit.metrics.scrape import exporter, minute, only, samples, text, troubled
from tests.unit.project.lakes import at, health, reported, sound, write


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def readings(found):
    return found["lake_readings_total", ()]


def test_it_reads_again_only_where_a_table_has_gone_on(lake):
    sound(lake, health("orders", 0))
    one = exporter(lake)
    assert [readings(samples(one)) for _ in range(3)] == [1, 1, 1]
    write(lake, "partition_health", health("orders", 1))
    assert readings(samples(one)) == 2
    assert only(samples(one), "partitions", "condition")["in_sync",] == 2


def test_it_reads_again_where_a_source_falls_silent_as_time_passes(lake):
    sound(lake, health("orders", 0))
    one = exporter(lake)
    assert only(samples(one), "partitions", "condition")["in_sync",] == 1
    one.now = lambda: at(60 + 301)
    found = samples(one)
    assert (readings(found), only(found, "partitions", "condition")["unknown",]) == (2, 1)
    assert readings(samples(one)) == 2


def test_a_table_that_was_made_anew_is_read_anew(lake):
    sound(lake, health("orders", 0), health("orders", 1))
    one = exporter(lake)
    samples(one)
    shutil.rmtree(f"{lake}/gold/partition_health")
    write(lake, "partition_health", health("orders", 7))
    assert only(samples(one), "partitions", "condition")["in_sync",] == 1


def test_counters_grow_while_retention_takes_old_minutes(lake):
    def events(one):
        found = samples(one)
        return found["telemetry_events_total", (("cluster", "prod"),)], only(found, "isr_shrinks_total", "cause")

    sound(lake, health("orders", 0, last_event_ts=at(120 * 60)))
    write(lake, "minute_stats", minute(65, events=5, shrink__lag=2), minute(120, events=1))
    one = exporter(lake)
    assert events(one) == (6, {("lag",): 2})
    write(lake, "minute_stats", minute(120, batch=1, events=10), minute(130, batch=1, events=100))
    assert events(one) == (116, {("lag",): 2})
    DeltaTable(f"{lake}/silver/minute_stats").delete("minute < '2026-09-01T13:10:00Z'")
    assert events(one) == (116, {("lag",): 2})
    write(lake, "minute_stats", minute(130, batch=2, events=1000, shrink__lag=1))
    assert events(one) == (1116, {("lag",): 3})


def test_the_histogram_has_a_bucket_for_each_doubling(lake):
    sound(lake, health("orders", 0))
    write(lake, "minute_stats", minute(1, appended=8))
    buckets = only(samples(exporter(lake)), "append_to_hw_seconds_bucket", "le")
    assert len(buckets) == 21
    assert (buckets["0.002",], buckets["0.004",], buckets["+Inf",]) == (0, 8, 8)


def test_the_series_do_not_grow_with_the_partitions(lake):
    trouble = {"leader_leo": 140, "holding_replicas": [3], "lag_records": 40}
    sound(lake, *(health("orders", n, stalled_ms=20_000 + n, **trouble) for n in range(30)))
    few = samples(exporter(lake, worst=5))
    write(lake, "partition_health", *(health("audit", n, stalled_ms=90_000, **trouble) for n in range(2_000)))
    many = samples(exporter(lake, worst=5))
    assert len(few) == len(many)
    assert len(only(many, "worst_partition_info", "topic", "partition")) == 5
    assert only(samples(exporter(lake, worst=0)), "worst_partition_info", "topic") == {}


def test_the_worst_partitions_have_their_names_and_no_values_that_are_not_known(lake):
    sound(lake, health("a", 0, offline=True, leader_id=-1, stalled_ms=None, lag_records=None), health("b", 1))
    write(lake, "partition_health", health("c", 2, stalled_ms=14_000, lag_records=40, holding_replicas=[3]))
    found = samples(exporter(lake))
    labels = "topic", "partition", "condition"
    assert only(found, "worst_partition_info", *labels).keys() == {("a", "0", "offline"), ("c", "2", "held_back")}
    assert only(found, "worst_partition_stalled_seconds", *labels) == {("c", "2", "held_back"): 14}
    assert only(found, "worst_partition_lag_records", *labels) == {("c", "2", "held_back"): 40}


def test_alerts_are_unknown_until_somebody_has_checked(lake):
    sound(lake, health("orders", 0))
    assert only(samples(exporter(lake)), "alerts_firing", "rule") == {}
    assert ("check_timestamp_seconds", ()) not in samples(exporter(lake))
    alert = {"rule": "loss", "severity": "critical", "alert_id": "a", "labels": [("cluster", "prod")]}
    write(lake, "alerts", {**alert, "state": "firing", "last_ts": at(1)})
    write(lake, "alerts", {**alert, "alert_id": "b", "state": "firing", "last_ts": at(1)})
    write(lake, "alerts", {**alert, "alert_id": "b", "state": "resolved", "last_ts": at(2)})
    write(lake, "quality_results", {"run_ts": at(50), "success": False, "suite": "silver", "expectation": "no_gaps"})
    found = samples(exporter(lake))
    assert only(found, "alerts_firing", "rule", "severity") == {
        ("loss", "critical"): 1, ("offline", "critical"): 0, ("gap", "warning"): 0,
    }  # fmt: skip
    assert found["check_timestamp_seconds", ()] == at(50).timestamp()
    assert only(found, "expectation_met", "expectation") == {("no_gaps",): 0}


def test_it_is_told_when_alert_rules_were_last_evaluated_by_whatever_command(lake):
    sound(lake, health("orders", 0))
    name = ("alerts_evaluated_timestamp_seconds", ())
    assert name not in samples(exporter(lake))
    scraped = exporter(lake)
    for _ in range(2):  # the second one finds nothing new, and writes no table
        evaluate(lake)
        step = Path(lake) / "_alerts/step.json"
        assert samples(scraped)[name] == pytest.approx(step.stat().st_mtime, abs=1e-3)
        os.utime(step, (1_000, 1_000))
        assert samples(scraped)[name] == 1_000


def test_an_expectation_counts_as_when_it_last_judged_something(lake):
    sound(lake, health("orders", 0))
    result = {"suite": "silver", "expectation": "no_gaps", "table": "silver/telemetry_gaps", "version_to": 3}
    write(lake, "quality_results", {**result, "run_ts": at(1), "success": False, "version_from": 1})
    write(lake, "quality_results", {**result, "run_ts": at(2), "success": True})  # nothing new
    assert only(samples(exporter(lake)), "expectation_met", "expectation") == {("no_gaps",): 0}


def test_brokers_and_their_lag(lake):
    sound(lake, health("orders", 0))
    write(lake, "brokers", {"broker_id": 2, "rack": "a", "led": 3, "followed": 4, "sole_isr": 1})
    write(lake, "broker_lag", {"broker_id": 2, "lag_records": 9, "ts": at(50)})
    write(lake, "broker_lag", {"broker_id": 2, "lag_records": 40, "lag_ms": 1500, "ts": at(60), "behind": 2})
    write(lake, "broker_minute", {"broker_id": 2, "minute": at(0), "append_to_hw_p99_ms": 8.0, "max_lag_records": 64})
    write(lake, "broker_minute", {"broker_id": 2, "minute": at(60), "append_to_hw_p99_ms": 4.0})
    found = samples(exporter(lake))
    assert only(found, "broker_info", "broker", "rack", "state") == {("2", "a", "unknown"): 1}
    assert only(found, "broker_replicas", "role") == {("leader",): 3, ("follower",): 4}
    assert only(found, "broker_lag_records", "broker") == {("2",): 40}
    assert only(found, "broker_lag_seconds", "broker") == {("2",): 1.5}
    assert only(found, "broker_append_to_hw_seconds", "quantile") == {("0.99",): 0.008}
    assert only(found, "broker_fetch_lag_records", "quantile") == {("1",): 64}


def hurt_commit(lake):
    (log,) = Path(lake).glob("gold/partition_health/_delta_log/*0.json")
    log.write_text(log.read_text()[:40])


def hurt_file(lake):
    for file in Path(lake).glob("gold/partition_health/*.parquet"):
        file.write_bytes(file.read_bytes()[:30])


@pytest.mark.parametrize("hurt", [hurt_commit, hurt_file], ids=lambda hurt: hurt.__name__)
def test_of_a_half_written_lake_nothing_is_said(lake, hurt, monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("hwmark"), "handlers", [])  # those of commands that other tests have run
    sound(lake, health("orders", 0))
    hurt(lake)
    one = exporter(lake)
    found = samples(one)
    assert {name for name, _ in found} == {"build_info", "lake_up"}
    assert found["lake_up", ()] == 0
    assert [(record.exc_info, record.message.count("\n")) for record in caplog.records] == [(None, 0)]


def test_a_lake_that_vanishes_and_comes_back(lake, tmp_path):
    sound(lake, health("orders", 0))
    one = exporter(lake)
    assert samples(one)["lake_up", ()] == 1
    shutil.move(lake, tmp_path / "away")
    found = samples(one)
    assert found["lake_up", ()] == 0
    assert not one.health().healthy
    shutil.move(tmp_path / "away", lake)
    assert only(samples(one), "partitions", "condition")["in_sync",] == 1


def test_names_of_others_do_no_harm(lake):
    odd = 'a"b\\c\n<script>\x1b[2J'
    sound(lake, health("orders", 0))
    write(lake, "partition_health", health("orders", 0, cluster=odd))
    reported(lake, 1, cluster=odd)
    assert only(samples(exporter(lake)), "cluster_ended", "cluster").keys() == {
        ("prod",), ('a"b\\c\\x0a<script>\\x1b[2J',),
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool of Debian's package prometheus")
def test_promtool_finds_nothing_wrong_with_the_metrics(lake):
    troubled(lake)
    write(lake, "minute_stats", minute(1, events=5, shrink__lag=2, appended=8))
    done = subprocess.run(["promtool", "check", "metrics"], input=text(exporter(lake)), capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
