"""The benchmark runs, its engines agree, and one that does not is found out."""

import multiprocessing
import os
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines import bench
from pipelines.bench.engines.answer import ANSWER, Disagreement, require_same
from pipelines.bench.engines.duckdb_window import DuckDBWindow
from pipelines.bench.engines.replay import Replay
from pipelines.bench.measure.measured import Runner
from pipelines.bench.measure.processes import cpu_seconds, memory_bytes
from pipelines.bench.workloads.load import rounds
from pipelines.bench.workloads.workload import write
from pipelines.lake.bronze import append_events
from pipelines.replication.events import row_rules

EVENTS = 30_000


@pytest.mark.spark
def test_the_engines_agree(monkeypatch, capsys):
    monkeypatch.setattr(bench, "ROUNDS", 1)
    bench.main(EVENTS)
    printed = capsys.readouterr().out
    assert "All agree on" in printed
    assert [line.split("  ")[0] for line in printed.splitlines()[3:6]] == ["replay", "Spark job", "DuckDB window"]


def answered(engine, tmp_path, events=6_000):
    made = engine(write(str(tmp_path / "lake"), events).lake, str(tmp_path))
    made.prepare()
    made.run()
    return made.answer()


def test_replay_and_the_window_agree_and_see_followers_that_are_behind(tmp_path):
    got, window = answered(Replay, tmp_path / "a"), answered(DuckDBWindow, tmp_path / "b")
    require_same({"replay": got, "window": window})
    events = pa.concat_tables(rounds(100, 20))
    appended = events.filter(pc.equal(events["event_type"], "append"))
    assert 0 < pc.sum(got["hw"]).as_py() < pc.sum(appended["leader_leo"]).as_py()
    assert len(got) > 100 * 10


ONE = pa.Table.from_pylist([{"topic": "t", "partition": 0, "second": 1, "hw": 5}], ANSWER)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (pa.Table.from_pylist([{"topic": "t", "partition": 0, "second": 1, "hw": 6}], ANSWER), "'hw': 5.*'hw': 6"),
        (pa.concat_tables([ONE, ONE]), "1 and 2 rows"),
        (ONE.slice(1), "1 and 0 rows"),
    ],
)
def test_an_engine_that_tells_another_hw_is_named(other, named):
    require_same({"one": ONE, "same": ONE})
    with pytest.raises(Disagreement, match=f"one and other disagree: .*{named}"):
        require_same({"one": ONE, "other": other})


def test_engines_that_give_nothing_do_not_agree():
    with pytest.raises(Disagreement, match="one gives no high watermark"):
        require_same({"one": ONE.slice(1), "other": ONE.slice(1)})


def test_a_failing_engine_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"replay: .*nowhere"):
        Runner(Replay, str(tmp_path / "nowhere" / "\0"), str(tmp_path))


def _busy():
    begun = time.process_time()
    while time.process_time() - begun < 0.5:
        pass
    time.sleep(60)


def test_descendants_count():
    child = multiprocessing.get_context("fork").Process(target=_busy)
    before = cpu_seconds(os.getpid())
    child.start()
    try:
        while cpu_seconds(child.pid) < 0.3:
            time.sleep(0.05)
        assert cpu_seconds(os.getpid()) - before >= 0.29
        assert memory_bytes(os.getpid()) > memory_bytes(child.pid) > 0
    finally:
        child.kill()
        child.join()


def test_the_load_is_the_same_for_a_seed_and_however_it_is_cut():
    whole = pa.concat_tables(rounds(20, 12, brokers=4))
    cut = pa.concat_tables(rounds(20, 12, brokers=4, step=3))
    key = [("source_id", "ascending"), ("source_seq", "ascending")]
    assert whole.equals(pa.concat_tables(rounds(20, 12, brokers=4)))
    assert whole.sort_by(key).equals(cut.sort_by(key))
    assert not whole.equals(pa.concat_tables(rounds(20, 12, brokers=4, seed=2)))


def test_the_load_keeps_the_contract(tmp_path):
    events = pa.concat_tables(rounds(20, 12, brokers=4))
    assert len(events) == 20 + 20 * 12 * 3 + 4 * 13
    assert row_rules.split(events)[1].num_rows == 0
    for series, number in ((["source_id"], "source_seq"), (["source_id", "topic", "partition"], "seq")):
        got = events.group_by(series).aggregate([(number, "min"), (number, "max"), (number, "count_distinct")])
        assert pc.all(pc.equal(got[f"{number}_min"], 0)).as_py()
        assert got[f"{number}_max"].to_pylist() == [n - 1 for n in got[f"{number}_count_distinct"].to_pylist()]
    assert append_events(str(tmp_path), events, app_id="t", version=0)
