"""The state that a query begins with when it goes on where another one stopped: a file for each of its buckets."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.query import Query, StateMismatch, record

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake

REPLAYED = 1
"""A query may be played again from its first batch until it has committed the one after that."""


def begin_with(lake: Lake, query: Query, buckets: int, shuffle_partitions: int, state: Iterable[bytes]) -> Query:
    """The query that goes on with `state`, the blobs of its buckets, where `query` stopped; recorded when all is there.

    Whoever is killed before the record is replaced leaves the lake to `query`, and files that nobody reads.
    """
    committed, start = offsets.last(lake.files(), query.query_id, "commits"), end_of(lake, query)
    made = replace(
        Query(uuid.uuid4().hex, buckets, shuffle_partitions, query.rules, False, query.source),
        rebuild=query.rebuild and start is None,
        follows=query.query_id if committed >= 0 else query.follows,
        start=start,
    )
    for bucket, blob in enumerate(state):
        lake.write_durably(_path(made.query_id, bucket), blob)
    record(lake, made)
    if query.follows:
        _remove(lake, query, but=made.follows)
    return made


def end_of(lake: Lake, query: Query) -> dict[str, Any] | None:
    """The offset of bronze up to which a query has committed; where it has committed nothing, at which it begins."""
    committed = offsets.last(lake.files(), query.query_id, "commits")
    return query.start if committed < 0 else offsets.offset(offsets.plan(lake.files(), query.query_id, committed))


def first_state(lake: Lake, query_id: str, bucket: int) -> bytes:
    """The state with which a bucket of a query begins. Raises StateMismatch naming the file that is missing."""
    path = _path(query_id, bucket)
    try:
        with lake.files().open_input_stream(path) as stream:
            return bytes(stream.read())
    except FileNotFoundError as lost:
        raise StateMismatch(
            f"{lake.root}/{path} is gone, the state with which bucket {bucket} begins: bring it back from a copy, or "
            "start silver anew from bronze with `hwmark run --rebuild`"
        ) from lost


def forget(lake: Lake, query: Query) -> None:
    """Removes what a query began with, and the checkpoint before it, once it has a state that is its own for good."""
    if query.follows and offsets.last(lake.files(), query.query_id, "commits") >= REPLAYED:
        _remove(lake, query, but=query.query_id)


def _remove(lake: Lake, query: Query, but: str) -> None:
    """Removes the checkpoints of a query and of the one before it, `but` that of this id, and what both began with."""
    ids = (query.query_id, query.follows)
    for folder in (*map(_folder, ids), *(f"{offsets.FOLDER}/{known}" for known in ids if known != but)):
        if _there(lake, folder):
            lake.files().delete_dir(folder)


def _there(lake: Lake, folder: str) -> bool:
    from pyarrow.fs import FileSelector

    return bool(lake.files().get_file_info(FileSelector(folder, allow_not_found=True)))


def _folder(query_id: str) -> str:
    return f"{offsets.FOLDER}/{query_id}-begin"


def _path(query_id: str, bucket: int) -> str:
    return f"{_folder(query_id)}/{bucket}"
