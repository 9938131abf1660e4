"""`hwmark ingest disk`: what checkpoints prove of high watermarks and starts of terms, and what they do not."""

import os
import shutil
import threading
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from generators.disks import ingest
from generators.disks.checkpoint_rows import BrokerCheckpoints
from generators.disks.directories import find_log_directories
from generators.disks.files import Unreadable
from generators.disks.ingest import ingest_disk
from pipelines.cli import app
from pipelines.lake.bronze import read_events
from pipelines.lake.roles import RoleHeld, hold
from pipelines.replication import Rules, replay
from schemas import replication_events
from schemas.event_types import epochs_detail
from tests.unit.disks.disk_files import TS, VERSIONS, batch, directory, findings_of, offsets, partition, recorded
from tests.unit.disks.test_audit import fingerprint
from tests.unit.disks.test_metadata_log import TOPIC, change, ids, metadata_node, text
from tests.unit.disks.test_metadata_log import partition as partition_record

AT_S = TS / 1000
TOPIC_ID = "A" * 22


def losses(events):
    """What is known to be lost, or is not excluded: (class, severity, lost from, lost to)."""
    rows = replay(events, Rules()).hw_regressions.to_pylist()
    newest = {row["regression_id"]: row for row in rows}
    return sorted((r["class"], r["severity"], r["lost_from"], r["lost_to"]) for r in newest.values())


def told(folder, lake, **options):
    ingest_disk([folder], cluster="c", lake=str(lake), **options)
    return read_events(str(lake))


@pytest.mark.parametrize("version", VERSIONS)
def test_disks_alone_show_what_a_real_unclean_election_lost(tmp_path, version):
    """Broker 1 had 300 records committed, broker 2 began with 120 of them. Of every other topic nothing was lost."""
    events = told(recorded(tmp_path, f"unclean_election_{version}") / "data", tmp_path / "lake")
    assert [loss for loss in losses(events) if loss[1] == "critical"] == [("unclean_loss", "critical", 120, 300)]
    facts = replay(events, Rules())
    assert facts.quarantine.num_rows == 0
    (row,) = [row for row in facts.hw_regressions.to_pylist() if row["severity"] == "critical"]
    assert (row["topic"], row["proof"], row["leader_id_before"], row["leader_id"]) == ("orders", "bounded", 1, 2)
    assert '"bound":"at_least"' in row["evidence"]


@pytest.mark.parametrize("version", VERSIONS)
def test_faults_that_lose_nothing_show_no_loss(tmp_path, version):
    """A rolling restart, a frozen leader, kills, a disk replaced, a topic deleted and made again, all killed."""
    data = recorded(tmp_path, f"faults_{version}") / "data"
    before = fingerprint(data)
    events = told(data, tmp_path / "lake")
    assert fingerprint(data) == before, "nothing below the directories is written"
    found = losses(events)
    assert [loss for loss in found if loss[1] == "critical" or loss[2] is not None] == []
    assert [finding for finding in findings_of(data, deep=True) if finding.severity != "info"] == []


def stamp(path, at_s):
    for one in [path, *path.rglob("*")]:
        os.utime(one, (at_s, at_s))


class Cluster:
    """Two brokers with replicas of t-0 and the metadata log: broker 1 leads in epoch 0, broker 2 in epoch 1."""

    def __init__(self, folder, *, unclean=True):
        self.folder, self.topic = folder, b"\x01\x02\x00" + text("t") + bytes(16) + b"\0"
        elect = (1, (2).to_bytes(4, "big")), *([(5, b"\1")] if unclean else [])
        changes = [change((0, ids(1))), change((0, ids(2)), *elect)] if unclean else [change(*elect)]
        for broker in (1, 2):
            directory(folder, broker, clean=False)
            metadata_node_in(folder / f"broker-{broker}", [TOPIC, partition_record(), *changes])

    def replica(self, broker, hw, epochs, end, at_s=AT_S + 60):
        at = partition(self.folder / f"broker-{broker}", [batch(0, end)], epochs, topic_id=TOPIC_ID)
        stamp(at, at_s - 1)
        offsets(self.folder / f"broker-{broker}", "replication-offset-checkpoint", t=hw)
        os.utime(self.folder / f"broker-{broker}" / "replication-offset-checkpoint", (at_s, at_s))
        return at

    def losses(self):
        return losses(told(self.folder, self.folder / "lake"))


def metadata_node_in(folder, values):
    """The metadata log in a directory that there is."""
    made = metadata_node(folder.parent / "made", int(folder.name[7:]), [(1, value) for value in values])
    shutil.move(made, folder)
    shutil.rmtree(folder.parent / "made")


# proofs.md 5.3
def test_an_epoch_that_began_below_a_high_watermark_of_an_earlier_one_is_a_loss_of_at_least_that(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.replica(1, 300, [(0, 0)], 310)
    cluster.replica(2, 150, [(0, 0), (1, 120)], 150)
    assert cluster.losses() == [("unclean_loss", "critical", 120, 300)]


def test_an_entry_at_or_above_the_high_watermark_proves_nothing_and_no_start_is_safe_by_it(tmp_path):
    cluster = Cluster(tmp_path, unclean=False)
    cluster.replica(1, 100, [(0, 0)], 100)
    cluster.replica(2, 150, [(0, 0), (1, 120)], 150)
    assert cluster.losses() == [("loss_not_excluded", "info", None, None)]


def test_an_empty_epoch_that_vanished_leaves_no_start_and_no_loss(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.replica(1, 300, [(0, 0)], 310)
    cluster.replica(2, 150, [(0, 0)], 150)
    assert cluster.losses() == [("unclean_loss", "warning", None, None)]


# proofs.md 5.4
def test_a_high_watermark_that_may_be_of_the_next_epoch_says_nothing_until_the_next_checkpoint(tmp_path):
    """Broker 1 was started, has cut its log and follows epoch 1; its checkpoint still has 300."""
    cluster = Cluster(tmp_path)
    at = cluster.replica(1, 300, [(0, 0), (1, 120)], 150)
    os.utime(at / "leader-epoch-checkpoint", (AT_S + 62, AT_S + 62))
    events = told(tmp_path, tmp_path / "lake")
    assert [(row["leo"], row["hw"]) for row in samples(events, 1)] == [(150, None)]


def test_an_epoch_that_the_log_has_no_batch_of_may_be_that_of_the_high_watermark(tmp_path):
    """Broker 1 led epoch 1 to 120, broker 2 epoch 2 from 120, broker 1 epoch 3: all of 300 may be of epoch 3."""
    cluster = Cluster(tmp_path)
    cluster.replica(1, 300, [(0, 0), (3, 300)], 300)
    cluster.replica(2, 150, [(0, 0), (1, 120)], 150)
    assert [loss for loss in cluster.losses() if loss[1] == "critical"] == []


def test_entries_of_a_deleted_topic_of_that_name_say_nothing_of_the_new_one(tmp_path):
    cluster = Cluster(tmp_path)
    at = cluster.replica(1, 300, [(0, 0)], 310)
    (at / "partition.metadata").write_text("version: 0\ntopic_id: " + "B" * 22)
    stamp(at, AT_S + 59)
    cluster.replica(2, 150, [(0, 0), (1, 120)], 150)
    assert cluster.losses() == [("unclean_loss", "warning", None, None)]


def test_a_high_watermark_without_a_topic_id_beside_it_counts_for_nothing(tmp_path):
    """Up to Kafka 2.7: after delete and recreate the entry of the old topic stays until the first write."""
    cluster = Cluster(tmp_path)
    at = cluster.replica(1, 300, [(0, 0)], 310)
    (at / "partition.metadata").unlink()
    assert [(row["leo"], row["hw"]) for row in samples(told(tmp_path, tmp_path / "lake"), 1)] == [(310, None)]


def sampled(*rows):
    """Rows of a cluster whose elections the metadata log tells, and of disks: the losses of every order of sources."""
    names = ("ts", "event_type", "source_id", "broker_id", "replica_id", "leader_id", "leader_epoch", "hw", "leo",
             "isr", "unclean", "detail", "committed")  # fmt: skip
    full, counts = [], Counter()
    for row in rows:
        told = dict(zip(names, row, strict=True))
        place = {"cluster": "c", "topic": "t", "partition": 0, "topic_id": TOPIC_ID, "source_epoch": 0, "level": 0}
        number = counts[row[2]]
        told["ts"] = datetime.fromtimestamp(AT_S + row[0], UTC)
        full.append(place | told | {"source_seq": number, "seq": number})
        counts[row[2]] += 1
    return losses(pa.Table.from_pylist(full, schema=replication_events.ARROW))


def election(at_s, leader, epoch, *, unclean=False, isr=(1, 2)):
    return (at_s, "election", "disk/metadata", -1, None, leader, epoch, None, None, list(isr), unclean, None, True)


def sample(at_s, broker, hw, epochs):
    return (at_s, "sample", f"disk/broker-{broker}", broker, broker, None, epochs[-1][0], hw, None, None, None,
            epochs_detail(epochs), None)  # fmt: skip


def test_what_an_unclean_election_lost_is_known_in_whichever_order_disks_tell_it():
    elections = [election(0, 1, 0), election(60, 2, 1, unclean=True, isr=[2])]
    old, new = sample(50, 1, 300, [(0, 0)]), sample(70, 2, 150, [(0, 0), (1, 120)])
    lost = [("unclean_loss", "critical", 120, 300)]
    assert sampled(*elections, old, new) == lost
    assert sampled(*elections, new, sample(90, 1, 300, [(0, 0)])) == lost, "the old disk is read last"
    assert sampled(election(0, 1, 0), old, sample(61, 2, 150, [(0, 0), (1, 120)]), election(62, *elections[1][5:7],
                   unclean=True, isr=[2])) == lost, "the entry comes before the election"  # fmt: skip


def test_what_came_back_with_the_old_leader_is_lost_in_the_term_between_only():
    """Broker 1 at 300, broker 2 uncleanly from 120, broker 1 uncleanly again from 300: its HW of then is no loss."""
    rows = [election(0, 1, 0), sample(50, 1, 300, [(0, 0)]), election(60, 2, 1, unclean=True, isr=[2]),
            sample(70, 2, 150, [(0, 0), (1, 120)]), election(80, 1, 2, unclean=True, isr=[1]),
            sample(90, 1, 310, [(0, 0), (2, 300)])]  # fmt: skip
    assert sampled(*rows) == [("unclean_loss", "critical", 120, 150), ("unclean_loss", "critical", 120, 300)]


def test_a_clean_change_of_leader_at_or_above_every_high_watermark_is_no_loss():
    rows = [election(0, 1, 0), sample(50, 1, 300, [(0, 0)]), sample(50, 2, 299, [(0, 0)]), election(60, 2, 1),
            sample(70, 2, 320, [(0, 0), (1, 305)]), sample(70, 1, 310, [(0, 0), (1, 305)])]  # fmt: skip
    assert [loss for loss in sampled(*rows) if loss[1] != "info"] == []


def test_a_high_watermark_above_the_end_of_the_log_is_told_and_counts_for_nothing(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.replica(1, 300, [(0, 0)], 120)
    cluster.replica(2, 150, [(0, 0), (1, 120)], 150)
    summary = ingest_disk([tmp_path], cluster="c", lake=str(tmp_path / "lake"))
    assert "t-0: its checkpoint has a high watermark of 300, its log ends at 120: damaged, or cut" in "\n".join(
        summary.lines()
    )
    assert [(row["leo"], row["hw"]) for row in samples(read_events(str(tmp_path / "lake")), 1)] == [(120, None)]


def test_a_high_watermark_above_the_ends_of_both_logs_is_that_of_before_they_were_cut(tmp_path):
    """A power failure cut both replicas to 120; only one checkpoint that says 300 may be damaged, two are not alike."""
    cluster = Cluster(tmp_path)
    cluster.replica(1, 300, [(0, 0)], 120)
    cluster.replica(2, 298, [(0, 0)], 120)
    events = told(tmp_path, tmp_path / "lake")
    assert [(row["leo"], row["hw"]) for broker in (1, 2) for row in samples(events, broker)] == [(None, 298)] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_a_power_failure_of_all_replicas_of_a_dynamic_quorum_is_a_loss_and_a_zombie_is_none(tmp_path, version):
    """Recorded: 120..299 were acknowledged by both replicas of orders, and flushed by neither."""
    folder = recorded(tmp_path, f"power_{version}")
    ingest_disk([folder / "down"], cluster="c", lake=str(tmp_path / "lake"))
    events = told(folder / "data", tmp_path / "lake")
    facts = replay(events, Rules())
    assert facts.quarantine.num_rows == 0
    found = [row for row in facts.hw_regressions.to_pylist() if row["severity"] == "critical"]
    assert [(row["topic"], row["lost_from"], row["lost_to"]) for row in found] == [("orders", 120, 300)]


def samples(events, broker):
    rows = events.sort_by("source_seq").to_pylist()
    return [row for row in rows if row["source_id"] == f"disk/broker-{broker}" and row["event_type"] == "sample"]


def test_a_sample_has_the_time_of_the_checkpoint_give_or_take_its_interval_and_never_is_a_brokers_own(tmp_path):
    Cluster(tmp_path).replica(1, 300, [(0, 0)], 310)
    events = told(tmp_path, tmp_path / "lake")
    (row,) = samples(events, 1)
    assert (row["ts"].timestamp(), row["ts_error_ms"], row["level"]) == (AT_S + 60, 5000.0, 1)
    assert (row["leo"], row["hw"], row["leader_epoch"], row["detail"]) == (310, 300, 0, "epochs=0:0")
    of_broker = [row for row in events.to_pylist() if row["source_id"] == "disk/broker-1"]
    assert {row["event_type"] for row in of_broker} == {"sample", "progress"}
    assert {tuple(row["covers"]) for row in of_broker if row["event_type"] == "progress"} == {()}


# proofs.md 5.10
def test_only_replicas_that_changed_are_told_at_the_next_checkpoint(tmp_path):
    one = directory(tmp_path, 1, clean=False)
    for name in ("t-0", "u-0"):
        stamp(partition(one, [batch(0, 10)], [(0, 0)], name=name, topic_id=TOPIC_ID), AT_S)
    files = BrokerCheckpoints(1)

    def look(at_s, **hws):
        offsets(one, "replication-offset-checkpoint", **hws)
        os.utime(one / "replication-offset-checkpoint", (at_s, at_s))
        rows = files.rows(find_log_directories([one]), "c", "disk/broker-1", at_s + 1).to_pylist()
        return [(row["topic"], row["leo"], row["hw"], row["ts_error_ms"]) for row in rows]

    assert look(AT_S + 10, t=5, u=5) == [("t", None, 5, 5000.0), ("u", None, 5, 5000.0)]
    assert look(AT_S + 10, t=7, u=5) == [], "the same file by its time"
    assert look(AT_S + 16, t=7, u=5) == [("t", None, 7, 6000.0)]
    (one / ".kafka_cleanshutdown").touch()
    assert look(AT_S + 16, t=7, u=5) == [("t", 10, 7, 5000.0), ("u", 10, 5, 5000.0)], "stopped: the end is known"


@pytest.mark.parametrize(("later_s", "leo"), [(5, 10), (9, None)])
def test_the_end_of_a_log_that_was_written_to_after_a_missing_checkpoint_is_of_no_known_time(tmp_path, later_s, leo):
    """proofs.md 5.4, 5.5: such a broker runs with checkpoints that are rarer; a killed one wrote for 5 s more."""
    one = directory(tmp_path, 1, clean=False)
    at = partition(one, [batch(0, 10)], [(0, 0)], topic_id=TOPIC_ID)
    stamp(at, AT_S)
    os.utime(at / f"{0:020d}.log", (AT_S + 10 + later_s,) * 2)
    offsets(one, "replication-offset-checkpoint", t=5)
    os.utime(one / "replication-offset-checkpoint", (AT_S + 10,) * 2)
    rows = BrokerCheckpoints(1).rows(find_log_directories([one]), "c", "disk/broker-1", AT_S + 60).to_pylist()
    assert [(row["leo"], row["hw"]) for row in rows] == [(leo, 5)]


def test_a_replica_that_cut_what_it_had_committed_between_two_looks_is_a_truncation(tmp_path):
    one = directory(tmp_path, 1, clean=False)
    files = BrokerCheckpoints(1)

    def look(at_s, hw, epochs):
        stamp(partition(one, [batch(0, 10)], epochs, topic_id=TOPIC_ID), at_s - 1)
        offsets(one, "replication-offset-checkpoint", t=hw)
        os.utime(one / "replication-offset-checkpoint", (at_s, at_s))
        rows = files.rows(find_log_directories([one]), "c", "disk/broker-1", at_s + 1).to_pylist()
        return [(row["event_type"], row["leader_epoch"], row["leo"], row["detail"]) for row in rows]

    assert look(AT_S + 10, 300, [(0, 0)]) == [("sample", 0, None, "epochs=0:0")]
    assert look(AT_S + 15, 300, [(0, 0), (1, 300)]) == [("sample", 1, None, "epochs=0:0 1:300")]
    assert look(AT_S + 20, 150, [(0, 0), (2, 120)]) == [
        ("truncate", 2, 120, "hw=300 epoch=1 end=120"),
        ("sample", 2, None, "epochs=0:0 2:120"),
    ]


def test_what_was_told_is_not_told_again_by_the_next_call(tmp_path):
    Cluster(tmp_path).replica(1, 300, [(0, 0)], 310)
    first = told(tmp_path, tmp_path / "lake")
    assert told(tmp_path, tmp_path / "lake").num_rows == first.num_rows
    offsets(tmp_path / "broker-1", "replication-offset-checkpoint", t=305)
    assert len(samples(told(tmp_path, tmp_path / "lake"), 1)) == 2


def test_a_replica_that_could_not_be_read_is_told_by_the_next_call(tmp_path):
    at = Cluster(tmp_path).replica(1, 300, [(0, 0)], 310)
    (at / "partition.metadata").rename(at / "away")
    (at / "partition.metadata").symlink_to(at / "away")
    words = ["ingest", "disk", str(tmp_path), "--cluster", "c", "--lake", str(tmp_path / "lake")]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, "a symbolic link, not followed" in done.stdout) == (65, True)
    (at / "away").replace(at / "partition.metadata")
    assert CliRunner().invoke(app, words).exit_code == 0
    assert [row["hw"] for row in samples(read_events(str(tmp_path / "lake")), 1)] == [300]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda of: (of / "replication-offset-checkpoint").unlink(), "no high watermark without replication-offset-ch"),
        (lambda of: (of / "meta.properties").write_text("node.id=x\n"), "its replicas are not read, as its broker"),
    ],
)
def test_replicas_of_which_nothing_is_told_are_named(tmp_path, spoil, words):
    cluster = Cluster(tmp_path)
    for broker in (1, 2):
        cluster.replica(broker, 300, [(0, 0)], 310)
    spoil(tmp_path / "broker-2")
    summary = ingest_disk([tmp_path], cluster="c", lake=str(tmp_path / "lake"))
    assert words in "\n".join(summary.lines())


def test_beside_every_broker_the_first_has_the_metadata_log_and_each_its_own_checkpoints(tmp_path, monkeypatch):
    Cluster(tmp_path).replica(1, 300, [(0, 0)], 310)
    lake, stop = str(tmp_path / "lake"), threading.Event()
    stop.set()
    with hold(lake, "ingest:c/disk/metadata"):
        with pytest.raises(RoleHeld):
            ingest_disk([tmp_path], cluster="c", lake=lake)
        summary = ingest_disk([tmp_path], cluster="c", lake=lake, follow=True, stop=stop)
    assert "is held by" in "\n".join(summary.lines())
    assert {row["source_id"] for row in read_events(lake).to_pylist()} == {"disk/broker-1"}


def test_a_directory_that_is_away_for_a_while_is_told_and_read_on_later(tmp_path, monkeypatch):
    data, lake, heard, stop = tmp_path / "data", str(tmp_path / "lake"), [], threading.Event()
    Cluster(data).replica(1, 300, [(0, 0)], 310)
    monkeypatch.setattr(ingest, "LEAST_PAUSE_S", 0.01)
    monkeypatch.setattr(ingest, "SHARE", 1e9)

    def look(words):
        heard.append(read_events(lake).num_rows)
        assert ("is no directory" in words) == (len(heard) == 2), "a problem is said when it begins"
        if len(heard) == 1:
            data.rename(tmp_path / "away")
        elif len(heard) == 3:
            (tmp_path / "away").rename(data)
            offsets(data / "broker-1", "replication-offset-checkpoint", t=305)
        if heard[-1] > heard[0] or len(heard) > 50:
            stop.set()

    ingest_disk([data], cluster="c", lake=lake, follow=True, stop=stop, on_progress=look)
    assert heard[:3] == [heard[0]] * 3
    assert [row["hw"] for row in samples(read_events(lake), 1)] == [300, 305]


def test_following_goes_on_where_one_look_cannot_read_a_file(tmp_path, monkeypatch):
    data, lake, heard, stop = tmp_path / "data", str(tmp_path / "lake"), [], threading.Event()
    Cluster(data).replica(1, 300, [(0, 0)], 310)
    monkeypatch.setattr(ingest, "LEAST_PAUSE_S", 0.01)
    monkeypatch.setattr(ingest, "SHARE", 1e9)
    read, failures = ingest.Replay.read, iter([True])

    def fails_once(self, nodes, quorum):
        if next(failures, False):
            raise Unreadable(data, "gone")
        return read(self, nodes, quorum)

    monkeypatch.setattr(ingest.Replay, "read", fails_once)

    def look(words):
        heard.append(words)
        if len(heard) == 3:
            stop.set()

    summary = ingest_disk([data], cluster="c", lake=lake, follow=True, stop=stop, on_progress=look)
    assert "disk/metadata" in {row["source_id"] for row in read_events(lake).to_pylist()}
    assert summary.problems["disk/metadata"] == []


def test_a_log_directory_that_failed_long_ago_fills_no_seconds(tmp_path):
    """Two log.dirs of one broker, of which one is written no more: every look has a row of progress, not thousands."""
    for name, at_s in (("disk-1", AT_S), ("disk-2", AT_S + 5000)):
        one = directory(tmp_path / name, 1, clean=False)
        stamp(partition(one, [batch(0, 10)], [(0, 0)], name=f"{name}-0", topic_id=TOPIC_ID), at_s - 1)
    lake, counts = tmp_path / "lake", []
    for k in range(3):
        for name, at_s in (("disk-1", AT_S), ("disk-2", AT_S + 5000 + 5 * k)):
            file = tmp_path / name / "broker-1" / "replication-offset-checkpoint"
            offsets(file.parent, file.name, **{name: k + 1})
            os.utime(file, (at_s, at_s))
        counts.append(told(tmp_path, lake).num_rows)
    assert [after - before for before, after in pairwise(counts)] == [7, 7]


def test_a_replica_that_moves_between_two_log_directories_of_its_broker_is_told_once_and_never_as_cut(tmp_path):
    """kafka-reassign-partitions with log_dirs: `-future` grows beside it, takes its name, and what was is `-delete`."""
    at_s, folders = AT_S, [directory(tmp_path / name, 1, clean=False) for name in ("disk-1", "disk-2")]
    for name, folder in zip("ab", folders, strict=True):
        with open(folder / "meta.properties", "a") as properties:
            properties.write(f"directory.id={name * 22}\n")
    files, uuid = BrokerCheckpoints(1), "0" * 32
    old = partition(folders[0], [batch(0, 100)], [(0, 0), (3, 80)], topic_id=TOPIC_ID)
    new = partition(folders[1], [batch(0, 40)], [(0, 0)], name=f"t-0.{uuid}-future", topic_id=TOPIC_ID)

    def look(**hws):
        nonlocal at_s
        at_s += 5
        for folder, hw in zip(folders, (hws.get("one"), hws.get("two")), strict=True):
            offsets(folder, "replication-offset-checkpoint", **({} if hw is None else {"t": hw}))
            os.utime(folder / "replication-offset-checkpoint", (at_s, at_s))
        found = files.rows(find_log_directories([tmp_path]), "c", "disk/broker-1", at_s + 1).to_pylist()
        return [(row["event_type"], row["leo"], row["hw"], row["leader_epoch"]) for row in found]

    for one in (old, new):
        stamp(one, AT_S)
    assert look(one=90) == [("sample", None, 90, 3)]
    assert look(one=95) == [("sample", None, 95, 3)]
    old.rename(folders[0] / f"t-0.{uuid}-delete")
    shutil.copy(folders[0] / f"t-0.{uuid}-delete" / "leader-epoch-checkpoint", new)
    stamp(new, AT_S)
    new.rename(folders[1] / "t-0")
    assert look(one=95) == [], "the checkpoint of the other directory does not have it yet"
    assert look(two=95) == []
    assert look(two=97) == [("sample", None, 97, 3)]
