"""From the brokers' answers, round by round, to rows for whatever changed.

Pure: it asks nobody, writes nothing, and has no clock. Rows come out by broker, each broker's in the order in which
they are to be numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from generators.cluster.metadata.lists import I64, Mask
from generators.cluster.metadata.partitions import NOT_TOLD, Partitions
from generators.cluster.metadata.replicas import Replicas
from generators.cluster.observing import rows
from generators.cluster.observing.answers import NO_ANSWER, UNKNOWN, Answer, Instant, Terms
from generators.cluster.observing.errors import NOT_LEADER, error_name
from generators.cluster.observing.rows import Source
from generators.cluster.observing.slots import Slots
from generators.cluster.observing.source_state import SourceState
from schemas import event_types

FIRST_ROUND = f"{event_types.FIRST_ROUND}: when what it shows began is not known"
GONE = f"{event_types.TOPIC_GONE}: deleted, or DESCRIBE on it was withdrawn"

Rows = dict[int, list[pa.Table]]
"""Tables by broker."""


@dataclass
class Observer:
    """One watcher's view of one cluster, as its rows have told it so far."""

    cluster: str
    watcher: str
    interval_s: float = 5.0
    partitions: Partitions | None = None
    replicas: Replicas = field(default_factory=lambda: Replicas(np.empty(0, np.int32), np.empty(0, np.int64)))
    _slots: Slots = field(default_factory=lambda: Slots.unknown(0))
    _pending: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Whether a term's `leader` row is still to be written, by partition."""
    _seen: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """When the metadata first had that term, by partition."""
    _uncertain: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """How much earlier that term may have begun, by partition, in milliseconds; NaN if not known."""
    _hw_epoch: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """The last leader epoch with a reported HW and start, by partition; UNKNOWN if there is none."""
    _brokers: dict[int, SourceState] = field(default_factory=dict)
    _quorum: str = ""
    """The last detail that was told of the controllers."""
    _learnt_us: int | None = None
    """When the metadata was last seen; None if it is to be written whole."""

    @property
    def brokers(self) -> set[int]:
        """The brokers with a row that says whether they answer."""
        return {broker for broker, known in self._brokers.items() if known.told}

    def source(self, broker: int) -> Source:
        """The source of a broker's rows."""
        return self._broker(broker).source

    def terms_of(self, broker: int) -> Terms:
        """The partitions that a broker leads in a term whose start is not known yet."""
        if self.partitions is None:
            return Terms(np.empty(0, np.int64), np.empty(0, np.int64))
        at = np.flatnonzero(self._pending & (self.partitions.leader == broker))
        return Terms(at, self._hw_epoch[at])

    def learn(self, partitions: Partitions, at: Instant, broker: int) -> Rows:
        """The rows for a broker's metadata: `isr` for each change, `lost` for replicas that are gone."""
        before, out = self.partitions, self._after_gap(broker, at.ts_us)
        if before is None or not partitions.same_places(before):
            for one, table in self._move(partitions, at.ts_us).items():
                out.setdefault(one, []).append(table)
        since_ms = float("nan") if self._learnt_us is None else (at.ts_us - self._learnt_us) / 1000 + at.error_ms
        changed = new_terms = np.ones(len(partitions), np.bool_)
        if partitions is before and self._learnt_us is not None:
            self._learnt_us = at.ts_us
            return out
        if before is not None and self._learnt_us is not None:
            changed, new_terms = partitions.changed_since(before), partitions.new_terms_since(before)
        self.partitions, self._learnt_us = partitions, at.ts_us
        self._pending[new_terms] = partitions.leader[new_terms] >= 0
        self._seen[new_terms], self._uncertain[new_terms] = at.ts_us, since_ms
        if not changed.any():
            return out
        at_rows = np.flatnonzero(changed)
        self._mark_stale(at_rows)
        out.setdefault(broker, []).append(self._isr_rows(self.source(broker), at_rows, at.ts_us, since_ms))
        return out

    def take(self, answer: Answer, *, listed: bool = True) -> list[pa.Table]:
        """The rows for a broker's answer: terms, samples, `lost` for replicas without an answer, and `progress`.

        The answer as leader of a broker that most others do not list confirms nothing: another broker may lead, while
        this one is cut off from the controllers.
        """
        first_us = int(answer.ts_us.min()) if len(answer.ts_us) else answer.at.ts_us
        out = self._after_gap(answer.broker, first_us).get(answer.broker, [])
        answer, slots = self._where(answer)
        hw = np.where((answer.hw_error == 0) & (answer.hw <= answer.leo), answer.hw, UNKNOWN)
        leads = answer.leads & ~np.isin(answer.hw_error, NOT_LEADER) & listed
        answered = (answer.error == 0) & (answer.leo >= 0)
        out += self._term_rows(answer, slots, leads & answered)
        out += self._sample_rows(answer, slots, answered, leads, hw)
        told = leads & answered & (hw != UNKNOWN) & ~self._pending[self.replicas.partition[slots]]
        of, asked = self.replicas.partition[slots[told]], answer.replicas.partition[answer.slots[told]]
        self._hw_epoch[of] = np.maximum(self._hw_epoch[of], answer.partitions.leader_epoch[asked])
        out += self._lost_rows(answer, slots, ~answered)
        if answer.complete:
            out.append(self._progress_row(answer))
        return out

    def state(self, broker: int, detail: str, at: Instant) -> list[pa.Table]:
        """The row that says whether a broker answers: at each change, and in each round without an answer."""
        known = self._broker(broker)
        if detail == known.told and not detail.startswith(event_types.NO_ANSWER):
            return []
        known.told = detail
        row = {"replica_id": broker, "detail": detail, "ts_error_ms": at.error_ms}
        return [known.source.broker_wide("broker_state", at.ts_us, **row)]

    def quorum(self, broker: int, detail: str, at: Instant) -> list[pa.Table]:
        """The row for the state of the controllers: at each change, and whenever the broker reaches none."""
        for word in (event_types.NO_CONTROLLER, f"{event_types.NOT_REACHED},"):
            if detail.startswith(word) and self._quorum.startswith(word):
                detail = self._quorum  # brokers are asked in turn: which ones said so is no change
        if detail == self._quorum and not detail.startswith(event_types.NO_CONTROLLER):
            return []
        self._quorum, row = detail, {"replica_id": broker, "detail": detail, "ts_error_ms": at.error_ms}
        return [self.source(broker).broker_wide("broker_state", at.ts_us, **row)]

    def missed(self, broker: int, since_us: int, why: str) -> None:
        """Count a round that a broker did not answer; its row comes once the broker answers again."""
        self._broker(broker).miss(since_us, event_types.UNANSWERED, why)

    def note_pause(self, broker: int, since_us: int) -> None:
        """Note that the watcher stood still since `since_us`, so that this broker was not asked or not heard."""
        self._broker(broker).miss(since_us, event_types.NOT_ASKED, "the watcher stood still")

    def note_pause_of_all(self, since_us: int) -> None:
        """Note that the watcher stood still since `since_us`, between two rounds."""
        for broker in self._brokers:
            self.note_pause(broker, since_us)

    def dropped(self, since_us: int, why: str) -> None:
        """Note a round whose rows could not be kept: the next rows say so and repeat everything."""
        for known in self._brokers.values():
            known.miss(since_us, event_types.DROPPED, why)
            known.told = ""
        self._learnt_us, self._quorum = None, ""
        self._hw_epoch[:] = UNKNOWN

    def _broker(self, broker: int) -> SourceState:
        if broker not in self._brokers:
            self._brokers[broker] = SourceState(Source(self.cluster, self.watcher, broker))
        return self._brokers[broker]

    def _after_gap(self, broker: int, ts_us: int) -> Rows:
        """The `lost` row of a whole source, before its first rows after missing rounds."""
        known = self._broker(broker)
        if not known.missed:
            return {}
        lost = known.source.broker_wide("lost", ts_us, detail=known.gap(ts_us))
        mine = self.replicas.of_broker(broker)
        known.missed.clear()
        self._slots.stale[mine], self._slots.lost[mine] = True, False
        return {broker: [lost]}

    def _move(self, partitions: Partitions, ts_us: int) -> dict[int, pa.Table]:
        """Take over a new set of partitions or replicas; returns the rows for those that are gone."""
        before, old = self.partitions, self.replicas
        self.replicas = Replicas.of(partitions)
        was, count = self._slots, len(partitions)
        self._slots = Slots.unknown(len(self.replicas))
        pending, seen, uncertain = np.zeros(count, np.bool_), np.zeros(count, np.int64), np.full(count, np.nan)
        hw_epoch = np.full(count, UNKNOWN, np.int64)
        gone: dict[int, pa.Table] = {}
        if before is not None:
            now, then = before.rows_in(partitions), partitions.rows_in(before)
            kept = np.flatnonzero(then >= 0)
            pending[kept], seen[kept] = self._pending[then[kept]], self._seen[then[kept]]
            uncertain[kept], hw_epoch[kept] = self._uncertain[then[kept]], self._hw_epoch[then[kept]]
            self._slots.copy(was, self.replicas.slots_in(old, then))
            left = (old.slots_in(self.replicas, now) < 0) & ~was.lost & (was.leo != UNKNOWN)
            gone = self._gone(before, old, left, now, ts_us)
        self._pending, self._seen, self._uncertain, self._hw_epoch = pending, seen, uncertain, hw_epoch
        return gone

    def _gone(self, before: Partitions, old: Replicas, left: Mask, now: I64, ts_us: int) -> dict[int, pa.Table]:
        out = {}
        for broker in np.unique(old.broker[left]).tolist():
            at = old.partition[left & (old.broker == broker)]
            moved = f"no longer on broker {broker}"
            detail = pa.array(np.where(now[at] < 0, GONE, moved).tolist(), pa.string())
            columns = {**rows.places(before, at), "ts": rows.times(np.full(len(at), ts_us)), "detail": detail}
            out[broker] = self.source(broker).table("lost", len(at), {**columns, "replica_id": broker})
        return out

    def _mark_stale(self, at: I64) -> None:
        """Have the leader's sample, which has the ISR, written again for partitions with new metadata."""
        assert self.partitions is not None
        leader = self.partitions.leader[at]
        for broker in np.unique(leader[leader >= 0]).tolist():
            slots = self.replicas.slots_of(broker, at[leader == broker])
            self._slots.stale[slots[slots >= 0]] = True

    def _isr_rows(self, source: Source, at: I64, ts_us: int, since_ms: float) -> pa.Table:
        seen = self.partitions
        assert seen is not None
        columns = {
            **rows.places(seen, at),
            "ts": rows.times(np.full(len(at), ts_us)),
            "ts_error_ms": rows.durations(np.full(len(at), since_ms)),
            "leader_id": pa.array(seen.leader[at], mask=seen.leader[at] == NOT_TOLD),
            "leader_epoch": rows.known(seen.leader_epoch[at]),
            "isr": rows.lists(seen.isr, at),
            "replicas": rows.lists(seen.assignment, at),
            "detail": "metadata",
        }
        return source.table("isr", len(at), columns)

    def _where(self, answer: Answer) -> tuple[Answer, I64]:
        """The answer without replicas that went away meanwhile, and its slots in the present metadata."""
        if answer.replicas is self.replicas:
            return answer, answer.slots
        assert self.partitions is not None
        slots = answer.replicas.slots_in(self.replicas, answer.partitions.rows_in(self.partitions))[answer.slots]
        return answer.only(slots >= 0), slots[slots >= 0]

    def _term_rows(self, answer: Answer, slots: I64, leads: Mask) -> list[pa.Table]:
        """The `leader` rows of terms with a known start.

        They have no HW: nobody tells the HW at the start of a term. A sampled HW may be of this term, but the HW of a
        `leader` row counts for the term before, so it would look like a loss.
        """
        if not self._pending.any():
            return []
        mine, seen = self.replicas.partition[slots], answer.partitions
        row = answer.replicas.partition[answer.slots]
        assert self.partitions is not None
        current = seen.leader_epoch[row] == self.partitions.leader_epoch[mine]
        at = np.flatnonzero(self._pending[mine] & current & leads & (answer.term_start >= 0))
        if not len(at):
            return []
        self._pending[mine[at]] = False
        since_ms = (answer.ts_us[at] - self._seen[mine[at]]) / 1000 + self._uncertain[mine[at]]
        columns = {
            **rows.places(seen, row[at]),
            **rows.as_leader(answer, row[at], np.ones(len(at), np.bool_)),
            "ts": rows.times(answer.ts_us[at]),
            "ts_error_ms": rows.durations(since_ms + answer.ts_error_ms[at]),
            "replica_id": answer.broker,
            "leo": pa.array(answer.term_start[at]),
            "hw": UNKNOWN,
            "detail": rows.leader_epochs(answer, row[at]),
        }
        return [self.source(answer.broker).table("leader", len(at), columns)]

    def _sample_rows(self, answer: Answer, slots: I64, answered: Mask, leads: Mask, hw: I64) -> list[pa.Table]:
        hw = np.where(leads, hw, UNKNOWN)
        at = np.flatnonzero(answered & self._slots.differ(slots, answer, leads, hw))
        self._slots.put(slots[at], at, answer, leads, hw)
        if not len(at):
            return []
        row = answer.replicas.partition[answer.slots[at]]
        columns = {
            **rows.places(answer.partitions, row),
            **rows.as_leader(answer, row, leads[at]),
            "ts": rows.times(answer.ts_us[at]),
            "ts_error_ms": rows.durations(answer.ts_error_ms[at]),
            "replica_id": answer.broker,
            "leo": pa.array(answer.leo[at]),
            "hw": rows.known(hw[at]),
            "detail": rows.log_epochs(answer.log_epoch[at]),
        }
        return [self.source(answer.broker).table("sample", len(at), columns)]

    def _lost_rows(self, answer: Answer, slots: I64, unanswered: Mask) -> list[pa.Table]:
        at = np.flatnonzero(unanswered & ~self._slots.lost[slots])
        if not len(at):
            return []
        self._slots.lost[slots[at]] = True
        codes = np.where(answer.error[at] == 0, NO_ANSWER, answer.error[at])
        names = {code: f"not answered: {error_name(code)}" for code in np.unique(codes).tolist()}
        columns = {
            **rows.places(answer.partitions, answer.replicas.partition[answer.slots[at]]),
            "ts": rows.times(answer.ts_us[at]),
            "ts_error_ms": rows.durations(answer.ts_error_ms[at]),
            "replica_id": answer.broker,
            "detail": pa.array([names[code] for code in codes.tolist()], pa.string()),
        }
        return [self.source(answer.broker).table("lost", len(at), columns)]

    def _progress_row(self, answer: Answer) -> pa.Table:
        known = self._broker(answer.broker)
        holds = f"{event_types.HOLDS}{known.holds_s(answer.at.ts_us, self.interval_s)} s"
        detail, known.began = holds if known.began else f"{FIRST_ROUND}; {holds}", True
        return known.source.broker_wide("progress", answer.at.ts_us, ts_error_ms=answer.at.error_ms, detail=detail)
