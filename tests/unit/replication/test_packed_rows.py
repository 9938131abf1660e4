"""The packed rows of a slice hold the values of its rows, and NULL where a column is null."""

import numpy as np
import pytest

from pipelines.replication.compiled.records import Arrays, lines, read_only
from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.events.columns import CODE, RARE, event_kinds
from pipelines.replication.events.packed_rows import PACKED, SERIES_TALLY, PackingPlan, SliceColumns, pack, tally
from pipelines.replication.events.row_slices import row_slices
from tests.unit.replication.bronze import events_of
from tests.unit.replication.random_cluster import Cluster


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 13])
@pytest.mark.parametrize("seed", range(4))
def test_a_packed_row_holds_the_values_of_its_row(seed, offset):
    events = events_of(Cluster(seed, 60).rows).slice(offset)
    (rows,) = row_slices(events)
    count = len(rows)
    kind = event_kinds(events)
    series = np.zeros(count, dtype=np.int32)
    stat = np.arange(count, dtype=np.int32) % 7
    tallies = Arrays(SERIES_TALLY, count=1)
    order = np.arange(count, dtype=np.int64)
    tally(read_only(series), read_only(order), rows.int64("ts"), tallies.data)
    plan, packed = PackingPlan(tallies), lines(count)
    columns = SliceColumns.from_slice(rows, series, kind.copy(), stat)
    pack(columns, 0, plan.place, plan.by_number, plan.filled, 0, packed)
    rare = 0
    for packed_row, row, code in zip(packed.tolist(), events.to_pylist(), kind.tolist(), strict=True):
        values = {
            name: NULL if row[name] is None else row[name] for name in ("leo", "leader_leo", "hw", "broker_epoch")
        }
        leader, replica, epoch = (
            NULL32 if row[name] is None else row[name] for name in ("leader_id", "replica_id", "leader_epoch")
        )
        of_hw = code == CODE["hw"]
        assert packed_row[PACKED.leo] == (leader if of_hw else values["leo"])
        assert packed_row[PACKED.leader_leo] == values["leader_leo"]
        assert packed_row[PACKED.more] == (values["hw"] if of_hw else rare if RARE[code] else values["broker_epoch"])
        assert packed_row[PACKED.who] == epoch << 32 | replica & 0xFFFFFFFF
        assert packed_row[PACKED.what] & 0xFFFF == row["level"] << 10 | code & 0xFF
        assert packed_row[PACKED.seq] == row["seq"]
        rare += bool(RARE[code])
