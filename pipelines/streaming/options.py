"""The options of a run of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.errors import UsageError
from pipelines.streaming.tables import GOLD_RETENTION_S, LOG_RETENTION_S

SOURCES = ("arrow", "delta")
INTERVAL_S = 10.0


@dataclass(frozen=True)
class RunOptions:
    """The options of a run. Raises UsageError if some exclude each other."""

    once: bool = True
    """Run to the end of bronze; without it, or with an `interval` (seconds), without end."""
    interval: float | None = None
    drain: bool = False
    """Close all sources first."""
    rebuild: bool = False
    """Rebuild silver and gold from bronze."""
    reshard: int | None = None
    """Move the lake's state to this number of buckets."""
    forget: str | None = None
    """A cluster to remove from the state."""
    accept_removal: int | None = None
    """A version of bronze that removed rows and that the job may read past from now on."""
    skip_files: Sequence[str] = ()
    """Unreadable files of bronze to skip from now on."""

    buckets: int | None = None
    """The shards of a new lake's state, by default one for each of `shuffle_partitions`."""
    master: str = "local[2]"
    shuffle_partitions: int = 2
    """The number of tasks; in an existing lake it must divide the buckets."""
    source: str = "arrow"
    """The source by which bronze is read, one of SOURCES."""
    jars_dir: str | None = None
    max_bytes_per_trigger: str = "256m"
    max_rows_per_trigger: int = 8_000_000
    gold_interval_s: float | None = None
    """Seconds between writes of the gold tables; by default each batch of a run `once`, else 10 s."""
    gold_retention_s: float = GOLD_RETENTION_S
    """Seconds for which a replaced file of gold is kept."""
    log_retention_s: float = LOG_RETENTION_S
    """Seconds for which the other tables' logs are kept."""
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
        """Whether the job goes on after the end of the data."""
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
