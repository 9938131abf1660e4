"""Records of the kernel. A lane is one broker's view of one partition: it leads there, or led.

Sets of replicas are bit masks over the lane's slots. A slot stays with its replica until there are
MOST_REPLICAS, see slot_reuse; one without a replica has the id NULL32.
"""

from __future__ import annotations

from pipelines.replication.compiled.records import record_layout
from pipelines.replication.compiled.types import NEVER, NULL, NULL32

IDLE, LEADING, MIDFLIGHT = 0, 1, 2
"""Not leading; leading since a `leader` event; seen leading, but its `leader` event is missing."""
IN_SYNC, LAGGING, OUT_OF_SYNC, REPLICA_HW, HELD_BACK, MOVES_ON = 0, 1, 2, 3, 4, 5
"""States of a replica; what marks a row of silver/replica_hw among its rows (its `leo` is the HW); and what marks
those of the partition, whose HW is held back from then on, or no longer."""
SLOTS = 4
"""Replica slots per lane to begin with; doubled for all lanes when one needs more."""

LANES = record_layout(
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
    reported_leo=NULL,
    agreed=NULL,
    low_reports=0,
    isr=0,
    isr_known=0,
    isr_doubted=0,
    thawed=NULL,
    joining=0,
    assigned=0,
    assigned_count=0,
    unknown_leos=0,
    paused_at=-1,
    missed=NULL,
    reported_min_isr=NULL32,
    min_isr=NULL32,
    min_isr_told=0,
    lag_max=NULL,
    version=0,
    deadline=NEVER,
    last_ts=-1,
    evidence_hw=NULL,
    evidence_ts=NULL,
    hw_before=NULL,
    agreed_before=NULL,
    append_ts=NULL,
    append_leo=NULL,
    stalled_since=NULL,
    clock_offset=0,
    clock_compared=0,
    epoch_learned_at=NULL,
    proposed_isr=0,
    proposed_ts=NULL,
    pending=0,
    slots=0,
    reports_open=0,
    gap_low=NULL,
    gap_high=NULL,
    cut_off=NULL,
    cut_off_ts=NULL,
    cut_off_until=NULL,
    cut_off_isr=0,
    reported=NULL,
    witnessed=NULL,
    witnessed_ts=NULL,
    witnessed_from=NULL,
    last_unmatched=NULL,
    chain_from=NULL,
    level_before=0,
    told_by=-1,
    told_ts=NULL,
    assigned_told=0,
    few_assigned=0,
    held_back=0,
    held_back_from=NEVER,
)
"""`min_isr_told`: the topic's own setting was reported, or is a rule; `version`: the rules of the version that its
broker had reported when the term began (bits as in kafka_versions, and above them replica.lag.max.messages + 1), 0
where none was; `unknown_leos`: replicas whose LEO has to be reported again after a gap, the last of which was at
`paused_at`; `evidence_hw`: a report that is the only evidence of the HW; `clock_offset`: by how much the clock of its
broker is ahead of the controller's; `pending`: how many of its HW rows are not final; `isr_doubted`: rows are missing
since the last one with the ISR; `missed`: when rows were missing last; `thawed`: when the HW began to stand still, or
did no longer, in a log without fetches; `reports_open`: some report matches nothing so far; `gap_low`, `gap_high`:
values between two reports that no report has linked yet; `cut_off`: the largest report that nothing computed matches,
since `cut_off_ts`, when the ISR was `cut_off_isr`, and until when it may be the last word of a broker that was
killed; `reported`: the largest HW that the broker reported in this term and that was computed, or accepted;
`witnessed`: the largest that it reported above what was computed and that counts all the same, at `witnessed_ts`;
by a chain that begins at `witnessed_from`;
`last_unmatched`: the last one above what was computed, `chain_from`: the first of its chain; `level_before`: the level
of a term before lines of its leader were not understood, from which on `level` is 0; `told_by`, `told_ts`: the series
and the time of the last report, or start, that is not below `agreed`; `assigned_told`: a row named all replicas that
are assigned; `few_assigned`: none did, and the HW went on in an ISR below min ISR, which counts only where no more
replicas are assigned; `held_back`: a row says that its HW is held back, `held_back_from`: when it will be."""


REPLICAS = record_layout(
    id=NULL32,
    leo=-1,
    reported_leo=-1,
    last_fetch_leader_leo=0,
    last_fetch=0,
    caught_up=NULL,
    sync=IN_SYNC,
    due=NEVER,
    answered=NULL,
    hw=NULL,
    epoch=NULL,
    ineligible_until=NULL,
    first_fetch=NEVER,
    passed=NULL,
)
"""`first_fetch`: in this term; `passed`: since when the leader's log has gone further than the replica's,
as far as it is known to have been behind all the time; of samples since when it may hold the HW back."""


HW_ROWS = record_layout(
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
    hw_before=NULL,
    awaited=NULL,
)
"""A row of silver/partition_hw to be. `hw_before`: of a report the HW before it, as the broker printed it; of an open
report `holding` has its links, see hw_reports, and `awaited` is a computed HW beside it whose own report is missing."""


LINES_READ = record_layout(key=0, ts=NULL, source=-1, partition=-1, bypassed=0)
"""A rare line lately read from a source: what its copies in other files have in common beside the partition, as a hash,
see copied_lines. `bypassed` is 1 where histories alone read it, while its broker had a lane in the partition."""

RECENT = record_layout(lane=-1, ts=NULL, hw=NULL, reported=NULL)
"""HWs of a lane ahead of what is decided. `reported`: what by a row its broker reported and was computed, or accepted;
of a row at or before what is decided the largest by then in its term. NULL: nothing; NONE_YET: a term begins."""
NONE_YET = -1

ADVANCE, TERM_START, REPORT, FREEZE, THAW = 0, 1, 2, 3, 4
KINDS = ("advance", "term_start", "report", "freeze", "thaw")
EXACT, RACE, DISAGREE, UNREPORTED, ONLY_WITNESS, OPEN = 0, 1, 2, 3, 4, 5
AGREEMENTS = ("exact", "race", "disagree", "unreported", "only_witness")

SYNC_ROWS = record_layout(
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

TERMS = record_layout(
    what=0,
    lane=-1,
    start=NULL,
    end=NULL,
    hw=NULL,
    leader_leo=NULL,
    fetchers=0,
    cut_off=NULL,
    cut_off_ts=NULL,
    cut_off_until=NULL,
    reported=NULL,
    witnessed=NULL,
    witnessed_ts=NULL,
    witnessed_from=NULL,
    min_isr_told=0,
    epoch=NULL32,
    level=0,
)
OVER, FETCHED, REPORTED = 0, 1, 2
"""What a row of TERMS says: how a term ended; which replicas fetched in it at `end` for the first time; what its leader
had reported before it reported more, at `end`."""
EARLIER = record_layout(
    lane=-1,
    start=NULL,
    end=NULL,
    fetcher=NULL32,
    cut_off=NULL,
    cut_off_ts=NULL,
    cut_off_until=NULL,
    witnessed=NULL,
    witnessed_ts=NULL,
    witnessed_from=NULL,
)
"""How terms were before `end`: without a fetcher, or with these reports. Histories still behind it ask."""


JOBS = record_layout(
    lane=0,
    start=0,
    end=0,
    low_watermark=0,
    cluster_low_watermark=0,
    active_low_watermark=0,
    ceiling=0,
    gaps_from=0,
    gaps_to=0,
    final=0,
    beside_others=0,
)
"""A lane to run with its packed rows[start:end]. Low watermarks (of its own source, of all of the cluster, of those
that reported anything so far) bound what may be decided, `ceiling` which times are believed; gaps[gaps_from:gaps_to]
are those of its source; `beside_others`: another incarnation of that may still write."""

GAPS = record_layout(ts=NULL, unread=0)
"""When telemetry of a broker went missing; `unread`: lines are there, in a shape that was not understood."""

CLUSTER_RULES = record_layout(
    race_window=0,
    lag_max=0,
    min_isr=0,
    lag_max_messages=0,
    hw_resolution=0,
    replica_hw=0,
    reorder_grace=0,
    bits=0,
    fixed=0,
)
"""The rules of one cluster, times in microseconds: `bits` where no version is known, `fixed` those that hold whatever
it is (bits as in kafka_versions)."""

SETTINGS = record_layout(
    race_window=0,
    strict_min_isr=0,
    lag_max=0,
    min_isr=0,
    min_isr_told=0,
    lag_max_messages=-1,
    hw_resolution=0,
    replica_hw=0,
    strict_eligibility=0,
    waits_for_joiners=0,
    reorder_grace=0,
)
"""The rules that a lane follows, see Rules: times in microseconds, `lag_max_messages` -1 where lag is one of time."""

CURSOR = record_layout(job=0, row=-1, gap=0, hw=0, final=0, kept=0, sync=0, ended=0, full=0, crowded=-1)
"""How far a run of the kernel came: its job, and within that the row to go on with (-1: the first), gaps that were
passed and rows of HW_ROWS so far; how many rows each output has, and which is full; and the row that names more
replicas than a lane has slots."""

SERIES = record_layout(
    partition=-1,
    source=-1,
    broker=-1,
    lane=-1,
    leads_from=0,
    next_seq=0,
    last_ts=NULL,
    follower_hw=NULL,
    follower_epoch=NULL32,
    clock_offset_max=NEVER,
    clock_offset_min=-NEVER,
    clock_offset=0,
    leads_since=-1,
)
"""One source's rows of one partition. Its `lane` reads those from number `leads_from` on, the first that shows its
broker leading, at `leads_since`; rows before are for histories alone, whether they come together with it or not. Its
clock is ahead of the controller's by `clock_offset_min` to `clock_offset_max`; `clock_offset`: by how much at least,
once these exclude that it is right."""

PARTITIONS = record_layout(
    leader_id=NULL32,
    leader_epoch=NULL32,
    partition_epoch=NULL32,
    topic_id=-1,
    has_events=0,
)
"""The present of one partition, as its history has it; `has_events`: it has rare ones."""
