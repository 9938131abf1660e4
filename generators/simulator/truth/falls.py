"""Falls of one partition's high watermark: for each term, which records of earlier ones its leader's log does not
have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.cluster.simulation_event import SimulationEvent


class Loss(NamedTuple):
    """Committed records `start` to `end` (half-open) that are gone."""

    start: int
    end: int


def between(runs: Iterable[Run], start: int, end: int) -> list[Run]:
    """The runs' records from `start` to `end`."""
    return [r._replace(start=max(r.start, start), end=min(r.end, end)) for r in runs if r.end > start and r.start < end]


class Committed:
    """The records below the high watermark, identified by (offset, term), since the last loss."""

    def __init__(self) -> None:
        self.log = ReplicaLog()
        self._gone: list[Run] = []
        """Committed once and lost since."""

    @property
    def end(self) -> int:
        """End of the committed records: Hmax since the last loss."""
        return self.log.leo

    def advance(self, leader: ReplicaLog, hw: int) -> None:
        """The leader's HW became `hw`."""
        if leader.start > self.log.leo:
            self.log.restart(leader.start)
        if hw > self.log.leo:
            self.log.extend(between(leader.runs, self.log.leo, hw))

    def lead(self, leader: ReplicaLog) -> Loss | None:
        """A leader begins with this log: committed records that it does not have are lost, and no longer committed."""
        start, end = self.log.parts_from(leader, self.end), self.end
        if start >= end:
            return None
        self._gone += between(self.log.runs, start, end)
        self.log.truncate(start)
        return Loss(start, end)

    def held(self, runs: Iterable[Run]) -> bool:
        """Whether any of these records is committed, or was before it was lost."""
        mine = [*self.log.runs, *self._gone]
        return any(r.term == m.term and r.start < m.end and m.start < r.end for r in runs for m in mine)


class Fall(NamedTuple):
    """A verdict: its class, the event it is about, the end of the committed records, the loss."""

    cls: str
    by: SimulationEvent
    before: int
    after: int
    loss: Loss | None = None
    replica: int | None = None


@dataclass
class _Term:
    """A term as it began: its leader, the leader's log, and the end of the committed records of earlier terms."""

    by: SimulationEvent
    log: ReplicaLog
    before: int
    loss: Loss | None
    unclean: bool

    def learn(self, late: ReplicaLog, hw: int) -> None:
        """An earlier leader that does not know of this term yet moved its HW to `hw`."""
        parts = late.parts_from(self.log, hw)
        self.before = max(self.before, hw)
        if parts < hw:
            self.loss = Loss(min(parts, self.loss.start if self.loss else parts), self.before)

    def fall(self) -> Fall | None:
        after = self.by.hw or 0
        if self.loss is not None:
            return Fall("unclean_loss" if self.unclean else "committed_loss", self.by, self.before, after, self.loss)
        return Fall("stale_leader_hw", self.by, self.before, after) if after < self.before else None


class Falls:
    """Takes every term, every HW of a leader and every truncation of a log, in order of true time."""

    def __init__(self) -> None:
        self.committed = Committed()
        self._terms: list[_Term] = []
        self._cuts: list[Fall] = []

    def begin(self, event: SimulationEvent, log: ReplicaLog) -> None:
        """A `leader` event. A leader that restarts within its epoch was not elected again, so not uncleanly."""
        newer = next(
            (k for k, t in enumerate(self._terms) if (t.by.leader_epoch or 0) > (event.leader_epoch or 0)), None
        )
        if newer is not None:  # a leader that was frozen and replaced before it began: it takes no records away
            self._terms.insert(newer, _Term(event, _copy(log), self._terms[newer].before, None, False))
            return
        again = any(term.by.leader_epoch == event.leader_epoch for term in self._terms)
        before = self.committed.end
        loss = self.committed.lead(log)
        self._terms.append(_Term(event, _copy(log), before, loss, bool(event.unclean) and not again))

    def advance(self, event: SimulationEvent, log: ReplicaLog) -> None:
        """The HW of a leader, which may have been replaced already."""
        hw = event.hw or 0
        mine = max(
            k
            for k, t in enumerate(self._terms)
            if (t.by.broker, t.by.leader_epoch) == (event.broker, event.leader_epoch)
        )
        if mine + 1 < len(self._terms):
            self._terms[mine + 1].learn(log, hw)
        if log.parts_from(self._terms[-1].log, hw) == hw or mine + 1 == len(self._terms):
            self.committed.advance(log, hw)

    def cut(self, event: SimulationEvent, log: ReplicaLog, before: ReplicaLog, in_sync: bool) -> None:
        """A `truncate` of a replica whose log was `before` and is now `log`; without records no loss."""
        to, end = log.leo, self.committed.end
        removed = [r._replace(start=max(r.start, to)) for r in before.runs if r.end > to]
        if in_sync and removed and self.committed.log.parts_from(log, end) < end:
            self._cuts.append(Fall("hw_moved_back", event, end, to, replica=event.broker))
        elif removed and not self.committed.held(removed):
            self._cuts.append(Fall("uncommitted_truncation", event, end, to, replica=event.broker))

    def found(self) -> Iterator[Fall]:
        """Every verdict, those on terms first."""
        yield from (fall for term in self._terms[1:] if (fall := term.fall()) is not None)
        yield from self._cuts


def _copy(log: ReplicaLog) -> ReplicaLog:
    copied = ReplicaLog(log.start)
    copied.leo, copied.runs = log.leo, list(log.runs)
    return copied
