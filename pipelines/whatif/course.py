"""One partition followed through its events: its ISR and HW as they were, or as other rules would have had them.

The counterfactual ISR is what is assigned, less the replicas that the lag rule calls out of sync, less fenced and
stopping brokers until they have reached the HW again (Partition.isFollowerInSync); the leader is always a member. The
HW is the least LEO over it, and stands while it is under min ISR. Appends, fetches and elections stay as they were:
what producers and controllers would have done else is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
Item = tuple[int, int, Row]
"""(microseconds, order among those of one time, the row)"""
STOOD_US = 1_000_000
"""Below the leader's LEO for longer the HW stands: fetches of a follower that keeps up come sooner."""
DOWN = ("started", "fenced", "controlled_shutdown", "unregistered")
"""A broker that has started is registered, and fenced until it has caught up with the metadata."""
UP = "unfenced"


@dataclass(frozen=True)
class Window:
    """What counts: from `begin` on and before `end`, in microseconds."""

    begin: int
    end: int

    def overlap(self, begin: int, end: int) -> int:
        """How much of a span lies inside."""
        return max(0, min(end, self.end) - max(begin, self.begin))


@dataclass
class Course:
    """What became of a partition within the window; times in microseconds."""

    isrs: list[tuple[int, ...]] = field(default_factory=list)
    """The ISR at first, and after each change, over the whole history."""
    hws: list[int] = field(default_factory=list)
    shrinks: int = 0
    expands: int = 0
    out_of_sync_us: int = 0
    """Added up over replicas."""
    hw_stood_us: int = 0
    under_min_isr_us: int = 0


class Follower:
    """Follows one partition; `recorded`: its ISR and HW are those of rows `isr_after` and `hw_after`, not computed."""

    def __init__(self, window: Window, min_isr: int, *, recorded: bool, strict: bool = True) -> None:
        self.course = Course()
        self._window, self._recorded, self._strict = window, recorded, strict
        self._min_isr = {"rule": min_isr}
        self._term: tuple[int, int] | None = None
        self._epoch = -1
        self._leader: int | None = None
        self._replicas: set[int] = set()
        self._leos: dict[int, int] = {}
        self._leader_leo = 0
        self._out: set[int] = set()
        self._down: set[int] = set()
        self._away: set[int] = set()
        """Down, or not at the HW again since."""
        self._isr: frozenset[int] = frozenset()
        self._hw: int | None = None
        self._reported_hw: int | None = None
        self._now = window.begin
        self._stands_since: int | None = None

    def follow(self, items: Iterable[Item]) -> Course:
        """The course over items in order of time, up to the end of the window."""
        for ts, _, row in items:
            self._pass(ts)
            getattr(self, f"_on_{row['event_type']}")(row)
            if not self._recorded:
                self._compute(ts)
            self._note_stand(ts)
        self._pass(self._window.end)
        self._close_stand(self._window.end)
        return self.course

    def _pass(self, ts: int) -> None:
        """Time goes by in the state that there is."""
        span = self._window.overlap(self._now, ts)
        if self._leader is not None:
            self.course.out_of_sync_us += span * len((self._out - self._down - {self._leader}) & self._replicas)
            self.course.under_min_isr_us += span * self._under_min_isr
        self._now = max(self._now, ts)

    @property
    def _under_min_isr(self) -> bool:
        said = self._min_isr
        wanted = said.get("topic", said.get("leader", said.get("cluster", said["rule"])))
        return len(self._isr) < min(wanted, len(self._replicas))

    def _on_leader(self, row: Row) -> None:
        if (row["us"], row["broker_id"]) == self._term:  # the same line in another file
            return
        self._term, self._epoch = (row["us"], row["broker_id"]), max(self._epoch, row["leader_epoch"])
        self._away = {r for r in self._away if r in self._down or r not in row["isr"]} - {row["broker_id"]}
        self._leader, self._leader_leo = row["broker_id"], row["leo"]
        self._replicas = set(row["replicas"] or self._replicas | set(row["isr"]))
        self._leos = {row["broker_id"]: row["leo"]}
        self._out = self._replicas - set(row["isr"])
        if row["min_isr"] is not None:
            self._min_isr["leader"] = row["min_isr"]
        if self._recorded:
            self._set_isr(frozenset(row["isr"]))
        as_it_was = self._recorded or self._hw in (None, self._reported_hw)
        self._set_hw(row["hw"] if as_it_was else min(self._hw or 0, row["leo"]))
        self._reported_hw = row["hw"]

    def _on_election(self, row: Row) -> None:
        if row["leader_epoch"] <= self._epoch:  # a controller that has started again prints old elections anew
            return
        self._epoch, self._replicas = row["leader_epoch"], set(row["replicas"] or self._replicas)
        if row["leader_id"] != self._leader:
            self._leader = None if row["leader_id"] == -1 else row["leader_id"]
            self._leos = {}

    def _on_append(self, row: Row) -> None:
        if row["broker_id"] == self._leader:
            self._grow(row["leader_leo"])

    def _on_fetch(self, row: Row) -> None:
        if row["broker_id"] != self._leader:
            return
        if row["leader_leo"] is not None:
            self._grow(row["leader_leo"])
        self._leos[row["replica_id"]] = row["leo"]
        if row["leo"] >= self._leader_leo:
            self._out.discard(row["replica_id"])
        if row["replica_id"] not in self._down and row["leo"] >= (self._hw or 0):
            self._away.discard(row["replica_id"])

    _on_replica_leo = _on_fetch

    def _on_hw(self, row: Row) -> None:
        if row["broker_id"] == self._leader == row["replica_id"]:
            self._reported_hw = row["hw"]

    def _on_isr(self, row: Row) -> None:
        self._replicas = set(row["replicas"] or self._replicas)

    def _on_config(self, row: Row) -> None:
        if row["min_isr"] is not None:
            self._min_isr["cluster" if row["topic"] is None else "topic"] = row["min_isr"]

    def _on_broker_state(self, row: Row) -> None:
        if row["detail"] in DOWN:
            self._down.add(row["replica_id"])
            self._away.add(row["replica_id"])
        elif row["detail"] == UP:
            self._down.discard(row["replica_id"])

    def _on_sync(self, row: Row) -> None:
        """A row of `replica_sync`: what the lag rule says of a replica from then on."""
        if row["leader_id"] == self._leader:
            (self._out.add if row["state"] == "out_of_sync" else self._out.discard)(row["replica_id"])

    def _on_isr_after(self, row: Row) -> None:
        if self._recorded:
            self._set_isr(frozenset(row["isr_after"]))
            if row["isr_after"]:  # the last member that goes leaves nobody to lead: that is no shrink by a rule
                self._count(row["us"], row["removed"], row["added"])

    def _on_hw_after(self, row: Row) -> None:
        if self._recorded:
            self._set_hw(row["hw"])

    def _grow(self, leader_leo: int) -> None:
        self._leader_leo = max(self._leader_leo, leader_leo)
        if self._leader is not None:
            self._leos[self._leader] = self._leader_leo

    def _compute(self, ts: int) -> None:
        if self._leader is None or self._hw is None:
            return
        isr = frozenset(self._replicas - self._out - self._away | {self._leader})
        if self._isr:
            self._count(ts, self._isr - isr, isr - self._isr)
        self._set_isr(isr)
        if not (self._strict and self._under_min_isr):
            least = min(self._leos.get(replica, -1) for replica in isr)
            self._set_hw(max(least, -1 if self._hw is None else self._hw))

    def _count(self, ts: int, removed: Collection[int] | None, added: Collection[int] | None) -> None:
        if self._window.begin <= ts < self._window.end:
            self.course.shrinks += bool(removed)
            self.course.expands += bool(added)

    def _set_isr(self, isr: frozenset[int]) -> None:
        if isr != self._isr:
            self._isr = isr
            self.course.isrs.append(tuple(sorted(isr)))

    def _set_hw(self, hw: int) -> None:
        if hw != self._hw:
            self._close_stand(self._now)
            self._hw = hw
            self.course.hws.append(hw)

    def _note_stand(self, ts: int) -> None:
        below = self._leader is None or self._hw is None or self._hw < self._leader_leo
        if not below:
            self._close_stand(ts)
        elif self._stands_since is None and self._hw is not None:
            self._stands_since = ts

    def _close_stand(self, ts: int) -> None:
        since, self._stands_since = self._stands_since, None
        if since is not None and ts - since > STOOD_US:
            self.course.hw_stood_us += self._window.overlap(since, ts)
