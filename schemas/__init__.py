"""The tables of a lake, one module each: columns, types and words as data."""

from importlib import import_module

from schemas.declaration import Table

MODULES = (
    "replication_events",
    "quarantine",
    "partition_hw",
    "isr_changes",
    "replica_sync",
    "hw_regressions",
    "replica_hw",
    "minute_stats",
    "telemetry_gaps",
    "coverage",
    "partition_health",
    "partition_changes",
    "cluster_minute",
    "broker_minute",
    "timeline",
    "brokers",
    "broker_lag",
    "replica_lag",
    "quality_results",
    "alerts",
    "deliveries",
    "notes",
    "incidents",
    "downtimes",
    "audits",
)


def tables() -> dict[str, Table]:
    """Every table of a lake by module name, bronze first."""
    return {name: import_module(f"schemas.{name}").TABLE for name in MODULES}


TRUTH = ("truth_hw", "truth_isr", "truth_out_of_sync", "truth_regressions", "truth_records")


def truths() -> dict[str, Table]:
    """Every table of what really happened in a simulated cluster, by module name; no tables of a lake."""
    return {name: import_module(f"schemas.{name}").TABLE for name in TRUTH}
