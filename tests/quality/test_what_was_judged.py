"""What was judged on what: the expectation itself and the table itself, whatever names and versions say."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from pipelines.lake.lake import Lake
from pipelines.quality.check import check
from pipelines.quality.results import failed_since
from pipelines.streaming.tables import create_tables
from schemas import partition_hw, quality_results, quarantine, replica_sync, replication_events, telemetry_gaps
from tests.quality.lake_rows import put
from tests.quality.test_check import NOON, at, bad, event, gap
from tests.quality.test_own_suites import HW, NOT_NULL, ROWS, hw, judged, suite  # noqa: F401


def write_suite(path, *expectations):
    content = json.loads(Path(path).read_text())
    Path(path).write_text(json.dumps(content | {"expectations": list(expectations)}))


def not_null(**more):
    return {"type": NOT_NULL["type"], "kwargs": {"column": "hw", **more}}


def test_an_expectation_before_its_twin_is_judged_on_all_and_the_twin_on_what_is_new(lake, suite):  # noqa: F811
    put(lake, partition_hw, hw(0, 5), hw(1, None))
    path = suite(not_null(mostly=0.4))
    assert [words for _, words, _ in judged(lake, {HW: path}).values()] == ["1 of 2 new rows"]
    write_suite(path, not_null(mostly=0.9), not_null(mostly=0.4))
    assert judged(lake, {HW: path}) == {
        "expect_column_values_to_not_be_null hw": (False, "1 of 2 new rows", 1),
        "expect_column_values_to_not_be_null hw #2": (True, "nothing new, still version 0", 0),
    }


def test_an_expectation_with_another_argument_is_judged_on_all(lake, suite):  # noqa: F811
    put(lake, partition_hw, hw(0, 5), hw(1, None))
    path = suite(not_null(mostly=0.4))
    judged(lake, {HW: path})
    write_suite(path, not_null(mostly=0.9))
    assert judged(lake, {HW: path}) == {"expect_column_values_to_not_be_null hw": (False, "1 of 2 new rows", 1)}


def test_another_table_of_that_name_is_judged_on_all(lake):
    put(lake, telemetry_gaps, gap("late"))
    check(lake, now=NOON)
    shutil.rmtree(f"{lake}/{telemetry_gaps.TABLE.path}")
    put(lake, telemetry_gaps, gap("gap"))
    put(lake, telemetry_gaps, gap("late"))
    (result,) = [r for r in check(lake, now=NOON).results if r.expectation == "no_gaps"]
    assert (result.success, result.observed) == (False, "1 of 2 new rows")


@pytest.mark.parametrize("later", [0, 1, 5], ids=["as it was", "fewer commits than were judged", "more commits"])
def test_an_older_copy_of_a_table_that_was_restored_is_judged_on_all(lake, tmp_path, later):
    """By its id it is the table that was judged: what came at versions that were judged before was judged never."""
    table = f"{lake}/{telemetry_gaps.TABLE.path}"
    put(lake, telemetry_gaps, gap("late"))
    shutil.copytree(table, tmp_path / "copy")
    for _ in range(3):
        put(lake, telemetry_gaps, gap("late"))
    check(lake, now=NOON)
    shutil.rmtree(table)
    shutil.copytree(tmp_path / "copy", table)
    for kind in ("gap", *["late"] * 4)[:later]:
        put(lake, telemetry_gaps, gap(kind))
    for observed in (f"{1 + later} new rows" if later else "1 new row", f"nothing new, still version {later}"):
        (result,) = [r for r in check(lake, now=NOON).results if r.expectation == "no_gaps"]
        failed = later > 0 and "new row" in observed
        assert (result.success, result.observed) == (not failed, f"1 of {observed}" if failed else observed)


def test_a_count_of_rows_is_judged_when_nothing_came(lake, suite):  # noqa: F811
    put(lake, partition_hw, hw(0, 5))
    own = {HW: suite(ROWS, NOT_NULL)}
    assert judged(lake, own)["expect_table_row_count_to_be_between"] == (True, "1 observed in 1 new row", 0)
    assert judged(lake, own) == {
        "expect_table_row_count_to_be_between": (False, "0 observed in 0 new rows", 0),
        "expect_column_values_to_not_be_null hw": (True, "nothing new, still version 0", 0),
    }


def read_to(lake, version):
    """The record and the checkpoint of a job that has read bronze up to and with `version`."""
    query = Path(lake) / "_run/q"
    for folder in ("commits", "offsets"):
        (query / folder).mkdir(parents=True, exist_ok=True)
    (query.parent / "query.json").write_text(json.dumps({"query_id": "q"}))
    (query / "commits/0").write_text("v1\n{}")
    offset = {"snapshot": version, "version": version + 1, "index": 0, "events": 0}
    (query / "offsets/0").write_text("v1\n{}\n" + json.dumps(offset))


def test_quarantined_rows_are_measured_by_the_events_that_the_job_read_since(lake):
    """It had not read the last commit when it was checked before."""
    put(lake, replication_events, *(event(number) for number in range(9)))
    put(lake, replication_events, event(9), event(10))
    put(lake, quarantine, bad(0))
    read_to(lake, 0)
    check(lake, now=NOON)
    put(lake, quarantine, bad(9))
    read_to(lake, 1)
    (result,) = [r for r in check(lake, now=NOON).results if r.expectation == "quarantine_below_threshold"]
    assert json.loads(result.sample)[0]["events"] == 2


def test_a_check_with_a_clock_behind_the_last_is_after_it(lake):
    put(lake, telemetry_gaps, gap("late"))
    first = check(lake, now=at(10))
    put(lake, telemetry_gaps, gap("gap"))
    second = check(lake, now=at(5))
    assert second.run_ts == first.run_ts + timedelta(microseconds=1)
    rows = Lake(lake).read(quality_results.TABLE, quality_results.ARROW)
    assert any("no_gaps" in line for line in failed_since(rows, first.run_ts, "another"))


@pytest.mark.parametrize("values", [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [1, 2], [1], [1, 2, 3]])
def test_the_nearest_quantile_is_that_of_the_library(values):
    import duckdb
    import pandas as pd

    from pipelines.quality.engine import RangeEngine
    from pipelines.quality.frames import Rows

    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE judged AS SELECT unnest({values}) AS v")
        RangeEngine.rows = Rows(connection, ())
        try:
            found = [RangeEngine()._quantile("v", "judged", share, "nearest") for share in (0.0, 0.25, 0.5, 0.9, 1.0)]
        finally:
            del RangeEngine.rows
    assert found == pd.Series(values).quantile([0.0, 0.25, 0.5, 0.9, 1.0], "nearest").tolist()


@pytest.mark.parametrize("module", [replica_sync, replication_events], ids=lambda module: module.TABLE.path)
def test_a_table_of_which_a_file_is_gone_is_a_failed_expectation(lake, module):
    """No suite judges `silver/replica_sync`, nor what the job has not read of bronze."""
    place = Lake(lake)
    for read in (replication_events, telemetry_gaps, partition_hw):
        put(lake, read)
    create_tables(place)
    place.write_durably("_run/query.json", json.dumps({"query_id": "q", "rules": {}}).encode())
    sync = {"cluster": "c", "topic": "t", "partition": 0, "ts": NOON, "replica_id": 1, "state": "x"}
    put(lake, module, sync if module is replica_sync else event(0))
    assert check(lake, now=NOON).failed == []
    (file,) = (one for one in place.open(module.TABLE).file_uris())
    Path(file).unlink()
    result = next(one for one in check(lake, now=NOON).failed if one.expectation == "table_is_there")
    assert result.table == module.TABLE.path
    lacks = f"{module.TABLE.path} lacks 1 of its 1 files, such as {Path(file).name}: restore it"
    assert result.observed in (lacks, f"{lacks}, or start anew with `hwmark run --rebuild`")
