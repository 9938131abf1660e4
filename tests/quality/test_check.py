"""Every expectation fails on what it is for, and passes on what it is not; only what is new is judged."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable

from generators.lock import RoleHeld, hold
from pipelines.quality.check import check
from pipelines.quality.results import judged
from schemas import (
    hw_regressions,
    partition_health,
    partition_hw,
    quality_results,
    quarantine,
    replication_events,
    telemetry_gaps,
)

pytestmark = pytest.mark.spark

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PLACE = {"cluster": "c", "topic": "orders", "topic_id": "T" * 22, "partition": 0, "leader_id": 1, "leader_epoch": 4}


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def hw(seconds, value, kind="advance", leo=100, agreement="exact", **more):
    return PLACE | {"ts": at(seconds), "kind": kind, "hw": value, "leader_leo": leo, "agreement": agreement} | more


def event(number, seconds=0, kind="progress", **more):
    return {
        "cluster": "c", "source_id": "broker-1/replication.log", "source_epoch": 0, "source_seq": number,
        "seq": number, "ts": at(seconds), "broker_id": 1, "event_type": kind, "partition": -1, "level": 3,
    } | more  # fmt: skip


def fall(cls, severity="critical", regression_id="r", revision=1):
    return PLACE | {
        "ts": at(0), "regression_id": regression_id, "class": cls, "severity": severity, "lost_from": 120,
        "lost_to": 300, "proof": "proven", "revision": revision,
    }  # fmt: skip


def gap(kind):
    return {
        "cluster": "c", "partition": -1, "ts": at(0), "source_id": "s", "source_epoch": 0, "series": "source",
        "seq_from": 3, "seq_to": 8, "kind": kind,
    }  # fmt: skip


def health(**more):
    place = {k: v for k, v in PLACE.items() if k != "leader_id"}
    return place | {"ar": [1, 2, 3], "isr": [1, 2], "hw": 5, "leader_leo": 7} | more


def bad(number):
    return event(number, kind="fetch") | {"reasons": ["leo is missing"], "quarantined_at": at(9)}


GOOD = {
    replication_events: [event(0), event(1, kind="isr", isr=[2, 1], replicas=[1, 2, 3], partition=0, topic="orders")],
    quarantine: [],
    partition_hw: [hw(0, 10, "term_start"), hw(1, 10), hw(2, 20), hw(3, None), hw(4, 100)],
    hw_regressions: [fall("stale_leader_hw", "info"), fall("unclean_loss", "warning", "u")],
    telemetry_gaps: [gap("reset")],
    partition_health: [health(), health(partition=1, isr=None, hw=None)],
}


@pytest.fixture
def good(lake):
    for module, rows in GOOD.items():
        lake.put(module, *rows)
    return lake


def failed(summary):
    return sorted(r.expectation for r in summary.failed)


def test_a_good_lake_passes_every_expectation(good, spark):
    summary = check(good.path, now=at(1), spark=spark)
    assert failed(summary) == []
    assert len({(r.table, r.expectation) for r in summary.results}) == len(summary.results) == 12
    assert summary.lines()[-1] == "12 expectations, 0 failed"


@pytest.mark.parametrize(
    ("module", "rows", "expectation", "sample"),
    [
        (partition_hw, [hw(5, 99)], "hw_never_falls_within_a_term", {"hw": 99}),
        (partition_hw, [hw(5, 101, leo=100)], "hw_at_most_leader_leo", {"hw": 101}),
        (partition_hw, [hw(5, 100, "report", agreement="disagree", reported_hw=98)], "no_disagreement", {"reported_hw": 98}),
        (hw_regressions, [fall("committed_loss", regression_id="x")], "no_committed_loss", {"lost_from": 120}),
        (hw_regressions, [fall("unclean_loss", regression_id="x")], "no_unclean_loss", {"regression_id": "x"}),
        (hw_regressions, [fall("hw_moved_back", regression_id="x")], "no_hw_moved_back", {"topic": "orders"}),
        (telemetry_gaps, [gap("gap")], "no_gaps", {"seq_to": 8}),
        (partition_health, [health(isr=[1, 4])], "isr_within_ar", {"isr": [1, 4]}),
        (partition_health, [health(hw=8)], "hw_at_most_leader_leo", {"hw": 8}),
        (replication_events, [event(2, kind="isr", isr=[4], replicas=[1], partition=0, topic="orders")], "isr_within_ar", {"isr": [4]}),
        (quarantine, [bad(7)], "quarantine_below_threshold", {"reasons": "leo is missing: 1", "quarantined": 1}),
    ],
)  # fmt: skip
def test_an_expectation_fails_on_what_it_is_for(good, spark, module, rows, expectation, sample):
    check(good.path, now=at(1), spark=spark)
    good.put(module, *rows)
    (result,) = check(good.path, now=at(2), spark=spark).failed
    assert (result.expectation, result.table, result.version_from) == (expectation, module.TABLE.path, 1)
    (row,) = json.loads(result.sample)
    assert {name: row[name] for name in sample} == sample
    assert result.unexpected == 1


def test_only_what_is_new_is_judged(good, spark):
    good.put(telemetry_gaps, gap("gap"))
    assert failed(check(good.path, now=at(1), spark=spark)) == ["no_gaps"]
    again = check(good.path, now=at(2), spark=spark)
    assert again.failed == []
    told = {r.observed for r in again.results if r.suite != "sources"}
    assert all(words.startswith("nothing new, still version") for words in told)
    good.put(telemetry_gaps, gap("late"))
    assert failed(check(good.path, now=at(3), spark=spark)) == []


def test_a_new_term_may_start_lower_and_a_resumed_one_too(good, spark):
    good.put(partition_hw, hw(5, 40, "term_start"), hw(6, 50), hw(7, 45, "term_start", leader_epoch=5, leader_id=2))
    assert failed(check(good.path, now=at(1), spark=spark)) == []


def test_clocks_of_two_leaders_do_not_make_a_fall(good, spark):
    good.put(
        partition_hw, hw(3.5, 60, "term_start", leader_epoch=5, leader_id=2), hw(4.5, 70, leader_epoch=5, leader_id=2)
    )
    assert failed(check(good.path, now=at(1), spark=spark)) == []


def test_only_the_last_revision_of_a_verdict_is_judged(good, spark):
    good.put(
        hw_regressions, fall("committed_loss", regression_id="x"), fall("stale_leader_hw", "info", "x", revision=2)
    )
    assert failed(check(good.path, now=at(1), spark=spark)) == []


def test_a_rebuilt_table_is_judged_anew(good, spark):
    check(good.path, now=at(1), spark=spark)
    good.put(telemetry_gaps, gap("gap"), mode="overwrite")
    assert failed(check(good.path, now=at(2), spark=spark)) == ["no_gaps"]


def test_few_quarantined_among_many_pass(good, spark):
    good.put(quarantine, bad(7))
    assert failed(check(good.path, now=at(1), spark=spark, quarantine_share=0.5)) == []


def test_sources_are_judged_by_the_wall_clock_though_nothing_is_new(good, spark):
    check(good.path, now=at(1), spark=spark)
    (result,) = check(good.path, now=at(301), spark=spark, stale_after_s=300).failed
    assert (result.expectation, result.observed) == ("sources_fresh", "1 of 1 source")
    assert json.loads(result.sample)[0]["source_id"] == "broker-1/replication.log"


def test_a_closed_cluster_is_fresh_for_ever(good, spark):
    good.put(replication_events, event(0, source_id="hwmark/drain", detail="closed"))
    assert failed(check(good.path, now=at(86_400), spark=spark)) == []


def test_a_missing_table_is_said_and_quarantine_may_be_missing(lake, spark):
    lake.put(replication_events, *GOOD[replication_events])
    summary = check(lake.path, now=at(1), spark=spark)
    observed = {r.table: (r.success, r.observed) for r in summary.results}
    assert observed[quarantine.TABLE.path] == (True, "no such table")
    success, words = observed[partition_hw.TABLE.path]
    assert not success
    assert words.startswith("no such table: run `hwmark run")


def test_results_are_rows_that_remember_the_versions(good, spark):
    summary = check(good.path, now=at(1), spark=spark)
    rows = DeltaTable(good.uri(quality_results)).to_pyarrow_dataset(schema=quality_results.ARROW).to_table()
    assert len(rows) == len(summary.results)
    assert rows["run_id"].unique().to_pylist() == [summary.run_id]
    assert judged(rows)["silver", partition_hw.TABLE.path] == 0


def test_one_process_checks_a_lake(good, spark):
    with hold(good.path, "check"), pytest.raises(RoleHeld):
        check(good.path, now=at(1), spark=spark)


def test_spark_is_not_started_for_a_lake_with_nothing_new(lake):
    def start():
        pytest.fail("started Spark for nothing")

    assert {r.observed.split(":")[0] for r in check(lake.path, now=at(1), spark=start).results} == {"no such table"}
