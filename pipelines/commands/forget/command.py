"""One cluster taken out of a lake: its rows, the state, what is known of its sources, and whatever still names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.commands.maintain.command import version_read
from pipelines.errors import UsageError
from pipelines.lake.file_systems import path_part
from pipelines.lake.lake import Lake
from pipelines.lake.records import record, write_record
from pipelines.lake.removal import IDS, clean_log, readable_versions, remove_rows, remove_unnamed
from pipelines.lake.retention import BRONZE
from pipelines.lake.roles import Held, hold
from pipelines.streaming.checkpoint.beginning import remove_others
from pipelines.streaming.checkpoint.query import recorded
from pipelines.streaming.dead_files import remove_tombstones
from pipelines.streaming.reconstruction import EVALUATED
from pipelines.streaming.source.closings import remove_cluster
from pipelines.streaming.tables import ROLE
from schemas import tables

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

RECORD = "_forget.json"
"""What is being taken out: there from the first step to the last."""
ROLES = ("maintain", "check", "alerts", "notify")
Run = Callable[[str | None, Held], object]
"""Runs the job to the end of bronze, in a role that is held; with a state that knows nothing of a cluster."""


@dataclass(frozen=True)
class Removal:
    """A cluster to take out, or its rows before a time."""

    cluster: str
    before: datetime | None = None

    @property
    def words(self) -> str:
        before = "" if self.before is None else f" --before {self.before:%Y-%m-%dT%H:%M:%SZ}"
        return f"hwmark forget --cluster {self.cluster}{before}"


def forget(lake: Lake, asked: Removal, run: Run, refuse_unknown: Callable[[], None]) -> Iterator[str]:
    """Takes a cluster out of a lake, a line of words each step; the call after one that was killed does the rest.

    The job reads all of bronze first: what would be written anew has been read, and is not read again. `refuse_unknown`
    raises where the lake has no such cluster. Raises RoleHeld, UsageError.
    """
    with ExitStack() as roles:
        held = roles.enter_context(hold(lake.root, ROLE, lake.storage_options))
        for role in (*ROLES, *_writers(lake, asked.cluster)):
            roles.enter_context(hold(lake.root, role, lake.storage_options))
        begun = record(lake, RECORD, Removal)
        if begun not in (None, asked):
            raise UsageError(f"`{begun.words}` was cut off: call that again first")
        if begun is None:
            refuse_unknown()
        query = recorded(lake)
        if query is not None and query.source == "delta" and asked.before is None:
            raise UsageError(
                'the state of a lake with [run] source = "delta" cannot go on without a cluster: set source = "arrow", '
                "`hwmark run --once --rebuild`, then call this again"
            )
        write_record(lake, RECORD, asked)
        yield from _take_out(lake, asked, held, run if query is not None else lambda *_: None)
        if asked.before is None:
            yield from _remove_records(lake, asked.cluster)
        lake.files().delete_file(RECORD)


def _take_out(lake: Lake, asked: Removal, held: Held, run: Run) -> Iterator[str]:
    """The rows, then the files and versions that had them; bronze first, then what is made of it."""
    run(None, held)
    there = [name for name in tables() if lake.has_table(name)]
    # What names a row by its id goes before that row.
    there.sort(key=lambda name: (name != BRONZE, name in IDS))
    gone = dict[str, int]()
    for name in there:
        held.check()
        gone[name] = remove_rows(lake, name, asked.cluster, asked.before)
        if name == BRONZE:
            yield f"{lake.path(name)}: {gone[name]:,} rows removed"
            run(asked.cluster if asked.before is None else None, held)
            if asked.before is None and (query := recorded(lake)) is not None:
                remove_others(lake, query)
                yield "state: moved to one without it"
    for name in there:
        held.check()
        read, versions = version_read(lake) if name == BRONZE else None, readable_versions(lake, name)
        dead = remove_tombstones(lake, name, 0, read)
        clean_log(lake, name, asked.cluster, read)
        dead += remove_unnamed(lake, name, asked.cluster)
        time_travel = f"versions {versions[0]} to {versions[-1]} could be read until now"
        yield f"{lake.path(name)}: {gone[name]:,} rows and {dead} dead files removed; {time_travel}"


def _writers(lake: Lake, cluster: str) -> list[str]:
    """The roles of who writes events of a cluster, as far as the lake has seen them."""
    roles = (unquote(Path(entry).stem) for entry in _names(lake.files(), "_locks"))
    return [role for role in roles if role == f"watch:{cluster}" or role.startswith(f"ingest:{cluster}/")]


def _names(files: FileSystem, folder: str) -> list[str]:
    from pyarrow.fs import FileSelector

    return [entry.base_name for entry in files.get_file_info(FileSelector(folder, allow_not_found=True))]


def _remove_records(lake: Lake, cluster: str) -> Iterator[str]:
    """Removes what commands keep beside the tables: positions in its logs, the last evaluation of alerts, locks."""
    files, folder = lake.files(), f"_ingest/{path_part(cluster)}"
    remove_cluster(lake, cluster)
    if folder.rpartition("/")[2] in _names(files, "_ingest"):
        files.delete_dir(folder)
    if EVALUATED.rpartition("/")[2] in _names(files, "_alerts"):
        files.delete_file(EVALUATED)  # the next evaluation reads everything anew, and what is told stays told
    for role in _writers(lake, cluster):
        for kind in ("lock", "lease"):
            if (name := f"{path_part(role, safe=':')}.{kind}") in _names(files, "_locks"):
                files.delete_file(f"_locks/{name}")
    yield f"positions in the logs of {cluster} and the last evaluation of alerts removed"
    if kept := _names(files, "_run/skipped"):
        yield f"left: {len(kept)} files in _run/skipped that cannot be read, and may be of any cluster"
