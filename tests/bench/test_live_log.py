"""From the logs of a lake: how long each event took from its commit to gold, and which of them waited for others."""

import json
import os
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from pipelines.bench.measure.live import Ended, _kept_up, _latency
from pipelines.bench.measure.live_log import SAMPLED, arrivals
from pipelines.bench.workloads.load import rounds
from pipelines.lake.bronze import append_events
from schemas import partition_health, replication_events

APP, QUERY = "bench-live", "a-query"


def stamped(table, version, at):
    os.utime(table / "_delta_log" / f"{version:020}.json", (at, at))


def lake(tmp_path, golds, read):
    """Three commits of bronze at 1, 2 and 3 s, and gold at each (time, second up to which it has each partition).

    `read`: per batch, so many versions of bronze.
    """
    root = tmp_path / "lake"
    for second, events in enumerate(rounds(2 * SAMPLED, 3, step=1, brokers=2)):
        append_events(str(root), events, app_id=APP, version=second)
        bronze = root / replication_events.TABLE.path
        stamped(bronze, second + 1, second + 1.0)
    last = {}
    for row in events.to_pylist():
        last[row["topic"], row["partition"]] = row["ts"].timestamp()
    for batch, (at, behind) in enumerate(golds):
        rows = [
            {"cluster": "bench", "topic": topic, "partition": p, "last_event_ts": datetime.fromtimestamp(ts - b, UTC)}
            for (topic, p), ts in last.items()
            for b in [behind(p)]
            if p >= 0
        ]
        properties = CommitProperties(app_transactions=[Transaction(QUERY, batch)])
        gold = root / partition_health.TABLE.path
        names = {"cluster", "topic", "partition", "last_event_ts"}
        schema = pa.schema([f for f in partition_health.ARROW if f.name in names])
        made = pa.Table.from_pylist(rows, schema)
        write_deltalake(str(gold), made, mode="overwrite", commit_properties=properties)
        stamped(gold, batch, at)
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for batch, versions in enumerate(read):
        offset = {"snapshot": 0, "version": versions + 1, "index": 0, "events": 0}
        (offsets / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    return root, tmp_path / "checkpoint"


def test_an_event_has_arrived_with_the_first_gold_that_tells_its_partition_as_far(tmp_path):
    found = arrivals(*lake(tmp_path, [(4.0, lambda p: 1.5), (9.0, lambda p: 0)], [1, 3]), APP, 0)
    assert sorted(set(found.seconds)) == [3.0, 6.0, 7.0]
    assert found.events.sum() == 2 * (1 + 3 * 3)
    assert not found.waited.any()
    assert found.lost == 0


def test_what_a_batch_read_and_gold_did_not_have_yet_waited_for_others(tmp_path):
    late = lambda p: 2.5 if p == 0 else 0  # noqa: E731
    found = arrivals(*lake(tmp_path, [(4.0, late), (9.0, lambda p: 0)], [3, 3]), APP, 0)
    assert found.events[found.waited].sum() == 3 + 3 + 4
    assert found.seconds[found.waited].min() == 6.0
    assert found.seconds[~found.waited].max() == 3.0


def test_what_gold_never_had_is_counted(tmp_path):
    found = arrivals(*lake(tmp_path, [(4.0, lambda p: 0.5 if p == 0 else 1.5)], [2]), APP, 0)
    assert found.lost == 3 + 2 * 3
    assert found.events.sum() == 2 * 4 + 3


def test_commits_before_the_first_do_not_count(tmp_path):
    found = arrivals(*lake(tmp_path, [(9.0, lambda p: 0)], [3]), APP, 2)
    assert set(found.seconds) == {6.0}


def test_latencies_are_shares_of_events_not_of_rows():
    import numpy as np

    row = _latency("all", np.array([1, 98, 1]), np.array([9.0, 1.0, 30.0]))
    assert (row["events"], row["p50"], row["p95"], row["p99"], row["most"]) == (
        "100",
        "1.0 s",
        "1.0 s",
        "9.0 s",
        "30.0 s",
    )
    assert _latency("none", np.zeros(0), np.zeros(0))["p50"] is None


def test_a_backlog_that_grows_is_seen():
    got = _kept_up([Ended(5.0 * k, 1000, 4.0, k) for k in range(9)])
    assert "1 in the first third, 7 in the last, at most 8" in got
    assert "too few" in _kept_up([Ended(5.0, 1000, 4.0, 0)])


def test_a_batch_whose_offsets_were_cleared_away_is_no_guess(tmp_path):
    root, checkpoint = lake(tmp_path, [(4.0, lambda p: 1.5), (9.0, lambda p: 0)], [1, 3])
    (checkpoint / "offsets" / "0").unlink()
    with pytest.raises(RuntimeError, match="batch 0 read is not known"):
        arrivals(root, checkpoint, APP, 0)
