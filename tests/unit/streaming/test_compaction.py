"""Compaction puts files together: the rows of one partition lie together, none is changed, and no table grows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.lake import compaction
from pipelines.lake.compaction import Compacted, compact, order_of
from pipelines.lake.lake import Lake, declared
from pipelines.replication import Reconstructor, Rules
from schemas import brokers, cluster_minute, minute_stats, partition_hw, replication_events, tables
from tests.bench.load import rounds

pytestmark = pytest.mark.long

PARTITIONS, SECONDS, STEP = 400, 60, 10
TABLES = ("replication_events", "partition_hw", "minute_stats")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A lake as the job leaves it, a file of each table every ten seconds; and another like it, compacted."""
    lakes = [Lake(str(tmp_path_factory.mktemp("lake") / name)) for name in ("before", "after")]
    reconstructor = Reconstructor(Rules(hw_resolution_ms=1000))
    for events in rounds(PARTITIONS, SECONDS, step=STEP):
        found = {"replication_events": events, **reconstructor.update(events).tables()}
        for name in TABLES:
            for lake in lakes:
                lake.append(name, found[name].select(declared(name).arrow().names))
    done = {name: compact(lakes[1], name) for name in TABLES}
    return *lakes, done


def size(lake, name):
    return sum(lake.open(name).get_add_actions(flatten=True)["size_bytes"].to_pylist())


def rows(lake, name):
    return lake.rows(name).to_table().select(declared(name).arrow().names)


@pytest.mark.parametrize("name", TABLES)
def test_no_table_grows(stored, name):
    before, after, done = stored
    assert size(after, name) < size(before, name)
    assert done[name] == Compacted(SECONDS // STEP, 1, size(before, name), size(after, name))


@pytest.mark.parametrize("name", TABLES)
def test_no_row_is_changed(stored, name):
    before, after, _ = stored
    with duckdb.connect() as both:
        both.register("one", rows(after, name)).register("other", rows(before, name))
        for first, second in (("one", "other"), ("other", "one")):
            assert not both.sql(f"FROM {first} EXCEPT ALL FROM {second}").fetchall()


def row_groups_with(lake, name, partition):
    """Of how many row groups a partition's rows may be, by their statistics."""
    count = 0
    for path in lake.open(name).file_uris():
        file = pq.ParquetFile(path)
        column = file.schema_arrow.names.index("partition")
        for number in range(file.metadata.num_row_groups):
            statistics = file.metadata.row_group(number).column(column).statistics
            count += statistics.min <= partition <= statistics.max
    return count


def test_the_history_of_one_partition_is_in_few_row_groups(stored, tmp_path, monkeypatch):
    before, _, _ = stored
    monkeypatch.setattr(compaction, "ROWS_OF_A_GROUP", 4096)
    lake = Lake(str(tmp_path))
    for path in before.open("partition_hw").file_uris():
        lake.append("partition_hw", pq.read_table(path).select(partition_hw.ARROW.names))
    compact(lake, "partition_hw")
    (file,) = lake.open("partition_hw").file_uris()
    groups = pq.ParquetFile(file).metadata.num_row_groups
    assert row_groups_with(before, "partition_hw", 17) == SECONDS // STEP
    assert groups > 4
    assert row_groups_with(lake, "partition_hw", 17) <= 2


def test_a_file_that_is_large_enough_stays(stored):
    _, lake, _ = stored
    assert compact(lake, "partition_hw") == Compacted()


def test_files_are_put_together_up_to_the_size_that_is_wanted(stored, tmp_path):
    before, _, _ = stored
    lake, portion = Lake(str(tmp_path)), before.rows("partition_hw").to_table().select(partition_hw.ARROW.names)
    for first in range(0, 8000, 1000):
        lake.append("partition_hw", portion.slice(first, 1000))
    one = size(lake, "partition_hw") // 8
    assert compact(lake, "partition_hw", target_bytes=round(4.5 * one)).added == 2
    assert lake.rows("partition_hw").count_rows() == 8000


def test_what_would_be_larger_is_left_as_it_is(tmp_path, monkeypatch):
    lake = Lake(str(tmp_path))
    for number in range(2):
        row = {"cluster": "c", "topic": "t", "partition": number, "ts": 0, "kind": "advance"}
        lake.append("partition_hw", pa.Table.from_pylist([row], partition_hw.ARROW))
    before = lake.open("partition_hw")
    bins = compaction._bins
    smaller = lambda span: replace(span, file=replace(span.file, size=1))  # noqa: E731
    monkeypatch.setattr(compaction, "_bins", lambda files, *limits: bins(map(smaller, files), *limits))
    assert compact(lake, "partition_hw") == Compacted()
    assert lake.open("partition_hw").version() == before.version()
    assert len(list((tmp_path / "silver/partition_hw").glob("*.parquet"))) == 2


def test_maps_lists_and_columns_that_an_earlier_version_lacks(tmp_path):
    lake, minute = Lake(str(tmp_path)), datetime(2026, 11, 23, tzinfo=UTC)
    values = {"cluster": "c", "minute": minute, "shrinks": [("lag", 2)], "events": 3}
    later = values | {"minute": minute + timedelta(minutes=1), "shrinks": []}
    for row in (later, values):
        lake.append("cluster_minute", pa.Table.from_pylist([row], cluster_minute.ARROW))
    assert compact(lake, "cluster_minute").added == 1
    found = lake.rows("cluster_minute").to_table()
    assert found["minute"].to_pylist() == [values["minute"], later["minute"]]
    assert found["shrinks"].to_pylist() == [[("lag", 2)], []]
    assert found["minute"].type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize("name", sorted(tables()))
def test_every_table_has_an_order_that_begins_with_its_partition_and_its_time(name):
    schema = declared(name).arrow()
    order = order_of(schema)
    assert order
    assert [column for column in order if column in compaction.ORDER] == order[
        : sum(c in compaction.ORDER for c in order)
    ]


def test_orders():
    assert order_of(partition_hw.ARROW) == ["cluster", "topic", "partition", "ts"]
    assert order_of(minute_stats.ARROW) == ["cluster", "minute", "broker_id"]
    assert order_of(brokers.ARROW)[:2] == ["cluster", "ts"]
    assert order_of(replication_events.ARROW)[3] == "ts"


def test_a_file_of_bronze_holds_no_more_rows_than_one_batch_may_read(stored, tmp_path, monkeypatch):
    before, _, _ = stored
    monkeypatch.setattr(compaction, "ROWS_OF_A_FILE", 2500)
    lake, portion = Lake(str(tmp_path)), before.rows("replication_events").to_table()
    for first in range(0, 6000, 1000):
        lake.append("replication_events", portion.select(replication_events.ARROW.names).slice(first, 1000))
    assert compact(lake, "replication_events").added == 3
    rows_of_files = lake.open("replication_events").get_add_actions(flatten=True)["num_records"].to_pylist()
    assert rows_of_files == [2000, 2000, 2000]
