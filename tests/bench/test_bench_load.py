"""The bulk load: what is reported of a stall, and that it keeps the contract at every density."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.bench.workloads.load import rounds
from pipelines.bench.workloads.stalls import EPOCH_S, LAG_MAX_MS
from pipelines.replication import Rules, replay
from pipelines.replication.events import row_rules


def made(partitions=40, seconds=2 * EPOCH_S, **settings):
    return pa.concat_tables(rounds(partitions, seconds, **settings))


def of_kind(events, kind):
    return events.filter(pc.equal(events["event_type"], kind))


@pytest.mark.parametrize("appends", [1, 7])
def test_every_row_keeps_the_contract_and_no_number_is_missing(appends):
    events = made(appends=appends, stalled=0.1)
    assert row_rules.split(events)[1].num_rows == 0
    for series, number in ((["source_id"], "source_seq"), (["source_id", "topic", "partition"], "seq")):
        found = events.group_by(series).aggregate([(number, "min"), (number, "max"), (number, "count_distinct")])
        assert pc.all(pc.equal(found[f"{number}_min"], 0)).as_py()
        assert found[f"{number}_max"].to_pylist() == [n - 1 for n in found[f"{number}_count_distinct"].to_pylist()]


def test_appends_a_second_are_those_asked_for():
    assert len(of_kind(made(appends=7), "append")) == 7 * len(of_kind(made(), "append"))


def test_a_share_of_the_partitions_stalls_in_each_epoch_that_fits():
    assert [len(of_kind(made(seconds=s, stalled=0.1), "isr")) for s in (EPOCH_S - 1, EPOCH_S, 2 * EPOCH_S)] == [
        0,
        8,
        16,
    ]


def test_the_same_events_however_they_are_cut():
    key = [("source_id", "ascending"), ("source_seq", "ascending")]
    assert made(stalled=0.1).sort_by(key).equals(made(stalled=0.1, step=5).sort_by(key))


def test_the_reconstruction_sees_a_stall_as_what_it_is():
    facts = replay(made(stalled=0.1), Rules(lag_max_ms=LAG_MAX_MS))
    causes = facts.isr_changes.group_by(["change", "cause"], use_threads=False).aggregate([([], "count_all")])
    assert causes.to_pylist() == [
        {"change": "shrink", "cause": "lag", "count_all": 8},
        {"change": "expand", "cause": "caught_up", "count_all": 8},
    ]
    assert not len(facts.hw_regressions)
    assert not len(facts.telemetry_gaps)
    assert not len(facts.quarantine)


def test_no_follower_is_out_of_sync_that_does_not_stall():
    states = replay(made(), Rules(lag_max_ms=LAG_MAX_MS)).replica_sync["state"]
    assert not pc.any(pc.equal(states, "out_of_sync")).as_py()
