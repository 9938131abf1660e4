"""Checks of names: a mistyped cluster, topic or partition is an error with the nearest known one."""

from __future__ import annotations

from typing import Any

from pipelines.errors import UsageError, nearest
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, View, select_rows, text
from pipelines.streaming.source.unread import bronze_of
from schemas import partition_health, quality_results


class UnknownNameError(UsageError):
    """A lake knows no cluster, topic, partition, broker or alert of that name."""


def refuse_unwritten(lake: Lake, view: View) -> None:
    """Raise UsageError for an absent table where its writer has not been; where it has, absent is empty."""
    if lake.find(view.table) is not None:
        return
    witness = quality_results.TABLE if view.written_by == "check" else partition_health.TABLE
    if view.table is witness or lake.find(witness) is None:
        raise UsageError(
            f"there is no {view.table.path} in {lake.root} yet; `hwmark {view.written_by} --lake {lake.root}` writes it"
        )


def refuse_unknown(lake: Lake, wanted: Filter) -> None:
    """Raise UnknownNameError naming the nearest where the lake knows no such cluster, topic or partition."""
    among = "true"
    for name, asked in (("cluster", wanted.cluster), ("topic", wanted.topic), ("partition", wanted.partition)):
        if asked is None:
            continue
        sql = f"SELECT DISTINCT {name} AS name FROM t WHERE {among}"
        known = {row["name"] for row in select_rows(lake, partition_health.TABLE, sql)}
        if asked not in known:
            _refuse(lake, wanted, name, known)
        among = f"{among} AND {name} = {text(asked) if isinstance(asked, str) else asked}"


def _refuse(lake: Lake, wanted: Filter, name: str, known: set[Any]) -> None:
    """Raise UnknownNameError, unless it is a cluster of which bronze has something that was never judged."""
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
    raise UnknownNameError(f"{words}; {near}{unread}")
