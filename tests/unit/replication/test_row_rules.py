"""Every row rule rejects what breaks it, says the bad value, and passes what real brokers write."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from pipelines.replication.events.columns import with_dictionaries
from pipelines.replication.events.row_rules import ROW_RULES, split
from pipelines.replication.telemetry.coverage import SourcedRows, coverage_of_rows
from schemas import replication_events
from schemas.event_types import DETAILS, REQUIRED
from schemas.replication_events import DRAIN

WHERE = {
    "cluster": "c",
    "source_id": "broker-1/replication.log",
    "source_epoch": 0,
    "source_seq": 0,
    "seq": 0,
    "ts": datetime(2026, 1, 1, tzinfo=UTC),
    "broker_id": 1,
    "level": 3,
}
ON_PARTITION = {"topic": "clicks", "topic_id": "x", "partition": 0, "leader_id": 1}
BROKER_WIDE = {"partition": -1}
GOOD = {
    "leader": {"leader_epoch": 0, "leo": 10, "hw": 8, "isr": [1, 2], "partition_epoch": 3},
    "follower": {"leo": 10, "hw": 8, "leader_id": -1},
    "election": {"leader_id": -1, "leader_epoch": 5, "isr": [], "replicas": [1, 2, 3], "replica_id": None},
    "append": {"leader_leo": 11},
    "fetch": {"replica_id": 2, "leo": 10, "leader_leo": 11, "isr": [1, 2], "replicas": [1, 2, 3]},
    "hw": {"replica_id": 1, "hw": 10},
    "isr_proposed": {"isr": [1], "detail": "shrink"},
    "isr": {"isr": [], "leader_id": -1, "detail": "controller"},
    "isr_rejected": {},
    "truncate": {"replica_id": 1, "leo": 7},
    "replica_leo": {"replica_id": 2, "leo": -1},
    "broker_state": {"replica_id": 2, "detail": "fenced", "broker_epoch": 7},
    "config": {"min_isr": 2, "topic": "clicks"},
    "progress": {},
    "lost": {"detail": "7 lines: %sn jumped"},
    "unread": {"detail": "server.log: Permission denied"},
    "sample": {"replica_id": 1, "leo": 12, "hw": 10, "isr": [1, 2], "replicas": [1, 2, 3], "leader_epoch": 4},
}


def event(kind, **changes):
    wide = kind in ("broker_state", "config", "progress", "lost", "unread")
    return WHERE | (BROKER_WIDE if wide else ON_PARTITION) | {"event_type": kind} | GOOD[kind] | changes


def table(*rows):
    nullable = pa.schema([field.with_nullable(True) for field in replication_events.ARROW])
    return pa.Table.from_pylist(list(rows), nullable)


def reasons(row):
    mask, rejected = split(table(row))
    assert mask.to_pylist() == [False]
    (found,) = rejected["reasons"].to_pylist()
    return found


@pytest.mark.parametrize("event_type", REQUIRED)
def test_a_whole_event_passes(event_type):
    mask, rejected = split(table(event(event_type)))
    assert mask is None
    assert rejected.num_rows == 0
    assert rejected.schema.field("reasons").type == pa.list_(pa.string())


def test_lost_telemetry_may_be_that_of_one_partition():
    """A watcher's broker did not answer for it, and did for the others."""
    mask, _ = split(table(event("lost", **ON_PARTITION)))
    assert mask is None


def test_a_sample_of_a_leader_that_knows_no_hw_passes():
    """OFFSET_NOT_AVAILABLE, just after an election."""
    mask, _ = split(table(event("sample", hw=None)))
    assert mask is None


@pytest.mark.parametrize(("event_type", "column"), [(t, c) for t, needs in REQUIRED.items() for c in needs])
def test_missing_required_column(event_type, column):
    assert reasons(event(event_type, **{column: None})) == [f"missing_{column}: event_type = {event_type}"]


@pytest.mark.parametrize("column", [c.name for c in replication_events.TABLE.columns if not c.null])
def test_null_in_a_not_null_column(column):
    shown = "null" if column == "event_type" else "append"
    assert f"null_{column}: event_type = {shown}" in reasons(event("append", **{column: None}))


BROKEN = [
    ("append", {"event_type": "appended"}, "unknown_event_type: event_type = appended"),
    ("sample", {"leo": None, "hw": None}, "sample_without_offset: leo = null, hw = null"),
    ("config", {"min_isr": None}, "missing_config: min_isr = null, lag_max_ms = null, detail = null"),
    ("broker_state", {"detail": "dead"}, "unknown_detail_of_broker_state: detail = dead"),
    ("broker_state", {"detail": None}, "unknown_detail_of_broker_state: detail = null"),
    ("isr", {"detail": "rumour"}, "unknown_detail_of_isr: detail = rumour"),
    ("isr_proposed", {"detail": "swap"}, "unknown_detail_of_isr_proposed: detail = swap"),
    ("fetch", {"leo": -2}, "leo_below_-1: leo = -2"),
    ("append", {"leader_leo": -5}, "leader_leo_below_-1: leader_leo = -5"),
    ("hw", {"hw": -2}, "hw_below_-1: hw = -2"),
    ("leader", {"log_start": -2}, "log_start_below_-1: log_start = -2"),
    ("append", {"broker_id": -2}, "broker_id_below_-1: broker_id = -2"),
    ("append", {"leader_id": -2}, "leader_id_below_-1: leader_id = -2"),
    ("append", {"partition": -2}, "partition_below_-1: partition = -2"),
    ("append", {"seq": -1}, "seq_below_0: seq = -1"),
    ("append", {"source_seq": -1}, "source_seq_below_0: source_seq = -1"),
    ("append", {"source_epoch": -1}, "source_epoch_below_0: source_epoch = -1"),
    *(
        (kind, {"source_id": DRAIN}, f"closes_nothing: source_id = {DRAIN}, event_type = {kind}, detail = null")
        for kind in ("append", "config", "progress")
    ),
    ("append", {"level": -1}, "level_below_0: level = -1"),
    ("append", {"level": 4}, "level_above_3: level = 4"),
    ("fetch", {"replica_id": -1, "replicas": None}, "replica_id_below_0: replica_id = -1"),
    ("config", {"min_isr": 0}, "min_isr_below_1: min_isr = 0"),
    ("config", {"lag_max_ms": 0}, "lag_max_ms_below_1: lag_max_ms = 0"),
    ("append", {"ts": datetime(2009, 12, 31, tzinfo=UTC)}, "time_outside_2010_to_2100: ts = 2009-12-31T00:00:00+00:00"),
    ("append", {"ts": datetime(2101, 1, 1, tzinfo=UTC)}, "time_outside_2010_to_2100: ts = 2101-01-01T00:00:00+00:00"),
    ("hw", {"hw": 11, "leo": 10}, "hw_above_leo: hw = 11, leo = 10, replica_id = 1"),
    ("fetch", {"replica_id": 4}, "replica_not_assigned: replica_id = 4, replicas = [1, 2, 3]"),
    ("leader", {"isr": []}, "empty_isr_with_leader: isr = [], leader_id = 1, broker_id = 1"),
    ("leader", {"isr": [], "leader_id": None}, "empty_isr_with_leader: isr = [], leader_id = null, broker_id = 1"),
    ("isr", {"leader_id": 2}, "empty_isr_with_leader: isr = [], leader_id = 2, broker_id = 1"),
    ("fetch", {"isr": [1, -1]}, "no_broker_in_isr: isr = [1, -1]"),
    ("fetch", {"isr": [1, None]}, "no_broker_in_isr: isr = [1, None]"),
    ("fetch", {"replicas": [2, -3]}, "no_broker_in_replicas: replicas = [2, -3]"),
    (
        "leader",
        {"isr": list(range(2, 34)), "replicas": None},
        f"more_than_32_replicas: isr = {list(range(2, 34))}, replicas = null",
    ),
    ("append", {"partition": -1}, "partition_event_without_partition: event_type = append, partition = -1"),
    (
        "progress",
        {"partition": 0, "topic": "t"},
        "broker_wide_event_on_partition: event_type = progress, partition = 0",
    ),
    ("append", {"topic": None}, "missing_topic: event_type = append, partition = 0"),
    ("append", {"topic": "no/topic"}, "illegal_topic: topic = no/topic"),
    *(
        ("append", {column: -2}, f"{column}_below_-1: {column} = -2")
        for column in ("leader_epoch", "partition_epoch", "controller_epoch", "broker_epoch", "hw_before")
    ),
    *(
        ("append", {column: 1 << 62}, f"{column}_above_4611686018427387903: {column} = 4611686018427387904")
        for column in ("leo", "leader_leo", "hw", "hw_before", "log_start", "broker_epoch", "seq", "source_seq")
    ),
    *(
        (
            "append",
            {column: "caf\N{REPLACEMENT CHARACTER}"},
            f"not_utf8_{column}: {column} = caf\N{REPLACEMENT CHARACTER}",
        )
        for column in ("cluster", "source_id", "topic_id")
    ),
]


@pytest.mark.parametrize(("event_type", "changes", "reason"), BROKEN)
def test_broken_rule_is_named_with_the_bad_value(event_type, changes, reason):
    assert reasons(event(event_type, **changes)) == [reason]


LEGAL = ["a", "A-z_0.9", "...", "a" * 249, "__consumer_offsets"]
ILLEGAL = ["", ".", "..", "a" * 250, "a b", "a\n", "\na", "é", "a\x1b[2J", "\u202eabc", "=1+1", "a,b", "a\0"]


@pytest.mark.parametrize("encode", [lambda t: t, with_dictionaries], ids=["plain", "dictionaries"])
def test_a_topic_name_is_what_kafka_takes_for_one(encode):
    rows = [event("append", topic=name) for name in (*LEGAL, *ILLEGAL)] + [event("progress"), event("config")]
    mask, rejected = split(encode(table(*rows)))
    assert mask.to_pylist() == [True] * len(LEGAL) + [False] * len(ILLEGAL) + [True, True]
    assert rejected["topic"].to_pylist() == ILLEGAL


@pytest.mark.parametrize("encode", [lambda t: t, with_dictionaries], ids=["plain", "dictionaries"])
@pytest.mark.parametrize("name", [*LEGAL, *ILLEGAL, "abc", "ab", "größe"])
def test_a_topic_name_is_judged_alike_where_it_is_the_only_one(name, encode):
    """Long names of legal letters pass without the regular expression: that one must say the same of them."""
    for rows in (table(event("append", topic=name)), table(event("append"), event("append", topic=name))[1:]):
        _, rejected = split(encode(rows))
        assert rejected["topic"].to_pylist() == ([] if name in (*LEGAL, "abc", "ab") else [name])


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.large_string())])
def test_topic_names_of_foreign_writers_are_judged_alike(kind):
    rows = table(event("append"), event("append", topic="a b"), event("progress"))
    at = rows.schema.get_field_index("topic")
    mask, _ = split(rows.set_column(at, "topic", rows["topic"].cast(kind)))
    assert mask.to_pylist() == [True, False, True]


def test_a_reason_shows_the_beginning_of_a_long_value():
    (reason,) = reasons(event("append", topic="x" * 1_000_000))
    assert reason.startswith("illegal_topic: topic = xxx")
    assert reason.endswith("…")
    assert len(reason) < 400


def test_every_rule_has_a_test_that_breaks_it():
    broken = {reason.split(":")[0] for _, _, reason in BROKEN}
    broken |= {f"missing_{c}" for needs in REQUIRED.values() for c in needs}
    broken |= {f"null_{c.name}" for c in replication_events.TABLE.columns if not c.null}
    assert {rule.name for rule in ROW_RULES} == broken


@pytest.mark.parametrize(
    ("event_type", "changes"),
    [
        ("fetch", {"leo": -1}),
        ("hw", {"hw": 11, "leo": 11}),
        ("hw", {"replica_id": 2, "hw": 11, "leo": 10}),
        ("hw", {"hw": 11, "leo": None}),
        ("isr", {"leader_id": None}),
        ("isr", {"detail": None}),
        ("fetch", {"replicas": None, "replica_id": 4}),
        ("config", {"topic": None, "min_isr": None, "lag_max_ms": 500}),
        ("config", {"topic": None, "min_isr": None, "detail": "kafka=4.1.1"}),
        ("broker_state", {"detail": "log_dir_offline"}),
        ("append", {"ts": datetime(2010, 1, 1, tzinfo=UTC)}),
        ("leader", {"isr": list(range(1, 33)), "replicas": list(range(1, 33))}),
        ("leader", {"isr": list(range(2, 33)), "replicas": None}),
        ("append", {"detail": "anything"}),
    ],
)
def test_edge_of_a_rule_passes(event_type, changes):
    assert split(table(event(event_type, **changes)))[0] is None


def test_rejected_row_is_whole_and_carries_every_reason():
    bad = event("hw", hw=11, leo=-4, seq=-1)
    mask, rejected = split(table(event("hw"), bad, event("fetch")))
    assert mask.to_pylist() == [True, False, True]
    (row,) = rejected.to_pylist()
    assert row.pop("reasons") == [
        "leo_below_-1: leo = -4",
        "seq_below_0: seq = -1",
        "hw_above_leo: hw = 11, leo = -4, replica_id = 1",
    ]
    assert row == table(bad).to_pylist()[0]


def test_split_reads_chunks_dictionaries_and_empty_tables():
    rows = pa.concat_tables([table(event("hw")), table(event("fetch", leo=-2)), table()])
    encoded = rows.set_column(7, "event_type", rows["event_type"].dictionary_encode())
    for events in (rows, encoded):
        mask, rejected = split(events)
        assert mask.to_pylist() == [True, False]
        assert rejected["reasons"].to_pylist() == [["leo_below_-1: leo = -2"]]
    assert split(table())[0] is None


def test_every_word_of_a_detail_passes():
    rows = [event(event_type, detail=word) for event_type, words in DETAILS.items() for word in words]
    assert split(table(*rows))[0] is None


@pytest.mark.parametrize(("column", "garbage"), [("leo", -5), ("leader_id", -9), ("replica_id", -2), ("min_isr", 0)])
def test_what_stands_under_a_null_is_no_value(column, garbage):
    telemetry = table(event("append", **{column: 3}), event("append", **{column: None}), event("append", **{column: 4}))
    array = telemetry[column].combine_chunks()
    values = np.where(array.is_null(), garbage, array.fill_null(0))
    kind = array.type.to_pandas_dtype()
    beneath = pa.Array.from_buffers(array.type, 3, [array.buffers()[0], pa.py_buffer(values.astype(kind))])
    assert split(telemetry.set_column(telemetry.column_names.index(column), column, beneath))[0] is None


@pytest.mark.parametrize("encode", [lambda t: t, with_dictionaries], ids=["plain", "dictionaries"])
@pytest.mark.parametrize("first", [{"source_id": DRAIN}, {"event_type": "rumour"}, {"topic": "a b"}, {"cluster": "x"}])
def test_a_row_is_judged_alike_beside_any_others(first, encode):
    """Under a null stands the code of the first name."""
    broken = [event(kind, **changes) for kind, changes, _ in BROKEN]
    broken += [event(kind, **{column: None}) for kind in GOOD for column in replication_events.ARROW.names]
    alone = [split(encode(table(row)))[1]["reasons"].to_pylist() for row in broken]
    _, rejected = split(encode(table(event("append", **first), *broken)))
    _, leader = split(encode(table(event("append", **first))))
    assert rejected["reasons"].to_pylist() == [*leader["reasons"].to_pylist(), *(r for one in alone for r in one)]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 200])
@pytest.mark.parametrize("idle", [0, 5, 13])
def test_rows_are_split_by_type_however_many_types_their_names_hold(count, idle):
    kinds = [list(GOOD)[k % len(GOOD)] for k in range(count)]
    rows = [event(kind, **({"leo": None} if k % 3 == 0 else {})) for k, kind in enumerate(kinds)]
    events = table(*rows)
    words = [f"idle {k}" for k in range(idle)] + list(dict.fromkeys(kinds))
    codes = pa.array([words.index(kind) for kind in kinds], pa.int32())
    at = events.column_names.index("event_type")
    mask, rejected = split(events.set_column(at, "event_type", pa.DictionaryArray.from_arrays(codes, words)))
    broken = [k for k, kind in enumerate(kinds) if k % 3 == 0 and "leo" in REQUIRED[kind]]
    assert (mask.to_pylist() if broken else [True] * count) == [k not in broken for k in range(count)]
    assert [row["event_type"] for row in rejected.to_pylist()] == [kinds[k] for k in broken]
    assert {reason.split(":")[0] for telemetry in rejected["reasons"].to_pylist() for reason in telemetry} <= {
        "missing_leo"
    }


@pytest.mark.parametrize("word", ["rumour", "controller", None])
def test_details_are_read_in_any_encoding(word):
    events = table(event("isr"), event("isr", detail=word), event("append", detail="anything"), event("isr"))
    at = events.column_names.index("detail")
    for telemetry in (events, events.set_column(at, "detail", events["detail"].dictionary_encode())):
        mask, _ = split(telemetry)
        assert mask is None if word != "rumour" else mask.to_pylist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"ts": datetime(2009, 1, 1, tzinfo=UTC)}, "time_outside_2010_to_2100"),
        ({"ts": datetime(2101, 1, 1, tzinfo=UTC)}, "time_outside_2010_to_2100"),
        ({"source_seq": -1}, "source_seq_below_0"),
        ({"source_epoch": -1}, "source_epoch_below_0"),
        ({"seq": -1}, "seq_below_0"),
    ],
)
def test_what_coverage_has_seen_of_a_column_hides_no_broken_row(changes, rule):
    rows = [event("append", source_seq=k, seq=k) for k in range(30)]
    rows[20] |= changes
    events = pa.concat_tables([table(*rows[:12]), table(*rows[12:])])
    written = SourcedRows(with_dictionaries(events))
    coverage_of_rows(written)
    good, rejected = split(written.events, written.slices)
    assert good.to_pylist() == [k != 20 for k in range(30)]
    assert [[reason.split(":")[0] for reason in telemetry] for telemetry in rejected["reasons"].to_pylist()] == [[rule]]
