"""Lines written past the cache hold what was written, wherever they stand, and nothing beside them changes."""

import numpy as np
import pytest

from pipelines.replication.compiled import records
from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import CACHE_LINE, lines
from pipelines.replication.compiled.streaming_stores import write_line


@kernel
def _write(lines, places):
    for k in range(len(places)):
        write_line(lines, places[k], (k, -k, k + 1, 1 << 62, -(1 << 62), k * k, -1, places[k]))


@pytest.mark.parametrize("count", [1, 7, 4096])
def test_lines_hold_what_was_written(count):
    made = lines(2 * count)
    assert made.ctypes.data % (8 * CACHE_LINE) == 0
    made[:] = 5
    places = np.random.default_rng(count).permutation(count) * 2
    _write(made, places)
    k = np.arange(count)
    same = [np.full(count, v) for v in (1 << 62, -(1 << 62), -1)]
    expected = np.stack([k, -k, k + 1, same[0], same[1], k * k, same[2], places], axis=1)
    assert (made[places] == expected).all()
    assert (np.delete(made, places, axis=0) == 5).all()


def test_the_memory_of_lines_serves_again_when_nobody_holds_them():
    made = lines(1000)
    place = made.ctypes.data
    assert lines(10).ctypes.data != place
    first = lines(1000)
    view, place = first[5:][:, 2], first.ctypes.data
    first[:] = 7
    del first
    assert lines(1000).ctypes.data != place
    assert (view == 7).all()
    kept = lines(1000).ctypes.data
    assert lines(900).ctypes.data == kept


def test_more_lines_than_are_to_be_kept_are_not(monkeypatch):
    monkeypatch.setattr(records, "MOST_KEPT", 100)
    lines(101)
    assert not records._kept
    lines(100)
    assert [len(memory) for memory, _ in records._kept] == [101 * CACHE_LINE - 1]


def test_memory_of_many_more_lines_than_are_asked_for_is_let_go():
    many = records.SPARE * 1000
    place = lines(many).ctypes.data
    assert lines(0).shape == (0, CACHE_LINE)
    assert lines(many).ctypes.data == place
    lines(500)
    assert [len(memory) for memory, _ in records._kept] == [501 * CACHE_LINE - 1]
