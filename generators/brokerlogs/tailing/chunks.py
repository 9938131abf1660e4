"""Rows that were read ahead of those taken, with the state from which they can be read again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.tailing.progress import running_time
from generators.brokerlogs.tailing.read_position import ReadPosition


@dataclass
class Chunk:
    """Rows of one piece of lines, and the state from which they can be read again; a `whole` one is never split."""

    rows: pa.Table
    running: np.ndarray
    read_position: ReadPosition | None
    parser: bytes
    taken: int = 0
    whole: bool = False

    def end(self, horizon: int) -> int:
        """The number of its rows that may be taken up to `horizon` (us)."""
        end = int(np.searchsorted(self.running, horizon, side="right"))
        return self.taken if self.whole and end < self.rows.num_rows else end


class Chunks:
    """Chunks that wait to be taken; of the next rows `skip` were taken before."""

    def __init__(self, skip: int = 0) -> None:
        self._waiting: deque[Chunk] = deque()
        self._skip = skip

    @property
    def first(self) -> Chunk | None:
        """The chunk to be taken next."""
        return self._waiting[0] if self._waiting else None

    @property
    def skip(self) -> int:
        """The number of rows that were taken from the state of the next chunk on."""
        return self._waiting[0].taken if self._waiting else self._skip

    def rows(self) -> pa.Table:
        """Rows that were read and are not taken yet."""
        return pa.concat_tables([EVENTS.empty_table(), *(chunk.rows.slice(chunk.taken) for chunk in self._waiting)])

    def append(
        self, rows: pa.Table, read_position: ReadPosition | None, parser: bytes, max_ts: int, *, whole: bool
    ) -> None:
        """Add rows, the greatest time before which is `max_ts` (us), and the state before them."""
        again = min(self._skip, rows.num_rows)
        self._skip -= again
        if rows.num_rows > again:
            max_ts = self._waiting[-1].running[-1] if self._waiting else max_ts
            running = np.concatenate([np.full(again, max_ts, np.int64), running_time(rows.slice(again), max_ts)])
            self._waiting.append(Chunk(rows, running, read_position, parser, again, whole))

    def drop_first(self) -> None:
        """Forget the first one, all of which was taken."""
        self._waiting.popleft()
