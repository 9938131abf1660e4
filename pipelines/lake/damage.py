"""A readable view of a lake with damaged gold tables, without the files that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.lake import table as delta
from pipelines.lake.lake import Lake
from schemas import tables
from schemas.declaration import Table

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def past_damage(lake: Lake) -> Iterator[Lake]:
    """The lake with copies of partly readable gold tables; `unread` has the files that they lack.

    A table without a readable file has no copy: reading it fails as before.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    copies, unread = dict[str, str](), list[str]()
    with TemporaryDirectory(prefix="hwmark-") as folder:
        for table in tables().values():
            parts, damaged = _files(lake, table) if table.path.startswith("gold/") else ([], [])
            if parts and damaged:
                copies[table.path] = f"{folder}/{table.path}"
                write_deltalake(copies[table.path], pa.concat_tables(parts))
                unread += damaged
        yield replace(lake, copies=copies, unread=tuple(unread))


def _files(lake: Lake, table: Table) -> tuple[list[pa.Table], list[str]]:
    """The rows of each readable file of a table, and the paths of the others; nothing if its log cannot be read."""
    parts: list[pa.Table] = []
    damaged: list[str] = []
    try:
        opened = lake.find(table)
    except Exception:
        opened = None
    paths = opened.get_add_actions(flatten=True).column("path").to_pylist() if opened else ()
    for path in map(unquote, paths):
        try:
            parts.append(delta.dataset(opened, keep=partial(_ends, path)).to_table())
        except Exception:
            damaged.append(f"{table.path}/{path}")
    return parts, damaged


def _ends(name: str, path: str) -> bool:
    return path.endswith(name)
