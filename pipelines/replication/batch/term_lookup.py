"""A partition history's view of the rest of the state, as of the history's own time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from pipelines.replication.batch.ended_terms import CUT_OFF, REPORTS, EarlierTerms, cut_off_report, reports
from pipelines.replication.batch.hw_timeline import HwTimeline
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.compiled.types import NEVER, NULL32
from pipelines.replication.metadata.brokers_and_configs import BrokerState
from pipelines.replication.partition.events import TermSummary
from pipelines.replication.partition.one_term import Term
from pipelines.replication.rules import Rules
from pipelines.replication.samples.partitions import SampledEpoch
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.source import Source
from pipelines.replication.term.layout import IDLE
from schemas.levels import POLLED


@dataclass
class StateTermLookup:
    """The TermLookup of one partition after the other, see `look_at`."""

    state: State
    rules: Rules
    before: dict[str, Any]
    """Lane columns as they were before this micro-batch."""
    results: TermResults
    race_window_us: int = 0
    grace_us: int = 0
    predicted: dict[int, bool] = field(default_factory=dict)
    """By row that shrinks an ISR as samples show it whether the lag rule had said so."""
    partition: int = -1
    _topic: int = -1
    _cluster: int = -1
    _lanes: dict[int, int] = field(default_factory=dict)
    """Of this partition, by broker."""
    _over: set[tuple[int, int | None]] = field(default_factory=set)
    """(broker, start) of terms of this partition of which no HW is still to come: they had ended when they were judged,
    or their leaders have none in this micro-batch that is newer than that."""
    _terms: dict[tuple[int, int, int], TermSummary] = field(default_factory=dict)
    """What was answered about terms of this partition: a history asks the same again and again."""
    _tellers_of: dict[int, list[Source]] = field(default_factory=dict)

    def look_at(self, partition: int) -> None:
        """Answers for this partition from here on."""
        self.partition = partition
        self._topic = int(self.state.partition_keys.keys[partition]) >> 32
        self._cluster = self.state.clusters.number(self.state.topics.all[self._topic][0])
        self._lanes.clear()
        self._over.clear()
        self._terms.clear()

    def _lane(self, broker_id: int) -> int:
        lane = self._lanes.get(broker_id)
        if lane is None:
            lane = self._lanes[broker_id] = self.state.lane_of(self.partition, broker_id)
        return lane

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSummary:
        asked = broker_id, start_ts, as_of
        if (known := self._terms.get(asked)) is None:
            known = self._terms[asked] = self._term(*asked)
        return known

    def _term(self, broker_id: int, start_ts: int, as_of: int) -> TermSummary:
        lane = self._lane(broker_id)
        summary = TermSummary() if lane < 0 else self._summary(lane, start_ts, as_of).as_of(as_of)
        if 1 < summary.min_isr_told <= self.most_min_isr(start_ts, as_of, None):
            summary = replace(summary, min_isr_told=0)
        gaps = self.state.gaps(self._cluster, broker_id)
        if not gaps:
            return summary
        misreads = self.state.misreads(self._cluster, broker_id)
        has_gap, misread = (any(start_ts <= ts <= as_of for ts in times) for times in (gaps, misreads))
        return replace(summary, has_gap=has_gap, misread=misread, level=0 if misread else summary.level)

    def _summary(self, lane: int, start_ts: int, as_of: int) -> TermSummary:
        """A term that has not ended by then is known up to a race window before: what was reported of it has been read,
        in whichever micro-batch. How far its leader's log went is known once it has ended."""
        end, summary = self.state.ended_terms.get((lane, start_ts), (NEVER, None))
        if summary is not None and end <= as_of:
            return summary
        lanes = self.state.lanes
        if summary is None:
            if lanes["state"][lane] == IDLE or lanes["term_start"][lane] != start_ts:
                return TermSummary()
            summary = self._of_running_term(lane, as_of)
        summary = self._earlier.as_of(lane, start_ts, as_of, summary)
        settled = max(start_ts, as_of - self.race_window_us)
        hmax, reported = (of(lane, start_ts, settled) for of in (self.timeline.as_of, self.timeline.reported))
        return replace(summary, hmax=hmax, reported=reported, leader_leo=None)

    def _of_running_term(self, lane: int, as_of: int) -> TermSummary:
        lanes, replicas, width = self.state.lanes, self.state.replicas, self.state.replicas.width
        slots = slice(lane * width, (lane + 1) * width)
        ids, leos, since = (replicas[name][slots] for name in ("id", "leo", "first_fetch"))
        fetched = (leos >= 0) & (ids != NULL32) & (ids != lanes["broker"][lane]) & (since <= as_of)
        by_leader = int(lanes["reported_min_isr"][lane])
        told = self.min_isr_told(None if by_leader == NULL32 else by_leader, as_of) and not lanes["few_assigned"][lane]
        upto = 1 if lanes["assigned_told"][lane] else 1 + int(lanes["assigned_count"][lane])
        return TermSummary(
            fetchers=frozenset(ids[fetched].tolist()),
            level=max(int(lanes["level"][lane]), int(lanes["level_before"][lane])),
            **cut_off_report({name: lanes[name][lane] for name in CUT_OFF}),
            **reports({name: lanes[name][lane] for name in REPORTS}) | {"min_isr_told": upto if told else 0},
        )

    def sampled(self, broker_id: int, epoch: int, topic_id: str | None, as_of: int) -> TermSummary | None:
        sampled = self._sampled(broker_id, epoch, topic_id, as_of)
        return None if sampled is None else TermSummary(sampled.hw, sampled.leo, sampled.fetchers, level=POLLED)

    def sampled_hw(self, broker_id: int, epoch: int, topic_id: str | None, as_of: int) -> tuple[int, int] | None:
        sampled = self._sampled(broker_id, epoch, topic_id, as_of)
        return None if sampled is None or sampled.hw is None else (sampled.hw, sampled.hw_ts)

    def _sampled(self, broker_id: int, epoch: int, topic_id: str | None, as_of: int) -> SampledEpoch | None:
        of_topic = None if topic_id is None else self.state.topic_ids.find(topic_id)
        if of_topic == -1 or not self.state.sampled:
            return None
        return self.state.sampled.epoch(self.partition, broker_id, epoch, of_topic, as_of)

    def answered_always(self, broker_id: int, after: int, until: int) -> bool:
        cluster = str(self.state.clusters.all[self._cluster][0])
        return self.state.watched.answered_always(cluster, broker_id, after, until)

    def may_rise(self, term: Term) -> bool:
        """Whether its leader has HWs newer than what a term was judged by, which may be those of a later term."""
        this = term.broker_id, term.start_ts
        if this in self._over:
            return False
        if self.timeline.has_new(self._lane(term.broker_id), term.summary_at):
            return True
        self._over.add(this)
        return False

    def rise(self, term: Term, upto: int) -> tuple[int, int] | None:
        """(HW, ts) of the first HW, before `upto`, above that of a term's final summary; None where there is none.

        One of before, or the report of one, may have come too late for the summary.
        """
        lane, start = self._lane(term.broker_id), term.start_ts or 0
        if lane < 0 or term.summary is None:
            return None
        ended = self.state.ended_terms.get((lane, start))
        if ended is None and self.running_lane(term) < 0:  # its leader tells of others alone
            return None
        end = upto if ended is None else ended[0]
        next_begins = (lane, end) in self.state.ended_terms or self.state.lanes["term_start"][lane] == end
        holes = self.state.gaps(self._cluster, term.broker_id)  # what comes behind one may be of a later term
        until = min([upto, end if next_begins else end + 1, *(ts for ts in holes if ts > term.summary_at)])
        then = min(term.summary_at, until - 1)
        above, reported = _offsets(term.summary)
        by_now = _offsets(self.term(term.broker_id, start, then + self.race_window_us))
        if by_now[0] > above or by_now[1] > reported:
            return max(by_now[0], above), then
        if end <= term.summary_at:
            if ended is not None and end <= upto:
                self._over.add((term.broker_id, term.start_ts))
            return None
        return self.timeline.rise(lane, start, above, term.summary_at, until)

    def has_hole(self, term: Term, upto: int) -> bool:
        """Whether rows of a term's leader are missing since its summary: later ones may be of a later term."""
        return any(term.summary_at < ts <= upto for ts in self.state.gaps(self._cluster, term.broker_id))

    def ended_by(self, term: Term, upto: int) -> bool:
        """Whether a term that its leader has left was over by `upto`."""
        lane = self._lane(term.broker_id)
        end, _ = self.state.ended_terms.get((lane, term.start_ts or 0), (upto, None))
        return end <= upto

    def running_lane(self, term: Term) -> int:
        """The lane of a leader that is still in this term, -1 where there is none."""
        lane = self._lane(term.broker_id)
        running = lane >= 0 and self.state.lanes["state"][lane] != IDLE
        return lane if running and self.state.lanes["term_start"][lane] == term.start_ts else -1

    @cached_property
    def _earlier(self) -> EarlierTerms:
        return EarlierTerms(self.state)

    @cached_property
    def timeline(self) -> HwTimeline:
        return HwTimeline(self.state, self.results, self.before)

    def broker_states(self, broker_id: int, as_of: int) -> list[BrokerState]:
        return self.state.timeline.broker_states(self._cluster, broker_id, as_of)

    def started_between(self, broker_id: int, after: int, until: int) -> bool:
        return self.state.timeline.started_between(self._cluster, broker_id, after, until)

    def told_through(self, sources: Collection[tuple[str, int]], since: int, until: int) -> bool:
        name, known = str(self.state.clusters.all[self._cluster][0]), self.state.sources.known
        found = (known.get((name, *source)) for source in sources)
        return any(source.tells(since, until, until) for source in found if source is not None)

    def lives_told(self, since: int, until: int, as_of: int) -> bool:
        return any(
            source.tells(since, until, as_of)
            and not self.state.timeline.is_cut_off(self._cluster, (source.source_id, source.source_epoch), until)
            for source in self._tellers(self._cluster)
        )

    def _tellers(self, cluster: int) -> list[Source]:
        """The sources of a cluster that report the lives of brokers."""
        if cluster not in self._tellers_of:
            name, known = str(self.state.clusters.all[cluster][0]), self.state.sources.known
            keys = [(name, *source) for source in self.state.timeline.tellers(cluster)]
            self._tellers_of[cluster] = [known[key] for key in keys if key in known]
        return self._tellers_of[cluster]

    def is_deposed(self, row: tuple[str, int, int] | None, ts: int, as_of: int) -> bool:
        return self.state.timeline.is_deposed(self._cluster, row, ts, as_of)

    def min_isr(self, as_of: int, by_leader: int | None = None) -> int:
        by_rule = self._rules[self._cluster].min_isr or 1
        return self.state.timeline.min_isr(self._cluster, self._topic, as_of, by_leader, by_rule)

    def most_min_isr(self, since: int, until: int, by_leader: int | None) -> int:
        times = self.state.timeline.setting_times(self._cluster, self._topic, since, until)
        return max(self.min_isr(ts, by_leader) for ts in (since, *times))

    def min_isr_told(self, by_leader: int | None, as_of: int) -> bool:
        told = by_leader is not None or self._rules[self._cluster].min_isr is not None
        return told or self.state.timeline.tells_min_isr(self._cluster, self._topic, as_of)

    @cached_property
    def _rules(self) -> list[Rules]:
        """The rules of each cluster."""
        return [self.rules.of(str(name))[0] for (name,) in self.state.clusters.all]


def _offsets(summary: TermSummary) -> tuple[int, int]:
    """(HW, largest HW that its leader reported) of a term, -1 if not known."""
    hmax, reported = (-1 if offset is None else offset for offset in (summary.hmax, summary.reported))
    return hmax, reported
