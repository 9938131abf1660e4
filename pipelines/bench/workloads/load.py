"""Steady replication telemetry in bulk, for benchmarks: seeded, vectorised, straight into Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipelines.bench.workloads.load_columns import APPEND, FETCH, LEADER, PROGRESS, Numbers, Rows, joined, table
from pipelines.bench.workloads.stalls import Stalls

START_US = 1_795_000_000_000_000
SECOND_US = 1_000_000
_BEHIND = 0.1
"""Share of fetches that leave some of the newest records to the next one."""
_JITTER_US = 300_000


def rounds(
    partitions: int,
    seconds: int,
    *,
    brokers: int = 12,
    seed: int = 1,
    step: int = 10,
    appends: int = 1,
    stalled: float = 0.0,
    start_us: int = START_US,
) -> Iterator[pa.Table]:
    """Tables of events, `step` seconds each: every partition appends `appends` times a second, both followers fetch.

    Leaders spread over `brokers`; each broker is one source, which reports its progress at the end of each second
    and, so that all of it can be final, one second after the last. The first table begins with a `leader` event per
    partition. 3 x `appends` events per partition and second; a share `stalled` of the partitions has a follower that
    falls out of sync and comes back, once in every `stalls.EPOCH_S` seconds that end before the load does.
    """
    random = np.random.default_rng(seed)
    brokers = min(brokers, partitions)
    leader = np.arange(partitions) % brokers
    numbers = Numbers(partitions, brokers)
    stalls = Stalls(leader, brokers, stalled, seconds, seed)
    leo = np.zeros(partitions, dtype=np.int64)
    for first in range(0, seconds, step):
        parts = [_leaders(leader, start_us)] if first == 0 else []
        for second in range(first, min(seconds, first + step)):
            stalls.begin(second, leo)
            for slot in range(appends):
                begun = start_us + (second + 1) * SECOND_US + slot * SECOND_US // appends
                at = begun + random.integers(0, _JITTER_US // appends, partitions)
                grown = leo + random.integers(1, 20, partitions)
                parts += _appended(random, at, leader, leo, grown, stalls.fetching)
                parts += stalls.rows(slot, at, grown)
                leo = grown
            parts.append(_progress(start_us, second, brokers))
        if first + step >= seconds:
            parts.append(_progress(start_us, seconds, brokers))
        yield table(joined(parts), numbers)


def _leaders(leader: np.ndarray, start_us: int) -> Rows:
    zeros = np.zeros(len(leader), dtype=np.int64)
    return {
        "ts": zeros + start_us, "broker": leader, "partition": np.arange(len(leader)), "kind": zeros + LEADER,
        "leo": zeros, "leader_leo": zeros,
    }  # fmt: skip


def _appended(
    random: np.random.Generator,
    at: np.ndarray,
    leader: np.ndarray,
    leo: np.ndarray,
    grown: np.ndarray,
    fetching: np.ndarray,
) -> list[Rows]:
    """One append of every partition, and the fetches of its two followers; the first only where it is `fetching`."""
    count, brokers = len(leader), int(leader.max()) + 1
    base = {"broker": leader, "partition": np.arange(count), "leader_leo": grown}
    parts = [base | {"ts": at, "kind": np.full(count, APPEND)}]
    for k in (1, 2):
        left = np.where(random.random(count) < _BEHIND, random.integers(0, 20, count), 0)
        fetch = {"ts": at + 5_000 * k, "kind": np.full(count, FETCH), "leo": np.maximum(leo, grown - left)}
        rows = base | fetch | {"replica": (leader + k) % brokers}
        parts.append(rows if k == 2 or fetching.all() else {n: c[fetching] for n, c in rows.items()})
    return parts


def _progress(start_us: int, second: int, brokers: int) -> Rows:
    """A row of each broker at the last moment of a second."""
    return {
        "ts": np.full(brokers, start_us + (second + 2) * SECOND_US - 1), "broker": np.arange(brokers),
        "partition": np.full(brokers, -1), "kind": np.full(brokers, PROGRESS),
    }  # fmt: skip
