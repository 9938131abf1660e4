"""Rows are the same in whichever types their writer has for them, and where it leaves out columns without values."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from pipelines.streaming.source.conform import conform
from tests.properties.draws import Draw
from tests.unit.replication.bronze import events_of

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
