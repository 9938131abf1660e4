"""Histories stay the bytes that a snapshot has of them until somebody asks for one."""

import pyarrow as pa

from pipelines.replication.partition.encoded import ENCODED, EncodedHistories


def packed(**histories):
    numbers = [int(name[1:]) for name in histories]
    return EncodedHistories(pa.table([numbers, list(histories.values())], schema=ENCODED))


def test_whoever_asks_takes_it_out():
    histories = packed(p7=b"seven", p3=b"three", p5=b"five")
    assert [histories.take(p) for p in (3, 4, 7, 8, 3)] == [b"three", None, b"seven", None, None]
    assert histories.table({}).to_pylist() == [{"partition": 5, "history": b"five"}]


def test_a_snapshot_has_what_nobody_took_and_the_others():
    histories = packed(p7=b"seven", p3=b"three")
    histories.take(7)
    again = EncodedHistories(histories.table({7: b"seven, changed", 9: b"nine"}))
    assert [again.take(p) for p in (3, 7, 9)] == [b"three", b"seven, changed", b"nine"]


def test_the_bytes_of_a_snapshot_do_not_depend_on_how_often_it_was_restored():
    table = packed(p7=b"seven", p3=b"three").table({})
    assert table.schema == ENCODED
    assert EncodedHistories(table).table({}).equals(table)
    assert [column.num_chunks for column in EncodedHistories(table).table({9: b"nine"}).columns] == [1, 1]


def test_there_are_none_at_first():
    assert EncodedHistories().table({}).num_rows == 0
    assert EncodedHistories().take(0) is None
