"""The KRaft metadata log of one cluster, out of the copies that several nodes have, and how much of it is committed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from generators.disks.batches import (
    CONTROL,
    FAULTS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    TORN,
    WHOLE,
    ZEROS,
    Array,
)
from generators.disks.directories import METADATA_LOG, LogDirectory
from generators.disks.files import Unreadable, read_whole
from generators.disks.lineage import Lineage, batch_epochs, lineage, parts_at
from generators.disks.quorum import QuorumEnd
from generators.disks.records import Damaged, Record, records
from generators.disks.segments import Segment, WalkEnd, blocks, segments
from generators.disks.voters import Voters, named_voters, with_directories

FEW_VOTERS = 4
"""The most voters with which no leader can lack a record that each of them had at some time."""
LATER_EPOCH = 1 << 31
"""The epoch of a node if it is not known: none of its records counts as received in its own epoch."""
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Snapshot(NamedTuple):
    """A complete snapshot of the state up to `end`; `epoch` is that of its last record."""

    path: Path
    end: int
    epoch: int
    voters: Voters


@dataclass
class NodeLog:
    """One node's copy: its segments, epochs, snapshots, and what its quorum-state says."""

    directory: LogDirectory
    files: list[Segment] = field(default_factory=list)
    parts: dict[Path, SegmentPart] = field(default_factory=dict)
    lineage: Lineage = field(default_factory=lambda: Lineage((), (), 0))
    snapshots: list[Snapshot] = field(default_factory=list)
    quorum_epoch: int = -1
    voters: Voters = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_whole: bool = False
    """Whether all segments were read to their ends."""

    @property
    def start(self) -> int:
        return self.files[0].base if self.files else 0


class BatchContent(NamedTuple):
    """One batch with its bytes."""

    batch: np.void
    content: bytes

    @property
    def is_control(self) -> bool:
        return bool(self.batch["attributes"] & CONTROL)

    def records(self) -> list[Record]:
        """Its records. Raises Damaged."""
        return list(records(self.batch, self.content))


@dataclass
class SegmentPart:
    """A segment of the metadata log as far as it was walked: its last batch, and the epochs and voters up to there.

    `begun`: position and base offset of the batch from which the last walk went on. `is_torn`: a part of
    a batch follows.
    """

    last: np.void | None = None
    begun: tuple[int, int] = 0, 0
    epochs: list[Array] = field(default_factory=list)
    voters: Voters = field(default_factory=dict)
    is_torn: bool = False

    def walk(self, segment: Segment, *, newest: bool) -> str:
        """Go on from the last batch if it is still there: logs with an equal offset and epoch are equal up to it.

        Returns why the walk ended before the segment, an empty text if it did not. The newest segment may end in a
        batch that is not whole.
        """
        self.begun = (0, segment.base) if self.last is None else (int(self.last["position"]), int(self.last["base"]))
        start, walk_end, first, damage = self.begun[0], WalkEnd(), True, ""
        for block, data in blocks(segment, walk_end, start):
            faults = np.flatnonzero(block["fault"] != WHOLE)
            whole = block[: faults[0]] if len(faults) else block
            if first and self.last is not None and not (len(whole) and whole[0] == self.last):
                break
            if len(whole):
                known = -1 if self.last is None else self.last["epoch"]
                changes = whole["epoch"] != np.append(known, whole["epoch"][:-1])
                self.epochs += [whole[["epoch", "base"]][changes]] if changes.any() else []
                self.last = whole[-1].copy()
            for one in batches(whole[whole["control"] >= LEADER_CHANGE], data, block):
                self.voters = named_voters(one.records(), self.voters)
            first = False
            if len(faults):
                position, fault = block[["position", "fault"]][faults[0]].tolist()
                damage = f"at byte {position:,}: {FAULTS[fault]}"
                break
        if first and self.last is not None:  # cut, and written anew
            self.last, self.epochs, self.voters = None, [], {}
            return self.walk(segment, newest=newest)
        self.is_torn = walk_end.reason == TORN
        if walk_end.reason not in ((WHOLE, TORN, ZEROS) if newest else (WHOLE,)):
            return f"from byte {walk_end.position:,} on {walk_end.words}"
        return damage


Walked = dict[Path, SegmentPart]
"""Segments by path, from look to look: what was walked once is not walked again."""


def node_logs(directories: Sequence[LogDirectory], walked: Walked | None = None) -> list[NodeLog]:
    """The copies of the metadata log in these directories; what cannot be read of one is among its problems."""
    walked = {} if walked is None else walked
    return [_read_node(one, walked) for one in directories if one.replica(METADATA_LOG) is not None]


def _read_node(directory: LogDirectory, walked: Walked) -> NodeLog:
    node, replica = NodeLog(directory), directory.replica(METADATA_LOG)
    assert replica is not None
    epochs: list[Array] = []
    end = 0
    try:
        node.files = segments(replica.path)
        end = node.start
        for segment in node.files:
            part = node.parts[segment.path] = walked.setdefault(segment.path, SegmentPart())
            damage = part.walk(segment, newest=segment is node.files[-1])
            epochs += part.epochs
            node.voters = with_directories(part.voters, node.voters) or node.voters
            end = end if part.last is None else int(part.last["last"]) + 1
            if damage:
                node.problems.append(f"{directory.name}: {segment.path}: {damage}; its copy is read up to there")
                break
        node.is_whole = not node.problems
        node.snapshots = sorted(_snapshots(replica.path, walked), key=lambda one: one.end)
        told = next((one.voters for one in node.snapshots[::-1] if one.voters), {})
        node.voters = with_directories(node.voters, told) or told
        state = json.loads(read_whole(replica.path / "quorum-state")[0])
        node.quorum_epoch = int(state["leaderEpoch"])
    except (Unreadable, OSError, Damaged, ValueError, KeyError, TypeError) as error:
        node.problems.append(f"{directory.name}: {error}")
    begins = np.concatenate(epochs) if epochs else np.zeros(0, [("epoch", "i4"), ("base", "i8")])
    node.lineage = lineage(batch_epochs(begins["epoch"], begins["base"]), end)
    # quorum-state may be copied before the log. A leader's first batch lies behind the records of earlier epochs that
    # it gives a follower, in one append: a log shows in which epoch it got them, unless the copy ends within that.
    node.quorum_epoch = max(node.quorum_epoch, *node.lineage.epochs[-1:], -1)
    if any(part.is_torn for part in node.parts.values()):
        node.quorum_epoch = LATER_EPOCH
    return node


def batches(chosen: Array, data: bytes, block: Array) -> Iterator[BatchContent]:
    """Batches out of the bytes of the block that they are of."""
    first = int(block["position"][0])
    for batch in chosen:
        at = int(batch["position"]) - first
        yield BatchContent(batch, data[at : at + int(batch["size"])])


def _snapshots(folder: Path, walked: Walked) -> Iterator[Snapshot]:
    """Snapshots that end in their footer: one that is still written is named `.part`, and a torn one has none."""
    for path in folder.iterdir():
        if match := _SNAPSHOT.fullmatch(path.name):
            walk_end, last, part = WalkEnd(), None, SegmentPart()
            for block, data in blocks(Segment(path, 0), walk_end) if path not in walked else ():
                last = None if (block["fault"] != WHOLE).any() else block[-1]
                if last is None:
                    break
                for one in batches(block[block["control"] >= LEADER_CHANGE], data, block):
                    part.voters = named_voters(one.records(), part.voters)
            if last is not None and walk_end.reason == WHOLE and last["control"] == SNAPSHOT_FOOTER:
                walked[path] = part
            if path in walked:  # a complete one is written once, and renamed
                yield Snapshot(path, int(match[1]), int(match[2]), walked[path].voters)


def longest(nodes: Sequence[NodeLog]) -> NodeLog:
    """The longest of the copies with the newest epoch; the others will follow it."""
    return max(nodes, key=lambda node: (node.lineage.epochs[-1:], node.lineage.end))


def agreed_end(node: NodeLog, chosen: NodeLog) -> int:
    """The offset up to which a copy is the same as `chosen`, 0 if that is not known."""
    return (parts_at(node.lineage, chosen.lineage) or 0) if node.lineage.epochs else 0


def committed_end(nodes: Sequence[NodeLog], quorum: QuorumEnd | None = None) -> int:
    """The offset below which the quorum is known to have committed `longest(nodes)` (proofs 5.1); 0 if nothing is.

    Copies may be of different times. A record is committed if

    - a complete snapshot of the same lineage holds it; or
    - the `quorum` says so, and a copy has a record of the epoch of the leader that told it; or
    - a majority of the voters has it while in its epoch or the next one. In a later epoch their number says nothing: a
      leader of an epoch between may lack it, and replace it yet (Figure 8 of Raft); or
    - the copies of all voters are given and in one epoch, a majority has it, and none has a record of a later epoch; or
    - all voters have it, and are in one epoch or four at most. To replace it takes two voters that had it before,
      besides a majority that had not.
    """
    chosen = longest(nodes)
    bound = max((snap.end for node in nodes for snap in node.snapshots if _has(chosen.lineage, snap)), default=0)
    if quorum and (known := chosen.lineage.end_of(quorum.epoch)) and known[0] == quorum.epoch:
        bound = max(bound, min(quorum.high_watermark, known[1]))
    voters = chosen.voters
    present = {node.directory.broker_id: node for node in nodes if _votes(node.directory, voters)}
    epochs = {node.quorum_epoch for node in present.values()}
    in_one_epoch = len(epochs) == 1 and LATER_EPOCH not in epochs
    given = in_one_epoch and len(present) == len(voters) and all(node.is_whole for node in present.values())
    if voters and len(present) == len(voters) and (in_one_epoch or len(voters) <= FEW_VOTERS):
        bound = max(bound, min(agreed_end(node, chosen) for node in present.values()))
    for epoch, start in zip(chosen.lineage.epochs, chosen.lineage.starts, strict=True):
        newest = given and max(node.lineage.epochs[-1:] for node in nodes) == (epoch,)
        ends = [agreed_end(node, chosen) for node in present.values() if node.quorum_epoch <= epoch + 1 or newest]
        if len(ends) > len(voters) // 2:
            end = min(sorted(ends)[-(len(voters) // 2 + 1)], (chosen.lineage.end_of(epoch) or (epoch, 0))[1])
            bound = max(bound, end if end > start else 0)
    return bound


def _votes(directory: LogDirectory, voters: Voters) -> bool:
    """Whether a copy is a voter's: of its node, and of its directory if the quorum names that."""
    node = directory.broker_id
    return node is not None and node in voters and voters[node] in (None, directory.directory_id)


def _has(chosen: Lineage, snapshot: Snapshot) -> bool:
    found = chosen.end_of(snapshot.epoch)
    return found is not None and found[0] == snapshot.epoch and found[1] >= snapshot.end


class Piece(NamedTuple):
    """Offsets [start, end) of the log, read from one node's copy; `lost`: offsets before `start` that no copy has."""

    node: NodeLog
    start: int
    end: int
    lost: int = 0


def pieces(nodes: Sequence[NodeLog]) -> list[Piece]:
    """The parts of the log, from the oldest offset that any node has, each from a copy that has it (5.2)."""
    chosen = longest(nodes)
    ends = [(node, agreed_end(node, chosen) if node is not chosen else chosen.lineage.end) for node in nodes]
    parts: list[Piece] = []
    at = min((node.start for node, end in ends if end > node.start), default=0)
    while at < chosen.lineage.end:
        here = [(end, node) for node, end in ends if node.start <= at < end]
        if here:
            end, node = max(here, key=lambda one: one[0])
            parts.append(Piece(node, at, end))
            at = end
        else:
            following = min(node.start for node, end in ends if node.start > at and end > node.start)
            node = next(node for node, _ in ends if node.start == following)
            parts.append(Piece(node, following, following, following - at))
            at = following
    return parts


def read_piece(piece: Piece) -> Iterator[BatchContent]:
    """The batches of a piece. Raises Unreadable."""
    files = piece.node.files
    for segment, following in zip(files, [*files[1:], None], strict=True):
        if following is not None and following.base <= piece.start:
            continue
        if segment.base >= piece.end:
            break
        position, offset = piece.node.parts[segment.path].begun
        for block, data in blocks(segment, WalkEnd(), position if offset <= piece.start else 0):
            inside = (block["base"] >= piece.start) & (block["last"] < piece.end) & (block["fault"] == WHOLE)
            yield from batches(block[inside], data, block)


def read_snapshot(snapshot: Snapshot) -> Iterator[BatchContent]:
    """The batches of a snapshot. Raises Unreadable."""
    for block, data in blocks(Segment(snapshot.path, 0), WalkEnd()):
        yield from batches(block, data, block)
