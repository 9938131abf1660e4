"""Extreme values of every type that a column may have, as other engines write them: read, drained, compacted.

No row raises, whatever it holds: one that cannot be used goes to quarantine.
"""

import json
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import opened
from pipelines.lake.compaction import compact
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.lake import Lake
from pipelines.lake.table import add_files
from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.events.columns import NOT_UTF8
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry.coverage import coverage
from pipelines.streaming.source.blobs import pack_table, unpack
from pipelines.streaming.source.bronze_file import read
from pipelines.streaming.source.bronze_log import BEGINNING, BronzeLog
from pipelines.streaming.source.drain import close_sources
from schemas import quarantine, replication_events
from schemas.replication_events import INT
from tests.unit.replication.bronze import BASE_MS, Source, table

pytestmark = pytest.mark.long

SCHEMA = pa.schema([field.with_nullable(True) for field in replication_events.ARROW])
ROW = Source("broker-1/other").on(topic="other").leader(500, 0, 0, 0, [1], replicas=[1]).rows[0]
LONGS = [-(1 << 63), -(1 << 31) - 1, -(1 << 31), -1, 0, INT, INT + 1, 1 << 62, (1 << 63) - 1]
MS_OF_10000 = 253_402_300_800_000
TIMES = {
    pa.timestamp("us", "UTC"): [
        MS_OF_10000 * 1000 - 1,
        MS_OF_10000 * 1000,
        (1 << 63) - 1,
        -(1 << 63) + 1,
        BASE_MS * 10**6,
    ],
    pa.timestamp("ms", "UTC"): [MS_OF_10000, (1 << 63) - 1, -(1 << 63) + 1],
    pa.timestamp("ns", "UTC"): [(1 << 63) - 1, -(1 << 63) + 1, 0],
}
NO_TEXT = [b"\xff\xfe", b"caf\xe9", b"\0", b"", None]
WIDER = {
    pa.timestamp("us", "UTC"): TIMES,
    pa.int32(): {pa.int64(): LONGS, pa.uint64(): [INT + 1, (1 << 64) - 1], pa.int32(): [-(1 << 31), -1, INT]},
    pa.int64(): {pa.int64(): LONGS, pa.uint64(): [1 << 62, (1 << 63) - 1]},
    pa.string(): {pa.string(): NO_TEXT, pa.large_string(): NO_TEXT[:2]},
    pa.list_(pa.int32()): {pa.list_(pa.int32()): [[], [-1], None], pa.list_(pa.int64()): [[INT + 1], [1 << 62, 1], []]},
    pa.float64(): {pa.float64(): [float("nan"), float("inf"), -1.0, 1e300]},
    pa.bool_(): {pa.bool_(): [True, None]},
}
CASES = [
    (field.name, kind, value)
    for field in SCHEMA
    for kind, values in WIDER.get(field.type, {}).items()
    for value in values
]


def column(kind, value):
    if pa.types.is_timestamp(kind):
        return pa.array([value], pa.int64()).view(kind)
    if isinstance(value, bytes):
        large = pa.types.is_large_string(kind)
        return pa.array([value], pa.large_binary() if large else pa.binary()).view(kind)
    return pa.array([value], kind)


def with_value(number, name, kind, value):
    row = ROW | {"source_id": f"broker-1/{number}"}
    return pa.table({
        field.name: column(kind, value) if field.name == name else pa.array([row.get(field.name)], field.type)
        for field in SCHEMA
    })  # fmt: skip


def story():
    source = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(100, 10).fetch(200, 2, 10, 10).hw(200, 10)
    return table(source.append(1000, 20).fetch(40_000, 2, 20, 20).hw(40_000, 20).progress(60_000))


def append(lake, number, events):
    """Commits them as another engine does: in the types that they have, without statistics."""
    name = f"{number}.parquet"
    pq.write_table(events, f"{lake.uri(replication_events.TABLE)}/{name}")
    written = Written("replication_events", name, 1, len(events), 0, json.dumps({"numRecords": len(events)}))
    add_files(lake.open(replication_events.TABLE), [written], {name: 1})


def events_of(lake):
    """As the job and its tasks read them."""
    log = BronzeLog(lake.uri(replication_events.TABLE))
    end = log.advance(BEGINNING, log.latest(), sys.maxsize, sys.maxsize)
    parts = []
    for file in log.between(BEGINNING, end):
        for events in read(log, file.part):
            coverage(events)
            parts += [unpack(rows["kind"].to_pylist(), rows["blob"].to_pylist())[0] for rows in pack_table(events, [0])]
    return pa.concat_tables(parts, promote_options="permissive")


def of_clicks(*facts):
    rows = pa.concat_tables([one.partition_hw for one in facts])
    return rows.filter(pc.equal(rows["topic"], "clicks")).to_pylist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", range(4))
def test_no_value_of_any_type_raises_or_moves_another_topic(tmp_path, part):
    cases = CASES[part::4]
    lake = Lake(str(tmp_path / "lake"))
    opened(lake.root)
    append(lake, "story", story())
    for number, case in enumerate(cases):
        append(lake, number, with_value(number, *case))
    assert close_sources(lake) > 1
    events = events_of(lake)
    assert len(events) > len(cases)
    assign(events, 4)
    reconstructor = Reconstructor(Rules())
    first = reconstructor.update(events)
    last = Reconstructor.restore(reconstructor.snapshot()).finish()
    reconstructor.present()
    assert of_clicks(first, last) == of_clicks(replay(story()))
    set_aside = pa.concat_tables([first.quarantine, last.quarantine])
    assert len(set_aside.to_pylist()) > len(cases) // 3
    lake.create(quarantine.TABLE)
    write_file(lake.files("quarantine"), "quarantine", quarantine.ARROW, [set_aside])


@pytest.mark.nightly
def test_no_value_ends_compaction(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    opened(lake.root)
    append(lake, "story", story())
    for number, (name, kind, value) in enumerate(CASES):
        if kind == SCHEMA.field(name).type and value is not None:
            append(lake, number, with_value(number, name, kind, value))
    before = events_of(lake)
    compact(lake, "replication_events")
    assert sorted(map(repr, events_of(lake)["source_id"].to_pylist())) == sorted(
        map(repr, before["source_id"].to_pylist())
    )


@pytest.mark.parametrize("us", [-(1 << 63) + 1, 253_402_300_800_000_000, (1 << 63) - 1])
def test_a_time_that_python_has_no_date_for_is_set_aside_with_its_number(us):
    """Nanoseconds written as microseconds, an infinity of DuckDB's: it ended replay."""
    row = with_value(0, "ts", pa.timestamp("us", "UTC"), us)
    (found,) = replay(pa.concat_tables([story(), row])).quarantine.to_pylist()
    assert found["ts"] is None
    assert found["reasons"] == [f"time_outside_2010_to_2100: ts = {us}"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("cluster", "not_utf8_cluster"),
        ("source_id", "not_utf8_source_id"),
        ("topic_id", "not_utf8_topic_id"),
        ("topic", "illegal_topic"),
        ("event_type", "unknown_event_type"),
    ],
)
def test_text_that_is_no_utf8_is_set_aside(name, rule):
    row = with_value(0, name, pa.string(), b"caf\xe9")
    (found,) = replay(pa.concat_tables([story(), row])).quarantine.to_pylist()
    assert found[name] == f"caf{NOT_UTF8}"
    assert [reason.partition(":")[0] for reason in found["reasons"]] == [rule]


def test_a_detail_that_is_no_utf8_is_read():
    row = with_value(0, "detail", pa.string(), b"caf\xe9")
    facts = replay(pa.concat_tables([story(), row]))
    assert len(facts.quarantine) == 0
    assert "other" in facts.partition_hw["topic"].to_pylist()


def test_an_empty_isr_is_no_unknown_one_however_rows_lie_in_row_groups(tmp_path):
    """An eligible leader replica's election: a row group of empty lists alone was read as null."""
    lead, none = (
        Source().leader(0, 0, 0, 0, [1, 2]).rows[0],
        Source("controller-9/c.log", level=0).isr(900, [], 1, "controller", leader_id=-1).rows[0],
    )
    rows = pa.Table.from_pylist([lead, none], SCHEMA)
    pq.write_table(rows, tmp_path / "x.parquet", row_group_size=1)
    log = BronzeLog(str(tmp_path))
    found = [table["isr"].to_pylist() for table in read(log, ("x.parquet", {}, None)) if "isr" in table.column_names]
    assert found == [[[1, 2]], [[]]]


@pytest.mark.parametrize("topic_id", ["", "AAAAAAAAAAAAAAAAAAAAAA"])
@pytest.mark.parametrize("event_type", ["follower", "isr", "leader", "truncate"])
def test_an_id_that_names_no_topic_is_an_unknown_one(event_type, topic_id):
    """The topic was taken for one that was created anew, and a proven loss of it was told nowhere."""
    events = read_logs([traces.path("unclean_election")], "main")
    mine = pc.equal(events["event_type"], event_type)
    ids = pc.if_else(mine, topic_id, events["topic_id"].cast(pa.string()))
    found = replay(events.set_column(events.column_names.index("topic_id"), "topic_id", ids)).hw_regressions
    assert losses(found) == losses(replay(events).hw_regressions) != []


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_ids_of_any_type_of_text_are_read_named_or_not(kind):
    """A dictionary was an error."""
    events = read_logs([traces.path("unclean_election")], "main")
    named, at = events["topic_id"].cast(pa.string()), events.column_names.index("topic_id")
    for ids in (named, pc.if_else(pc.equal(events["event_type"], "isr"), "", named)):
        found = replay(events.set_column(at, "topic_id", ids.cast(kind))).hw_regressions
        assert losses(found) == losses(replay(events).hw_regressions) != []


def losses(found):
    return sorted(
        (row["topic"], row["partition"], row["lost_from"], row["lost_to"], row["severity"])
        for row in found.to_pylist()
        if row["severity"] == "critical"
    )


@pytest.mark.parametrize("broker", [-(1 << 31), None, -2])
def test_a_refused_row_without_a_broker_has_a_place_beside_others_of_its_time(broker):
    """A number is missing before each: it was a TypeError, and elsewhere a state that could not be read again."""
    one = Source("broker-1/other").on(topic="other").leader(500, 0, 0, 0, [1], replicas=[1])
    (row,) = one.append(600, 1).rows[-1:]
    hw = {**row, "event_type": "hw", "replica_id": 1, "hw": 1, "source_seq": 7, "seq": 7}
    twins = [{**hw, "source_id": "b9", "broker_id": broker}, {**hw, "source_id": "b8"}]
    found = replay(pa.concat_tables([table(one), pa.Table.from_pylist(twins, table(one).schema)]))
    assert found.quarantine.num_rows == 1
