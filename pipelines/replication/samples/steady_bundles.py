"""What the compiled rules for samples take: a partition, its samples, rounds, and room for what is found."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.replication.compiled.decorators import hot
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I32, I64


class Samples(NamedTuple):
    """Rows of SAMPLES, and what their lists hold."""

    rows: Records
    isr: I32
    assigned: I32


class Rounds(NamedTuple):
    """By key, cluster << 32 | broker, ascending: when rounds were answered, ts[begin[k]:begin[k + 1]], and up to when
    each says all."""

    keys: I64
    begin: I64
    ts: I64
    upto: I64


class Found(NamedTuple):
    """Rows of HW_ROWS, SYNC_ROWS and HWS, and how many there are of each."""

    hw: Records
    sync: Records
    hws: Records
    counts: I64


class Present(NamedTuple):
    """One partition while its rows are read: its record, members and steps."""

    of: I64
    members: Records
    steps: Records


@hot
def last_round(rounds: Rounds, cluster: int, broker: int, now: int) -> int:
    """`Watched.last_round`."""
    key = (cluster << 32) | broker
    low, high = 0, len(rounds.keys)
    while low < high:
        middle = (low + high) >> 1
        if rounds.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low == len(rounds.keys) or rounds.keys[low] != key:
        return -1
    first, last = rounds.begin[low], rounds.begin[low + 1]
    begin = first
    while first < last:
        middle = (first + last) >> 1
        if rounds.ts[middle] <= now:
            first = middle + 1
        else:
            last = middle
    return int(rounds.upto[first - 1]) if first > begin else -1
