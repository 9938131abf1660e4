"""Narrow tables say what the wide ones said, whatever the values and however they are cut."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.streaming.source.compact_encoding import narrow, widen
from schemas import replication_events
from tests.streaming.events import history

ARROW = pa.schema([field.with_nullable(True) for field in replication_events.ARROW])
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def rows(count, **columns):
    plain = {
        "cluster": "c", "source_id": "s", "source_epoch": 0, "source_seq": 0, "seq": 0, "ts": 0, "broker_id": 1,
        "event_type": "fetch", "partition": 0, "level": 3,
    }  # fmt: skip
    made = {name: [value] * count for name, value in plain.items()} | columns
    return pa.table([_array(made.get(f.name, [None] * count), f.type) for f in ARROW], names=ARROW.names)


def _array(values, kind):
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def back(*tables):
    got = widen([narrow(table) for table in tables])
    assert all(column.num_chunks == 1 for column in got.columns)
    return got.cast(ARROW)


def test_events_come_back():
    events = history()
    assert back(events).equals(events.cast(ARROW))


@pytest.mark.parametrize(
    "values",
    [
        [0, 255], [0, 256], [-1, 1 << 16], [7, (1 << 32) + 6], [7, (1 << 32) + 7],
        [LEAST, MOST], [LEAST, LEAST + 1], [MOST, MOST - 3], [None, 5], [None, LEAST], [LEAST, MOST, None], [4, 4],
        [0, 254, None], [0, 255, None],
    ],
)  # fmt: skip
def test_every_64_bit_number_comes_back(values):
    events = rows(len(values), leo=values, log_start=values[::-1])
    assert back(events).equals(events)


@pytest.mark.parametrize("values", [[-(1 << 31), (1 << 31) - 1], [-(1 << 31), None], [None, (1 << 31) - 1, 0]])
def test_every_32_bit_number_comes_back(values):
    events = rows(len(values), replica_id=values)
    assert back(events).equals(events)


def test_null_stays_null_where_it_must_not_be():
    events = rows(2, cluster=[None, None], ts=[None, 3], level=[None, None], partition=[None, 1])
    assert back(events).equals(events)


def test_names_of_several_parts_are_told_apart():
    one = rows(3, topic=["a", None, "b"], detail=["x", None, "x"])
    other, third = rows(3, topic=["b", "c", "b"]), rows(2, topic=["b", "b"], detail=[None, "y"])
    assert back(one, other, third).equals(pa.concat_tables([one, other, third]).combine_chunks())


def test_a_column_may_be_in_one_part_only_and_lists_and_bits_come_back():
    one = rows(2, isr=[[1, 2], None], unclean=[None, True], hw=[5, None])
    other = rows(3, replicas=[[], None, [3]], leo=[1, 2, 900])
    assert back(one, other).equals(pa.concat_tables([one, other]).combine_chunks())


def test_rows_taken_and_cut_come_back_as_those_rows():
    events = history()
    order = np.random.default_rng(0).permutation(len(events))
    got = widen([narrow(events).take(pa.array(order)).slice(5, 20)]).cast(ARROW)
    assert got.equals(events.cast(ARROW).take(pa.array(order[5:25])).combine_chunks())


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_row_comes_back_and_none_too(count):
    events = rows(count)
    assert back(events).equals(events)


def test_what_stands_under_a_null_does_not_count():
    numbers = np.array([5, MOST, 6], dtype=np.int64)
    column = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(bytes([0b101])), pa.py_buffer(numbers)])
    events = rows(3, leo=column)
    assert narrow(events)["leo"].type == pa.uint8()
    assert back(events)["leo"].to_pylist() == [5, None, 6]


def test_steady_events_take_a_third_of_their_bytes():
    from pipelines.bench.workloads.load import rounds

    events = pa.concat_tables(rounds(500, 10)).combine_chunks()
    present = events.select([name for name in events.column_names if events[name].null_count < len(events)])
    assert narrow(events).nbytes * 3 < present.nbytes
