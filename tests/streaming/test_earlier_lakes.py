"""Lakes that earlier versions began, in tests/lakes: that of state version 7 is not read any more, the other goes on.

Each was made by the commit that names it from the first half of the recording `unclean_election`: f0eef1c in two runs,
f6b275e in one run and a check.
"""

import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import ingest_logs
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.replication import Rules, replay
from pipelines.streaming.checkpoint.query import StateMismatch
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.verdict import Limits, verdict
from pipelines.verdict.collect import survey
from tests.streaming.shell import same_rows

LAKES = Path(__file__).parents[1] / "lakes"
LOSSES = ("cluster", "topic", "partition", "class", "lost_from", "lost_to")


def hws(place):
    rows = place.open("partition_hw").to_pyarrow_table().select(["topic", "partition", "ts", "kind", "hw"])
    return {tuple(row.values()) for row in rows.to_pylist()}


def unpack(commit, folder):
    with tarfile.open(LAKES / f"{commit}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return str(folder / "lake")


@pytest.mark.spark
def test_a_lake_of_version_7_is_refused_in_one_line_and_rebuilt(spark, tmp_path):
    lake = unpack("f0eef1c", tmp_path)
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


@pytest.mark.spark
def test_a_lake_of_f6b275e_goes_on_and_is_not_calm_about_what_that_version_judged(spark, tmp_path):
    lake = unpack("f6b275e", tmp_path)
    place = Lake(lake, {})
    before = hws(place)

    def said():
        now = datetime.now(UTC)
        (record,) = survey(place, Filter(), timedelta(hours=24), Limits(), now).records
        return " ".join(line.text for line in verdict(record, Limits(), now).lines)

    run(lake, Rules())
    assert "whether anything was lost is not known" in said()
    assert "judged by an earlier hwmark until 2026-11-21 01:29:09 UTC: `hwmark run --rebuild` judges it anew" in said()

    ingest_logs([traces.path("unclean_election")], cluster="prod", lake=lake)
    run(lake, Rules())
    assert "LOST: at least 360 offsets in 2 partitions" in said()
    assert before <= hws(place)

    run(lake, Rules(), RunOptions(drain=True, rebuild=True))
    assert "earlier hwmark" not in said()
    expected = replay(read_events(lake))
    for kind in ("hw_regressions", "isr_changes", "partition_hw", "telemetry_gaps"):
        want = getattr(expected, kind)
        found = place.open(kind).to_pyarrow_table().select(want.column_names)
        assert same_rows(found) == same_rows(want), kind
