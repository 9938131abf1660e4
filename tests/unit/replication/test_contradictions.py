"""Two that say other committed ISRs of one partition epoch: logs or disks of another cluster are among those given."""

import pytest

from hwmark import replay
from schemas.event_types import epochs_detail
from tests.unit.replication.bronze import Source, controller, events_of, last_rows, table
from tests.unit.replication.watching import Watched, in_time

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


def watched(*hws, silent=()):
    """Broker 1 leads from offset 100 of epoch 4 on; a watcher asks every 5 s, and sees these (ms, HW)."""
    one = Watched(1).began(1000, 4, 100, [1, 2])
    for ms, hw in hws:
        one.leads(ms, 4, hw, hw, [1, 2])
    for ms in range(5000, 300_000, 5000):
        one.hung(ms) if ms in silent else one.round(ms)
    return one


RISING = (5000, 140), (40_000, 150), (100_000, 160)


def contradictions_in_time(*sources):
    found = replay(events_of(in_time(*sources))).telemetry_gaps.to_pylist()
    return [(r["source_id"], r["detail"]) for r in found if r["kind"] == "contradiction"]


def test_a_checkpoint_above_all_that_a_watcher_was_told_later_under_that_epoch_is_a_row_and_no_loss():
    """proofs.md 5.4: the leader answered once clocks could be no further apart, and its HW never falls in an epoch."""
    next_one = Watched(2).began(200_000, 5, 160, [1, 2]).round(300_000)
    sources = watched(*RISING), checkpoint(10_000, 300), next_one
    assert contradictions_in_time(*sources) == [("disk/broker-2", "HW 300, its leader has told none above 150")]
    rows = last_rows(replay(events_of(in_time(*sources))).hw_regressions, "regression_id")
    assert [row for row in rows if row["severity"] == "critical"] == []


@pytest.mark.parametrize(
    ("samples", "at_ms", "hw"),
    [
        pytest.param(watched(*RISING), 10_000, 150, id="the leader had that much"),
        pytest.param(watched((5000, 140), (40_000, 310)), 10_000, 300, id="the leader was seen to have more"),
        pytest.param(watched((5000, 150)), 10_000, 300, id="no other HW of the leader was seen afterwards"),
        pytest.param(watched((5000, 140), (18_000, 150)), 10_000, 300, id="clocks may differ by so much"),
        pytest.param(watched(*RISING, silent=[15_000]), 10_000, 300, id="it may have started again"),
        pytest.param(watched(*RISING), -5_000, 300, id="nobody asked it before"),
    ],
)
def test_a_checkpoint_contradicts_no_samples_that_need_not_be_all(samples, at_ms, hw):
    assert contradictions_in_time(samples, checkpoint(at_ms, hw)) == []


def metadata_log(*changes):
    """A metadata log on disk: (ms, partition epoch, leader, leader epoch, ISR) of each election and change."""
    disk, known = Source("disk/metadata-0", level=0), None
    for ms, number, leader, epoch, isr in changes:
        columns = {"partition_epoch": number, "committed": True, "broker_id": -1, "leader_id": leader, **ID}
        kind = {"event_type": "isr", "detail": "controller"} if epoch == known else {"event_type": "election"}
        disk.event(ms, **kind, leader_epoch=epoch, isr=isr, **columns)
        known = epoch
    return disk


EPOCHS = (100, 0, 1, 0, [1, 2, 3]), (5000, 1, 1, 0, [1, 2]), (60_000, 2, 2, 1, [1, 2])
UNSEEN = "ISR [1, 3] in leader epoch 0, of which every ISR is told and none is that"


def seen(ms, leader, epoch, isr):
    return Watched(9).on(**ID).seen(ms, leader, epoch, isr).round(300_000)


@pytest.mark.parametrize(
    ("sample", "changes", "words"),
    [
        pytest.param((20_000, 1, 0, [1, 3]), EPOCHS, [UNSEEN], id="no ISR of that epoch"),
        pytest.param((90_000, 1, 0, [1, 3]), EPOCHS, [UNSEEN], id="told late"),
        pytest.param((20_000, 1, 0, [1, 2]), EPOCHS, [], id="an ISR of that epoch"),
        pytest.param((90_000, 1, 0, [1, 2, 3]), EPOCHS, [], id="an old one, of a broker whose metadata are old"),
        pytest.param((90_000, 2, 1, [2]), EPOCHS, [], id="an epoch that goes on"),
        pytest.param((20_000, 1, 0, [1, 3]), (EPOCHS[0], EPOCHS[2]), [], id="a partition epoch is missing"),
        pytest.param((20_000, 3, 0, [1, 3]), EPOCHS[:2],
                     ["broker 3 leads in leader epoch 0, others say broker 1"], id="another leader of the epoch"),
    ],
)  # fmt: skip
def test_an_isr_that_a_watcher_saw_and_the_metadata_log_never_had_is_a_row(sample, changes, words):
    """A sample names no partition epoch: the log has to tell every one of a leader epoch that is over."""
    assert [said for _, said in contradictions_in_time(metadata_log(*changes), seen(*sample))] == words
