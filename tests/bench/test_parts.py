"""The parts of the benchmark that start processes of their own, on the smallest sizes."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.bench.engines.engine import Asked
from pipelines.bench.engines.spark_job import cores
from pipelines.bench.measure import incident, ingested, live, restart, starts
from pipelines.bench.measure.throughput import MASTERS
from pipelines.commands.simulate.plan import plan
from pipelines.settings import Simulate


def quiet(text):
    pass


@pytest.mark.spark
def test_events_appended_while_the_job_runs_are_in_gold(monkeypatch):
    monkeypatch.setattr(live, "WARM_BATCHES", 1)
    section = live.measure(3_000, 15.0, quiet)
    (row,) = re.findall(
        r"^waited for nobody +([\d,]+) +([\d.]+) s +([\d.]+) s +([\d.]+) s +([\d.]+) s$", section.text, re.M
    )
    assert int(row[0].replace(",", "")) > 1_000
    p50, p95, p99, most = map(float, row[1:])
    assert 0 < p50 <= p95 <= p99 <= most
    assert "the job" in section.text
    assert section.points


@pytest.mark.spark
def test_a_rolling_restart_is_reconstructed_alike_by_replay_and_the_job():
    section = incident.measure(1, quiet, brokers=4, partitions=20, seconds=70)
    (changes,) = re.findall(r"All agree on [\d,]+ HWs, ([\d,]+) ISR changes, [1-9]", section.text)
    assert int(changes) >= 4 * 20
    assert len(re.findall(r"^(replay|Spark job) +[\d.]+ ", section.text, re.M)) == 2


@pytest.mark.spark
def test_a_restart_reads_the_next_second_with_the_state_there_was():
    section = restart.measure([300], quiet)
    (row,) = re.findall(r"^300 .*$", section.text, re.M)
    cells = re.split(r"\s{2,}", row)
    assert cells[3] == "924"  # 300 partitions x 3, and the progress of 12 brokers twice
    assert float(cells[5].split()[0]) > 0
    assert int(cells[6].split()[0]) > 100


def test_each_way_of_starting_processes_is_compared_with_the_one_before():
    took = {way: [starts.Took(20.0 - way, 9.0 - way)] * 3 for way in range(len(starts.WAYS))}
    rows = starts._rows(took)
    assert [row["run --once"] for row in rows] == ["20.0 s", "19.0 s", "18.0 s"]
    assert [row["saved"] for row in rows] == ["0.0 s", "1.0 s", "1.0 s"]
    assert [row["CPU s saved"] for row in rows] == ["0.0", "1.0", "1.0"]


def test_a_way_leaves_out_what_comes_behind_it(monkeypatch):
    from pipelines.streaming import session
    from pipelines.streaming.workers import zygote

    for module, name in ((session, "warm_workers"), (zygote, "start")):
        monkeypatch.setattr(module, name, "warm")
    left_out = []
    for way in reversed(range(len(starts.WAYS))):
        starts._start_as(way)
        found = session.warm_workers, zygote.start
        left_out.append(sum(value != "warm" for value in found))
    assert left_out == [0, 1, 2]
    assert session.warm_workers() == {}


def test_the_logs_of_each_level_are_of_one_cluster(tmp_path):
    from generators.brokerlogs.ingest import ingest_logs

    folders = {level: tmp_path / str(level) for level in ingested.LEVELS}
    ingested.write_logs(plan(Simulate(brokers=3, partitions=4, duration=5, load=["steady:20"])), folders)
    found = {
        level: ingest_logs([folder], cluster="c", lake=str(tmp_path / f"lake-{level}"))
        for level, folder in folders.items()
    }
    lines = [found[level].line_count for level in ingested.LEVELS]
    assert lines == sorted(lines, reverse=True)
    assert lines[0] > 2 * lines[1] > 2 * lines[2] > 0
    assert {source.level for source in found[3].sources if source.source_id.startswith("broker-1/")} == {3}
    assert {source.level for source in found[2].sources if source.source_id.startswith("broker-1/")} == {2}


def test_bytes_of_columns_are_those_of_their_rows_only(tmp_path):
    sizes = []
    for count in (1_000, 2_000):
        folder = tmp_path / str(count)
        (folder / "t" / "_delta_log").mkdir(parents=True)
        rows = pa.table({"x": np.random.default_rng(1).integers(0, 1 << 60, count)})
        pq.write_table(rows, folder / "t" / "a.parquet", use_dictionary=False)
        pq.write_table(rows, folder / "t" / "_delta_log" / "1.checkpoint.parquet")
        sizes.append(ingested.column_bytes(folder))
    assert 8_000 < sizes[0] < 8_100
    assert 1.95 < sizes[1] / sizes[0] < 2.05


def test_cores_of_a_master():
    assert [cores(asked.master) for asked in MASTERS.values()] == [1, 2, 2]
    assert cores(Asked().master) >= 1
