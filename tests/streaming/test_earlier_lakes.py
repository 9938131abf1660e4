"""A lake that an earlier version began, in tests/lakes: its state has version 7, which is not read any more.

It was made by the commit that names it from the first half of the recording `unclean_election`, in two runs.
"""

import tarfile
from pathlib import Path

import pytest

from pipelines.lake.bronze import read_events
from pipelines.lake.lake import Lake
from pipelines.replication import Rules, replay
from pipelines.streaming.checkpoint.query import StateMismatch
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from tests.streaming.shell import same_rows

PACKED = Path(__file__).parents[1] / "lakes" / "f0eef1c.tar.xz"
LOSSES = ("cluster", "topic", "partition", "class", "lost_from", "lost_to")


@pytest.mark.spark
def test_a_lake_of_version_7_is_refused_in_one_line_and_rebuilt(spark, tmp_path):
    with tarfile.open(PACKED) as packed:
        packed.extractall(tmp_path, filter="data")
    lake = str(tmp_path / "lake")
    with pytest.raises(StateMismatch) as refused:
        run(lake, Rules(), RunOptions(drain=True))
    assert str(refused.value) == (
        "this lake was written by an earlier hwmark: its _run/query.json has no keys, and its state another version: "
        "start silver anew from bronze with `hwmark run --rebuild`"
    )
    run(lake, Rules(), RunOptions(drain=True, rebuild=True))
    place, expected = Lake(lake, {}), replay(read_events(lake))
    for kind, columns in {"hw_regressions": LOSSES, "isr_changes": ("topic", "partition", "isr_after")}.items():
        found, want = place.open(kind).to_pyarrow_table(), getattr(expected, kind)
        assert len(want)
        assert same_rows(found.select(columns)) == same_rows(want.select(columns)), kind
