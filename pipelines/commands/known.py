"""Checks of a lake's path: a mistyped one is an error with the nearest existing one."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from pipelines.errors import UsageError
from pipelines.lake.file_systems import local_path
from pipelines.lake.lake import Lake
from schemas import tables

WRITERS = "`hwmark ingest logs` and `hwmark simulate` create one"


def require_lake(path: str, storage_options: Mapping[str, str]) -> None:
    """Raise UsageError where there is no table of a lake: only who writes events creates one."""
    if not _is_lake(path, storage_options):
        raise UsageError(f"there is no lake {path}; {_near(path) or WRITERS}")


def _is_lake(path: str, storage_options: Mapping[str, str]) -> bool:
    folder = local_path(path)
    if folder is not None and not folder.is_dir():
        return False
    return any(map(Lake(path, storage_options).has_table, tables()))


def _near(path: str) -> str | None:
    """`did you mean x?` for a lake beside it."""
    folder = local_path(path)
    if folder is None or not folder.absolute().parent.is_dir():
        return None
    beside = [one.name for one in folder.absolute().parent.iterdir() if _is_lake(str(one), {})]
    close = get_close_matches(folder.name, beside, n=1, cutoff=0.5)
    return f"did you mean {folder.parent / close[0]}?" if close else None
