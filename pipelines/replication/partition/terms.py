"""The terms of one partition in epoch order, and which broker took part in which.

A term is a stretch of leading that begins with a `leader` event: a new leader epoch, or a resumption in the same one.
"""

from __future__ import annotations

from msgspec import field
from msgspec.structs import replace

from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.events import PartitionEvent, TermLookup, TermSummary

KEPT_TERMS = 8
STORED_BY = "stored by broker "

TermKey = tuple[int, int]
"""(leader epoch, ordinal of the term in it)"""


class Term(Persisted):
    """One term. `start_ts` is None while only an unclean election has announced it.

    `stored_hw`: the largest HW of this term that a broker reports when it next starts; `stored_by`: which broker, in
    words; `stored_behind_gap`: telemetry of that broker is missing before its start, so the HW may be one of a later
    term; `stored_in_epoch`: the leader epoch the HW is of, where no leader reported that epoch's start in time.
    `returned_leo`: the LEO with which its leader comes back. `has_gap`: telemetry of its leader is missing in it;
    `gap_at_start`: as the term was judged; `behind_gap`: missing before it, with no earlier event of that broker.
    `summary`: what the kernel knew of it when it was judged to be over, as of `summary_at`; `over`: its leader does
    nothing in it any more. `published`: its row of silver/hw_regressions written last, as JSON text. `loss_excluded`:
    it is known to begin with all that was committed before it.
    """

    epoch: int
    broker_id: int
    ordinal: int
    ts: int
    due: int
    start_ts: int | None = None
    start_offset: int | None = None
    start_hw: int | None = None
    unclean: bool | None = None
    topic_id: str | None = None
    level: int = 0
    isr: tuple[int, ...] | None = None
    min_isr: int | None = None
    stored_hw: int | None = None
    stored_by: str | None = None
    returned_leo: int | None = None
    has_gap: bool = False
    gap_at_start: bool = False
    fetchers: frozenset[int] = frozenset()
    summary: TermSummary | None = None
    summary_at: int = 0
    over: bool = False
    revision: int = 0
    published: str | None = None
    loss_excluded: bool = False
    stored_behind_gap: bool = False
    stored_in_epoch: int | None = None
    behind_gap: bool = False

    @property
    def key(self) -> TermKey:
        return self.epoch, self.ordinal

    @property
    def sampled(self) -> bool:
        """Whether only a watcher has reported its start, which does not know the HW then."""
        return self.start_ts is not None and self.start_offset is not None and self.start_hw is None

    def summary_as_of(self, as_of: int, lookup: TermLookup) -> TermSummary:
        """Its final summary once it is over, else what is known as of a time."""
        if self.summary is not None:
            return self.summary
        if self.start_ts is None:
            return TermSummary()
        as_of = max(as_of, self.start_ts)
        summary = lookup.term(self.broker_id, self.start_ts, as_of)
        if not summary.complete and (sampled := lookup.sampled(self.broker_id, self.epoch, self.topic_id, as_of)):
            summary = _with_samples(summary, sampled)
        level = summary.level if summary.misread else max(summary.level, self.level)
        if summary.has_gap >= self.has_gap and summary.level >= level:
            return summary
        return replace(summary, has_gap=summary.has_gap or self.has_gap, level=level)

    def keep_summary(self, as_of: int, lookup: TermLookup) -> None:
        """Makes the summary as of now its final one, unless it has one."""
        if self.summary is None:
            self.summary, self.summary_at = self.summary_as_of(as_of, lookup), as_of


def _with_samples(summary: TermSummary, sampled: TermSummary) -> TermSummary:
    """What a log shows of a term, which is not all of it, and what was sampled in it."""
    hws = [hw for hw in (summary.hmax, sampled.hmax) if hw is not None]
    return replace(
        summary,
        hmax=max(hws, default=None),
        fetchers=summary.fetchers | sampled.fetchers,
        level=max(summary.level, sampled.level),
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

    def starts_unchanged(self, event: PartitionEvent) -> bool:
        """Whether the broker starts again with the log and the HW of its last start."""
        return not self.truncated and event.leo is not None and (self.leo, self.hw) == (event.leo, event.hw)


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
    """Hmax: the largest HW known since the last loss. `exact`: nothing above it can have been committed.

    `by`: what reports it, in words; `epoch` and `broker_id`: of which term it is. `leo`: the largest LEO of those terms
    where known, above which nothing can be lost. `bound`: an offset at or above every HW. `behind_gap`: telemetry is
    missing before the report, which may be of a later term. `unreported_epoch`: it is of this leader epoch, whose start
    no leader reported in time.
    """

    offset: int | None = None
    exact: bool = False
    by: str = "reported"
    epoch: int | None = None
    broker_id: int | None = None
    leo: int | None = None
    bound: int | None = None
    behind_gap: bool = False
    unreported_epoch: int | None = None


class Terms(Persisted):
    """The newest terms, the mark that the older ones leave behind (`base`), and the position of every broker."""

    terms: list[Term] = field(default_factory=list)
    positions: dict[int, BrokerPosition] = field(default_factory=dict)
    base: CommittedMark = field(default_factory=CommittedMark)
    folded_term: Term | None = None
    # of brokers whose last term is folded away: the start offset of the first term after it, None while not folded
    since: dict[int, int | None] = field(default_factory=dict)
    pending_hws: list[PendingHw] = field(default_factory=list)
    # when a broker last started again as a follower in the leader epoch that it was in
    restarted: dict[int, int] = field(default_factory=dict)
    # brokers whose clocks are wrong, by how many microseconds they are ahead of the controller's
    wrong_clocks: dict[int, int] = field(default_factory=dict)
    # brokers of which telemetry was missing before their first event
    with_initial_gap: frozenset[int] = frozenset()

    def begin(self, event: PartitionEvent, due: int, topic_id: str | None) -> Term:
        """A leader's start: a new term, or the one that an election has announced."""
        epoch = 0 if event.leader_epoch is None else event.leader_epoch
        same = [t for t in self.terms if t.epoch == epoch]
        known = bool(same) and same[-1].broker_id == event.broker_id
        if known and (same[-1].start_ts is None or (same[-1].sampled and not event.watched)):
            term = same[-1]  # announced, or sampled: the leader's own log is the finer source
        else:
            term = self.announce(epoch, event.broker_id, event.ts, due)
        term.start_ts, term.ts, term.due = event.ts, event.ts, due
        term.start_offset, term.start_hw, term.level, term.isr = event.leo, event.hw, event.level, event.isr
        term.min_isr = event.min_isr
        # leaderRecoveryState stays RECOVERING over a restart: only the first term of an epoch was elected
        term.unclean = False if term.ordinal else event.unclean if term.unclean is None else term.unclean
        term.topic_id = event.topic_id or topic_id
        return term

    def announce(self, epoch: int, broker_id: int, ts: int, due: int) -> Term:
        """A term of which only the leader and the epoch are known yet, in its place by epoch."""
        folded = [self.folded_term] if self.folded_term else []
        same = [t.ordinal for t in [*folded, *self.terms] if t.epoch == epoch]
        term = Term(epoch, broker_id, max(same, default=-1) + 1, ts, due)
        self.terms.append(term)
        self.terms.sort(key=lambda t: t.key)
        return term

    def last_of_epoch(self, epoch: int) -> Term | None:
        """The last term of an epoch."""
        return next((t for t in reversed(self.terms) if t.epoch == epoch), None)

    def first_of_epoch(self, epoch: int) -> Term | None:
        """The first term of an epoch, which an election began; later ones are resumptions."""
        return next((t for t in self.terms if t.epoch == epoch), None)

    def may_still_start(self, epoch: int) -> bool:
        """Whether no start of this epoch is known, and its leader may yet report one."""
        return self.last_of_epoch(epoch) is None and (self.folded_term is None or epoch > self.folded_term.epoch)

    def is_folded(self, epoch: int) -> bool:
        """Whether terms after this epoch's are folded away already."""
        return self.folded_term is not None and epoch < self.folded_term.epoch

    def before(self, term: Term) -> list[Term]:
        """The terms before this one, the folded one included."""
        folded = [self.folded_term] if self.folded_term else []
        return [*folded, *self.terms[: self.terms.index(term)]]

    def started_before(self, term: Term) -> int:
        """When the term before this one began, 0 where none is known."""
        before = self.before(term)
        return before[-1].ts if before else 0

    def at(self, key: TermKey | None) -> Term | None:
        return next((t for t in self.terms if t.key == key), None)

    def last_led(self, broker_id: int, start_ts: int | None = None) -> Term | None:
        """The last term this broker led, or the one it began at `start_ts`."""
        return next(
            (
                t
                for t in reversed(self.terms)
                if t.broker_id == broker_id and t.start_ts is not None and start_ts in (None, t.start_ts)
            ),
            None,
        )

    def last_participated(self, event: PartitionEvent, joined: frozenset[int], lookup: TermLookup) -> TermKey | None:
        """The last term that the broker of this start took part in before it; `joined`: who joined the ISR in it."""
        position = self.positions.get(event.broker_id)
        if position is None or position.led:
            return position.last_term if position else None
        term = self.last_of_epoch(position.epoch)
        grew = position.leo is not None and event.leo is not None and event.leo > position.leo
        if term is None or not (
            grew or event.broker_id in joined or self.fetched(term, event.broker_id, event.ts, lookup)
        ):
            return position.last_term
        term.fetchers |= {event.broker_id}
        return term.key

    def fetched(self, term: Term, broker_id: int, as_of: int, lookup: TermLookup) -> bool:
        """Whether a broker fetched from the leader of a term in it."""
        return broker_id in term.fetchers or broker_id in term.summary_as_of(as_of, lookup).fetchers

    def first_start_since(self, term: Term, as_of: int, lookup: TermLookup) -> tuple[int | None, int | None]:
        """(offset, epoch) of the first start since the leader of `term` last took part; offset None where not known.

        Below that offset its log is the one that was led since, whatever its own end.
        """
        broker = term.broker_id
        before = self.terms[: self.terms.index(term)]
        for place in range(len(before) - 1, -1, -1):
            if before[place].broker_id == broker or self.fetched(before[place], broker, as_of, lookup):
                first = self.terms[place + 1]
                return first.start_offset, first.epoch
        if broker not in self.since:
            return None, None
        first = self.terms[0]
        return (first.start_offset, first.epoch) if self.since[broker] is None else (self.since[broker], None)

    def fold(self, after: CommittedMark, as_of: int, lookup: TermLookup) -> None:
        """Removes the oldest term; `after` is the mark at its end."""
        term = self.terms.pop(0)
        term.keep_summary(as_of, lookup)
        took_part = {b for b in self.positions if b == term.broker_id or self.fetched(term, b, as_of, lookup)}
        self.since = {
            b: term.start_offset if offset is None else offset for b, offset in self.since.items() if b not in took_part
        }
        self.since.update(dict.fromkeys(took_part))
        self.base, self.folded_term = after, term
