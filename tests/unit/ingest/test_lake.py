"""Events reach the lake exactly once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from generators.brokerlogs.tailing.sequence_numbers import Numbering
from pipelines.lake.bronze import append_events, append_round, bronze, committed, read_events
from pipelines.lake.table import add_columns
from schemas import replication_events
from tests.schema_differences import differences
from tests.unit.ingest.plain_parser import PlainParser, lines


def _events(count: int) -> pa.Table:
    return Numbering().number(PlainParser().feed(lines(*range(count))))


def test_a_version_lands_once(tmp_path: Path) -> None:
    lake = str(tmp_path)
    assert append_events(lake, _events(3), app_id="simulate", version=0)
    assert not append_events(lake, _events(3), app_id="simulate", version=0)
    assert append_events(lake, _events(3), app_id="simulate", version=1)
    assert append_events(lake, _events(3), app_id="another", version=0)
    assert read_events(lake).num_rows == 9


def test_one_commit_carries_the_versions_of_all_its_writers(tmp_path: Path) -> None:
    lake = str(tmp_path)
    append_round(lake, _events(2), {"a": 4, "b": 7})
    assert committed(lake, ["a", "b", "c"]) == {"a": 4, "b": 7, "c": None}
    assert bronze(lake).version() == 1


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    lake, events = str(tmp_path), _events(5)
    append_events(lake, events, app_id="w", version=0)
    assert read_events(lake).equals(events)
    assert read_events(lake, columns=["seq"], source_id="b/rep.log").column_names == ["seq"]
    assert read_events(lake, cluster="other").num_rows == 0


def test_names_stay_dictionaries_where_asked(tmp_path: Path) -> None:
    lake, events = str(tmp_path), _events(5)
    append_events(lake, events, app_id="w", version=0)
    read = read_events(lake, dictionaries=("topic", "event_type"))
    assert {f.name for f in read.schema if pa.types.is_dictionary(f.type)} == {"topic", "event_type"}
    assert read.cast(replication_events.ARROW).equals(events)


def test_the_table_has_its_declared_schema_and_no_feature_that_spark_and_rust_do_not_share(tmp_path: Path) -> None:
    table = bronze(str(tmp_path))
    assert differences(replication_events.ARROW, pa.schema(table.schema().to_arrow())) == []
    assert table.protocol().reader_features is None
    assert pc.all(read_events(str(tmp_path))["seq"].is_valid()).as_py() is None


def _of_an_earlier_version(lake: str, events: pa.Table) -> None:
    """A lake whose table of events has no `repeats`."""
    there = events.drop_columns(["repeats"])
    write_deltalake(f"{lake}/{replication_events.TABLE.path}", there)


def test_a_lake_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    lake, events = str(tmp_path), _events(5)
    _of_an_earlier_version(lake, events)
    assert read_events(lake).equals(events)
    assert DeltaTable(f"{lake}/{replication_events.TABLE.path}").version() == 0, "reading changes nothing"
    more = events.set_column(events.schema.get_field_index("repeats"), "repeats", pa.array([7] * 5, pa.int32()))
    assert append_events(lake, more, app_id="w", version=0)
    assert read_events(lake)["repeats"].to_pylist().count(None) == 5
    assert read_events(lake)["repeats"].to_pylist().count(7) == 5
    assert differences(replication_events.ARROW, pa.schema(bronze(lake).schema().to_arrow())) == []


def test_two_that_add_the_columns_at_once_both_go_on(tmp_path: Path) -> None:
    lake = str(tmp_path)
    _of_an_earlier_version(lake, _events(5))
    one, two = (DeltaTable(f"{lake}/{replication_events.TABLE.path}") for _ in range(2))
    assert add_columns(one, replication_events.ARROW).version() == 1
    assert add_columns(two, replication_events.ARROW).version() == 1
