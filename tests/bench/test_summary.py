"""The table of a comparison: medians, ratios of each round to the same round of DuckDB, and what is kept apart."""

import pyarrow as pa

from pipelines.bench.engines.duckdb_window import DuckDBWindow
from pipelines.bench.engines.engine import ASKED
from pipelines.bench.engines.replay import Replay
from pipelines.bench.measure.measured import Measured, Runner
from pipelines.bench.measure.summary import Comparison, parts, rows, summary
from pipelines.bench.workloads.workload import Load, write

LOAD = Load("lake", 6_000, 100, 20)


def measured(seconds, cpu=2.0, written=0, **parts):
    answers = {"HWs": pa.table({"x": [1, 2]}), "ISR changes": pa.table({"x": [1]})}
    return Measured(seconds, cpu, written, parts, answers)


def compared(*rounds):
    return Comparison(LOAD, ASKED, (Replay, DuckDBWindow), rounds, (5_000_000, None))


def test_seconds_are_medians_and_ratios_are_of_the_same_round():
    of = compared(*([measured(a), measured(b, written=3_000_000)] for a, b in ((1.0, 2.0), (2.0, 8.0), (9.0, 9.0))))
    replay, duckdb = rows(of)
    assert (replay["seconds"], replay["spread"], replay["events/s"]) == ("2.00", "1.00 to 9.00", "3,000")
    assert (replay["ratio"], duckdb["ratio"]) == ("2.00", "1.00")
    assert (replay["CPU s"], replay["events/CPU s"], replay["peak memory"]) == ("2.0", "3,000", "5 MB")
    assert (replay["written"], duckdb["written"]) == ("none", "3.0 MB")


def test_without_duckdb_there_is_no_ratio():
    assert rows(Comparison(LOAD, ASKED, (Replay,), [[measured(1.0)]], [None]))[0]["ratio"] is None


def test_the_text_says_what_was_compared_and_what_is_counted():
    text = summary(compared([measured(1.0, **{"the kernel alone": 0.5}), measured(2.0)]))
    assert "a row of the answer per 2,000.0 events; 1 interleaved rounds" in text
    assert "All agree on 2 HWs, 1 ISR changes" in text
    assert "of replay, the kernel alone: 0.50 s, 12,000 events/s" in text
    assert all(f"  {e.NAME}: {e.COUNTED}" in text for e in (Replay, DuckDBWindow))


def test_parts_are_medians_too():
    of = compared(*([measured(1.0, kernel=k), measured(1.0)] for k in (0.1, 0.2, 0.6)))
    assert parts(of) == ["of replay, kernel: 0.20 s, 30,000 events/s"]


def test_the_kernel_takes_a_part_of_the_seconds_of_replay(tmp_path):
    runner = Runner(Replay, write(str(tmp_path / "lake"), 6_000).lake, str(tmp_path))
    try:
        runner.measure()
        found = runner.measure()
        assert 0 < found.parts["the kernel alone"] < found.seconds
        assert runner.peak_bytes() > 20_000_000  # an interpreter with pyarrow
    finally:
        runner.close()
