"""The types of events in `bronze/replication_events`, and what a row of each must hold."""

REQUIRED: dict[str, tuple[str, ...]] = {
    "leader": ("leader_epoch", "leo", "hw", "isr"),
    "follower": ("leo", "hw"),
    "election": ("leader_id", "leader_epoch"),
    "append": ("leader_leo",),
    "fetch": ("replica_id", "leo"),
    "hw": ("replica_id", "hw"),
    "isr_proposed": ("isr",),
    "isr": ("isr",),
    "isr_rejected": (),
    "truncate": ("replica_id", "leo"),
    "broker_state": ("replica_id",),
    "config": (),
    "replica_leo": ("replica_id", "leo"),
    "progress": (),
    "lost": (),
}
"""Event types, and the columns that must not be null in each. State and compiled code number them in this order."""
EVENT_TYPES = tuple(REQUIRED)

DETAILS = {
    "broker_state": ("started", "controlled_shutdown", "fenced", "unfenced", "unregistered", "log_dir_offline"),
    "isr": ("alter_partition", "metadata", "controller"),
    "isr_proposed": ("shrink", "expand"),
}
"""The values of `detail`, for the event types where it carries meaning."""
