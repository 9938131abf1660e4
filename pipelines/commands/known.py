"""What a lake knows: a mistyped lake, cluster, topic or partition is an error that names the nearest."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pipelines.errors import UsageError, nearest
from pipelines.lake.file_systems import local_path
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, View, query, text
from pipelines.streaming.source.unread import bronze_of
from schemas import partition_health, quality_results, tables

WRITERS = "`hwmark ingest logs` and `hwmark simulate` create one"


def require_lake(path: str, storage_options: Mapping[str, str]) -> None:
    """Raises UsageError where there is no table of a lake: only who writes events creates one."""
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


def refuse_unwritten(lake: Lake, view: View) -> None:
    """Raises UsageError for an absent table where its writer has not been; where it has, absent is empty."""
    if lake.find(view.table) is not None:
        return
    witness = quality_results.TABLE if view.written_by == "check" else partition_health.TABLE
    if view.table is witness or lake.find(witness) is None:
        raise UsageError(
            f"there is no {view.table.path} in {lake.root} yet; `hwmark {view.written_by} --lake {lake.root}` writes it"
        )


def refuse_unknown(lake: Lake, wanted: Filter) -> None:
    """Raises UsageError naming the nearest where the lake knows no such cluster, topic or partition."""
    health = lake.find(partition_health.TABLE)
    among = "true"
    for name, asked in (("cluster", wanted.cluster), ("topic", wanted.topic), ("partition", wanted.partition)):
        if asked is None:
            continue
        sql = f"SELECT DISTINCT {name} AS name FROM t WHERE {among}"
        known = {row["name"] for row in query(health, sql)} if health else set()
        if asked not in known:
            _refuse(lake, wanted, name, known)
        among = f"{among} AND {name} = {text(asked) if isinstance(asked, str) else asked}"


def _refuse(lake: Lake, wanted: Filter, name: str, known: set[Any]) -> None:
    """Raises UsageError, unless it is a cluster of which bronze has something that was never judged."""
    bronze = bronze_of(lake)
    if name == "cluster":
        known |= bronze.clusters
        if wanted.cluster in known:
            return
    words = f"{lake.root} knows no {name} {getattr(wanted, name)}"
    if name == "partition":
        words += f" of {wanted.topic}" if wanted.topic else ""
        close = sorted(known, key=lambda number: (abs(number - (wanted.partition or 0)), number))
        near = f"did you mean {f'{wanted.topic}-' if wanted.topic else ''}{close[0]}?" if close else "none is known"
    else:
        near = nearest(getattr(wanted, name), known)
    unread = "; what `hwmark run` has not read yet may have it" if bronze.backlogs else ""
    raise UsageError(f"{words}; {near}{unread}")
