"""Streams of others over a lake's tables: what they go on through, and what ends them by name."""

import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.commands.forget.command import forget, rebuild
from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.replication import Rules
from pipelines.streaming import job
from pipelines.streaming.hadoop import spark_uri
from pipelines.streaming.options import RunOptions
from pipelines.streaming.unfinished import Removal
from schemas import tables

REPOSITORY = Path(__file__).parents[2]
REMOVALS, OTHER = "DELTA_SOURCE_IGNORE_DELETE", "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


class Consumer:
    """A stream over one table that takes what is new, with `ignoreDeletes` or without."""

    def __init__(self, spark, lake, name, folder, ignores):
        self._rows = spark.readStream.format("delta").option("ignoreDeletes", ignores)
        self._uri, self._checkpoint = spark_uri(lake.uri(name)), str(folder / f"{name}-{ignores}")
        self._ignores = ignores

    def takes(self):
        """How many rows there were; or the words of the error that ended it."""
        stream = self._rows.load(self._uri).writeStream.format("noop").option("checkpointLocation", self._checkpoint)
        try:
            running = stream.trigger(availableNow=True).start()
            running.awaitTermination(120)
        except StreamingQueryException as error:
            return str(error)
        return sum(progress.numInputRows for progress in running.recentProgress)


@pytest.mark.spark
def test_a_stream_goes_on_through_upkeep_and_fails_by_name_at_a_rebuild(spark, tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    events = read_logs([traces.path("unclean_election")], "main")
    events = events.take(pc.sort_indices(events["ts"]))
    parts = iter(enumerate(np.array_split(np.arange(len(events)), 4)))
    tolerant, strict = (Consumer(spark, lake, "partition_hw", tmp_path, ignores) for ignores in (True, False))
    follower = Consumer(spark, lake, "partition_changes", tmp_path, False)

    def run(**how):
        version, part = next(parts, (None, None))
        if part is not None:
            append_events(lake.root, events.take(pa.array(part)), app_id="test", version=version)
        job.run(lake.root, Rules(), RunOptions(**how))

    def rows(name):
        return len(lake.rows(name).to_table())

    run(buckets=2)
    assert (tolerant.takes(), strict.takes()) == (rows("partition_hw"), rows("partition_hw"))
    before, changed = rows("partition_hw"), follower.takes()
    run()
    run(reshard=4)
    list(maintain(lake.root))  # compaction puts rows into other files: no news
    news = rows("partition_hw") - before
    assert (tolerant.takes(), strict.takes()) == (news, news)
    assert follower.takes() == rows("partition_changes") - changed
    run(drain=True)
    news = rows("partition_hw") - before - news
    later = datetime(2026, 11, 23, tzinfo=UTC)
    list(maintain(lake.root, silver_days=1, now=later))
    assert rows("partition_hw") == 0
    assert tolerant.takes() == news
    assert REMOVALS in (words := strict.takes()), words
    assert guide_quotes(words)

    known = lake.open("partition_hw").metadata().id
    run(rebuild=True)
    found = lake.open("partition_hw").metadata()
    assert found.id != known
    assert found.description == tables()["partition_hw"].words
    for one in (tolerant, follower):
        assert OTHER in (words := one.takes()), words
    assert guide_quotes(words)


@pytest.mark.spark
def test_a_stream_fails_by_name_when_a_cluster_is_made_anew_or_forgotten(spark, tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    for version, cluster in enumerate(("main", "other")):
        events = read_logs([traces.path("unclean_election")], cluster)
        append_events(lake.root, events, app_id="test", version=version)
        job.run(lake.root, Rules(), RunOptions(buckets=2))

    def run(cluster, held):
        return job.run(lake.root, Rules(), RunOptions(forget=cluster), held=held)

    for number, (change, asked) in enumerate(((rebuild, "other"), (forget, Removal("other")))):
        (tmp_path / f"{number}").mkdir()
        stream = Consumer(spark, lake, "partition_hw", tmp_path / f"{number}", True)
        assert stream.takes() == len(lake.rows("partition_hw").to_table())
        list(change(lake, asked, run, lambda: None))
        assert "DELTA" in (words := stream.takes()), words
        assert guide_quotes(words)


def guide_quotes(words):
    """Whether the guide quotes the error by its condition, as Delta has it in brackets."""
    guide = (REPOSITORY / "docs/tables.md").read_text()
    conditions = re.findall(r"\[((?:DELTA|DIFFERENT)_[A-Z_]+)", words)
    return bool(conditions) and all(f"[{one}]" in guide for one in conditions)
