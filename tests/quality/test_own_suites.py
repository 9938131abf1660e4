"""Suites of the user's own, as Great Expectations exports them: judged on any table, and what is wrong in one line."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.quality import frames
from pipelines.quality.check import check
from pipelines.quality.own_suites import own_suites
from schemas import cluster_minute, partition_health, partition_hw, quality_results
from tests.quality.lake_rows import put

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HW = "silver/partition_hw"
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "hw"}}
MEAN = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "hw", "min_value": 0, "max_value": 10}}
ROWS = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
ABOVE = {
    "type": "expect_column_pair_values_a_to_be_greater_than_b",
    "kwargs": {
        "column_A": "leader_leo",
        "column_B": "hw",
        "or_equal": True,
        "ignore_row_if": "either_value_is_missing",
    },
}


def hw(partition, value, leo=100):
    place = {"cluster": "c", "topic": "orders", "partition": partition, "ts": NOON, "kind": "advance"}
    return place | {"hw": value, "leader_leo": leo}


@pytest.fixture
def suite(tmp_path):
    """Writes a suite as the library exports it; the path."""

    def write(*expectations, name="mine", **more):
        path = tmp_path / f"{name}.json"
        exported = {"name": name, "expectations": list(expectations), "meta": {"great_expectations_version": "1.24.1"}}
        path.write_text(json.dumps(exported | more))
        return str(path)

    return write


def judged(lake, own, **more):
    """By expectation of suites of the user's own: whether it held, what was observed, and the unexpected."""
    ours = {"bronze", "sources", "silver", "gold"}
    summary = check(lake, now=NOON, own=own, **more)
    return {r.expectation: (r.success, r.observed, r.unexpected) for r in summary.results if r.suite not in ours}


def test_what_the_suite_expects_is_judged_on_the_new_rows(lake, suite):
    put(lake, partition_hw, hw(0, 5), hw(1, None), hw(2, 11, leo=9))
    own = {HW: suite(NOT_NULL, MEAN, ROWS, ABOVE)}
    assert judged(lake, own) == {
        "expect_column_values_to_not_be_null hw": (False, "1 of 3 new rows", 1),
        "expect_column_mean_to_be_between hw": (True, "8.0 observed in 3 new rows", 0),
        "expect_table_row_count_to_be_between": (True, "3 observed in 3 new rows", 0),
        "expect_column_pair_values_a_to_be_greater_than_b leader_leo hw": (False, "1 of 3 new rows", 1),
    }
    assert judged(lake, own)["expect_column_values_to_not_be_null hw"] == (True, "nothing new, still version 0", 0)
    put(lake, partition_hw, hw(0, 6))
    assert judged(lake, own)["expect_column_values_to_not_be_null hw"] == (True, "1 new row", 0)


def test_the_outcome_is_a_row_like_those_of_our_own_suites(lake, suite):
    put(lake, partition_hw, hw(0, 5), hw(7, None))
    check(lake, now=NOON, own={HW: suite(NOT_NULL)})
    rows = Lake(lake).read(quality_results.TABLE, quality_results.ARROW).to_pylist()
    (row,) = [row for row in rows if row["suite"] == "mine"]
    assert (row["table"], row["version_from"], row["version_to"], row["unexpected"]) == (HW, 0, 0, 1)
    (sample,) = json.loads(row["sample"])
    assert (sample["topic"], sample["partition"], sample["hw"]) == ("orders", 7, None)
    assert len({row["run_id"] for row in rows}) == 1


def test_mostly_is_what_the_library_makes_of_it(lake, suite):
    put(lake, partition_hw, hw(0, 5), hw(1, 6), hw(2, None))
    mostly = {**NOT_NULL, "kwargs": {"column": "hw", "mostly": 0.6}}
    assert judged(lake, {HW: suite(mostly)}) == {"expect_column_values_to_not_be_null hw": (True, "1 of 3 new rows", 1)}


def test_more_rows_than_one_portion_hold_where_each_portion_holds(lake, suite, monkeypatch):
    monkeypatch.setattr(frames, "PORTION", 2)
    put(lake, partition_hw, *(hw(number, None if number in (0, 3) else 1) for number in range(5)))
    found = judged(lake, {HW: suite(NOT_NULL, MEAN)})
    assert found["expect_column_values_to_not_be_null hw"] == (False, "2 of 5 new rows", 2)
    assert found["expect_column_mean_to_be_between hw"][0]


def test_a_suite_of_a_version_before_1_and_two_of_one_type(lake, suite):
    put(lake, partition_health, {"cluster": "c", "topic": "t", "partition": 0, "isr": [1], "hw": 3})
    old = {"expectation_type": "expect_column_values_to_not_be_null", "kwargs": {"column": "isr"}}
    path = suite(old, old, name="old")
    content = json.loads(Path(path).read_text())
    content["expectation_suite_name"] = content.pop("name")
    Path(path).write_text(json.dumps(content))
    assert list(judged(lake, {"gold/partition_health": [path]})) == [
        "expect_column_values_to_not_be_null isr",
        "expect_column_values_to_not_be_null isr #2",
    ]


def test_a_row_condition_may_be_about_any_column(lake, suite):
    put(lake, partition_hw, hw(0, None), hw(1, 4))
    only = {**NOT_NULL, "kwargs": {"column": "hw", "row_condition": "partition > 0", "condition_parser": "pandas"}}
    assert judged(lake, {HW: suite(only)})["expect_column_values_to_not_be_null hw"][0]


def test_a_table_that_was_never_written_is_not_fine(lake, suite):
    put(lake, partition_hw, hw(0, 1))
    (found,) = judged(lake, {"gold/cluster_minute": suite(ROWS)}).values()
    assert found == (False, f"no such table: run `hwmark run --lake {lake}` first", 0)


def test_maps_and_times_are_judged_too(lake, suite):
    put(lake, cluster_minute, {"cluster": "c", "minute": NOON, "shrinks": [("lag", 1)], "events": 3})
    some = [{**NOT_NULL, "kwargs": {"column": name}} for name in ("shrinks", "minute")]
    assert [held for held, *_ in judged(lake, {"gold/cluster_minute": suite(*some, ROWS)}).values()] == [True] * 3


def test_a_project_keeps_validation_results_and_data_docs(lake, suite, tmp_path):
    """As `gx.get_context(project_root_dir=...)` opens them."""
    project, own = tmp_path / "quality", {HW: suite(NOT_NULL)}
    for number, held in ((1, True), (None, False)):
        put(lake, partition_hw, hw(0, number))
        summary = check(lake, now=NOON, own=own, project=str(project))
        docs = Path(summary.data_docs.removeprefix("file://"))
        assert "mine" in docs.read_text()
        results = [json.loads(path.read_text()) for path in (project / "gx/uncommitted/validations").rglob("*.json")]
        assert {result["success"] for result in results} == {True, held}
    assert len(results) == 2
    assert {result["meta"]["run_id"]["run_name"] for result in results} >= {summary.run_id}
    (kept,) = (project / "gx/expectations").glob("*.json")
    assert json.loads(kept.read_text())["name"] == "mine"


def test_without_suites_of_ones_own_nothing_of_them_is_imported(lake, monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "pipelines.quality.own_validation", raising=False)
    put(lake, partition_hw, hw(0, 1))
    check(lake, now=NOON)
    assert "pipelines.quality.own_validation" not in sys.modules


def on(column, kind="expect_column_values_to_not_be_null"):
    return {"type": kind, "kwargs": {"column": column}}


@pytest.mark.parametrize(
    ("table", "expectation", "words"),
    [
        (
            "silver/partition_hv",
            NOT_NULL,
            "names the table 'silver/partition_hv', which no lake has: do you mean " + HW,
        ),
        (HW, on("hw", "expect_column_values_to_be_nul"), "does not know: do you mean expect_column_values_to_be_null?"),
        (HW, on("hwm"), f"is about the column 'hwm', which {HW} does not have: do you mean hw?"),
        (HW, "expect", "has the expectation None"),
    ],
)
def test_what_is_wrong_with_a_suite_is_named_with_what_is_nearest(suite, table, expectation, words):
    with pytest.raises(UsageError) as raised:
        own_suites({table: suite(expectation)})
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is not there"),
        ("{", "cannot be read as JSON"),
        ("[]", "is a list"),
        ('{"name": "x"}', "has no name or no expectations"),
        (json.dumps({"name": "silver", "expectations": [NOT_NULL]}), "as is hwmark's own for silver/partition_hw"),
    ],
)
def test_what_is_no_suite_is_named(tmp_path, content, words):
    path = tmp_path / "suite.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as raised:
        own_suites({HW: str(path)})
    assert str(path) in str(raised.value)
    assert words in str(raised.value)


def test_two_suites_of_one_name_for_one_table_are_refused(suite):
    with pytest.raises(UsageError, match="has 2 suites named mine for silver/partition_hw"):
        own_suites({HW: [suite(NOT_NULL), suite(NOT_NULL)]})


@pytest.mark.parametrize(
    ("expectation", "words"),
    [
        ({**NOT_NULL, "kwargs": {"column": "hw", "colum": 1}}, "is none of Great Expectations"),
        ({**MEAN, "kwargs": {"column": "topic", "min_value": 1}}, f"cannot be judged on {HW}"),
    ],
)
def test_an_expectation_that_cannot_be_judged_is_named_in_one_line(lake, suite, expectation, words):
    put(lake, partition_hw, hw(0, 1))
    ((success, observed, _),) = judged(lake, {HW: suite(expectation)}).values()
    assert not success
    assert words in observed
    assert len(observed.splitlines()) == 1


def test_the_command_takes_suites_from_the_settings(lake, suite, tmp_path, monkeypatch):
    put(lake, partition_hw, hw(0, None))
    path, config = suite(NOT_NULL), tmp_path / "hwmark.toml"
    config.write_text(f'[check.suites]\n"{HW}" = "{path}"\n')
    asked = ["--config", str(config), "--gx", str(tmp_path / "q"), "--fail-on-check"]
    ran = CliRunner().invoke(app, ["check", "--lake", lake, *asked])
    assert "FAILED silver/partition_hw expect_column_values_to_not_be_null hw" in ran.output
    assert f"Data Docs: file://{tmp_path}/q/gx/uncommitted/data_docs/local_site/index.html" in ran.output
    assert ran.exit_code == 4


def test_a_project_without_suites_is_wrong_usage(lake):
    put(lake, partition_hw, hw(0, 1))
    ran = CliRunner().invoke(app, ["check", "--lake", lake, "--gx", "quality"])
    assert ran.exit_code == 2
    assert "[check.suites] names none" in ran.output
