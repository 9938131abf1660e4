"""A store that refuses, fails, delays and does requests twice: what is in the tables is what a disk would have."""

import os

import pytest

from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.replication import replay
from pipelines.streaming.sinks.sink import LakeWriter, SinkSettings
from pipelines.streaming.tables import HEALTH, KINDS, MINUTES, create_tables
from tests.objectstore.store import BUCKET, brought
from tests.objectstore.test_lake_on_s3 import progress_of
from tests.streaming.shell import same_rows
from tests.streaming.test_sink import HEALTHY, HW, ISR, MINUTE, begun, written

SEEDS = range(1, 13) if os.environ.get("FAULTS") == "all" else range(1, 2)
"""FAULTS=all pytest tests/objectstore/test_faulty_store.py tries more."""
RATE = 0.1


def reconstructed(lake: Lake) -> None:
    """The facts of all events, by the sink that `run` has, as one batch."""
    facts = replay(read_events(lake.root, storage_options=lake.storage_options))
    create_tables(lake)
    begun(lake, "q")
    out = LakeWriter(SinkSettings(lake.root, "q", 1, storage_options=dict(lake.storage_options)))
    out.commit([written(out, **facts.tables())], 0)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
def test_ingest_sink_and_upkeep_leave_what_they_leave_on_a_disk(store, logs, tmp_path, seed):
    remote, local = Lake(f"s3://{BUCKET}/faulty-{seed}", store.options), Lake(str(tmp_path / "lake"), {})
    brought(logs, local.root, {})
    reconstructed(local)
    store.faults(seed=seed, rate=RATE, repeat="_ingest")
    brought(logs, remote.root, store.options)
    reconstructed(remote)
    list(maintain(remote.root, vacuum_hours=0, storage_options=store.options))
    met = store.faults()
    assert met.keys() >= {"refused", "failed", "delayed", "repeated"}, met
    for kind in ("replication_events", *KINDS, HEALTH, *MINUTES):
        here, there = (lake.open(kind).to_pyarrow_table() for lake in (remote, local))
        assert same_rows(here, but=["quarantined_at"]) == same_rows(there, but=["quarantined_at"]), kind


def test_a_commit_that_is_done_and_answered_by_an_error_is_done(store):
    lake = f"s3://{BUCKET}/done"
    append_events(lake, progress_of("a"), app_id="t", version=0, storage_options=store.options)
    store.faults(repeat="_delta_log/")
    assert append_events(lake, progress_of("b"), app_id="t", version=1, storage_options=store.options)
    assert store.faults() == {"repeated": 1}
    assert read_events(lake, storage_options=store.options)["cluster"].to_pylist() == ["b", "a"]


@pytest.mark.parametrize("kind", ["partition_hw", "minute_stats", "cluster_minute", "broker_minute", HEALTH])
@pytest.mark.sampled(3)
def test_a_batch_whose_commit_to_one_table_was_repeated_is_there_once(store, kind):
    lake = Lake(f"s3://{BUCKET}/sink-{kind}", store.options)
    create_tables(lake)
    begun(lake, "q")
    out = LakeWriter(SinkSettings(lake.root, "q", 1, storage_options=store.options))
    got = [written(out, partition_hw=HW, isr_changes=ISR, minute_stats=MINUTE, partition_health=HEALTHY)]
    store.faults(repeat=f"{lake.path(kind)}/_delta_log/")
    out.commit(got, 0)
    assert store.faults() == {"repeated": 1}
    assert lake.open("partition_hw").to_pyarrow_table().num_rows == HW.num_rows
    assert lake.open("cluster_minute").to_pyarrow_table()["events"].to_pylist() == [3]
    assert lake.open(HEALTH).to_pyarrow_table().num_rows == 1
