"""Rows of silver/telemetry_gaps about what sources say of one partition that cannot both be."""

from __future__ import annotations

from typing import Any

from pipelines.replication.partition.broker_lives import UNTOLD_US
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.one_term import Term
from pipelines.replication.partition.terms import Terms
from schemas.event_types import epoch_entries
from schemas.levels import POLLED

Rows = list[dict[str, Any]]


def contradiction_row(
    ts: int, source: tuple[str, int], level: int, leader: tuple[int | None, int | None], topic_id: str | None, said: str
) -> dict[str, Any]:
    """The row about what a `source` (id, epoch) said, and others say otherwise, under a `leader` (id, epoch)."""
    return {
        "ts": ts, "source_id": source[0], "source_epoch": source[1], "series": "partition", "kind": "contradiction",
        "detail": said, "level": level, "leader_id": leader[0], "leader_epoch": leader[1], "topic_id": topic_id,
        "broker": None,
    }  # fmt: skip


def contradicted_entries(event: PartitionEvent, terms: Terms) -> Rows:
    """Rows about entries of a leader-epoch-checkpoint below the offset at which the leader itself began: an entry is an
    upper bound of that (proofs 5.3). One for each term and source."""
    found = []
    for epoch, start in epoch_entries(event.detail):
        term = terms.first_of_epoch(epoch)
        known = None if term is None or not _is_first_start(term, terms) else term.known_start
        if term is not None and known is not None and start < known and event.source_id not in term.contradicted:
            term.contradicted |= {event.source_id}
            said = f"leader epoch {epoch} from {start} or below, its leader says from {known}"
            found.append(_row(event.ts, (event.source_id, event.source_epoch), term, said))
    return found


def _is_first_start(term: Term, terms: Terms) -> bool:
    """Whether the start that a leader told of its epoch is known to be the first in it: it told others before."""
    in_order = not (term.sampled or term.across_seam or term.behind_gap or term.has_gap or terms.lineage)
    return in_order and term.own_before > 0 and term.topic_id is not None


def settle_checkpoints(terms: Terms, as_of: int, lookup: TermLookup) -> tuple[Rows, int | None]:
    """Drop HWs of disks above all that their leader, the finer source, has told its log or a watcher a minute later.

    Returns a row for each, and when to look again. The leader has to go on in that term: one that was killed may have
    committed more than it told, and what a power failure leaves of its log file ends before its disk's checkpoint.
    """
    found: Rows = []
    again = None
    for term in terms.terms:
        if term.stored_on is None or term.stored_hw is None:
            continue
        source, epoch, hw, ts = term.stored_on
        if as_of < ts + UNTOLD_US:
            again = min(ts + UNTOLD_US, again or ts + UNTOLD_US)
            continue
        most = _most_told(term, ts, terms, as_of, lookup)
        if most is not None and hw > most:
            found.append(_row(ts, (source, epoch), term, f"HW {hw}, its leader has told none above {most}"))
            term.contradicted |= {source}
            term.stored_hw = term.stored_by = None
        term.stored_on = None
    return found, again


def _most_told(term: Term, ts: int, terms: Terms, as_of: int, lookup: TermLookup) -> int | None:
    """The largest HW of a term that is not over, or its start; None where its leader has not told all up to `ts`."""
    position = terms.positions.get(term.broker_id)
    goes_on = position is not None and term is terms.terms[-1] and position.ts == term.start_ts
    if position is None or not goes_on or term.known_start is None:
        return None
    if term.sampled:
        return _most_sampled(term, ts, as_of, lookup)
    source, summary = (position.source_id, position.source_epoch), term.summary_as_of(as_of, lookup)
    if not summary.complete or not lookup.told_through({source}, position.ts, ts):
        return None
    told = summary.hmax, summary.witnessed, summary.cut_off, term.known_start
    return max(offset for offset in told if offset is not None)


def _most_sampled(term: Term, ts: int, as_of: int, lookup: TermLookup) -> int | None:
    """The largest HW that a watcher was told of a term, once clocks could be no further apart; None without one, or if
    the leader may have started again since."""
    sampled = lookup.sampled_hw(term.broker_id, term.epoch, term.topic_id, as_of)
    if sampled is None or ts < (term.start_ts or 0) or sampled[1] <= ts + lookup.grace_us:
        return None
    return sampled[0] if lookup.answered_always(term.broker_id, ts - lookup.grace_us, sampled[1]) else None


def _row(ts: int, source: tuple[str, int], term: Term, said: str) -> dict[str, Any]:
    return contradiction_row(ts, source, POLLED, (term.broker_id, term.epoch), term.topic_id, said)
