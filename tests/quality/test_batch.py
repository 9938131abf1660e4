"""The suites of this package in a context of Great Expectations of the user's own, on a batch of bounded size."""

import os
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from pipelines.errors import UsageError
from pipelines.quality.batch import batch
from schemas import partition_hw
from tests.quality.lake_rows import put
from tests.quality.test_own_suites import HW, NOON, hw

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when the library is imported

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
(EXAMPLE,) = re.findall(r"^```python\n(.*?batch.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def later(row, **seconds):
    return row | {"leader_id": 1, "leader_epoch": 0, "ts": NOON + timedelta(**seconds)}


@pytest.fixture(autouse=True)
def no_spark_connect(monkeypatch):
    """The library looks for it, and its import ends a process that has no main file, as one of xdist."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect", None)


@pytest.fixture
def fallen(lake):
    """A table whose second version has a HW that falls below that of the first."""
    put(lake, partition_hw, later(hw(0, 50), seconds=1))
    put(lake, partition_hw, later(hw(0, 40), seconds=2), later(hw(1, 120), seconds=2))
    return lake


def failures_of(result):
    (judged,) = result.run_results.values()
    return sorted(r.expectation_config.meta["hwmark"] for r in judged.results if not r.success)


def test_the_example_of_the_documentation_runs_as_it_stands(fallen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(EXAMPLE, names)
    assert failures_of(names["result"]) == ["hw_at_most_leader_leo", "hw_never_falls_within_a_term"]
    assert names["version"] == 1
    (page,) = tmp_path.glob("quality/gx/uncommitted/data_docs/local_site/index.html")
    assert "hwmark" in page.read_text()


def test_a_checkpoint_with_an_action_of_ones_own_judges_what_is_new(fallen):
    import great_expectations as gx

    told = []

    class Tell(gx.checkpoint.ValidationAction):
        type: Literal["tell"] = "tell"

        def run(self, checkpoint_result, action_context=None):
            told.append(checkpoint_result.success)

    expectations, frame, version = batch(fallen, HW, after=0)
    assert (len(frame), version) == (2, 1)
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("lake").add_dataframe_asset("partition_hw")
    rows = asset.add_batch_definition_whole_dataframe("new")
    suite = context.suites.add(gx.ExpectationSuite(name="hwmark", expectations=expectations))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name="hwmark", data=rows, suite=suite))
    checkpoint = gx.Checkpoint(name="hwmark", validation_definitions=[definition], actions=[Tell(name="tell")])
    result = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
    assert failures_of(result) == ["hw_at_most_leader_leo", "hw_never_falls_within_a_term"]
    assert told == [False]
    assert batch(fallen, HW, after=version) is None


def test_more_rows_than_the_batch_may_have_are_refused_and_none_is_left_out(fallen):
    with pytest.raises(UsageError, match="has 3 new rows, more than most_rows=2: pass a later version"):
        batch(fallen, HW, most_rows=2)
    _, frame, _ = batch(fallen, HW, after=0, most_rows=2)
    assert len(frame) == 2


def test_a_table_without_a_suite_is_named_with_what_is_nearest(lake):
    with pytest.raises(UsageError, match="no suite on rows of 'silver/partition_hv'; did you mean silver/partition_hw"):
        batch(lake, "silver/partition_hv")
