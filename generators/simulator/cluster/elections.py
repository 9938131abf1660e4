"""Elections as functions of a registration (PartitionChangeBuilder)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from generators.simulator.cluster import rules
from generators.simulator.cluster.registration import NOBODY, Registration

Active = Callable[[int], bool]


def elect(
    before: Registration,
    isr: Collection[int],
    active: Active,
    *,
    elr: bool,
    unclean: bool = False,
    distrusted: int | None = None,
) -> Registration:
    """`before` with its ISR reduced to `isr`, and a leader; `distrusted` is a broker that may have lost records.

    The leader stays if it can; else the first active member of the ISR in order of assignment, or of the eligible
    replicas while the ISR is empty; else, where that is allowed, any replica (unclean: the ISR becomes that one); else
    nobody leads, and without `elr` the last ISR is kept.
    """
    target = tuple(i for i in before.isr if i in isr)
    eligible = tuple(e for e in _eligible(before, target) if e != distrusted) if elr else ()
    candidates = target or eligible
    leader = next((b for b in (before.leader, *before.replicas) if b in candidates and active(b)), NOBODY)
    if leader != NOBODY and not target:
        return _led(before, leader, (leader,), tuple(e for e in eligible if e != leader))
    if leader != NOBODY:
        return _led(before, leader, target, eligible)
    if elr and not candidates and before.last_known is not None and active(before.last_known):
        return _led(before, before.last_known, (before.last_known,), (), unclean=True)
    anyone = next((b for b in before.replicas if active(b)), NOBODY) if unclean or before.unclean else NOBODY
    if anyone != NOBODY:
        return _led(before, anyone, (anyone,), (), unclean=True)
    kept = target if elr or target else before.isr
    last = before.leader if before.leader != NOBODY and not kept else before.last_known
    return replace(_led(before, NOBODY, kept, eligible), last_known=last if elr else None)


def prefer(before: Registration, active: Active) -> Registration:
    """Elect the first assigned replica, if it is in the ISR and active."""
    first = before.replicas[0]
    if before.leader == first or first not in before.isr or not active(first):
        return before
    return _led(before, first, before.isr, before.eligible)


def with_isr(before: Registration, isr: tuple[int, ...], *, elr: bool) -> Registration:
    """The ISR that a leader requested; the request also shows that the leader has recovered."""
    eligible = _eligible(before, isr) if elr else ()
    return replace(before, isr=isr, eligible=eligible, recovering=False, partition_epoch=before.partition_epoch + 1)


def _eligible(before: Registration, target: tuple[int, ...]) -> tuple[int, ...]:
    """Eligible replicas, while the ISR is smaller than min ISR: those that were in it, or eligible, and are not in it
    now."""
    if len(target) >= rules.effective_min_isr(before.min_isr, len(before.replicas)):
        return ()
    known = dict.fromkeys((*before.eligible, *before.isr))
    return tuple(e for e in known if e not in target)


def _led(
    before: Registration, leader: int, isr: tuple[int, ...], eligible: tuple[int, ...], unclean: bool = False
) -> Registration:
    """The next registration; unchanged if nothing changes."""
    recovering = unclean or (before.recovering and leader == before.leader)
    if (leader, isr, eligible, recovering) == (before.leader, before.isr, before.eligible, before.recovering):
        return before
    return replace(
        before,
        leader=leader,
        isr=isr,
        eligible=eligible,
        recovering=recovering,
        last_known=None if leader != NOBODY else before.last_known,
        leader_epoch=before.leader_epoch + (leader != before.leader or unclean),
        partition_epoch=before.partition_epoch + 1,
    )
