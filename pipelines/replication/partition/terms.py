"""The terms of one partition in epoch order, and which broker took part in which."""

from __future__ import annotations

from msgspec import field
from msgspec.structs import replace

from pipelines.replication.partition.codec import Kept
from pipelines.replication.partition.events import Context, Note, TermSeen

KEPT_TERMS = 8
STORED_BY = "stored by broker "


class Term(Kept):
    """One stretch of leading. `start` is None while only an unclean election has told of it.

    `stored`: largest HW of it that a broker told when it next started; `stored_by`: whose, or `alone`;
    `returned`: the LEO its leader came back with; `seen`: what the kernel knew of it when it was judged to be over, as
    of `seen_at`; `over`: its leader does nothing in it any more; `excluded`: it is known to have begun with all that
    was committed before; `stored_behind_gap`: telemetry of who told `stored` is missing before that, so it may be of a
    later term; `stored_in`: the leader epoch that it is of, where nobody has told of that one's start in time;
    `behind_gap`: telemetry of its leader is missing before it, and nothing of that broker was told.
    """

    epoch: int
    broker_id: int
    ordinal: int
    ts: int
    due: int
    start: int | None = None
    offset: int | None = None
    hw: int | None = None
    unclean: bool | None = None
    topic_id: str | None = None
    level: int = 0
    isr: tuple[int, ...] | None = None
    min_isr: int | None = None
    stored: int | None = None
    stored_by: str | None = None
    returned: int | None = None
    held: bool = False
    gap_at_start: bool = False
    fetchers: frozenset[int] = frozenset()
    seen: TermSeen | None = None
    seen_at: int = 0
    over: bool = False
    revision: int = 0
    told: str | None = None
    excluded: bool = False
    stored_behind_gap: bool = False
    stored_in: int | None = None
    behind_gap: bool = False

    def known(self, as_of: int, context: Context) -> TermSeen:
        """What is known of it: frozen once it is over, else as of now."""
        if self.seen is not None:
            return self.seen
        if self.start is None:
            return TermSeen()
        seen = context.term(self.broker_id, self.start, max(as_of, self.start))
        level = seen.level if seen.unread else max(seen.level, self.level)
        if seen.held >= self.held and seen.level >= level:
            return seen
        return replace(seen, held=seen.held or self.held, level=level)

    def freeze(self, as_of: int, context: Context) -> None:
        if self.seen is None:
            self.seen, self.seen_at = self.known(as_of, context), as_of


class Standing(Kept):
    """Where a broker stands: its last own start, and the last term it is known to have taken part in.

    To follow is not yet to take part: only a broker that fetched has that leader's records and HW.
    """

    epoch: int
    leo: int | None
    hw: int | None
    led: bool
    anchor: tuple[int, int] | None = None  # (epoch, ordinal)
    cut: bool = False  # since then it cut its log
    ts: int = 0
    gap: bool = False  # since then telemetry of it is missing

    def same(self, note: Note) -> bool:
        """Whether the broker starts again with the log and the HW of its last start."""
        return not self.cut and note.leo is not None and (self.leo, self.hw) == (note.leo, note.hw)


class Owed(Kept):
    """A HW that a broker told of a term whose leader has not told of it yet: its clock may be behind.

    Past `due` it counts for the last term the broker is known to have taken part in, `anchor`.
    """

    epoch: int
    broker_id: int
    hw: int
    moved: bool
    due: int
    anchor: tuple[int, int] | None


class Mark(Kept):
    """The largest HW known since the last loss, and how well: `exact` when nothing above it can have been committed.

    `leo`: the largest LEO of those terms where known, above which nothing can be lost; `bound`: at or above every HW.
    `untold`: it is of this leader epoch, of whose start nobody has told in time.
    """

    offset: int | None = None
    exact: bool = False
    by: str = "reported"
    epoch: int | None = None
    broker_id: int | None = None
    leo: int | None = None
    bound: int | None = None
    behind_gap: bool = False
    untold: int | None = None


class Terms(Kept):
    """The newest terms, what the older ones come to, and where every broker stands."""

    terms: list[Term] = field(default_factory=list)
    standings: dict[int, Standing] = field(default_factory=dict)
    base: Mark = field(default_factory=Mark)
    folded_term: Term | None = None
    # of brokers whose last term is folded away: the start offset of the first term after it, None while not folded
    since: dict[int, int | None] = field(default_factory=dict)
    owed: list[Owed] = field(default_factory=list)
    # when a broker last started again as a follower in the leader epoch that it was in
    restarted: dict[int, int] = field(default_factory=dict)
    # brokers whose clocks are wrong, by how many microseconds they are ahead of the controller's
    apart: dict[int, int] = field(default_factory=dict)
    # brokers of which telemetry was missing before anything of them was told
    missed: frozenset[int] = frozenset()

    def begin(self, note: Note, due: int, topic_id: str | None) -> Term:
        """A leader's start: a new term, or the one an election has announced."""
        epoch = 0 if note.leader_epoch is None else note.leader_epoch
        same = [t for t in self.terms if t.epoch == epoch]
        if same and same[-1].start is None and same[-1].broker_id == note.broker_id:
            term = same[-1]
        else:
            term = self.announce(epoch, note.broker_id, note.ts, due)
        term.start, term.ts, term.due = note.ts, note.ts, due
        term.offset, term.hw, term.level, term.isr = note.leo, note.hw, note.level, note.isr
        term.min_isr = note.min_isr
        # leaderRecoveryState stays RECOVERING over a restart: only the first term of an epoch was elected
        term.unclean = False if term.ordinal else note.unclean if term.unclean is None else term.unclean
        term.topic_id = note.topic_id or topic_id
        return term

    def announce(self, epoch: int, broker_id: int, ts: int, due: int) -> Term:
        """A term of which nothing but its leader and epoch is known yet, in its place by epoch."""
        folded = [self.folded_term] if self.folded_term else []
        same = [t.ordinal for t in [*folded, *self.terms] if t.epoch == epoch]
        term = Term(epoch, broker_id, max(same, default=-1) + 1, ts, due)
        self.terms.append(term)
        self.terms.sort(key=lambda t: (t.epoch, t.ordinal))
        return term

    def of_epoch(self, epoch: int) -> Term | None:
        """The last term of an epoch."""
        return next((t for t in reversed(self.terms) if t.epoch == epoch), None)

    def untold(self, epoch: int) -> bool:
        """Whether nothing is known of this epoch's leader, which may tell of it yet."""
        return self.of_epoch(epoch) is None and (self.folded_term is None or epoch > self.folded_term.epoch)

    def too_late(self, epoch: int) -> bool:
        """Whether terms after this epoch's are folded away already."""
        return self.folded_term is not None and epoch < self.folded_term.epoch

    def elected(self, epoch: int) -> Term | None:
        """The first term of an epoch, which an election began; later ones are resumptions."""
        return next((t for t in self.terms if t.epoch == epoch), None)

    def started_before(self, term: Term) -> int:
        """When the term before this one began, 0 where none is known."""
        place = self.terms.index(term)
        before = self.terms[place - 1] if place else self.folded_term
        return 0 if before is None else before.ts

    def at(self, key: tuple[int, int] | None) -> Term | None:
        return next((t for t in self.terms if (t.epoch, t.ordinal) == key), None)

    def last_led(self, broker_id: int, start: int | None = None) -> Term | None:
        """The last term this broker led, or the one it began at `start`."""
        return next(
            (
                t
                for t in reversed(self.terms)
                if t.broker_id == broker_id and t.start is not None and start in (None, t.start)
            ),
            None,
        )

    def last_part(self, note: Note, joined: frozenset[int], context: Context) -> tuple[int, int] | None:
        """The last term the broker of this start took part in before it."""
        standing = self.standings.get(note.broker_id)
        if standing is None or standing.led:
            return standing.anchor if standing else None
        term = self.of_epoch(standing.epoch)
        grew = standing.leo is not None and note.leo is not None and note.leo > standing.leo
        if term is None or not (
            grew or note.broker_id in joined or self.fetched(term, note.broker_id, note.ts, context)
        ):
            return standing.anchor
        term.fetchers |= {note.broker_id}
        return term.epoch, term.ordinal

    def fetched(self, term: Term, broker_id: int, as_of: int, context: Context) -> bool:
        return broker_id in term.fetchers or broker_id in term.known(as_of, context).fetchers

    def floor(self, term: Term, as_of: int, context: Context) -> tuple[int | None, int | None]:
        """(offset, epoch) of the first start since the new leader last took part; offset None when not known.

        Below it the new leader's log is the one that was led since, whatever its own end.
        """
        broker = term.broker_id
        before = self.terms[: self.terms.index(term)]
        for place in range(len(before) - 1, -1, -1):
            if before[place].broker_id == broker or self.fetched(before[place], broker, as_of, context):
                first = self.terms[place + 1]
                return first.offset, first.epoch
        if broker not in self.since:
            return None, None
        first = self.terms[0]
        return (first.offset, first.epoch) if self.since[broker] is None else (self.since[broker], None)

    def fold(self, after: Mark, as_of: int, context: Context) -> None:
        """Puts the oldest term away; `after` is the mark at its end."""
        term = self.terms.pop(0)
        term.freeze(as_of, context)
        part = {b for b in self.standings if b == term.broker_id or self.fetched(term, b, as_of, context)}
        self.since = {b: term.offset if s is None else s for b, s in self.since.items() if b not in part}
        self.since.update(dict.fromkeys(part))
        self.base, self.folded_term = after, term
