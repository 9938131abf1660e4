"""The metadata log: decoded as Kafka's own tool prints it, and never more of it taken for committed than is known."""

import json
import re
import shutil
import struct
from base64 import urlsafe_b64encode

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from generators.brokerlogs.ingest import read_logs
from generators.disks.batches import (
    CONTROL,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
)
from generators.disks.directories import find_log_directories
from generators.disks.files import Unreadable
from generators.disks.ingest import ingest_disk
from generators.disks.metadata_log import committed_end, longest, node_logs, pieces, read_piece
from generators.disks.metadata_messages import UnknownRecord, decode
from generators.disks.metadata_rows import SOURCE, Replay
from generators.disks.quorum import QuorumEnd
from generators.disks.records import Damaged
from pipelines.cli import app
from pipelines.errors import UsageError
from pipelines.lake.bronze import read_events
from tests.unit.disks.disk_files import VERSIONS, batch, directory, record, recorded

DUMPED = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? payload: (\{.*\})$")
COMPARED = ["ts", "event_type", "topic", "topic_id", "partition", "leader_id", "leader_epoch", "partition_epoch", "isr",
            "replicas", "unclean", "replica_id", "broker_epoch", "min_isr", "detail"]  # fmt: skip


POWER_LEADERS = {
    "3.9": [(1, False), (2, None)],
    "4.1": [(1, False), (1, True), (2, None)],
    "4.4": [(1, False), (2, None), (2, True)],
}
"""Who led `orders` around the power failure, and whether the election was unclean."""


def nodes(*paths):
    return node_logs(find_log_directories(list(paths)))


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_those_that_kafkas_own_tool_prints(tmp_path, version):
    recorded(tmp_path, f"unclean_election_{version}")
    for node in nodes(tmp_path / "data"):
        printed = (tmp_path / "dumps" / f"metadata-{node.directory.broker_id}.txt").read_text().splitlines()
        expected = {int(m[1]): (int(m[2]), json.loads(m[3])) for m in map(DUMPED.match, printed) if m}
        (piece,) = pieces([node])
        read = [record for one in read_piece(piece) if not one.is_control for record in one.records()]
        assert {one.offset: one.ts for one in read} == {offset: ts for offset, (ts, _) in expected.items()}
        decoded = {one.offset: decode(one.value) for one in read}
        known = {offset: found for offset, found in decoded.items() if found}
        assert len(known) >= 50
        for offset, (name, data) in known.items():
            assert (name, data) == (expected[offset][1]["type"], expected[offset][1]["data"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["unclean_election", "faults", "power"])
def test_rows_are_those_of_the_printed_log(tmp_path, kind, version):
    """The timeline of ISRs and leaders is that of Kafka's own tool, of the longest of the three copies."""
    recorded(tmp_path, f"{kind}_{version}")
    copies = nodes(tmp_path / "data")
    found = Replay("c").read(copies).rows
    (tmp_path / "printed").mkdir()
    dump = f"metadata-{longest(copies).directory.broker_id}.txt"
    shutil.copy(tmp_path / "dumps" / dump, tmp_path / "printed" / "metadata.dump")
    printed = read_logs([tmp_path / "printed"], "c")
    printed = printed.filter(pc.not_equal(printed["event_type"], "progress"))
    assert found.select(COMPARED).to_pylist() == printed.select(COMPARED).to_pylist()
    elections = [row for row in found.to_pylist() if row["event_type"] == "election" and row["topic"] == "orders"]
    led = [(row["leader_id"], row["unclean"]) for row in elections if row["leader_id"] >= 0]
    assert led == {"unclean_election": [(1, False), (2, True)], "faults": [], "power": POWER_LEADERS[version]}[kind]


def test_the_end_of_the_log_is_not_committed(tmp_path):
    """proofs.md 5.1. Broker 3 wrote offsets 215..226 when it was alone: no majority has them."""
    data = recorded(tmp_path) / "data"
    three = nodes(data)
    assert (committed_end(three), longest(three).lineage.end) == (215, 227)
    assert committed_end(nodes(data / "broker-1")) == 0
    assert committed_end(nodes(data / "broker-2", data / "broker-3")) == 215, "broker 3 is in the epoch after it"
    assert committed_end(nodes(data / "broker-1", data / "broker-3")) == 0, "broker 3 is three epochs further"
    rows = Replay("c").read(three)
    assert [bool(flag) for flag in rows.rows["committed"].to_pylist()] == (rows.offsets < 215).tolist()


def metadata_node(folder, broker, batches, quorum_epoch=1, base=0, voters=(1, 2, 3)):
    at = directory(folder, broker) / "__cluster_metadata-0"
    at.mkdir()
    told = struct.pack(">hi", 0, 1) + bytes([len(voters) + 1])
    told += b"".join(struct.pack(">i", voter) + b"\0" for voter in voters) + b"\1\0"
    payload = record(0, struct.pack(">hh", 0, LEADER_CHANGE), told)
    first = batch(base, epoch=batches[0][0], attributes=CONTROL, payload=payload)
    rest = [
        batch(base + 1 + k, epoch=epoch, payload=record(0, None, value)) for k, (epoch, value) in enumerate(batches)
    ]
    (at / f"{base:020d}.log").write_bytes(first + b"".join(rest))
    (at / "quorum-state").write_text(json.dumps({"leaderId": 1, "leaderEpoch": quorum_epoch, "data_version": 0}))
    return at


def text(words):
    return bytes([len(words) + 1]) + words.encode()


TOPIC = b"\x01\x02\x00" + text("t") + bytes(16) + b"\0"
NO_OP = b"\x01\x14\x00\x00"
BEGIN, COMPLETE, ABORT = b"\x01\x17\x00\x00", b"\x01\x18\x00\x00", b"\x01\x19\x00\x00"


def ids(*numbers):
    return bytes([len(numbers) + 1]) + b"".join(struct.pack(">i", n) for n in numbers)


def partition(leader=1, isr=(1, 2)):
    return b"\x01\x03\x00" + struct.pack(">i", 0) + bytes(16) + ids(1, 2) + ids(*isr) + ids() + ids() + struct.pack(
        ">iii", leader, 0, 0
    ) + b"\0"  # fmt: skip


def change(*tagged):
    body = b"".join(bytes([tag, len(value)]) + value for tag, value in tagged)
    return b"\x01\x05\x00" + struct.pack(">i", 0) + bytes(16) + bytes([len(tagged)]) + body


def told(folder):
    names = ("event_type", "leader_id", "leader_epoch", "partition_epoch", "isr", "committed")
    return [tuple(row[name] for name in names) for row in Replay("c").read(nodes(folder)).rows.to_pylist()]


def test_epochs_come_from_replay(tmp_path):
    """proofs.md 5.2. A change has neither epoch: one more partition epoch each, one more leader epoch with a leader."""
    changes = [change((0, ids(1))), change((0, ids(2)), (1, struct.pack(">i", 2)), (5, b"\1"))]
    for broker in (1, 2):
        metadata_node(tmp_path, broker, [(1, TOPIC), (1, partition()), *((1, one) for one in changes)])
    assert told(tmp_path) == [
        ("election", 1, 0, 0, [1, 2], True),
        ("isr", 1, 0, 1, [1], True),
        ("election", 2, 1, 2, [2], True),
        ("isr", 2, 1, 2, [2], True),
    ]


def test_a_change_of_a_partition_that_was_never_registered_says_nothing(tmp_path):
    metadata_node(tmp_path, 1, [(1, TOPIC), (1, change((0, ids(1))))])
    assert told(tmp_path) == []


@pytest.mark.parametrize(("last", "rows"), [(COMPLETE, 1), (ABORT, 0), (NO_OP, 0)])
def test_an_aborted_or_open_metadata_transaction_has_no_rows(tmp_path, last, rows):
    metadata_node(tmp_path, 1, [(1, one) for one in (BEGIN, TOPIC, partition(), last)])
    assert len(told(tmp_path)) == rows


def test_what_a_later_leader_copied_to_a_majority_is_not_committed_by_their_number(tmp_path):
    """Figure 8 of Raft: the record of epoch 2 lies on two of three nodes, which are in epoch 4 by now."""
    for broker in (1, 2):
        metadata_node(tmp_path, broker, [(2, TOPIC)], quorum_epoch=4)
    assert committed_end(nodes(tmp_path)) == 0
    metadata_node(tmp_path, 3, [(2, TOPIC)], quorum_epoch=4)
    assert committed_end(nodes(tmp_path)) == 2, "no voter has a record of a later epoch: there was no later leader"


def test_a_node_is_in_the_newest_epoch_of_its_log_whenever_its_quorum_state_was_copied(tmp_path):
    metadata_node(tmp_path, 1, [(2, TOPIC), (4, NO_OP)], quorum_epoch=2)
    metadata_node(tmp_path, 2, [(2, TOPIC)], quorum_epoch=2)
    assert committed_end(nodes(tmp_path)) == 0


def test_a_node_whose_copy_ends_within_a_batch_may_be_in_a_later_epoch(tmp_path):
    """`cp -r` of a running node that copied quorum-state first: in epoch 2 by that, it got the record of epoch 2 from
    the leader of epoch 4, whose first batch lies behind it in the same append (LeaderState). Figure 8 of Raft again.
    """
    for broker in (1, 2):
        at = metadata_node(tmp_path, broker, [(2, TOPIC), (2, NO_OP)], quorum_epoch=2)
    assert committed_end(nodes(tmp_path)) == 3
    with open(at / f"{0:020d}.log", "ab") as log:
        log.write(batch(3, epoch=4, payload=record(0, None, NO_OP))[:40])
    copies = nodes(tmp_path)
    assert (committed_end(copies), [node.problems for node in copies]) == (0, [[], []])
    metadata_node(tmp_path, 3, [(2, TOPIC)], quorum_epoch=2)
    assert committed_end(nodes(tmp_path)) == 2, "what the copies of all voters have"


def test_what_the_logs_of_all_voters_have_is_committed_in_whichever_epochs_they_are(tmp_path):
    """Copies of a stopped cluster: node 3 was elected last, alone, and its record of epoch 4 is nowhere else."""
    for broker, records in ((1, [(2, TOPIC)]), (2, [(2, TOPIC)]), (3, [(2, TOPIC), (4, NO_OP)])):
        metadata_node(tmp_path, broker, records, quorum_epoch=broker + 1)
    assert (committed_end(nodes(tmp_path)), longest(nodes(tmp_path)).lineage.end) == (2, 3)
    assert committed_end(nodes(tmp_path / "broker-1", tmp_path / "broker-3")) == 0


def test_copies_of_different_times_commit_nothing_that_a_leader_between_them_may_replace(tmp_path):
    """Figure 8 of Raft with 3 voters. Node 1 wrote a record in epoch 2. Node 2 led epoch 3 by the vote of node 3, and
    wrote another one at its offset. Node 1 leads epoch 4 and copies the old one to node 3; node 2 can still replace it.
    The copy of node 2 is from before it led.
    """
    metadata_node(tmp_path, 1, [(2, TOPIC), (2, NO_OP)], quorum_epoch=4)
    metadata_node(tmp_path, 2, [(2, TOPIC)], quorum_epoch=2)
    metadata_node(tmp_path, 3, [(2, TOPIC), (2, NO_OP)], quorum_epoch=4)
    assert committed_end(nodes(tmp_path)) == 2, "what all three have no leader can have replaced"


@pytest.mark.parametrize(("epoch", "committed"), [(3, 3), (4, 0)])
def test_a_majority_in_the_epoch_after_that_of_a_record_commits_it(tmp_path, epoch, committed):
    """No epoch lies between, in which a leader without the record could have been: the leader of epoch 3 has it."""
    for broker in (1, 2):
        metadata_node(tmp_path, broker, [(2, TOPIC), (2, NO_OP)], quorum_epoch=epoch)
    assert committed_end(nodes(tmp_path)) == committed


@pytest.mark.parametrize(("epoch", "committed"), [(2, 0), (4, 3)])
def test_what_five_voters_had_at_different_times_is_not_committed_unless_in_one_epoch(tmp_path, epoch, committed):
    """Figure 8 with 5 voters. Nodes 1 and 5 have a record of epoch 2; the copy of node 5 is of then. Node 2 led epoch 3
    and wrote another one at its offset on 2 and 5. Node 1 leads epoch 4, and 2, 3 and 4 have the old one by now. Node 5
    can be elected in epoch 5 all the same: it has the newest epoch.
    """
    for broker in (1, 2, 3, 4, 5):
        records = [(2, TOPIC), (2, NO_OP)]
        metadata_node(tmp_path, broker, records, quorum_epoch=4 if broker < 5 else epoch, voters=(1, 2, 3, 4, 5))
    assert committed_end(nodes(tmp_path)) == committed


def voters_record(*voters, with_directories=False):
    """As VotersRecord.json has it, version 0 (KIP-853): ids, directory ids, endpoints with a port, versions."""
    told = struct.pack(">h", 0) + bytes([len(voters) + 1])
    for voter in voters:
        endpoint = text("CONTROLLER") + text("host") + struct.pack(">H", 9093) + b"\0"
        directory = bytes([voter]) * 16 if with_directories else bytes(16)
        told += struct.pack(">i", voter) + directory + b"\2" + endpoint + struct.pack(">hh", 0, 1) + b"\0\0"
    return told + b"\0"


def test_the_newest_voters_record_says_who_votes(tmp_path):
    """proofs.md 5.1: a controller was added to a quorum of three; two of four are no majority."""
    for broker in (1, 2):
        at = metadata_node(tmp_path, broker, [(2, TOPIC)], quorum_epoch=2)
        added = record(0, struct.pack(">hh", 0, KRAFT_VOTERS), voters_record(1, 2, 3, 4))
        with open(at / f"{0:020d}.log", "ab") as log:
            log.write(
                batch(2, epoch=2, attributes=CONTROL, payload=added) + batch(3, epoch=2, payload=record(0, None, NO_OP))
            )
    copies = nodes(tmp_path)
    assert [set(node.voters) for node in copies] == [{1, 2, 3, 4}] * 2
    assert [node.problems for node in copies] == [[], []]
    assert committed_end(copies) == 0
    assert committed_end([*copies, *nodes(tmp_path / "broker-1")]) == 0, "one node given twice is one"


def control_batch(base, *records, epoch=2):
    """One batch of control records, as a leader and a snapshot begin with it: (type, value) each."""
    payload = b"".join(record(k, struct.pack(">hh", 0, kind), value) for k, (kind, value) in enumerate(records))
    return batch(base, len(records), epoch=epoch, attributes=CONTROL, payload=payload)


def leader_change(*voters):
    """As LeaderChangeMessage.json has it, version 1: with the directory ids of the voters."""
    listed = b"".join(struct.pack(">i", voter) + bytes([voter]) * 16 + b"\0" for voter in voters)
    return struct.pack(">hi", 1, 1) + (bytes([len(voters) + 1]) + listed) * 2 + b"\0"


KRAFT_VERSION_1 = KRAFT_VERSION, struct.pack(">hh", 0, 1) + b"\0"


def dynamic_node(folder, broker, *records, directory_id=None):
    """A copy whose leader told the voters 1 to 4 behind its election, in one batch of control records."""
    at = metadata_node(folder, broker, [(2, NO_OP)], quorum_epoch=2)
    first = control_batch(0, (LEADER_CHANGE, leader_change(1, 2, 3)), *records)
    rest = [batch(len(records) + 1 + k, epoch=2, payload=record(0, None, value)) for k, value in enumerate((TOPIC,))]
    (at / f"{0:020d}.log").write_bytes(first + b"".join(rest))
    voter = urlsafe_b64encode(bytes([broker]) * 16).decode().rstrip("=")
    with open(at.parent / "meta.properties", "a") as properties:
        properties.write(f"directory.id={directory_id or voter}\n")
    return at


def test_voters_behind_the_election_in_its_own_batch_are_those_of_the_quorum(tmp_path):
    """LeaderState.appendStartOfEpochControlRecords writes election, kraft.version and voters as one batch."""
    voters = KRAFT_VOTERS, voters_record(1, 2, 3, 4, with_directories=True)
    for broker in (1, 2):
        dynamic_node(tmp_path, broker, KRAFT_VERSION_1, voters)
    copies = nodes(tmp_path)
    assert [node.problems for node in copies] == [[], []]
    assert [set(node.voters) for node in copies] == [{1, 2, 3, 4}] * 2
    assert committed_end(copies) == 0, "two of four"
    dynamic_node(tmp_path, 3, KRAFT_VERSION_1, voters)
    assert committed_end(nodes(tmp_path)) == 4


def test_a_quorum_that_the_log_names_is_read_of_a_real_kafka(tmp_path):
    """Kafka 4.1, formatted with --initial-controllers: a later election names the voters without their directories."""
    data = recorded(tmp_path, "power_4.1")
    directory_ids = {n: urlsafe_b64encode(bytes([n] * 16)).decode().rstrip("=") for n in (1, 2, 3)}
    for name, end in (("down", (125, 125)), ("data", (191, 201))):
        copies = nodes(data / name)
        assert [(node.problems, node.voters) for node in copies] == [([], directory_ids)] * 3
        assert (committed_end(copies), longest(copies).lineage.end) == end


def test_a_node_whose_directory_was_replaced_is_no_voter(tmp_path):
    """KIP-853: the quorum names the directory that votes, too; a node formatted anew only observes."""
    voters = KRAFT_VOTERS, voters_record(1, 2, 3, with_directories=True)
    again = (
        LEADER_CHANGE,
        struct.pack(">hi", 0, 1) + b"\4" + b"".join(struct.pack(">iB", n, 0) for n in (1, 2, 3)) + b"\1\0",
    )
    for told in ((), (voters, again)):
        folder = tmp_path / str(len(told))
        dynamic_node(folder, 1, *told)
        dynamic_node(folder, 2, *told, directory_id="B" * 22)
        assert committed_end(nodes(folder)) == 0
        dynamic_node(folder, 3, *told)
        assert committed_end(nodes(folder)) == 2 + len(told)


def test_a_log_that_begins_behind_the_voters_has_them_from_its_snapshot(tmp_path):
    for broker in (1, 2):
        at = metadata_node(tmp_path, broker, [(2, NO_OP)], base=9, quorum_epoch=2)
        (at / f"{9:020d}.log").write_bytes(batch(9, epoch=2, payload=record(0, None, TOPIC)))
        header = control_batch(
            0, (SNAPSHOT_HEADER, b"\0" * 11), KRAFT_VERSION_1, (KRAFT_VOTERS, voters_record(1, 2, 3))
        )
        (at / f"{9:020d}-{2:010d}.checkpoint").write_bytes(header + control_batch(3, (SNAPSHOT_FOOTER, b"\0\0\0")))
    assert [set(node.voters) for node in nodes(tmp_path)] == [{1, 2, 3}] * 2
    assert committed_end(nodes(tmp_path)) == 10


def test_a_majority_in_the_epoch_of_the_record_commits_it(tmp_path):
    metadata_node(tmp_path, 1, [(2, TOPIC), (2, NO_OP)], quorum_epoch=2)
    assert committed_end(nodes(tmp_path)) == 0
    metadata_node(tmp_path, 2, [(2, TOPIC)], quorum_epoch=2)
    assert committed_end(nodes(tmp_path)) == 2


@pytest.mark.parametrize(
    ("told", "committed"),
    [
        pytest.param(QuorumEnd(4, 3, None), 3, id="the quorum has committed up to there"),
        pytest.param(QuorumEnd(4, 9, None), 4, id="it is further than this copy"),
        pytest.param(QuorumEnd(2, 9, None), 3, id="of the epoch of an earlier leader no more than that one wrote"),
        pytest.param(QuorumEnd(5, 4, None), 0, id="a leader of whom this copy has nothing may have other records"),
        pytest.param(QuorumEnd(4, -1, None), 0, id="a new leader has committed nothing of its own yet"),
    ],
)
def test_what_the_quorum_tells_is_committed_if_the_copy_has_a_record_of_that_leader(tmp_path, told, committed):
    """proofs.md 5.1 (b): DescribeQuorum's high watermark is of the log of the leader in whose epoch it is told."""
    metadata_node(tmp_path, 1, [(2, TOPIC), (2, partition()), (4, NO_OP)], quorum_epoch=4)
    assert committed_end(nodes(tmp_path), told) == committed


def test_rows_of_one_copy_are_committed_as_the_quorum_tells_and_told_once(tmp_path):
    metadata_node(tmp_path / "data", 1, [(2, TOPIC), (2, partition()), (2, change((0, ids(1))))], quorum_epoch=2)
    answers = iter(["it does not answer", QuorumEnd(2, 3, "x"), QuorumEnd(2, 4, "x")])
    counts, lake = [], str(tmp_path / "lake")
    for _ in range(3):
        summary = ingest_disk([tmp_path / "data"], cluster="c", lake=lake, quorum=lambda: next(answers))
        rows = read_events(lake).sort_by("source_seq").filter(pc.field("topic").is_valid()).to_pylist()
        counts.append((summary.problems[SOURCE], [(row["event_type"], row["committed"]) for row in rows]))
    first = [("election", False), ("isr", False)]
    second = [*first, ("election", True)]
    assert counts == [(["it does not answer"], first), ([], second), ([], [*second, ("isr", True)])]


def test_brokers_of_another_cluster_are_wrong_usage(tmp_path):
    at = metadata_node(tmp_path / "data", 1, [(2, TOPIC)], quorum_epoch=2)
    (at.parent / "meta.properties").write_text("node.id=1\ncluster.id=mine\n")
    with pytest.raises(UsageError, match="of c is of cluster mine, --bootstrap of other: name those of mine"):
        ingest_disk([tmp_path / "data"], cluster="c", lake=str(tmp_path / "lake"),
                    quorum=lambda: QuorumEnd(2, 2, "other"))  # fmt: skip


def test_directories_of_another_cluster_than_the_lakes_are_wrong_usage(tmp_path):
    """A cluster that was made anew: how far the log of the old one was read says nothing of the new one's."""
    for name in ("one", "other"):
        at = metadata_node(tmp_path / name, 1, [(2, TOPIC)], quorum_epoch=2)
        (at.parent / "meta.properties").write_text(f"node.id=1\ncluster.id={name}\n")
    ingest_disk([tmp_path / "one"], cluster="c", lake=str(tmp_path / "lake"))
    with pytest.raises(UsageError, match="of c is of cluster one, these directories of other: name those"):
        ingest_disk([tmp_path / "other"], cluster="c", lake=str(tmp_path / "lake"))


def test_a_clone_of_the_cluster_is_wrong_usage(tmp_path):
    """It has the cluster's id, and another history: a later epoch has what the lake knows as committed."""
    for name, records in (("prod", [(2, TOPIC), (2, partition()), (2, NO_OP)]), ("clone", [(2, TOPIC), (3, NO_OP)])):
        at = metadata_node(tmp_path / name, 1, records, quorum_epoch=3)
        (at.parent / "meta.properties").write_text("node.id=1\ncluster.id=one\n")
    (tmp_path / "prod" / "broker-1" / "__cluster_metadata-0" / f"{3:020d}-{2:010d}.checkpoint").write_bytes(footer())
    lake = str(tmp_path / "lake")
    assert ingest_disk([tmp_path / "prod"], cluster="c", lake=lake).committed_end == 3
    with pytest.raises(
        UsageError, match="committed up to offset 3, in epoch 2; here a later epoch begins at 2: these are"
    ):
        ingest_disk([tmp_path / "clone"], cluster="c", lake=lake)
    ingest_disk([tmp_path / "clone"], cluster="other", lake=lake)


def footer():
    return batch(0, attributes=CONTROL, payload=record(0, struct.pack(">hh", 0, SNAPSHOT_FOOTER), b"\0\0\0"))


def test_a_complete_snapshot_of_the_lineage_commits_what_it_holds_and_a_torn_one_nothing(tmp_path):
    at = metadata_node(tmp_path, 1, [(2, TOPIC), (2, partition()), (2, NO_OP)], quorum_epoch=2)
    snapshot = at / f"{3:020d}-{2:010d}.checkpoint"
    snapshot.write_bytes(footer())
    assert committed_end(nodes(tmp_path)) == 3
    snapshot.rename(at / f"{3:020d}-{1:010d}.checkpoint")
    assert committed_end(nodes(tmp_path)) == 0, "of an epoch that this log does not have"
    (at / f"{3:020d}-{2:010d}.checkpoint").write_bytes(footer()[:-3])
    (at / f"{3:020d}-{2:010d}.checkpoint.part").write_bytes(footer())
    assert committed_end(nodes(tmp_path)) == 0


def test_what_a_node_skipped_by_a_snapshot_is_lost_and_its_state_is_told_as_state(tmp_path):
    """proofs.md 5.2. Node 1 has offsets 0..2, node 2 a snapshot at 10 and what follows; 3..9 are nowhere."""
    metadata_node(tmp_path, 1, [(1, TOPIC), (1, partition())])
    at = metadata_node(tmp_path, 2, [(1, change((0, ids(2)), (1, struct.pack(">i", 2))))], base=10)
    state = batch(0, 2, payload=record(0, None, TOPIC) + record(1, None, partition(isr=(1,))))
    (at / f"{10:020d}-{1:010d}.checkpoint").write_bytes(state + batch(2, attributes=CONTROL, payload=record(
        0, struct.pack(">hh", 0, SNAPSHOT_FOOTER), b"\0\0\0")))  # fmt: skip
    rows = Replay("c").read(nodes(tmp_path))
    assert rows.lost == 7
    kinds = [(row["event_type"], row["isr"], row["detail"]) for row in rows.rows.to_pylist()]
    assert kinds[1][2] == "7 records of the metadata log: offsets 3..9 are in no copy given"
    assert [kind[0] for kind in kinds] == ["election", "lost", "election", "election", "isr"]


def test_copies_of_several_nodes_complete_each_other(tmp_path):
    metadata_node(tmp_path, 1, [(1, TOPIC), (1, partition()), (1, change((0, ids(1))))])
    metadata_node(tmp_path, 2, [(1, NO_OP), (1, NO_OP), (1, change((0, ids(1, 2))))], base=2)
    assert [piece.node.directory.broker_id for piece in pieces(nodes(tmp_path))] == [1, 2]


def test_a_kind_or_version_that_is_not_known_is_counted_and_the_rest_is_read(tmp_path):
    future = [b"\x01\x7f\x00", b"\x01\x03\x09" + bytes(40), b"\x05\x03\x00", TOPIC[:6]]
    metadata_node(tmp_path, 1, [(1, one) for one in (TOPIC, *future, partition())])
    rows = Replay("c").read(nodes(tmp_path))
    assert rows.rows.num_rows == 1
    assert sum(rows.unknown.values()) == 4
    assert "PARTITION_RECORD in version 9" in rows.unknown


@pytest.mark.parametrize("size", range(len(partition())))
def test_a_record_cut_anywhere_is_told(size):
    with pytest.raises((Damaged, UnknownRecord)):
        decode(partition()[:size])


@pytest.mark.parametrize("byte", range(len(partition())))
def test_a_flipped_bit_in_a_record_never_takes_more_memory_or_time(byte):
    for bit in range(8):
        content = bytearray(partition())
        content[byte] ^= 1 << bit
        try:
            decode(bytes(content))
        except (Damaged, UnknownRecord) as error:
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("bit", [0, 3, 7])
@pytest.mark.sampled(3)
def test_a_flipped_bit_in_one_copy_makes_no_other_row_and_commits_none(tmp_path, bit):
    """Of each byte of a log, a snapshot and a quorum-state; of the two sound copies one is short."""
    values = [(2, one) for one in (TOPIC, partition(), change((0, ids(1))), change((0, ids(2))))]
    for broker, size in ((1, 4), (2, 2), (3, 1)):
        at = metadata_node(tmp_path, broker, values[:size], quorum_epoch=2)
        snapshot = at / f"{2:020d}-{2:010d}.checkpoint"
        snapshot.write_bytes(control_batch(0, (SNAPSHOT_HEADER, bytes(11))) + footer())

    def found():
        copies = nodes(tmp_path)
        rows = rows_of(Replay("c").read(copies))
        return [row for row in rows if row[5]], [row[:5] for row in rows], any(node.problems for node in copies)

    committed, every, problems = found()
    assert (len(committed), len(every), problems) == (1, 3, False)
    wrong = []
    for name in (f"{0:020d}.log", f"{2:020d}-{2:010d}.checkpoint", "quorum-state"):
        file = tmp_path / "broker-1" / "__cluster_metadata-0" / name
        content = file.read_bytes()
        for k in range(len(content)):
            file.write_bytes(content[:k] + bytes([content[k] ^ 1 << bit]) + content[k + 1 :])
            told_committed, told, _ = found()
            if [row for row in told_committed if row not in committed] or [row for row in told if row not in every]:
                wrong.append((name, k, told_committed, told))
        file.write_bytes(content)
    assert wrong == []


def ingest(folder, lake):
    done = CliRunner().invoke(app, ["ingest", "disk", str(folder), "--cluster", "c", "--lake", str(lake)])
    assert done.exit_code == 0, done.output
    return done.stdout


def metadata_events(lake):
    events = read_events(str(lake))
    return events.filter(pc.equal(events["source_id"], SOURCE)).sort_by("source_seq")


def test_what_was_told_is_not_told_again_until_it_is_committed(tmp_path):
    data, lake = recorded(tmp_path) / "data", tmp_path / "lake"
    assert "are not known to be committed" in ingest(data / "broker-1", lake)
    first = metadata_events(lake)
    assert set(first["committed"].to_pylist()) == {False, None}
    assert "c: 0 events" in ingest(data / "broker-1", lake)
    ingest(data, lake)
    both = metadata_events(lake)
    assert both["source_seq"].to_pylist() == list(range(len(both)))
    told_twice = [row for row in both.slice(len(first)).to_pylist() if row["event_type"] == "election"]
    assert {row["committed"] for row in told_twice} == {True, False}
    assert "c: 0 events" in ingest(data, lake)


def records_of(values):
    return [(1, value) for value in values]


def rows_of(read):
    names = ("event_type", "leader_id", "leader_epoch", "partition_epoch", "isr", "committed", "ts")
    return [tuple(row[name] for name in names) for row in read.rows.to_pylist()]


def test_a_log_that_grows_is_read_on_from_where_it_ended_and_says_the_same(tmp_path):
    values = [
        TOPIC,
        partition(),
        *(change((0, ids(1 + k % 2))) for k in range(6)),
        BEGIN,
        change((0, ids(1))),
        COMPLETE,
    ]
    replay, walked, found = Replay("c"), {}, []
    for size in range(1, len(values) + 1):
        for broker in (1, 2):
            folder = tmp_path / "data"
            shutil.rmtree(folder / f"broker-{broker}", ignore_errors=True)
            metadata_node(folder, broker, records_of(values[:size]))
        found += rows_of(replay.read(node_logs(find_log_directories([tmp_path / "data"]), walked)))
    assert found == rows_of(Replay("c").read(nodes(tmp_path / "data")))
    assert len(found) == 8


def test_what_waited_for_a_majority_is_told_again_once_it_is_committed(tmp_path):
    replay, walked = Replay("c"), {}
    metadata_node(tmp_path, 1, records_of([TOPIC, partition(), change((0, ids(1)))]))

    def look():
        return [(row[0], row[5]) for row in rows_of(replay.read(node_logs(find_log_directories([tmp_path]), walked)))]

    assert look() == [("election", False), ("isr", False)]
    assert look() == []
    metadata_node(tmp_path, 2, records_of([TOPIC, partition()]))
    assert look() == [("election", True)]
    shutil.rmtree(tmp_path / "broker-2")
    metadata_node(tmp_path, 2, records_of([TOPIC, partition(), change((0, ids(1)))]))
    assert look() == [("isr", True)]


def test_a_segment_that_vanishes_while_it_is_read_costs_no_row(tmp_path):
    """Retention renames segments: what could not be read is read at the next look."""
    replay, walked = Replay("c"), {}
    at = metadata_node(tmp_path, 1, records_of([TOPIC, partition(), change((0, ids(1)))]))
    copies, log = node_logs(find_log_directories([tmp_path]), walked), at / f"{0:020d}.log"
    log.rename(at / "away")
    with pytest.raises(Unreadable):
        replay.read(copies)
    (at / "away").rename(log)
    assert len(rows_of(replay.read(node_logs(find_log_directories([tmp_path]), walked)))) == 2


def test_a_tail_that_was_cut_and_written_anew_is_read_anew(tmp_path):
    replay, walked = Replay("c"), {}
    metadata_node(tmp_path, 1, records_of([TOPIC, partition(), change((0, ids(1)))]))
    assert len(rows_of(replay.read(node_logs(find_log_directories([tmp_path]), walked)))) == 2
    shutil.rmtree(tmp_path / "broker-1")
    metadata_node(tmp_path, 1, [*records_of([TOPIC, partition()]), (2, change((0, ids(2))))], quorum_epoch=2)
    again = replay.read(node_logs(find_log_directories([tmp_path]), walked))
    assert [row[4] for row in rows_of(again)] == [[1, 2], [2]]


def damage(at, k):
    """Flip a bit in the last byte of the batch `k` of a metadata log."""
    log = at / f"{0:020d}.log"
    content, end = bytearray(log.read_bytes()), 0
    for _ in range(k + 1):
        end += 12 + int.from_bytes(content[end + 8 : end + 12], "big")
    content[end - 1] ^= 1
    log.write_bytes(content)


def test_a_copy_ends_at_a_damaged_batch_which_is_named_and_another_copy_has_the_rest(tmp_path):
    values = records_of([TOPIC, partition(), change((0, ids(1))), change((0, ids(2)))])
    damage(metadata_node(tmp_path, 1, values), 3)
    (copy,) = nodes(tmp_path)
    assert (copy.lineage.end, len(copy.problems), "checksum" in copy.problems[0]) == (3, 1, True)
    assert len(told(tmp_path)) == 1
    metadata_node(tmp_path, 2, values)
    assert len(told(tmp_path)) == 3


def test_a_voter_whose_copy_cannot_be_read_to_its_end_may_have_a_later_epoch(tmp_path):
    """Epoch 2 is the newest of all voters only if all of their logs were read."""
    for broker in (1, 2, 3):
        at = metadata_node(tmp_path, broker, [(2, TOPIC), (2, NO_OP), (2, NO_OP)], quorum_epoch=4)
    assert committed_end(nodes(tmp_path)) == 4
    damage(at, 2)
    assert committed_end(nodes(tmp_path)) == 2


def test_a_folder_without_a_metadata_log_and_replicas_is_wrong_usage(tmp_path):
    directory(tmp_path, 1)
    words = ["ingest", "disk", str(tmp_path / "broker-1"), "--cluster", "c", "--lake", str(tmp_path / "lake")]
    assert CliRunner().invoke(app, words).exit_code == 2
