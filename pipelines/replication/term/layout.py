"""State of the term machines. A lane is one broker's view of one partition: it leads there, or led.

Sets of replicas are bit masks over the lane's slots; a slot is given to a replica id for good.
"""

from __future__ import annotations

from pipelines.replication.compiled.records import shape
from pipelines.replication.compiled.types import NULL, NULL32

IDLE, LEADING, MIDFLIGHT = 0, 1, 2
"""Not leading; leading since a told `leader` event; seen leading, but its start was not told."""
IN_SYNC, LAGGING, OUT_OF_SYNC, REPLICA_HW = 0, 1, 2, 3
"""States of a replica; and what marks a row of silver/replica_hw among its rows (its `leo` is the HW)."""
NEVER = 1 << 62
"""A deadline that does not come."""
SLOTS = 4
"""Replica slots per lane to begin with; doubled for all lanes when one needs more."""

LANES = shape(
    partition=-1,
    broker=-1,
    topic=-1,
    cluster=-1,
    home=-1,
    state=IDLE,
    level=0,
    frozen=0,
    leader_epoch=NULL32,
    partition_epoch=NULL32,
    topic_id=-1,
    deposed=0,
    term_start=NULL,
    start_offset=NULL,
    hw=NULL,
    leader_leo=NULL,
    told_leo=NULL,
    agreed=NULL,
    low_reports=0,
    isr=0,
    isr_known=0,
    isr_doubted=0,
    thawed=NULL,
    joining=0,
    assigned=0,
    assigned_count=0,
    held=0,
    held_at=-1,
    missed=NULL,
    told_min_isr=NULL32,
    min_isr=NULL32,
    lag_max=NULL,
    version=0,
    deadline=NEVER,
    last_ts=-1,
    witness=NULL,
    witness_ts=NULL,
    hw_before=NULL,
    agreed_before=NULL,
    append_ts=NULL,
    append_leo=NULL,
    stalled_since=NULL,
    ahead=0,
    compared=0,
    learnt=NULL,
    asked=0,
    asked_ts=NULL,
    carried=0,
    slots=0,
    reports_open=0,
    gap_low=NULL,
    gap_high=NULL,
    cut_off=NULL,
    cut_off_ts=NULL,
    cut_off_until=NULL,
    cut_off_isr=0,
)
"""`version`: the rules of the version that its broker had told when the term began (bits as in versions, and above them
replica.lag.max.messages + 1), 0 where none was; `isr_doubted`: rows are missing since the ISR was told; `missed`:
when rows were missing last; `thawed`: when the HW began to stand still, or did no longer, in a lean log;
`reports_open`: some report matches nothing so far; `gap_low`, `gap_high`: values between two reports that no report
has linked yet; `cut_off`: the largest report that nothing computed matches, since `cut_off_ts`, when the ISR was
`cut_off_isr`, and until when it may be the last word of a broker that was killed."""


REPLICAS = shape(
    id=NULL32,
    leo=-1,
    told=-1,
    last_fetch_leader_leo=0,
    last_fetch=0,
    caught_up=NULL,
    sync=IN_SYNC,
    due=NEVER,
    answered=NULL,
    hw=NULL,
    epoch=NULL,
    barred=NULL,
)


HW_ROWS = shape(
    lane=-1,
    ts=NULL,
    kind=0,
    hw=NULL,
    reported=NULL,
    leader_leo=NULL,
    isr=0,
    holding=0,
    frozen=0,
    agreement=0,
    leader_epoch=NULL32,
    topic_id=-1,
    level=0,
    before=NULL,
    awaited=NULL,
)
"""A row of silver/partition_hw to be. `before`: of a report the HW before it, as the broker printed it; of an open
report `holding` has its links, see reports, and `awaited` is a computed HW beside it whose own report is missing."""


RECORDED = shape(key=0, ts=NULL, topic_id=-1, isr=0)
"""When a controller recorded a partition epoch, and the ISR in it as a hash; the key is partition << 32 | partition
epoch."""

HEARD = shape(key=0, ts=NULL, topic_id=-1, broker=NULL32, series=-1)
"""When a broker told of a partition epoch that no controller has told yet."""

ASKED = shape(key=0, ts=NULL, topic_id=-1, isr=0, series=-1)
"""When a leader asked for an ISR, by the partition epoch that it would have."""

APART = shape(key=0, ts=NULL, ahead=0)
"""By how much a broker's clock is ahead of the controller's since `ts`; the key is partition << 32 | broker."""

LINES_READ = shape(key=0, ts=NULL, source=-1)
"""A rare line lately read from a source: what its copies in other files have in common as a hash, see copied_lines."""

RECENT = shape(lane=-1, ts=NULL, hw=NULL)
"""What a lane has told of its HW ahead of what is decided."""

ADVANCE, TERM_START, REPORT, FREEZE, THAW = 0, 1, 2, 3, 4
KINDS = ("advance", "term_start", "report", "freeze", "thaw")
EXACT, RACE, DISAGREE, UNREPORTED, ONLY_WITNESS, OPEN = 0, 1, 2, 3, 4, 5
AGREEMENTS = ("exact", "race", "disagree", "unreported", "only_witness")

SYNC_ROWS = shape(
    lane=-1,
    ts=NULL,
    replica=-1,
    state=0,
    previous=-1,
    in_isr=0,
    caught_up=NULL,
    leo=NULL,
    leader_leo=NULL,
    reason=0,
    leader_epoch=NULL32,
    topic_id=-1,
    level=0,
)


STATES = ("in_sync", "lagging", "out_of_sync")
SILENT, BEHIND, NO_STATE, RECOVERED, UNASSIGNED = 0, 1, 2, 3, 4
REASONS = ("silent", "behind", "no_state", "recovered", "unassigned")

TERMS = shape(
    lane=-1,
    start=NULL,
    end=NULL,
    hw=NULL,
    leader_leo=NULL,
    fetchers=0,
    cut_off=NULL,
    cut_off_ts=NULL,
    cut_off_until=NULL,
)


SERIES = shape(
    partition=-1,
    source=-1,
    broker=-1,
    lane=-1,
    next_seq=0,
    last_ts=NULL,
    follower_hw=NULL,
    follower_epoch=NULL32,
    ahead_most=NEVER,
    ahead_least=-NEVER,
    apart=0,
)
"""One source's rows of one partition. Its clock is ahead of the controller's by `ahead_least` to `ahead_most`; `apart`:
by how much at least, once these exclude that it is right."""

PARTITIONS = shape(
    leader_id=NULL32,
    leader_epoch=NULL32,
    partition_epoch=NULL32,
    topic_id=-1,
    noted=0,
)
"""The present of one partition, as its history has it; `noted`: something rare was told of it."""
