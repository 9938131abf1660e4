"""Epochs of leaders in a replica's log: where two logs part, and how far one is cut when it follows the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from generators.disks.batches import Array


class Lineage(NamedTuple):
    """The epochs of a log, rising, with the offset at which each begins at most, and the end of the log."""

    epochs: tuple[int, ...]
    starts: tuple[int, ...]
    end: int

    def end_of(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to `epoch` and its end offset (LeaderEpochFileCache.endOffsetFor); None if all are
        later."""
        k = bisect_right(self.epochs, epoch)
        return (self.epochs[k - 1], self.starts[k] if k < len(self.starts) else self.end) if k else None

    def text(self) -> str:
        """Its epochs as a person reads them: `epoch 0 from 0, epoch 4 from 120, end 150`."""
        entries = [f"epoch {epoch} from {start}" for epoch, start in zip(self.epochs, self.starts, strict=True)]
        shown = entries if len(entries) <= 8 else [*entries[:3], f"{len(entries) - 6} more", *entries[-3:]]
        return ", ".join([*shown, f"end {self.end}"])


def lineage(entries: Sequence[tuple[int, int]], end: int) -> Lineage:
    """The lineage that a leader-epoch-checkpoint tells; entries at or above the log's end are ignored."""
    below = [entry for entry in entries if entry[1] < end]
    return Lineage(tuple(epoch for epoch, _ in below), tuple(start for _, start in below), end)


def batch_epochs(epoch: Array, base: Array) -> list[tuple[int, int]]:
    """Each epoch with the base offset at which it begins, by the batches themselves; those of before 0.11 have none."""
    base, epoch = base[epoch >= 0], epoch[epoch >= 0]
    changes = [0, *(1 + (epoch[1:] != epoch[:-1]).nonzero()[0]).tolist()] if len(epoch) else []
    return [(int(epoch[k]), int(base[k])) for k in changes]


def rising(entries: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The entries without those of a later epoch than one after them: no checksum covers a batch's leader epoch."""
    found: list[tuple[int, int]] = []
    for epoch, start in entries:
        while found and found[-1][0] > epoch:
            found.pop()
        if not found or found[-1][0] < epoch:
            found.append((epoch, start))
    return found


def contradiction(entries: Sequence[tuple[int, int]], batches: Sequence[tuple[int, int]], end: int) -> str | None:
    """The reason why a leader-epoch-checkpoint cannot be that of these batches, None if it fits.

    An entry is at or below the first batch of its epoch (5.3), and the next entry above it.
    """
    told = dict(entries)
    later = sorted(entries)
    for epoch, base in batches:
        if epoch not in told or told[epoch] > base:
            says = f"from {told[epoch]}" if epoch in told else "not at all"
            return f"epoch {epoch} begins at {base} in the log, {says} in the file"
        following = next((start for other, start in later if other > epoch), end)
        if following <= base:
            return f"a batch at {base} is of epoch {epoch}, which ends at {following} in the file"
    return None


def cut_offset(follower: Lineage, leader: Lineage) -> int:
    """The offset at which a follower's log is cut when it next follows that leader (KIP-101, 279).

    AbstractFetcherThread.getOffsetTruncationState. It is the log's end where nothing is cut. A leader without a batch
    of any epoch has its own epoch at the end of its log, and nothing behind that.
    """
    if not (follower.epochs and leader.epochs):
        return min(follower.end, leader.end)
    epoch = follower.epochs[-1]
    while True:
        asked = _answer(leader, epoch)
        own = _answer(follower, asked[0])
        if own[0] == asked[0]:
            return min(own[1], asked[1], follower.end)
        epoch = own[0]


def _answer(log: Lineage, epoch: int) -> tuple[int, int]:
    """A broker's answer for an epoch (LeaderEpochFileCache.endOffsetFor). If all its epochs are later, that is the
    start of its first one: what was before is removed."""
    return log.end_of(epoch) or (epoch, log.starts[0])


def parts_at(one: Lineage, other: Lineage) -> int | None:
    """The offset up to which both are the same; None if they have no epoch in common."""
    if one.epochs and other.epochs and not set(one.epochs) & set(other.epochs):
        return None
    return min(cut_offset(one, other), cut_offset(other, one))
