"""State of the term machines. A lane is one broker's view of one partition: it leads there, or led.

Sets of replicas are bit masks over the lane's slots; a slot is given to a replica id for good.
"""

from __future__ import annotations

from pipelines.replication.columns import NULL, NULL32

IDLE, LEADING, MIDFLIGHT = 0, 1, 2
"""Not leading; leading since a told `leader` event; seen leading, but its start was not told."""
IN_SYNC, LAGGING, OUT_OF_SYNC = 0, 1, 2
NEVER = 1 << 62
"""A deadline that does not come."""
SLOTS = 4
"""Replica slots per lane to begin with; doubled for all lanes when one needs more."""

LANE_FIELDS: dict[str, tuple[str, int]] = {
    "partition": ("i4", -1),
    "broker": ("i4", -1),
    "topic": ("i4", -1),
    "cluster": ("i4", -1),
    "home": ("i4", -1),
    "state": ("i1", IDLE),
    "level": ("i1", 0),
    "frozen": ("i1", 0),
    "leader_epoch": ("i4", NULL32),
    "partition_epoch": ("i4", NULL32),
    "topic_id": ("i4", -1),
    "deposed": ("i1", 0),
    "term_start": ("i8", NULL),
    "start_offset": ("i8", NULL),
    "hw": ("i8", NULL),
    "leader_leo": ("i8", NULL),
    "reported": ("i8", NULL),
    "agreed": ("i8", NULL),
    "low_reports": ("i4", 0),
    "isr": ("i8", 0),
    "isr_known": ("i1", 0),
    "joining": ("i8", 0),
    "assigned": ("i8", 0),
    "assigned_count": ("i4", 0),
    "held": ("i8", 0),
    "told_min_isr": ("i4", NULL32),
    "min_isr": ("i4", NULL32),
    "lag_max": ("i8", NULL),
    "deadline": ("i8", NEVER),
    "last_ts": ("i8", -1),
    "witness": ("i8", NULL),
    "witness_ts": ("i8", NULL),
    "append_ts": ("i8", NULL),
    "append_leo": ("i8", NULL),
    "stalled_since": ("i8", NULL),
    "carried": ("i4", 0),
    "carried_reports": ("i4", 0),
    "slots": ("i1", 0),
}


REPLICA_FIELDS: dict[str, tuple[str, int]] = {
    "id": ("i4", NULL32),
    "leo": ("i8", -1),
    "last_fetch_leader_leo": ("i8", 0),
    "last_fetch": ("i8", 0),
    "caught_up": ("i8", NULL),
    "broker_epoch": ("i8", NULL),
    "sync": ("i1", IN_SYNC),
    "due": ("i8", NEVER),
}


HW_FIELDS: dict[str, tuple[str, int]] = {
    "lane": ("i4", -1),
    "ts": ("i8", NULL),
    "kind": ("i1", 0),
    "hw": ("i8", NULL),
    "reported": ("i8", NULL),
    "leader_leo": ("i8", NULL),
    "isr": ("i8", 0),
    "holding": ("i8", 0),
    "frozen": ("i1", 0),
    "agreement": ("i1", 0),
    "leader_epoch": ("i4", NULL32),
    "topic_id": ("i4", -1),
    "level": ("i1", 0),
}


ADVANCE, TERM_START, REPORT, FREEZE, THAW = 0, 1, 2, 3, 4
KINDS = ("advance", "term_start", "report", "freeze", "thaw")
EXACT, RACE, DISAGREE, UNREPORTED, ONLY_WITNESS, OPEN = 0, 1, 2, 3, 4, 5
AGREEMENTS = ("exact", "race", "disagree", "unreported", "only_witness")

SYNC_FIELDS: dict[str, tuple[str, int]] = {
    "lane": ("i4", -1),
    "ts": ("i8", NULL),
    "replica": ("i4", -1),
    "state": ("i1", 0),
    "previous": ("i1", -1),
    "in_isr": ("i1", 0),
    "caught_up": ("i8", NULL),
    "leo": ("i8", NULL),
    "leader_leo": ("i8", NULL),
    "reason": ("i1", 0),
    "leader_epoch": ("i4", NULL32),
    "topic_id": ("i4", -1),
    "level": ("i1", 0),
}


STATES = ("in_sync", "lagging", "out_of_sync")
SILENT, BEHIND, NO_STATE, RECOVERED = 0, 1, 2, 3
REASONS = ("silent", "behind", "no_state", "recovered")

TERM_FIELDS: dict[str, tuple[str, int]] = {
    "lane": ("i4", -1),
    "start": ("i8", NULL),
    "end": ("i8", NULL),
    "hw": ("i8", NULL),
    "leader_leo": ("i8", NULL),
    "fetchers": ("i8", 0),
    "alone": ("i1", 0),
    "held": ("i1", 0),
}


SERIES_FIELDS: dict[str, tuple[str, int]] = {
    "partition": ("i4", -1),
    "source": ("i4", -1),
    "broker": ("i4", -1),
    "lane": ("i4", -1),
    "next_seq": ("i8", 0),
    "last_ts": ("i8", NULL),
    "follower_hw": ("i8", NULL),
}
"""One source's rows of one partition."""

PARTITION_FIELDS: dict[str, tuple[str, int]] = {
    "leader_id": ("i4", NULL32),
    "leader_epoch": ("i4", NULL32),
    "partition_epoch": ("i4", NULL32),
    "topic_id": ("i4", -1),
    "last_ts": ("i8", NULL),
}
"""The present of one partition, as its history has it."""
