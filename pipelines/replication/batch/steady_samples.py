"""Runs the compiled rules over the sampled partitions of which only offsets change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.sampled_rows import SampledRows
from pipelines.replication.compiled.records import Records, records
from pipelines.replication.compiled.types import I64, MS, NULL32
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE, Config
from pipelines.replication.rules import Rules
from pipelines.replication.samples.layout import HWS, KEPT_STEPS, MEMBERS, MOST_MEMBERS, SAMPLES, STEADY, STEPS
from pipelines.replication.samples.steady import Place
from pipelines.replication.samples.steady_bundles import Found, Present, Rounds
from pipelines.replication.samples.steady_kernel import read_samples, settle_all
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import HW_ROWS, SYNC_ROWS
from schemas.levels import LEAN

_ROW, _OF = SAMPLES.at, STEADY.at


class SteadySamples:
    """One micro-batch of steady partitions: their rows are read, then all of them are settled."""

    def __init__(self, state: State, rules: Rules) -> None:
        self._state, self._rules = state, rules
        self._rounds = _rounds(state)
        self._facts: list[Found] = []
        self._read = np.empty(0, dtype=np.int64)
        logged = (state.lanes["level"] >= LEAN) & ~state.sampled_lanes()
        self._by_log = np.zeros(state.partition_keys.count, dtype=np.bool_)
        self._by_log[state.lanes["partition"][logged]] = True
        known = state.steady.numbers()
        state.release(known[self._by_log[known]])

    def read(self, rows: SampledRows) -> I64:
        """Reads the rows of partitions of which only offsets change; returns the others, which are steady no more."""
        jobs, of = self._jobs(rows)
        done = np.zeros(len(jobs), dtype=np.int8)
        if len(jobs):
            self._run(rows, jobs, done)
        self._read = rows.numbers[of[done == 1]]
        others = np.setdiff1d(np.arange(len(rows.numbers)), of[done == 1])
        left = rows.numbers[others]
        self._state.release(left[self._state.steady.records_of(left) >= 0])
        return others

    def settle(self, limits: Mapping[int, tuple[int, int]]) -> None:
        """Settles every steady partition; `limits` by number of its cluster: by when, and the lag."""
        state, steady = self._state, self._state.steady
        if not steady:
            return
        count = steady.records.count
        changed = np.zeros(count, dtype=np.int8)
        changed[steady.records_of(self._read)] = 1
        table = np.array([limits[number] for number in range(len(state.clusters.all))], dtype=np.int64)
        found = _room(0, MOST_MEMBERS * count)
        self._facts.append(found)
        lanes, width = state.lanes, state.replicas.width
        store = steady.records.data[:count], steady.members.data[: count * MOST_MEMBERS], steady.steps
        settle_all(
            store, table, changed, self._rounds, found, lanes.data[: lanes.count],
            state.replicas.data[: lanes.count * width],
        )  # fmt: skip

    def hw_rows(self) -> Records:
        """The HWs that rose, as rows of HW_ROWS."""
        found = [facts.hw[: facts.counts[0]] for facts in self._facts]
        return np.concatenate([records(HW_ROWS, 0), *found])

    def sync_rows(self) -> Records:
        """Replicas that went out of sync, or came back, as rows of SYNC_ROWS."""
        found = [facts.sync[: facts.counts[1]] for facts in self._facts]
        return np.concatenate([records(SYNC_ROWS, 0), *found])

    def _jobs(self, rows: SampledRows) -> tuple[Records, I64]:
        """(JOBS for the partitions that may be steady, and which of `rows` each is)."""
        steady, first = self._state.steady, int(rows.samples.rows[:, _ROW.ts].min())
        fit = rows.only_samples & ~self._by_log[rows.numbers]
        lag, min_isr = self._settings(rows.numbers, first)
        for number in rows.numbers[fit & (steady.records_of(rows.numbers) < 0)].tolist():
            self._put(number)
        record = steady.records_of(rows.numbers)
        fit &= record >= 0
        fit[fit] = steady.records["min_isr"][record[fit]] == min_isr[fit]
        jobs = np.stack([record, rows.bounds[:-1], rows.bounds[1:], lag], axis=1)
        return np.ascontiguousarray(jobs[fit]), np.flatnonzero(fit)

    def _settings(self, numbers: I64, first: int) -> tuple[I64, I64]:
        """By partition the lag and min ISR that hold from `first` on; no min ISR where they change after it."""
        topics, of = np.unique(self._state.partition_keys.keys[numbers] >> 32, return_inverse=True)
        found = np.array([self._of_topic(topic, first) for topic in topics.tolist()], dtype=np.int64).reshape(-1, 2)
        return found[of, 0], found[of, 1]

    def _of_topic(self, topic: int, first: int) -> tuple[int, int]:
        state = self._state
        name = str(state.topics.all[topic][0])
        cluster, own = state.clusters.number(name), self._rules.of(name)[0]
        configs = state.timeline.configs
        last = [entries[-1][0] for t in (topic, CLUSTER_WIDE) if (entries := configs.get((cluster, t)))]
        if any(ts > first for ts in last):
            return 0, NULL32
        lag = lag_at(configs.get((cluster, CLUSTER_WIDE), ()), first, own)
        return lag, state.timeline.min_isr(cluster, topic, first, None, own.min_isr or 1)

    def _put(self, number: int) -> None:
        """Makes a partition steady where it can be."""
        state = self._state
        one = state.watched.partitions.get(number)
        lane = -1 if one is None else state.sampled_lane(number, one.leader)
        if one is None or lane < 0:
            return
        cluster = state.clusters.number(state.place(number)[0])
        topic_id = -1 if one.topic_id is None else state.topic_ids.number(one.topic_id)
        if state.steady.put(one, Place(number, lane, cluster, topic_id), dict(_slots(state, lane))):
            del state.watched.partitions[number]

    def _run(self, rows: SampledRows, jobs: Records, done: npt.NDArray[np.int8]) -> None:
        steady, samples = self._state.steady, rows.samples
        leads = samples.rows[:, _ROW.leader] == samples.rows[:, _ROW.broker]
        before = np.concatenate([[0], np.cumsum(leads)])
        steps = steady.records["steps"][jobs[:, 0]] + before[jobs[:, 2]] - before[jobs[:, 1]]
        steady.reserve(int((2 * np.minimum(steps, KEPT_STEPS) + 4).sum()))
        found = _room(int(leads.sum()), MOST_MEMBERS * len(jobs) + 2 * len(samples.rows))
        work = Present(
            np.zeros(len(STEADY.defaults), dtype=np.int64), records(MEMBERS, MOST_MEMBERS),
            records(STEPS, KEPT_STEPS + 1),
        )  # fmt: skip
        store = steady.records.data, steady.members.data, steady.steps, steady.used
        lanes = self._state.lanes
        steady.used = read_samples(
            jobs, store, work, samples, lanes.data[: lanes.count], self._rounds, found, done,
        )  # fmt: skip
        steady.add_hws(steady.records["number"][jobs[done == 1, 0]], found.hws[: found.counts[2]])
        self._facts.append(found)


def lag_at(entries: list[Config] | tuple[Config, ...], ts: int, own: Rules) -> int:
    """`replica.lag.time.max.ms` of a cluster at a time, in microseconds."""
    return MS * next((e[2] for e in reversed(entries) if e[0] <= ts and e[2] is not None), own.lag_max_ms)


def _room(rises: int, changes: int) -> Found:
    return Found(
        records(HW_ROWS, rises), np.empty((changes, len(SYNC_ROWS.defaults)), dtype=np.int64),
        np.empty((rises, len(HWS.defaults)), dtype=np.int64), np.zeros(3, dtype=np.int64),
    )  # fmt: skip


def _slots(state: State, lane: int) -> Iterator[tuple[int, int]]:
    """Brokers with a slot in a lane, and which."""
    width = state.replicas.width
    ids = state.replicas["id"][lane * width : lane * width + int(state.lanes["slots"][lane])]
    return ((broker, slot) for slot, broker in enumerate(ids.tolist()))


def _rounds(state: State) -> Rounds:
    """The rounds that brokers have answered, as the kernel reads them."""
    known = {
        (state.clusters.number(cluster) << 32) | broker: rounds
        for cluster, brokers in state.watched.rounds.items()
        for broker, rounds in brokers.items()
    }
    keys = sorted(known)
    counts = [len(known[key]) for key in keys]
    table = np.array([one for key in keys for one in known[key]], dtype=np.int64).reshape(-1, 2)
    ts = np.ascontiguousarray(table[:, 0])
    begin = np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))])
    return Rounds(np.array(keys, dtype=np.int64), begin, ts, ts - table[:, 1])
