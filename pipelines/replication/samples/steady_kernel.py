"""Runs the compiled rules for samples over the steady partitions of a micro-batch."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I8, NULL
from pipelines.replication.samples.layout import JOBS, MEMBERS, MOST_MEMBERS, STEADY, STEPS
from pipelines.replication.samples.steady_bundles import Found, Present, Rounds, Samples
from pipelines.replication.samples.steady_rules import settle_steady, step_above, take_sample
from pipelines.replication.term.layout import IN_SYNC, LANES, OUT_OF_SYNC, REPLICAS

_OF, _MEMBER, _STEP, _JOB = STEADY.at, MEMBERS.at, STEPS.at, JOBS.at
_LANE, _REPLICA = LANES.at, REPLICAS.at


@hot
def _copy(target: Records, source: Records, count: int) -> None:
    for k in range(count):
        for c in range(source.shape[1]):
            target[k, c] = source[k, c]


@kernel
def read_samples(
    jobs: Records, store: tuple[Records, Records, Records, int], work: Present, samples: Samples, lanes: Records,
    rounds: Rounds, found: Found, done: I8,
) -> int:  # fmt: skip
    """Reads the samples of each job whose samples change offsets only, and marks these as `done`; `store`: records,
    members, steps with room for what they need, and where the free ones of these begin. Returns where they do then."""
    records, members, steps, free = store
    for j in range(len(jobs)):
        record = jobs[j, _JOB.record]
        of, counts = work.of, (found.counts[0], found.counts[1], found.counts[2])
        for c in range(records.shape[1]):
            of[c] = records[record, c]
        at = of[_OF.steps_at]
        _copy(work.members, members[record * MOST_MEMBERS : (record + 1) * MOST_MEMBERS], MOST_MEMBERS)
        _copy(work.steps, steps[at : at + of[_OF.steps]], of[_OF.steps])
        of[_OF.first_hw], of[_OF.first_hw_ts] = of[_OF.last_hw], of[_OF.last_hw_ts]
        taken = True
        for row in range(jobs[j, _JOB.begin], jobs[j, _JOB.end]):
            if not take_sample(work, samples.rows[row], jobs[j, _JOB.lag_max], samples, lanes, rounds, found):
                taken = False
                break
        if not taken:
            found.counts[0], found.counts[1], found.counts[2] = counts
            continue
        done[j] = 1
        if of[_OF.steps] > of[_OF.steps_room]:
            room = 4
            while room < of[_OF.steps]:
                room *= 2
            of[_OF.steps_at], of[_OF.steps_room] = free, room
            free += room
        at = of[_OF.steps_at]
        for c in range(records.shape[1]):
            records[record, c] = of[c]
        _copy(members[record * MOST_MEMBERS : (record + 1) * MOST_MEMBERS], work.members, MOST_MEMBERS)
        _copy(steps[at : at + of[_OF.steps]], work.steps, of[_OF.steps])
    return int(free)


@kernel
def settle_all(
    store: tuple[Records, Records, Records], limits: Records, changed: I8, rounds: Rounds, found: Found, lanes: Records,
    replicas: Records,
) -> None:  # fmt: skip
    """Settles every record by its cluster's `limits` (now, lag), and writes the lanes of what is `changed`."""
    records, members, steps = store
    width = len(replicas) // max(len(lanes), 1)
    for record in range(len(records)):
        of = records[record]
        if of[_OF.number] < 0:
            continue
        at, before = of[_OF.steps_at], found.counts[1]
        its = members[record * MOST_MEMBERS : (record + 1) * MOST_MEMBERS]
        one = Present(of, its, steps[at : at + of[_OF.steps]])
        settle_steady(one, limits[of[_OF.cluster], 0], limits[of[_OF.cluster], 1], rounds, found)
        if changed[record] or found.counts[1] != before:
            _write_lane(one, lanes, replicas, width)


@hot
def _write_lane(one: Present, lanes: Records, replicas: Records, width: int) -> None:
    """What `SampledLanes` writes of a partition, as far as samples change it."""
    of, lane = one.of, one.of[_OF.lane]
    lanes[lane, _LANE.home], lanes[lane, _LANE.hw] = of[_OF.source], of[_OF.hw]
    lanes[lane, _LANE.last_ts], lanes[lane, _LANE.stalled_since] = of[_OF.seen], of[_OF.stalled_since]
    lanes[lane, _LANE.leader_leo] = NULL
    for k in range(of[_OF.members]):
        broker = one.members[k, _MEMBER.broker]
        at, leo = lane * width + one.members[k, _MEMBER.slot], _leo(one, k)
        step = step_above(one, leo) if leo >= 0 and broker != of[_OF.leader] else -1
        replicas[at, _REPLICA.leo] = leo
        replicas[at, _REPLICA.caught_up] = NULL if step < 0 else max(one.steps[step, _STEP.most], of[_OF.began])
        replicas[at, _REPLICA.sync] = OUT_OF_SYNC if one.members[k, _MEMBER.out_of_sync] else IN_SYNC
        if broker == of[_OF.leader] and one.members[k, _MEMBER.answers]:
            lanes[lane, _LANE.leader_leo] = of[_OF.leo]


@hot
def _leo(one: Present, k: int) -> int:
    """The LEO of a replica that answers, else -1."""
    return int(one.members[k, _MEMBER.leo]) if one.members[k, _MEMBER.answers] else -1
