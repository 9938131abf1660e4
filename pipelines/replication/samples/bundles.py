"""The arguments of the rules for samples: a partition, its rows, rounds, and room for new facts."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.replication.compiled.decorators import hot, kernel, part
from pipelines.replication.compiled.records import Record, RecordArray, copy_record
from pipelines.replication.compiled.types import I32, I64

LEAST_ROOM = 4


class Heap(NamedTuple):
    """Records of one kind of all partitions: `spans` by partition, and where the free ones begin."""

    spans: RecordArray
    rows: RecordArray
    used: I64


class Store(NamedTuple):
    """All sampled partitions, and what they have of each kind."""

    records: RecordArray
    members: Heap
    steps: Heap
    terms: Heap
    isrs: Heap
    hws: Heap


class Present(NamedTuple):
    """One partition: its record (an array of one), and of each kind its records with room for more."""

    record: RecordArray
    members: RecordArray
    steps: RecordArray
    terms: RecordArray
    isrs: RecordArray
    hws: RecordArray


class Rows(NamedTuple):
    """Rows of ROWS, and what their lists hold."""

    rows: RecordArray
    isr: I32
    assigned: I32


class Instants(NamedTuple):
    """By key, cluster << 32 | broker, ascending: times, ts[begin[k]:begin[k + 1]], and up to when each says all."""

    keys: I64
    begin: I64
    ts: I64
    upto: I64


class Rounds(NamedTuple):
    """When brokers answered a round in full, and when they had not answered rounds before."""

    answered: Instants
    missed: Instants


class Counts(NamedTuple):
    """The number of facts of each kind in Found, as arrays of one."""

    hw: I64
    sync: I64
    led: I64
    predicted: I64
    cut: I64


class Found(NamedTuple):
    """Facts: rows of HW_ROWS, how far their times may be off, rows of SYNC_ROWS, of LED, of PREDICTED and of CUT."""

    hw: RecordArray
    errors: I64
    sync: RecordArray
    led: RecordArray
    predicted: RecordArray
    cut: RecordArray
    counts: Counts


@part
def view(heap: Heap, record: int) -> RecordArray:
    """The records of a partition, with the room behind them."""
    at = heap.spans[record].at
    return heap.rows[at : at + heap.spans[record].room]


@hot
def make_room(heap: Heap, record: int, count: int, wanted: int) -> bool:
    """Whether the `count` records of a partition have room to become `wanted`; they may move for that."""
    span = heap.spans[record]
    if span.room >= wanted:
        return True
    room = max(LEAST_ROOM, 2 * span.room)
    while room < wanted:
        room *= 2
    at = heap.used[0]
    if at + room > len(heap.rows):
        return False
    for k in range(count):
        copy_record(heap.rows[at + k], heap.rows[span.at + k])
    span.at, span.room = at, room
    heap.used[0] = at + room
    return True


@part
def get_present(store: Store, record: int) -> Present:
    """A partition, to be read and written in place."""
    return Present(
        store.records[record : record + 1],
        view(store.members, record), view(store.steps, record), view(store.terms, record),
        view(store.isrs, record), view(store.hws, record),
    )  # fmt: skip


@kernel
def last_by(instants: Instants, cluster: int, broker: int, now: int) -> int:
    """The index of a broker's last time by `now`, -1 if there is none."""
    key = (cluster << 32) | broker
    low, high = 0, len(instants.keys)
    while low < high:
        middle = (low + high) >> 1
        if instants.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low == len(instants.keys) or instants.keys[low] != key:
        return -1
    first, last = instants.begin[low], instants.begin[low + 1]
    begin = first
    while first < last:
        middle = (first + last) >> 1
        if instants.ts[middle] <= now:
            first = middle + 1
        else:
            last = middle
    return int(first - 1) if first > begin else -1


@hot
def last_round(rounds: Rounds, cluster: int, broker: int, now: int) -> int:
    """The last instant by `now` up to which every answer of a broker is known, -1 if there is none."""
    at = last_by(rounds.answered, cluster, broker, now)
    return int(rounds.answered.upto[at]) if at >= 0 else -1


@hot
def answered_always(rounds: Rounds, cluster: int, broker: int, after: int, until: int) -> bool:
    """Whether a broker answered every round in (after, until]."""
    at = last_by(rounds.missed, cluster, broker, until)
    return at < 0 or rounds.missed.ts[at] <= after


@hot
def find_member(one: Present, broker: int) -> int:
    """The entry of a replica, -1 if it has none."""
    if broker < 0:  # vacant entries have -1
        return -1
    for k in range(one.record[0].members):
        if one.members[k].broker == broker:
            return k
    return -1


@hot
def forget_member(member: Record) -> None:
    """Forget the samples of a replica."""
    member.answers = member.first = member.leo = member.since = member.fetched = -1
    member.out_of_sync = 0
