"""The committed ISRs of one partition by partition epoch, and what removed or added each replica."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec import field
from msgspec.json import Decoder, Encoder

from pipelines.replication.metadata.brokers_and_configs import LOG_DIR_OFFLINE
from pipelines.replication.partition.codec import Fixed, Kept
from pipelines.replication.partition.commitment import BROKER, CONTROLLER_ONLY, provisional, stronger, witness_of
from pipelines.replication.partition.events import Context, Note

KEPT_COMMITS = 16
KEPT_PROPOSALS = 8
# The controller takes a broker out of its ISRs in the very batch that fences it or grants its shutdown, so an
# inactive spell that still stands at the change explains it. The bound only serves where the end of a spell
# was not told: a leader that was itself frozen learns of the change that much later at most.
SPELL_US = 60_000_000
STARTED_US = 10_000_000
APART_US = 10_000_000
"""No two clocks are taken to be further apart."""
RETRACTED = "retracted"
_encoder, _decoder = Encoder(), Decoder()
NAMED = {
    "controlled_shutdown": "controlled_shutdown",
    "fenced": "controller_fenced",
    "unregistered": "controller_fenced",
}


class Commit(Kept):
    """One committed ISR; `ts` is the earliest witness's, `leader_ts` the leader's own first one."""

    partition_epoch: int | None
    isr: tuple[int, ...]
    ts: int
    due: int
    leader_id: int | None = None
    leader_epoch: int | None = None
    replicas: tuple[int, ...] | None = None
    leader_ts: int | None = None
    by_response: bool = False  # the leader's own AlterPartition was answered with it
    controller_ts: int | None = None  # when the controller says it recorded it
    min_isr: int | None = None  # as the leader told it when it began
    foretold: bool | None = None
    replay: bool = False  # told by controllers alone, and only since the topic was deleted
    revision: int = 0
    told: str | None = None
    witness: str | None = None  # the strongest one, see commitment
    controller_epoch: int | None = None
    retracts: str | None = None  # the row of a change of this partition epoch that was never committed
    retracts_ts: int = 0
    controller_place: tuple[str, int, int] | None = None  # source id, source epoch and source seq of controller_ts


class Proposal(Fixed, frozen=True):
    ts: int
    broker_id: int
    isr: tuple[int, ...]


class IsrHistory(Kept):
    """Witnesses in, rows of `silver/isr_changes` out; the oldest commit kept is where the telling begins.

    Partition epochs below `floor` are too old to tell: a restarted controller replays them.
    """

    commits: list[Commit] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    floor: int | None = None
    deleted: bool = False
    """Another topic has taken the place of this one: what controllers alone tell of it is replayed."""

    def propose(self, note: Note) -> None:
        """The leader asked for this ISR."""
        if note.isr is not None:
            self.proposals = [*self.proposals[1 - KEPT_PROPOSALS :], Proposal(note.ts, note.broker_id, note.isr)]

    def reject(self, note: Note) -> None:
        """What this leader has asked for since its last commit was refused."""
        last = max((c.ts for c in self.commits), default=0)
        self.proposals = [p for p in self.proposals if p.broker_id != note.broker_id or p.ts < last]

    def witness(self, note: Note, due: int, under: tuple[int | None, int | None]) -> None:
        """Takes in one witness of an ISR committed `under` this leader and leader epoch; `due` is when what it changes
        is decided."""
        if note.isr is None or self._is_old(note):
            return
        commit = self._same(note)
        if commit is None:
            commit = self._insert(note, due)
            commit.replay = self.deleted
        elif _contradicts(commit, note):
            if not _prevails(note, commit):
                return
            commit = self._replace(commit, note, due)
        replayed, news = commit.replay, _merge(commit, note, *under)
        if (news and commit.told is not None) or replayed > commit.replay:
            commit.due = due
        elif commit.due:
            commit.due = min(commit.due, due)

    def _is_old(self, note: Note) -> bool:
        """Below the floor; but of two leaders with clocks apart the one that began first may be read last."""
        if self.floor is None or _epoch(note) >= self.floor:
            return False
        began = note.event_type == "leader" and note.ts - self.commits[0].ts <= APART_US
        if began and len(self.commits) < KEPT_COMMITS:
            self.floor = _epoch(note)
        return _epoch(note) < self.floor

    def proves(self, note: Note) -> bool:
        """Whether the ISR that this row reports is known to be committed in its partition epoch."""
        return any(c.witness != CONTROLLER_ONLY and set(c.isr) == set(note.isr or ()) for c in self._at_epoch(note))

    def refutes(self, note: Note) -> bool:
        """Whether another ISR than the one that this row reports is known to be committed in its partition epoch."""
        return any(c.witness != CONTROLLER_ONLY and set(c.isr) != set(note.isr or ()) for c in self._at_epoch(note))

    def _at_epoch(self, note: Note) -> list[Commit]:
        if note.partition_epoch is None or note.isr is None:
            return []
        return [c for c in self.commits if c.partition_epoch == note.partition_epoch]

    def known_alone(self, leader_epoch: int, leader_id: int) -> bool:
        """Whether the ISR under a leader epoch ended as that of its leader alone, and the leader told so itself."""
        for commit in reversed([c for c in self.commits if c.leader_epoch == leader_epoch]):
            if set(commit.isr) != {leader_id}:
                return False
            if commit.leader_ts is not None:
                return True
        return False

    def members_at(self, ts: int) -> frozenset[int]:
        """The committed ISR at a time; empty when not known."""
        found = next((c.isr for c in reversed(self.commits) if c.ts <= ts), ())
        return frozenset(found)

    def members_under(self, partition_epoch: int) -> frozenset[int] | None:
        """The ISR at a partition epoch; None when not known."""
        epochs = [c for c in self.commits if c.partition_epoch is not None and c.partition_epoch <= partition_epoch]
        return frozenset(epochs[-1].isr) if epochs else None

    def before_epoch(self, leader_epoch: int) -> Commit | None:
        """The last commit ahead of this leader epoch that is known to be one."""
        known = [c for c in self.commits if c.leader_epoch is not None and c.leader_epoch < leader_epoch]
        return next((c for c in reversed(known) if c.witness != CONTROLLER_ONLY), None)

    def led_before(self, leader_epoch: int) -> bool:
        """Whether an earlier leader epoch than this one was told of."""
        return any(c.leader_epoch is not None and c.leader_epoch < leader_epoch for c in self.commits)

    def member_since(self, replica: int, leader_epoch: int) -> int:
        """When a replica was let into the ISR last, ahead of this leader epoch; 0 where it always was in it."""
        before = [c for c in self.commits if c.leader_epoch is not None and c.leader_epoch < leader_epoch]
        joined = (after.ts for ago, after in pairwise(before) if replica in set(after.isr) - set(ago.isr))
        return max(joined, default=0)

    def added_under(self, leader_epoch: int) -> frozenset[int]:
        """Replicas that joined while this epoch's leader led: it lets in only whom it saw fetching."""
        return frozenset(
            replica
            for before, after in self._pairs()
            if after.leader_epoch == leader_epoch == before.leader_epoch
            for replica in set(after.isr) - set(before.isr)
        )

    def due(self) -> int | None:
        waiting = [c.due for c in self.commits[1:] if c.due]
        return min(waiting) if waiting else None

    def replaced_under(self, leader_epoch: int) -> bool:
        """Whether this epoch's leader was elected from outside a known, non-empty ISR."""
        return any(
            after.leader_epoch == leader_epoch != before.leader_epoch
            and len(before.isr) > 0
            and self._from_outside(before, after)
            for before, after in self._pairs()
        )

    def _from_outside(self, before: Commit, after: Commit) -> bool:
        """Whether the leader of `after` was elected from outside the ISR `before`.

        It was not where the leader before had asked it in and is itself assigned no more: a reassignment is complete
        with the last replica that joins, in the same record (PartitionChangeBuilder.completeReassignmentIfNeeded).
        """
        if after.leader_id not in set(after.isr) - set(before.isr):  # no leader adds itself
            return False
        asked = any(p.broker_id == before.leader_id and after.leader_id in p.isr for p in self.proposals)
        return not asked or after.replicas is None or before.leader_id in after.replicas

    def decide(self, at: int, as_of: int, context: Context) -> list[dict[str, Any]]:
        """Rows, without the place columns, of what is due at `at`, from what is known as of `as_of`."""
        rows = []
        for before, after in self._pairs():
            if after.due and after.due <= at:
                after.due = 0
                rows.extend(self._tell(before, after, as_of, context))
        self._trim()
        return rows

    def _tell(self, before: Commit, after: Commit, as_of: int, context: Context) -> list[dict[str, Any]]:
        rows = _retracted(after)
        if after.told is None and (after.replay or set(before.isr) == set(after.isr)):
            return rows
        row = self._row(before, after, as_of, context)
        content = _encoder.encode(row | _doubt(after)).decode()
        if content == after.told:
            return rows
        if row["change"] == RETRACTED and after.told is not None:
            row["was"] = _decoder.decode(after.told)["change"]
        row["news"] = after.told is None
        after.told, after.revision = content, after.revision + 1
        return [*rows, {**row, "ts": after.ts, "revision": after.revision, "witness": after.witness}]

    def _row(self, before: Commit, after: Commit, as_of: int, context: Context) -> dict[str, Any]:
        removed, added = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
        proposal = self._proposal(before, after, context.race_window_us)
        proposed = proposal.ts if proposal else None
        least = context.min_isr(as_of, self._min_isr(after))
        size = min(least, len(after.replicas)) if after.replicas else least
        own = after.leader_ts is not None and proposed is not None
        return {
            "leader_id": after.leader_id,
            "leader_epoch": after.leader_epoch,
            "partition_epoch": after.partition_epoch,
            "change": _change(removed, added),
            "isr_before": list(before.isr),
            "isr_after": list(after.isr),
            "removed": sorted(removed),
            "added": sorted(added),
            "cause": "election"
            if self._from_outside(before, after)
            else cause(before, after, proposal is not None, self._joined(before, removed), as_of, context),
            "proposed_ts": proposed,
            "commit_ms": ((after.leader_ts or 0) - (proposed or 0)) // 1000 if own else None,
            "under_min_isr": len(after.isr) < size,
            "predicted": after.foretold,
        }

    def _joined(self, until: Commit, replicas: set[int]) -> dict[int, int]:
        """When the controller let each of these replicas in last, up to and with the commit `until`, where told."""
        told = self.commits[: self.commits.index(until) + 1]
        return {
            replica: after.controller_ts
            for before, after in pairwise(told)
            if after.controller_ts is not None
            for replica in replicas & set(after.isr) - set(before.isr)
        }

    def _min_isr(self, commit: Commit) -> int | None:
        """What leaders had told of it by this commit."""
        told = self.commits[: self.commits.index(commit) + 1]
        return next((c.min_isr for c in reversed(told) if c.min_isr is not None), None)

    def _proposal(self, before: Commit, after: Commit, race: int) -> Proposal | None:
        """The leader's first request for this ISR since the commit before."""
        latest = max(after.ts, after.leader_ts or 0) + race
        return next(
            (
                p
                for p in self.proposals
                if set(p.isr) == set(after.isr)
                and p.broker_id == after.leader_id
                and before.ts - race <= p.ts <= latest
            ),
            None,
        )

    def _pairs(self) -> Iterator[tuple[Commit, Commit]]:
        return pairwise(self.commits)

    def _same(self, note: Note) -> Commit | None:
        if note.partition_epoch is None:
            last = self.commits[-1] if self.commits else None
            return last if last and set(last.isr) == set(note.isr or ()) else None
        known = next((c for c in self.commits if c.partition_epoch == note.partition_epoch), None)
        if known is None and self.commits and self.commits[-1].partition_epoch is None:
            last = self.commits[-1]
            return last if set(last.isr) == set(note.isr or ()) else None
        return known

    def _insert(self, note: Note, due: int) -> Commit:
        """A new commit in its place; one told after its successor happened no later than that."""
        epoch = note.partition_epoch
        later = [c for c in self.commits if epoch is not None and (c.partition_epoch or -1) > epoch]
        at = len(self.commits) - len(later)
        ts = min([note.ts, *(c.ts for c in later)])
        commit = Commit(epoch, note.isr or (), ts, due)
        self.commits.insert(at, commit)
        if later:
            later[0].due = due
        if self.floor is None:
            self.floor = epoch
        return commit

    def _replace(self, commit: Commit, note: Note, due: int) -> Commit:
        """Puts what was committed in the place of a change that was not; what was written of that is retracted."""
        at = self.commits.index(commit)
        made = Commit(
            note.partition_epoch, note.isr or (), min([note.ts, *(c.ts for c in self.commits[at + 1 :])]), due
        )
        made.revision, made.retracts, made.retracts_ts = commit.revision, commit.told, commit.ts
        if commit.told is None:
            made.retracts, made.retracts_ts = commit.retracts, commit.retracts_ts
        self.commits[at] = made
        for later in self.commits[at + 1 : at + 2]:
            later.due = due
        return made

    def _trim(self) -> None:
        while len(self.commits) > KEPT_COMMITS and not self.commits[1].due:
            gone = self.commits.pop(0)
            self.commits[0].min_isr = gone.min_isr if self.commits[0].min_isr is None else self.commits[0].min_isr
            self.floor = max(self.floor or 0, self.commits[0].partition_epoch or 0)


def _contradicts(commit: Commit, note: Note) -> bool:
    """Whether a row names another ISR for the partition epoch of a commit."""
    same_epoch = note.partition_epoch is not None and note.partition_epoch == commit.partition_epoch
    return same_epoch and set(note.isr or ()) != set(commit.isr)


def _prevails(note: Note, commit: Commit) -> bool:
    """Whether a row that contradicts a commit is to be believed: it is committed, or a later controller wrote it."""
    if commit.witness != CONTROLLER_ONLY:
        return False
    return not provisional(note) or _controller_epoch(note) > _controller_epoch(commit)


def _controller_epoch(of: Note | Commit) -> int:
    return -1 if of.controller_epoch is None else of.controller_epoch


def _retracted(commit: Commit) -> list[dict[str, Any]]:
    """The row that takes back what was written of this partition epoch before, once."""
    if commit.retracts is None:
        return []
    row, commit.retracts, commit.revision = _decoder.decode(commit.retracts), None, commit.revision + 1
    back = {"change": RETRACTED, "removed": [], "added": [], "was": row["change"], "witness": CONTROLLER_ONLY}
    return [{**row, **back, "ts": commit.retracts_ts, "revision": commit.revision}]


def _doubt(commit: Commit) -> dict[str, str]:
    """What a row's text holds of its witness: whether one is known at all. Another one is no news."""
    return {"witness": CONTROLLER_ONLY} if commit.witness == CONTROLLER_ONLY else {}


def _change(removed: set[int], added: set[int]) -> str:
    """The word for a change; a later revision that removes and adds nobody takes back what an earlier one said."""
    if not removed and not added:
        return RETRACTED
    return "replace" if removed and added else "expand" if added else "shrink"


def cause(
    before: Commit, after: Commit, proposed: bool, joined: dict[int, int], as_of: int, context: Context
) -> str:  # fmt: skip
    """What removed or added the replicas, where no election did: the first of the contract's list that fits.

    `joined`: when the replicas were let in last. What the controller told of them before did not keep them out (before
    Kafka 3.5 a broker that is stopping may be let in again), so it is no reason to put them out now.
    """
    removed, added = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
    reassigned = after.replicas is not None and bool(removed - set(after.replicas))
    ts, until = _told_between(after, proposed or reassigned, as_of, context)
    place, since = after.controller_place, {r: joined.get(r, -1) for r in sorted(removed)}
    named = sorted(filter(None, (_named(r, since[r], (ts, place), until, context) for r in since)))
    if named:
        return named[0]
    if any(_lost_a_log_dir(r, since[r], ts, until, context) for r in since):
        return LOG_DIR_OFFLINE
    if proposed or after.by_response or (added and not removed):
        # an ISR grows inside a leader epoch only because its leader asked: no controller adds a replica itself
        return "caught_up" if added else "lag"
    return "reassignment" if reassigned else "unknown"


def _told_between(after: Commit, explained: bool, as_of: int, context: Context) -> tuple[int, int]:
    """(time of the change, last time at which its cause may be told): on the controller's clock where it told of it.

    It tells of a broker first, or in the same batch, and then of what follows from that; a change that the leader
    asked for, or a reassignment, follows from nothing the controller told later.
    """
    if after.controller_ts is None:
        return after.ts, as_of
    explained = explained or after.by_response
    return after.controller_ts, after.controller_ts + (0 if explained else context.race_window_us)


def _named(
    broker_id: int, since: int, change: tuple[int, tuple[str, int, int] | None], until: int, context: Context
) -> str | None:
    """How the controller had put this broker out of service since it was let in, by the `change`: its time, and the
    row that told it."""
    spell: list[tuple[int, str]] = []
    ts, told = change
    for at, detail, _, source, epoch, seq in context.broker_states(broker_id, until):
        if at < since:
            continue
        if detail == "unfenced":
            if at > ts or (at == ts and told is not None and (source, epoch) == told[:2] and seq > told[2]):
                break
            spell = []
        elif detail == "started" and not spell:
            # registered and not yet let in: an incarnation before it that did not stop cleanly is put out now
            spell = [(at, "fenced")] if ts - at <= STARTED_US else []
        elif detail in NAMED:
            spell.append((at, detail))
    return NAMED[spell[0][1]] if spell and ts - spell[-1][0] <= SPELL_US else None


def _lost_a_log_dir(broker_id: int, since: int, ts: int, until: int, context: Context) -> bool:
    """Whether a log directory of this broker failed since it was let in, by the time of the change."""
    failed = [at for at, detail, *_ in context.broker_states(broker_id, until) if detail == LOG_DIR_OFFLINE]
    return any(since <= at and ts - at <= SPELL_US for at in failed)


def _epoch(note: Note) -> int:
    return note.partition_epoch if note.partition_epoch is not None else 1 << 60


def _merge(commit: Commit, note: Note, leader_id: int | None, leader_epoch: int | None) -> bool:
    """Adds what this witness tells; True when that could change a row already told."""
    old = _told(commit)
    own = note.event_type == "leader" or (note.event_type == "isr" and note.detail == "alter_partition")
    leader = note.broker_id if own else leader_id
    commit.partition_epoch = note.partition_epoch if commit.partition_epoch is None else commit.partition_epoch
    commit.leader_id = leader if commit.leader_id is None else commit.leader_id
    commit.leader_epoch = leader_epoch if commit.leader_epoch is None else commit.leader_epoch
    commit.replicas = note.replicas if commit.replicas is None else commit.replicas
    commit.by_response |= note.event_type == "isr" and note.detail == "alter_partition"
    if note.broker_id == commit.leader_id and note.detail != "controller" and commit.leader_ts is None:
        commit.leader_ts = note.ts
    if note.event_type == "election" or note.detail == "controller":
        if commit.controller_ts is None or note.ts < commit.controller_ts:
            commit.controller_ts, commit.controller_place = note.ts, note.place
    else:
        commit.replay = False
    commit.foretold = note.foretold if commit.foretold is None else commit.foretold
    if note.event_type == "leader" and commit.min_isr is None:
        commit.min_isr = note.min_isr
    known = BROKER if commit.witness is None and commit.told is not None else commit.witness  # of earlier versions
    commit.witness = stronger(known, witness_of(note, commit.leader_id))
    if _controller_epoch(note) > _controller_epoch(commit):
        commit.controller_epoch = note.controller_epoch
    return old != _told(commit)


def _told(commit: Commit) -> tuple[object, ...]:
    """What witnesses add to a commit."""
    return (
        commit.leader_id, commit.leader_epoch, commit.replicas, commit.leader_ts, commit.by_response,
        commit.controller_ts, commit.min_isr, commit.foretold, commit.witness == CONTROLLER_ONLY,
    )  # fmt: skip
