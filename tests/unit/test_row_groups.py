"""Rows that fill what others leave empty lie together, and no row is lost or changed."""

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.lake.bronze import append_events, bronze, read_events
from pipelines.lake.row_groups import FEW, WORTH, row_groups
from schemas import replication_events

SCHEMA = replication_events.ARROW


def events(count, **filled):
    """So many rows of which every n-th has a value in each of these columns: n by name."""
    every = {f.name: 1 for f in SCHEMA if not f.nullable} | filled
    columns = [_column(field.type, count, every.get(field.name, 0)) for field in SCHEMA]
    columns[SCHEMA.get_field_index("seq")] = pa.array(range(count), pa.int64())
    return pa.table(columns, schema=SCHEMA)


def _column(kind, count, every):
    value = [1, 2] if pa.types.is_list(kind) else "a" if pa.types.is_string(kind) else 1
    return pa.array([value if every and row % every == 0 else None for row in range(count)], kind)


def same(one, other):
    return one.sort_by("seq").equals(other.combine_chunks().sort_by("seq"))


def test_rows_that_fill_what_few_others_do_come_first_and_apart():
    got = events(WORTH, detail=1024, hw=512, leo=2)
    rare, others = row_groups(got)
    assert len(rare) == WORTH // 512
    assert rare["detail"].null_count == len(rare) // 2
    assert {others[name].null_count for name in ("detail", "hw")} == {len(others)}
    assert others["leo"].null_count == WORTH // 2
    assert same(pa.concat_tables([rare, others]), got)


def test_the_order_of_rows_that_lie_together_stays():
    for group in row_groups(events(WORTH, detail=1024)):
        numbers = group["seq"].to_pylist()
        assert numbers == sorted(numbers)


def test_few_rows_and_rows_of_one_kind_are_one_group():
    for got in (events(WORTH - 1, detail=1024), events(WORTH), events(WORTH, leo=2), events(0)):
        assert row_groups(got) == [got]


def test_where_many_rows_would_be_set_apart_none_are():
    got = events(WORTH, **dict.fromkeys(("detail", "hw"), FEW))
    others = pa.array([1 if row % FEW == 1 else None for row in range(WORTH)], pa.int64())
    got = got.set_column(SCHEMA.get_field_index("log_start"), SCHEMA.field("log_start"), others)
    assert row_groups(got) == [got]


def test_a_file_of_bronze_has_these_row_groups_and_all_rows(tmp_path):
    got = events(WORTH, detail=1024, isr=1024, leo=2)
    append_events(str(tmp_path), got, app_id="test", version=0)
    (file,) = bronze(str(tmp_path)).file_uris()
    found = pq.ParquetFile(file).metadata
    assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == [WORTH // 1024, WORTH - WORTH // 1024]
    assert same(read_events(str(tmp_path)), got)
