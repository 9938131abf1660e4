"""Whether a table that is rewritten as a whole would stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.lake.data_file import Written

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from pipelines.lake.lake import Lake


def has_rows(lake: Lake, kind: str, files: Iterable[Written]) -> bool:
    """Whether the table has files of exactly these bytes, which follow from the rows and their order."""
    written = {file.path: file.size for file in files}
    table = lake.open(kind).get_add_actions(flatten=True)
    there = dict(zip(map(unquote, table["path"].to_pylist()), table["size_bytes"].to_pylist(), strict=True))
    if Counter(written.values()) != Counter(there.values()):
        return False
    folder = lake.files(kind)
    try:
        return Counter(_digest(folder, path) for path in written) == Counter(_digest(folder, path) for path in there)
    except FileNotFoundError:  # the table is damaged: rewritten, it is whole again
        return False


def _digest(folder: FileSystem, path: str) -> bytes:
    with folder.open_input_stream(path) as stream:
        return sha256(stream.read()).digest()
