"""The benchmark runs, its engines agree, and one that does not is found out."""

import multiprocessing
import os
import subprocess
import sys
import time
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from pipelines.lake.bronze import append_events
from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.events import row_rules
from schemas import partition_health, replication_events
from tests.bench.answers import QUESTIONS, Disagreement, answers_of, require_same
from tests.bench.compare import Measured, Runner, compare, table
from tests.bench.engines import ASKED, Asked, DuckDBWindow, Limit, Replay
from tests.bench.live import APP, SAMPLED, Ended, arrivals, kept_up, latency
from tests.bench.load import DENSE, LAG_MAX_MS, RULES, SPARSE, rounds, write
from tests.bench.processes import cpu_seconds, memory_bytes

pytestmark = pytest.mark.long


@pytest.mark.nightly
@pytest.mark.spark
def test_the_engines_agree():
    words = [sys.executable, "-m", "tests.bench", "dense", "--events", "20000", "--rounds", "1"]
    printed = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    assert "All agree on" in printed
    assert printed.count("\nreplay ") == printed.count("\nSpark job ") == printed.count("\nDuckDB window ") == 1


@pytest.mark.nightly
@pytest.mark.parametrize(("appends", "resolution_ms"), [(DENSE, 1000), (SPARSE, 1000), (DENSE, 0)])
def test_replay_and_the_window_agree_at_every_density_and_resolution(appends, resolution_ms, tmp_path):
    load = write(str(tmp_path / "lake"), 20_000, 150, appends)
    said = compare(load, (Replay, DuckDBWindow, Limit), 1, Asked(resolution_ms))
    assert "All agree on" in said
    assert "0 ISR changes" not in said
    assert "0 stretches" not in said


ONE = {
    "HWs": {"us": 1, "hw": 5},
    "ISR changes": {"us": 1, "isr_before": [1, 2], "isr_after": [1]},
    "stretches out of sync": {"replica_id": 2, "since": 1, "until": 2},
}


def answers(**changed):
    return {
        question: pa.Table.from_pylist([{"topic": "t", "partition": 0, **row, **changed}], QUESTIONS[question])
        for question, row in ONE.items()
    }


@pytest.mark.parametrize("changed", [{"hw": 6}, {"isr_after": [2]}, {"until": 3}], ids=str)
def test_an_engine_that_is_wrong_in_one_question_is_named(changed):
    require_same({"one": answers(), "same": answers()})
    with pytest.raises(Disagreement, match="one and other disagree: "):
        require_same({"one": answers(), "other": answers(**changed)})


def test_engines_that_give_nothing_do_not_agree():
    nothing = {question: rows.slice(1) for question, rows in answers().items()}
    with pytest.raises(Disagreement, match="one gives no high watermark"):
        require_same({"one": nothing, "other": nothing})


def test_a_failing_engine_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"replay: .*nowhere"):
        Runner(Replay, str(tmp_path / "nowhere" / "\0"), str(tmp_path), ASKED)


def test_ratios_are_medians_of_those_to_the_same_round_of_duckdb():
    rounds = [
        {"replay": Measured(a, 2.0, 0, {}), "DuckDB window": Measured(b, 2.0, 3_000_000, {})}
        for a, b in ((1.0, 2.0), (2.0, 8.0), (9.0, 9.0))
    ]
    one, other = table(6_000, rounds, {"replay": 5_000_000, "DuckDB window": 1})
    assert (one["seconds"], one["spread"], one["ratio"], one["written"]) == ("2.00", "1.00 to 9.00", "2.00", "none")
    assert (other["ratio"], other["written"], one["peak memory"]) == ("1.00", "3.0 MB", "5 MB")


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


def test_the_load_keeps_the_contract_and_is_the_same_for_a_seed():
    whole, again = (pa.concat_tables(rounds(150, 14, step=5)) for _ in range(2))
    assert whole.equals(again)
    assert row_rules.split(whole)[1].num_rows == 0
    appended = whole.filter(pc.equal(whole["event_type"], "append"))
    assert 0.95 * 150 * 14 < len(appended) <= 150 * 14
    assert 2.9 * len(appended) < len(whole) < 3.5 * len(appended)


def test_the_reconstruction_sees_that_followers_are_cut_off():
    facts = replay(pa.concat_tables(rounds(150, 14)), Rules(lag_max_ms=LAG_MAX_MS))
    causes = facts.isr_changes.group_by(["change", "cause"], use_threads=False).aggregate([([], "count_all")])
    (shrink, expand) = causes.to_pylist()
    assert (shrink["change"], shrink["cause"], expand["change"], expand["cause"]) == (
        "shrink", "lag", "expand", "caught_up",
    )  # fmt: skip
    assert shrink["count_all"] == expand["count_all"] > 5
    assert not any(map(len, (facts.hw_regressions, facts.telemetry_gaps, facts.quarantine)))


def test_at_the_end_of_a_load_nothing_waits_for_others():
    """Else the job, which does not know that nothing follows, would tell less than `replay`."""
    events = pa.concat_tables(rounds(150, 14))
    told, whole = Reconstructor(RULES).update(events), replay(events, RULES)
    require_same({"update": answers_of(told.tables(), 1_000_000), "replay": answers_of(whole.tables(), 1_000_000)})


def stamped(table, version, at):
    os.utime(table / "_delta_log" / f"{version:020}.json", (at, at))


def lake(root, golds):
    """Three commits of bronze at 1, 2 and 3 s, and gold at each (time, seconds that it is behind them)."""
    for second, events in enumerate(rounds(SAMPLED + 1, 3, step=1)):
        append_events(str(root), events, app_id=APP, version=second)
        stamped(root / replication_events.TABLE.path, second + 1, second + 1.0)
    last = pc.max(events.filter(pc.is_valid(events["topic"]))["ts"]).as_py()
    schema = pa.schema([f for f in partition_health.ARROW if f.name in ("topic", "partition", "last_event_ts")])
    for version, (at, behind) in enumerate(golds):
        rows = [
            {"topic": "orders", "partition": p, "last_event_ts": last - timedelta(seconds=behind)} for p in (0, SAMPLED)
        ]
        gold = root / partition_health.TABLE.path
        write_deltalake(str(gold), pa.Table.from_pylist(rows, schema), mode="overwrite")
        stamped(gold, version, at)
    return root


def test_an_event_has_arrived_with_the_first_gold_that_tells_its_partition_as_far(tmp_path):
    events, waited = arrivals(lake(tmp_path, [(4.0, 99.0), (9.0, 0.0)]), 1)
    assert set(waited) == {7.0, 6.0}
    assert events.sum() >= 2 * 2 * 3


def test_what_gold_never_had_is_counted(tmp_path):
    events, waited = arrivals(lake(tmp_path, [(4.0, 99.0)]), 0)
    assert np.isinf(waited).all()
    assert f"{events.sum():,}" in latency(events, waited)


def test_latencies_are_shares_of_events_not_of_rows():
    said = latency(np.array([1, 98, 1, 7]), np.array([9.0, 1.0, 30.0, np.inf])).splitlines()[-1].split()
    assert said == ["all", "100", "7", "1.0", "s", "1.0", "s", "9.0", "s", "30.0", "s"]


def test_a_backlog_that_grows_is_seen():
    said = kept_up([Ended(5.0 * k, 1000, 4.0, k) for k in range(9)])
    assert "1 in the first third, 7 in the last, at most 8" in said


def test_a_part_that_there_is_not_is_named():
    done = subprocess.run([sys.executable, "-m", "tests.bench", "no"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no part no: dense, sparse" in done.stderr
