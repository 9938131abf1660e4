"""Two that say other committed ISRs of one partition epoch: logs or disks of another cluster are among those given."""

import pytest

from hwmark import replay
from schemas.event_types import epochs_detail
from tests.unit.replication.bronze import Source, controller, last_rows, table

ID = {"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}


def contradictions(*sources):
    found = replay(table(*sources)).telemetry_gaps.to_pylist()
    return [(r["source_id"], r["partition"], r["detail"]) for r in found if r["kind"] == "contradiction"]


def leads(**isrs):
    source = Source("broker-1/server.log").leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3], partition_epoch=0, **ID)
    return source.isr(5000, isrs["told"], 1, **ID)


def test_another_brokers_metadata_that_names_another_isr_is_a_row():
    other = Source("broker-2/server.log").isr(5100, [1, 3], 1, detail="metadata", **ID)
    words = "ISR [1, 3] at partition epoch 1, others say [1, 2]"
    assert contradictions(leads(told=[1, 2]), other) == [("broker-2/server.log", 0, words)]


def test_a_committed_record_of_a_metadata_log_that_names_another_isr_is_a_row():
    disk = Source("disk/broker-9", level=0).isr(5100, [1], 1, detail="controller", committed=True, broker_id=-1, **ID)
    assert [source for source, *_ in contradictions(leads(told=[1, 2]), disk)] == ["disk/broker-9"]


@pytest.mark.parametrize("isr", [[1, 2], [2, 1]])
def test_the_same_isr_contradicts_nothing(isr):
    other = Source("broker-2/server.log").isr(5100, isr, 1, detail="metadata", **ID)
    assert contradictions(leads(told=[1, 2]), other) == []


def test_what_a_controller_alone_reports_contradicts_nothing():
    """A deposed controller prints changes that no quorum commits."""
    assert contradictions(leads(told=[1, 2]), controller().isr(5100, [1], 1, detail="controller", **ID)) == []


def test_a_metadata_log_that_names_another_leader_of_an_epoch_is_a_row():
    disk = Source("disk/metadata-9", level=0)
    disk.event(100, "election", leader_id=3, leader_epoch=0, partition_epoch=0, isr=[1, 2, 3], committed=True,
               broker_id=-1, **ID)  # fmt: skip
    assert contradictions(leads(told=[1, 2]), disk) == [
        ("disk/metadata-9", 0, "broker 3 leads in leader epoch 0, others say broker 1")
    ]


def test_two_that_lead_in_one_epoch_are_a_row():
    other = Source("broker-2/server.log").leader(100, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3], partition_epoch=0, **ID)
    assert contradictions(leads(told=[1, 2]), other) == [
        ("broker-2/server.log", 0, "broker 2 leads in leader epoch 0, others say broker 1")
    ]


def led(until, *, hw=100, restarted=None):
    """Broker 1 leads from offset 100 of epoch 4 on, in one life, and tells every HW."""
    source = Source("broker-1/server.log").follower(0, 3, 100, 100, 2).leader(1000, 4, 100, 100, [1, 2])
    source.append(2000, hw).fetch(2100, 2, hw, hw).hw(2100, hw) if hw > 100 else None
    if restarted:
        source.leader(restarted, 4, hw, hw, [1, 2], partition_epoch=4)
    for ms in range(3000, until, 1000):
        source.progress(ms)
    return source


def checkpoint(ms, hw, entries=((0, 0), (4, 100))):
    return Source("disk/broker-2", level=1).event(ms, "sample", replica_id=2, hw=hw, leader_epoch=entries[-1][0],
                                                  detail=epochs_detail(entries), ts_error_ms=5000.0)  # fmt: skip


def next_leader(start):
    return Source("broker-2/server.log").follower(0, 4, 100, 100, 1).leader(200_000, 5, start, start, [1, 2])


def critical(*sources):
    rows = last_rows(replay(table(*sources)).hw_regressions, "regression_id")
    return [(row["lost_from"], row["lost_to"]) for row in rows if row["severity"] == "critical"]


def test_a_checkpoint_above_all_that_a_leader_told_until_a_minute_later_is_a_row_and_no_loss():
    """proofs.md 5.4: such a disk is of another cluster, or damaged; the leader's own log is the finer source."""
    sources = led(300_000, hw=150), checkpoint(10_000, 300), next_leader(150)
    said = "HW 300, its leader has told none above 150"
    assert contradictions(*sources) == [("disk/broker-2", 0, said)]
    assert critical(*sources) == []
    again = checkpoint(10_000, 300)
    for k in range(1, 20):
        again.rows += checkpoint(10_000 + 5000 * k, 300 + k).rows
        again.rows[-1] |= {"seq": k, "source_seq": k}
    assert contradictions(sources[0], again, sources[2]) == [("disk/broker-2", 0, said)]
    assert critical(sources[0], again, sources[2]) == []


@pytest.mark.parametrize(
    ("leader", "at_ms"),
    [
        pytest.param(led(9_000, hw=150), 10_000, id="a leader that tells nothing afterwards may have been killed"),
        pytest.param(led(300_000, hw=150), 170_000, id="a leader whose term ends within the minute"),
        pytest.param(led(300_000, hw=150, restarted=40_000), 10_000, id="one that started again lost what it lacks"),
        pytest.param(led(300_000, hw=150).skip().progress(300_000), 290_000, id="one of which rows are missing"),
    ],
)
def test_a_checkpoint_above_what_a_leader_told_counts_if_that_need_not_be_all(leader, at_ms):
    sources = leader, checkpoint(at_ms, 300), next_leader(150)
    assert contradictions(*sources) == []


def test_a_checkpoint_that_the_leader_reaches_later_contradicts_nothing():
    assert contradictions(led(300_000, hw=300), checkpoint(1500, 300)) == []


def test_an_entry_below_the_start_that_its_leader_tells_is_a_row():
    """proofs.md 5.3: an entry of leader-epoch-checkpoint is an upper bound of where its epoch began."""
    entries = checkpoint(10_000, 100, ((0, 0), (4, 50)))
    assert contradictions(led(20_000), entries) == [
        ("disk/broker-2", 0, "leader epoch 4 from 50 or below, its leader says from 100")
    ]
    assert contradictions(led(20_000), checkpoint(10_000, 100, ((0, 0), (4, 120)))) == []
    late = Source("broker-1/server.log").leader(1000, 4, 100, 100, [1, 2]).progress(20_000)
    assert contradictions(late, entries) == [], "it may have begun in epoch 4 before that"
