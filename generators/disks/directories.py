"""Log directories of brokers: which broker each is of, its checkpoints, and the partitions that lie in it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from generators.disks.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    OFFSET_FILES,
    TOPIC,
    Offsets,
    Place,
    read_leader_epochs,
    read_offsets,
    read_properties,
)
from generators.disks.files import Unreadable, is_there
from pipelines.errors import UsageError
from pipelines.printable import printable

DEEPEST = 4
"""Levels of folders below a named one that are searched for log directories."""
METADATA_LOG: Place = ("__cluster_metadata", 0)
_PARTITION = re.compile(rf"({TOPIC.pattern})-(\d{{1,9}})(?:\.[0-9a-f]{{32}}-(delete|future|stray))?")


@dataclass
class PartitionDirectory:
    """One partition in one log directory; `kind` is delete or stray if it is no longer the broker's replica, and future
    if it is not yet."""

    folder: str
    place: Place
    kind: str | None = None

    @property
    def path(self) -> Path:
        """Its directory; of a million partitions the paths would take a third of the memory."""
        return Path(self.folder)

    @property
    def is_replica(self) -> bool:
        """Whether it is a replica of the broker, and of a topic that clients may see."""
        return self.kind is None and self.place != METADATA_LOG

    @cached_property
    def topic_id(self) -> str | None:
        """The topic id in partition.metadata, None where there is none. Raises Unreadable."""
        path = self.path / "partition.metadata"
        return read_properties(path).get("topic_id") if is_there(path) else None

    @cached_property
    def made(self) -> float:
        """The time of writing partition.metadata, which is never rewritten (epoch seconds); 0 without it."""
        return _written(f"{self.folder}/partition.metadata")

    @cached_property
    def epochs_written(self) -> float:
        """The time of writing leader-epoch-checkpoint (epoch seconds); 0 without it."""
        return _written(f"{self.folder}/{LEADER_EPOCHS}")

    def leader_epochs(self) -> list[tuple[int, int]]:
        """Entries (epoch, start offset) of its leader-epoch-checkpoint; none without the file. Raises Unreadable."""
        path = self.path / LEADER_EPOCHS
        return read_leader_epochs(path) if is_there(path) else []


@dataclass
class LogDirectory:
    """One `log.dirs` directory; `problems` are the files of it that cannot be read."""

    path: Path
    broker_id: int | None = None
    directory_id: str | None = None
    cluster_id: str | None = None
    clean: bool = False
    offsets: dict[str, Offsets] = field(default_factory=dict)
    partitions: list[PartitionDirectory] = field(default_factory=list)
    problems: list[Unreadable] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the directory's broker; the directory's path if the broker is not known."""
        return f"broker {self.broker_id}" if self.broker_id is not None else printable(str(self.path))

    def offsets_in(self, file: str) -> dict[Place, int]:
        """The offsets in a checkpoint file, none without it."""
        checkpoint = self.offsets.get(file)
        return checkpoint.by_place if checkpoint else {}

    def offset(self, file: str, place: Place) -> int | None:
        """A partition's offset in a checkpoint file."""
        return self.offsets_in(file).get(place)

    @property
    def offsets_written(self) -> float:
        """The time of writing the checkpoint of high watermarks (epoch seconds); 0 without it."""
        checkpoint = self.offsets.get(HIGH_WATERMARKS)
        return checkpoint.written if checkpoint else 0.0

    def high_watermark(self, partition: PartitionDirectory) -> int | None:
        """This replica's high watermark by the checkpoint (5.4)."""
        return self.offset_of_replica(HIGH_WATERMARKS, partition)

    def offset_of_replica(self, file: str, partition: PartitionDirectory) -> int | None:
        """A replica's offset in a checkpoint file; None if the file is older than the partition.

        Entries are keyed by name: the entry of a deleted and recreated topic stays until the first write.
        """
        checkpoint = self.offsets.get(file)
        told = checkpoint.by_place.get(partition.place) if checkpoint and partition.kind is None else None
        return None if told is None or checkpoint is None or partition.made > checkpoint.written else told

    def replica(self, place: Place) -> PartitionDirectory | None:
        """The broker's own replica of a partition."""
        return next((one for one in self.partitions if one.place == place and one.kind is None), None)


def find_log_directories(paths: Sequence[Path]) -> list[LogDirectory]:
    """All log directories at or below `paths`, by broker. Raises UsageError for a path without any."""
    found: list[LogDirectory] = []
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"{path} is no directory: name a log directory of a broker, or a folder of several")
        below = [read_log_directory(folder) for folder in _log_folders(path, DEEPEST)]
        if not below:
            raise UsageError(
                f"{path} has no log directory of a broker: name one of `log.dirs`, or a folder of copies (it has "
                "meta.properties, and folders such as orders-0)"
            )
        found += below
    found = list({os.stat(one.path)[1:3]: one for one in found}.values())  # a folder, and one in it: each once
    require_one_cluster(found)
    return sorted(found, key=lambda one: (one.broker_id is None, one.broker_id, str(one.path)))


def require_one_cluster(directories: Sequence[LogDirectory]) -> None:
    """Raise UsageError if directories are of different clusters: their epochs and offsets cannot be compared."""
    by_cluster = {one.cluster_id: one.path for one in directories if one.cluster_id}
    if len(by_cluster) > 1:
        (cluster, path), (other, another) = sorted(by_cluster.items(), key=lambda one: one[1])[:2]
        raise UsageError(f"{path} is of cluster {cluster}, {another} of {other}: name directories of one cluster")


def read_log_directory(path: Path) -> LogDirectory:
    """A log directory with what its own files say; what cannot be read is among its problems."""
    directory = LogDirectory(path, clean=os.path.lexists(path / CLEAN_SHUTDOWN))
    try:
        properties = read_properties(path / "meta.properties")
        number = properties.get("node.id", properties.get("broker.id", ""))
        if not number.isdecimal() or len(number) > 9:
            raise Unreadable(path / "meta.properties", f"node.id is {number[:20]!r}: no broker is known by it")
        directory.broker_id, directory.directory_id = int(number), properties.get("directory.id")
        directory.cluster_id = properties.get("cluster.id")
    except Unreadable as error:
        directory.problems.append(error)
    for name in OFFSET_FILES:
        try:
            directory.offsets |= {name: read_offsets(path / name)} if is_there(path / name) else {}
        except Unreadable as error:
            directory.problems.append(error)
    for entry in _entries(path):
        if match := _PARTITION.fullmatch(entry.name):
            if entry.is_symlink():
                directory.problems.append(Unreadable(Path(entry.path), "a symbolic link, not followed"))
            elif entry.is_dir(follow_symlinks=False):
                place = sys.intern(match[1]), int(match[2])
                directory.partitions.append(PartitionDirectory(entry.path, place, match[3]))
    directory.partitions.sort(key=lambda one: (one.place, one.folder))
    return directory


def _written(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _log_folders(path: Path, depth: int) -> Iterator[Path]:
    entries = _entries(path)
    partitions = [entry.path for entry in entries if _PARTITION.fullmatch(entry.name)]
    with_epochs = any(os.path.lexists(f"{partition}/{LEADER_EPOCHS}") for partition in partitions)
    if with_epochs or any(entry.name == "meta.properties" for entry in entries):
        yield path
    elif depth:
        for entry in sorted(entries, key=lambda one: one.name):
            # lost+found is the file system's: only root may read it.
            if entry.is_dir(follow_symlinks=False) and entry.name != "lost+found":
                yield from _log_folders(Path(entry.path), depth - 1)


def _entries(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        raise Unreadable(path, error.strerror or str(error)) from None
