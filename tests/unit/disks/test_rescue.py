"""`hwmark rescue`: every record that a start would cut, byte for byte, with what is known of it."""

import json
import os
import shutil
import struct
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka.errors import KafkaConnectionError, MessageSizeTooLargeError
from typer.testing import CliRunner

from generators.disks.batches import BATCH, COMPRESSION
from generators.disks.records import Damaged, records
from generators.disks.rescue_files import read
from generators.disks.segments import WalkEnd, blocks, segments
from generators.disks.write_back import headers, identity, reason_left_out
from pipelines.cli import app
from pipelines.lake.lake import Lake
from schemas import hw_regressions, replication_events
from tests.unit.disks.disk_files import TS, batch, directory, marker, partition, record, recorded
from tests.unit.disks.test_audit import fingerprint


def hwmark(*words):
    return CliRunner().invoke(app, ["rescue", *map(str, words)])


@pytest.fixture
def data(tmp_path):
    return recorded(tmp_path) / "data"


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_what_is_rescued_is_what_was_written_byte_for_byte(data, tmp_path, kind):
    before, out = fingerprint(data), tmp_path / f"out.{kind}"
    done = hwmark("--from", data / "broker-1", "--beside", data / "broker-2", "--topic", "orders", "--out", out)
    assert done.exit_code == 0, done.output
    assert "180 records of offsets 120..299" in done.stdout
    assert "180 below the high watermark known, in no surviving log" in done.stdout
    rows = list(read(out))
    told = json.loads((data.parent / "clients.json").read_text())["written"]["orders-0"]
    acknowledged = {offset: value.encode() for offset, value in told[:300]}
    assert {row["offset"]: row["value"] for row in rows} == {k: acknowledged[k] for k in range(120, 300)}
    assert {row["key"] for row in rows} == {b"key-%d" % k for k in range(120, 300)}
    assert {(row["broker_id"], row["below_hw"], row["in_survivor"], row["transaction"]) for row in rows} == {
        (1, True, False, None)
    }
    assert fingerprint(data) == before


def test_records_are_read_in_every_codec(tmp_path):
    """librdkafka wrote five records each in gzip, snappy, lz4 and zstd."""
    data, out = recorded(tmp_path, "unclean_election_4.4") / "data", tmp_path / "packed.parquet"
    assert hwmark("--from", data / "broker-1", "--topic", "packed", "--out", out).exit_code == 0
    told = json.loads((tmp_path / "clients.json").read_text())["written"]["packed-0"]
    assert [(row["offset"], row["value"].decode()) for row in read(out)] == [tuple(one) for one in told]
    (segment,) = segments(data / "broker-1" / "packed-0")
    codecs = {int(one) & COMPRESSION for block, _ in blocks(segment, WalkEnd()) for one in block["attributes"]}
    assert codecs == {1, 2, 3, 4}


def test_without_a_file_it_only_counts(data):
    done = hwmark(
        "--from", data / "broker-1", "--beside", data / "broker-2", "--topic", "orders", "--offsets", "100..299"
    )
    assert "20 below the high watermark known, already in the surviving log" in done.stdout
    assert "nothing was written: name a file with --out" in done.stdout


def test_each_record_says_how_its_transaction_ended(data, tmp_path):
    out = tmp_path / "payments.parquet"
    assert hwmark("--from", data / "broker-1", "--topic", "payments", "--out", out).exit_code == 0
    ends = {row["value"].split()[0]: row["transaction"] for row in read(out)}
    assert ends == {b"committed": "committed", b"aborted": "aborted", b"open": "open"}
    assert pq.read_table(out).num_rows == 30


def test_a_deleted_topic_is_rescued_from_its_directory_and_its_old_high_watermark_is_not_that_of_the_new_one(data):
    done = hwmark("--from", data / "broker-1", "--topic", "again")
    assert "20 records" in done.stdout
    assert "20 where the high watermark is not known" in done.stdout


def test_segments_that_a_truncation_renamed_are_read_and_both_lineages_are_kept(tmp_path):
    one = directory(tmp_path / "a", 1)
    at = partition(one, [batch(0), batch(1, epoch=3)], [(0, 0), (3, 1)])
    (at / f"{1:020d}.log.deleted").write_bytes(batch(1) + batch(2))
    out = tmp_path / "out.jsonl"
    assert hwmark("--from", tmp_path / "a", "--topic", "t", "--out", out).exit_code == 0
    assert sorted((row["offset"], row["leader_epoch"]) for row in read(out)) == [(0, 0), (1, 0), (1, 3), (2, 0)]


def test_what_a_producer_sent_again_to_the_survivor_is_already_there(tmp_path):
    """proofs.md 5.8: the same producer id, epoch and sequence in both lineages is legal after an unclean election."""
    old = [batch(k, pid=7, pepoch=0, sequence=k) for k in range(4)]
    partition(directory(tmp_path / "a", 1), old, [(0, 0)])
    two = record(0, b"k0") + record(1, b"k0")
    again = batch(2, 2, epoch=1, pid=7, pepoch=0, sequence=2, payload=two)
    partition(directory(tmp_path / "b", 2), [*old[:2], again, batch(4, epoch=1)], [(0, 0), (1, 2)])
    done = hwmark("--from", tmp_path / "a", "--beside", tmp_path / "b", "--topic", "t", "--offsets", "0..9")
    assert "4 where the high watermark is not known, already in the surviving log" in done.stdout


def in_survivor(rows):
    return [(row["offset"], row["in_survivor"]) for row in rows]


def test_another_record_of_the_same_sequence_is_not_the_one_that_is_lost(tmp_path):
    """Sequences wrap, and begin at 0 again in one epoch: it was said to be there, and was not written back."""
    kept = batch(0, pid=7, pepoch=0, sequence=5)
    partition(directory(tmp_path / "a", 1), [kept, batch(1, pid=7, pepoch=0, sequence=5, ts=TS + 1)], [(0, 0)])
    partition(directory(tmp_path / "b", 2), [kept, batch(1, epoch=1)], [(0, 0), (1, 1)])
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert in_survivor(rows) == [(1, False)]


def test_a_record_whose_time_the_brokers_set_is_known_by_its_content(tmp_path):
    log_append = 0x08
    sent = {"pid": 7, "pepoch": 0, "sequence": 5, "attributes": log_append}
    partition(directory(tmp_path / "a", 1), [batch(0), batch(1, **sent)], [(0, 0)])
    partition(directory(tmp_path / "b", 2), [batch(0), batch(1, epoch=1, ts=TS + 9, **sent)], [(0, 0), (1, 1)])
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert in_survivor(rows) == [(1, True)]


def test_a_record_that_was_sent_again_under_a_bumped_epoch_is_there(tmp_path):
    """KIP-360: the new leader does not know the sequence, and the client sends again from 0 on in the next epoch."""
    partition(directory(tmp_path / "a", 1), [batch(0), batch(1, pid=7, pepoch=0, sequence=300)], [(0, 0)])
    again = [batch(0), batch(1, epoch=1, pid=7, pepoch=1, sequence=0), batch(2, epoch=1, pid=7, pepoch=1, sequence=1)]
    partition(directory(tmp_path / "b", 2), again, [(0, 0), (1, 1)])
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert in_survivor(rows) == [(1, True)]


def test_many_batches_of_one_sequence_leave_it_unknown_within_bounded_time(tmp_path):
    alike = [batch(k, pid=7, pepoch=0, sequence=0, ts=TS + k) for k in range(2000)]
    partition(directory(tmp_path / "a", 1), [batch(0, pid=7, pepoch=0, sequence=0, ts=TS - 1)], [(0, 0)])
    partition(directory(tmp_path / "b", 2), alike, [(1, 0)])
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert in_survivor(rows) == [(0, None)]


@pytest.mark.parametrize("there", [batch(1)[:-1] + b"?", batch(1, ts=TS + 1), b""], ids=["damaged", "other", "none"])
def test_what_a_survivor_lacks_below_where_the_epochs_part_is_rescued(tmp_path, there):
    """By its epochs it should have offset 1: a damaged batch, one of another leader in that epoch, or a hole."""
    partition(directory(tmp_path / "a", 1), [batch(k) for k in range(4)], [(0, 0)])
    partition(directory(tmp_path / "b", 2), [batch(0), there, batch(2), batch(3, epoch=1, ts=TS + 2)], [(0, 0), (1, 3)])
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert [row["offset"] for row in rows] == [1, 3]


def test_what_the_cleaner_or_retention_removed_from_the_survivor_is_not_rescued(tmp_path):
    sent = [batch(k) for k in range(4)]
    partition(directory(tmp_path / "a", 1), sent, [(0, 0)])
    partition(
        directory(tmp_path / "b", 2, cleaner=2),
        [sent[1], sent[2], batch(3, epoch=1, ts=TS + 2)],
        [(0, 1), (1, 3)],
        base=1,
    )
    rows, told = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert [row["offset"] for row in rows] == [3]
    assert "offsets 0..0 lie before the start of every log beside" in told


def test_a_copy_of_the_same_disk_is_no_surviving_log(tmp_path):
    """Nothing was lost then: all that the disk has lies in its copy."""
    one = directory(tmp_path / "a", 1)
    partition(one, [batch(k) for k in range(4)], [(0, 0)])
    shutil.copytree(one, tmp_path / "copies" / "broker-1")
    partition(directory(tmp_path / "copies", 2), [batch(0), batch(1, epoch=1, ts=TS + 2)], [(0, 0), (1, 1)])
    rows, told = rescued_rows(tmp_path / "a", beside=tmp_path / "copies")
    assert [row["offset"] for row in rows] == [1, 2, 3]
    assert f"{tmp_path}/copies/broker-1 is a copy of the same disk: no surviving log" in told
    for folder, name in ((one, "old"), (tmp_path / "copies" / "broker-1", "new")):
        (folder / "meta.properties").write_text(f"node.id=1\ndirectory.id={name}\n")
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "copies")
    assert rows == [], "a new disk of the same broker has them"


def test_of_a_topic_with_several_partitions_one_is_named(tmp_path):
    """Partition 0 alone was rescued, as if that were all."""
    one = directory(tmp_path / "a", 1)
    for number in (0, 3):
        partition(one, [batch(0)], [(0, 0)], name=f"t-{number}")
    done = hwmark("--from", tmp_path / "a", "--topic", "t")
    assert (done.exit_code, "which partition of t? There are 0, 3: name it with --partition" in done.stderr) == (
        2,
        True,
    )
    assert "t-3: 1 records" in hwmark("--from", tmp_path / "a", "--topic", "t", "--partition", "3").stdout


def test_what_a_log_has_beside_a_range_is_told(tmp_path):
    """A loss of "at least" a range may reach further, and a log may have only a part of it."""
    partition(directory(tmp_path / "a", 1), [batch(k) for k in range(2, 6)], [(0, 2)], base=2)
    told = [
        hwmark("--from", tmp_path / "a", "--topic", "t", "--offsets", one).stdout for one in ("3..4", "1..5", "2..5")
    ]
    assert 'its log has offsets 2..5, and a loss of "at least" a range may reach further' in told[0]
    assert "its log has offsets 2..5\n" in told[1]
    assert "its log has" not in told[2]


def test_a_broker_beside_that_has_not_the_partition_is_no_surviving_log(tmp_path):
    partition(directory(tmp_path / "a", 1), [batch(0)], [(0, 0)])
    partition(directory(tmp_path / "b", 2), [batch(0)], [(0, 0)], name="u-0")
    rows, told = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert in_survivor(rows) == [(0, None)]
    assert "no log beside has this partition: all of its records are taken" in told


def test_a_record_without_a_sequence_may_be_there_already(tmp_path):
    partition(directory(tmp_path / "a", 1), [batch(0), batch(1)], [(0, 0)])
    partition(directory(tmp_path / "b", 2), [batch(0), batch(1, epoch=1, ts=5)], [(0, 0), (1, 1)])
    out = tmp_path / "out.jsonl"
    assert hwmark("--from", tmp_path / "a", "--beside", tmp_path / "b", "--topic", "t", "--out", out).exit_code == 0
    assert [(row["offset"], row["in_survivor"]) for row in read(out)] == [(1, None)]


def test_headers_nulls_and_damaged_batches(tmp_path):
    payload = record(0, None, None, [(b"h", b"1"), (b"h", b"")]) + record(1, b"\xff\0", b"")
    broken = bytearray(batch(2))
    broken[-1] ^= 1
    partition(directory(tmp_path / "a", 1), [batch(0, 2, payload=payload), bytes(broken), batch(3)], [(0, 0)])
    out = tmp_path / "out.jsonl"
    done = hwmark("--from", tmp_path / "a", "--topic", "t", "--out", out)
    assert "left out: 00000000000000000000.log at byte" in done.stdout
    first, second, last = read(out)
    assert (first["key"], first["value"], second["key"], second["value"]) == (None, None, b"\xff\0", b"")
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": b""}]
    assert last["offset"] == 3


def test_what_follows_a_length_that_cannot_be_is_said_to_be_left_out(tmp_path):
    cut = batch(1)[:8] + b"\0\0\0\1" + batch(1)[12:]
    at = partition(directory(tmp_path / "a", 1), [batch(0), cut, batch(2)], [(0, 0)])
    done = hwmark("--from", tmp_path / "a", "--topic", "t")
    assert done.exit_code == 4
    assert "t-0: 1 records" in done.stdout
    assert f"left out: {0:020d}.log, {2 * len(batch(1))} bytes from byte {len(batch(0))} on: " in done.stdout
    (at / f"{0:020d}.log").write_bytes(batch(0) + bytes(200))
    assert hwmark("--from", tmp_path / "a", "--topic", "t").exit_code == 0, "zeros of a preallocated file"


def test_segments_behind_one_that_cannot_be_read_are_rescued_and_it_is_named(tmp_path):
    at = partition(directory(tmp_path / "a", 1), [batch(0), batch(1)], [(0, 0)])
    (at / f"{2:020d}.log").symlink_to(at / "nowhere")
    partition(at.parent, [batch(3)], base=3)
    partition(directory(tmp_path / "b", 2), [batch(0)], [(0, 0)])
    done = hwmark("--from", tmp_path / "a", "--beside", tmp_path / "b", "--topic", "t")
    assert (done.exit_code, "t-0: 2 records of offsets 1.." in done.stdout) == (4, True)
    assert "left out: " in done.stdout
    assert "a symbolic link, not followed" in done.stdout


@pytest.mark.parametrize("payload", [b"", b"\xff" * 11, record(0)[:-1], record(0) + b"\0", record(7), b"\x02\0"])
def test_records_that_are_not_what_the_header_says_are_damage(payload):
    (head,) = np.zeros(1, BATCH)
    head["count"], head["last"] = 1, 0
    with pytest.raises(Damaged):
        list(records(head, bytes(61) + payload))


def test_where_a_file_may_be_written(data, tmp_path):
    words = ("--from", data / "broker-1", "--topic", "orders", "--out")
    (tmp_path / "there.jsonl").touch()
    for out, why in ((tmp_path / "there.jsonl", "exists"), (tmp_path / "out.csv", "ends in .parquet or .jsonl"),
                     (data / "broker-1" / "x.jsonl", "below a log directory")):  # fmt: skip
        done = hwmark(*words, out)
        assert (done.exit_code, why in done.stderr) == (2, True)
    one = ("--from", data / "broker-1", "--topic")
    for words in (("--topic", "t"), (*one, "none"), ("--from", data, "--topic", "orders"),
                  (*one, "orders", "--offsets", "9..2")):  # fmt: skip
        assert hwmark(*words).exit_code == 2


def rescued(**more):
    return {"topic": "t", "partition": 0, "offset": 5, "leader_epoch": 1, "broker_id": 2, "transaction": None,
            "in_survivor": False, "key": b"k", "value": None, "headers": [{"key": "h", "value": b"1"}],
            "topic_id": None, **more}  # fmt: skip


def test_neither_what_is_there_nor_what_was_not_committed_is_written_back():
    assert reason_left_out(rescued(), ()) is None
    assert reason_left_out(rescued(in_survivor=None, transaction="committed"), ()) is None
    assert reason_left_out(rescued(in_survivor=True), ("aborted", "open")) == "already in the surviving log"
    assert reason_left_out(rescued(transaction="open"), ()) == "open"
    assert reason_left_out(rescued(transaction="open"), ("open",)) is None
    assert ("hwmark.rescued.offset", b"5") in headers(rescued())
    assert headers(rescued())[0] == ("h", b"1")
    assert reason_left_out(rescued(key=None), ("aborted", "open")) == "neither key nor value"
    with_null = rescued(headers=[{"key": "h", "value": None}, {"key": "i", "value": b""}])
    assert headers(with_null)[:2] == [("h", b""), ("i", b"")]
    assert headers(with_null)[-1] == ("hwmark.rescued.null_headers", b"h")


def test_a_record_that_was_written_back_is_known_by_its_headers_and_no_other_is():
    assert identity(headers(rescued())) == ("t", (0, 5, 1, ""))
    assert identity([("h", b"1")]) is None
    assert identity([(f"hwmark.rescued.{name}", b"x") for name in ("topic", "partition", "offset")]) is None


def lake_with(folder, *rows):
    lake = Lake(str(folder))
    lake.append(replication_events.TABLE, replication_events.ARROW.empty_table())
    base = {"cluster": "c", "topic": "orders", "partition": 0, "topic_id": None,
            "ts": datetime(2026, 11, 27, tzinfo=UTC),
            "class": "unclean_loss", "severity": "critical", "proof": "bounded", "revision": 1, "level": 0}  # fmt: skip
    full = [base | row | {"regression_id": str(k)} for k, row in enumerate(rows)]
    lake.append(hw_regressions.TABLE, pa.Table.from_pylist(full, schema=hw_regressions.ARROW))
    return lake.root


def test_all_losses_of_a_lake_that_a_disk_has_are_rescued_each_to_a_file(data, tmp_path):
    lake = lake_with(
        tmp_path / "lake",
        {"lost_from": 120, "lost_to": 200},
        {"lost_from": 200, "lost_to": 300},
        {"topic": "gone", "lost_from": 1, "lost_to": 2},
        {"topic": "clicks", "topic_id": "A" * 22, "lost_from": 0, "lost_to": 9},
    )
    words = ("--from", data / "broker-1", "--all", "--cluster", "c", "--lake", lake)
    done = hwmark(*words, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["orders-0.120-299.parquet"]
    assert [row["offset"] for row in read(tmp_path / "out" / "orders-0.120-299.parquet")] == list(range(120, 300))
    assert "2 losses are of partitions, or of earlier topics, that this disk does not have" in done.stdout
    assert "exists: name a new file" in hwmark(*words, "--out", tmp_path / "out").stdout
    for wrong in (words[:3], ("--from", data, "--topic", "orders", "--all")):
        assert hwmark(*wrong).exit_code == 2


def test_losses_without_a_range_and_those_that_were_not_rescued_are_named(data, tmp_path):
    lake = lake_with(tmp_path / "lake", {"lost_from": 120, "lost_to": 300}, {"topic": "clicks"})
    words = ("--from", data / "broker-1", "--all", "--cluster", "c", "--lake", lake, "--out", tmp_path / "out")
    assert "1 losses have no range of offsets: name --topic" in hwmark(*words).stdout
    again = hwmark(*words)
    assert (again.exit_code, "orders-0: --out " in again.stdout, "exists" in again.stdout) == (4, True, True)


def test_without_a_loss_in_the_lake_it_is_said_what_finds_them(data, tmp_path):
    lake = str(tmp_path / "lake")
    ingested = CliRunner().invoke(app, ["ingest", "disk", str(data), "--cluster", "c", "--lake", lake])
    assert ingested.exit_code == 0
    done = hwmark("--from", data / "broker-1", "--all", "--cluster", "c", "--lake", lake)
    assert done.exit_code == 2
    assert "the lake has no loss of c: let `hwmark run --once --drain` find it, or name --topic" in done.output


def test_a_file_without_a_record_to_write_is_told_as_zero(tmp_path):
    (tmp_path / "none.jsonl").touch()
    done = hwmark("produce", tmp_path / "none.jsonl", "--bootstrap", "localhost:1", "--topic", "x")
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (0, ["  0 to write"])


def test_produce_says_first_what_it_would_do_and_takes_no_original_or_internal_topic(data, tmp_path, monkeypatch):
    out = tmp_path / "o.parquet"
    hwmark("--from", data / "broker-1", "--beside", data / "broker-2", "--topic", "orders", "--offsets", "100..299",
           "--out", out)  # fmt: skip
    known = {(row["partition"], row["offset"], row["leader_epoch"], row["topic_id"]) for row in read(out)}
    earlier = {one for one in known if one[1] < 150}
    monkeypatch.setattr("generators.disks.write_back._present", lambda *asked: earlier)
    done = hwmark("produce", out, "--bootstrap", "localhost:1", "--topic", "orders-rescued")
    assert (done.exit_code, "150 to write" in done.stdout, "--write does it" in done.stdout) == (0, True, True)
    assert "30 left out: written by an earlier call" in done.stdout
    assert "20 left out: already in the surviving log" in done.stdout
    for topic, why in (("orders", "the records are of orders itself"), ("__consumer_offsets", "internal")):
        done = hwmark("produce", out, "--bootstrap", "localhost:1", "--topic", topic)
        assert (done.exit_code, why in done.stderr) == (2, True)
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    assert hwmark("produce", tmp_path / "other.jsonl", "--bootstrap", "localhost:1", "--topic", "x").exit_code == 2


def test_a_cluster_that_does_not_answer_is_a_line(data, tmp_path, monkeypatch):
    """A dry run looks at the topic, too: it said "180 to write" of a topic that was not there."""
    monkeypatch.setattr("generators.disks.write_back.ANSWERS_WITHIN_MS", 500)
    out = tmp_path / "o.parquet"
    hwmark("--from", data / "broker-1", "--beside", data / "broker-2", "--topic", "orders", "--out", out)
    done = hwmark("produce", out, "--bootstrap", "localhost:1", "--topic", "orders-rescued")
    assert done.exit_code == 1
    assert done.stderr.startswith("hwmark: localhost:1, topic orders-rescued: ")


class Refusing:
    """A producer whose brokers answer every record with an error."""

    def __init__(self, error):
        self.error = error

    def __call__(self, **settings):
        return self

    def send(self, *record):
        return self

    def get(self, timeout):
        raise self.error

    def close(self):
        pass


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            MessageSizeTooLargeError(),
            2,
            "topic o takes no record as large: raise its max.message.bytes, and call again",
        ),
        (KafkaConnectionError("socket disconnected"), 1, "localhost:1, topic o: "),
    ],
)
def test_what_the_brokers_refuse_is_a_line(tmp_path, monkeypatch, error, status, words):
    partition(directory(tmp_path / "a", 1), [batch(0)], [(0, 0)])
    out = tmp_path / "t.jsonl"
    hwmark("--from", tmp_path / "a", "--topic", "t", "--out", out)
    monkeypatch.setattr("generators.disks.write_back._present", lambda *asked: set())
    monkeypatch.setattr("kafka.KafkaProducer", Refusing(error))
    done = hwmark("produce", out, "--bootstrap", "localhost:1", "--topic", "o", "--write")
    assert (done.exit_code, done.stderr.startswith(f"hwmark: {words}")) == (status, True)


def test_markers_of_control_batches_end_transactions(tmp_path):
    transactional = 0x10
    batches = [batch(0, pid=7, pepoch=0, sequence=0, attributes=transactional), marker(1, 7, commit=False),
               batch(2, pid=7, pepoch=0, sequence=1, attributes=transactional), marker(3, 7)]  # fmt: skip
    partition(directory(tmp_path / "a", 1), batches, [(0, 0)])
    out = tmp_path / "out.jsonl"
    hwmark("--from", tmp_path / "a", "--topic", "t", "--out", out)
    assert [row["transaction"] for row in read(out)] == ["aborted", "committed"]


TRANSACTIONAL = 0x10


def transactional(base, pid=7, **more):
    return batch(base, pid=pid, pepoch=0, sequence=base, attributes=TRANSACTIONAL, **more)


def rescued_rows(folder, *words, beside=None, status=0):
    """The rows that `rescue` of t-0 writes."""
    out = folder.parent / f"{len(list(folder.parent.iterdir()))}.parquet"
    options = ("--beside", beside) if beside else ()
    done = hwmark("--from", folder, "--topic", "t", "--out", out, *options, *words)
    assert done.exit_code == status, done.output
    return pq.read_table(out).to_pylist(), done.stdout


def ends_of(rows):
    return {row["offset"]: row["transaction"] for row in rows}


def segment(folder, batches, base, *, name="t-0", deleted=False):
    path = folder / name / f"{base:020d}.log{'.deleted' if deleted else ''}"
    path.write_bytes(b"".join(batches))
    path.with_name(f"{base:020d}.index").touch()


def test_markers_of_a_topic_that_was_deleted_end_no_transaction_of_the_one_made_again(tmp_path):
    one = directory(tmp_path / "a", 1)
    partition(one, [transactional(0), transactional(1)], [(0, 0)], topic_id="B" * 22)
    partition(one, [batch(0), batch(1), batch(2), marker(3, 7, commit=True)], [(0, 0)], topic_id="A" * 22,
              name=f"t-0.{'0' * 32}-delete")  # fmt: skip
    rows, _ = rescued_rows(tmp_path / "a")
    assert [row["transaction"] for row in rows if row["topic_id"] == "B" * 22] == ["open", "open"]


def test_markers_of_the_lineage_that_replaced_a_cut_one_end_no_transaction_of_it(tmp_path):
    """Offsets 2 and 3 of epoch 0 were cut; the new leader has a committed transaction of the same producer there."""
    one = directory(tmp_path / "a", 1)
    again = [transactional(k, epoch=3) for k in (2, 3)]
    partition(one, [batch(0), batch(1), *again, marker(4, 7, epoch=3)], [(0, 0), (3, 2)])
    segment(one, [transactional(2), transactional(3)], 2, deleted=True)
    rows, _ = rescued_rows(tmp_path / "a")
    assert [(row["leader_epoch"], row["transaction"]) for row in rows[2:]] == [
        (3, "committed"), (3, "committed"), (0, "open"), (0, "open")]  # fmt: skip


def test_a_segment_that_retention_renamed_has_its_markers_in_the_log_behind_it(tmp_path):
    one = directory(tmp_path / "a", 1)
    partition(one, [marker(2, 7, commit=False), batch(3)], [(0, 2)], base=2)
    segment(one, [transactional(0), transactional(1)], 0, deleted=True)
    rows, _ = rescued_rows(tmp_path / "a")
    assert ends_of(rows) == {0: "aborted", 1: "aborted", 3: None}


def test_a_marker_behind_a_damaged_batch_may_be_of_a_later_transaction(tmp_path):
    """The abort of the first is damaged: it is not known how that ended, and by no means committed."""
    damaged = bytearray(marker(1, 7, commit=False))
    damaged[-1] ^= 1
    partition(
        directory(tmp_path / "a", 1), [transactional(0), bytes(damaged), transactional(2), marker(3, 7)], [(0, 0)]
    )
    rows, _ = rescued_rows(tmp_path / "a", status=4)
    assert ends_of(rows) == {0: "unknown", 2: "committed"}
    assert reason_left_out(rescued(transaction="unknown"), ()) == "unknown"
    assert reason_left_out(rescued(transaction="unknown"), ("unknown",)) is None


def test_what_the_cleaner_left_of_a_transaction_was_committed(tmp_path):
    """Its marker was removed; the next one is of a transaction that was aborted."""
    one = directory(tmp_path / "a", 1, cleaner=4)
    partition(one, [transactional(0), transactional(5), marker(6, 7, commit=False)], [(0, 0)])
    rows, _ = rescued_rows(tmp_path / "a")
    assert ends_of(rows) == {0: "committed", 5: "aborted"}


def test_a_cleaner_offset_of_a_deleted_topic_of_that_name_commits_no_transaction_of_the_new_one(tmp_path):
    """Entries are keyed by name (5.4): after a crash within the deletion the old one stays until the next write."""
    one = directory(tmp_path / "a", 1, cleaner=4)
    partition(one, [transactional(0)], [(0, 0)], topic_id="b" * 22)
    os.utime(one / "cleaner-offset-checkpoint", (1, 1))
    assert ends_of(rescued_rows(tmp_path / "a")[0]) == {0: "open"}


def test_what_is_rescued_beside_a_directory_of_another_cluster_is_wrong_usage(tmp_path):
    for broker in (1, 2):
        one = directory(tmp_path, broker)
        partition(one, [batch(0)], [(0, 0)])
        (one / "meta.properties").write_text(f"node.id={broker}\ncluster.id=cluster-{broker}\n")
    done = hwmark("--from", tmp_path / "broker-1", "--beside", tmp_path / "broker-2", "--topic", "t")
    assert (done.exit_code, "of cluster-2: name directories of one cluster" in done.stderr) == (2, True)


def test_cut_segments_are_rescued_after_the_start_without_a_range(tmp_path):
    """Broker 1 was started: its log is as long as the leader's, and what it cut lies in a renamed segment."""
    one = directory(tmp_path / "a", 1, hw=4)
    new = [batch(2, epoch=3), batch(3, epoch=3)]
    partition(one, [batch(0), batch(1), *new], [(0, 0), (3, 2)])
    segment(one, [batch(2, ts=5), batch(3, ts=5)], 2, deleted=True)
    partition(directory(tmp_path / "b", 2, hw=4), [batch(0), batch(1), *new], [(0, 0), (3, 2)])
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    found = [(row["offset"], row["leader_epoch"], row["below_hw"]) for row in rows]
    assert found == [(2, 0, None), (3, 0, None)], "the high watermark is that of the log that replaced it"


def test_a_high_watermark_from_before_the_epochs_is_not_that_of_the_log(tmp_path):
    at = partition(directory(tmp_path / "a", 1, hw=2), [batch(0), batch(1, epoch=3)], [(0, 0), (3, 1)])
    later = (tmp_path / "a" / "broker-1" / "replication-offset-checkpoint").stat().st_mtime + 1
    os.utime(at / "leader-epoch-checkpoint", (later, later))
    rows, _ = rescued_rows(tmp_path / "a")
    assert [row["below_hw"] for row in rows] == [None, None]


def test_a_log_of_another_topic_of_that_name_is_no_survivor(tmp_path):
    """Broker 1 was down while the topic was deleted and made again: none of its records lies in the new one."""
    partition(directory(tmp_path / "a", 1), [batch(k) for k in range(4)], [(0, 0)], topic_id="A" * 22)
    partition(directory(tmp_path / "b", 2), [batch(k) for k in range(3)], [(0, 0)], topic_id="B" * 22)
    rows, told = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert [(row["offset"], row["in_survivor"]) for row in rows] == [(k, None) for k in range(4)]
    assert f"of topic id {'B' * 22}, not {'A' * 22}" in told


def test_a_survivor_that_is_damaged_cannot_say_that_it_lacks_a_record(tmp_path):
    sent = [batch(k, pid=7, pepoch=0, sequence=k) for k in range(4)]
    damaged = bytearray(batch(2, epoch=1, pid=7, pepoch=0, sequence=2))
    damaged[-1] ^= 1
    partition(directory(tmp_path / "a", 1), sent, [(0, 0)])
    partition(directory(tmp_path / "b", 2), [*sent[:2], bytes(damaged)], [(0, 0), (1, 2)])
    rows, _ = rescued_rows(tmp_path / "a", "--offsets", "0..3", beside=tmp_path / "b")
    assert [row["in_survivor"] for row in rows] == [True, True, None, None]


def test_sequences_that_wrap_inside_a_batch_of_the_survivor_are_there(tmp_path):
    last = (1 << 31) - 1
    partition(directory(tmp_path / "a", 1), [batch(0), batch(1, pid=7, pepoch=0, sequence=0)], [(0, 0)])
    three = b"".join(record(k, b"k0") for k in range(3))
    kept = batch(1, 3, epoch=1, pid=7, pepoch=0, sequence=last, payload=three)
    partition(directory(tmp_path / "b", 2), [batch(0), kept], [(0, 0), (1, 1)])
    rows, _ = rescued_rows(tmp_path / "a", beside=tmp_path / "b")
    assert [(row["offset"], row["in_survivor"]) for row in rows] == [(1, True)]


def test_behind_a_length_that_cannot_be_a_rescue_goes_on_at_the_next_index_entry(tmp_path):
    """One flipped bit in a length cost the rest of the segment."""
    size = len(batch(0))
    cut = batch(1)[:8] + b"\0\0\0\1" + batch(1)[12:]
    at = partition(directory(tmp_path / "a", 1), [batch(0), cut, batch(2), batch(3)], [(0, 0)])
    (at / f"{0:020d}.index").write_bytes(struct.pack(">ii", 2, 2 * size))
    rows, told = rescued_rows(tmp_path / "a", status=4)
    assert [row["offset"] for row in rows] == [0, 2, 3]
    assert f"left out: {0:020d}.log, {size} bytes from byte {size} on: its length is impossible" in told


def test_messages_of_before_0_11_are_said_to_be_left_out(tmp_path):
    old = struct.pack(">qiibbii", 0, 14, 0, 0, 0, -1, 0)
    partition(directory(tmp_path / "a", 1), [old, batch(1)], [(0, 1)])
    rows, told = rescued_rows(tmp_path / "a", status=4)
    assert [row["offset"] for row in rows] == [1]
    assert "1 messages in the format before 0.11, which is not read" in told


def test_a_damaged_batch_is_named_wherever_its_own_header_says_that_it_lies(tmp_path):
    damaged = struct.pack(">q", 1 << 40) + batch(1)[8:-1] + b"?"
    partition(directory(tmp_path / "a", 1), [batch(0), damaged, batch(2)], [(0, 0)])
    rows, _ = rescued_rows(tmp_path / "a", "--offsets", "0..2", status=4)
    assert [row["offset"] for row in rows] == [0, 2]
    rows, _ = rescued_rows(tmp_path / "a", "--offsets", "2..2")
    assert [row["offset"] for row in rows] == [2]
