"""The committed ISRs of one partition by partition epoch, and their changes as rows of `silver/isr_changes`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec import field
from msgspec.json import Decoder, Encoder

from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.commitment import BROKER, CONTROLLER_ONLY
from pipelines.replication.partition.committed_isr import (
    RETRACTED,
    CommittedIsr,
    ProposedIsr,
    contradiction,
    contradicts,
    merge,
    names_another_leader,
    prevails,
    take_retraction,
    unconfirmed_witness,
    unseen_isr,
)
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.isr_causes import cause

KEPT_COMMITS = 16
KEPT_PROPOSALS = 8
CLOCK_DIFFERENCE_US = 10_000_000
"""The clocks of two brokers are taken to differ by no more than this."""
SEEN_WITHIN_US = 10_000_000
"""Metadata that a watcher reports is taken to be no older than this: two rounds at the usual interval."""
_encoder, _decoder = Encoder(), Decoder()


class IsrHistory(Persisted):
    """Takes the events that report ISRs and gives rows of `silver/isr_changes`; the oldest commit kept gives none.

    Partition epochs below `floor` are older than the history: a restarted controller replays them.
    """

    commits: list[CommittedIsr] = field(default_factory=list)
    proposals: list[ProposedIsr] = field(default_factory=list)
    floor: int | None = None
    deleted: bool = False
    """Another topic has taken the place of this one: what only controllers report of it is a replay."""
    contradictions: list[dict[str, Any]] = field(default_factory=list)
    """Rows of silver/telemetry_gaps about what others say otherwise, until they are taken."""

    def propose(self, event: PartitionEvent) -> None:
        """The leader asked for this ISR."""
        if event.isr is not None:
            proposal = ProposedIsr(event.ts, event.broker_id, event.isr)
            self.proposals = [*self.proposals[1 - KEPT_PROPOSALS :], proposal]

    def reject(self, event: PartitionEvent) -> None:
        """The controller refused what this leader has asked for since its last commit."""
        last = max((c.ts for c in self.commits), default=0)
        self.proposals = [p for p in self.proposals if p.broker_id != event.broker_id or p.ts < last]

    def observe(self, event: PartitionEvent, due: int, leader: tuple[int | None, int | None]) -> None:
        """Take an event that reports a committed ISR under a `leader` (id, epoch); `due` is when what it changes is
        decided."""
        if event.isr is None or self._is_too_old(event):
            return
        if event.watched and (said := self._refute_sample(event)):
            self.contradictions += said
            return
        commit = self._find(event)
        if commit is None:
            commit = self._insert(event, due)
            commit.replay = self.deleted
        elif contradicts(event, commit):
            if not prevails(event, commit):
                self.contradictions += contradiction(event, commit)
                return
            commit = self._replace(commit, event, due)
        elif names_another_leader(event, commit):
            self.contradictions += contradiction(event, commit)
        was_replay, changed = commit.replay, merge(commit, event, *leader)
        if (changed and commit.published is not None) or was_replay > commit.replay:
            commit.due = due
        elif commit.due:
            commit.due = min(commit.due, due)
        if event.partition_epoch is not None:
            self._drop_unseen(event)

    def _drop_unseen(self, event: PartitionEvent) -> None:
        """Take out ISRs that a watcher saw and that by this event, which has a partition epoch, were none."""
        for sampled in [c for c in self.commits if c.partition_epoch is None]:
            if sampled.leader_epoch is not None and self._is_unseen(sampled.isr, sampled.leader_epoch):
                self.contradictions.append(unseen_isr(event, sampled.isr, (sampled.leader_id, sampled.leader_epoch)))
                self.commits.remove(sampled)

    def _refute_sample(self, event: PartitionEvent) -> list[dict[str, Any]]:
        """The row about a sample if others, which have partition epochs, tell another leader of its epoch, or ISRs."""
        if event.leader_epoch is None:
            return []
        others = [c for c in self.commits if c.partition_epoch is not None and names_another_leader(event, c)]
        if not others and self._is_unseen(event.isr or (), event.leader_epoch):
            return [unseen_isr(event, event.isr or (), (event.leader_id, event.leader_epoch))]
        return contradiction(event, others[-1]) if others else []

    def _is_unseen(self, isr: tuple[int, ...], leader_epoch: int) -> bool:
        """Whether a leader epoch is over, every partition epoch of it is told, and none has this ISR.

        That holds for old metadata, and for the clocks of whoever answered with them, too.
        """
        known = [c for c in self.commits if c.partition_epoch is not None and c.leader_epoch is not None]
        places = [k for k, c in enumerate(known) if c.leader_epoch == leader_epoch]
        if not places or places[-1] == len(known) - 1 or (places[0] == 0 and known[0].partition_epoch != 0):
            return False
        told = known[max(places[0] - 1, 0) : places[-1] + 2]
        whole = all((b.partition_epoch or 0) == (a.partition_epoch or 0) + 1 for a, b in pairwise(told))
        committed = all(c.witness != CONTROLLER_ONLY for c in told)
        return whole and committed and not any(set(c.isr) == set(isr) for c in told)

    def _is_too_old(self, event: PartitionEvent) -> bool:
        """Below the floor; but of two leaders whose clocks differ the one that began first may be read last."""
        if self.floor is None or _epoch(event) >= self.floor:
            return False
        began = event.event_type == "leader" and event.ts - self.commits[0].ts <= CLOCK_DIFFERENCE_US
        if began and len(self.commits) < KEPT_COMMITS:
            self.floor = _epoch(event)
        return _epoch(event) < self.floor

    def goes_back(self, event: PartitionEvent) -> bool:
        """Whether a leader tells, as it resumes its epoch, a partition epoch below one that it told before in it: a
        snapshot was restored."""
        if event.event_type != "leader" or event.partition_epoch is None:
            return False
        return any(
            (c.leader_id, c.leader_epoch) == (event.broker_id, event.leader_epoch)
            and c.leader_ts is not None
            and c.leader_ts < event.ts
            and (c.partition_epoch or 0) > event.partition_epoch
            for c in self.commits
        )

    def had_ended(self, leader_epoch: int, ts: int) -> bool:
        """Whether a later leader epoch that is known to be committed was recorded by the controller before `ts`, or
        told by its leader so long before that clocks cannot differ as much."""
        later = [c for c in self.commits if c.leader_epoch is not None and c.leader_epoch > leader_epoch]
        told = ((c.controller_ts or ts, (c.leader_ts or ts) + CLOCK_DIFFERENCE_US, c.witness) for c in later)
        return any(witness != CONTROLLER_ONLY and min(by_controller, own) < ts for by_controller, own, witness in told)

    @property
    def members(self) -> set[int]:
        """Every replica of an ISR that is known."""
        return {replica for commit in self.commits for replica in commit.isr}

    @property
    def leader_epochs(self) -> set[int | None]:
        """Every leader epoch under which an ISR is known."""
        return {commit.leader_epoch for commit in self.commits}

    @property
    def begins(self) -> int:
        """The time of the first ISR known, 0 where there is none."""
        return self.commits[0].ts if self.commits else 0

    @property
    def has_epochs(self) -> bool:
        """Whether the last ISR known was reported with its partition epoch, as logs do."""
        return bool(self.commits) and self.commits[-1].partition_epoch is not None

    def is_past(self, event: PartitionEvent, grace_us: int) -> bool:
        """Whether a watcher saw an ISR that others have reported, with its partition epoch, before the present one.

        Brokers answer from metadata that is a round old, on clocks that differ by up to the grace: the ISR of the same
        leader epoch that ended no longer ago is the one that was seen, and no change back to it.
        """
        last = self.commits[-1] if self.commits else None
        if event.isr is None or last is None or set(last.isr) == set(event.isr) or last.partition_epoch is None:
            return False
        return any(
            set(before.isr) == set(event.isr)
            and event.leader_epoch in (None, before.leader_epoch)
            and after.ts >= event.ts - grace_us - SEEN_WITHIN_US
            for before, after in self._pairs()
        )

    def proves(self, event: PartitionEvent) -> bool:
        """Whether the ISR that this event reports is known to be committed in its partition epoch."""
        commit = self._at_epoch(event)
        return commit is not None and commit.witness != CONTROLLER_ONLY and set(commit.isr) == set(event.isr or ())

    def refutes(self, event: PartitionEvent) -> bool:
        """Whether another ISR than the one that this event reports is known to be committed in its partition epoch."""
        commit = self._at_epoch(event)
        return commit is not None and commit.witness != CONTROLLER_ONLY and set(commit.isr) != set(event.isr or ())

    def _at_epoch(self, event: PartitionEvent) -> CommittedIsr | None:
        """The commit in the partition epoch of an event that names an ISR; there is one for each epoch."""
        if event.partition_epoch is None or event.isr is None:
            return None
        for commit in reversed(self.commits):  # nearly always one of the last
            if commit.partition_epoch == event.partition_epoch:
                return commit
        return None

    def with_leader_only_since(self, leader_epoch: int, leader_id: int) -> int | None:
        """Since when the ISR under a leader epoch was its leader alone, by the leader's own report, up to its end; None
        where it was not, or the leader had asked to let another replica in."""
        since = None
        for commit in reversed([c for c in self.commits if c.leader_epoch == leader_epoch]):
            if set(commit.isr) != {leader_id}:
                break
            since = commit.ts if since is not None or commit.leader_ts is not None else None
        asked = (p.ts for p in self.proposals if p.broker_id == leader_id and set(p.isr) > {leader_id})
        return None if since is None or max(asked, default=-1) >= since else since

    def isr_at(self, ts: int) -> frozenset[int]:
        """The committed ISR at a time; empty where it is not known."""
        found = next((c.isr for c in reversed(self.commits) if c.ts <= ts), ())
        return frozenset(found)

    def isr_at_epoch(self, partition_epoch: int) -> frozenset[int] | None:
        """The committed ISR at a partition epoch; None where it is not known."""
        epochs = [c for c in self.commits if c.partition_epoch is not None and c.partition_epoch <= partition_epoch]
        return frozenset(epochs[-1].isr) if epochs else None

    def before_epoch(self, leader_epoch: int) -> CommittedIsr | None:
        """The last ISR before this leader epoch that is known to be committed."""
        known = [c for c in self.commits if c.leader_epoch is not None and c.leader_epoch < leader_epoch]
        return next((c for c in reversed(known) if c.witness != CONTROLLER_ONLY), None)

    def has_untold_changes(self, leader_epoch: int) -> bool:
        """Whether more partition epochs lie between the last ISR known before this leader epoch and its first one than
        leader epochs: each of these takes one (PartitionRegistration.merge)."""
        pairs = pairwise(c for c in self.commits if None not in (c.leader_epoch, c.partition_epoch))
        passed = (
            ((c.partition_epoch or 0) - (ago.partition_epoch or 0), leader_epoch - (ago.leader_epoch or 0))
            for ago, c in pairs
            if c.leader_epoch == leader_epoch != ago.leader_epoch
        )
        partition_epochs, leader_epochs = next(passed, (0, 0))
        return partition_epochs > leader_epochs

    def last_members(self, leader_epoch: int) -> frozenset[int]:
        """The last ISR with members before this leader epoch, empty if none is known; one without commits nothing."""
        known = [c for c in self.commits if c.isr and c.leader_epoch is not None and c.leader_epoch < leader_epoch]
        return frozenset(known[-1].isr) if known else frozenset()

    def elected_at(self, leader_epoch: int) -> int:
        """When the controller recorded that this leader epoch began; 0 where it did not tell."""
        return next((c.controller_ts or 0 for c in self.commits if c.leader_epoch == leader_epoch), 0)

    def led_before(self, leader_epoch: int) -> bool:
        """Whether an earlier leader epoch than this one was reported."""
        return any(c.leader_epoch is not None and c.leader_epoch < leader_epoch for c in self.commits)

    def member_since(self, replica: int, leader_epoch: int) -> int:
        """When a replica last joined the ISR before this leader epoch; 0 where it was in it all the time."""
        before = [c for c in self.commits if c.leader_epoch is not None and c.leader_epoch < leader_epoch]
        joined = (after.ts for ago, after in pairwise(before) if replica in set(after.isr) - set(ago.isr))
        return max(joined, default=0)

    def added_under(self, leader_epoch: int) -> frozenset[int]:
        """Replicas that joined under this epoch's leader, which adds only those that fetch from it."""
        return frozenset(
            replica
            for before, after in self._pairs()
            if after.leader_epoch == leader_epoch == before.leader_epoch
            for replica in set(after.isr) - set(before.isr)
        )

    def due(self) -> int | None:
        first = 0
        for commit in self.commits[1:]:
            if commit.due and (not first or commit.due < first):
                first = commit.due
        return first or None

    def replaced_under(self, leader_epoch: int) -> bool:
        """Whether this epoch's leader was elected from outside a known, non-empty ISR."""
        return any(
            after.leader_epoch == leader_epoch != before.leader_epoch
            and len(before.isr) > 0
            and self._elected_from_outside(before, after)
            for before, after in self._pairs()
        )

    def _elected_from_outside(self, before: CommittedIsr, after: CommittedIsr) -> bool:
        """Whether the leader of `after` was elected from outside the ISR `before`.

        It was not where the leader before had asked for it, or the election was clean, and that leader is no longer
        assigned: a reassignment completes in the same record in which its last replica joins
        (PartitionChangeBuilder.completeReassignmentIfNeeded).
        """
        if after.leader_id not in set(after.isr) - set(before.isr):  # no leader adds itself
            return False
        if after.partition_epoch is None and after.witness == BROKER and len(after.isr) > 1:
            return False  # as a watcher saw it: it may have joined between two rounds; an election leaves it alone
        asked = any(p.broker_id == before.leader_id and after.leader_id in p.isr for p in self.proposals)
        asked = asked or (after.unclean is False and before.leader_id != -1)
        return not asked or after.replicas is None or before.leader_id in after.replicas

    def decide(self, at: int, as_of: int, lookup: TermLookup) -> list[dict[str, Any]]:
        """Rows, without the place columns, of what is due at `at`, from what is known as of `as_of`."""
        self._drop_made_up(at, lookup)
        rows = []
        for before, after in self._pairs():
            if after.due and after.due <= at:
                after.due = 0
                rows.extend(self._publish(before, after, as_of, lookup))
        self._trim()
        return rows

    def _drop_made_up(self, at: int, lookup: TermLookup) -> None:
        """Take out due changes that only a controller told, with another one in its place: nobody commits them, or it
        had just not been replaced yet."""
        for k in range(len(self.commits) - 1, 0, -1):
            commit = self.commits[k]
            only = commit.witness == CONTROLLER_ONLY and commit.published is None and 0 < commit.due <= at
            if only and lookup.is_deposed(commit.controller_row, commit.controller_ts or commit.ts, at):
                del self.commits[k]
                for later in self.commits[k : k + 1]:
                    later.due = later.due or at

    def _publish(
        self, before: CommittedIsr, after: CommittedIsr, as_of: int, lookup: TermLookup
    ) -> list[dict[str, Any]]:
        """The rows of a change that are new, or differ from the ones published last."""
        rows = take_retraction(after)
        if after.published is None and (after.replay or set(before.isr) == set(after.isr)):
            return rows
        row = self._row(before, after, as_of, lookup)
        content = _encoder.encode(row | unconfirmed_witness(after)).decode()
        if content == after.published:
            return rows
        if row["change"] == RETRACTED and after.published is not None:
            row["was"] = _decoder.decode(after.published)["change"]
        row["news"] = after.published is None
        after.published, after.revision = content, after.revision + 1
        return [*rows, {**row, "ts": after.ts, "revision": after.revision, "witness": after.witness}]

    def _row(self, before: CommittedIsr, after: CommittedIsr, as_of: int, lookup: TermLookup) -> dict[str, Any]:
        """The published text has these keys in this order."""
        removed, added = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
        proposal = self._proposal(before, after, lookup.race_window_us)
        proposed_ts = proposal.ts if proposal else None
        min_isr = lookup.min_isr(as_of, self._min_isr_by_leader(after))
        required = min(min_isr, len(after.replicas)) if after.replicas else min_isr
        by_leader_clock = after.leader_ts is not None and proposed_ts is not None
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
            if self._elected_from_outside(before, after)
            else cause(before, after, proposal is not None, self._joined(before, removed), as_of, lookup),
            "proposed_ts": proposed_ts,
            "commit_ms": ((after.leader_ts or 0) - (proposed_ts or 0)) // 1000 if by_leader_clock else None,
            "under_min_isr": len(after.isr) < required,
            "predicted": after.predicted,
        }

    def _joined(self, until: CommittedIsr, replicas: set[int]) -> dict[int, int]:
        """When each of these replicas was last let in, up to the commit `until`, by the controller's clock where that
        reports it."""
        if not replicas:
            return {}
        commits = self.commits[: self.commits.index(until) + 1]
        return {
            replica: after.ts if after.controller_ts is None else after.controller_ts
            for before, after in pairwise(commits)
            for replica in replicas & set(after.isr) - set(before.isr)
        }

    def _min_isr_by_leader(self, commit: CommittedIsr) -> int | None:
        """min.insync.replicas as a leader last reported it by this commit."""
        commits = self.commits[: self.commits.index(commit) + 1]
        return next((c.min_isr for c in reversed(commits) if c.min_isr is not None), None)

    def _proposal(self, before: CommittedIsr, after: CommittedIsr, race_window_us: int) -> ProposedIsr | None:
        """The leader's first request for this ISR since the commit before."""
        latest = max(after.ts, after.leader_ts or 0) + race_window_us
        return next(
            (
                p
                for p in self.proposals
                if set(p.isr) == set(after.isr)
                and p.broker_id == after.leader_id
                and before.ts - race_window_us <= p.ts <= latest
            ),
            None,
        )

    def _pairs(self) -> Iterator[tuple[CommittedIsr, CommittedIsr]]:
        return pairwise(self.commits)

    def _find(self, event: PartitionEvent) -> CommittedIsr | None:
        """The commit that an event reports; one without partition epoch is the last, where the ISR is the same."""
        if event.partition_epoch is None:
            last = self.commits[-1] if self.commits else None
            return last if last and set(last.isr) == set(event.isr or ()) else None
        known = self._at_epoch(event)
        if known is None and self.commits and self.commits[-1].partition_epoch is None:
            last = self.commits[-1]
            return last if set(last.isr) == set(event.isr or ()) else None
        return known

    def _insert(self, event: PartitionEvent, due: int) -> CommittedIsr:
        """A new commit in its place; one reported after its successor happened no later than that."""
        epoch = event.partition_epoch
        later = [c for c in self.commits if epoch is not None and (c.partition_epoch or -1) > epoch]
        at = len(self.commits) - len(later)
        ts = min([event.ts, *(c.ts for c in later)])
        commit = CommittedIsr(epoch, event.isr or (), ts, due)
        self.commits.insert(at, commit)
        if later:
            later[0].due = due
        if self.floor is None:
            self.floor = epoch
        return commit

    def _replace(self, commit: CommittedIsr, event: PartitionEvent, due: int) -> CommittedIsr:
        """Replace a change that was never committed by the one that was; what was published of it is retracted."""
        at = self.commits.index(commit)
        ts = min([event.ts, *(c.ts for c in self.commits[at + 1 :])])
        made = CommittedIsr(event.partition_epoch, event.isr or (), ts, due)
        made.revision, made.retracts, made.retracts_ts = commit.revision, commit.published, commit.ts
        if commit.published is None:
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


def _change(removed: set[int], added: set[int]) -> str:
    """The word for a change; a later revision that removes and adds nobody retracts what was published before."""
    if not removed and not added:
        return RETRACTED
    return "replace" if removed and added else "expand" if added else "shrink"


def _epoch(event: PartitionEvent) -> int:
    return event.partition_epoch if event.partition_epoch is not None else 1 << 60
