"""Every expectation fails on what it is for, and passes on what it is not; only what is new is judged."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from threading import Thread

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.alerting.evaluate import evaluate
from pipelines.commands.exits import UNMET
from pipelines.lake.lake import Lake
from pipelines.lake.roles import RoleHeld, hold
from pipelines.quality import frames
from pipelines.quality.check import check
from pipelines.quality.results import judged_versions
from pipelines.quality.validation import SAMPLES, Library
from schemas import (
    hw_regressions,
    notes,
    partition_health,
    partition_hw,
    quality_results,
    quarantine,
    replication_events,
    telemetry_gaps,
)
from tests.no_java import without_java
from tests.quality.lake_rows import put

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


@pytest.fixture(scope="module")
def judged_once(tmp_path_factory):
    """A good lake that was checked, and how that came out."""
    lake = str(tmp_path_factory.mktemp("good") / "lake")
    for module, rows in GOOD.items():
        put(lake, module, *rows)
    return lake, check(lake, now=at(1))


@pytest.fixture
def good(judged_once, lake):
    shutil.copytree(judged_once[0], lake)
    return lake


def failed(summary):
    return sorted(r.expectation for r in summary.failed)


def test_a_good_lake_passes_every_expectation(judged_once):
    summary = judged_once[1]
    assert failed(summary) == []
    assert len({(r.table, r.expectation) for r in summary.results}) == len(summary.results) == 13
    assert summary.lines()[-1] == "13 expectations, 0 failed"


def test_results_are_rows_that_remember_the_versions(judged_once):
    lake, summary = judged_once
    rows = Lake(lake).read(quality_results.TABLE, quality_results.ARROW)
    assert len(rows) == len(summary.results)
    assert rows["run_id"].unique().to_pylist() == [summary.run_id]
    (what,) = {r.judged for r in summary.results if r.expectation == "no_disagreement"}
    judged, _, commit = what.partition("@")
    assert judged.endswith(f":{Lake(lake).table_id(partition_hw.TABLE)}")
    assert commit == Lake(lake).commit_id(partition_hw.TABLE, 0)
    assert judged_versions(rows)["silver", partition_hw.TABLE.path, judged] == (0, commit)


BAD = [
    (partition_hw, hw(5, 99), "hw_never_falls_within_a_term", {"hw": 99}),
    (partition_hw, hw(6, 101, leo=100), "hw_at_most_leader_leo", {"hw": 101}),
    (partition_hw, hw(7, 60, "report", 200, "disagree", reported_hw=98), "no_disagreement", {"reported_hw": 98}),
    (hw_regressions, fall("committed_loss", regression_id="x"), "no_committed_loss", {"lost_from": 120}),
    (hw_regressions, fall("unclean_loss", regression_id="y"), "no_unclean_loss", {"regression_id": "y"}),
    (hw_regressions, fall("hw_moved_back", regression_id="z"), "no_hw_moved_back", {"topic": "orders"}),
    (telemetry_gaps, gap("gap"), "no_gaps", {"seq_to": 8}),
    (telemetry_gaps, gap("late") | {"detail": "unread: 7z"}, "sources_understood", {"detail": "unread: 7z"}),
    (partition_health, health(isr=[1, 4]), "isr_within_ar", {"isr": [1, 4]}),
    (partition_health, health(hw=8), "hw_at_most_leader_leo", {"hw": 8}),
    (replication_events, event(2, kind="isr", isr=[4], replicas=[1]), "isr_within_ar", {"isr": [4]}),
    (quarantine, bad(7), "quarantine_below_threshold", {"reasons": "leo is missing: 1", "quarantined": 1}),
]


AFTER_A_FALSE_WITNESS = hw(8, 70)
"""Lower than what a report alone had said, which is taken back: no fall of the HW."""


@pytest.fixture(scope="module")
def judged_bad(judged_once, tmp_path_factory):
    lake = str(tmp_path_factory.mktemp("bad") / "lake")
    shutil.copytree(judged_once[0], lake)
    for module in dict.fromkeys(m for m, *_ in BAD):
        put(lake, module, *(row for m, row, *_ in [*BAD, (partition_hw, AFTER_A_FALSE_WITNESS)] if m is module))
    return check(lake, now=at(2))


@pytest.mark.parametrize(
    ("module", "row", "expectation", "sample"), BAD, ids=[f"{b[0].TABLE.path}-{b[2]}" for b in BAD]
)
def test_an_expectation_fails_on_what_it_is_for(judged_bad, module, row, expectation, sample):
    (result,) = (r for r in judged_bad.failed if (r.table, r.expectation) == (module.TABLE.path, expectation))
    assert (result.version_from, result.version_to, result.unexpected) == (1, 1, 1)
    (shown,) = json.loads(result.sample)
    assert {name: shown[name] for name in sample} == sample


def test_only_what_is_for_it_makes_an_expectation_fail(judged_bad):
    assert len(judged_bad.failed) == len(BAD)


def test_what_is_no_fault_passes(good):
    """A new or resumed term that starts lower, two leaders' clocks, a verdict taken back, a gap that is none."""
    other = {"leader_epoch": 5, "leader_id": 2}
    put(
        good, partition_hw, hw(5, 40, "term_start"), hw(6, 50), hw(3.5, 60, "term_start", **other), hw(5.5, 70, **other)
    )
    verdict = fall("committed_loss", regression_id="x")
    put(good, hw_regressions, verdict, fall("stale_leader_hw", "info", "x", revision=2))
    put(good, telemetry_gaps, gap("late"))
    put(good, replication_events, event(2))
    put(good, quarantine, bad(7))
    assert failed(check(good, now=at(2), quarantine_share=1.0)) == []


def test_a_table_with_nothing_new_passes_and_says_so(good):
    """Sources alone are judged by the wall clock though nothing is new: that is what they are judged for."""
    summary = check(good, now=at(301), stale_after_s=300)
    assert {r.observed for r in summary.results if r.suite != "sources"} == {"nothing new, still version 0"}
    (result,) = summary.failed
    assert (result.expectation, result.observed) == ("sources_fresh", "1 of 1 source")
    assert json.loads(result.sample)[0]["source_id"] == "broker-1/replication.log"


def test_nothing_new_needs_no_library_to_judge_it(good, monkeypatch):
    """Its import alone takes seconds. A source that has fallen silent is found all the same."""
    monkeypatch.setattr(Library, "_context", property(lambda _: pytest.fail("imported with nothing to judge")))
    assert failed(check(good, now=at(2))) == []
    assert failed(check(good, now=at(900))) == ["sources_fresh"]


def test_a_silent_source_that_a_person_has_dealt_with_fails_no_more(good):
    evaluate(good, now=at(900))
    put(good, notes, {"cluster": "c", "handled": True, "text": "moved", "written_at": at(901)})
    evaluate(good, now=at(902))
    assert failed(check(good, now=at(903))) == []


def test_rows_are_judged_portion_by_portion_as_all_at_once(good, judged_bad, monkeypatch):
    monkeypatch.setattr(frames, "PORTION", 1)
    for module in dict.fromkeys(m for m, *_ in BAD):
        put(good, module, *(row for m, row, *_ in [*BAD, (partition_hw, AFTER_A_FALSE_WITNESS)] if m is module))
    portioned = check(good, now=at(2))
    assert [(r.expectation, r.observed) for r in portioned.results] == [
        (r.expectation, r.observed) for r in judged_bad.results
    ]


def test_more_rows_fail_than_are_shown(good):
    put(good, telemetry_gaps, *(gap("gap") | {"partition": number} for number in range(SAMPLES + 3)))
    (result,) = check(good, now=at(2)).failed
    assert (result.unexpected, len(json.loads(result.sample))) == (SAMPLES + 3, SAMPLES)


def test_new_rows_that_were_compacted_since_are_judged_once(good):
    put(good, partition_hw, hw(5, 100))
    put(good, partition_hw, hw(6, 99))
    DeltaTable(f"{good}/{partition_hw.TABLE.path}").optimize.compact()
    (result,) = check(good, now=at(2)).failed
    assert (result.expectation, result.observed) == ("hw_never_falls_within_a_term", "1 of 2 new rows")


def test_columns_of_another_engine_are_judged_as_declared(good):
    """Its integers are wider, a column that may be null is missing."""
    rows = [event(0), event(2, kind="isr", isr=[4], replicas=[1])]
    wide = pa.Table.from_pylist(rows, schema=replication_events.ARROW)
    wide = wide.drop_columns(["detail"])
    place = wide.schema.get_field_index("partition")
    wide = wide.set_column(place, "partition", wide["partition"].cast(pa.int64()))
    shutil.rmtree(f"{good}/{replication_events.TABLE.path}")
    for _ in range(2):
        write_deltalake(f"{good}/{replication_events.TABLE.path}", wide, mode="append")
    assert failed(check(good, now=at(2))) == ["isr_within_ar"]


def test_a_check_needs_no_java(good):
    put(good, telemetry_gaps, gap("gap"))
    done = without_java("check", "--lake", good, "--fail-on-check")
    assert "FAILED silver/telemetry_gaps no_gaps" in done.stdout
    assert done.returncode == UNMET, done.stderr


def test_a_rebuilt_table_is_judged_anew(good):
    put(good, telemetry_gaps, gap("gap"), mode="overwrite")
    assert failed(check(good, now=at(2))) == ["no_gaps"]


def test_what_failed_and_was_told_is_not_told_again_by_a_rebuild(good):
    """`no_unclean_loss 2 of 4 new rows`, status 4, of losses that were told and handled."""
    gaps = [gap("gap") | {"seq_from": number} for number in range(12)]
    for some in (gaps[8:], gaps[:8]):
        put(good, telemetry_gaps, *some)
        assert failed(check(good, now=at(2))) == ["no_gaps"]
    put(good, telemetry_gaps, *gaps, mode="overwrite")
    results = check(good, now=at(3)).results
    assert [(r.success, r.observed) for r in results if r.expectation == "no_gaps"] == [
        (True, "12 of 12 new rows, told before")
    ]
    put(good, telemetry_gaps, *gaps, gap("gap") | {"seq_from": 99}, mode="overwrite")
    assert failed(check(good, now=at(4))) == ["no_gaps"], "one more"


def test_a_rebuild_that_writes_rows_in_another_order_tells_none_of_them_again(good):
    """`silver/partition_hw` has no order: of more than five rows that failed others were shown."""
    wrong = [hw(9, 100, agreement="disagree", partition=number) for number in range(1, 99)]
    put(good, partition_hw, *wrong)
    assert failed(check(good, now=at(2))) == ["no_disagreement"]
    put(good, partition_hw, *reversed(wrong), mode="overwrite")
    assert failed(check(good, now=at(3))) == []


def test_a_closed_cluster_is_fresh_for_ever(good):
    put(good, replication_events, event(0, source_id="hwmark/drain", detail="closed"))
    assert failed(check(good, now=at(86_400))) == []


def test_a_missing_table_is_said_and_quarantine_may_be_missing(lake):
    observed = {r.table: (r.success, r.observed) for r in check(lake, now=at(1)).results}
    assert observed[quarantine.TABLE.path] == (True, "no such table")
    success, words = observed[partition_hw.TABLE.path]
    assert not success
    assert words.startswith("no such table: run `hwmark run")


def test_one_process_checks_a_lake_and_another_waits_for_it(lake, monkeypatch):
    """Two that cron started at one moment: one ended with 75 at once."""
    with hold(lake, "check"):
        waiting = Thread(target=check, args=(lake,), kwargs={"now": at(1)})
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
    waiting.join()
    assert Lake(lake).read(quality_results.TABLE, quality_results.ARROW).num_rows
    monkeypatch.setattr("pipelines.quality.check.WAIT_S", 0)
    with hold(lake, "check"), pytest.raises(RoleHeld):
        check(lake, now=at(1))


def test_a_process_without_a_main_file_judges_and_ends_with_its_own_status(lake):
    """Spark Connect, which Great Expectations looks for, takes such a process for one that runs doctests."""
    for module, rows in GOOD.items():
        put(lake, module, *rows)
    code = "import sys; from pipelines.quality.check import check; print(len(check(sys.argv[1]).results)); sys.exit(7)"
    done = subprocess.run([sys.executable, "-c", code, lake], capture_output=True, text=True)
    assert (done.returncode, int(done.stdout) > 0) == (7, True), done.stderr


def test_a_table_of_which_a_file_goes_meanwhile_is_judged_as_it_is_by_then(lake, monkeypatch):
    """The job removes files of gold that it replaced a quarter of an hour before."""
    put(lake, partition_health, health(isr=[1, 9]))
    read, gone = frames.New.rows, []

    def rows(new):
        if not gone:
            gone.append(new.table.path)
            raise FileNotFoundError("part-0.parquet")
        return read(new)

    monkeypatch.setattr(frames.New, "rows", rows)
    results = check(lake, now=NOON).results
    assert gone == ["gold/partition_health"]
    assert [r.success for r in results if r.table == "gold/partition_health"] == [False, True]


def test_a_file_that_goes_while_its_rows_are_judged_is_no_failure(lake, monkeypatch):
    """Great Expectations makes a text of the error, and tries again thrice."""
    put(lake, partition_health, health(isr=[1, 9]))
    read, gone = frames.Rows.pieces, []

    def pieces(rows):
        gone.append(rows)
        if len({id(one) for one in gone}) == 1:
            raise FileNotFoundError(2, "[errno 2] No such file", "part-0.parquet")
        return read(rows)

    monkeypatch.setattr(frames.Rows, "pieces", pieces)
    results = check(lake, now=NOON).results
    assert [(r.success, r.observed) for r in results if r.table == "gold/partition_health"] == [
        (False, "1 of 1 new row"), (True, "1 new row"),
    ]  # fmt: skip


def test_sources_that_cannot_be_told_end_nothing_else(good, monkeypatch):
    monkeypatch.setattr("pipelines.quality.check.reports", lambda *given: 1 / 0)
    put(good, telemetry_gaps, gap("gap"))
    assert failed(check(good, now=at(2))) == ["no_gaps", "sources_fresh"]
