"""What the logs of a lake say afterwards: when which commit of bronze stood in gold, partition by partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.lake.delta_log import actions
from pipelines.lake.file_systems import file_system
from pipelines.streaming.source.bronze_log import last_version_read
from schemas import partition_health, replication_events

SAMPLED = 20
"""One partition in so many is looked at."""
KEY = ["topic", "partition"]


@dataclass(frozen=True)
class Commit:
    """One version of a table: when it stood there, the files it added, and the writers' versions."""

    version: int
    at: float
    files: tuple[str, ...]
    writers: dict[str, int]


def commits(table: Path) -> Iterator[Commit]:
    """The versions of a table that added files, in order; the time is that of the log's file."""
    folder = file_system(str(table))
    for file in sorted((table / "_delta_log").glob("*.json")):
        commit = actions(folder, int(file.stem))
        files = tuple(a["add"]["path"] for a in commit if "add" in a)
        writers = {a["txn"]["appId"]: int(a["txn"]["version"]) for a in commit if "txn" in a}
        if files:
            yield Commit(int(file.stem), file.stat().st_mtime, files, writers)


@dataclass(frozen=True)
class Arrivals:
    """Per commit of bronze and partition looked at: events, seconds until gold had them, and whether they waited.

    They waited where a batch had read them and its gold did not have them yet: for what another source had to report.
    """

    events: np.ndarray
    seconds: np.ndarray
    waited: np.ndarray
    lost: int
    """Events that gold never had: the run ended before."""


def arrivals(lake: Path, checkpoint: Path, app: str, first: int) -> Arrivals:
    """Of all commits of writer `app` from its version `first` on."""
    read = _versions_read(checkpoint)
    bronze, gold = lake / replication_events.TABLE.path, lake / partition_health.TABLE.path
    written = [(c, max(c.writers.values())) for c in commits(gold) if c.writers]
    if cleared := {batch for _, batch in written} - set(read):
        raise RuntimeError(f"what batch {min(cleared)} read is not known any more: its offsets were cleared away")
    states = [(commit.at, read[batch], _told(gold, commit)) for commit, batch in written]
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for commit in commits(bronze):
        if first <= commit.writers.get(app, -1):
            parts.append(_reached(commit, _appended(bronze, commit), states))
    events, seconds, waited = (np.concatenate(c) for c in zip(*parts, strict=True)) if parts else (np.zeros(0),) * 3
    there = np.isfinite(seconds)
    return Arrivals(events[there], seconds[there], waited[there].astype(bool), int(events[~there].sum()))


def _versions_read(checkpoint: Path) -> dict[int, int]:
    """The last version of bronze that each batch has read."""
    found = {}
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        offset = json.loads(file.read_text().splitlines()[-1])
        found[int(file.name)] = last_version_read(offset)
    return found


def _told(gold: Path, commit: Commit) -> dict[tuple[str, int], int]:
    """Of the partitions looked at, the time of the last event that gold has."""
    rows = _sampled(pa.concat_tables(pq.read_table(gold / f, columns=[*KEY, "last_event_ts"]) for f in commit.files))
    return dict(zip(_keys(rows), rows["last_event_ts"].cast(pa.int64()).to_pylist(), strict=True))


def _appended(bronze: Path, commit: Commit) -> pa.Table:
    """Per partition looked at: events of a commit, and the time of the last."""
    rows = _sampled(pa.concat_tables(pq.read_table(bronze / f, columns=[*KEY, "ts"]) for f in commit.files))
    return rows.group_by(KEY).aggregate([("ts", "max"), ("ts", "count")])


def _sampled(rows: pa.Table) -> pa.Table:
    number = rows["partition"]
    chosen = pc.equal(pc.subtract(number, pc.multiply(pc.divide(number, SAMPLED), SAMPLED)), 0)
    return rows.filter(chosen)


def _keys(rows: pa.Table) -> list[tuple[str, int]]:
    return list(zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True))


def _reached(commit: Commit, appended: pa.Table, states: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(events, seconds or infinity, whether they waited) of each partition of a commit."""
    keys, last = _keys(appended), appended["ts_max"].cast(pa.int64()).to_pylist()
    seconds, waited = np.full(len(keys), np.inf), np.zeros(len(keys), dtype=np.int8)
    for at, upto, known in states:
        if upto < commit.version:
            continue
        for k in np.flatnonzero(~np.isfinite(seconds)):
            if known.get(keys[k], -1) >= last[k]:
                seconds[k] = at - commit.at
            else:
                waited[k] = 1
        if np.isfinite(seconds).all():
            break
    return appended["ts_count"].to_numpy(), seconds, waited
