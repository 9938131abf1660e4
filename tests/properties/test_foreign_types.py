"""Rows are the same in whichever types their writer has for them, and where it leaves out columns without values."""

from __future__ import annotations

import re
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.replication import replay
from pipelines.streaming.source.conform import conform
from schemas.replication_events import ARROW
from tests.properties.draws import Draw
from tests.properties.facts import as_read
from tests.unit.replication.bronze import Source, events_of

TEXT = pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())
LISTS = pa.large_list(pa.int64()), pa.list_(pa.int16()), pa.list_(pa.int64())
TYPES = {
    pa.string(): (*TEXT, pa.dictionary(pa.int32(), pa.large_string())),
    pa.int32(): (pa.int8(), pa.int16(), pa.int64(), pa.uint32()),
    pa.int64(): (pa.int32(), pa.uint64()),
    pa.float64(): (pa.float32(),),
    pa.timestamp("us", "UTC"): tuple(
        pa.timestamp(unit, zone) for unit in ("s", "ms", "ns") for zone in ("UTC", "Asia/Tokyo")
    ),
    pa.list_(pa.int32()): LISTS,
}


def foreign(events: pa.Table, random: Random) -> pa.Table:
    """The same rows as another writer has them: a type stays where a value has no room in the one that is drawn."""
    empty = [name for name in events.column_names if events[name].null_count == len(events)]
    events = events.drop_columns([name for name in empty if random.random() < 0.5])
    for at, field in enumerate(events.schema):
        kind = random.choice((field.type, *TYPES.get(field.type, ())))
        try:
            values = events[field.name].to_pylist()
            column = pa.array(values, kind) if field.type == pa.string() else pa.array(values, field.type).cast(kind)
            events = events.set_column(at, field.name, column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return events


@pytest.mark.parametrize("seed", range(60))
def test_rows_in_other_types_are_the_same_rows(seed):
    events = events_of([row for batch in Draw.from_seed(seed).batches() for row in batch])
    read = conform(foreign(events, Random(seed)), "part")
    for name in events.column_names:
        values = read[name].to_pylist() if name in read.column_names else [None] * len(events)
        assert values == events[name].to_pylist(), name


# `replay` is given tables that nobody has read from bronze.

FOREIGN = {
    pa.string(): (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
                  pa.dictionary(pa.uint16(), pa.large_string())),
    pa.int32(): (pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(),
                 pa.float64(), pa.decimal128(20, 0)),
    pa.int64(): (pa.int32(), pa.uint32(), pa.uint64(), pa.float64(), pa.decimal128(20, 0)),
    pa.float64(): (pa.float32(), pa.int32(), pa.decimal128(20, 3)),
    pa.bool_(): (),
    pa.timestamp("us", "UTC"): (pa.timestamp("ns", "UTC"), pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ms", "UTC")),
    pa.list_(pa.int32()): (pa.large_list(pa.int64()), pa.list_(pa.int16()), pa.list_(pa.uint64()),
                           pa.list_view(pa.int32()), pa.large_list_view(pa.int64()), pa.list_(pa.float64())),
    pa.list_(pa.string()): (pa.large_list(pa.large_string()), pa.list_(pa.string_view())),
}  # fmt: skip
WRONG = {
    pa.string(): (pa.binary(), pa.int32()),
    pa.int32(): (pa.string(), pa.bool_(), pa.timestamp("us", "UTC"), pa.list_(pa.int32())),
    pa.int64(): (pa.string(), pa.bool_(), pa.timestamp("us", "UTC")),
    pa.float64(): (pa.string(),),
    pa.bool_(): (pa.int8(), pa.string()),
    pa.timestamp("us", "UTC"): (pa.timestamp("us"), pa.int64(), pa.string(), pa.date32()),
    pa.list_(pa.int32()): (pa.string(), pa.int32(), pa.list_(pa.string())),
    pa.list_(pa.string()): (pa.string(), pa.list_(pa.int32())),
}
UNSIGNED = pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
CASES = [(field, kind) for field in ARROW for kind in FOREIGN.get(field.type, ())]
WRONG_CASES = [(field, kind) for field in ARROW for kind in (*WRONG.get(field.type, ()), pa.struct([("a", pa.int8())]))]


def name_of(case):
    return case.name if isinstance(case, pa.Field) else str(case)


@pytest.fixture(scope="module")
def events():
    """Rows with a value in every column; closing rows are tried elsewhere."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3], broker_epoch=3, log_start=0, unclean=False, controller_epoch=1)
    log.append(10, 9).fetch(20, 2, 5, 9, repeats=1).fetch(30, 3, 9, 9, ts_error_ms=1.0).hw(30, 5)
    log.config(40, min_isr=2, lag_max_ms=100).event(50, "hw", replica_id=1, hw=9, hw_before=5, committed=True)
    log.event(60, "progress", True, covers=["terms", "hw"], detail="x").append(70, 8).event(80, "hw", hw=-7)
    return events_of(log.rows)


def in_type(column, kind):
    plain = column.to_pylist()
    try:
        return pa.array(plain, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return column.combine_chunks().cast(kind)


def test_every_column_is_tried(events):
    empty = {name for name in events.column_names if events[name].null_count == len(events)}
    assert empty == {"closes"}
    assert {field.name for field, _ in CASES} == {*events.column_names} - {"closes", "unclean", "committed"}


@pytest.mark.parametrize(("field", "kind"), CASES, ids=name_of)
def test_replay_reads_a_column_in_another_type(events, field, kind):
    at = events.column_names.index(field.name)
    if kind in UNSIGNED:
        events = events.filter(pc.fill_null(pc.greater_equal(events[field.name], 0), True))
    foreign_events = events.set_column(at, field.name, in_type(events[field.name], kind))
    assert as_read(replay(foreign_events)) == as_read(replay(events))


@pytest.mark.parametrize(("field", "kind"), WRONG_CASES, ids=name_of)
def test_replay_refuses_a_type_without_such_values_and_names_the_column(events, field, kind):
    at = events.column_names.index(field.name)
    with pytest.raises(ValueError, match=f"column {field.name}: found .*, expected "):
        replay(events.set_column(at, field.name, pa.array([None] * len(events), kind)))


@pytest.mark.parametrize("field", [*ARROW], ids=name_of)
def test_replay_reads_a_table_without_a_column_that_may_be_null(events, field):
    without = events.drop_columns([field.name])
    if field.nullable:
        nothing = events.set_column(events.column_names.index(field.name), field, pa.nulls(len(events), field.type))
        assert as_read(replay(without)) == as_read(replay(nothing))
    else:
        with pytest.raises(ValueError, match=re.escape(f"column {field.name}: found none, expected {field.type}")):
            replay(without)


@pytest.mark.parametrize("name", ["isr", "replicas"])
def test_replay_reads_nothing_of_a_list_that_is_null(events, name):
    """Arrow lets a null stand over values; they were taken for those of the row before."""
    lists = events[name].to_pylist()
    over = pa.array([value or [7, 8] for value in lists], pa.list_(pa.int32()))
    mask = pa.array([value is None for value in lists])
    hidden = pa.ListArray.from_arrays(over.offsets, over.values, mask=mask)
    assert hidden.to_pylist() == lists
    at = events.column_names.index(name)
    assert as_read(replay(events.set_column(at, name, hidden))) == as_read(replay(events))


@pytest.mark.parametrize("name", ["leo", "source_seq", "broker_id", "leader_epoch"])
def test_a_number_that_its_type_has_no_room_for_goes_to_quarantine(events, name):
    numbers = [abs(number) if number is not None else None for number in events[name].to_pylist()]
    numbers[3] = (1 << 64) - 1
    found = replay(events.set_column(events.column_names.index(name), name, pa.array(numbers, pa.uint64())))
    assert any(name in reason for row in found.quarantine.to_pylist() for reason in row["reasons"])
