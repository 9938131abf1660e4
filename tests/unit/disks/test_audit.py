"""`hwmark audit`: a test for each thing that files seem to say and do not, and a real unclean election."""

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import zlib
from base64 import b64decode
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from generators.disks.audit import partition_audits
from generators.disks.directories import PartitionDirectory, find_log_directories
from generators.disks.keys import words
from generators.disks.segments import log_end, look_up
from pipelines.cli import app
from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.lake.queries import select_rows
from pipelines.verdict.disk_findings import standing_findings
from schemas import audits, hw_regressions
from tests.unit.disks.disk_files import (
    TS,
    VERSIONS,
    batch,
    directory,
    findings_of,
    kinds,
    logs,
    marker,
    offsets,
    partition,
    record,
    recorded,
)


def hwmark(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def fingerprint(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def run_of(count, epoch=0, first=0):
    return [batch(first + k, epoch=epoch) for k in range(count)]


def cuts(data):
    return sorted(
        (f for f in findings_of(data, chosen=("orders", 0)) if f.kind == "cut"), key=lambda one: one.broker_id
    )


@pytest.mark.parametrize("version", ["3.9", "4.1"])
def test_a_real_unclean_election_is_told_with_what_the_old_leader_then_cut(tmp_path, version):
    recorded(tmp_path, f"unclean_election_{version}")
    old, new = cuts(tmp_path / "data")
    assert (old.broker_id, old.from_offset, old.to_offset, old.severity) == (1, 120, 300, "critical")
    assert "following broker 2 it cuts 120..299 (180 offsets, 180 of them below its high watermark 300)" in old.detail
    assert "copy this directory before a start" in old.detail
    assert (new.broker_id, new.from_offset, new.to_offset, new.severity) == (2, 120, 150, "info")
    after = json.loads((tmp_path / "clients.json").read_text())["orders_ends_after"]
    assert after == {"1": 150, "2": 150}, "what Kafka did as all were started again"


def test_what_is_cut_where_the_old_leader_is_elected_again_is_told_too(tmp_path):
    """Kafka 4.4, with eligible leader replicas: as all were started, broker 1 came first and was elected uncleanly."""
    recorded(tmp_path, "unclean_election_4.4")
    _, new = cuts(tmp_path / "data")
    assert (new.broker_id, new.from_offset, new.to_offset) == (2, 120, 150)
    assert "only if broker 1 were elected uncleanly: its epoch is older" in new.detail
    after = json.loads((tmp_path / "clients.json").read_text())["orders_ends_after"]
    assert after == {"1": 300, "2": 300}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_power_failure_is_told_on_both_replicas_and_nothing_once_they_were_started(tmp_path, version):
    """Both logs end at 120, where they had 300 committed; an index is written later than its log."""
    folder = recorded(tmp_path, f"power_{version}")
    found = [f for f in findings_of(folder / "down") if f.severity != "info"]
    ends = [(f.topic, f.broker_id, f.from_offset, f.to_offset) for f in found if f.kind == "hw_above_end"]
    assert ends == [("orders", 1, 120, 300), ("orders", 2, 120, 300)]
    assert {f.kind for f in found} == {"hw_above_end", "index"}
    assert kinds(findings_of(folder / "data"), "critical") == kinds(findings_of(folder / "data"), "unknown") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_else_is_found_in_what_a_real_kafka_left(tmp_path, version):
    recorded(tmp_path, f"unclean_election_{version}")
    findings = findings_of(tmp_path / "data")
    assert [f.topic for f in findings if f.severity != "info"] == ["orders"]
    assert {f.kind for f in findings} == {"cut", "behind", "recovery", "open_transaction"}


def test_what_the_mission_says_of_five_things_a_real_directory_shows(tmp_path):
    """Segments with a sparse index, recovery point, idempotent producer and ends of transactions."""
    recorded(tmp_path)
    by_broker = {log.directory.broker_id: log for log in logs(tmp_path / "data", chosen=("orders", 0))}
    old, new = by_broker[1], by_broker[2]
    assert (old.batches, old.index_entries, old.longest_scan < 2048) == (300, 23, True)
    assert (old.recovery_point, old.directory.clean) == (0, False)
    assert (new.recovery_point, new.directory.clean) == (150, True)
    assert (len(old.producers.ids), old.records, old.producers.duplicates) == (2, 300, [])
    (payments, *_) = logs(tmp_path / "data", chosen=("payments", 0))
    producers = payments.producers
    assert (producers.committed, producers.aborted, list(producers.open.values())) == (1, 1, [22])


@pytest.mark.parametrize(
    ("topic", "records", "with_sequence", "lost", "twice"),
    [("none", 19, False, ["order 5"], []), ("all", 21, False, [], ["order 10"]), ("idempotent", 20, True, [], [])],
    ids=["acks=0: at most once", "acks=all: at least once", "acks=all and idempotence: exactly once"],
)
def test_delivery_guarantees_are_counted_on_one_script(tmp_path, topic, records, with_sequence, lost, twice):
    """Mission, system 18. Record 5 did not reach the broker, the answer to 10 not the client; all were acknowledged."""
    recorded(tmp_path, "guarantees_4.1")
    acknowledged = [text for _, text in json.loads((tmp_path / "clients.json").read_text())["written"][f"{topic}-0"]]
    assert acknowledged == [f"order {k}" for k in range(20)]
    told = json.loads(hwmark(tmp_path / "data", "--topic", topic, "--format", "json").stdout)
    ((replica,),) = [one["replicas"] for one in told["partitions"]]
    assert (replica["records"], replica["end"], replica["producers"]) == (records, records, int(with_sequence))
    out = tmp_path / "records.jsonl"
    place = ["--topic", topic, "--partition", "0", "--offsets", f"0..{records - 1}", "--out", str(out)]
    assert CliRunner().invoke(app, ["rescue", "--from", str(tmp_path / "data"), *place]).exit_code == 0
    stored = Counter(b64decode(json.loads(line)["value"]).decode() for line in out.read_text().splitlines())
    assert [text for text in acknowledged if not stored[text]] == lost
    assert [text for text, times in stored.items() if times > 1] == twice


def test_an_audit_writes_nothing_and_says_what_it_found_by_its_status(tmp_path):
    data = recorded(tmp_path) / "data"
    before = fingerprint(data)
    done = hwmark(data)
    assert done.exit_code == 3
    assert "8 partitions of 3 brokers, 19 replicas" in done.stdout
    assert "it cuts 120..299" in done.stdout
    assert hwmark(data, "--topic", "clicks").exit_code == 0
    told = json.loads(hwmark(data, "--format", "json").stdout)
    assert (told["status"], told["totals"]["critical"]) == (3, 1)
    assert [one["topic"] for one in told["partitions"]] == ["orders"]
    assert fingerprint(data) == before


def test_an_audit_of_a_topic_says_nothing_of_directories_of_others(tmp_path):
    data = recorded(tmp_path) / "data"
    assert "again-0." in hwmark(data).stdout
    assert "again-0." in hwmark(data, "--topic", "again").stdout
    assert "again" not in hwmark(data, "--topic", "orders").stdout


def test_findings_are_rows_of_a_lake(tmp_path):
    data, lake = recorded(tmp_path) / "data", tmp_path / "lake"
    assert hwmark(data, "--lake", lake).exit_code == 2, "whose disks?"
    assert hwmark(data, "--lake", lake, "--cluster", "c").exit_code == 2, "an audit makes no lake"
    ingested = CliRunner().invoke(app, ["ingest", "disk", str(data), "--cluster", "c", "--lake", str(lake)])
    assert ingested.exit_code == 0
    assert hwmark(data, "--lake", lake, "--cluster", "c").exit_code == 3
    rows = Lake(str(lake)).read(audits.TABLE, audits.ARROW).to_pylist()
    (row,) = [row for row in rows if row["severity"] == "critical"]
    assert (row["topic"], row["broker_id"], row["from_offset"], row["to_offset"]) == ("orders", 1, 120, 300)
    assert (row["cluster"], row["other_broker_id"], len(row["topic_id"])) == ("c", 2, 22)


def standing(lake):
    """The findings that page and report show, each with its place and broker."""
    rows = select_rows(Lake(str(lake)), audits.TABLE, standing_findings("true"))
    return sorted((row["kind"], row["topic"], row["broker_id"]) for row in rows)


def audit_of(tmp_path, *options):
    """Audit with a lake; returns the rows that it writes."""
    before = set(rows_of(tmp_path / "lake"))
    assert hwmark(tmp_path / "data", "--lake", tmp_path / "lake", "--cluster", "c", *options).exit_code in (0, 3, 4)
    return [row for name, row in rows_of(tmp_path / "lake").items() if name not in before]


def rows_of(lake):
    rows = Lake(str(lake)).read(audits.TABLE, audits.ARROW).to_pylist()
    return {(row["audit_id"], row["kind"], row["topic"], row["partition"], row["broker_id"]): row for row in rows}


def two_damaged(tmp_path):
    """Topics t and u on brokers 1 and 2, both damaged on broker 1, and a lake that has the findings."""
    with_loss(tmp_path / "lake", recorded(tmp_path / "other") / "data", lost_from=0, lost_to=1)
    one, two = directory(tmp_path / "data", 1), directory(tmp_path / "data", 2)
    for folder in (one, two):
        for name in ("t-0", "u-0"):
            partition(folder, [batch(0), batch(1)], [(0, 0)], name=name, topic_id="A" * 22)
        offsets(folder, "replication-offset-checkpoint", t=1, u=1)
    for name in ("t-0", "u-0"):
        damage(one / name)
    audit_of(tmp_path)
    assert standing(tmp_path / "lake") == [("damaged", "t", 1), ("damaged", "u", 1)]
    return one, two


def damage(replica):
    (replica / "00000000000000000000.log").write_bytes(batch(0) + bytes(batch(1)[:-1]) + b"X")


def repair(replica):
    (replica / "00000000000000000000.log").write_bytes(batch(0) + batch(1))


def test_an_audit_that_finds_nothing_says_so_and_what_it_covered(tmp_path):
    one, _ = two_damaged(tmp_path)
    assert not any(row["detail"].startswith("no longer") for row in audit_of(tmp_path)), "both are found again"
    repair(one / "t-0")
    ended, itself = audit_of(tmp_path, "--topic", "t", "--partition", "0")
    assert (ended["kind"], ended["severity"], ended["detail"][:18]) == ("damaged", "info", "no longer found: 0")
    assert (itself["kind"], itself["topic"], itself["partition"], itself["severity"]) == ("audited", "t", 0, "info")
    assert re.sub(" in .* s:", ":", itself["detail"]) == (
        "broker 1, broker 2: 1 partitions of 2 brokers, 2 replicas, 4 batches, 0.0 MB: 0 critical, 0 unknown, 0 info"
    )


def test_a_later_audit_ends_only_findings_of_replicas_that_it_read(tmp_path):
    one, _ = two_damaged(tmp_path)
    for name in ("t-0", "u-0"):
        repair(one / name)
    audit_of(tmp_path, "--topic", "t")
    assert standing(tmp_path / "lake") == [("damaged", "u", 1)]
    (tmp_path / "data" / "broker-1").rename(tmp_path / "away")
    audit_of(tmp_path)
    assert standing(tmp_path / "lake") == [("damaged", "u", 1)], "broker 1 was not given"
    (tmp_path / "away").rename(tmp_path / "data" / "broker-1")
    (one / "u-0" / "00000000000000000000.log").rename(tmp_path / "segment")
    audit_of(tmp_path)
    assert ("damaged", "u", 1) in standing(tmp_path / "lake"), "the log could not be read"
    (tmp_path / "segment").rename(one / "u-0" / "00000000000000000000.log")
    audit_of(tmp_path)
    assert standing(tmp_path / "lake") == []


def test_a_finding_of_a_replica_that_is_gone_ends_with_an_audit_of_its_directory(tmp_path):
    one, _ = two_damaged(tmp_path)
    shutil.rmtree(one / "t-0")
    (one / "replication-offset-checkpoint").write_text("damaged")
    audit_of(tmp_path)
    assert ("damaged", "t", 1) in standing(tmp_path / "lake"), "the directory has files that could not be read"
    (one / "replication-offset-checkpoint").unlink()
    audit_of(tmp_path)
    assert standing(tmp_path / "lake") == [("damaged", "u", 1)]


def test_a_finding_about_two_replicas_ends_only_if_both_were_read(tmp_path):
    with_loss(tmp_path / "lake", recorded(tmp_path / "other") / "data", lost_from=0, lost_to=1)
    one, two = directory(tmp_path / "data", 1), directory(tmp_path / "data", 2)
    partition(one, [batch(0), batch(1)], [(0, 0)])
    partition(two, [batch(0), batch(1, ts=TS + 1)], [(0, 0)])
    audit_of(tmp_path)
    (found,) = standing(tmp_path / "lake")
    assert found[0] == "checksums_differ"
    two.rename(tmp_path / "away")
    audit_of(tmp_path)
    assert standing(tmp_path / "lake") == [found]


def test_what_was_found_deep_ends_only_with_a_deep_audit(tmp_path):
    with_loss(tmp_path / "lake", recorded(tmp_path / "other") / "data", lost_from=0, lost_to=1)
    at = partition(directory(tmp_path / "data", 1), [batch(0, payload=b"\x7f")], [(0, 0)])
    audit_of(tmp_path, "--deep")
    assert standing(tmp_path / "lake") == [("damaged", "t", 1)]
    audit_of(tmp_path)
    assert standing(tmp_path / "lake") == [("damaged", "t", 1)]
    repair(at)
    audit_of(tmp_path, "--deep")
    assert standing(tmp_path / "lake") == []


def with_loss(folder, data, **loss):
    """A lake that has the cluster, and this loss of orders-0."""
    ingested = CliRunner().invoke(app, ["ingest", "disk", str(data), "--cluster", "c", "--lake", str(folder)])
    assert ingested.exit_code == 0
    row = {"cluster": "c", "topic": "orders", "partition": 0, "topic_id": None,
           "ts": datetime(2026, 11, 27, tzinfo=UTC),
           "class": "unclean_loss", "severity": "critical", "proof": "bounded", "revision": 1, "level": 0,
           "regression_id": "r", **loss}  # fmt: skip
    Lake(str(folder)).append(hw_regressions.TABLE, pa.Table.from_pylist([row], schema=hw_regressions.ARROW))
    return folder


@pytest.mark.parametrize(
    ("loss", "difference"),
    [
        ({"lost_from": 120, "lost_to": 300}, None),
        ({"lost_from": 150, "lost_to": 280}, None),  # at least
        ({"lost_from": 150, "lost_to": 280, "proof": "proven"}, "120..299 are lost, the lake has 150..279 (proven)"),
        ({"lost_from": 10, "lost_to": 20}, "120..299 are lost, the lake has no loss there"),
        ({"lost_from": 120, "lost_to": 300, "topic_id": "A" * 22}, "120..299 are lost, the lake has no loss there"),
        ({"lost_from": 310, "lost_to": 400}, "the lake has 310..399 as lost; no log given has them"),
    ],
)
def test_losses_by_disks_and_by_telemetry_agree_or_the_difference_is_a_row(tmp_path, loss, difference):
    data = recorded(tmp_path) / "data"
    lake = with_loss(tmp_path / "lake", data, **loss)
    told = json.loads(hwmark(data, "--lake", lake, "--cluster", "c", "--format", "json").stdout)
    texts = [f["summary"] for one in told["partitions"] for f in one["findings"] if f["kind"] == "loss_differs"]
    assert any(difference in text for text in texts) if difference else texts == []
    kinds_kept = Lake(str(lake)).read(audits.TABLE, audits.ARROW)["kind"].to_pylist()
    assert kinds_kept.count("loss_differs") == len(texts)


def test_the_way_to_an_offset_goes_by_segment_index_and_position(tmp_path):
    """Mission, system 14: offset, segment, position; every fifth offset of a real log is found through its index."""
    data = recorded(tmp_path) / "data"
    folder = data / "broker-1" / "orders-0"
    found = [look_up(folder, offset) for offset in range(0, 300, 5)]
    assert [way.batch[:2] for way in found] == [(offset, offset) for offset in range(0, 300, 5)]
    assert max(way.read_on for way in found) < 2048
    assert look_up(folder, 300) is None
    done = hwmark(data, "--topic", "orders", "--partition", "0", "--offset", "150")
    way = "index entry 143 at byte 11,792, 588 bytes on, batch 150..150 at byte 12,380"
    assert f"broker 1: offset 150: 00000000000000000000.log, {way}" in done.stdout
    assert "broker 2: offset 150: not there, the log ends at 150" in done.stdout


def test_an_offset_in_a_later_segment_or_compacted_away_is_looked_up_from_the_next(tmp_path):
    one = directory(tmp_path, 1)
    at = partition(one, run_of(5), [(0, 0)])
    (at / f"{5:020d}.log").write_bytes(batch(7) + batch(8))
    (at / f"{5:020d}.index").touch()
    size = len(batch(0))
    assert (look_up(at, 4).segment, look_up(at, 4).batch) == (f"{0:020d}.log", (4, 4, 4 * size))
    words = "no index entry below it, 0 bytes on, batch 7..7 at byte 0 (the offset itself is not there)"
    assert look_up(at, 6).words(6) == f"offset 6: {5:020d}.log, {words}"


def test_a_directory_that_is_named_twice_is_no_second_replica(tmp_path):
    """It had "all of them", so that nobody was told to copy the last one before a start."""
    data = recorded(tmp_path) / "data"
    told = json.loads(hwmark(data, data / "broker-1", tmp_path / "data", "--format", "json").stdout)
    assert told == json.loads(hwmark(data, "--format", "json").stdout)
    assert any("no other replica given has all of them" in f["summary"] for f in told["partitions"][0]["findings"])


def test_two_copies_of_one_broker_are_told_apart_by_their_paths(tmp_path):
    """Copies from before a start and after it: "following broker 1" said of broker 1 names nothing."""
    partition(directory(tmp_path / "before", 1), run_of(300), [(0, 0)])
    partition(directory(tmp_path / "after", 1), [*run_of(120), *run_of(30, 1, 120)], [(0, 0), (1, 120)])
    (cut,) = (one.detail for one in findings_of(tmp_path) if (one.kind, one.severity.value) == ("cut", "critical"))
    assert cut.startswith(f"following broker 1 ({tmp_path}/after/broker-1) it cuts 120..299")


def test_what_a_file_system_found_is_no_folder_of_a_broker(tmp_path):
    """Root alone may read lost+found: the whole audit had ended with "Permission denied"."""
    partition(directory(tmp_path, 1), run_of(3), [(0, 0)])
    directory(tmp_path / "lost+found", 9)
    assert [one.broker_id for one in find_log_directories([tmp_path])] == [1]


def test_a_folder_without_logs_is_wrong_usage(tmp_path):
    assert hwmark(tmp_path).exit_code == 2
    assert hwmark(tmp_path / "none").exit_code == 2
    assert "no directory" in hwmark(tmp_path / "none").stderr


def test_a_topic_that_is_not_there_is_not_called_sound(tmp_path):
    data = recorded(tmp_path) / "data"
    for named in (["--topic", "clcks"], ["--topic", "clicks", "--partition", "99"], ["--partition", "0"]):
        assert hwmark(data, *named).exit_code == 2


def test_a_read_only_mount_is_read_and_nothing_in_it_changes(tmp_path):
    data, mounted = recorded(tmp_path) / "data", tmp_path / "mounted"
    mounted.mkdir()
    before, python = fingerprint(data), sys.executable
    words = f"ingest disk {mounted} --cluster c --lake {tmp_path}/lake", f"audit {mounted}"
    words = *words, f"rescue --from {mounted}/broker-1 --topic orders --out {tmp_path}/orders.parquet"
    calls = "; ".join(f"{python} -m hwmark {one} || echo status $?" for one in words)
    script = (
        f"mount --bind {data} {mounted} && mount -o remount,ro,bind {mounted} || exit 77; touch {mounted}/x; {calls}"
    )
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("no mounts without rights here")
    assert "Read-only file system" in done.stderr, "touch"
    assert re.findall("status .*", done.stdout) == ["status 3"], "the audit, as a loss diverges"
    assert fingerprint(data) == before


def test_directories_without_a_replica_are_not_called_sound(tmp_path):
    directory(tmp_path, 1)
    done = hwmark(tmp_path)
    assert (done.exit_code, "no log of a partition below" in done.stderr) == (2, True)


def test_a_log_that_cannot_be_read_to_its_end_is_not_known_and_neither_damaged_nor_a_leader_to_follow(tmp_path):
    partition(directory(tmp_path, 1, hw=6), run_of(6), [(0, 0)])
    at = partition(directory(tmp_path, 2, hw=6, clean=False), run_of(3), [(0, 0)])
    (at / f"{3:020d}.log").symlink_to(at / "nowhere")
    assert kinds(findings_of(tmp_path)) == ["index", "unreadable"]
    assert hwmark(tmp_path).exit_code == 4


def test_of_many_damaged_partitions_the_first_are_shown_without_their_batches(tmp_path, monkeypatch):
    one = directory(tmp_path, 1)
    for k in range(5):
        partition(one, [batch(0), batch(9)], [(0, 0)], name=f"t-{k}")
    monkeypatch.setattr("pipelines.commands.audit.SHOWN", 2)
    done = hwmark(tmp_path)
    assert (done.exit_code, done.stdout.count("gap")) == (3, 2)
    assert "3 more partitions: name --topic, or keep all findings with --cluster and --lake" in done.stdout
    told = json.loads(hwmark(tmp_path, "--format", "json").stdout)
    assert (len(told["partitions"]), told["left_out"], told["totals"]["critical"]) == (2, 3, 5)
    (audited, *_) = partition_audits(find_log_directories([tmp_path]))
    assert len(audited.without_batches().logs[0].keys) == 0


def test_large_replicas_are_read_at_once_and_say_what_they_say_one_after_the_other(tmp_path, monkeypatch):
    data, said = recorded(tmp_path, "faults_4.1"), []
    alone = [(log.name, log.keys.tolist(), log.findings) for log in logs(data)]
    monkeypatch.setattr("generators.disks.audit.WINDOW", 0)
    assert [(log.name, log.keys.tolist(), log.findings) for log in logs(data, on_progress=said.append)] == alone
    assert said[-1].endswith(" MB")


def test_an_audit_that_is_interrupted_reads_no_replica_to_its_end(tmp_path, monkeypatch):
    for broker in (1, 2):
        partition(directory(tmp_path, broker), run_of(2000), [(0, 0)])
    monkeypatch.setattr("generators.disks.audit.WINDOW", 0)
    monkeypatch.setattr("generators.disks.segments.WINDOW", 1000)
    told = []

    def interrupt(text):
        told.append(text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        logs(tmp_path, on_progress=interrupt)
    assert len(told) <= 2


def test_a_replica_without_a_segment_is_not_called_sound(tmp_path):
    """Kafka makes one with the directory: they were deleted, or the disk was restored without them."""
    partition(directory(tmp_path, 1), run_of(3), [(0, 0)])
    (directory(tmp_path, 2) / "t-0").mkdir()
    assert [(one.broker_id, one.kind, one.severity.value) for one in findings_of(tmp_path)] == [
        (2, "unreadable", "unknown")
    ]


def test_a_partition_that_cannot_be_listed_costs_no_other_its_audit(tmp_path, monkeypatch):
    one = directory(tmp_path, 1, clean=False)
    for name in ("t-0", "u-0"):
        partition(one, run_of(3), [(0, 0)], name=name)
    listdir = os.listdir

    def fails(path):
        if str(path).endswith("t-0"):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", fails)
    found = {(finding.topic, finding.kind) for finding in findings_of(tmp_path)}
    assert found == {("t", "unreadable"), ("u", "recovery")}


def test_a_cleaner_offset_of_a_deleted_topic_of_that_name_explains_no_gap(tmp_path):
    """Entries are keyed by name (5.4); it had kept batches from being compared, on all replicas."""
    for broker, batches in ((1, [*run_of(3), batch(5)]), (2, run_of(6))):
        one = directory(tmp_path, broker, cleaner=100)
        os.utime(one / "cleaner-offset-checkpoint", (1, 1))
        partition(one, batches, [(0, 0)], topic_id="A" * 22)
    assert [(f.kind, f.severity.value) for f in findings_of(tmp_path)] == [("gap", "unknown")]


# proofs.md 5.3: an epoch's entry is only an upper bound.
def test_an_entry_below_the_first_batch_of_its_epoch_fits_and_one_above_it_does_not(tmp_path):
    one = directory(tmp_path / "a", 1)
    partition(one, [batch(k) for k in range(3)] + [batch(k, epoch=7) for k in range(3, 6)], [(0, 0), (5, 3), (7, 3)])
    assert kinds(findings_of(tmp_path / "a")) == []
    other = directory(tmp_path / "b", 1)
    partition(other, [batch(k) for k in range(3)] + [batch(k, epoch=7) for k in range(3, 6)], [(0, 0), (7, 4)])
    (finding,) = findings_of(tmp_path / "b")
    assert (finding.kind, finding.severity) == ("epochs", "critical")
    assert "epoch 7 begins at 3 in the log, from 4 in the file" in finding.detail


def test_entries_at_or_above_the_end_of_the_log_are_ignored(tmp_path):
    for broker, epochs in ((1, [(0, 0), (9, 10)]), (2, [(0, 0)])):
        partition(directory(tmp_path, broker), run_of(10), epochs)
    assert kinds(findings_of(tmp_path)) == []
    assert [log.lineage.text() for log in logs(tmp_path)] == ["epoch 0 from 0, end 10"] * 2


# proofs.md 5.4
def test_a_high_watermark_above_the_end_is_damage_or_a_cut(tmp_path):
    partition(directory(tmp_path, 1, hw=12), run_of(10), [(0, 0)])
    (finding,) = findings_of(tmp_path)
    assert (finding.kind, finding.from_offset, finding.to_offset) == ("hw_above_end", 10, 12)


def test_a_checkpoint_older_than_the_partition_says_nothing_of_it(tmp_path):
    """Entries are keyed by name: after delete and recreate the old one stays until the first write."""
    one = directory(tmp_path, 1, hw=12)
    at = partition(one, run_of(10), [(0, 0)], topic_id="A" * 22)
    os.utime(at / "partition.metadata", (2_000_000_000, 2_000_000_000))
    assert findings_of(tmp_path) == []
    assert [log.hw for log in logs(tmp_path)] == [None]
    os.utime(one / "replication-offset-checkpoint", (2_000_000_001, 2_000_000_001))
    assert kinds(findings_of(tmp_path)) == ["hw_above_end"]


def test_replicas_of_two_topics_of_one_name_are_told_apart(tmp_path):
    for broker, topic_id in ((1, "A" * 22), (2, "B" * 22)):
        partition(directory(tmp_path, broker), run_of(3), [(0, 0)], topic_id=topic_id)
    assert kinds(findings_of(tmp_path), "critical") == ["topic_ids"]


# proofs.md 5.5
def test_an_unclean_stop_is_told_with_where_a_recovery_would_begin_and_a_running_broker_is_not(tmp_path):
    one = directory(tmp_path, 1, clean=False, recovery=4)
    partition(one, run_of(10), [(0, 0)])
    (finding,) = findings_of(tmp_path)
    assert (finding.kind, finding.severity, finding.from_offset, finding.to_offset) == ("recovery", "info", 4, 10)
    assert findings_of(tmp_path, live=True) == []


def test_a_last_batch_half_written_is_damage_only_of_a_stopped_broker(tmp_path):
    partition(directory(tmp_path, 1), [*run_of(3), batch(3)[:-5]], [(0, 0)])
    assert kinds(findings_of(tmp_path), "critical") == ["torn"]
    assert kinds(findings_of(tmp_path, live=True), "critical") == []


def test_what_a_running_broker_changes_while_it_is_read_is_no_damage(tmp_path, monkeypatch):
    """It follows another leader and cuts its log after its segments were read, before its epochs are."""
    partition(directory(tmp_path, 1, clean=False), [batch(0), batch(1, epoch=1)], [(0, 0), (1, 1)])
    read, told = PartitionDirectory.leader_epochs, []

    def other_epochs(self):
        told.append([(0, 0), (2, 1)] if len(told) % 2 == 0 else read(self))
        return told[-1]

    monkeypatch.setattr(PartitionDirectory, "leader_epochs", other_epochs)
    assert findings_of(tmp_path, live=True) == []
    assert kinds(findings_of(tmp_path), "critical") == ["epochs"]


def test_directories_of_two_clusters_are_wrong_usage(tmp_path):
    """Their topics may have one name, and epochs and offsets of the one say nothing of the other."""
    for broker, cluster in ((1, "one"), (2, "other")):
        one = directory(tmp_path, broker)
        partition(one, run_of(3, epoch=broker), [(broker, 0)])
        (one / "meta.properties").write_text(f"node.id={broker}\ncluster.id={cluster}\n")
    with pytest.raises(UsageError, match=r"broker-1 is of cluster one, .*broker-2 of other: name directories of one"):
        find_log_directories([tmp_path])


def test_zeros_behind_the_newest_segment_are_no_damage(tmp_path):
    partition(directory(tmp_path, 1), [*run_of(3), bytes(4096)], [(0, 0)])
    assert findings_of(tmp_path) == []
    assert [log.end for log in logs(tmp_path)] == [3]


def test_a_log_without_a_batch_ends_at_the_base_of_its_segment(tmp_path):
    partition(directory(tmp_path, 1), [], [], base=42)
    assert [(log.start, log.end) for log in logs(tmp_path)] == [(42, 42)]


# proofs.md 5.6
@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(4, 3), (8, 7)], None),  # one entry for a whole append of several batches
        ([(4, 4), (8, 7)], None),  # one for each batch
        ([(4, 3), (4, 7)], "do not rise"),
        ([(3, 4)], "is the end of no batch there"),
        ([(8, 3), (9, 7)], "is the end of no batch there"),
        ([(4, 3.5)], "is the end of no batch there"),
        ([(4, 99)], "behind the end"),
    ],
)
def test_an_index_entry_fits_if_an_append_starts_there_and_ends_at_its_offset(tmp_path, entries, words):
    at = partition(directory(tmp_path, 1), run_of(10), [(0, 0)])
    size = len(batch(0))
    raw = b"".join(o.to_bytes(4, "big") + int(p * size).to_bytes(4, "big") for o, p in entries)
    (at / f"{0:020d}.index").write_bytes(raw + bytes(80))
    findings = findings_of(tmp_path)
    assert [words in finding.detail for finding in findings] == ([True] if words else [])


# proofs.md 5.7
def test_replicas_that_were_cleaned_apart_do_not_diverge(tmp_path):
    partition(directory(tmp_path, 1, cleaner=6), [batch(2), batch(5), *run_of(4, first=6)], [(0, 0)])
    partition(directory(tmp_path, 2, cleaner=4), [batch(1), *run_of(6, first=4)], [(0, 0)])
    assert findings_of(tmp_path) == []


def test_equal_epoch_and_offset_with_other_bytes_above_the_cleaner_is_critical(tmp_path):
    partition(directory(tmp_path, 1), run_of(5), [(0, 0)])
    partition(directory(tmp_path, 2), [*run_of(3), batch(3, ts=TS + 1), batch(4)], [(0, 0)])
    (finding,) = findings_of(tmp_path)
    assert (finding.kind, finding.severity) == ("checksums_differ", "critical")
    assert (finding.from_offset, finding.to_offset) == (3, 4)


def test_copies_taken_at_different_times_differ_at_their_ends_without_diverging(tmp_path):
    partition(directory(tmp_path, 1, hw=5), run_of(7), [(0, 0)])
    partition(directory(tmp_path, 2, hw=5), run_of(5), [(0, 0)])
    assert kinds(findings_of(tmp_path), "critical") == []
    (finding,) = findings_of(tmp_path)
    assert "following broker 2 it cuts 5..6 (2 offsets); no other replica" in finding.detail


def test_a_copy_from_before_the_others_high_watermark_loses_nothing(tmp_path):
    """Copies of running brokers are taken one after the other: each lacks what was committed since."""
    partition(directory(tmp_path, 1, hw=7), run_of(7), [(0, 0)])
    partition(directory(tmp_path, 2, hw=5), run_of(5), [(0, 0)])
    assert kinds(findings_of(tmp_path), "critical") == ["cut"], "it may be led by one that has lost them"
    assert kinds(findings_of(tmp_path, live=True), "critical") == []
    earlier = tmp_path / "broker-2" / "replication-offset-checkpoint"
    os.utime(earlier, (earlier.stat().st_mtime - 6,) * 2)
    assert kinds(findings_of(tmp_path), "critical") == []
    (cut,) = [finding.detail for finding in findings_of(tmp_path) if finding.kind == "cut"]
    assert "what is given of broker 2 may be from before these; no other replica given has all of them" in cut


def test_a_high_watermark_above_the_end_of_a_running_brokers_copy_was_copied_later(tmp_path):
    partition(directory(tmp_path, 1, hw=9), run_of(7), [(0, 0)])
    assert kinds(findings_of(tmp_path, live=True)) == ["hw_above_end"]
    assert kinds(findings_of(tmp_path, live=True), "critical") == []


def idempotent(*numbers, **more):
    return [batch(k, pid=7, pepoch=0, sequence=k, **more) for k in numbers]


def test_a_replica_that_was_copied_from_a_cleaned_one_lacks_what_that_lacks(tmp_path):
    """Broker 3 got a new disk and copied broker 1, which was cleaned further than broker 2; it was never cleaned."""
    cleaned = [batch(2), batch(4, 2, payload=record(1), left=1), *idempotent(6, 7, 8)]
    partition(directory(tmp_path, 1, cleaner=6), cleaned, [(0, 0)])
    partition(directory(tmp_path, 2, cleaner=3), [batch(2), batch(3), batch(4, 2), *idempotent(6, 7, 8)], [(0, 0)])
    partition(directory(tmp_path, 3), cleaned, [(0, 0)], base=2)
    assert findings_of(tmp_path) == []
    partition(tmp_path / "broker-2", [batch(2), batch(3), batch(4, 2), *idempotent(6, 7), batch(8)], [(0, 0)])
    assert kinds(findings_of(tmp_path)) == ["checksums_differ", "checksums_differ"], "above what the cleaner did"


@pytest.mark.parametrize(
    ("name", "batches"),
    [
        ("__consumer_offsets-0", idempotent(2, 5, 6)),
        ("t-0", [*idempotent(2, 5, 6), batch(7, 2, payload=record(1), left=1)]),  # a batch lacks a record
        ("t-0", [*idempotent(2, 5, 6), batch(7, attributes=0x40)]),  # a delete horizon (KIP-534)
    ],
)
def test_a_gap_of_a_topic_that_is_compacted_elsewhere_is_not_known_to_be_damage(tmp_path, name, batches):
    partition(directory(tmp_path, 1), batches, [(0, 0)], name=name, base=2)
    assert [(one.kind, one.severity.value) for one in findings_of(tmp_path)] == [("gap", "unknown")]


def test_a_gap_is_damage_only_where_the_cleaner_was_not(tmp_path):
    gaps = [*run_of(3), batch(5)]
    partition(directory(tmp_path / "a", 1), gaps, [(0, 0)])
    (finding,) = findings_of(tmp_path / "a")
    assert (finding.kind, finding.from_offset, finding.to_offset) == ("gap", 3, 5)
    partition(directory(tmp_path / "b", 1, cleaner=5), gaps, [(0, 0)])
    assert findings_of(tmp_path / "b") == []


def test_an_old_leader_is_cut_where_the_first_epoch_begins_that_retention_left_the_new_one(tmp_path):
    """LeaderEpochFileCache.endOffsetFor answers for an epoch before all that it has: it had been said to be unknown."""
    partition(directory(tmp_path, 1, hw=25), run_of(25, 3), [(3, 0)])
    partition(directory(tmp_path, 2, hw=30), run_of(10, 5, 20), [(5, 20)], base=20)
    cut, *_ = (f for f in findings_of(tmp_path) if f.kind == "cut")
    assert (cut.broker_id, cut.from_offset, cut.to_offset, cut.severity) == (1, 20, 25, "critical")
    assert kinds(findings_of(tmp_path), "unknown") == ["not_compared"]
    partition(directory(tmp_path / "b", 1), run_of(8, 3), [(3, 0)])
    partition(directory(tmp_path / "b", 2), run_of(10, 5, 20), [(5, 20)], base=20)
    (info,) = findings_of(tmp_path / "b")
    assert (info.broker_id, info.kind, info.from_offset, info.to_offset, info.severity) == (2, "cut", 20, 30, "info")


def test_a_new_leader_without_a_record_cuts_all_that_an_old_one_has(tmp_path):
    """Its disk was wiped, and it was elected uncleanly: the audit had called these two sound."""
    partition(directory(tmp_path, 1, hw=300), run_of(300), [(0, 0)])
    partition(directory(tmp_path, 2, hw=0), [], [(3, 0)])
    cut, _ = findings_of(tmp_path)
    assert (cut.kind, cut.broker_id, cut.from_offset, cut.to_offset) == ("cut", 1, 0, 300)
    assert cut.severity == "critical"
    assert hwmark(tmp_path).exit_code == 3


def test_a_new_replica_without_a_record_cuts_nothing_unless_it_were_elected_uncleanly(tmp_path):
    partition(directory(tmp_path, 1, hw=300), run_of(300), [(0, 0)])
    partition(directory(tmp_path, 2, hw=0), [], [])
    assert [(f.kind, f.severity.value) for f in findings_of(tmp_path)] == [("cut", "info"), ("behind", "info")]


def test_a_leader_that_has_not_written_yet_is_the_newer_one(tmp_path):
    """Its epoch stands at the end of its log: a follower behind could only lead by an unclean election."""
    partition(directory(tmp_path, 1, hw=300), run_of(300), [(0, 0), (4, 300)])
    partition(directory(tmp_path, 2, hw=120), run_of(120), [(0, 0)])
    assert kinds(findings_of(tmp_path), "critical") == []


def test_what_is_cut_without_a_high_watermark_is_not_known_to_be_uncommitted(tmp_path):
    """The broker was killed before the first checkpoint of the topic, or the file was not copied."""
    partition(directory(tmp_path, 1), run_of(7), [(0, 0)])
    partition(directory(tmp_path, 2), run_of(5), [(0, 0)])
    (cut,) = findings_of(tmp_path)
    assert (cut.kind, cut.severity.value) == ("cut", "unknown")
    assert "(2 offsets; it is not known how many of them were committed)" in cut.detail
    assert hwmark(tmp_path).exit_code == 4
    assert kinds(findings_of(tmp_path, live=True), "unknown") == []


def test_a_replica_in_the_checkpoint_without_a_directory_is_missing(tmp_path):
    """fsck moved it to lost+found, or somebody removed it: a start makes it anew, empty."""
    for broker in (1, 2):
        one = directory(tmp_path, broker)
        offsets(one, "replication-offset-checkpoint", t=3, u=300, v=9)
        for name in ("t-0", *(("u-0",) if broker == 2 else ())):
            partition(one, run_of(3), [(0, 0)], name=name)
    partition(tmp_path / "broker-1", [], name=f"v-0.{'0' * 32}-delete")
    partition(tmp_path / "broker-2", [], name=f"v-0.{'0' * 32}-future")
    done = hwmark(tmp_path)
    assert (done.exit_code, done.stdout.count("no directory given has it any more")) == (3, 1)
    assert "u-0 with high watermark 300: in replication-offset-checkpoint, and no directory given" in done.stdout
    assert "missing" not in hwmark(tmp_path, "--topic", "t").stdout
    assert "missing" in hwmark(tmp_path, "--topic", "u", "--partition", "0").stdout


def test_two_unclean_elections_in_a_row_are_followed_through_the_epochs(tmp_path):
    """Broker 1 wrote 0..299 in epoch 0, broker 2 from 120 in epoch 3, broker 1 again from 300 in epoch 6."""
    partition(directory(tmp_path, 1), [*run_of(300), *run_of(10, 6, 300)], [(0, 0), (6, 300)])
    partition(directory(tmp_path, 2), [*run_of(120), *run_of(30, 3, 120)], [(0, 0), (3, 120)])
    by_broker = {f.broker_id: f for f in findings_of(tmp_path) if f.kind == "cut"}
    assert (by_broker[2].from_offset, by_broker[2].to_offset, by_broker[2].severity) == (120, 150, "critical")
    assert (by_broker[1].from_offset, by_broker[1].severity) == (120, "info")


# proofs.md 5.8
def sequence(*numbers, **more):
    return [batch(k, pid=7, pepoch=0, sequence=number, **more) for k, number in enumerate(numbers)]


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        (sequence(5, 6, 7), []),  # any sequence at first use
        (sequence(0, 1, 1, 2), ["duplicate"]),
        (sequence(0, 1, 3), ["sequence"]),
        (
            sequence(7, 8, 0, 1, 2),
            [],
        ),  # below the first: the broker had forgotten it (before KIP-360 no epoch is bumped)
        (sequence(7, 8, 0, 1, 1), ["duplicate"]),
        (sequence((1 << 31) - 2, (1 << 31) - 1, 0, (1 << 31) - 1), ["duplicate"]),
        (sequence((1 << 31) - 1, 0, 1), []),  # the wrap
        ([*sequence(0, 1), batch(2, pid=7, pepoch=1, sequence=0)], []),  # a bumped epoch (KIP-360)
        ([*sequence(0), batch(1, pid=7, pepoch=0, sequence=9, ts=TS + 90_000_000)], []),  # the broker had forgotten it
        ([*sequence(0), batch(1, pid=7, pepoch=0, sequence=9, ts=TS - 90_000_000)], []),  # times are the client's
        ([batch(0, pid=7, pepoch=0, sequence=0), marker(1, 7), batch(2, pid=7, pepoch=0, sequence=1)], []),
        ([batch(0, 3, pid=7, pepoch=0, sequence=0), batch(3, 2, pid=7, pepoch=0, sequence=3)], []),
    ],
)
def test_sequences_are_judged_within_one_producer_epoch_only(tmp_path, batches, found):
    partition(directory(tmp_path, 1), batches, [(0, 0)])
    assert kinds(findings_of(tmp_path)) == found


def test_a_log_with_nothing_but_a_marker_of_a_transaction_is_read(tmp_path):
    """Retention leaves such a log; it had ended the audit with an IndexError."""
    partition(directory(tmp_path, 1), [marker(9, 7)], [(0, 9)], base=9)
    assert findings_of(tmp_path) == []
    assert [log.producers.committed for log in logs(tmp_path)] == [1]


def test_many_duplicates_take_no_longer_than_other_batches(tmp_path):
    """Each of them had the whole block looked through once more: hours for one segment."""
    partition(directory(tmp_path, 1), sequence(*([0] * 20_000)), [(0, 0)])
    began = time.process_time()
    duplicates = [one for log in logs(tmp_path) for one in log.producers.duplicates]
    assert len(duplicates) == 19_999
    assert time.process_time() - began < 5


def test_below_the_cleaner_sequences_say_nothing(tmp_path):
    partition(directory(tmp_path, 1, cleaner=3), sequence(0, 1, 5), [(0, 0)])
    assert findings_of(tmp_path) == []


def test_below_the_start_of_the_log_sequences_say_nothing(tmp_path):
    """proofs.md 5.8: up to 2.4 a producer whose records were deleted begins at 0 again, in the same epoch."""
    partition(directory(tmp_path, 1, start=3), sequence(0, 1, 2, 0, 1), [(0, 0)])
    assert findings_of(tmp_path) == []
    offsets(tmp_path / "broker-1", "log-start-offset-checkpoint", t=1000)
    assert kinds(findings_of(tmp_path)) == ["duplicate", "duplicate"], "the start of a deleted topic of that name"


def old_message(offset, value=b"v", magic=1, attributes=0):
    """A message of before 0.11 (v0: without a timestamp)."""
    rest = struct.pack(">bb", magic, attributes) + (struct.pack(">q", TS) if magic else b"")
    rest += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(rest) + 4, zlib.crc32(rest)) + rest


def test_messages_of_before_0_11_are_no_damage(tmp_path):
    """They have no leader epoch, the last may be shorter than a header of today, a compressed one wraps several."""
    old = [old_message(0, magic=0), old_message(1), old_message(9, attributes=1), old_message(10)]
    partition(directory(tmp_path / "a", 1), old, [])
    partition(directory(tmp_path / "a", 2), [*old, batch(11, epoch=3)], [(3, 11)])
    assert kinds(findings_of(tmp_path / "a"), "critical") == []
    assert [log.end for log in logs(tmp_path / "a")] == [11, 12]
    damaged = bytearray(old[1])
    damaged[-1] ^= 1
    partition(directory(tmp_path / "b", 1), [old[0], bytes(damaged), *old[2:]], [])
    assert kinds(findings_of(tmp_path / "b"), "critical") == ["damaged"]


def test_a_damaged_base_offset_costs_no_batch_behind_it(tmp_path):
    """It is in no checksum: one that is too large made all that follow look out of order."""
    for k, flipped in enumerate((1 << 20, 1 << 33, 1 << 62)):
        content = run_of(6)
        content[2] = struct.pack(">q", 2 ^ flipped) + content[2][8:]
        partition(directory(tmp_path / str(k), 1), content, [(0, 0)])
        (log,) = logs(tmp_path / str(k))
        assert (log.end, log.keys["base"].tolist()) == (6, [0, 1, 3, 4, 5])
        assert [(one.kind, one.detail.split(": ")[0][-5:]) for one in log.findings] == [
            ("damaged", f"e {2 * len(batch(0))}")
        ]


def test_where_either_of_two_batches_may_be_damaged_both_are_named_and_the_rest_is_read(tmp_path):
    """Compacted: 2..9 may be gone, or the batch at 10 be damaged."""
    partition(directory(tmp_path, 1, cleaner=20), [batch(0), batch(10), batch(5), batch(11), batch(12)], [(0, 0)])
    (log,) = logs(tmp_path)
    assert (log.end, log.keys["base"].tolist()) == (13, [0, 11, 12])
    assert kinds(log.findings) == ["damaged", "damaged"]


def test_a_damaged_epoch_of_a_batch_is_named_and_no_lineage_comes_from_it(tmp_path):
    """A leader's epoch is in no checksum, either."""
    for k, epoch in enumerate((1 << 30, 1)):
        content = [batch(n, epoch=5) for n in range(6)]
        content[2] = batch(2, epoch=epoch)
        for broker, batches, epochs in ((1, content, [(5, 0)]), (2, [batch(n, epoch=5) for n in range(6)], [(5, 0)])):
            partition(directory(tmp_path / str(k), broker), batches, epochs)
        found = findings_of(tmp_path / str(k))
        assert {one.kind for one in found if one.severity == "critical"} == {"epochs", "checksums_differ"}
        assert {log.lineage.epochs for log in logs(tmp_path / str(k))} == {(5,)}


def test_logs_of_two_topics_of_one_name_cut_nothing_of_each_other(tmp_path):
    for broker, topic_id, count in ((1, "A" * 22, 9), (2, "B" * 22, 3)):
        content = [batch(k, epoch=broker, ts=TS + broker) for k in range(count)]
        partition(directory(tmp_path, broker, hw=count), content, [(broker, 0)], topic_id=topic_id)
    assert kinds(findings_of(tmp_path)) == ["topic_ids"]


def test_a_log_start_above_the_end_is_that_of_a_deleted_topic(tmp_path):
    """Nothing was compared from there on, and the directories called sound."""
    partition(directory(tmp_path, 1, start=1000), run_of(5), [(0, 0)])
    partition(directory(tmp_path, 2), [*run_of(3), batch(3, ts=TS + 1), batch(4)], [(0, 0)])
    assert kinds(findings_of(tmp_path), "critical") == ["checksums_differ"]


def test_a_log_that_cannot_be_read_to_its_end_has_none_that_is_told(tmp_path):
    at = partition(directory(tmp_path, 1), run_of(3), [(0, 0)])
    assert log_end(at) == 3
    size = len(batch(0))
    (at / f"{0:020d}.index").write_bytes(struct.pack(">ii", 2, size + 4))
    assert log_end(at) == 3, "the index has no batch there"
    content = run_of(3)
    content[1] = content[1][:8] + b"\0\0\0\1" + content[1][12:]
    partition(tmp_path / "broker-1", content, [(0, 0)])
    assert log_end(at) is None


def test_hostile_directories_are_told_in_a_line_each(tmp_path):
    one = directory(tmp_path / "a", 1, hw=3)
    partition(one, run_of(3), [(0, 0)])
    outside = partition(directory(tmp_path / "outside", 9), run_of(3), [(0, 0)])
    (one / "stolen-0").symlink_to(outside)
    (one / "u-0").mkdir()
    (one / "u-0" / f"{0:020d}.log").symlink_to(outside / f"{0:020d}.log")
    os.mkfifo(one / "recovery-point-offset-checkpoint")
    offsets(one, "cleaner-offset-checkpoint", t=1)
    (one / "cleaner-offset-checkpoint").write_bytes(b"\xff" * 100)
    (only,) = find_log_directories([tmp_path / "a"])
    told = "\n".join(map(str, only.problems))
    assert "stolen-0: a symbolic link, not followed" in told
    assert "recovery-point-offset-checkpoint: not a regular file" in told
    assert "cleaner-offset-checkpoint: byte 0" in told
    unknown = [finding for finding in findings_of(tmp_path / "a") if finding.severity == "unknown"]
    assert [(finding.topic, finding.kind) for finding in unknown] == [("u", "unreadable")]
    assert hwmark(tmp_path / "a").exit_code == 4


@pytest.mark.parametrize(
    "name",
    ["leader-epoch-checkpoint", "partition.metadata", f"{0:020d}.index", f"{0:020d}.log", "../meta.properties",
     *(f"../{name}-offset-checkpoint" for name in ("replication", "recovery-point", "log-start", "cleaner"))],
)  # fmt: skip
def test_a_flipped_bit_in_any_file_of_a_replica_is_told_or_changes_no_offset(tmp_path, name):
    """No crash, no hang, no more memory: of every byte of each file the highest and the lowest bit."""
    one = directory(tmp_path, 1, hw=3, recovery=2, start=0, cleaner=1)
    at = partition(one, run_of(4), [(0, 0)], topic_id="A" * 22)
    entries = b"".join(struct.pack(">ii", k, k * len(batch(0))) for k in (1, 2))
    (at / f"{0:020d}.index").write_bytes(entries)
    (sound,) = logs(tmp_path)
    assert sound.findings == []
    content = (at / name).read_bytes()
    for k in range(len(content)):
        for bit in (0, 7):
            flipped = content[:k] + bytes([content[k] ^ 1 << bit]) + content[k + 1 :]
            (at / name).write_bytes(flipped)
            try:
                (log,) = logs(tmp_path)
            except UsageError:
                continue
            told = log.findings or log.directory.problems or log.topic_id != sound.topic_id
            assert told or (log.start, log.end, log.lineage) == (sound.start, sound.end, sound.lineage)


@pytest.mark.parametrize("number", [1 << 31, 1 << 62, -1, "x" * 5000, ""])
def test_numbers_that_cannot_be_are_a_line(tmp_path, number):
    one = directory(tmp_path, 1)
    at = partition(one, run_of(2), [(0, 0)])
    (at / "leader-epoch-checkpoint").write_text(f"0\n1\n{number} 0\n")
    (one / "replication-offset-checkpoint").write_text(f"0\n{number}\nt 0 {number}\n")
    (one / "meta.properties").write_text(f"node.id={number}\n")
    (one / f"t-{number}"[:200]).mkdir(exist_ok=True)
    found = findings_of(tmp_path)
    assert all(len(finding.detail) < 500 and "\n" not in finding.detail for finding in found)
    (directory_read,) = find_log_directories([tmp_path])
    assert directory_read.problems


def test_a_directory_without_meta_properties_is_of_a_broker_that_is_not_known(tmp_path):
    one = directory(tmp_path, 1)
    partition(one, run_of(3), [(0, 0)])
    (one / "meta.properties").unlink()
    (found,) = find_log_directories([tmp_path])
    assert (found.broker_id, len(found.problems)) == (None, 1)


def partitioner_of(tmp_path, version, topic):
    data = recorded(tmp_path, f"unclean_election_{version}") / "data"
    told = [words(log.key_counts, log.partitions) for log in logs(data, chosen=(topic, None), deep=True)]
    return {text and text.split(":")[0] for text in told}


def test_the_partitioner_is_told_by_the_keys(tmp_path):
    """librdkafka wrote clicks with partitioner murmur2; orders has one partition, where keys say nothing."""
    assert partitioner_of(tmp_path, "4.1", "clicks") == {"by key (murmur2, Java's default)"}
    assert partitioner_of(tmp_path, "4.4", "orders") == {None}


def test_nothing_is_said_of_keys_where_a_partition_of_the_topic_is_missing(tmp_path):
    """How many partitions there are is not known then: by another number every topic would not be by key."""
    one = directory(tmp_path, 1)
    for number in (0, 2):
        partition(one, [batch(0, 20)], [(0, 0)], name=f"t-{number}")
    assert {words(log.key_counts, log.partitions) for log in logs(tmp_path, deep=True)} == {None}


def test_a_topic_that_is_not_partitioned_by_key_is_said_to_be_none(tmp_path):
    one = directory(tmp_path, 1)
    for number in range(2):
        partition(one, [batch(0, 20)], [(0, 0)], name=f"t-{number}")
    told = {words(log.key_counts, log.partitions) for log in logs(tmp_path, deep=True)}
    assert all(text.startswith("not by key: ") for text in told)
    one = directory(tmp_path / "crc", 1)
    for number in range(2):
        here = [k for k in range(20) if zlib.crc32(b"k%d" % k) % 2 == number]
        payload = b"".join(record(n, b"k%d" % k) for n, k in enumerate(here))
        partition(one, [batch(0, len(here), payload=payload)], [(0, 0)], name=f"t-{number}")
    told = {words(log.key_counts, log.partitions) for log in logs(tmp_path / "crc", deep=True)}
    assert {text.split(":")[0] for text in told} == {"by key (CRC32, librdkafka's default)"}


@pytest.mark.parametrize("payload", [b"", record(0)[:-1], record(0) + b"\0", b"\xff" * 12, b"\x02\0"])
def test_records_that_are_not_what_their_batch_says_are_found_deep_only(tmp_path, payload):
    partition(directory(tmp_path, 1), [batch(0, 1, payload=payload)], [(0, 0)])
    assert findings_of(tmp_path) == []
    assert kinds(findings_of(tmp_path, deep=True), "critical") == ["damaged"]


def test_damage_in_every_batch_is_a_few_lines(tmp_path):
    partition(directory(tmp_path, 1), [batch(k, payload=b"") for k in range(1000)], [(0, 0)])
    found = findings_of(tmp_path, deep=True)
    assert (len(found), "and 999 more batches near it" in found[0].detail) == (3, True)


def test_every_codec_is_read_deep(tmp_path):
    data = recorded(tmp_path, "unclean_election_4.4") / "data"
    findings = findings_of(data, chosen=("packed", 0), deep=True)
    assert kinds(findings, "critical") == []
