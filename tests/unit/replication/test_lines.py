"""The lines of a piece hold what its rows tell, and null where they tell nothing."""

import numpy as np
import pytest
from bronze import events_of
from random_cluster import Cluster

from pipelines.replication.compiled.records import Arrays, lines
from pipelines.replication.compiled.types import NULL, NULL32, frozen
from pipelines.replication.events.columns import CODE, RARE, kinds
from pipelines.replication.events.packed_rows import PACKED, SERIAL, Fields, Packing, pack, tally
from pipelines.replication.events.row_slices import pieces


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 13])
@pytest.mark.parametrize("seed", range(4))
def test_a_line_holds_what_its_row_tells(seed, offset):
    events = events_of(Cluster(seed, 60).rows).slice(offset)
    (piece,) = pieces(events)
    count = len(piece)
    kind = kinds(events)
    series = np.zeros(count, dtype=np.int32)
    stat = np.arange(count, dtype=np.int32) % 7
    groups = Arrays(SERIAL, count=1)
    order = np.arange(count, dtype=np.int64)
    tally(frozen(series), frozen(order), piece.wide("ts"), groups.data)
    packing, made = Packing(groups), lines(count)
    pack(Fields.of(piece, series, kind.copy(), stat), 0, packing.place, packing.by_number, packing.filled, 0, made)
    rare = 0
    for line, row, code in zip(made.tolist(), events.to_pylist(), kind.tolist(), strict=True):
        told = {name: NULL if row[name] is None else row[name] for name in ("leo", "leader_leo", "hw", "broker_epoch")}
        leader, replica, epoch = (
            NULL32 if row[name] is None else row[name] for name in ("leader_id", "replica_id", "leader_epoch")
        )
        of_hw = code == CODE["hw"]
        assert line[PACKED.leo] == (leader if of_hw else told["leo"])
        assert line[PACKED.leader_leo] == told["leader_leo"]
        assert line[PACKED.more] == (told["hw"] if of_hw else rare if RARE[code] else told["broker_epoch"])
        assert line[PACKED.who] == epoch << 32 | replica & 0xFFFFFFFF
        assert line[PACKED.what] & 0xFFFF == row["level"] << 10 | code & 0xFF
        assert line[PACKED.seq] == row["seq"]
        rare += bool(RARE[code])
