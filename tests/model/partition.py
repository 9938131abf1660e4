"""One partition of a Kafka cluster in plain Python, which knows what became of every record.

It shares no code with the rules that it tests: logs are lists of records, and what is lost is found by looking for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Record = tuple[int, int]
"""(leader epoch, value): no two records that were ever written are equal."""
NOBODY = -1
STEP_MS, FENCE_MS, LAG_MS, RESTORING_MS = 500, 9_000, 30_000, 90_000
NEVER = -1 << 60


class Happening(NamedTuple):
    """What one node saw; `leos` is what the leader knew of every LEO after it tried to raise its HW, and `rose` what
    became of that: (before, after), or None. `frozen`: it did not try, under min ISR."""

    ms: int
    node: int
    kind: str
    columns: dict[str, Any]
    tried: bool = False
    rose: tuple[int, int] | None = None
    frozen: bool = False
    leos: dict[int, int] | None = None
    hw: int = 0


class Loss(NamedTuple):
    """Committed records that a new leader, or one that came back, does not have: offsets of the log they were in.
    `shows`: from which on the leader epochs of its log say so; before it others were written in the same one."""

    ms: int
    epoch: int
    first: int
    end: int
    unclean: bool
    shows: int


class Cut(NamedTuple):
    """A replica cut its log; `committed`: there was a record in it that had been below a leader's HW."""

    ms: int
    replica: int
    to: int
    end: int
    committed: bool


@dataclass
class Replica:
    """One replica on its broker. `stored`: its HW on disk. `clean`: it was stopped cleanly."""

    id: int
    log: list[Record] = field(default_factory=list)
    hw: int = 0
    stored: int = 0
    up: bool = True
    fenced: bool = False
    clean: bool = False
    short: bool = False
    """It has stopped uncleanly: its log may be shorter than it was in the ISR."""
    incarnation: int = 1
    follows: int = NOBODY
    """The leader epoch in which it follows."""


class Partition:
    """The truth of one partition. Every method lets some time pass; `happenings` are what nodes could have printed."""

    def __init__(self, brokers: int, min_isr: int = 1) -> None:
        self.ms = 0
        self.replicas = {b: Replica(b) for b in range(1, brokers + 1)}
        self.assigned = sorted(self.replicas)
        self.isr = list(self.assigned)
        self.proposed: list[int] | None = None
        self.leader, self.epoch, self.partition_epoch, self.ordinal = 1, 0, 0, 0
        self.recovering = False
        self.min_isr = min_isr
        self.begun = False
        """Whether the leader has begun to lead in its epoch."""
        self.known: dict[int, int] = {}
        """LEOs of followers as the leader knows them in this term."""
        self.caught_up: dict[int, int] = {}
        """When the leader last found a follower caught up."""
        self.last_fetch: dict[int, tuple[int, int]] = {}
        """Of the fetch before: (when, the leader's LEO)."""
        self.committed: list[Record] = []
        """The records below the largest HW of a leader, without those that are lost."""
        self.ever: set[Record] = set()
        """Every record that was ever below a leader's HW."""
        self.losses: list[Loss] = []
        self.cuts: list[Cut] = []
        self.starts: list[tuple[int, int, int]] = []
        """(ms, epoch, ordinal) of every start of a term."""
        self.happenings: list[Happening] = []
        self.saved: Any = None
        self.then = 0
        """The leader's LEO of some seconds ago."""
        self.incarnations = brokers
        self.value = 0
        self.untold = False
        self.unsafe_since = 1 << 60
        """When somebody first began to lead who was no member of the ISR, or had stopped uncleanly."""
        for b in self.assigned:
            self.replicas[b].incarnation = b
            self._started(b)
        self.pass_time(9_000)
        self._control("config", min_isr=min_isr)
        self._control("election", unclean=False, **self._registration())
        self.ms += 20
        self._lead()
        for b in self.assigned[1:]:
            self._follow(b)

    # -- what is printed

    def _print(self, node: int, kind: str, tried: bool = False, **columns: Any) -> None:
        if not tried:
            self.happenings.append(Happening(self.ms, node, kind, columns))
            return
        rose, frozen = self._raise_hw()
        leos = {self.leader: len(self.log)} | {b: self.known.get(b, -1) for b in self.assigned if b != self.leader}
        self.happenings.append(Happening(self.ms, node, kind, columns, True, rose, frozen, leos))

    def _control(self, kind: str, **columns: Any) -> None:
        self.happenings.append(Happening(self.ms, 0, kind, columns))

    def pass_time(self, ms: int = STEP_MS) -> None:
        """Time passes, and every node that runs says that it has told everything."""
        self.ms += ms
        for b, replica in self.replicas.items():
            if replica.up:
                self._print(b, "progress")
        self._control("progress")

    # -- the high watermark

    @property
    def log(self) -> list[Record]:
        return self.replicas[self.leader].log

    @property
    def led(self) -> bool:
        """Whether somebody leads, and runs."""
        return self.leader != NOBODY and self.replicas[self.leader].up

    def _raise_hw(self) -> tuple[tuple[int, int] | None, bool]:
        leader = self.replicas[self.leader]
        if len(self.isr) < min(self.min_isr, len(self.assigned)):
            return None, True
        waits_for = set(self.isr) | set(self.proposed or ())
        waits_for |= {b for b in self.assigned if self._may_join(b)}
        new = min([len(leader.log)] + [self.known.get(b, -1) for b in waits_for if b != self.leader])
        if new <= leader.hw:
            return None, False
        before, leader.hw = leader.hw, new
        self._commit_upto(new)
        return (before, new), False

    def _commit_upto(self, hw: int) -> None:
        """Records below a leader's HW are visible: as it begins, too, where they differ from those that were lost."""
        if hw > len(self.committed):
            self.committed = self.log[:hw]
            self.ever.update(self.committed)

    def _may_join(self, b: int) -> bool:
        """Outside the ISR, caught up, and eligible (Partition.isReplicaIsrEligible)."""
        caught_up = self.known.get(b) == len(self.log) or self.ms - self.caught_up.get(b, NEVER) <= LAG_MS
        return b not in self.isr and b != self.leader and not self.replicas[b].fenced and b in self.known and caught_up

    # -- what brokers do

    def write(self) -> None:
        """The leader takes a record."""
        self.pass_time()
        self.value += 1
        self.log.append((self.epoch, self.value))
        self._print(self.leader, "append", True, leader_leo=len(self.log))

    def fetch(self, b: int, times: int = 3) -> None:
        """A follower fetches: with the second fetch its leader knows what it has, by the third it knows the HW."""
        for _ in range(times):
            self.pass_time()
            replica, hw = self.replicas[b], self.replicas[self.leader].hw
            end = len(self.log)
            self._learn(b, len(replica.log), end)
            self._print(self.leader, "fetch", True, replica_id=b, leo=len(replica.log), leader_leo=end)
            replica.log += self.log[len(replica.log) :]
            self._set_follower_hw(b, min(hw, end))

    def _learn(self, b: int, leo: int, end: int) -> None:
        """What a fetch tells the leader of a follower (Replica.updateFetchStateOrThrow)."""
        before, end_before = self.last_fetch.get(b, (NEVER, 1 << 60))
        if leo >= end:
            self.caught_up[b] = self.ms
        elif leo >= end_before:
            self.caught_up[b] = max(self.caught_up.get(b, NEVER), before)
        self.known[b], self.last_fetch[b] = leo, (self.ms, end)

    def _set_follower_hw(self, b: int, hw: int) -> None:
        before, self.replicas[b].hw = self.replicas[b].hw, hw
        if hw != before:
            self._print(b, "hw", replica_id=b, hw=hw, hw_before=before, **self._named())

    def stop(self, b: int, how: str, stored: bool = True, cut: int = 0) -> None:
        """A broker ends: `clean`ly; `granted` a controlled shutdown and killed before it was done; or by `kill`.

        `stored`: its last HW is on disk; `cut`: so many records were not, and are gone as it starts again.
        """
        self.pass_time()
        replica = self.replicas[b]
        if how in ("clean", "granted"):
            self._control("broker_state", replica_id=b, detail="controlled_shutdown", broker_epoch=replica.incarnation)
            self._leave(b)
        if how == "clean" or stored:
            replica.stored = replica.hw
        replica.up, replica.clean = False, how == "clean"
        replica.short |= how != "clean"
        if how != "clean" and cut:
            del replica.log[max(0, len(replica.log) - cut) :]

    def fence(self, b: int) -> None:
        """The session of a broker is over."""
        self.pass_time(FENCE_MS)
        self.replicas[b].fenced = True
        self._control("broker_state", replica_id=b, detail="fenced", broker_epoch=self.replicas[b].incarnation)
        self._leave(b)

    def _leave(self, b: int) -> None:
        """The controller takes a broker out of the ISR, and out of the lead."""
        left = [x for x in self.isr if x != b]
        if self.leader == b:
            able = [x for x in self.assigned if x in left and not self.replicas[x].fenced]
            if able:
                self._elect(able[0], left, unclean=False)
            else:
                self._elect(NOBODY, left or [b], unclean=False)
        elif b in self.isr and left:
            self._commit(left, "metadata")

    def able(self, b: int) -> bool:
        """Whether a broker runs, and the controller knows it."""
        return self.replicas[b].up and not self.replicas[b].fenced

    def start(self, b: int) -> None:
        """A broker starts again, with its log as it is on disk. Leads on where it is still the leader."""
        self.pass_time()
        replica = self.replicas[b]
        self.incarnations += 1
        replica.up, replica.fenced, replica.incarnation = True, False, self.incarnations
        replica.hw = replica.stored = min(replica.stored, len(replica.log))
        self._started(b)
        if self.leader == b:
            self.ordinal += self.begun
            self._lead()
            for other in self.assigned:
                if other != b and self.replicas[other].up:
                    self._cut(other)
        elif self.leader == NOBODY and b in self.isr:
            self._elect(b, self.isr, unclean=False)
        elif self.led:
            self._follow(b)

    def _started(self, b: int) -> None:
        replica = self.replicas[b]
        self._print(b, "version", clean=replica.clean if self.ms else None)
        for detail in ("started", "unfenced"):
            self._control("broker_state", replica_id=b, detail=detail, broker_epoch=replica.incarnation)

    def elect(self, b: int) -> None:
        """The controller elects a broker: cleanly out of the ISR, else uncleanly."""
        self.pass_time()
        clean = b in self.isr
        self._elect(b, self.isr if clean else [b], unclean=not clean)

    def _elect(self, b: int, isr: list[int], unclean: bool) -> None:
        self.leader, self.isr, self.proposed = b, list(isr), None
        self.epoch, self.partition_epoch, self.ordinal = self.epoch + 1, self.partition_epoch + 1, 0
        self.recovering, self.begun = unclean, False
        self._control("election", unclean=unclean, **self._registration())
        self.ms += 20
        if self.led:
            self._lead()
        for other in self.assigned:
            if other != b and self.able(other):
                self._follow(other)

    def _registration(self) -> dict[str, Any]:
        return {
            "leader_id": self.leader, "leader_epoch": self.epoch, "partition_epoch": self.partition_epoch,
            "isr": list(self.isr), "replicas": list(self.assigned),
        }  # fmt: skip

    def _lead(self) -> None:
        """A broker begins to lead: what had been committed and is not in its log is lost."""
        b, log, self.begun = self.leader, self.log, True
        self.known, self.last_fetch, self.start_offset, self.proposed = {}, {}, len(log), None
        self.caught_up = {x: self.ms for x in self.isr if x != b}
        self.starts.append((self.ms, self.epoch, self.ordinal))
        if self.recovering or self.ordinal or self.replicas[b].short:
            self.unsafe_since = min(self.unsafe_since, self.ms)
        kept = _shared(self.committed, log)
        if kept < len(self.committed):
            shows = _shared([(e, 0) for e, _ in self.committed], [(e, 0) for e, _ in log])
            self.losses.append(Loss(self.ms, self.epoch, kept, len(self.committed), self.recovering, shows))
            del self.committed[kept:]
        unclean = self.recovering or None
        hw = self.replicas[b].hw
        self._commit_upto(hw)
        starts = self._registration() | {"replicas": None}  # which only controllers name
        self._print(b, "leader", True, leo=len(log), hw=hw, min_isr=None, unclean=unclean, **starts)

    def _follow(self, b: int) -> None:
        """A broker begins to follow: it cuts its log where that and its leader's part, as leader epochs show it."""
        replica = self.replicas[b]
        replica.follows = self.epoch
        self.ms += 10
        about = {"leader_id": self.leader, "leader_epoch": self.epoch, "partition_epoch": self.partition_epoch}
        self._print(b, "follower", leo=len(replica.log), hw=replica.hw, **about)
        if self.led:
            self._cut(b)

    def _cut(self, b: int) -> None:
        replica, to = self.replicas[b], _parting(self.replicas[b].log, self.log)
        if to == len(replica.log):
            return
        self.ms += 10
        gone = replica.log[to:]
        self.cuts.append(Cut(self.ms, b, to, len(replica.log), bool(self.ever.intersection(gone))))
        del replica.log[to:]
        self._print(b, "truncate", replica_id=b, leo=to)
        if replica.hw > to:
            self._set_follower_hw(b, to)

    def save(self) -> None:
        """A snapshot of all disks and of the quorum."""
        logs = {b: (list(r.log), r.hw) for b, r in self.replicas.items()}
        self.saved = logs, list(self.isr), self.leader, self.epoch, self.partition_epoch

    def restore(self) -> None:
        """All disks and the quorum are put back to a snapshot: leader epochs go back, and so do logs."""
        for b in self.assigned:
            if self.replicas[b].up:
                self.stop(b, "kill")
        self.ms += RESTORING_MS
        logs, isr, self.leader, self.epoch, self.partition_epoch = self.saved
        self.untold = True
        self.isr, self.begun, self.ordinal, self.recovering = list(isr), False, 0, False
        for b, (log, hw) in logs.items():
            replica = self.replicas[b]
            replica.log, replica.stored, replica.fenced = list(log), hw, False
        for b in [self.leader, *(b for b in self.assigned if b != self.leader)]:
            if b != NOBODY:
                self.start(b)

    def configure(self, min_isr: int) -> None:
        """An operator sets min.insync.replicas of the topic; the HW is tried again with the next append or fetch."""
        self.pass_time()
        self.min_isr = min_isr
        self._control("config", min_isr=min_isr)

    # -- the ISR

    def shrink(self, b: int) -> None:
        """The leader finds a follower out of sync, and has it removed."""
        for _ in range(3):
            self.pass_time(LAG_MS // 2)
        left = [x for x in self.isr if x != b]
        self._print(self.leader, "isr_proposed", isr=left, detail="shrink", **self._named())
        known = {self.leader: len(self.log)} | {x: self.known.get(x, -1) for x in self.isr if x != self.leader}
        self.happenings[-1] = self.happenings[-1]._replace(hw=self.replicas[self.leader].hw, leos=known)
        self._commit(left, "alter_partition")

    def ask(self, b: int) -> None:
        """The leader asks for a follower that has caught up to be added."""
        self.pass_time()
        self.proposed = sorted([*self.isr, b])
        self._print(self.leader, "isr_proposed", isr=self.proposed, detail="expand", **self._named())

    def join(self, b: int) -> None:
        """A follower that has caught up is added."""
        self.ask(b)
        self._commit(self.proposed or [], "alter_partition")

    def _named(self) -> dict[str, Any]:
        return {"leader_id": self.leader, "leader_epoch": self.epoch}

    def _commit(self, isr: list[int], detail: str) -> None:
        self.isr, self.proposed, self.partition_epoch = sorted(isr), None, self.partition_epoch + 1
        about = {"isr": list(self.isr), "partition_epoch": self.partition_epoch, **self._named()}
        self._control("isr", detail="controller", **about)
        if not self.led:
            return
        self.ms += 10
        self._print(self.leader, "isr", True, detail=detail, **about)
        for b in self.assigned:
            if b != self.leader and self.able(b):
                self._print(b, "isr", detail="metadata", **about)

    def untell(self, b: int, rows: int) -> None:
        """Power failed: the end of a broker's log file, too, was not on disk."""
        for _ in range(rows):
            place = max((k for k, h in enumerate(self.happenings) if h.node == b and h.kind != "progress"), default=0)
            self.happenings = [h for k, h in enumerate(self.happenings) if h.node != b or k < place]
        self.untold |= rows > 0

    def end(self) -> None:
        """Long after."""
        for _ in range(2):
            self.pass_time(60_000)


def _shared(a: list[Record], b: list[Record]) -> int:
    """How many records two logs have in common."""
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _parting(log: list[Record], leader: list[Record]) -> int:
    """Where a follower cuts its log: the end of the last leader epoch that both have (OffsetsForLeaderEpoch)."""
    end = len(log)
    while end:
        epoch = log[end - 1][0]
        theirs = max((e for e, _ in leader if e <= epoch), default=None)
        if theirs is None:
            return 0
        their_end = max(k for k, (e, _) in enumerate(leader, 1) if e == theirs)
        if theirs == epoch:
            return min(end, their_end)
        end = min(their_end, max((k for k, (e, _) in enumerate(log, 1) if e <= theirs), default=0))
        if not end or log[end - 1][0] == theirs:
            return end
    return end
