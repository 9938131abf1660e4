"""Writes telemetry to a lake in a thread of its own: Parquet straight from Arrow, then a commit."""

from __future__ import annotations

from collections.abc import Iterable
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING

from generators.simulator.fleet.columns import SCHEMA
from pipelines.lake.bronze import append_files, bronze, bronze_uri, committed
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.file_systems import StorageOptions, file_system

if TYPE_CHECKING:
    from generators.simulator.fleet.output_buffers import Part

WAITING = 2
"""Parts that may wait for the thread."""


class Writer:
    """Parts of telemetry as one Parquet file each, and a commit whenever all rows up to some time are there.

    Commit n is version n of `app_id`; versions that the lake already has are not written again.
    """

    def __init__(self, lake: str, app_id: str, storage_options: StorageOptions | None = None) -> None:
        self.rows = 0
        """Written and committed."""
        self._lake, self._app_id, self._options = lake, app_id, storage_options
        bronze(lake, storage_options)
        self._there = committed(lake, [app_id], storage_options)[app_id]
        self._folder = file_system(bronze_uri(lake), storage_options)
        self._version = 0
        self._files: list[Written] = []
        self._failed: BaseException | None = None
        self._waiting: Queue[Part | None] = Queue(WAITING)
        self._thread = Thread(target=self._run, name="lake-writer", daemon=True)
        self._thread.start()

    def write(self, parts: Iterable[Part]) -> int:
        """Write all parts; returns the rows that were new to the lake. Raises what the thread raised."""
        try:
            for part in parts:
                self._waiting.put(part)
                if self._failed is not None:
                    break
        finally:
            self._waiting.put(None)
            self._thread.join()
        if self._failed is not None:
            raise self._failed
        return self.rows

    def _run(self) -> None:
        while (part := self._waiting.get()) is not None:
            try:
                if self._failed is None:
                    self._take(part)
            except BaseException as error:
                self._failed = error
            part.done()

    def _take(self, part: Part) -> None:
        known = self._there is not None and self._there >= self._version
        if not known and len(part):
            self._files.append(self._file(part))
        if part.complete:
            if self._files:
                append_files(self._lake, self._files, {self._app_id: self._version}, self._options)
                self.rows += sum(f.rows for f in self._files)
                self._files = []
            self._version += 1

    def _file(self, part: Part) -> Written:
        return write_file(self._folder, "replication_events", SCHEMA, part.tables())
