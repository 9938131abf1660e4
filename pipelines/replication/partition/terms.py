"""The terms of one partition in epoch order, and the brokers that took part in them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import field
from msgspec.structs import replace

from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.one_term import (
    STORED_BY,
    BrokerPosition,
    CommittedMark,
    LeastStart,
    PendingHw,
    Term,
    TermKey,
    least_start,
)
from schemas.replication_events import writer

KEPT_TERMS = 8


class Terms(Persisted):
    """The newest terms, the mark that the older ones leave behind (`base`), and the position of every broker."""

    terms: list[Term] = field(default_factory=list)
    positions: dict[int, BrokerPosition] = field(default_factory=dict)
    base: CommittedMark = field(default_factory=CommittedMark)
    folded_term: Term | None = None
    # by broker from where its log may differ from that of the last folded term's leader; None: it took part in that
    since: dict[int, int | None] = field(default_factory=dict)
    pending_hws: list[PendingHw] = field(default_factory=list)
    # when a broker last started again as a follower in the leader epoch that it was in
    restarted: dict[int, int] = field(default_factory=dict)
    # brokers whose clocks are wrong, by how many microseconds they are ahead of the controller's
    wrong_clocks: dict[int, int] = field(default_factory=dict)
    # brokers of which telemetry was missing before their first event
    with_initial_gap: frozenset[int] = frozenset()
    # (offset, leader epoch) from which on replicas may differ: a leader went on there without what it had lost
    differing: tuple[int | None, int] | None = None
    # the largest log start known, and when the partition was created, where that was seen
    log_start: int = 0
    created: int | None = None
    # how often leader epochs began again below, and after how many times the folded term was led
    lineage: int = 0
    folded_lineage: int = 0
    # the last leader epoch in which a broker was told that nobody leads
    leaderless: int = -1
    # when a broker last came with less than it had told before, and had not cut
    shrunk: dict[int, int] = field(default_factory=dict)

    def begin(self, event: PartitionEvent, due: int, topic_id: str | None) -> Term:
        """A leader's start: a new term, or the one that an election has announced."""
        epoch = 0 if event.leader_epoch is None else event.leader_epoch
        same = [t for t in self.terms if t.epoch == epoch]
        known = bool(same) and same[-1].broker_id == event.broker_id
        if known and (same[-1].start_ts is None or (same[-1].sampled and not event.watched)):
            term = same[-1]  # announced, or sampled: the leader's own log is the finer source
        else:
            term = self.announce(epoch, event.broker_id, event.ts, due)
        term.start_ts, term.ts, term.due, term.summary = event.ts, event.ts, due, None
        term.start_offset, term.start_hw, term.level, term.isr = event.leo, event.hw, event.level, event.isr
        term.min_isr, term.log_start = event.min_isr, self.log_start
        position = self.positions.get(event.broker_id)
        term.own_before, term.loss_excluded = position.ts if position else 0, False
        term.restarted, term.shrunk = (of.get(event.broker_id, 0) for of in (self.restarted, self.shrunk))
        if event.leo is not None and event.leo < self.log_start:
            self.log_start = 0
        self.log_start = max(self.log_start, event.log_start or 0)
        # leaderRecoveryState stays RECOVERING over a restart: only the first term of an epoch was elected
        term.unclean = False if term.ordinal else event.unclean if term.unclean is None else term.unclean
        term.topic_id = event.topic_id or topic_id
        if (epoch, event.leo, len(self.terms), self.folded_term) == (0, 0, 1, None):
            self.created = event.ts
        self._pass_on_stored_hw(term)
        return term

    def _pass_on_stored_hw(self, resumed: Term) -> None:
        """Count a HW that was stored after a term resumed for that one, where its start is told later than the HW: the
        broker may have it from either, so that it proves nothing."""
        before = self.at((resumed.epoch, resumed.ordinal - 1))
        if before is not None and before.stored_at > resumed.ts:
            resumed.stored_hw, before.stored_hw = before.stored_hw, None
            resumed.stored_by, before.stored_by = before.stored_by, None
            resumed.stored_at, before.stored_at, before.stored_on = before.stored_at, 0, None
            resumed.stored_behind_gap, resumed.stored_in_epoch = True, before.stored_in_epoch

    def announce(self, epoch: int, broker_id: int, ts: int, due: int) -> Term:
        """A term of which only the leader and the epoch are known yet, in its place by epoch."""
        folded = [self.folded_term] if self.folded_term and self.newest_folded is not None else []
        same = [t.ordinal for t in [*folded, *self.terms] if t.epoch == epoch]
        term = Term(epoch, broker_id, max(same, default=-1) + 1, ts, due, log_start=self.log_start)
        self.terms.append(term)
        self.terms.sort(key=lambda t: t.key)
        return term

    def last_of_epoch(self, epoch: int) -> Term | None:
        """The last term of an epoch."""
        return next((t for t in reversed(self.terms) if t.epoch == epoch), None)

    def begun_in_epoch(self, epoch: int, ts: int) -> list[Term]:
        """The terms of an epoch without those that resumed it after a time, the newest first."""
        return [t for t in reversed(self.terms) if t.epoch == epoch and (t.ordinal == 0 or t.ts <= ts)]

    def has_begun(self, epoch: int) -> bool:
        """Whether a leader has reported its start in this epoch, or may have in one that is folded away."""
        of_epoch = self.first_of_epoch(epoch)
        return self.is_folded(epoch + 1) if of_epoch is None else of_epoch.start_ts is not None

    def first_of_epoch(self, epoch: int) -> Term | None:
        """The first term of an epoch, which an election began; later ones are resumptions."""
        return next((t for t in self.terms if t.epoch == epoch), None)

    def may_still_start(self, epoch: int) -> bool:
        """Whether no start of this epoch is known, and its leader may yet report one."""
        return self.last_of_epoch(epoch) is None and epoch > (-1 if self.newest_folded is None else self.newest_folded)

    @property
    def newest_folded(self) -> int | None:
        """The leader epoch of the last term that is folded away, None where there is none that it follows on."""
        return self.folded_term.epoch if self.folded_term and self.folded_lineage == self.lineage else None

    def is_folded(self, epoch: int) -> bool:
        """Whether terms after this epoch's are folded away already."""
        return self.newest_folded is not None and epoch < self.newest_folded

    def is_announced_by(self, event: PartitionEvent) -> bool:
        """Whether an election is one of a term of its own: none of before what is known, which a controller replays."""
        first = self.terms[0].epoch if self.terms else self.newest_folded
        return first is None or (event.leader_epoch or 0) > first

    def goes_back(self, event: PartitionEvent) -> bool:
        """Whether a broker's own source has a leader epoch below an earlier one of it: a snapshot was restored."""
        position = self.positions.get(event.broker_id)
        if position is None or event.leader_epoch is None or not position.ts:
            return False
        told = max(position.epoch, position.told_epoch)
        return self._tells_on(position, event) and event.leader_epoch < told and event.ts > position.ts

    def take_epoch(self, event: PartitionEvent) -> None:
        """Note the leader epoch in a broker's row of the ISR or of a HW."""
        position = self.positions.get(event.broker_id)
        if position is not None and event.leader_epoch is not None and self._tells_on(position, event):
            position.told_epoch = max(position.told_epoch, event.leader_epoch)

    def _tells_on(self, position: BrokerPosition, event: PartitionEvent) -> bool:
        return (position.source_id, position.source_epoch) == (event.source_id, event.source_epoch)

    def crosses_seam(self, event: PartitionEvent) -> bool:
        """Whether a seam lies between a broker's last start and this one, so that their order is not known.

        A source that lost its position begins a new source_epoch, and files that came after those that follow them are
        told by a source of their own: neither times nor numbers order rows on both sides, only leader epochs do.
        Another log of the broker may tell its last start once more.
        """
        position = self.positions.get(event.broker_id)
        if position is None or not position.source_id or event.watched:
            return False
        if (position.source_id, position.source_epoch) == (event.source_id, event.source_epoch):
            return False
        return event.ts <= position.ts or writer(position.source_id) == writer(event.source_id)

    def tells_again(self, event: PartitionEvent) -> bool:
        """Whether a start is one that is known, told once more behind a seam."""
        start = event.leader_epoch, event.broker_id, event.ts, event.leo, event.hw
        return any((t.epoch, t.broker_id, t.start_ts, t.start_offset, t.start_hw) == start for t in self.terms)

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

    def last_participated(
        self, event: PartitionEvent, joined: Callable[[int], frozenset[int]], lookup: TermLookup
    ) -> TermKey | None:
        """The last term that a broker took part in before this start; `joined`: who joined the ISR in an epoch."""
        position, broker = self.positions.get(event.broker_id), event.broker_id
        if position is None:
            return None
        epoch = None if position.led else position.epoch
        since = position.last_term if epoch is None else (epoch + 1, -1)
        newest = self.terms[-1].epoch if event.leader_epoch is None and self.terms else event.leader_epoch or 0
        over = [t for t in self.terms if t.ts <= event.ts and t.epoch < newest]  # its start in these may be missing
        over = [t for t in over if t.start_ts is not None and t.key > (since or t.key)]
        later = (t.epoch for t in over if self.fetched(t, broker, event.ts, lookup) or broker in joined(t.epoch))
        later = (e for e in later if position.led or self._may_have_told(event.hw, e, event.ts, lookup))
        if (epoch := max(later, default=epoch)) is None:
            return position.last_term
        of_epoch = self.begun_in_epoch(epoch, event.ts)
        grew = epoch == position.epoch and not position.led and position.has_grown(event)
        term = next((t for t in of_epoch if self.fetched(t, broker, event.ts, lookup)), None)
        if term is None and of_epoch and (grew or broker in joined(epoch)):
            term = of_epoch[0]
        if term is None:
            return position.last_term
        term.fetchers |= {broker}
        for other in of_epoch:  # which of them its leader tells only where it tells of fetches, and up to its end
            if other is not term and not (other.whole and other.summary_as_of(event.ts, lookup).complete):
                other.perhaps |= {broker}
        return term.key

    def _may_have_told(self, hw: int | None, epoch: int, as_of: int, lookup: TermLookup) -> bool:
        """Whether a leader of an epoch may have told a follower this HW: it had it, or not all of its HWs are known."""
        known = [t.summary_as_of(as_of, lookup) for t in self.terms if t.epoch == epoch]
        return hw is None or any(not s.complete or hw <= (s.hmax or 0) for s in known)

    def in_another_of_epoch(self, key: TermKey | None, broker_id: int) -> bool:
        """Whether a broker that took part in a term may have done so in another one of its epoch, too."""
        return key is not None and any(t.epoch == key[0] and broker_id in t.perhaps for t in self.terms)

    def fetched(self, term: Term, broker_id: int, as_of: int, lookup: TermLookup) -> bool:
        """Whether a broker fetched from the leader of a term in it."""
        return broker_id in term.fetchers or broker_id in term.summary_as_of(as_of, lookup).fetchers

    def least_start_since(self, term: Term, as_of: int, lookup: TermLookup) -> LeastStart:
        """The offset below which the logs of the leader of `term` and of the one before it are equal: the least start
        of this term and of those that either log went through since both were in one.

        Only terms through which either log went count: a leader that took part in none of those between, and is elected
        uncleanly, brings its old log back.
        """
        broker, place = term.broker_id, self.terms.index(term)
        begun = [t for t in self.terms[:place] if t.start_ts is not None or t.unclean]
        before = begun[-1] if begun else self.folded_term  # a clean election without a start goes on from there
        other = broker if before is None else before.broker_id
        starts: list[tuple[int | None, int | None]] = [(term.start_offset, term.epoch)]
        complete = term.known_start is not None
        while place > 0:
            since = self.terms[place := place - 1]
            complete = complete and since.start_ts is not None
            there = {b for b in (broker, other) if self.took_part(since, b, as_of, lookup)}
            if there == {broker, other}:
                doubtful = any(self.in_another_of_epoch(since.key, b) for b in there)
                return least_start(starts, complete=complete and not doubtful)
            earlier = [b for t in self.terms[:place] for b in (broker, other) if self.took_part(t, b, as_of, lookup)]
            may_be = {broker, other} - there - {*earlier, *self.since} or {broker, other} & since.perhaps - there
            told = {t.broker_id for t in self.terms[place:] if t.start_ts is not None and t.key <= term.key}
            if may_be:
                return least_start(starts, complete=False)
            if there:
                starts.append((since.start_offset, since.epoch))
                complete = complete and since.known_start is not None
                broker, other = since.broker_id, ({broker, other} - there).pop()
            if since.broker_id not in told and (there or since.unclean):  # a leader's start tells where it was
                return least_start(starts, complete=False)
        starts.append((self._folded_apart(broker, other), None))
        were_there = self.since.get(broker, 0) is None and self.since.get(other, 0) is None
        return least_start(starts, complete=complete and were_there)

    def _folded_apart(self, one: int, other: int) -> int | None:
        """An offset from which on the logs of two brokers differ as the last folded term ends; None: they differ by
        where they end at most, or it is not known."""
        offsets = [self.since[broker] for broker in (one, other) if broker in self.since]
        return next((o for o in offsets if o is not None), None) if len(offsets) == 2 and None in offsets else None

    def took_part(self, term: Term, broker_id: int, as_of: int, lookup: TermLookup) -> bool:
        """Whether a broker led in a term or fetched from its leader."""
        return term.broker_id == broker_id or self.fetched(term, broker_id, as_of, lookup)

    def fold(self, after: CommittedMark, as_of: int, lookup: TermLookup) -> None:
        """Remove the oldest term; `after` is the mark at its end."""
        term = self.terms.pop(0)
        term.keep_summary(as_of, lookup)
        took_part = {b for b in self.positions if self.took_part(term, b, as_of, lookup)}
        start = term.start_offset  # where it is not known, nor is the least of them
        apart = {b: self._folded_apart(b, term.broker_id) for b in self.since if start is not None}
        self.since = {b: start if s is None else min(s, start or 0) for b, s in apart.items()}
        self.since.update(dict.fromkeys(took_part))
        self.differing = self.differing or term.differs_from
        self.base, self.folded_term, self.folded_lineage = after, term, self.lineage

    def lineage_begins_at(self, event: PartitionEvent) -> int:
        """The time at which leader epochs began again below: that of the event, or just before its leader first resumed
        the event's epoch after later ones. A leader that was down never learned of these."""
        epoch, leader = event.leader_epoch or 0, event.leader_id
        since = max((t.ts for t in self.terms if t.epoch > epoch), default=event.ts)
        own = (t.ts for t in self.terms if (t.epoch, t.broker_id) == (epoch, leader) and since < t.ts <= event.ts)
        return min((ts - 1 for ts in own), default=event.ts)

    def begin_lineage(self, at: int, told_at: int, grace_us: int) -> Terms:
        """The terms that follow on as leader epochs begin again below. The controller tells of an election before its
        leader does."""
        later = [t for t in self.terms if t.ts > (at if t.start_ts is not None else at - grace_us)]
        self.terms = [t for t in self.terms if t not in later]
        positions = {broker: position for broker, position in self.positions.items() if position.ts > at}
        self.positions = {b: position for b, position in self.positions.items() if b not in positions}
        known = {"restarted": {**self.restarted}, "wrong_clocks": {**self.wrong_clocks}}
        return replace(
            self, terms=[replace(t, published=None, revision=0, had_ended=False) for t in later], positions=positions,
            since={}, pending_hws=self._take_hws_after(told_at, grace_us), lineage=self.lineage + 1, leaderless=-1,
            shrunk={}, **known,
        )  # fmt: skip

    def _take_hws_after(self, at: int, grace_us: int) -> list[PendingHw]:
        """Remove the HWs that brokers came with after a time: they wait for the next terms of these epochs."""
        pending = []
        for term in self.terms:
            stored_by = (term.stored_by or "").removeprefix(STORED_BY)
            if term.stored_at > at and term.stored_hw is not None and stored_by.isdecimal():
                due = term.stored_at + grace_us
                pending.append(PendingHw(term.epoch, int(stored_by), term.stored_hw, True, due, None))
                term.stored_hw, term.stored_by, term.stored_at = None, None, 0
        return pending
