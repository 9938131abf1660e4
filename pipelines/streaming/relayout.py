"""Another number of buckets or tasks for a lake with state: a new query over the same state.

Spark pins `spark.sql.shuffle.partitions` in the checkpoint of a stateful query: another value in the session is
ignored, and the state of a bucket stays with the task that its key hashes to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from pipelines.lake.lake import Lake
from pipelines.replication.state.reshard import reshard, without_cluster
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.beginning import begin_with, end_of
from pipelines.streaming.checkpoint.manifest import Manifests
from pipelines.streaming.checkpoint.query import Query
from pipelines.streaming.follow import RunFailed

log = logging.getLogger("hwmark.run")


def relaid(
    lake: Lake,
    query: Query,
    layout: tuple[int, int],
    state: Callable[[], list[bytes]],
    end_batch: Callable[[], object],
    without: str | None = None,
) -> Query:
    """The query that goes on in this layout, (buckets, shuffle partitions); `query` itself if it has that layout.

    Its state has nothing of the cluster `without`.

    A batch in flight is ended first: tables may have a part of it, and the new query would read it again. The lake
    belongs to the old query until the new one is recorded, by one rename; both go on at the same offset of bronze.
    """
    if layout == query.layout and without is None:
        return query
    if in_flight(lake, query):
        end_batch()
        if in_flight(lake, query):
            raise RunFailed(f"the batch in flight of lake {lake.root} did not end: start the job again")
    blobs, buckets = state() if end_of(lake, query) is not None else [], layout[0]
    split: Iterable[bytes] = blobs if not blobs or buckets == query.buckets else reshard(blobs, buckets)
    kept = replace(query, older={cluster: ts for cluster, ts in query.older.items() if cluster != without})
    made = begin_with(lake, kept, *layout, split if without is None else without_cluster(split, without))
    if without is not None:
        log.warning("the state was moved: it knows nothing of %s any more", without)
        return made
    log.warning(
        "the state was moved: buckets %d -> %d, tasks %d -> %d; the job goes on from there",
        query.buckets, layout[0], query.shuffle_partitions, layout[1],
    )  # fmt: skip
    return made


def in_flight(lake: Lake, query: Query) -> bool:
    """Whether a batch of the query has begun and is not committed."""
    files = lake.files()
    done = offsets.last(files, query.query_id, "commits")
    begun = offsets.last(files, query.query_id, "offsets") > done
    return begun or Manifests(lake, query.query_id).pending(done) is not None
