"""A file whose rows lie by bucket: every task finds its own and the broker-wide rows, and nobody loses any."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.brokerlogs.ingest import ReadOptions, ingest_logs
from generators.recordings import traces
from pipelines.lake import bucket_layout
from pipelines.lake.bronze import append_events, bronze, bronze_uri, read_events
from pipelines.lake.bucket_layout import EVERYBODY, KEY, BucketLayout, by_bucket, divisor_of, layout_of
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry import coverage as source_coverage
from schemas import replication_events
from tests.streaming.events import history
from tests.streaming.shell import same_rows
from tests.unit.test_row_groups import events

pytestmark = pytest.mark.long

SCHEMA, ROWS = pa.schema([field.with_nullable(True) for field in replication_events.ARROW]), bucket_layout.ROWS
PLACES = st.tuples(
    st.sampled_from(["c", "d", None]),
    st.sampled_from(["orders", "clicks", None]),
    st.sampled_from([None, -1, 0, 1, 2, 7]),
)


@pytest.fixture
def small(monkeypatch):
    """A row is enough for a remainder."""
    monkeypatch.setattr(bucket_layout, "ROWS", 1)


def placed(places):
    """A row for each (cluster, topic, partition), told apart by `seq`."""
    columns = {name: pa.array([place[k] for place in places], SCHEMA.field(name).type)
               for k, name in enumerate(("cluster", "topic", "partition"))}  # fmt: skip
    table = events(len(places)).cast(SCHEMA)
    for name, column in columns.items():
        table = table.set_column(SCHEMA.get_field_index(name), name, column)
    return table


@given(st.lists(PLACES, min_size=1, max_size=40), st.integers(1, 33))
def test_every_bucket_finds_its_rows_in_the_row_groups_it_reads(places, buckets):
    whole = placed(places)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_layout, "ROWS", 1)
        groups = by_bucket(whole)
        layout = BucketLayout(divisor_of(len(whole)), tuple(group.remainder for group in groups), (), pa.table({}))
    for bucket in range(buckets):
        read = pa.concat_tables([whole[:0], *(groups[k].rows.cast(SCHEMA) for k in layout.groups(buckets, [bucket]))])
        wanted = [row["seq"] for row, own in zip(whole.to_pylist(), assign(whole, buckets), strict=True)
                  if own in (-1, bucket)]  # fmt: skip
        mine = [row["seq"] for row, own in zip(read.to_pylist(), assign(read, buckets), strict=True)
                if own in (-1, bucket)]  # fmt: skip
        assert sorted(mine) == wanted


def test_a_task_reads_its_share_of_the_row_groups():
    layout = BucketLayout(16, (EVERYBODY, *range(16)), (), pa.table({}))
    assert layout.groups(2, [1]) == [0, 2, 4, 6, 8, 10, 12, 14, 16]
    assert layout.groups(16, [3]) == [0, 4]
    assert layout.groups(32, [3, 19]) == [0, 4]
    assert layout.groups(6, [3]) == layout.groups(2, [1])
    assert layout.groups(5, [3]) == list(range(17))
    assert [layout.readers(tasks, tasks) for tasks in (2, 16, 32, 6, 5)] == [1, 1, 2, 3, 5]


@pytest.mark.parametrize(
    ("rows", "divisor"), [(0, 1), (2 * ROWS - 1, 1), (2 * ROWS, 2), (7 * ROWS, 4), (99 * ROWS, 32)]
)
def test_the_divisor_is_a_power_of_two_by_the_rows_of_a_file(rows, divisor):
    assert divisor_of(rows) == divisor


def test_a_file_holds_all_rows_and_its_footer_what_they_cover(small, tmp_path):
    whole = history()
    append_events(str(tmp_path), whole, app_id="test", version=0, layout="buckets")
    (file,) = bronze(str(tmp_path)).file_uris()
    layout = layout_of(pq.read_metadata(file))
    assert layout.divisor == 32
    assert layout.remainders[0] == EVERYBODY
    assert layout.coverage.equals(source_coverage.coverage(whole))
    assert same_rows(read_events(str(tmp_path))) == same_rows(whole)


def test_columns_without_a_value_are_not_in_the_file_and_null_to_every_reader_of_the_table(small, tmp_path):
    import duckdb
    from deltalake import DeltaTable

    whole = history()
    empty = {name for name in SCHEMA.names if whole[name].null_count == len(whole)}
    assert empty
    append_events(str(tmp_path), whole, app_id="test", version=0, layout="buckets")
    (file,) = bronze(str(tmp_path)).file_uris()
    assert set(pq.read_schema(file).names) == {*SCHEMA.names} - empty
    assert layout_of(pq.read_metadata(file)).coverage.equals(source_coverage.coverage(whole))
    table = DeltaTable(bronze_uri(str(tmp_path)))
    stored = table.to_pyarrow_dataset()  # noqa: F841  # DuckDB finds it by its name
    for rows in (read_events(str(tmp_path)), table.to_pyarrow_table(), duckdb.sql("FROM stored").to_arrow_table()):
        assert rows.column_names == SCHEMA.names
        assert same_rows(rows.cast(SCHEMA)) == same_rows(whole.cast(SCHEMA))


def test_row_groups_of_one_bucket_keep_the_order_of_their_rows(small):
    for group in by_bucket(history()):
        each = group.rows.group_by("source_id", use_threads=False).aggregate([("source_seq", "list")])
        assert all(numbers == sorted(numbers) for numbers in each["source_seq_list"].to_pylist())


@pytest.mark.parametrize(
    "text", [None, '{"version": 2}', '{"version": 1, "remainders": [0], "rows": [9], "divisor": 2}']
)
def test_a_footer_that_says_nothing_or_nothing_that_fits_is_read_whole(tmp_path, text):
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema([("x", pa.int32())])) as writer:
        if text:
            writer.add_key_value_metadata({KEY: text})
    assert layout_of(pq.read_metadata(tmp_path / "a.parquet")) is None


def test_logs_are_read_into_files_by_bucket_where_the_settings_say_so(small, tmp_path):
    found = {}
    for layout in ("order", "buckets"):
        lake = str(tmp_path / layout)
        ingest_logs([traces.path("unclean_election")], cluster="c", lake=lake, options=ReadOptions(layout=layout))
        footers = [layout_of(pq.read_metadata(file)) for file in bronze(lake).file_uris()]
        found[layout] = same_rows(read_events(lake)), [footer is not None for footer in footers]
    assert found["order"][0] == found["buckets"][0]
    assert not any(found["order"][1])
    assert any(found["buckets"][1])


def test_a_file_written_anew_with_the_footer_of_another_is_read_whole(small, tmp_path):
    """As pyarrow does it: what a footer says goes into the schema of the table, and from there into the next footer."""
    append_events(str(tmp_path), history(), app_id="test", version=0, layout="buckets")
    (file,) = bronze(str(tmp_path)).file_uris()
    rows = pq.ParquetFile(file).read()
    assert KEY in rows.schema.metadata
    groups = pq.read_metadata(file).num_row_groups
    with pq.ParquetWriter(tmp_path / "anew.parquet", rows.schema) as writer:
        for number in range(groups):
            writer.write_table(rows.slice(number, 1))
    footer = pq.read_metadata(tmp_path / "anew.parquet")
    assert KEY in footer.metadata
    assert footer.num_row_groups == groups
    assert layout_of(footer) is None
