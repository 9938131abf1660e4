"""What a run of the job is asked to do, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.errors import UsageError
from pipelines.streaming.tables import GOLD_RETENTION_S, LOG_RETENTION_S

SOURCES = ("arrow", "delta")
INTERVAL_S = 10.0


@dataclass(frozen=True)
class RunOptions:
    """What a run is asked to do, then how the job works; UsageError where options do not go together."""

    once: bool = True
    """To the end of bronze; else, or with an `interval` (seconds), on and on."""
    interval: float | None = None
    drain: bool = False
    """Closes all sources first."""
    rebuild: bool = False
    """Starts silver and gold anew from bronze."""
    reshard: int | None = None
    """Moves the state of the lake to so many buckets."""
    forget: str | None = None
    """A cluster of which the state is to know nothing any more."""
    accept_removal: int | None = None
    """A version of bronze that took rows out and may be read past from now on."""
    skip_files: Sequence[str] = ()
    """Files of bronze that cannot be read and are not from now on."""

    buckets: int | None = None
    """Shards of the state of a new lake, by default one for each of `shuffle_partitions`."""
    master: str = "local[2]"
    shuffle_partitions: int = 2
    """Tasks; for a lake that is there any number that divides its buckets."""
    source: str = "arrow"
    """How bronze is read, one of SOURCES."""
    jars_dir: str | None = None
    max_bytes_per_trigger: str = "256m"
    max_rows_per_trigger: int = 8_000_000
    gold_interval_s: float | None = None
    """Seconds between writes of the gold tables, by default every batch of a run `once` and 10 s else."""
    gold_retention_s: float = GOLD_RETENTION_S
    """Seconds for which a file of gold that was replaced is kept."""
    log_retention_s: float = LOG_RETENTION_S
    """Seconds for which the log of the other tables is kept."""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    log_file: str | None = None

    def __post_init__(self) -> None:
        if self.skip_files and self.source != "arrow":
            raise UsageError(
                '--skip-file is for source = "arrow"; with source = "delta" it would not leave the file out'
            )
        if self.reshard is not None and self.rebuild:
            raise UsageError(
                f"--rebuild needs no --reshard {self.reshard}: it begins with any number of buckets, --buckets"
            )
        if self.reshard is not None and self.buckets not in (None, self.reshard):
            raise UsageError(
                f"--reshard is {self.reshard} and buckets is {self.buckets}: "
                f"set buckets to {self.reshard}, or leave it out"
            )

    @property
    def continuous(self) -> bool:
        """Whether it goes on after the end of the data."""
        return self.interval is not None or not self.once

    @property
    def every_s(self) -> float:
        """Seconds between batches of a continuous run."""
        return self.interval or INTERVAL_S

    @property
    def health_every_s(self) -> float:
        """Seconds between writes of the gold tables, 0 for every batch."""
        if self.gold_interval_s is not None:
            return self.gold_interval_s
        return 10.0 if self.continuous else 0.0
