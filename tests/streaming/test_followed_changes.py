"""A reader of `gold/partition_changes` has the present of `gold/partition_health`, whatever was killed on the way."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.replication import Rules
from pipelines.streaming import job
from pipelines.streaming.checkpoint.query import recorded
from pipelines.streaming.options import RunOptions
from pipelines.streaming.sinks.changes import COMPARED, KEY


def present_by_changes(lake):
    """The present by the rows of the changes, commit after commit; and how many rows of each partition there were."""
    present, count = {}, {}
    table = lake.open("partition_changes")
    for version in range(1, table.version() + 1):
        table.load_as_version(version)
        rows = table.to_pyarrow_table().to_pylist()
        seen = set(map(str, (row for rows_of in count.values() for row in rows_of)))
        for row in (row for row in rows if str(row) not in seen):
            key = tuple(row[name] for name in KEY)
            count.setdefault(key, []).append(row)
            present[key] = {name: row[name] for name in COMPARED}
            if row["gone"]:
                del present[key]
    return present, count


@pytest.mark.spark
def test_following_the_changes_gives_the_present(spark, tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    events = read_logs([traces.path("unclean_election")], "main")
    events = events.take(pc.sort_indices(events["ts"]))
    for version, part in enumerate(np.array_split(np.arange(len(events)), 4)):
        append_events(lake.root, events.take(pa.array(part)), app_id="test", version=version)
        job.run(lake.root, Rules(), RunOptions(buckets=2))
        if version == 2:  # killed before the end of the batch was recorded: it is played again
            commits = tmp_path / "lake/_run" / recorded(lake).query_id / "commits"
            (commits / str(max(int(one.name) for one in commits.glob("[0-9]*")))).unlink()
        present, count = present_by_changes(lake)
        health = lake.rows("partition_health").to_table().to_pylist()
        assert present == {tuple(row[k] for k in KEY): {name: row[name] for name in COMPARED} for row in health}
    assert max(map(len, count.values())) > 1
    assert not any(one["changed"] == [] for rows in count.values() for one in rows)
