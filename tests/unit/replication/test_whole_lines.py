"""Lines written past the cache hold what was written, wherever they stand, and nothing beside them changes."""

import numpy as np
import pytest

from pipelines.replication.arrays import CACHE_LINE, lines
from pipelines.replication.compiled import kernel
from pipelines.replication.whole_lines import write_line


@kernel
def _write(lines, places):
    for k in range(len(places)):
        write_line(lines, places[k], k, -k, k + 1, 1 << 62, -(1 << 62), k * k, -1, places[k])


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
