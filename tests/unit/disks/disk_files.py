"""Log directories made for a test: batches with their checksums, checkpoints, and the recorded ones of a real Kafka."""

import struct
import tarfile
from pathlib import Path

import numpy as np

from generators.disks.audit import partition_audits
from generators.disks.batches import CONTROL, CRC_TABLES, TRANSACTIONAL, crc32c
from generators.disks.directories import find_log_directories

RECORDED = Path(__file__).parents[2] / "disks" / "recordings"
VERSIONS = ("3.9", "4.1", "4.4")
"""Kafka's versions that were recorded."""
TS = 1_790_000_000_000


def recorded(folder, name="unclean_election_4.1"):
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="tar")
    return folder


def checksum(content):
    return crc32c(0, np.frombuffer(content, np.uint8), 0, len(content), CRC_TABLES)


def varint(value):
    value, out = (value << 1) ^ (value >> 63), b""
    while value > 127:
        value, out = value >> 7, out + bytes([value & 127 | 128])
    return out + bytes([value])


def record(k, key=b"", value=b"v", headers=()):
    body = b"\0" + varint(0) + varint(k)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(len(headers)) + b"".join(varint(len(h)) + h + varint(len(v)) + v for h, v in headers)
    return varint(len(body)) + body


def batch(base, count=1, epoch=0, *, pid=-1, pepoch=-1, sequence=-1, ts=TS, attributes=0, payload=None, left=None):
    """One batch of `count` offsets, of whose records the cleaner has `left` so many."""
    payload = b"".join(record(k, b"k%d" % k) for k in range(count)) if payload is None else payload
    left = count if left is None else left
    rest = struct.pack(">hiqqqhii", attributes, count - 1, ts, ts, pid, pepoch, sequence, left) + payload
    return struct.pack(">qiibI", base, len(rest) + 9, epoch, 2, checksum(rest)) + rest


def marker(base, pid, pepoch=0, commit=True, **more):
    payload = record(0, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return batch(base, pid=pid, pepoch=pepoch, attributes=CONTROL | TRANSACTIONAL, payload=payload, **more)


def offsets(folder, name, **by_place):
    """A checkpoint of partition 0 of each topic."""
    lines = [f"{topic} 0 {offset}\n" for topic, offset in by_place.items()]
    (folder / name).write_text(f"0\n{len(lines)}\n{''.join(lines)}")


def directory(folder, broker, *, clean=True, **checkpoints):
    """A log directory; `checkpoints` has by short name what each checkpoint file says of topic t."""
    folder = folder / f"broker-{broker}"
    folder.mkdir(parents=True)
    (folder / "meta.properties").write_text(f"#\nnode.id={broker}\nversion=1\n")
    if clean:
        (folder / ".kafka_cleanshutdown").write_text('{"version":0}')
    names = {"hw": "replication", "recovery": "recovery-point", "start": "log-start", "cleaner": "cleaner"}
    for short, offset in checkpoints.items():
        offsets(folder, f"{names[short]}-offset-checkpoint", t=offset)
    return folder


def partition(folder, batches, epochs=None, *, base=0, name="t-0", topic_id=None):
    """One segment of a partition; without `epochs` no leader-epoch-checkpoint."""
    at = folder / name
    at.mkdir(exist_ok=True)
    (at / f"{base:020d}.log").write_bytes(b"".join(batches))
    (at / f"{base:020d}.index").touch()
    if epochs is not None:
        lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
        (at / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    if topic_id:
        (at / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    return at


def findings_of(folder, **options):
    """The findings about partitions below a folder."""
    found = partition_audits(find_log_directories([folder]), **options)
    return [finding for one in found for finding in one.findings]


def kinds(findings, severity=None):
    return [finding.kind for finding in findings if severity in (None, finding.severity.value)]


def logs(folder, **options):
    return [log for one in partition_audits(find_log_directories([folder]), **options) for log in one.logs]
