"""Silver and the state that wrote it belong together, or the run is refused."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.lake.lake import Lake
from pipelines.replication import Rules
from pipelines.streaming.checkpoint.offsets import RECORD
from pipelines.streaming.checkpoint.query import StateMismatch, changed_rules, open_query, recorded
from pipelines.streaming.stateful.bucket_keys import _murmur3 as spark_hash
from pipelines.streaming.tables import create_tables
from tests.streaming.test_sink import HW, writer, written


@pytest.fixture
def lake(tmp_path):
    lake = Lake(str(tmp_path), {})
    lake.create("replication_events")
    create_tables(lake)
    return lake


def opened(lake, rules=None, buckets=2, shuffle_partitions=2, source="arrow", rebuild=False, reshard=None):
    return open_query(lake, rules or Rules(), buckets, shuffle_partitions, source, rebuild=rebuild, reshard=reshard)


def begin(lake, query):
    """What Spark does when a query starts."""
    files = lake.files()
    files.create_dir(f"_run/{query.query_id}")
    with files.open_output_stream(f"_run/{query.query_id}/metadata") as stream:
        stream.write(b"{}")


def put(lake, query_id, table=HW):
    out = writer(lake, query_id)
    out.commit([written(out, partition_hw=table)], 0)


def test_a_lake_goes_on_with_its_query(lake):
    query = opened(lake)
    begin(lake, query)
    assert opened(lake) == query
    put(lake, query.query_id)
    assert opened(lake) == query
    assert query.checkpoint(lake.root) == f"{lake.root}/_run/{query.query_id}"


def test_rows_without_a_record_are_refused(lake):
    put(lake, "somebody")
    with pytest.raises(StateMismatch, match=r"no record of the query.*run --rebuild"):
        opened(lake)


def test_a_missing_checkpoint_is_refused(lake):
    put(lake, opened(lake).query_id)
    with pytest.raises(StateMismatch, match=r"its checkpoint is missing.*run --rebuild"):
        opened(lake)


def test_another_checkpoint_is_refused(lake):
    begin(lake, opened(lake))
    put(lake, "another")
    with pytest.raises(StateMismatch, match=r"was not written by query.*run --rebuild"):
        opened(lake)


def test_rebuild_starts_a_new_query_and_survives_being_killed_before_its_first_commit(lake):
    old = opened(lake)
    put(lake, old.query_id)
    new = opened(lake, rebuild=True)
    assert (new.query_id != old.query_id, new.rebuild) == (True, True)
    new = opened(lake)
    assert (new.query_id != old.query_id, new.rebuild) == (True, True)
    begin(lake, new)
    assert opened(lake) == new


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"buckets": 4}, r"buckets is 4, and this lake's state has 2: set it to 2, or .*`hwmark run --reshard 4`"),
        (
            {"shuffle_partitions": 3},
            r"shuffle_partitions is 3, .* the number of buckets, 2: set it to one of 1, 2, .* --reshard 3",
        ),
        ({"source": "delta"}, r"source is delta, and this lake.s state has arrow: .*run --rebuild"),
    ],
)
def test_another_layout_is_asked_for_by_name(lake, asked, named):
    begin(lake, opened(lake))
    with pytest.raises(StateMismatch, match=named):
        opened(lake, **asked)
    assert opened(lake, **asked, rebuild=True).rebuild


def test_shuffle_partitions_may_change_where_they_divide_the_buckets(lake):
    query = opened(lake, buckets=8)
    begin(lake, query)
    for tasks in (1, 2, 4, 8):
        assert opened(lake, buckets=None, shuffle_partitions=tasks) == query
        assert [key for key in query.keys if spark_hash(key) % tasks == 0] == query.keys[::tasks]
    assert opened(lake, buckets=None, shuffle_partitions=3, reshard=9) == query


def test_with_the_source_delta_the_layout_is_fixed(lake):
    begin(lake, opened(lake, source="delta"))
    for asked in ({"shuffle_partitions": 1}, {"reshard": 4}):
        with pytest.raises(StateMismatch, match=r'with source = "delta" both are fixed.*`run --rebuild`'):
            opened(lake, source="delta", **({"buckets": None} | asked))


def test_a_record_without_keys_is_of_another_state_and_refused(lake):
    begin(lake, opened(lake, buckets=8))
    path = Path(lake.root, RECORD)
    earlier = {name: value for name, value in json.loads(path.read_text()).items() if name != "keys"}
    path.write_text(json.dumps(earlier))
    with pytest.raises(StateMismatch, match="--rebuild"):
        recorded(lake)


def test_other_rules_apply_from_the_next_batch_on_and_are_recorded(lake, caplog):
    begin(lake, opened(lake))
    asked = opened(lake, rules=Rules(lag_max_ms=6000))
    assert "rules.lag_max_ms is 6000, which was 30000, from the next batch on: `run --rebuild`" in caplog.text
    assert asked.rules["lag_max_ms"] == 6000
    assert recorded(lake) == asked
    caplog.clear()
    assert opened(lake, rules=Rules(lag_max_ms=6000)) == asked
    assert caplog.text == ""


def test_a_rule_that_is_newer_than_the_record_has_its_default(lake, caplog):
    begin(lake, opened(lake))
    record(lake, lambda rules: rules.pop("replica_hw"))
    opened(lake)
    assert caplog.text == ""
    assert "rules.replica_hw is True, which was False" in " ".join(
        changed_rules(recorded(lake), Rules(replica_hw=True))
    )


def test_a_recorded_rule_that_is_not_known_is_refused_by_name(lake):
    begin(lake, opened(lake))
    record(lake, lambda rules: rules.update(of_next_year=1))
    with pytest.raises(StateMismatch, match=r"rules\.of_next_year .*not known to this version.*--rebuild"):
        opened(lake)


def record(lake, change):
    """The lake's record as another version would have written it."""
    path = Path(lake.root, RECORD)
    found = json.loads(path.read_text())
    change(found["rules"])
    path.write_text(json.dumps(found))


def test_an_empty_silver_starts_without_words(lake):
    put(lake, "somebody", pa.table(HW).slice(0, 0))
    assert not opened(lake).rebuild


def test_a_new_lake_has_a_bucket_for_each_task(lake):
    assert opened(lake, buckets=None, shuffle_partitions=3).buckets == 3


def test_a_lake_goes_on_with_its_buckets_where_none_are_asked_for(lake):
    query = opened(lake, buckets=32)
    begin(lake, query)
    assert opened(lake, buckets=None) == query
