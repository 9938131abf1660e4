"""What the rounds are told by, and what they tell: their course, and rows of telemetry."""

from __future__ import annotations

from typing import NamedTuple

from generators.simulator.fleet.arrangement import SEQ, Live
from generators.simulator.fleet.compiled import F64, I8, I32, I64, kernel

APPEND, FETCH, HW_ROW = range(3)
TYPES = ("append", "fetch", "hw")


class Course(NamedTuple):
    """How brokers fetch and producers write; microseconds where nothing else is said."""

    start: int
    """Since 1970; times of the fleet count from here."""
    passed: int
    """What had passed of the brokers' time by then."""
    network_low: int
    network_high: int
    wait_max: int
    most: int
    """Records that one fetch takes from one partition."""
    tell_unchanged: int
    """A fetch that changes nothing is told once it has been so long since the last one told of its follower."""
    sweep: int
    """How often followers are looked at for that."""
    records_low: int
    records_high: int
    strict: bool
    """`Version.strict_min_isr`"""
    shape: F64
    """[load, tenth of a second]: the share of their rate at which partitions are written to, over and over."""
    skew: I64
    drift: F64
    """Of the brokers' clocks, ppm."""
    broker: I32
    """Their ids."""


class Rows(NamedTuple):
    """Telemetry as it is told, one row each. `offset`: LEO of the follower (FETCH) or HW (HW_ROW).

    `leader_leo` of an HW_ROW is the HW before.
    """

    kind: I8
    ts: I64
    partition: I32
    """Position in the layout."""
    replica: I32
    offset: I64
    leader_leo: I64
    seq: I64


@kernel
def clock(course: Course, broker: int, at: int) -> int:
    """What the clock of a broker shows, milliseconds since 1970 (BrokerClock.ms)."""
    shown: int = (
        course.start + at + course.skew[broker] + int((course.passed + at) * course.drift[broker] / 1e6)
    ) // 1000
    return shown


@kernel
def tell(
    live: Live, rows: Rows, n: int, kind: int, now: int, p: int, replica: int, offset: int, leader_leo: int
) -> int:  # fmt: skip
    """One row, at `now` on the clock of the leader: whole milliseconds, as Kafka's clocks have them."""
    rows.kind[n] = kind
    rows.ts[n] = now * 1000
    rows.partition[n] = p
    rows.replica[n] = replica
    rows.offset[n] = offset
    rows.leader_leo[n] = leader_leo
    rows.seq[n] = live.partition[p, SEQ]
    live.partition[p, SEQ] += 1
    return n + 1
