"""The state that a query begins with when it goes on where another one stopped: a file for each of its buckets."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.query import Query, StateMismatch, record
from pipelines.streaming.stateful.bucket_keys import evenly_spread

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake

_OF_A_QUERY = re.compile("[0-9a-f]{32}(-begin)?")
REPLAYED = 1
"""A query may be played again from its first batch until it has committed the one after that."""


def begin_with(lake: Lake, query: Query, buckets: int, shuffle_partitions: int, state: Iterable[bytes]) -> Query:
    """The new query that continues `query` with `state`, the blobs of its buckets; recorded once all files are written.

    If it is killed before that, the lake still belongs to `query`, and the files are read by nobody.
    """
    committed, start = offsets.last(lake.files(), query.query_id, "commits"), end_of(lake, query)
    made = replace(
        query,
        query_id=uuid.uuid4().hex,
        buckets=buckets,
        shuffle_partitions=shuffle_partitions,
        keys=evenly_spread(buckets, shuffle_partitions),
        rebuild=query.rebuild and start is None,
        follows=query.query_id if committed >= 0 else query.follows,
        start=start,
    )
    for bucket, blob in enumerate(state):
        lake.write_durably(_path(made.query_id, bucket), blob)
    record(lake, made)
    return made


def end_of(lake: Lake, query: Query) -> dict[str, Any] | None:
    """The offset of bronze that a query has committed; if it has committed nothing, the one at which it begins."""
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
    """Remove the state that a query began with, and other queries' files, once Spark has its own state for good.

    The others are those that it continues or rebuilds (`--rebuild`), or that were never recorded.
    """
    if offsets.last(lake.files(), query.query_id, "commits") >= REPLAYED:
        _remove_but(lake, query.query_id)


def remove_others(lake: Lake, query: Query) -> None:
    """Remove the files of other queries."""
    _remove_but(lake, query.query_id, f"{query.query_id}-begin")


def _remove_but(lake: Lake, *kept: str) -> None:
    for folder in _of_queries(lake):
        if folder not in kept:
            lake.files().delete_dir(f"{offsets.FOLDER}/{folder}")


def _of_queries(lake: Lake) -> list[str]:
    """The folders of all queries: their checkpoints and first states."""
    from pyarrow.fs import FileSelector

    found = lake.files().get_file_info(FileSelector(offsets.FOLDER, allow_not_found=True))
    return [entry.base_name for entry in found if _OF_A_QUERY.fullmatch(entry.base_name)]


def _folder(query_id: str) -> str:
    return f"{offsets.FOLDER}/{query_id}-begin"


def _path(query_id: str, bucket: int) -> str:
    return f"{_folder(query_id)}/{bucket}"
