"""Records of sampled partitions, as the rules for samples read and write them. Times are in microseconds.

Sets of replicas are bit masks over a partition's MEMBERS, which are the slots of its lanes, too.
"""

from __future__ import annotations

from pipelines.replication.compiled.records import record_layout
from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.term.layout import HW_ROWS

KEPT_STEPS = 256
KEPT_TERMS = 8
KEPT_ISRS = 8
NOT_KNOWN = -1

SAMPLED = record_layout(
    number=-1,
    cluster=-1,
    lane=-1,
    topic_id=-1,
    leader=-1,
    epoch=-1,
    began=-1,
    seen=-1,
    source=-1,
    isr=NULL,
    assigned=NULL,
    hw=NULL,
    hw_ts=NULL,
    hw_source=-1,
    leo=NULL,
    frozen=0,
    gone=0,
    min_isr=NULL32,
    min_isr_told=0,
    stalled_since=NULL,
    waits_for=NULL,
    compared_from=NULL,
    terms_begun=0,
    members=0,
    steps=0,
    terms=0,
    isrs=0,
    hws=0,
    held=0,
    held_back=0,
)
"""A sampled partition. `lane`: of its present leader; `began`: when that was first seen, `seen`: when it answered last;
`isr`, `assigned`: NULL if not known; `hw` was answered first at `hw_ts`, to `hw_source`; `stalled_since`: since when
the records below `waits_for` have waited to be committed, by samples from `compared_from` on, which are of one ISR;
`gone`: its topic is no longer in the metadata. `members` to `hws` count its records in each of CHILDREN; `held`:
replicas that rows of HELD_HWS name; `held_back`: whether a row says that its HW is held back."""

HELD_HWS = record_layout(**dict(zip(HW_ROWS.names, HW_ROWS.defaults, strict=True)), due=NULL, logged=NULL)
"""A row of HW_ROWS in a term that the leader's log tells, too. `due`: when the log must have reached it, by its own
clock; `logged`: the log's HW then, once that is read, -1 if nothing says or nobody asks."""

MEMBERS = record_layout(broker=-1, answers=-1, first=-1, leo=-1, since=-1, out_of_sync=0, fetched=-1)
"""A replica. `answers`: -1 if it was never asked for; `first`: when it was first sampled since its log was cut;
`since`: since when its LEO is that; `fetched`: a LEO from which it was seen to go on in this term. Broker -1:
vacant."""
STEPS = record_layout(least=-1, most=0, leo=0)
"""The leader's LEO became `leo`, after `least` and at `most`; kept as far back as a follower is behind."""
TERMS = record_layout(
    number=-1, broker=-1, epoch=-1, topic_id=-1, leo=NULL, fetchers=0,
    first_hw=-1, first_ts=NULL, last_hw=-1, last_ts=NULL,
)  # fmt: skip
"""A leader epoch. `fetchers`: replicas with records of that epoch; `first_hw`: the largest HW sampled in it before the
partition's last rows, and `last_hw` with them."""
ISRS = record_layout(after=-1, by=0, isr=NULL)
"""The ISR was `isr` until it was changed, after `after` and at most `by`; NULL: not known what it was. Kept as far back
as a replica may still be found to have been out of sync."""
HWS = record_layout(term=-1, ts=0, hw=0)
"""HWs of a term that rose with the last rows of a partition."""
CHILDREN = {"members": MEMBERS, "steps": STEPS, "terms": TERMS, "isrs": ISRS, "hws": HWS}
SPAN = record_layout(at=0, room=0)
"""Where the records of a partition stand among those of all, and how many have room there."""

ROWS = record_layout(
    clock=0,
    ts=0,
    error=0,
    kind=-1,
    broker=-1,
    leader=-1,
    epoch=-1,
    leo=-1,
    hw=-1,
    log_epoch=-1,
    source=-1,
    topic_id=-1,
    gone=0,
    position=-1,
    lag_max=0,
    min_isr=0,
    min_isr_told=0,
    isr_at=0,
    isr_count=-1,
    assigned_at=0,
    assigned_count=-1,
)
"""A row of a watcher, NOT_KNOWN if a number is null. `clock` is the largest time of the source by then, `error` how far
`ts` may be off; `position`: in the micro-batch; `lag_max`, `min_isr`: the settings at that time; `min_isr_told`:
the topic's own was reported; lists by where they begin, with count -1 for null."""

JOBS = record_layout(record=-1, begin=0, end=0, begun=0)
"""A partition whose rows stand from `begin` to `end`; `begun`: some of its rows in this micro-batch were read."""
LED = record_layout(number=-1, leader=-1)
"""A leader of a partition, which has a lane; until that is known its number stands for it as -2 - its place."""
PREDICTED = record_layout(position=-1, outside=0)
"""A row that shrinks the ISR, and whether all that it removes had been found out of sync."""
CUT = record_layout(position=-1, hw=NULL)
"""A row in which a leader's log ends below `hw`, which it had answered in this epoch."""
LIMITS = record_layout(now=-1, lag_max=0)
"""By number of a cluster until when its samples are settled, and the lag that holds then."""
