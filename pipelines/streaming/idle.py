"""Whether a run has nothing to do, by the lake alone, before anything of Spark is imported."""

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


def nothing_new(lake: Lake, query: Query) -> bool:
    """Whether the query has committed all that bronze holds, so that no batch would be planned.

    To be asked once checkpoint, manifests and tables are known to belong together (`checkpoint.manifest.resume`). A
    commit without rows, as of `maintain`, is something new: the batch that passes it lets Delta forget its log.
    """
    files = lake.files()
    done = offsets.last(files, query.query_id, "commits")
    manifests = Manifests(lake, query.query_id)
    if offsets.last(files, query.query_id, "offsets") != done or manifests.pending(done) is not None:
        return False
    end = end_of(lake, query)
    if end is None or not _recorded(manifests, done, end):
        return False
    # Both sources stand before the first file of a version: ours with index 0, Delta's with one below.
    read_to = last_version_read(end) if end["index"] <= 0 else -1
    level = bool(read_to == lake.open("replication_events").version())
    log = BronzeLog(lake.uri("replication_events"), lake.storage_options)
    if level and "snapshot" in end and log.is_another(Offset(**end), read_to):
        return False
    return level and bool(end.get("closed", 0) == count_closings(lake))


def at_end(lake: Lake, query: Query) -> Callable[[], bool]:
    """What asks whether nothing is new, once a second: it says no in between."""
    asked = time.monotonic()

    def ask() -> bool:
        nonlocal asked
        if time.monotonic() - asked < ASKED_S:
            return False
        asked = time.monotonic()
        return nothing_new(lake, query)

    return ask


def _recorded(manifests: Manifests, done: int, end: Mapping[str, Any]) -> bool:
    """Whether what the last batch committed is known to be up to there; a query may begin with what others have."""
    committed = manifests.read(done) if done >= 0 else None
    return done < 0 or (committed is not None and committed.end == end)
