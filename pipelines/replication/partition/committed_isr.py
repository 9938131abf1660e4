"""One committed ISR of a partition, and how the rows that report it are merged."""

from __future__ import annotations

from typing import Any

from msgspec.json import Decoder

from pipelines.replication.partition.codec import Persisted, PersistedFrozen
from pipelines.replication.partition.commitment import BROKER, CONTROLLER_ONLY, provisional, stronger, witness_of
from pipelines.replication.partition.contradictions import contradiction_row
from pipelines.replication.partition.events import PartitionEvent

RETRACTED = "retracted"
_decoder = Decoder()


class CommittedIsr(Persisted):
    """One committed ISR; `ts` is the earliest time that a row gives it, `leader_ts` the leader's own first one."""

    partition_epoch: int | None
    isr: tuple[int, ...]
    ts: int
    due: int
    leader_id: int | None = None
    leader_epoch: int | None = None
    replicas: tuple[int, ...] | None = None
    leader_ts: int | None = None
    by_response: bool = False  # the leader's own AlterPartition request was answered with it
    controller_ts: int | None = None  # when the controller recorded it, by its own clock
    min_isr: int | None = None  # as the leader reported it when its term began
    predicted: bool | None = None
    replay: bool = False  # reported by controllers alone, and only after the topic was deleted
    revision: int = 0
    published: str | None = None  # the row of silver/isr_changes written last, as JSON text
    witness: str | None = None  # the strongest one, see commitment
    controller_epoch: int | None = None
    retracts: str | None = None  # the row published of another change of this partition epoch, never committed
    retracts_ts: int = 0
    controller_row: tuple[str, int, int] | None = None  # source id, source epoch and source seq of controller_ts
    unclean: bool | None = None


class ProposedIsr(PersistedFrozen, frozen=True):
    """An ISR that a leader asked the controller for (AlterPartition)."""

    ts: int
    broker_id: int
    isr: tuple[int, ...]


def contradicts(event: PartitionEvent, commit: CommittedIsr) -> bool:
    """Whether an event names another ISR for the partition epoch of a commit."""
    same_epoch = event.partition_epoch is not None and event.partition_epoch == commit.partition_epoch
    return same_epoch and set(event.isr or ()) != set(commit.isr)


def prevails(event: PartitionEvent, commit: CommittedIsr) -> bool:
    """Whether an event that contradicts a commit replaces it: it is committed, or a later controller wrote it."""
    if commit.witness != CONTROLLER_ONLY:
        return False
    return not provisional(event) or _controller_epoch(event) > _controller_epoch(commit)


def contradiction(event: PartitionEvent, commit: CommittedIsr) -> list[dict[str, Any]]:
    """The row about an event that does not prevail and is committed, as the commit is: one of both is of another
    cluster, or damaged. Of what only controllers report there is none."""
    if provisional(event) or commit.witness == CONTROLLER_ONLY:
        return []
    said = f"ISR {sorted(event.isr or ())} at partition epoch {event.partition_epoch}, others say {sorted(commit.isr)}"
    if not contradicts(event, commit):
        said = (
            f"broker {event.leader_id} leads in leader epoch {event.leader_epoch}, others say broker {commit.leader_id}"
        )
    source, leader = (event.source_id, event.source_epoch), (commit.leader_id, commit.leader_epoch)
    return [contradiction_row(event.ts, source, event.level, leader, event.topic_id, said)]


def unseen_isr(event: PartitionEvent, isr: tuple[int, ...], leader: tuple[int | None, int]) -> dict[str, Any]:
    """The row about an ISR that was seen under a `leader` (id, epoch) of whose epoch others tell every ISR but this."""
    said = f"ISR {sorted(isr)} in leader epoch {leader[1]}, of which every ISR is told and none is that"
    source = event.source_id, event.source_epoch
    return contradiction_row(event.ts, source, event.level, leader, event.topic_id, said)


def names_another_leader(event: PartitionEvent, commit: CommittedIsr) -> bool:
    """Whether an event names another leader of the leader epoch of a commit."""
    told = event.leader_id, commit.leader_id
    known = None not in told and -1 not in told and event.leader_epoch is not None
    return known and event.leader_epoch == commit.leader_epoch and told[0] != told[1]


def _controller_epoch(reported: PartitionEvent | CommittedIsr) -> int:
    return -1 if reported.controller_epoch is None else reported.controller_epoch


def take_retraction(commit: CommittedIsr) -> list[dict[str, Any]]:
    """The row that retracts what was published of this partition epoch before, once."""
    if commit.retracts is None:
        return []
    row, commit.retracts, commit.revision = _decoder.decode(commit.retracts), None, commit.revision + 1
    retraction = {"change": RETRACTED, "removed": [], "added": [], "was": row["change"], "witness": CONTROLLER_ONLY}
    return [{**row, **retraction, "ts": commit.retracts_ts, "revision": commit.revision}]


def unconfirmed_witness(commit: CommittedIsr) -> dict[str, str]:
    """The published text about an unconfirmed change; empty if confirmed, whichever witness confirmed it.

    So another witness makes no new revision.
    """
    return {"witness": CONTROLLER_ONLY} if commit.witness == CONTROLLER_ONLY else {}


def merge(commit: CommittedIsr, event: PartitionEvent, leader_id: int | None, leader_epoch: int | None) -> bool:
    """Add what an event reports of a commit; True where that can change a row already published."""
    old = None if commit.published is None else _published_fields(commit)
    kind, detail = event.event_type, event.detail
    by_response = kind == "isr" and detail == "alter_partition"
    if commit.partition_epoch is None:
        commit.partition_epoch = event.partition_epoch
    if commit.leader_id is None:
        commit.leader_id = event.broker_id if by_response or kind == "leader" else leader_id
    if commit.leader_epoch is None:
        commit.leader_epoch = leader_epoch
    if commit.replicas is None:
        commit.replicas = event.replicas
    if commit.unclean is None:
        commit.unclean = event.unclean
    if by_response:
        commit.by_response = True
    by_leader = commit.leader_ts is None and event.broker_id == commit.leader_id
    if by_leader and detail != "controller" and not event.watched:
        commit.leader_ts = event.ts
    if kind == "election" or detail == "controller":
        if commit.controller_ts is None or event.ts < commit.controller_ts:
            commit.controller_ts, commit.controller_row = event.ts, event.reported_by
    else:
        commit.replay = False
    if commit.predicted is None:
        commit.predicted = event.predicted
    if kind == "leader" and commit.min_isr is None:
        commit.min_isr = event.min_isr
    of_earlier_version = commit.witness is None and commit.published is not None
    known = BROKER if of_earlier_version else commit.witness
    commit.witness = stronger(known, witness_of(event, commit.leader_id))
    if _controller_epoch(event) > _controller_epoch(commit):
        commit.controller_epoch = event.controller_epoch
    return old is not None and old != _published_fields(commit)


def _published_fields(commit: CommittedIsr) -> tuple[object, ...]:
    """The fields that the events of a commit add to its row."""
    return (
        commit.leader_id, commit.leader_epoch, commit.replicas, commit.leader_ts, commit.by_response,
        commit.controller_ts, commit.min_isr, commit.predicted, commit.witness == CONTROLLER_ONLY,
        commit.unclean,
    )  # fmt: skip
