"""The cause of an ISR change: the first in the contract's list that fits."""

from __future__ import annotations

from pipelines.replication.metadata.brokers_and_configs import LOG_DIR_OFFLINE
from pipelines.replication.partition.committed_isr import CommittedIsr
from pipelines.replication.partition.events import TermLookup

INACTIVE_US = 60_000_000
"""The controller removes a broker from its ISRs in the very batch that fences it or grants its shutdown, so a broker
that is still inactive at the change explains it. The bound serves only where the end of the inactive time was not
reported: a leader that was itself frozen applies the change that much later at most."""
STARTED_US = 10_000_000
"""A registration this long before the change may be what removed the incarnation before it."""
CAUSES = {
    "controlled_shutdown": "controlled_shutdown",
    "fenced": "controller_fenced",
    "unregistered": "controller_fenced",
}
"""By broker state, the cause that it is."""

Change = tuple[int, tuple[str, int, int] | None]
"""(time of a change, the row of the controller that reports it: source id, source epoch, source seq)"""


def cause(
    before: CommittedIsr, after: CommittedIsr, proposed: bool, joined: dict[int, int], as_of: int, lookup: TermLookup
) -> str:
    """The cause of a change that no election made; `proposed`: the leader asked for it.

    `joined`: when each replica was let into the ISR last. States of its broker before that did not keep it out (before
    Kafka 3.5 a broker that is shutting down may be let in again), so they are no reason for its removal either.
    """
    removed, added = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
    if after.by_response and not added and after.partition_epoch == (before.partition_epoch or 0) + 1:
        return "lag"  # what the controller removes itself it asks nobody for, and does at once
    reassigned = after.replicas is not None and bool(removed - set(after.replicas))
    ts, until = _cause_window(after, proposed or reassigned, as_of, lookup)
    since = {replica: joined.get(replica, -1) for replica in sorted(removed)}
    change = ts, after.controller_row
    by_controller = sorted(filter(None, (_inactive(r, since[r], change, until, lookup) for r in since)))
    if by_controller:
        return by_controller[0]
    if any(_lost_a_log_dir(r, since[r], ts, until, lookup) for r in since):
        return LOG_DIR_OFFLINE
    sampled = after.partition_epoch is None and bool(after.predicted)
    if proposed or after.by_response or sampled or (added and not removed):
        # samples: all that it removes were out of sync by the lag rule
        # an ISR grows inside a leader epoch only because its leader asked: no controller adds a replica itself
        return "caught_up" if added else "lag"
    return "reassignment" if reassigned else "unknown"


def _cause_window(after: CommittedIsr, explained: bool, as_of: int, lookup: TermLookup) -> tuple[int, int]:
    """(time of the change, last time at which its cause may be reported), on the controller's clock where it reports
    it.

    The controller reports a broker's state before what follows from it, or in the same batch. A change that the leader
    asked for, or a reassignment, follows from nothing that the controller reports later.
    """
    explained = explained or after.by_response
    if after.controller_ts is None:
        return after.ts, after.ts if explained else as_of
    return after.controller_ts, after.controller_ts + (0 if explained else lookup.race_window_us)


def _inactive(broker_id: int, since: int, change: Change, until: int, lookup: TermLookup) -> str | None:
    """The cause by which the controller had made this broker inactive at the `change`, since it was let into the
    ISR."""
    inactive: list[tuple[int, str]] = []
    ts, reported_by = change
    for at, detail, _, source, epoch, seq in lookup.broker_states(broker_id, until):
        if at < since:
            continue
        if detail == "unfenced":
            same_source = reported_by is not None and (source, epoch) == reported_by[:2]
            if at > ts or (at == ts and same_source and reported_by is not None and seq > reported_by[2]):
                break
            inactive = []
        elif detail == "started" and not inactive:
            # registered and not yet unfenced: an incarnation before it that did not shut down cleanly is removed now
            inactive = [(at, "fenced")] if ts - at <= STARTED_US else []
        elif detail in CAUSES:
            inactive.append((at, detail))
    return CAUSES[inactive[0][1]] if inactive and ts - inactive[-1][0] <= INACTIVE_US else None


def _lost_a_log_dir(broker_id: int, since: int, ts: int, until: int, lookup: TermLookup) -> bool:
    """Whether a log directory of this broker failed between its joining the ISR and the change."""
    failed = [at for at, detail, *_ in lookup.broker_states(broker_id, until) if detail == LOG_DIR_OFFLINE]
    return any(since <= at and ts - at <= INACTIVE_US for at in failed)
