"""Sources that fell silent are so until something shows an end: their broker is unregistered, their cluster ended."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.alerting.evaluate import evaluate
from pipelines.alerting.evidence import PARTS
from pipelines.alerting.reading import OF_OTHERS
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.streaming.reconstruction import EVALUATED
from pipelines.verdict import Limits, sources, verdict
from pipelines.verdict.collect import survey
from pipelines.verdict.judged import judged
from pipelines.verdict.records import State
from schemas import (
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
from tests.unit.alerting.test_evaluate import health, no_counts, progress, put

MONTH = 30 * 86_400
SECOND = "broker-2/replication.log"
NEEDED = (
    hw_regressions,
    partition_health,
    brokers,
    partition_hw,
    isr_changes,
    cluster_minute,
    telemetry_gaps,
    replica_sync,
    replication_events,
)


@pytest.fixture
def lake(tmp_path):
    place = str(tmp_path / "lake")
    reported(place, progress(0) | {"broker_id": 1}, progress(0, SECOND) | {"broker_id": 2})
    reported(place, progress(MONTH, number=1))
    health(place, MONTH)
    return place


def reported(lake, *rows):
    put(lake, replication_events, *({"topic": None, **row} for row in rows))


def silent(lake, seconds=MONTH):
    sources._seen.clear()
    limits = Limits(since=timedelta(days=1))
    (record,) = survey(Lake(lake), Filter(), limits.since, limits, at(seconds)).records
    return [source.source_id for source in judged(record, limits, at(seconds)).silent]


def test_a_verdict_names_a_source_however_long_it_is_silent(lake):
    assert silent(lake) == [SECOND]


def test_a_verdict_says_the_same_on_top_of_what_an_evaluation_has_read(lake):
    evaluate(lake, now=at(MONTH))
    reported(lake, progress(MONTH + 900, SECOND, number=1) | {"broker_id": 2})
    health(lake, MONTH + 900)
    assert silent(lake, MONTH + 901) == ["broker-1/replication.log"]


def test_a_source_whose_first_progress_has_a_detail_is_one_source(tmp_path):
    """A watcher's first one does: each broker was silent for ever, five minutes after `watch` had begun."""
    place = str(tmp_path / "lake")
    reported(place, progress(0, detail="first round: when what it shows began is not known"))
    reported(place, progress(900, number=1))
    health(place, 900)
    assert silent(place, 901) == []


@pytest.mark.parametrize("damage", ["{", "[]", '{"bronze": ["x", 1]}'])
def test_a_record_that_is_damaged_is_as_none(lake, damage):
    evaluate(lake, now=at(MONTH))
    Lake(lake).write_durably(EVALUATED, damage.encode())
    assert silent(lake) == [SECOND]


@pytest.mark.parametrize("first", ["a verdict", "an evaluation"])
def test_a_row_whose_time_has_it_quarantined_is_no_source(lake, first):
    if first == "an evaluation":
        evaluate(lake, now=at(MONTH))
    reported(lake, progress(0, "broker-3/x") | {"ts": datetime(9999, 1, 1, tzinfo=UTC)})
    assert silent(lake) == [SECOND]
    evaluate(lake, now=at(MONTH))


def test_a_broker_that_was_unregistered_has_no_source(lake):
    row = no_counts("c", 2, state="unregistered", state_ts=at(10), ts=at(MONTH))
    put(lake, brokers, row)
    assert silent(lake) == []
    put(lake, brokers, row | {"state": "fenced"}, mode="overwrite")
    assert silent(lake) == [SECOND]


def test_a_broker_that_is_down_is_quiet_whatever_its_source_says(lake):
    put(lake, brokers, no_counts("c", 2, state="fenced", state_ts=at(10)), no_counts("c", 3, state="unfenced"))
    from pipelines.streaming.source.unread import bronze_of

    assert sources.reports(Lake(lake), {"c"}, bronze_of(Lake(lake)), at(11))["c"].down == {2: at(10)}


def test_a_source_is_one_whatever_the_details_of_its_progress(lake):
    """The first row of a watcher's broker has a detail: it stood as a second source that was silent for ever."""
    reported(lake, progress(0, "watch/main/broker-3", "first round", 0) | {"broker_id": 3})
    reported(lake, progress(MONTH, "watch/main/broker-3", None, 1) | {"broker_id": 3})
    assert silent(lake) == [SECOND]


def test_what_alert_rules_need_verdicts_need():
    """`job_behind` said that silver/replica_sync was missing, beside "judged up to"."""
    rules = {part.table.path for name, part in PARTS.items() if part.table is not None and name not in OF_OTHERS}
    assert rules == {module.TABLE.path for module in NEEDED}


@pytest.mark.parametrize("module", NEEDED, ids=lambda module: module.TABLE.path)
def test_where_a_table_is_missing_nothing_calm_is_said(lake, module):
    Lake(lake).write_durably("_run/query.json", b'{"query_id": "q", "rules": {}}')
    for one in NEEDED:
        if not Lake(lake).has_table(one.TABLE):
            put(lake, one)
    health(lake, MONTH)
    limits = Limits(since=timedelta(days=1))

    def said():
        (record,) = survey(Lake(lake), Filter(), limits.since, limits, at(MONTH)).records
        return verdict(replace(record, backlog=None, reconstructed=True), limits, at(MONTH))

    assert said().judged.state is State.OK
    shutil.rmtree(f"{lake}/{module.TABLE.path}")
    found = said()
    assert found.judged.state is State.NOT_JUDGED
    assert f"NOT JUDGED: {module.TABLE.path} is missing" in found.judged.text
    assert not any(line.text.startswith(("OK", "no loss is known")) for line in found.lines)


def test_a_verdict_without_the_tables_of_gold_says_so(lake):
    Lake(lake).write_durably("_run/query.json", b'{"query_id": "q", "rules": {}}')
    Lake(lake).create("hw_regressions")
    shutil.rmtree(f"{lake}/gold")
    limits = Limits(since=timedelta(days=1))
    (record,) = survey(Lake(lake), Filter(), limits.since, limits, at(MONTH)).records
    assert judged(replace(record, backlog=None), limits, at(MONTH)).text.startswith(
        "NOT JUDGED: gold/partition_health is missing: restore it"
    )
