"""Input and output of the rounds: parameters of a run, and rows of telemetry."""

from __future__ import annotations

from typing import NamedTuple

from generators.simulator.fleet.arrangement import SEQ, Live
from generators.simulator.fleet.compiled import F64, I8, I32, I64, kernel

APPEND, FETCH, HW_ROW = range(3)
TYPES = ("append", "fetch", "hw")


class RunParameters(NamedTuple):
    """How brokers fetch and producers write; microseconds where nothing else is stated."""

    start: int
    """Since 1970; times of the fleet count from here."""
    passed: int
    """Time of the brokers' clocks that had passed by then."""
    network_low: int
    network_high: int
    wait_max: int
    most: int
    """Records that one fetch takes from one partition."""
    emit_unchanged: int
    """A fetch that changes nothing gets a row when its follower has had none for so long."""
    sweep: int
    """Interval at which followers are checked for that."""
    records_low: int
    records_high: int
    strict: bool
    """`Version.strict_min_isr`"""
    shape: F64
    """[load, tenth of a second]: the share of their rate at which partitions are written to, repeated."""
    skew: I64
    drift: F64
    """Of the brokers' clocks, ppm."""
    broker: I32
    """Their ids."""


class Rows(NamedTuple):
    """Rows of telemetry. `offset`: LEO of the follower (FETCH) or HW (HW_ROW).

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


class Row(NamedTuple):
    """One row of Rows without `seq`; `ms` is the leader's clock in whole milliseconds, as Kafka's clocks have them."""

    kind: int
    ms: int
    partition: int
    replica: int
    offset: int
    leader_leo: int


@kernel
def clock(parameters: RunParameters, broker: int, at: int) -> int:
    """The clock of a broker in milliseconds since 1970 (BrokerClock.ms)."""
    shown: int = (
        parameters.start + at + parameters.skew[broker] + int((parameters.passed + at) * parameters.drift[broker] / 1e6)
    ) // 1000
    return shown


@kernel
def append_row(live: Live, rows: Rows, count: int, row: Row) -> int:
    """Write `row` after rows[:count]; returns the number of rows then."""
    rows.kind[count] = row.kind
    rows.ts[count] = row.ms * 1000
    rows.partition[count] = row.partition
    rows.replica[count] = row.replica
    rows.offset[count] = row.offset
    rows.leader_leo[count] = row.leader_leo
    rows.seq[count] = live.partition[row.partition, SEQ]
    live.partition[row.partition, SEQ] += 1
    return count + 1
