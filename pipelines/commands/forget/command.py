"""Take a cluster out of a lake: its rows, its part of the state, positions in its logs, and records that name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.alerting.step import leave_out
from pipelines.commands.maintain.command import version_read
from pipelines.errors import UsageError
from pipelines.lake.engines import require_ours
from pipelines.lake.file_systems import path_part
from pipelines.lake.lake import Lake
from pipelines.lake.records import write_record
from pipelines.lake.removal import IDS, clean_log, is_writer, readable_versions, remove_rows, remove_unnamed
from pipelines.lake.retention import BRONZE
from pipelines.lake.roles import Held, hold
from pipelines.streaming.checkpoint.beginning import remove_others
from pipelines.streaming.checkpoint.query import recorded
from pipelines.streaming.dead_files import remove_tombstones
from pipelines.streaming.reconstruction import EVALUATED
from pipelines.streaming.source.closings import remove_cluster
from pipelines.streaming.tables import ROLE, TABLES
from pipelines.streaming.unfinished import RECORD, Removal, require_finished
from pipelines.verdict.words import count
from schemas import tables

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from pipelines.streaming.follow import RunSummary

ROLES = ("maintain", "check", "alerts", "notify")
Run = Callable[[str | None, Held], "RunSummary"]
"""Runs the job to the end of bronze in a role that is held; if a cluster is given, with a state that lacks it."""


def forget(lake: Lake, asked: Removal, run: Run, refuse_unknown: Callable[[], None]) -> Iterator[str]:
    """Take a cluster out of a lake and yield a line of text for each step; if killed, the next call does the rest.

    The job reads all of bronze first: rows of the cluster that it had not read would be written again afterwards.
    `refuse_unknown` raises if the lake has no such cluster. Raises RoleHeld, UsageError.
    """
    with _begun(lake, asked, ROLES, run, refuse_unknown) as (held, has_run, writers):
        yield from _take_out(lake, asked, held, run if has_run else None)
        if asked.before is None:
            yield from _remove_records(lake, asked.cluster, writers)


def rebuild(lake: Lake, cluster: str, run: Run, refuse_unknown: Callable[[], None]) -> Iterator[str]:
    """Make silver and gold of one cluster anew from its oldest row in bronze, and yield a line of text for each step.

    Bronze gets the cluster's rows in new files, which a state without the cluster reads. If killed, call it again.
    """
    if recorded(lake) is None:
        raise UsageError(f"no run has read {cluster} yet: call `hwmark run --once`")
    with _begun(lake, Removal(cluster, again=True), ROLES[:1], run, refuse_unknown) as (held, _, _):
        for name in (*TABLES, BRONZE):
            held.check()
            if lake.has_table(name):
                rows = remove_rows(lake, name, cluster, again=name == BRONZE)
                yield f"{lake.path(name)}: {count(rows, 'row')} {'to be read again' if name == BRONZE else 'removed'}"
        _run_to_end(run, cluster, held)


def _run_to_end(run: Run, cluster: str | None, held: Held) -> None:
    """Run the job. Raises UsageError if it was asked to stop: rows not read by then would be written again later."""
    if run(cluster, held).stopped:
        raise UsageError("stopped before the job had read all of bronze: call this again to do the rest")


@contextmanager
def _begun(
    lake: Lake, asked: Removal, roles: Sequence[str], run: Run, refuse_unknown: Callable[[], None]
) -> Iterator[tuple[Held, bool, list[str]]]:
    """Hold the job's role and `roles`, run the job to the end of bronze, and record the removal until it is done.

    Yields the job's role, whether the job has ever run, and the roles of the cluster's writers.
    """
    with ExitStack() as held_until:
        held = held_until.enter_context(hold(lake.root, ROLE, lake.storage_options))
        writers = [] if asked.again else _writers(lake, asked.cluster)
        for role in (*roles, *writers):
            held_until.enter_context(hold(lake.root, role, lake.storage_options))
        if require_finished(lake, asked) is None:
            refuse_unknown()
        query = recorded(lake)
        if query is not None and query.source == "delta" and asked.before is None:
            raise UsageError(
                'the state of a lake with [run] source = "delta" cannot go on without a cluster: set source = "arrow", '
                "`hwmark run --once --rebuild`, then call this again"
            )
        if lake.has_table(BRONZE):
            require_ours(lake.open(BRONZE), lake.root)
        if query is not None:  # before the removal is recorded: if the job refuses to run, no row is gone
            _run_to_end(run, None, held)
        write_record(lake, RECORD, asked)
        yield held, query is not None, writers
        lake.files().delete_file(RECORD)


def _take_out(lake: Lake, asked: Removal, held: Held, run: Run | None) -> Iterator[str]:
    """Remove the rows, then the state, then the files and versions with these rows; yield a line for each step."""
    there = [name for name in tables() if lake.has_table(name)]
    # Deliveries name alerts and incidents by their ids: these two tables come last.
    there.sort(key=lambda name: (name != BRONZE, name in IDS))
    for name in there:
        held.check()
        if rows := remove_rows(lake, name, asked.cluster, asked.before):
            yield f"{lake.path(name)}: {count(rows, 'row')} removed"
    # From here on the job compares its rows with a present that lacks the cluster.
    if run is not None:
        _run_to_end(run, asked.cluster if asked.before is None else None, held)
    if asked.before is None and (query := recorded(lake)) is not None:
        remove_others(lake, query)
        yield "state: moved to one without the cluster"
    # With `before` the cluster's writers keep their positions in the logs of the tables.
    others = None if asked.before is not None else _others(lake, asked.cluster)
    for name in there:
        held.check()
        read, versions = version_read(lake) if name == BRONZE else None, readable_versions(lake, name)
        dead = remove_tombstones(lake, name, 0, read)
        clean_log(lake, name, asked.cluster, others, read)
        removed, unread = remove_unnamed(lake, name, asked.cluster)
        dead += removed
        time_travel = f"versions {versions[0]} to {versions[-1]} could be read until now"
        yield f"{lake.path(name)}: {count(dead, 'dead file')} removed; {time_travel}"
        if unread:
            files = f"{count(len(unread), 'file')} that cannot be read, as {unread[0]}"
            yield f"left in {lake.path(name)}: {files}, and may be of any cluster"


def _writers(lake: Lake, cluster: str) -> list[str]:
    """The roles of the writers of a cluster's events, as far as the lake has their locks."""
    roles, others = (unquote(Path(entry).stem) for entry in _names(lake.files(), "_locks")), _others(lake, cluster)
    return [role for role in roles if is_writer(role, cluster, others)]


def _others(lake: Lake, cluster: str) -> list[str]:
    """The other clusters with logs that `ingest` has read."""
    return [name for entry in _names(lake.files(), "_ingest") if (name := unquote(entry)) != cluster]


def _names(files: FileSystem, folder: str) -> list[str]:
    from pyarrow.fs import FileSelector

    return [entry.base_name for entry in files.get_file_info(FileSelector(folder, allow_not_found=True))]


def _remove_records(lake: Lake, cluster: str, writers: Sequence[str]) -> Iterator[str]:
    """Remove a cluster's records beside the tables: positions in its logs, its part of the last evaluation of alerts,
    and the locks of its `writers`, which the caller holds."""
    files, folder = lake.files(), f"_ingest/{path_part(cluster)}"
    remove_cluster(lake, cluster)
    if folder.rpartition("/")[2] in _names(files, "_ingest"):
        files.delete_dir(folder)
    if EVALUATED.rpartition("/")[2] in _names(files, "_alerts"):
        leave_out(lake, cluster)
    for role in writers:
        for kind in ("lock", "lease"):
            if (name := f"{path_part(role, safe=':')}.{kind}") in _names(files, "_locks"):
                files.delete_file(f"_locks/{name}")
    yield f"removed the positions in the logs of {cluster} and its part of the last evaluation of alerts"
    if kept := _names(files, "_run/skipped"):
        yield f"left in _run/skipped: {count(len(kept), 'file')} that cannot be read, and may be of any cluster"
