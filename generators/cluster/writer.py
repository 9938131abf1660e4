"""From a watcher's rows to bronze, on a thread of their own: a slow or absent lake delays no round."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep

import pyarrow as pa

from generators.brokerlogs.tailing.sequence_numbers import Numbering
from pipelines.lake.bronze import append_round, committed
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.lease import LeaseLost
from pipelines.lake.roles import Held

RETRY_S, LONGEST_RETRY_S = 1.0, 30.0


class BronzeWriter:
    """The thread that numbers a watcher's rows and commits all that wait at once.

    Each run of a watcher is a new `source_epoch` of its sources, as nobody saw what happened between two runs. The
    lake's transaction log has the numbers of the run and of its last commit; the latter shows whether a commit whose
    answer was lost has been written.
    """

    def __init__(
        self, lake: str, watcher: str, held: Held, note: Callable[[str], None], *,
        buffer_bytes: int, storage_options: StorageOptions | None = None,
    ) -> None:  # fmt: skip
        self._lake, self._options, self._held, self._note = lake, storage_options, held, note
        self._app, self._epochs = f"watch:{watcher}", f"watch-epoch:{watcher}"
        reached = committed(lake, [self._app, self._epochs], storage_options)
        self._version = -1 if (last := reached[self._app]) is None else last
        self.epoch = 0 if (last := reached[self._epochs]) is None else last + 1
        self._numbers: dict[str, Numbering] = {}
        self._buffer_bytes, self._bytes = buffer_bytes, 0
        self._waiting: list[pa.Table] = []
        self._lock, self._wake, self._closed = threading.Lock(), threading.Event(), threading.Event()
        self._give_up_at: float | None = None
        self.rows = self.commits = 0
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="watch-writer", daemon=True)
        self._thread.start()

    def put(self, rows: Sequence[pa.Table]) -> bool:
        """Take the rows of a round, in each source's order; returns False, and takes none, if there is no room."""
        size = sum(table.nbytes for table in rows)
        with self._lock:
            if self._bytes and self._bytes + size > self._buffer_bytes:
                return False
            self._waiting.extend(rows)
            self._bytes += size
        self._wake.set()
        return True

    def close(self, within_s: float) -> int:
        """Write the waiting rows within a time limit; returns the bytes of rows that were not written."""
        self._give_up_at = monotonic() + within_s
        self._closed.set()
        self._wake.set()
        self._thread.join(within_s + 1)
        with self._lock:
            return self._bytes

    def _run(self) -> None:
        try:
            while not self._closed.is_set() or self._waiting:
                self._wake.wait()
                self._wake.clear()
                with self._lock:
                    tables, self._waiting = self._waiting, []
                if tables and not self._commit(tables):
                    return
        except Exception as error:
            self.failure = error

    def _commit(self, tables: list[pa.Table]) -> bool:
        """Commit the rows, again until they are written; False if the time that `close` allows ran out."""
        events, size = self._numbered(tables), sum(table.nbytes for table in tables)
        self._version += 1
        versions, pause, failed = {self._app: self._version, self._epochs: self.epoch}, RETRY_S, False
        while not self._written(events, versions, failed):
            failed = True
            if self._give_up_at is not None and monotonic() >= self._give_up_at:
                return False
            self._pause(pause)
            pause = min(2 * pause, LONGEST_RETRY_S)
        if failed:
            self._note("the lake can be written again")
        with self._lock:
            self._bytes -= size
        self.rows, self.commits = self.rows + len(events), self.commits + 1
        return True

    def _pause(self, seconds: float) -> None:
        if self._closed.is_set():
            sleep(RETRY_S)
        else:
            self._closed.wait(seconds)

    def _written(self, events: pa.Table, versions: Mapping[str, int], again: bool) -> bool:
        try:
            self._held.check()
            if not again or committed(self._lake, [self._app], self._options)[self._app] != self._version:
                append_round(self._lake, events, versions, self._options)
        except LeaseLost:
            raise
        except Exception as error:
            if not again:
                words = " ".join(str(error).split())[:300]
                self._note(f"the lake cannot be written, rows are kept in memory meanwhile: {words}")
            return False
        return True

    def _numbered(self, tables: list[pa.Table]) -> pa.Table:
        by_source: dict[str, list[pa.Table]] = {}
        for table in tables:
            by_source.setdefault(table["source_id"][0].as_py(), []).append(table)
        numbered = []
        for source_id, rows in by_source.items():
            numbering = self._numbers.setdefault(source_id, Numbering(self.epoch))
            numbered.append(numbering.number(pa.concat_tables(rows, promote_options="default")))
        return pa.concat_tables(numbered)
