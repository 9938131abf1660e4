"""The followers that are out of sync, as samples show it.

Between two samples anything may have happened, so every fact is a bound: a follower is out of sync only if the latest
instant at which it can have been caught up is longer ago than the lag.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Record, copy_record
from pipelines.replication.compiled.types import MS, NULL
from pipelines.replication.samples.bundles import (
    Found,
    Present,
    Rounds,
    answered_always,
    find_member,
    forget_member,
    last_round,
)
from pipelines.replication.samples.layout import KEPT_STEPS
from pipelines.replication.term.layout import BEHIND, IN_SYNC, OUT_OF_SYNC, RECOVERED, SILENT, UNASSIGNED
from schemas.levels import POLLED


@hot
def is_in(mask: int, k: int) -> bool:
    return mask >> k & 1 == 1


@hot
def is_follower(one: Present, k: int) -> bool:
    """Whether a replica answers and follows; one that is assigned no more does not."""
    of, member = one.record[0], one.members[k]
    return member.answers == 1 and member.broker != of.leader and (of.assigned == NULL or is_in(of.assigned, k))


@hot
def find_step_above(one: Present, leo: int) -> int:
    """The first step of the leader's LEO above this one, -1 if there is none: a follower with this LEO is caught up.

    It was last caught up between the `least` and `caught_up_by` of that step: it was as long as the leader's LEO was
    no larger. Kafka takes the last such instant at which it fetched.
    """
    for k in range(one.record[0].steps):
        if one.steps[k].leo > leo:
            return k
    return -1


@hot
def caught_up_by(one: Present, step: int) -> int:
    """The latest instant at which a follower that is behind this step can have been caught up."""
    return int(max(one.steps[step].most, one.record[0].began))


@hot
def in_isr_at(one: Present, k: int, at: int) -> int:
    """Whether a replica was in the ISR at a time; NULL if that is not known."""
    of = one.record[0]
    known = NULL if of.isr == NULL else int(is_in(of.isr, k))
    for n in range(of.isrs - 1, -1, -1):
        past = one.isrs[n]
        if at >= past.by:
            break
        before = NULL if past.isr == NULL else int(is_in(past.isr, k))
        if at > past.after and before != known:
            return NULL
        known = before
    return known


@kernel
def add_change(one: Present, k: int, ts: int, caught_up: int, reason: int, found: Found) -> Record:
    """Add a row of SYNC_ROWS about a replica; returns it."""
    of, member, fact = one.record[0], one.members[k], found.sync[found.counts.sync[0]]
    outside = member.out_of_sync == 1
    fact.lane, fact.ts, fact.replica = of.lane, ts, member.broker
    fact.state = OUT_OF_SYNC if outside else IN_SYNC
    fact.previous = IN_SYNC if outside else OUT_OF_SYNC
    fact.in_isr, fact.caught_up, fact.leo = in_isr_at(one, k, ts), caught_up, member.leo
    fact.leader_leo, fact.reason, fact.leader_epoch = of.leo, reason, of.epoch
    fact.topic_id, fact.level = of.topic_id, POLLED
    found.counts.sync[0] += 1
    return fact


@kernel
def settle(one: Present, now: int, lag_max: int, rounds: Rounds, found: Found) -> None:
    """Find the followers that are out of sync by `now` (Partition.getOutOfSyncReplicas, ReplicaState.isCaughtUp).

    Claimed once the follower has answered after the deadline with the LEO that it had: then it was not caught up
    meanwhile. One that does not answer may have been.
    """
    of = one.record[0]
    for k in range(of.members):
        member = one.members[k]
        if member.out_of_sync == 1 or member.leo >= of.leo or not is_follower(one, k):
            continue
        step = find_step_above(one, member.leo)
        if step < 0:
            continue
        latest = max(caught_up_by(one, step), member.first)
        deadline = latest + lag_max + MS
        if max(last_round(rounds, of.cluster, member.broker, now), member.since) >= deadline:
            member.out_of_sync = 1
            add_change(one, k, deadline, latest, SILENT if member.since <= latest else BEHIND, found)


@kernel
def take_follower(one: Present, row: Record, rounds: Rounds, found: Found) -> None:
    """Take the sample of a replica that does not lead."""
    of, k = one.record[0], find_member(one, row.broker)
    if k < 0:
        return
    member, leo, ts = one.members[k], row.leo, row.ts
    if leo < member.leo:
        member.fetched = -1
    elif leo > member.leo >= 0 and member.answers == 1 and member.since >= of.began:
        from_before = 0 <= row.log_epoch < of.epoch  # the former leader may go on to answer its fetches
        if not from_before and answered_always(rounds, of.cluster, row.broker, member.since, ts):
            member.fetched = member.leo  # it has not started again meanwhile
    if member.answers != 1 or member.leo != leo:
        member.since = ts
    if member.first == -1 or leo < member.leo:  # until its log was cut it may have been caught up
        member.first = ts + row.error
    member.leo, member.answers = leo, 1
    if of.terms > 0 and row.log_epoch == of.epoch:
        one.terms[of.terms - 1].fetchers |= 1 << k
    if member.out_of_sync == 1:
        step = find_step_above(one, leo)
        if step < 0 or ts <= one.steps[step].least + row.lag_max:
            member.out_of_sync = 0
            add_change(one, k, ts, ts if step < 0 else caught_up_by(one, step), RECOVERED, found)


@hot
def may_hold(one: Present, k: int, ts: int, lag_max: int) -> bool:
    """Whether a replica may hold the HW back at `ts` (docs/kafka-rules.md 7.5).

    One that was seen to go on from above the HW has fetched from there, and the leader knows that. The leader knows
    where followers fetch, not where their logs end: one that appended what it got and hangs holds the HW below its own
    end. Outside the ISR a replica counts while it is caught up: it may be about to join.
    """
    of, member = one.record[0], one.members[k]
    if member.broker == -1 or member.broker == of.leader or member.fetched > of.hw:
        return False
    if is_in(of.isr, k):
        return True
    if not is_follower(one, k) or member.leo < of.hw:
        return False
    step = find_step_above(one, member.leo)
    return step < 0 or ts <= caught_up_by(one, step) + lag_max


@kernel
def end_lags(one: Present, ts: int, found: Found) -> None:
    """A new leader begins to measure anew."""
    for k in range(one.record[0].members):
        one.members[k].fetched = -1
        if one.members[k].out_of_sync == 1:
            one.members[k].out_of_sync = 0
            add_change(one, k, ts, NULL, RECOVERED, found)


@kernel
def assign(one: Present, assigned: int, row: Record, found: Found) -> None:
    """A replica that is not assigned any more lags behind nobody; once it is assigned again, it is measured anew."""
    of = one.record[0]
    before, of.assigned = of.assigned, assigned
    for k in range(of.members):
        member = one.members[k]
        if member.out_of_sync == 1 and not is_in(assigned, k):
            member.out_of_sync = 0
            add_change(one, k, row.ts, NULL, UNASSIGNED, found)
        elif member.answers >= 0 and before != NULL and is_in(assigned, k) and not is_in(before, k):
            member.first = row.ts + row.error
        if not is_in(assigned, k) and member.answers != 1:
            forget_member(member)


@kernel
def grow(one: Present, leo: int, after: int, at: int) -> None:
    """The leader's LEO is `leo` at `at`, and was what it was before until `after`."""
    of, steps = one.record[0], one.steps
    count = of.steps
    if of.leo == NULL or leo < of.leo:
        steps[0].least, steps[0].most, steps[0].leo = -1, at, leo
        count = 1
    elif leo > of.leo:
        steps[count].least, steps[count].most, steps[count].leo = after, at, leo
        count += 1
    of.leo, of.steps = leo, count
    behind, followed = leo, False
    for k in range(of.members):
        if is_follower(one, k):
            behind = min(behind, one.members[k].leo) if followed else one.members[k].leo
            followed = True
    first = find_step_above(one, behind)
    first = count - 1 if first < 0 else min(first, count - 1)
    if first > 0:
        for k in range(first, count):
            copy_record(steps[k - first], steps[k])
        count -= first
    if count > KEPT_STEPS:
        middle = count // 2
        least = steps[middle].least
        for k in range(middle, count - 1):
            copy_record(steps[k], steps[k + 1])
        steps[middle].least = least
        count -= 1
    of.steps = count
    past = 0
    while past < of.isrs and one.isrs[past].by <= caught_up_by(one, 0):  # no deadline is before that
        past += 1
    drop_first(one.isrs, of.isrs, past)
    of.isrs -= past


@hot
def drop_first(rows: Record, count: int, dropped: int) -> None:
    """Move the records behind the first ones to the front."""
    if dropped > 0:
        for k in range(dropped, count):
            copy_record(rows[k - dropped], rows[k])
