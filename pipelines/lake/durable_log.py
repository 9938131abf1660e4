"""Logs of tables on a local disk that outlive a power failure: deltalake itself does not sync what it writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.lake.file_systems import local_path, sync

if TYPE_CHECKING:
    from pathlib import Path

    from deltalake import DeltaTable, PostCommitHookProperties

CHECKPOINT_EVERY = 100
"""Commits between checkpoints; Delta's own default."""
LAST_CHECKPOINT = "_last_checkpoint"
ENDS_WITH = b"PAR1"
"""The last bytes of a complete Parquet file."""


def sync_files(uri: str, paths: Iterable[str]) -> None:
    """Sync data files below `uri`, so that they outlive a power failure; an object store does so itself."""
    if (folder := local_path(uri)) is not None:
        for path in paths:
            sync(folder / path)
        sync(folder)


def no_hooks(uri: str) -> PostCommitHookProperties | None:
    """Hooks that keep the library from checkpoints on a disk: it would remove commits before the checkpoint is safe."""
    from deltalake import PostCommitHookProperties

    own = local_path(uri) is not None
    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False) if own else None


@contextmanager
def durable(table: DeltaTable) -> Iterator[None]:
    """Sync commits made in the block, so that they outlive a power failure; some get a checkpoint."""
    before = int(table.version())
    yield
    if (log := _log(table.table_uri)) is None:
        return
    version = before
    while (commit := log / f"{version + 1:020}.json").exists():
        for action in map(json.loads, commit.read_text().splitlines()):
            # The library syncs no file that it writes, and another writer's file may be gone again.
            path = log.parent / unquote(action.get("add", {}).get("path", ""))
            if path.is_file():
                with suppress(FileNotFoundError):
                    sync(path)
                sync(path.parent)
        sync(commit)
        version += 1
    sync(log)
    if version // CHECKPOINT_EVERY > before // CHECKPOINT_EVERY:
        checkpoint(table)


def checkpoint(table: DeltaTable) -> None:
    """Write a checkpoint of the newest version, then remove the log's entries that it replaces."""
    table.update_incremental()
    table.create_checkpoint()
    if (log := _log(table.table_uri)) is not None:
        for path in (*log.glob(f"{table.version():020}.checkpoint*"), log / LAST_CHECKPOINT):
            sync(path)
        sync(log)
    table.cleanup_metadata()


def sync_new_table(uri: str) -> None:
    """Sync the folders of a new table, up to its lake's, so that it outlives a power failure."""
    if (log := _log(uri)) is not None:
        for path in (*log.glob("*.json"), log, *list(log.parents)[:3]):
            sync(path)


def has_torn_commit(uri: str, version: int) -> bool:
    """Whether a version's commit is an empty file, which the library takes for a commit without changes."""
    log = _log(uri)
    with suppress(FileNotFoundError):
        return log is not None and not (log / f"{version:020}.json").stat().st_size
    return False


def mend(uri: str) -> bool:
    """Set aside a newest commit or checkpoint that a power failure cut off; returns whether there was one.

    Nothing relies on such a commit, since a committer waits until its commit is safe. A checkpoint repeats the log.
    """
    log, mended = _log(uri), False
    if log is None:
        return False
    for newest in sorted(log.glob("[0-9]*.json"))[-1:]:
        if not _is_commit(newest.read_bytes()):
            aside = newest.with_name(f".{newest.name}.torn")
            newest.rename(aside)
            mended = True
            if _is_commit(aside.read_bytes()):  # another process has committed meanwhile
                aside.rename(newest)
    for newest in sorted(log.glob("[0-9]*.checkpoint*.parquet"))[-1:]:
        if not newest.read_bytes().endswith(ENDS_WITH):
            newest.rename(newest.with_name(f".{newest.name}.torn"))
            (log / LAST_CHECKPOINT).unlink(missing_ok=True)
            mended = True
    sync(log)
    return mended


def _is_commit(content: bytes) -> bool:
    """Whether a commit is complete: one action a line."""
    try:
        return bool([json.loads(line) for line in content.splitlines()])
    except ValueError:
        return False


def _log(uri: str) -> Path | None:
    """The folder of a table's log on a local disk, None if there is none."""
    folder = local_path(uri)
    return None if folder is None or not (folder / "_delta_log").is_dir() else folder / "_delta_log"
