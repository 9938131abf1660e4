"""The settings of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from generators.simulator.cluster.versions import VERSIONS, Version


class Retention(NamedTuple):
    """log.retention.bytes and log.segment.bytes, for records of one size each."""

    most_bytes: int
    segment_bytes: int
    record_bytes: int

    def start(self, start: int, leo: int, hw: int) -> int:
        """The log start after a check: the rule of SegmentedLog.retain, with segments of so many records each.

        A segment goes while without it `most_bytes` are left; none with an offset at or above the HW.
        """
        records = max(1, self.segment_bytes // self.record_bytes)
        end = (start // records + 1) * records
        while end <= min(hw, leo) and (leo - end) * self.record_bytes >= self.most_bytes:
            start, end = end, end + records
        return start


MS = 1_000
SECOND = 1_000_000
NEVER = 1 << 62
"""A time (microseconds) that does not come."""
START = 1_767_225_600 * SECOND
"""2026-01-01 00:00:00 UTC: clocks start far from 0, or `last caught up = 0` would not be long ago."""


LOADED = {"expand": (28_000, 230_000), "shrink": (100_000, 4_400_000)}
"""ISR changes of an overloaded machine: 30 to 254 ms and 0.1 to 4.5 s from proposal to commit."""


@dataclass(frozen=True)
class Topic:
    """A topic to be created; replicas go round the brokers unless `assignment` names them, partition by partition."""

    name: str
    partitions: int = 1
    replication_factor: int = 3
    min_isr: int = 1
    unclean: bool = False
    assignment: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Clock:
    """A broker's wrong clock: off by `skew_us` from the start, and by `drift_ppm` of the time that passes."""

    skew_us: int = 0
    drift_ppm: float = 0.0


@dataclass(frozen=True)
class Settings:
    """A cluster. Times in milliseconds are Kafka's settings of the same name; ranges are drawn from evenly.

    `automatic=False`: nothing happens by itself (no fetch, heartbeat, check or checkpoint): a script moves every step,
    and messages take no time.
    """

    cluster: str = "simulated"
    seed: int = 1
    brokers: tuple[int, ...] = (1, 2, 3)
    topics: tuple[Topic, ...] = (Topic("orders"),)
    version: Version = VERSIONS["4.1"]
    versions: dict[int, Version] = field(default_factory=dict)
    """Brokers that run another version than `version` (rolling upgrades)."""
    racks: dict[int, str] = field(default_factory=dict)
    """Of brokers that have one (broker.rack)."""
    clocks: dict[int, Clock] = field(default_factory=dict)
    start: int = START
    automatic: bool = True

    lag_max_ms: int = 30_000
    lag_max_messages: int = 4_000
    fetch_wait_max_ms: int = 500
    fetch_backoff_ms: int = 1_000
    fetch_max_records: int = 1_000
    """Records that one fetch takes from one partition (replica.fetch.max.bytes)."""
    checkpoint_ms: int = 5_000
    flush_ms: int = 60_000
    heartbeat_ms: int = 2_000
    session_timeout_ms: int = 9_000
    preferred_election_ms: int = 300_000
    unclean_election_ms: int = 300_000
    network_us: tuple[int, int] = (200, 2_000)
    """One way between two brokers."""
    controller_us: tuple[int, int] = (1_000, 20_000)
    """From a request to the controller until its record is committed."""
    alter_us: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By kind of proposal, `shrink` or `expand`: from a leader's request until the controller handles it; where it is
    not given, a message and `controller_us` (see LOADED)."""
    metadata_us: tuple[int, int] = (500, 20_000)
    """From a committed record until a broker has applied it."""
    alter_partition_errors: float = 0.0
    """Share of AlterPartition requests that the controller refuses with a transient error."""
    thread_stalls: float = 0.0
    """Share of fetches whose thread is suspended for `stall_us` between the HW's line and its own."""
    thread_overtakes: float = 0.0
    """Share of fetches whose lines are printed `late_us` late, so that those of others may come first."""
    stall_us: tuple[int, int] = (100_000, 5_000_000)
    late_us: tuple[int, int] = (1_000, 30_000)
    elr: bool | None = None
    """Eligible leader replicas on or off (eligible.leader.replicas.version); None: as new clusters of the version."""
    log_dirs: int = 1
    """Log directories of a broker, each on a disk of its own (JBOD)."""
    retention: Retention | None = None
    """Deletes whole segments at leaders; None: logs keep everything."""
    retention_check_ms: int = 300_000
    controllers: tuple[int, ...] = (3000,)
    """Their ids: the first is active at the start; those that are also brokers share their process (combined mode)."""
