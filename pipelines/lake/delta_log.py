"""The commits in a Delta table's log: the files that each added and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pipelines.lake.file_systems import file_system, local_path, object_store

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

AT_ONCE = 32
"""Commits requested from an object store at a time: each answer takes tens of milliseconds."""

Actions = list[dict[str, Any]]


def actions(folder: FileSystem, version: int) -> Actions:
    """The actions of one commit of the table in `folder`. Raises FileNotFoundError if it is no longer in the log."""
    with folder.open_input_stream(commit_path(version)) as commit:
        return _parsed(commit.read())


def commits(uri: str, versions: range, storage_options: Mapping[str, str] | None = None) -> Iterator[Actions]:
    """The actions of many commits, in order. Raises FileNotFoundError if one is no longer in the log."""
    if local_path(uri) is not None:
        folder = file_system(uri)
        yield from (actions(folder, version) for version in versions)
        return
    import obstore
    from obstore.exceptions import NotFoundError

    store = object_store(uri, storage_options or {})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for content in pool.map(lambda version: obstore.get(store, commit_path(version)).bytes(), versions):
                yield _parsed(bytes(content))
        except NotFoundError as gone:
            raise FileNotFoundError(f"a commit of {uri} is gone") from gone


def count_rows(file: NativeFile) -> int:
    """The number of rows in a data file's footer. Raises OSError or ValueError if the file is damaged."""
    import pyarrow.parquet as pq

    with file:
        return int(pq.read_metadata(file).num_rows)


def commit_path(version: int) -> str:
    """The path of a version's commit, below the table."""
    return f"_delta_log/{version:020}.json"


def _parsed(content: bytes) -> Actions:
    return [json.loads(line) for line in content.splitlines() if line]
