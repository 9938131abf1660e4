"""Records of sampled partitions of which only offsets change, as `steady_rules` reads and writes them."""

from __future__ import annotations

from pipelines.replication.compiled.records import record_layout
from pipelines.replication.compiled.types import NULL

MOST_MEMBERS = 8
"""Replicas that a record has room for; a partition with more is never steady."""
KEPT_STEPS = 256

STEADY = record_layout(
    number=-1,
    lane=-1,
    cluster=-1,
    topic_id=-1,
    leader=-1,
    epoch=-1,
    began=-1,
    seen=-1,
    source=-1,
    hw=NULL,
    leo=NULL,
    frozen=0,
    min_isr=0,
    stalled_since=NULL,
    term_leo=NULL,
    first_hw=NULL,
    first_hw_ts=NULL,
    last_hw=NULL,
    last_hw_ts=NULL,
    isr_count=0,
    assigned_count=-1,
    members=0,
    steps=0,
    steps_at=0,
    steps_room=0,
)
"""A SampledPartition by its partition's number. `first_hw`: the largest HW of its term when its last rows came, those
rows not counted, and `last_hw` with them; `assigned_count`: -1 where the assignment is not known; its steps are
`steps` rows from `steps_at` on, with room for `steps_room`."""

MEMBERS = record_layout(
    isr=-1,
    assigned=-1,
    broker=-1,
    slot=-1,
    follows=0,
    in_isr=0,
    fetched=0,
    first=-1,
    leo=-1,
    since=-1,
    log_epoch=-1,
    answers=0,
    out_of_sync=0,
)
"""Entry k of a partition: the k-th broker of its ISR and of its assignment as they were reported, and the k-th of the
replicas that were sampled, by broker id. `slot`: that of its lane; `follows`: it is assigned and does not lead."""

STEPS = record_layout(least=-1, most=0, leo=0)
HWS = record_layout(number=-1, ts=0, hw=0)
"""HWs that rose with the last rows of a partition."""

SAMPLES = record_layout(
    clock=0,
    ts=0,
    error=0,
    broker=-1,
    leader=-1,
    epoch=-1,
    leo=-1,
    hw=-1,
    log_epoch=-1,
    source=-1,
    topic_id=-1,
    isr_at=0,
    isr_count=-1,
    assigned_at=0,
    assigned_count=-1,
)
"""A `sample`: numbers as in `partition.Row`; lists by where they begin, with count -1 for null."""

JOBS = record_layout(record=-1, begin=0, end=0, lag_max=0)
"""A record whose samples stand from `begin` to `end`."""
