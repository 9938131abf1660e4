"""Tell from the lake alone, before Spark is imported, whether a run has anything to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.beginning import end_of
from pipelines.streaming.checkpoint.manifest import Manifests
from pipelines.streaming.checkpoint.query import Query
from pipelines.streaming.source.bronze_log import BronzeLog, Offset, last_version_read
from pipelines.streaming.source.closings import count_closings

ASKED_S = 1.0


def newest(lake: Lake) -> tuple[int, int]:
    """The last version of bronze, and the number of files with closing rows."""
    return lake.open("replication_events").version(), count_closings(lake)


def nothing_new(lake: Lake, query: Query, until: tuple[int, int] | None = None) -> bool:
    """Whether the query has committed all that bronze holds, so that no batch would be planned.

    `until`: an earlier result of `newest`, if only the rows that bronze held then count. Call this once checkpoint,
    manifests and tables are known to belong together (`checkpoint.manifest.resume`). A commit without rows, as of
    `maintain`, is something new: the batch that passes it lets Delta forget its log.
    """
    files = lake.files()
    done = offsets.last(files, query.query_id, "commits")
    manifests = Manifests(lake, query.query_id)
    if offsets.last(files, query.query_id, "offsets") != done or manifests.pending(done) is not None:
        return False
    end = end_of(lake, query)
    if end is None or not _recorded(manifests, done, end):
        return False
    read_to, closed = last_version_read(end), int(end.get("closed", 0))
    if until is not None:
        return read_to >= until[0] and closed >= until[1]
    # Both sources stand before the first file of a version: ours with index 0, Delta's with one below.
    level = end["index"] <= 0 and (read_to, closed) == newest(lake)
    log = BronzeLog(lake.uri("replication_events"), lake.storage_options)
    if level and "snapshot" in end and log.is_another(Offset(**end), read_to):
        return False
    return level


def at_end(lake: Lake, query: Query) -> Callable[[], bool]:
    """Return a function that says whether the query has committed all that bronze holds at the time of this call.

    It looks at most once in ASKED_S seconds and returns False in between.
    """
    asked, until = time.monotonic(), newest(lake)

    def ask() -> bool:
        nonlocal asked
        if time.monotonic() - asked < ASKED_S:
            return False
        asked = time.monotonic()
        return nothing_new(lake, query, until)

    return ask


def _recorded(manifests: Manifests, done: int, end: Mapping[str, Any]) -> bool:
    """Whether the last batch is known to have committed up to `end`; True for a query without batches."""
    committed = manifests.read(done) if done >= 0 else None
    return done < 0 or (committed is not None and committed.end == end)
