"""A lake as of one moment, with what was already read of it: everything is read once per version of its tables."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyarrow.fs import FileType

from pipelines.errors import UsageError
from pipelines.lake.delta_log import commit_path
from pipelines.lake.file_systems import local_path
from pipelines.lake.lake import Lake, declared
from pipelines.streaming.checkpoint.offsets import committed_offset
from pipelines.verdict import Limits
from schemas import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake import DeltaTable

    from pipelines.alerting.owners import Owners
    from schemas.declaration import Table

T = TypeVar("T")
KEPT = 512
"""Answers that are kept of one snapshot; the one not asked for longest goes first."""
NEWS_S = 1.0
"""A lake on a disk is looked at so often, and what has a new commit is opened: on a store each look is paid for."""


class UnreadableError(Exception):
    """The lake cannot be read just now."""


@contextmanager
def reading(root: str) -> Iterator[None]:
    """Turn whatever goes wrong with tables and files into UnreadableError, panics of deltalake's Rust included."""
    try:
        yield
    except (UsageError, UnreadableError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise UnreadableError(
            f"the lake {root} cannot be read just now ({words}); nothing here says how it is"
        ) from error


@dataclass(frozen=True)
class Snapshot(Lake):
    """Every table at the version that it had when the snapshot was made."""

    opened: Mapping[str, DeltaTable] = field(default_factory=dict)

    def has_table(self, table: Table | str) -> bool:
        return declared(table).path in self.opened

    def open(self, table: Table | str) -> DeltaTable:
        from deltalake.exceptions import TableNotFoundError

        try:
            return self.opened[declared(table).path]
        except KeyError:
            raise TableNotFoundError(f"no table {declared(table).path}") from None


def opened(lake: Lake, before: Snapshot | None = None) -> Snapshot:
    """The lake as it is now; of the tables that `before` has only those are opened that have a later commit since."""
    files, found = lake.files(), {} if before is None else dict(before.opened)
    for table in tables().values():
        known = found.get(table.path)
        if known is not None:
            later = f"{table.path}/{commit_path(known.version() + 1)}"
            if files.get_file_info(later).type is FileType.NotFound:
                continue
        if (there := lake.find(table)) is not None:
            found[table.path] = there
    return Snapshot(lake.root, lake.storage_options, opened=found)


class Reader:
    """Reads a lake for many requests, and each answer once per version: as it was at most NEWS_S seconds ago, of an
    object store, or of a table that was made anew, `refresh_s`.


    `now` is the wall clock. Safe to use from several threads; one reads at a time.
    """

    def __init__(
        self, lake: Lake, limits: Limits, now: Callable[[], datetime], refresh_s: float, owners: Owners | None = None
    ) -> None:
        self.lake, self.limits, self.now, self.refresh_s = lake, limits, now, refresh_s
        self.owners: Owners = owners or {}
        self._lock = threading.RLock()
        self._snapshot = Snapshot(lake.root, lake.storage_options)
        self._version: Hashable = None
        self._read_at = self._opened_at = -float("inf")
        self._looks_s = refresh_s if local_path(lake.root) is None else min(NEWS_S, refresh_s)
        self.as_of = datetime.min.replace(tzinfo=UTC)
        """When the lake was read last: how old its claims of the present were then."""
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()

    def snapshot(self) -> Snapshot:
        """The lake as it is, or was a moment ago. Raises UnreadableError."""
        with self._lock:
            looked_at = time.monotonic()
            if looked_at - self._read_at >= self._looks_s:
                anew = looked_at - self._opened_at >= self.refresh_s
                with reading(self.lake.root):
                    fresh = opened(self.lake, None if anew else self._snapshot)
                    if not fresh.opened:
                        raise UnreadableError(f"there is no table in the lake {self.lake.root} any more")
                    version = (
                        *((path, t.version()) for path, t in fresh.opened.items()),
                        repr(committed_offset(self.lake)),
                    )
                if version != self._version:
                    self._snapshot, self._version = fresh, version
                    self._answers.clear()
                self._read_at, self.as_of = looked_at, self.now()
                self._opened_at = looked_at if anew else self._opened_at
            return self._snapshot

    def answer(self, key: Hashable, compute: Callable[[Snapshot], T], valid: Callable[[T], bool] = lambda _: True) -> T:
        """The result of `compute` on the present snapshot, kept under `key` while that lasts and it is `valid`."""
        with self._lock:
            snapshot = self.snapshot()
            if key in self._answers and valid(self._answers[key]):
                self._answers.move_to_end(key)
                kept: T = self._answers[key]
                return kept
            with reading(self.lake.root):
                found = compute(snapshot)
            self._answers[key] = found
            if len(self._answers) > KEPT:
                self._answers.popitem(last=False)
            return found
