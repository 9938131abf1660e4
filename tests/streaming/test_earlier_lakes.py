"""Lakes that earlier versions began go on: state, checkpoint and tables as they left them, in tests/lakes.

Each was made by the commit that names it from the first half of the recording `unclean_election`, in two runs.
"""

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.replication import Rules, replay
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from tests.streaming.shell import same_rows

LAKES = Path(__file__).parents[1] / "lakes"
LOSSES = ("cluster", "topic", "partition", "class", "lost_from", "lost_to")


def rest_of(lake):
    """What was read of the recording after the half that the lake has, in the order of time."""
    events = read_logs([traces.path("unclean_election")], "unclean_election")
    events = events.take(pa.array(np.argsort(events["ts"].cast(pa.int64()).to_numpy(), kind="stable")))
    had = read_events(lake).select(["source_id", "source_seq"]).to_pylist()
    known = {(row["source_id"], row["source_seq"]) for row in had}
    keys = zip(events["source_id"].to_pylist(), events["source_seq"].to_pylist(), strict=True)
    return events.filter(pa.array([key not in known for key in keys]))


def less_known(row):
    """A start called safe before that a state without the lives of brokers cannot call so any more."""
    return row["class"] == "loss_not_excluded" and row["revision"] > 1


@pytest.mark.spark
@pytest.mark.parametrize("begun", sorted(path.name.partition(".")[0] for path in LAKES.glob("*.tar.xz")))
def test_a_lake_of_an_earlier_version_goes_on(spark, tmp_path, begun):
    with tarfile.open(LAKES / f"{begun}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    lake = str(tmp_path / "lake")
    before = Lake(lake, {}).open("partition_hw").to_pyarrow_table().num_rows
    assert before > 0
    append_events(lake, rest_of(lake), app_id="rest", version=0)
    run(lake, Rules(), RunOptions(drain=True))
    place, expected = Lake(lake, {}), replay(read_events(lake))
    for kind, columns in {"hw_regressions": LOSSES, "isr_changes": ("topic", "partition", "isr_after")}.items():
        found, want = place.open(kind).to_pyarrow_table(), getattr(expected, kind)
        assert len(want)
        if kind == "hw_regressions":
            found = found.filter(pa.array([not less_known(row) for row in found.to_pylist()]))
        assert same_rows(found.select(columns)) == same_rows(want.select(columns)), kind
    hws = [set(map(tuple, (r.values() for r in t.filter(np.asarray(t["kind"]) == "advance").select(
        ["topic", "partition", "leader_epoch", "hw"]).to_pylist()))) for t in (
        place.open("partition_hw").to_pyarrow_table(), expected.partition_hw)]  # fmt: skip
    assert hws[0] == hws[1]
    shutil.rmtree(lake)
