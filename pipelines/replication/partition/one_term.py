"""One term of a leader, the HW that its end leaves, and a broker's position among terms.

A term is a stretch of leading that begins with a `leader` event: a new leader epoch, or a resumption in the same one.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.events import PartitionEvent, TermLookup, TermSummary

STORED_BY = "stored by broker "
NOT_SAFE = ("unclean_loss", "committed_loss", "loss_not_excluded")
"""Verdicts on a start that may have begun without what was committed."""

TermKey = tuple[int, int]
"""(leader epoch, ordinal of the term in it)"""


class LeastStart(NamedTuple):
    """An offset, and in which leader epoch a term began there; not `complete`: of other starts nothing is known."""

    offset: int | None
    epoch: int | None
    complete: bool


class Term(Persisted):
    """One term of a leader."""

    epoch: int
    broker_id: int
    ordinal: int
    ts: int
    """When the term began, or was announced."""
    due: int
    """When it is to be judged; 0 if it was."""
    start_ts: int | None = None
    """None while only an unclean election has announced the term."""
    start_offset: int | None = None
    """The start offset; only an upper bound if a disk told it, see `known_start`."""
    start_hw: int | None = None
    unclean: bool | None = None
    topic_id: str | None = None
    level: int = 0
    isr: tuple[int, ...] | None = None
    min_isr: int | None = None
    stored_hw: int | None = None
    """The largest HW of this term that a broker reports when it next starts."""
    stored_by: str | None = None
    """That broker, in words."""
    returned_leo: int | None = None
    """The LEO with which the leader comes back."""
    has_gap: bool = False
    """Whether telemetry of the leader is missing in the term."""
    gap_at_start: bool = False
    """Whether it was missing when the term was judged."""
    fetchers: frozenset[int] = frozenset()
    summary: TermSummary | None = None
    """The kernel's summary when the term was judged to be over."""
    summary_at: int = 0
    """The time up to which the summary has HWs."""
    over: bool = False
    """Whether the leader does nothing in the term any more."""
    revision: int = 0
    published: str | None = None
    """Its last row of silver/hw_regressions, as JSON text."""
    loss_excluded: bool = False
    """Whether it is known to begin with all that was committed before it."""
    stored_behind_gap: bool = False
    """Telemetry before that start is missing, or a resumption was told late: the HW may be of a later term."""
    stored_in_epoch: int | None = None
    """The leader epoch of the HW, if no leader reported the start of that epoch in time."""
    behind_gap: bool = False
    """Whether telemetry is missing before the term, with no earlier event of its leader."""
    whole: bool | None = None
    """Whether the leader told all of the term: it went on afterwards in the same life, or stopped cleanly."""
    log_start: int = 0
    """The largest log start known before the term."""
    own_before: int = 0
    """When the leader began to lead or follow before the term."""
    returned: int = 0
    """When the leader told something again, while the controller may yet tell of an earlier start of it."""
    perhaps: frozenset[int] = frozenset()
    """The replicas that fetched in its epoch, in this or another term of the epoch."""
    across_seam: bool = False
    """It resumes an epoch behind a seam, or its leader told of no earlier epoch, see `Terms.crosses_seam`."""
    restarted: int = 0
    """When the leader last started again in the leader epoch that it was in; 0 if not told."""
    stored_at: int = 0
    """When `stored_hw` was reported."""
    shrunk: int = 0
    """See `Terms.shrunk`."""
    stored_behind_kill: bool | None = False
    """`CommittedMark.behind_kill` of the broker that reports `stored_hw`."""
    had_ended: bool = False
    """The leader resumed its epoch after the end of that epoch: replicas that went on may have what it lacks."""
    stored_on: tuple[str, int, int, int] | None = None
    """The first HW of the disk that told `stored_hw` (source id and epoch, HW, time), until it is settled."""
    contradicted: frozenset[str] = frozenset()
    """The sources with disks that contradict the term's leader."""
    entries: tuple[tuple[int, int], ...] = ()
    """(leader epoch, start offset) in the leader's log, as a watcher asked."""

    @property
    def key(self) -> TermKey:
        return self.epoch, self.ordinal

    @property
    def known_start(self) -> int | None:
        """Its start offset as its leader reported it. `start_offset` alone may be a bound from a disk: at most this."""
        return None if self.start_ts is None else self.start_offset

    @property
    def differs_from(self) -> tuple[int | None, int] | None:
        """(offset, leader epoch) from which on replicas may hold other records: its leader lost some, or may have, and
        went on in the same leader epoch. OffsetsForLeaderEpoch gives them the end of an epoch, not its content."""
        lost = self.published is not None and any(f'"class": "{cls}"' in self.published for cls in NOT_SAFE)
        return (self.start_offset, self.epoch) if self.ordinal > 0 and lost else None

    @property
    def sampled(self) -> bool:
        """Whether only a watcher has reported its start, which does not know the HW then."""
        return self.start_ts is not None and self.start_offset is not None and self.start_hw is None

    def start_after(self, epoch: int) -> LeastStart | None:
        """The start of the first leader epoch after this one in the log of its leader; None if no watcher asked."""
        found = next(((start, later) for later, start in self.entries if later > epoch), None)
        return None if found is None else LeastStart(*found, complete=True)

    def summary_as_of(self, as_of: int, lookup: TermLookup) -> TermSummary:
        """The final summary of the term if it is over, else its summary as of `as_of`."""
        if self.summary is not None:
            return self.summary
        if self.start_ts is None:
            return TermSummary()
        as_of = max(as_of, self.start_ts)
        summary = lookup.term(self.broker_id, self.start_ts, as_of)
        if sampled := lookup.sampled(self.broker_id, self.epoch, self.topic_id, as_of):
            summary = _with_samples(summary, sampled)
        level = summary.level if summary.misread else max(summary.level, self.level)
        if summary.has_gap >= self.has_gap and summary.level >= level:
            return summary
        return replace(summary, has_gap=summary.has_gap or self.has_gap, level=level)

    def keep_summary(self, as_of: int, lookup: TermLookup) -> None:
        """Make the summary as of now its final one, unless it has one."""
        if self.summary is None:
            self.summary, self.summary_at = self.summary_as_of(as_of, lookup), as_of - lookup.race_window_us


def least_start(starts: list[tuple[int | None, int | None]], *, complete: bool) -> LeastStart:
    known = [start for start in starts if start[0] is not None]
    offset, epoch = min(known, key=lambda start: start[0] or 0, default=(None, None))
    return LeastStart(offset, epoch, complete)


def _with_samples(summary: TermSummary, sampled: TermSummary) -> TermSummary:
    """The summary of a term by its log and by samples of it: of a log that lacks no line a HW above all of its own, as
    after its end."""
    if summary.complete:
        above = sampled.hmax is not None and sampled.hmax > max(summary.hmax or 0, summary.witnessed or 0)
        return replace(summary, witnessed=sampled.hmax) if above else summary
    hws = [hw for hw in (summary.hmax, sampled.hmax) if hw is not None]
    reported = [hw for hw in (summary.reported, sampled.hmax) if hw is not None]
    return replace(
        summary,
        hmax=max(hws, default=None),
        fetchers=summary.fetchers | sampled.fetchers,
        level=max(summary.level, sampled.level),
        reported=max(reported, default=None),
    )


class BrokerPosition(Persisted):
    """A broker's last own start, and the last term that it is known to have taken part in.

    A follower takes part in a term only by fetching: before that it has neither the leader's records nor its HW.
    """

    epoch: int
    leo: int | None
    hw: int | None
    led: bool
    last_term: TermKey | None = None
    truncated: bool = False  # it truncated its log since
    ts: int = 0
    has_gap: bool = False  # telemetry of it is missing since
    source_id: str = ""
    hw_cut_off: int | None = None  # the HW of its start, if it truncated its log below that afterwards
    source_epoch: int = 0
    followed_since: int = 0  # when the broker first began to follow in this epoch, 0 if that is not known
    told_epoch: int = -1  # the largest leader epoch in the broker's later ISR and HW rows, of the same source

    def has_lost_log(self, event: PartitionEvent) -> bool:
        """Whether the broker starts with less than at its last start: a log is cut by a line, or is another one."""
        known = not self.truncated and event.ts > self.ts and self.leo is not None and event.leo is not None
        return known and (event.leo or 0) < (self.leo or 0)

    def starts_unchanged(self, event: PartitionEvent) -> bool:
        """Whether the broker starts again with the log and the HW of its last start."""
        return not self.truncated and event.leo is not None and (self.leo, self.hw) == (event.leo, event.hw)

    def has_grown(self, event: PartitionEvent) -> bool:
        """Whether the broker starts with more than at its last start, records or a HW: a leader gave it these."""
        pairs = (self.leo, event.leo), (self.hw, event.hw)
        return any(before is not None and now is not None and now > before for before, now in pairs)


class PendingHw(Persisted):
    """A HW that a broker reports of a term whose leader has not reported its start: that leader's clock may be behind.

    After `due` it counts for the last term that the broker is known to have taken part in, `last_term`.
    """

    epoch: int
    broker_id: int
    hw: int
    moved: bool
    due: int
    last_term: TermKey | None


class CommittedMark(Persisted):
    """Hmax: the largest HW known since the last loss."""

    offset: int | None = None
    exact: bool = False
    """Whether nothing above it can have been committed."""
    by: str = "reported"
    """The report, in words."""
    epoch: int | None = None
    broker_id: int | None = None
    """The leader of the term of the HW, in `epoch`."""
    leo: int | None = None
    """The largest known LEO of those terms, above which nothing can be lost."""
    bound: int | None = None
    """An offset at or above every HW."""
    behind_gap: bool = False
    """Whether telemetry is missing before the report, which may be of a later term."""
    unreported_epoch: int | None = None
    """The leader epoch of the HW, if no leader reported its start in time."""
    whole: bool = False
    """Whether the leader reported all HWs of that term, as far as its own rows show."""
    most: int | None = None
    """The largest HW that was reported, or only computed."""
    behind_kill: bool | None = False
    """Whether the gap is an unclean stop: the HW may have been stored before the log was cut. None: perhaps."""
