"""One partition as samples show it: the present leadership, what was sampled of its replicas, and its last terms."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from pipelines.replication.samples.layout import KEPT_STEPS

KEPT_TERMS = 8
KEPT_ISRS = 8
NOT_KNOWN = -1


class Row(NamedTuple):
    """One row of a watcher about a partition, NOT_KNOWN where a number is null. Times in microseconds, of the watcher's
    clock: `clock` is the largest time of the source by then, `error` how far `ts` may be off. `number`: where it stands
    in the micro-batch; `gone`: the partition is no longer there."""

    clock: int
    ts: int
    error: int
    event_type: str
    broker: int
    leader: int
    epoch: int
    leo: int
    hw: int
    isr: tuple[int, ...] | None
    replicas: tuple[int, ...] | None
    log_epoch: int
    topic_id: str | None
    source: int
    number: int
    gone: bool

    @property
    def by_leader(self) -> bool:
        """Whether it is the sample of a leader."""
        return self.event_type == "sample" and self.leader == self.broker and self.epoch >= 0


class Step(NamedTuple):
    """The leader's LEO became `leo`, after `least` and at `most`."""

    least: int
    most: int
    leo: int


class IsrBefore(NamedTuple):
    """The ISR was `isr` until it was changed, after `after` and at most `by`; None: not known what it was."""

    after: int
    by: int
    isr: tuple[int, ...] | None


class Check(NamedTuple):
    """A HW that was sampled of a leader whose log shows its HWs, too."""

    ts: int
    error: int
    leader: int
    epoch: int
    hw: int


class Replica(Struct, omit_defaults=True, gc=False):
    """What was sampled of one replica: when first since its log was cut; its last LEO, since when it is that, and the
    latest leader epoch in its log; whether it answers, and whether it is out of sync."""

    first: int = NOT_KNOWN
    leo: int = NOT_KNOWN
    since: int = NOT_KNOWN
    log_epoch: int = NOT_KNOWN
    answers: bool = False
    out_of_sync: bool = False


class SampledTerm(Struct, omit_defaults=True, gc=False):
    """What was sampled in one leader epoch: HWs by time, the leader's last LEO, and who had records of that epoch."""

    broker: int
    epoch: int
    topic_id: str | None = None
    hws: list[tuple[int, int]] = field(default_factory=list)
    leo: int | None = None
    fetchers: list[int] = field(default_factory=list)

    def hw_at(self, as_of: int) -> int | None:
        """The largest HW sampled by a time."""
        return max((hw for ts, hw in self.hws if ts <= as_of), default=None)


class SampledPartition(Struct, omit_defaults=True, gc=False):
    """The present of one partition and its last terms. `began`: when its leader was first seen; `seen`: when it
    answered last; `stalled_since`: since when its HW has stood below its LEO; `source`: the number of its source;
    `gone`: its topic is no longer in the metadata.

    `steps`: how the leader's LEO rose, as far back as a follower is behind.
    """

    topic_id: str | None = None
    leader: int = NOT_KNOWN
    epoch: int = NOT_KNOWN
    began: int = NOT_KNOWN
    seen: int = NOT_KNOWN
    source: int = NOT_KNOWN
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    hw: int | None = None
    leo: int | None = None
    frozen: bool = False
    gone: bool = False
    min_isr: int | None = None
    stalled_since: int | None = None
    steps: list[Step] = field(default_factory=list)
    sampled: dict[int, Replica] = field(default_factory=dict)
    terms: list[SampledTerm] = field(default_factory=list)
    unchecked: list[Check] = field(default_factory=list)
    """HWs that the leader's log has still to bear out."""
    isrs: list[IsrBefore] = field(default_factory=list)
    """What the ISR was before, as far back as a replica may still be found to have been out of sync."""

    @property
    def followers(self) -> list[tuple[int, Replica]]:
        """Those that answer, by broker id; a replica that is assigned no more is none."""
        return [
            (broker, one)
            for broker, one in sorted(self.sampled.items())
            if one.answers and broker != self.leader and (self.replicas is None or broker in self.replicas)
        ]

    @property
    def has_lag(self) -> bool:
        """Whether a follower is behind that is not known to be out of sync."""
        leo = self.leo
        return leo is not None and any(one.leo < leo and not one.out_of_sync for _, one in self.followers)

    def replica(self, broker: int) -> Replica:
        """What was sampled of a replica, made on first use."""
        return self.sampled.setdefault(broker, Replica())

    def term(self, broker: int, epoch: int, topic_id: str | None) -> SampledTerm | None:
        """A term by its leader and epoch; `topic_id` None: of any topic."""
        return next(
            (
                term
                for term in reversed(self.terms)
                if (term.broker, term.epoch) == (broker, epoch) and topic_id in (None, term.topic_id)
            ),
            None,
        )

    def begin(self, row: Row) -> None:
        """Another leadership: nothing is known yet of its offsets."""
        self.leader, self.epoch, self.began, self.seen = row.leader, row.epoch, row.ts, NOT_KNOWN
        self.hw = self.leo = self.stalled_since = None
        self.frozen, self.steps = False, []
        if row.leader >= 0:
            self.terms = [*self.terms[1 - KEPT_TERMS :], SampledTerm(row.leader, row.epoch, self.topic_id)]

    def take_isr(self, row: Row) -> None:
        """The ISR that a row reports. A sample has that of the metadata before it, which is how old nobody says."""
        if row.isr is None or row.isr == self.isr:
            return
        after = NOT_KNOWN if row.event_type == "sample" else row.ts - row.error
        self.isrs.append(IsrBefore(after, row.clock, self.isr))
        if len(self.isrs) > KEPT_ISRS:
            del self.isrs[0]
            self.isrs[0] = self.isrs[0]._replace(isr=None)
        self.isr = row.isr

    def in_isr(self, broker: int, at: int) -> bool | None:
        """Whether a replica was in the ISR at a time; None where that is not known."""
        known = None if self.isr is None else broker in self.isr
        for past in reversed(self.isrs):
            if at >= past.by:
                break
            before = None if past.isr is None else broker in past.isr
            if at > past.after and before != known:
                return None
            known = before
        return known

    def holders(self) -> tuple[int, ...]:
        """The members of the ISR whose LEO was at the HW when they answered last."""
        return tuple(r for r in self.isr or () if r in self.sampled and self.sampled[r].leo == self.hw)

    def grow(self, leo: int, after: int, at: int) -> None:
        """The leader's LEO is `leo` at `at`, and was what it was before until `after`."""
        if self.leo is None or leo < self.leo:
            self.steps = [Step(NOT_KNOWN, at, leo)]
        elif leo > self.leo:
            self.steps.append(Step(after, at, leo))
        self.leo = leo
        behind = min((one.leo for _, one in self.followers), default=leo)
        first = next((k for k, step in enumerate(self.steps) if step.leo > behind), len(self.steps))
        del self.steps[: min(first, len(self.steps) - 1)]
        if len(self.steps) > KEPT_STEPS:
            middle = len(self.steps) // 2
            dropped = self.steps.pop(middle)
            self.steps[middle] = self.steps[middle]._replace(least=dropped.least)
        while self.isrs and self.isrs[0].by <= max(self.steps[0].most, self.began):  # no deadline is before that
            del self.isrs[0]

    def caught_up(self, leo: int) -> tuple[int, int] | None:
        """(after, by): the bounds of when a follower with this LEO was last caught up; None where it still is.

        It was as long as the leader's LEO was no larger: Kafka takes the last such instant at which it fetched.
        """
        step = next((step for step in self.steps if step.leo > leo), None)
        return None if step is None else (step.least, max(step.most, self.began))
