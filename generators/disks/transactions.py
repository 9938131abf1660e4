"""Ends of transactions: committed, aborted, open, or not known, by the markers in one partition's directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from generators.disks.batches import ABORT, COMMIT, TRANSACTIONAL, WHOLE, Array
from generators.disks.checkpoints import CLEANER_OFFSETS
from generators.disks.files import Unreadable
from generators.disks.replica import ReplicaLog
from generators.disks.segments import Segment, WalkEnd, blocks

COMMITTED, ABORTED, OPEN, UNKNOWN = "committed", "aborted", "open", "unknown"


class Transactions:
    """The transactions of one directory: of its log, and of segments that were renamed to `.deleted`.

    Markers of another directory, or of the lineage that replaced this one, end no transaction of it.
    """

    def __init__(self, log: ReplicaLog, files: Sequence[Segment]) -> None:
        self._log, self._cleaned_to = log, log.directory.offset_of_replica(CLEANER_OFFSETS, log.source) or 0
        live = list(_whole_batches([one for one in files if not one.deleted]))
        cut = list(_whole_batches([one for one in files if one.deleted]))
        self._live, self._cut = _Markers(live), _Markers(cut)
        self._both = _Markers([*cut, *live]) if cut else self._live

    def is_in_log(self, batch: np.void, segment: Segment) -> bool:
        """Whether a batch is of the lineage of the log as it is now; one that a truncation cut is not."""
        if not segment.deleted:
            return True
        log, last = self._log, int(batch["last"])
        same = log.lineage.end_of(int(batch["epoch"]))
        return last < log.start if same is None else same[0] == int(batch["epoch"]) and last < same[1]

    def end(self, batch: np.void, segment: Segment) -> str | None:
        """The end of a batch's transaction, None if it has none.

        The cleaner removes what was aborted, then markers (LogCleaner, CleanedTransactionMetadata), and goes no
        further than the first open transaction: what it left of a transaction was committed. Where batches are missing
        before the next marker, that one may be of a later transaction.
        """
        if not batch["attributes"] & TRANSACTIONAL:
            return None
        if not segment.deleted:
            return COMMITTED if batch["last"] < self._cleaned_to else self._live.end(batch)
        return (self._both if self.is_in_log(batch, segment) else self._cut).end(batch)


class _Markers:
    """Markers by producer in the order of the log, and the offsets from which batches are missing."""

    def __init__(self, found: Sequence[Array]) -> None:
        whole = np.concatenate(found) if found else np.zeros(0, _COLUMNS)
        whole = whole[np.argsort(whole["base"], kind="stable")]
        reach = np.maximum.accumulate(whole["last"]) if len(whole) else whole["last"]
        self._missing = reach[:-1][whole["base"][1:] > reach[:-1] + 1]
        ends = whole[(whole["control"] == ABORT) | (whole["control"] == COMMIT)]
        ends = ends[np.argsort(ends["producer"], kind="stable")]
        producers, first = np.unique(ends["producer"], return_index=True)
        self._ends = dict(zip(producers.tolist(), np.split(ends, first[1:]), strict=True)) if len(ends) else {}

    def end(self, batch: np.void) -> str:
        last, following = int(batch["last"]), self._ends.get(int(batch["producer"]))
        k = 0 if following is None else int(np.searchsorted(following["base"], last))
        marker = None if following is None or k == len(following) else following[k]
        missing = np.searchsorted(self._missing, last)
        until = len(self._missing) if marker is None else np.searchsorted(self._missing, int(marker["base"]))
        if missing < until:
            return UNKNOWN
        return OPEN if marker is None else COMMITTED if marker["control"] == COMMIT else ABORTED


_COLUMNS = np.dtype([("base", "i8"), ("last", "i8"), ("producer", "i8"), ("control", "i2")])


def _whole_batches(files: Sequence[Segment]) -> Iterator[Array]:
    for segment in files:
        try:
            for block, _ in blocks(segment, WalkEnd()):
                whole = block[block["fault"] == WHOLE]
                columns = np.empty(len(whole), _COLUMNS)
                for name in _COLUMNS.names or ():
                    columns[name] = whole[name]
                yield columns
        except (Unreadable, OSError):
            continue  # the walk for the records themselves names it
