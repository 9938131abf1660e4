"""Suites of the user's own, as Great Expectations exports them: judged on any table, and what is wrong in one line."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.quality import frames
from pipelines.quality.check import check
from pipelines.quality.suites import _judged_types, own_suites
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


def test_what_is_counted_in_pieces_is_added_up(lake, suite, monkeypatch):
    """Half of the rows of the first two pieces are null, but only two of five in all."""
    monkeypatch.setattr(frames, "PORTION", 2)
    put(lake, partition_hw, *(hw(number, None if number in (0, 3) else 1) for number in range(5)))
    found = judged(lake, {HW: suite({**NOT_NULL, "kwargs": {"column": "hw", "mostly": 0.6}}, NOT_NULL)})
    assert found == {
        "expect_column_values_to_not_be_null hw": (True, "2 of 5 new rows", 2),
        "expect_column_values_to_not_be_null hw #2": (False, "2 of 5 new rows", 2),
    }


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


def on(column, kind="expect_column_values_to_not_be_null"):
    return {"type": kind, "kwargs": {"column": column}}


@pytest.mark.parametrize(
    ("table", "expectation", "words"),
    [
        (
            "silver/partition_hv",
            NOT_NULL,
            "names the table 'silver/partition_hv', which no lake has; did you mean " + HW,
        ),
        (
            HW,
            on("hw", "expect_column_values_to_be_nul"),
            "nor over a set of rows; did you mean expect_column_values_to_be_null?",
        ),
        (HW, on("hwm"), f"is about the column 'hwm', which {HW} does not have; did you mean hw?"),
        (HW, "expect", "has the expectation 'None'"),
    ],
)
def test_what_is_wrong_with_a_suite_is_named_with_what_is_nearest(suite, table, expectation, words):
    with pytest.raises(UsageError) as raised:
        own_suites({table: suite(expectation)})
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist; fix [check.suites] or create the file"),
        ("{", "cannot be read as JSON"),
        ("[]", "is a list"),
        ('{"name": "x"}', '"expectations" is empty; list at least one'),
        ('{"expectations": [1]}', '"name" is missing; set it'),
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
        ({**MEAN, "kwargs": {"column": "topic", "min_value": 1}}, "could not be judged: "),
        (
            {"type": "expect_column_values_to_be_between", "kwargs": {"column": "topic", "min_value": 1}},
            "of the same type",
        ),
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


def rows_in_files(lake, *rows):
    """Commits each row alone, which makes as many files."""
    for row in rows:
        put(lake, partition_hw, row)


HELD = {"column": "hw", "min_value": 0, "max_value": 10}
QUANTILES = {"quantiles": [0, 0.4, 1], "value_ranges": [[5, 5], [10, 10], [80, 80]]}


def about(kind, **kwargs):
    return {"type": f"expect_{kind}", "kwargs": kwargs}


@pytest.mark.parametrize(
    ("expectation", "held", "observed"),
    [
        (about("table_row_count_to_equal", value=4), True, "4 observed in"),
        (about("column_values_to_be_unique", column="hw"), False, "2 of"),
        (about("compound_columns_to_be_unique", column_list=["topic", "hw"]), False, "2 of"),
        (about("column_mean_to_be_between", **HELD), False, "26.25 observed in"),
        (about("column_sum_to_be_between", **HELD), False, "105 observed in"),
        (about("column_median_to_be_between", **HELD), True, "10.0 observed in"),
        (about("column_max_to_be_between", **HELD), False, "80 observed in"),
        (about("column_min_to_be_between", **HELD), True, "5 observed in"),
        (about("column_stdev_to_be_between", **HELD), False, "35.91076904402541 observed in"),
        (about("column_unique_value_count_to_be_between", **HELD), True, "3 observed in"),
        (about("column_proportion_of_unique_values_to_be_between", **HELD), True, "0.75 observed in"),
        (about("column_proportion_of_non_null_values_to_be_between", **HELD), True, "1.0 observed in"),
        (about("column_most_common_value_to_be_in_set", column="hw", value_set=[10]), True, "[10] observed in"),
        (about("column_distinct_values_to_be_in_set", column="hw", value_set=[5, 80]), False, "1 of"),
        (about("column_distinct_values_to_equal_set", column="hw", value_set=[5, 10, 80]), True, ""),
        (about("column_distinct_values_to_contain_set", column="hw", value_set=[5, 20]), False, "missing [20] in"),
        (about("column_value_z_scores_to_be_less_than", column="hw", threshold=1, double_sided=True), False, "1 of"),
        (about("column_quantile_values_to_be_between", column="hw", quantile_ranges=QUANTILES), True,
         "{'quantiles': [0, 0.4, 1], 'values': [5, 10, 80]} observed in"),
    ],
)  # fmt: skip
@pytest.mark.sampled(6)
@pytest.mark.parametrize("compacted", [False, True], ids=["in files", "compacted"])
def test_what_is_about_a_whole_set_is_judged_on_all_new_rows(lake, suite, compacted, expectation, held, observed):
    """Not on those of one file at a time: how a lake is cut into files is nothing a suite is about."""
    rows_in_files(lake, hw(0, 10), hw(1, 80), hw(2, 5), hw(3, 10))
    if compacted:
        DeltaTable(f"{lake}/{HW}").optimize.compact()
    ((found, words, _),) = judged(lake, {HW: suite(expectation)}).values()
    assert (found, words) == (held, f"{observed} 4 new rows".strip())


def test_an_expectation_added_to_a_suite_that_was_judged_is_judged_on_what_is_there(lake, suite):
    put(lake, partition_hw, hw(0, 5), hw(1, 7))
    assert judged(lake, {HW: suite(NOT_NULL)})["expect_column_values_to_not_be_null hw"][0]
    below = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "hw", "max_value": 6}}
    assert judged(lake, {HW: suite(NOT_NULL, below)}) == {
        "expect_column_values_to_not_be_null hw": (True, "nothing new, still version 0", 0),
        "expect_column_values_to_be_between hw": (False, "1 of 2 new rows", 1),
    }
    assert judged(lake, {HW: suite(NOT_NULL, below)})["expect_column_values_to_be_between hw"][0]


@pytest.mark.parametrize(
    "kind",
    [
        "expect_column_values_to_be_increasing",
        "expect_column_values_to_not_be_outliers",
        "expect_column_kl_divergence_to_be_less_than",
        "expect_table_row_count_to_equal_other_table",
        "unexpected_rows_expectation",
        "expect_column_values_to_match_like_pattern",
    ],
)
def test_what_is_judged_neither_by_row_nor_over_a_set_is_refused_by_name(suite, kind):
    with pytest.raises(UsageError, match=f"has the expectation '{kind}'"):
        own_suites({HW: suite({"type": kind, "kwargs": {"column": "hw"}})})


def test_a_set_is_judged_on_the_rows_that_meet_its_condition(lake, suite):
    rows_in_files(lake, hw(0, 10), hw(1, 10), hw(2, 80))
    only = {"column": "hw", "row_condition": "partition > 0", "condition_parser": "pandas"}
    other = {**only, "row_condition": "partition < 2"}
    found = judged(
        lake,
        {
            HW: suite(
                about("column_values_to_be_unique", **only),
                about("column_values_to_be_unique", **other),
                {**MEAN, "kwargs": {**only, "min_value": 45}},
            )
        },
    )
    assert found == {
        "expect_column_values_to_be_unique hw #2": (False, "2 of 3 new rows", 2),
        "expect_column_values_to_be_unique hw": (True, "3 new rows", 0),
        "expect_column_mean_to_be_between hw": (True, "45.0 observed in 3 new rows", 0),
    }


def test_every_expectation_that_is_not_refused_is_judged_by_row_or_over_a_set():
    """Each asks the engine for metrics that it knows, or for those of a condition on rows."""
    from great_expectations.expectations.registry import get_expectation_impl, get_metric_provider

    from pipelines.quality.engine import FROM_METRICS, SETS, RangeEngine

    known = {*SETS, *FROM_METRICS, "column.median", "column.quantile_values"}
    for kind in _judged_types():
        found = get_expectation_impl(kind)
        if condition := getattr(found, "map_metric", None):
            get_metric_provider(f"{condition}.condition", RangeEngine())
        else:
            assert known.issuperset(found.metric_dependencies), kind


def test_an_expectation_that_the_library_cannot_start_has_not_held_and_says_why(lake, suite, monkeypatch):
    """Its error is then one for all metrics, not one for each."""
    monkeypatch.setattr("pipelines.quality.suites.REFUSED", re.compile("nothing"))
    _judged_types.cache_clear()
    put(lake, partition_hw, hw(0, 1))
    found = judged(lake, {HW: suite(about("column_values_to_match_like_pattern", column="topic", like_pattern="o%"))})
    _judged_types.cache_clear()
    ((held, words, _),) = found.values()
    assert not held
    assert words.startswith("could not be judged: No provider found for column_values.match_like_pattern")
