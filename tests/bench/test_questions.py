"""Every engine answers the same questions, at each resolution and density, and a wrong answer is found out."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.bench.engines.answer import ANSWER, ISR_CHANGES, OUT_OF_SYNC, QUESTIONS, Disagreement, require_all_same
from pipelines.bench.engines.duckdb_window import DuckDBWindow
from pipelines.bench.engines.engine import Asked
from pipelines.bench.engines.limit import Limit
from pipelines.bench.engines.polars_window import PolarsWindow
from pipelines.bench.engines.replay import Replay
from pipelines.bench.workloads.workload import DENSE, SPARSE, write

HERE = (Replay, Limit, DuckDBWindow, PolarsWindow)


def got(engine, lake, folder, asked):
    made = engine(lake, str(folder), asked)
    made.prepare()
    made.run()
    answers, written = made.answers(), made.written()
    made.close()
    return answers, written


@pytest.mark.parametrize("appends", [DENSE, SPARSE])
@pytest.mark.parametrize("resolution_ms", [1000, 0])
def test_engines_without_spark_agree_in_every_question(tmp_path, appends, resolution_ms):
    lake = write(str(tmp_path / "lake"), 20_000, 60, appends).lake
    answers = {e.NAME: got(e, lake, tmp_path / e.NAME, Asked(resolution_ms))[0] for e in HERE}
    require_all_same(answers)
    assert {question: len(rows) > 0 for question, rows in answers["replay"].items()} == dict.fromkeys(QUESTIONS, True)


def test_every_change_tells_more_than_one_second_does(tmp_path):
    lake = write(str(tmp_path / "lake"), 20_000, 60, SPARSE).lake
    coarse, fine = (got(Limit, lake, tmp_path, Asked(ms))[0]["HWs"] for ms in (1000, 0))
    assert len(fine) > 5 * len(coarse)
    seconds = fine.group_by(["topic", "partition"]).aggregate([("hw", "max")])
    assert pc.sum(seconds["hw_max"]) == pc.sum(
        coarse.group_by(["topic", "partition"]).aggregate([("hw", "max")])["hw_max"]
    )


def test_a_stall_is_a_shrink_an_expand_and_one_stretch_out_of_sync(tmp_path):
    answers, _ = got(Limit, write(str(tmp_path / "lake"), 1_000, 20).lake, tmp_path, Asked())
    (stretch,) = answers["stretches out of sync"].to_pylist()
    shrink, expand = answers["ISR changes"].to_pylist()
    assert (shrink["partition"], expand["partition"]) == (stretch["partition"],) * 2
    assert shrink["isr_before"] == expand["isr_after"]
    assert set(shrink["isr_before"]) - set(shrink["isr_after"]) == {stretch["replica_id"]}
    assert stretch["since"] < shrink["us"] < stretch["until"] < expand["us"]


def test_engines_that_write_say_how_much(tmp_path):
    lake = write(str(tmp_path / "lake"), 20_000, 60).lake
    written = {e.NAME: got(e, lake, tmp_path / e.NAME, Asked())[1] for e in HERE}
    assert written["replay"] == written["limit"] == 0
    assert all(1_000 < written[e.NAME] < 1_000_000 for e in (DuckDBWindow, PolarsWindow))


KEY = {"topic": "t", "partition": 0}
RIGHT = {
    "HWs": pa.Table.from_pylist([KEY | {"us": 1, "hw": 5}], ANSWER),
    "ISR changes": pa.Table.from_pylist([KEY | {"us": 1, "isr_before": [1, 2], "isr_after": [1]}], ISR_CHANGES),
    "stretches out of sync": pa.Table.from_pylist([KEY | {"replica_id": 2, "since": 1, "until": 2}], OUT_OF_SYNC),
}


@pytest.mark.parametrize(
    ("question", "wrong", "named"),
    [
        ("HWs", KEY | {"us": 1, "hw": 6}, "'hw': 5.*'hw': 6"),
        ("ISR changes", KEY | {"us": 1, "isr_before": [1, 2], "isr_after": [2]}, r"\[1\].*\[2\]"),
        ("stretches out of sync", KEY | {"replica_id": 2, "since": 1, "until": 3}, "'until': 2.*'until': 3"),
    ],
)
def test_an_engine_that_is_wrong_in_one_question_is_named(question, wrong, named):
    require_all_same({"one": RIGHT, "other": dict(RIGHT)})
    other = RIGHT | {question: pa.Table.from_pylist([wrong], QUESTIONS[question])}
    with pytest.raises(Disagreement, match=f"one and other disagree: .*{named}"):
        require_all_same({"one": RIGHT, "other": other})
