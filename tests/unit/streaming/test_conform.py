"""Events as other engines write them: cast where nothing is lost, refused by file, column, found and expected."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema

from pipelines.lake.bronze import opened
from pipelines.streaming.source.blobs import column_type
from pipelines.streaming.source.bronze_commits import Part
from pipelines.streaming.source.bronze_file import read
from pipelines.streaming.source.bronze_log import BEGINNING, BronzeLog, VersionVanishedError
from pipelines.streaming.source.suitable import UnreadableFileError, UnsuitableColumnsError, require_suitable
from schemas import replication_events
from tests.streaming.events import history

EVENTS = history(partitions=2, rounds=3)
DECLARED = {field.name: column_type(field) for field in replication_events.ARROW}
ALIKE = {
    pa.string(): [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())],
    pa.int32(): [pa.int8(), pa.int16(), pa.int64()],
    pa.int64(): [pa.int32()],
    pa.bool_(): [],
    pa.float64(): [pa.float32()],
    pa.timestamp("us", "UTC"): [pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin")],
    pa.list_(pa.int32()): [pa.large_list(pa.int64()), pa.list_(pa.field("element", pa.int16(), nullable=False))],
}


def written(folder, events, **how):
    """The file's events, read back."""
    pq.write_table(events, folder / "part.parquet", **how)
    log = BronzeLog(str(folder))
    return pa.concat_tables(list(read(log, Part("part.parquet"))), promote_options="default")


def with_type(events, name, kind):
    column = events[name].cast(kind) if not pa.types.is_string_view(kind) else pa.chunked_array([
        pa.array(events[name].to_pylist(), kind)])  # fmt: skip
    return events.set_column(events.schema.get_field_index(name), name, column)


CASES = [
    (field.name, kind)
    for field in replication_events.ARROW
    for kind in (ALIKE[field.type] if field.type in ALIKE else [pa.large_list(field.type.value_type)])
]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name}-{kind}" for name, kind in CASES])
def test_other_types_for_the_same_values_are_read(tmp_path, name, kind):
    rows = EVENTS.filter(np.asarray(EVENTS["partition"]) < 100)
    got = written(tmp_path, with_type(rows, name, kind))
    assert all(got.schema.field(column).type == DECLARED[column] for column in got.column_names)
    if name in got.column_names:
        assert got[name].to_pylist() == rows[name].to_pylist()
    else:
        assert rows[name].null_count == len(rows)


@pytest.mark.parametrize("legacy", [True, False])
def test_nanoseconds_are_floored(tmp_path, legacy):
    nanos = EVENTS["ts"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy() + 999
    kind = pa.timestamp("ns") if legacy else pa.timestamp("ns", "UTC")
    events = EVENTS.set_column(EVENTS.column_names.index("ts"), "ts", pa.array(nanos).cast(kind))
    got = written(tmp_path, events, use_deprecated_int96_timestamps=legacy)
    assert got["ts"].to_pylist() == EVENTS["ts"].to_pylist()


def test_columns_come_in_any_order_and_those_that_may_be_null_may_be_missing(tmp_path):
    kept = ["event_type", "ts", *(c.name for c in replication_events.TABLE.columns[::-1] if not c.null), "isr", "leo"]
    got = written(tmp_path, EVENTS.select(dict.fromkeys(kept)))
    assert got["isr"].to_pylist() == EVENTS["isr"].to_pylist()
    assert "hw" not in got.column_names


def test_naive_times_are_refused_with_the_column(tmp_path):
    naive = EVENTS.set_column(EVENTS.column_names.index("ts"), "ts", EVENTS["ts"].cast(pa.timestamp("us")))
    with pytest.raises(
        UnreadableFileError, match=r"part\.parquet .*column ts: found timestamp\[us\].*without time zone"
    ):
        written(tmp_path, naive)


@pytest.mark.parametrize("value", [1 << 31, 1 << 40, -(1 << 31) - 1])
def test_a_number_that_a_column_has_no_room_for_is_one_that_row_rules_refuse(tmp_path, value):
    """It ended the job at each restart, for one row."""
    at = EVENTS.column_names.index("broker_id")
    wide = EVENTS.set_column(at, "broker_id", pa.array(np.full(len(EVENTS), value)))
    assert {*written(tmp_path, wide)["broker_id"].to_pylist()} == {-(1 << 31)}


def test_a_lag_that_an_int_has_no_room_for_is_the_longest(tmp_path):
    at = EVENTS.column_names.index("lag_max_ms")
    wide = EVENTS.set_column(at, "lag_max_ms", pa.array(np.full(len(EVENTS), (1 << 63) - 1)))
    assert {*written(tmp_path, wide)["lag_max_ms"].to_pylist()} == {(1 << 31) - 1}


def test_fractions_are_refused(tmp_path):
    half = EVENTS.set_column(EVENTS.column_names.index("broker_id"), "broker_id", pa.array(np.full(len(EVENTS), 0.5)))
    with pytest.raises(UnreadableFileError, match=r"column broker_id: found double, expected int32"):
        written(tmp_path, half)


def test_a_required_column_that_a_file_lacks_is_named(tmp_path):
    with pytest.raises(UnreadableFileError, match=r"part\.parquet .*column source_seq: found none"):
        written(tmp_path, EVENTS.drop_columns(["source_seq"]))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not Parquet at all, but long enough to be looked at" * 100])
def test_a_file_that_is_no_parquet_is_named_with_the_way_on(tmp_path, content):
    (tmp_path / "part.parquet").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"part\.parquet .*--skip-file 'part\.parquet'"):
        list(read(BronzeLog(str(tmp_path)), Part("part.parquet")))


def test_a_damaged_page_is_named(tmp_path):
    pq.write_table(EVENTS, tmp_path / "part.parquet")
    content = bytearray((tmp_path / "part.parquet").read_bytes())
    content[4:600] = b"\xff" * 596
    (tmp_path / "part.parquet").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"part\.parquet"):
        list(read(BronzeLog(str(tmp_path)), Part("part.parquet")))


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(VersionVanishedError, match=r"file part\.parquet .*--skip-file 'part\.parquet'"):
        list(read(BronzeLog(str(tmp_path)), Part("part.parquet")))


def test_what_the_table_is_partitioned_by_is_a_column(tmp_path):
    pq.write_table(EVENTS.drop_columns(["cluster", "level"]), tmp_path / "part.parquet")
    values = {"cluster": "prod é", "level": "2", "day": "2026-01-01"}
    (got,) = read(BronzeLog(str(tmp_path)), Part("part.parquet", values))
    assert set(got["cluster"].to_pylist()) == {"prod é"}
    assert set(got["level"].to_pylist()) == {2}
    assert "day" not in got.column_names


def delta(**kinds):
    """Delta's schema of bronze with other types for some columns; None: without it."""
    fields = [f for f in replication_events.ARROW if kinds.get(f.name, "") is not None]
    changed = [f.with_type(kinds[f.name]) if f.name in kinds else f for f in fields]
    return Schema.from_arrow(pa.schema(changed))


def test_a_table_is_suitable_where_its_columns_can_be_cast():
    require_suitable("t", delta(broker_id=pa.int64(), seq=pa.int16(), isr=pa.list_(pa.int64()), hw=None), ["cluster"])


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"ts": pa.timestamp("us")}, "column ts is a timestamp without time zone"),
        ({"ts": None}, "column ts is missing, expected timestamp"),
        ({"hw": pa.string()}, "column hw is string, expected long"),
        ({"isr": pa.string()}, "column isr is string, expected array<integer>"),
        ({"topic": pa.int64(), "leo": pa.float64()}, "column topic is long, expected string; column leo is double"),
    ],
)
def test_columns_that_cannot_be_read_are_named(kinds, said):
    with pytest.raises(UnsuitableColumnsError, match=said):
        require_suitable("t", delta(**kinds))


def test_a_table_partitioned_by_its_times_is_refused():
    with pytest.raises(UnsuitableColumnsError, match="column ts partitions the table"):
        require_suitable("t", delta(), ["ts"])


def test_rows_are_counted_where_the_log_does_not_tell_them(tmp_path):
    from deltalake import write_deltalake

    write_deltalake(opened(str(tmp_path)), EVENTS, mode="append", configuration=None)
    for commit in (tmp_path / "bronze/replication_events/_delta_log").glob("*1.json"):
        commit.write_text(commit.read_text().replace('"stats"', '"other"'))
    log = BronzeLog(opened(str(tmp_path)).table_uri)
    end = log.advance(BEGINNING, log.latest(), 1 << 40, 1 << 40)
    assert end.events == len(EVENTS)


def test_times_before_1970_are_floored_too(tmp_path):
    nanos = pa.array([-1] * len(EVENTS)).cast(pa.timestamp("ns", "UTC"))
    got = written(tmp_path, EVENTS.set_column(EVENTS.column_names.index("ts"), "ts", nanos))
    assert got["ts"][0].as_py() == datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
