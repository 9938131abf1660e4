"""Leader, ISR and HW of a partition, as samples and metadata show them. A HW that was sampled is reached by then."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Record, RecordArray
from pipelines.replication.compiled.types import I32, MS, NULL
from pipelines.replication.events.columns import CODE
from pipelines.replication.samples.bundles import (
    Found,
    Present,
    Rounds,
    Rows,
    answered_always,
    find_member,
    forget_member,
    last_round,
)
from pipelines.replication.samples.lag import (
    add_change,
    assign,
    drop_first,
    end_lags,
    find_step_above,
    grow,
    is_in,
    may_hold,
    settle,
    take_follower,
)
from pipelines.replication.samples.layout import KEPT_ISRS, KEPT_TERMS, NOT_KNOWN
from pipelines.replication.term.constants import popcount
from pipelines.replication.term.layout import (
    ADVANCE,
    DISAGREE,
    FREEZE,
    HELD_BACK,
    IDLE,
    MOVES_ON,
    ONLY_WITNESS,
    RECOVERED,
    REPORT,
    THAW,
)
from schemas.levels import POLLED
from schemas.partition_health import STALLED_MS

_LEADER, _ISR, _LOST, _SAMPLE = CODE["leader"], CODE["isr"], CODE["lost"], CODE["sample"]


@kernel
def take_row(one: Present, row: Record, lists: Rows, rounds: Rounds, lanes: RecordArray, found: Found) -> None:
    """Apply one row; rows come in canonical order."""
    of = one.record[0]
    if row.topic_id not in (-1, of.topic_id):
        if row.kind == _LOST:
            return
        _begin_topic(one, row.topic_id, lanes)
    settle(one, row.clock - 1, row.lag_max, rounds, found)  # at one time a round may be known whose rows are to come
    of.gone, of.min_isr_told = row.gone, row.min_isr_told
    if row.kind == _LOST:
        k = find_member(one, row.broker)
        if k >= 0:
            one.members[k].answers = 0
    elif row.kind == _SAMPLE and (row.leader != row.broker or row.epoch < 0):
        take_follower(one, row, rounds, found)
    elif not _take_metadata(one, row, lists, lanes, found):
        _add_hw(one, row)
    elif row.kind == _SAMPLE:
        _take_leader(one, row, rounds, found)
    if of.stalled_since == NULL:
        _tell_wait(one, row.ts, 0, found)


@kernel
def _begin_topic(one: Present, topic_id: int, lanes: RecordArray) -> None:
    """Another topic has the name: nothing is known of it."""
    of = one.record[0]
    _leave_lane(of, lanes)
    of.topic_id = topic_id
    of.leader = of.epoch = of.began = of.seen = of.source = -1
    of.isr = of.assigned = of.hw = of.leo = of.stalled_since = of.waits_for = NULL
    of.frozen = of.steps = of.terms = of.isrs = of.hws = 0
    for k in range(of.members):
        forget_member(one.members[k])


@hot
def _leave_lane(of: Record, lanes: RecordArray) -> None:
    if of.lane >= 0:
        lanes[of.lane].state = IDLE
    of.lane = -1


@kernel
def _read_mask(one: Present, ids: I32, at: int, count: int) -> int:
    """A list of replicas as a mask."""
    mask = 0
    for n in range(at, at + count):
        k = find_member(one, ids[n])
        if k >= 0:
            mask |= 1 << k
    return mask


@kernel
def _take_metadata(one: Present, row: Record, lists: Rows, lanes: RecordArray, found: Found) -> bool:
    """Take over leader, ISR and assignment; False if they are of an older leader epoch."""
    of = one.record[0]
    leader = row.broker if row.kind == _LEADER else row.leader
    if row.epoch < of.epoch:
        return False
    before = of.isr
    if row.isr_count >= 0:
        _take_isr(one, row, _read_mask(one, lists.isr, row.isr_at, row.isr_count))
    if leader != of.leader or row.epoch != of.epoch:
        end_lags(one, row.ts, found)
        _begin_term(one, row, leader, lanes, found)
    elif row.kind == _ISR and before != NULL and row.isr_count >= 0 and before & ~of.isr:
        outside = 1
        for k in range(of.members):
            if is_in(before & ~of.isr, k) and one.members[k].out_of_sync == 0:
                outside = 0
        shrink = found.predicted[found.counts.predicted[0]]
        shrink.position, shrink.outside = row.position, outside
        found.counts.predicted[0] += 1
    if row.assigned_count > 0:
        assign(one, _read_mask(one, lists.assigned, row.assigned_at, row.assigned_count), row, found)
    of.min_isr = row.min_isr
    if of.isr != NULL and of.leader >= 0:
        frozen = int(is_under_min_isr(of.isr, of.assigned, row.min_isr))
        if frozen != of.frozen:
            of.frozen = frozen
            _add_fact(one, row.ts, FREEZE if frozen else THAW, NULL, ONLY_WITNESS, 0, found)
    return True


@hot
def is_under_min_isr(isr: int, assigned: int, min_isr: int) -> bool:
    """Whether an ISR is too small for the HW to move; as many as are assigned are enough (rule 1.3)."""
    return popcount(isr) < (min(min_isr, popcount(assigned)) if assigned not in (NULL, 0) else min_isr)


@hot
def _take_isr(one: Present, row: Record, isr: int) -> None:
    """Take the ISR that a row reports. A sample has that of the metadata before it, which is how old nobody says."""
    of = one.record[0]
    if isr == of.isr:
        return
    if of.isrs == KEPT_ISRS:
        drop_first(one.isrs, of.isrs, 1)
        of.isrs -= 1
        one.isrs[0].isr = NULL
    past = one.isrs[of.isrs]
    past.after = -1 if row.kind == _SAMPLE else row.ts - row.error
    past.by, past.isr = row.clock, of.isr
    of.isrs += 1
    of.isr, of.compared_from = isr, row.ts
    of.stalled_since = of.waits_for = NULL


@hot
def _begin_term(one: Present, row: Record, leader: int, lanes: RecordArray, found: Found) -> None:
    """Another leadership: nothing is known yet of its offsets."""
    of = one.record[0]
    _leave_lane(of, lanes)
    of.leader, of.epoch, of.began, of.seen = leader, row.epoch, row.ts, -1
    of.hw = of.leo = of.stalled_since = of.waits_for = NULL
    of.frozen = of.steps = 0
    if leader < 0:
        return
    led = found.led[found.counts.led[0]]
    led.number, led.leader = of.number, leader
    of.lane = -2 - found.counts.led[0]
    found.counts.led[0] += 1
    if of.terms == KEPT_TERMS:
        drop_first(one.terms, of.terms, 1)
        of.terms -= 1
    term = one.terms[of.terms]
    term.number, term.broker, term.epoch, term.topic_id = of.terms_begun, leader, row.epoch, of.topic_id
    term.leo, term.fetchers, term.first_hw, term.last_hw = NULL, 0, -1, -1
    term.first_ts = term.last_ts = NULL
    of.terms += 1
    of.terms_begun += 1


@kernel
def _take_leader(one: Present, row: Record, rounds: Rounds, found: Found) -> None:
    """Take the sample of the present leader. A HW that it does not know yet (OFFSET_NOT_AVAILABLE) says nothing."""
    of, k, ts = one.record[0], find_member(one, row.broker), row.ts
    before, answered = of.seen, False
    if k >= 0:
        leader = one.members[k]
        answered = leader.answers == 1
        leader.leo, leader.since, leader.answers = row.leo, ts, 1
    after = max(before, last_round(rounds, of.cluster, row.broker, ts - 1)) if answered else before
    grow(one, row.leo, after, ts + row.error)
    if NOT_KNOWN < row.leo < of.hw and (row.source == of.hw_source or ts - of.hw_ts > row.lag_max):
        _take_cut(one, row, found)
    one.terms[of.terms - 1].leo = row.leo
    of.seen, of.source = ts - row.error, row.source
    rises = row.hw != -1 and (of.hw == NULL or row.hw > of.hw)
    if rises:
        of.hw, of.hw_ts, of.hw_source = row.hw, ts, row.source
        _add_hw(one, row)
        _add_fact(one, ts, ADVANCE, row.hw, ONLY_WITNESS, row.error, found)
    elif row.hw != -1 and row.hw < of.hw:
        if answered_always(rounds, of.cluster, row.broker, before, ts):
            _add_fact(one, ts, REPORT, row.hw, DISAGREE, 0, found)
        else:  # a leader that may have started again inside its epoch, with the HW of its checkpoint
            of.hw, of.hw_ts, of.hw_source = row.hw, ts, row.source
            of.stalled_since, of.compared_from = NULL, ts
    _wait(one, row, found)


@kernel
def _take_cut(one: Present, row: Record, found: Found) -> None:
    """The leader's log ends below a HW that it answered in this epoch, before that by any clock: it has lost what lies
    between, and of what it commits from here on nothing is known yet."""
    of, cut = one.record[0], found.cut[found.counts.cut[0]]
    cut.position, cut.hw = row.position, of.hw
    found.counts.cut[0] += 1
    of.hw = of.stalled_since = of.waits_for = NULL
    of.steps, of.compared_from = 0, row.ts
    term = one.terms[of.terms - 1]
    term.number, term.first_hw, term.last_hw, term.first_ts, term.last_ts = of.terms_begun, -1, -1, NULL, NULL
    of.terms_begun += 1


@kernel
def _wait(one: Present, row: Record, found: Found) -> None:
    """Follow the records that wait: they were there at a sample of the leader, and are not committed at a later one
    under the same ISR (docs/kafka-rules.md 7.5)."""
    of = one.record[0]
    if row.hw == -1 or of.hw >= of.leo or not _waits_for_others(one, row):
        of.stalled_since = of.waits_for = NULL
    elif of.stalled_since == NULL or not of.hw < of.waits_for <= of.leo:
        step = one.steps[find_step_above(one, of.hw)]
        of.stalled_since, of.waits_for = max(step.most, of.compared_from), step.leo
    held_from = of.stalled_since + STALLED_MS * MS
    if of.stalled_since != NULL and held_from < of.seen:
        _tell_wait(one, held_from, 1, found)
    else:
        _tell_wait(one, row.ts, 0, found)


@kernel
def _tell_wait(one: Present, ts: int, held_back: int, found: Found) -> None:
    """Add a row where the HW is held back from a time on, or no longer; a new leader's is not."""
    of = one.record[0]
    leader = find_member(one, of.leader)
    if held_back != of.held_back and leader >= 0:
        add_change(one, leader, ts, NULL, RECOVERED, found).state = HELD_BACK if held_back else MOVES_ON
    of.held_back = held_back


@hot
def _waits_for_others(one: Present, row: Record) -> bool:
    """Whether other replicas decide how far the HW goes. Under min ISR nothing moves it, and a leader that is alone
    waits for a replica about to join only."""
    of = one.record[0]
    told = of.min_isr_told == 1 or of.assigned & ~of.isr == 0
    if of.isr == NULL or of.assigned == NULL or of.frozen or not told:
        return False
    joining = False
    for k in range(of.members):
        joining = joining or may_hold(one, k, row.ts, row.lag_max)
    return popcount(of.isr) > 1 or joining


@kernel
def _add_hw(one: Present, row: Record) -> None:
    """Add a HW to the term in which it was sampled, which may be over."""
    of = one.record[0]
    for t in range(of.terms - 1, -1, -1):
        term = one.terms[t]
        if term.broker == row.broker and term.epoch == row.epoch and of.topic_id in (-1, term.topic_id):
            if row.hw > term.last_hw:
                rose = one.hws[of.hws]
                rose.term, rose.ts, rose.hw = term.number, row.clock, row.hw
                of.hws += 1
                term.last_hw, term.last_ts = row.hw, row.clock
            return


@kernel
def _add_fact(one: Present, ts: int, kind: int, reported: int, agreement: int, error: int, found: Found) -> None:
    of, at = one.record[0], found.counts.hw[0]
    holding = 0
    for k in range(of.members):
        if of.isr != NULL and is_in(of.isr, k) and one.members[k].leo == of.hw:
            holding |= 1 << k
    fact = found.hw[at]
    fact.lane, fact.ts, fact.kind, fact.agreement = of.lane, ts, kind, agreement
    fact.hw, fact.reported, fact.leader_leo = of.hw, reported, of.leo
    fact.isr, fact.holding, fact.frozen = 0 if of.isr == NULL else of.isr, holding, of.frozen
    fact.leader_epoch, fact.topic_id, fact.level = of.epoch, of.topic_id, POLLED
    fact.hw_before = fact.awaited = NULL
    found.errors[at] = error
    found.counts.hw[0] = at + 1
