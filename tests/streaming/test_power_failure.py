"""The power fails at any moment of a batch: no table is left unreadable, and the batch that is played again is whole.

What was not synced is lost in one of three ways: a file is empty, holds zeros, or has no name.
"""

import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.lake import durable_log
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.manifest import Manifests, resume
from pipelines.streaming.tables import HEALTH, TABLES, create_tables
from schemas import replication_events
from tests.streaming.events import START
from tests.streaming.test_sink import HEALTHY, HW, ISR, MINUTE, contents, writer, written

EVENT = {"cluster": "main", "source_id": "broker-1/server.log", "source_epoch": 0, "ts": START, "broker_id": 1}
EVENT |= {"event_type": "progress", "partition": -1, "level": 3}


class PowerFailure(Exception):
    pass


class Disk:
    """What a disk keeps of the files below a folder: what is there now, and what is synced, up to the k-th time."""

    def __init__(self, root, monkeypatch):
        self.root, self._sync, self.left = Path(root), os.fsync, None
        self.count, self._files, self._names = 0, set(), {}
        for folder, _, names in os.walk(root):
            self._names[folder] = set(names)
            self._files |= {self._identity(Path(folder, name)) for name in names}
        monkeypatch.setattr(os, "fsync", self.sync)

    def sync(self, descriptor):
        self.count += 1
        if self.left is not None and self.count > self.left:
            raise PowerFailure
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self._names[str(path)] = set(os.listdir(path))
        else:
            self._files.add(self._identity(path))
        self._sync(descriptor)

    def fail(self, how):
        self.left = None
        for folder, _, names in os.walk(self.root):
            for path in (Path(folder, name) for name in names):
                if how == "nameless" and path.name not in self._names.get(folder, ()):
                    path.unlink()
                elif how != "nameless" and self._identity(path) not in self._files:
                    path.write_bytes(b"\0" * path.stat().st_size if how == "zeros" else b"")

    def _identity(self, path):
        stat = path.stat()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns


def batch(lake, number=0):
    out = writer(lake)
    one = written(out, partition_hw=HW, minute_stats=MINUTE, partition_health=HEALTHY)
    two = written(out, partition_hw=HW, isr_changes=ISR, partition_health=HEALTHY)
    out.commit([one, two], number)


def expected(tmp_path):
    lake = Lake(str(tmp_path / "expected"))
    create_tables(lake)
    batch(lake)
    return contents(lake)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["empty", "zeros", "nameless"])
def test_a_batch_outlives_it_at_any_moment(tmp_path, monkeypatch, how):
    whole = expected(tmp_path)
    left, done = ["empty", "zeros", "nameless"].index(how), False
    while not done:
        lake = Lake(str(tmp_path / f"{how}-{left}"))
        create_tables(lake)
        writer(lake)
        with monkeypatch.context() as power:
            disk = Disk(lake.root, power)
            disk.left = left
            with suppress(PowerFailure):
                batch(lake)
                done = True
            disk.fail(how)
        for kind in TABLES:
            lake.create(kind)
        resume(lake, "q")
        create_tables(lake)
        batch(lake)
        assert contents(lake) == whole, left
        left += 5


@pytest.mark.parametrize("how", ["empty", "zeros", "nameless"])
def test_what_ingest_appended_outlives_it(tmp_path, monkeypatch, how):
    for left in (0, 1, 2, 3, 4, 100):
        lake = Lake(str(tmp_path / f"{left}"))
        events = [
            pa.Table.from_pylist([EVENT | {"source_seq": n, "seq": n}], replication_events.ARROW) for n in range(3)
        ]
        append_events(lake.root, events[0], app_id="w", version=0)
        with monkeypatch.context() as power:
            disk = Disk(lake.root, power)
            disk.left = left
            with suppress(PowerFailure):
                append_events(lake.root, events[1], app_id="w", version=1)
            disk.fail(how)
        for version in (1, 2):
            append_events(lake.root, events[version], app_id="w", version=version)
        assert sorted(read_events(lake.root)["source_seq"].to_pylist()) == [0, 1, 2], left


def test_a_record_of_files_that_are_not_whole_takes_those_of_the_batch_played_again(tmp_path):
    """As an earlier version left them, which synced the record alone."""
    lake = Lake(str(tmp_path))
    create_tables(lake)
    out = writer(lake)
    first, again = (written(out, partition_hw=HW, partition_health=HEALTHY) for _ in range(2))
    manifests = Manifests(lake, "q")
    planned = manifests.planned(0)
    manifests.settle(planned.__class__(**{**planned.__dict__, "files": first.files}))
    (damaged,) = [file for file in first.files if file.kind == "partition_hw"]
    os.truncate(f"{lake.uri('partition_hw')}/{damaged.path}", 0)
    out.commit([again], 0)
    assert lake.rows("partition_hw").count_rows() == len(HW)
    assert [file.path for file in manifests.read(0).files if file.kind == HEALTH] == [
        file.path for file in first.files if file.kind == HEALTH
    ]


def test_a_torn_checkpoint_is_set_aside(tmp_path):
    lake = Lake(str(tmp_path))
    create_tables(lake)
    batch(lake)
    durable_log.checkpoint(lake.open("partition_hw"))
    log = Path(lake.uri("partition_hw"), "_delta_log")
    for path in log.glob("*.checkpoint.parquet"):
        os.truncate(path, 0)
    with pytest.raises(Exception, match="heckpoint"):
        lake.open("partition_hw")
    assert lake.create("partition_hw").to_pyarrow_table().num_rows == 2 * len(HW)
    assert lake.rows("partition_hw").count_rows() == 2 * len(HW)


def test_what_a_checkpoint_stands_for_is_removed_once_that_is_synced(tmp_path, monkeypatch):
    from deltalake import DeltaTable

    lake, done = Lake(str(tmp_path)), []
    monkeypatch.setattr(durable_log, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(durable_log, "sync", lambda path: done.append(path.name))
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", lambda table: done.append("cleaned"))
    for _ in range(2):
        lake.append("isr_changes", ISR)
    last = done[done.index("cleaned") - 3 :]
    assert [name.partition(".")[2] or name for name in last] == [
        "checkpoint.parquet",
        "_last_checkpoint",
        "_delta_log",
        "cleaned",
    ]


def test_a_file_of_another_commit_that_is_gone_again_does_not_end_a_commit(tmp_path):
    lake = Lake(str(tmp_path))
    lake.append("isr_changes", ISR)
    opened = lake.open("isr_changes")
    lake.append("isr_changes", ISR)
    (gone,) = {*lake.open("isr_changes").file_uris()} - {*opened.file_uris()}
    Path(gone).unlink()
    with durable_log.durable(opened):
        pass
