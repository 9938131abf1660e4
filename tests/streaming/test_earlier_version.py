"""A lake that an earlier version began goes on: its tables get the columns that they lack, what is there stays."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.replication import Rules, replay
from pipelines.streaming.job import run
from pipelines.streaming.options import SOURCES, RunOptions
from pipelines.streaming.tables import KINDS
from schemas import quarantine, replication_events
from tests.streaming.events import history
from tests.streaming.shell import added_up, same_rows


@pytest.mark.spark
@pytest.mark.parametrize("source", SOURCES)
def test_a_lake_without_repeats_goes_on(spark, tmp_path, source):
    events = history(partitions=4, rounds=30)
    found = enumerate(events["event_type"].to_pylist())
    broken = pa.array(["rumour" if k % 9 == 0 and kind == "fetch" else kind for k, kind in found])
    events = events.set_column(events.schema.get_field_index("event_type"), events.schema.field("event_type"), broken)
    half, lake = len(events) // 2, str(tmp_path / "lake")
    for table in (replication_events.TABLE, quarantine.TABLE):
        rows = events.slice(0, half) if table is replication_events.TABLE else table.arrow().empty_table()
        write_deltalake(f"{lake}/{table.path}", rows.drop_columns(["repeats"]))
    assert run(lake, Rules(), RunOptions(buckets=4, source=source)).events == half
    fetches = [3 if kind == "fetch" else None for kind in events["event_type"].to_pylist()]
    repeated = events.set_column(
        events.schema.get_field_index("repeats"), events.schema.field("repeats"), pa.array(fetches, pa.int32())
    )
    append_events(lake, repeated.slice(half), app_id="test", version=0)
    assert run(lake, Rules(), RunOptions(buckets=4, source=source, drain=True)).events == len(events) - half + 1
    expected, place = replay(read_events(lake)), Lake(lake, {})
    for kind in KINDS:
        same = added_up if kind == "minute_stats" else lambda rows: same_rows(rows, but=["quarantined_at"])
        assert same(place.open(kind).to_pyarrow_table()) == same(getattr(expected, kind)), kind
    assert len(expected.quarantine) > 2
