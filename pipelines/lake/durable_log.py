"""Tables on a local disk outlive a power failure: what deltalake writes of their logs it leaves to the kernel."""

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
"""So many commits, as Delta's own setting has it."""
LAST_CHECKPOINT = "_last_checkpoint"
ENDS_WITH = b"PAR1"
"""How a whole Parquet file ends."""


def sync_files(uri: str, paths: Iterable[str]) -> None:
    """Has data files below `uri` outlive a power failure; a store keeps what it has taken."""
    if (folder := local_path(uri)) is not None:
        for path in paths:
            sync(folder / path)
        sync(folder)


def no_hooks(uri: str) -> PostCommitHookProperties | None:
    """On a disk the library makes no checkpoint by itself: what it replaces would go before it is safe."""
    from deltalake import PostCommitHookProperties

    own = local_path(uri) is not None
    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False) if own else None


@contextmanager
def durable(table: DeltaTable) -> Iterator[None]:
    """The commits that are made inside `with` outlive a power failure; every so many of them get a checkpoint."""
    before = int(table.version())
    yield
    if (log := _log(table.table_uri)) is None:
        return
    version = before
    while (commit := log / f"{version + 1:020}.json").exists():
        for action in map(json.loads, commit.read_text().splitlines()):
            # The library may have written a file itself, and syncs none; another's may be gone again.
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
    """Makes a checkpoint of the newest version, then removes what the log need not have any more."""
    table.update_incremental()
    table.create_checkpoint()
    if (log := _log(table.table_uri)) is not None:
        for path in (*log.glob(f"{table.version():020}.checkpoint*"), log / LAST_CHECKPOINT):
            sync(path)
        sync(log)
    table.cleanup_metadata()


def sync_new_table(uri: str) -> None:
    """Has the folders of a table that was just made outlive a power failure, up to that of its lake."""
    if (log := _log(uri)) is not None:
        for path in (*log.glob("*.json"), log, *list(log.parents)[:3]):
            sync(path)


def has_torn_commit(uri: str, version: int) -> bool:
    """Whether the commit of a version is an empty file, which the library takes for one that changed nothing."""
    log = _log(uri)
    with suppress(FileNotFoundError):
        return log is not None and not (log / f"{version:020}.json").stat().st_size
    return False


def mend(uri: str) -> bool:
    """Sets aside a newest commit, or checkpoint, that a power failure cut off; whether there was one.

    Nobody has gone by such a commit: who commits waits until it is safe. Of a checkpoint the log has all it stands for.
    """
    log, mended = _log(uri), False
    if log is None:
        return False
    for newest in sorted(log.glob("[0-9]*.json"))[-1:]:
        if not _is_commit(newest.read_bytes()):
            aside = newest.with_name(f".{newest.name}.torn")
            newest.rename(aside)
            mended = True
            if _is_commit(aside.read_bytes()):  # another process was faster, and has committed since
                aside.rename(newest)
    for newest in sorted(log.glob("[0-9]*.checkpoint*.parquet"))[-1:]:
        if not newest.read_bytes().endswith(ENDS_WITH):
            newest.rename(newest.with_name(f".{newest.name}.torn"))
            (log / LAST_CHECKPOINT).unlink(missing_ok=True)
            mended = True
    sync(log)
    return mended


def _is_commit(content: bytes) -> bool:
    """Whether all of it is there: actions, one a line."""
    try:
        return bool([json.loads(line) for line in content.splitlines()])
    except ValueError:
        return False


def _log(uri: str) -> Path | None:
    """The log of a table on a local disk that has one."""
    folder = local_path(uri)
    return None if folder is None or not (folder / "_delta_log").is_dir() else folder / "_delta_log"
