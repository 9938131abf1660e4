"""Sampled partitions of which only offsets change, as columns; any of them is a SampledPartition again when asked for.

A partition stands here from the first micro-batch on in which its rows were nothing but samples of the leadership
that was known, and leaves with the first row that says more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.json import Decoder, Encoder

from pipelines.replication.compiled.records import Arrays, Records
from pipelines.replication.compiled.types import I64, NULL
from pipelines.replication.samples.layout import HWS, MEMBERS, MOST_MEMBERS, STEADY, STEPS
from pipelines.replication.samples.partition import Replica, SampledPartition, SampledTerm, Step

TABLES = ("steady", "steady_members", "steady_steps", "steady_hws", "steady_terms")
"""The tables of a state that has such partitions."""
_OF, _MEMBER = STEADY.at, MEMBERS.at
_LEAST_ROOM = 4
_terms, _bytes = Decoder(list[SampledTerm]), Encoder()


class Place(NamedTuple):
    """Numbers of a partition, its lane, its cluster and its topic id, -1 where that is not known."""

    number: int
    lane: int
    cluster: int
    topic_id: int


class SteadyPartitions:
    """Records of STEADY with their MEMBERS and STEPS; `earlier` has the terms before the present one, by partition."""

    def __init__(self) -> None:
        self.records, self.members = Arrays(STEADY), Arrays(MEMBERS, MOST_MEMBERS)
        self.steps: Records = np.empty((0, len(STEPS.defaults)), dtype=np.int64)
        self.used = 0
        self.hws: Records = np.empty((0, len(HWS.defaults)), dtype=np.int64)
        self.earlier: dict[int, bytes] = {}
        self._record_of = np.full(0, -1, dtype=np.int64)
        self._hws_of = np.empty(0, dtype=np.int64)
        self._free: list[int] = []

    def __bool__(self) -> bool:
        return len(self._free) < self.records.count

    def numbers(self) -> I64:
        """The partitions that are here."""
        return np.flatnonzero(self._record_of >= 0)

    def records_of(self, numbers: I64) -> I64:
        """The record of each of these partitions, -1 where it has none."""
        known = numbers < len(self._record_of)
        return np.where(known, self._record_of[np.where(known, numbers, -1)], -1) if known.any() else numbers * 0 - 1

    def put(self, one: SampledPartition, place: Place, slots: Mapping[int, int]) -> bool:
        """Takes a partition over, with the slots of its lane by broker; False where it has what no record has room for.

        Its rows are about to be read: of each term only the last HW counts.
        """
        if not _fits(one, slots):
            return False
        record = self._free.pop() if self._free else self.records.count
        self.records.grow(record + 1)
        self.members.grow(record + 1)
        self._enter(place.number, record)
        term = one.terms[-1]
        hw_ts, hw = term.hws[-1] if term.hws else (NULL, NULL)
        self.reserve(len(one.steps))
        values = place._asdict() | {
            "leader": one.leader, "epoch": one.epoch, "began": one.began, "seen": one.seen, "source": one.source,
            "hw": one.hw, "leo": one.leo, "frozen": int(one.frozen), "min_isr": one.min_isr,
            "stalled_since": one.stalled_since, "term_leo": term.leo, "first_hw": hw, "first_hw_ts": hw_ts,
            "last_hw": hw, "last_hw_ts": hw_ts, "isr_count": len(one.isr or ()),
            "assigned_count": -1 if one.replicas is None else len(one.replicas), "members": len(one.sampled),
            "steps": len(one.steps), "steps_at": self.used, "steps_room": max(len(one.steps), _LEAST_ROOM),
        }  # fmt: skip
        self.records.data[record] = [NULL if (value := values[name]) is None else value for name in STEADY.names]
        self.steps[self.used : self.used + len(one.steps)] = np.array(one.steps, dtype=np.int64).reshape(-1, 3)
        self.used += max(len(one.steps), _LEAST_ROOM)
        self.members.data[record * MOST_MEMBERS : (record + 1) * MOST_MEMBERS] = _members(one, term, slots)
        for earlier in one.terms[:-1]:
            earlier.hws = earlier.hws[-1:]
        if one.terms[:-1]:
            self.earlier[place.number] = _bytes.encode(one.terms[:-1])
        return True

    def _enter(self, number: int, record: int) -> None:
        if number >= len(self._record_of):
            more = np.full(2 * number + 64 - len(self._record_of), -1, dtype=np.int64)
            self._record_of = np.concatenate([self._record_of, more])
        self._record_of[number] = record

    def reserve(self, count: int) -> None:
        """Makes room for so many steps more; what is no longer used is given back first."""
        if self.used + count + _LEAST_ROOM <= len(self.steps):
            return
        live = np.flatnonzero(self.records["number"] >= 0)
        rooms = self.records["steps_room"][live]
        begins = np.cumsum(rooms) - rooms
        kept = self.steps_of(live)
        needed = int(rooms.sum()) + count + _LEAST_ROOM
        self.steps = np.zeros((needed + needed // 2, len(STEPS.defaults)), dtype=np.int64)
        self.steps[_spread(begins, self.records["steps"][live])] = kept
        self.records["steps_at"][live] = begins
        self.used = int(rooms.sum())

    def steps_of(self, records: I64) -> Records:
        """The steps of these records, one after the other."""
        return self.steps[_spread(self.records["steps_at"][records], self.records["steps"][records])]

    def view(self, number: int, topic_ids: Sequence[tuple[str]]) -> SampledPartition | None:
        """A partition as it is now, to be read; None where it is not here."""
        (record,) = self.records_of(np.array([number])).tolist()
        if record < 0:
            return None
        of = dict(zip(STEADY.names, self.records.data[record].tolist(), strict=True))
        members = self.members.data[record * MOST_MEMBERS : (record + 1) * MOST_MEMBERS]
        known = {name: None if of[name] == NULL else of[name] for name in ("hw", "leo", "stalled_since", "term_leo")}
        sampled = members[: of["members"]].tolist()
        topic_id = None if of["topic_id"] < 0 else topic_ids[of["topic_id"]][0]
        term = SampledTerm(of["leader"], of["epoch"], topic_id, self._hws(number, of), known["term_leo"])
        term.fetchers = [row[_MEMBER.broker] for row in sampled if row[_MEMBER.fetched]]
        earlier = _terms.decode(self.earlier[number]) if number in self.earlier else []
        steps = self.steps[of["steps_at"] : of["steps_at"] + of["steps"]].tolist()
        assigned = of["assigned_count"]
        return SampledPartition(
            topic_id, of["leader"], of["epoch"], of["began"], of["seen"], of["source"],
            isr=tuple(members[: of["isr_count"], _MEMBER.isr].tolist()),
            replicas=None if assigned < 0 else tuple(members[:assigned, _MEMBER.assigned].tolist()),
            hw=known["hw"], leo=known["leo"], frozen=bool(of["frozen"]), min_isr=of["min_isr"],
            stalled_since=known["stalled_since"], steps=[Step(*step) for step in steps],
            sampled={row[_MEMBER.broker]: _replica(row) for row in sampled}, terms=[*earlier, term],
        )  # fmt: skip

    def _hws(self, number: int, of: Mapping[str, int]) -> list[tuple[int, int]]:
        """The HWs of the present term: the largest one before its last rows, and those that rose with these."""
        before = [] if of["first_hw"] == NULL else [(of["first_hw_ts"], of["first_hw"])]
        begin, end = np.searchsorted(self._hws_of, [number, number + 1])
        return before + [(ts, hw) for _, ts, hw in self.hws[begin:end].tolist()]

    def remove(self, numbers: I64) -> None:
        """Forgets these partitions, which are here."""
        records = self._record_of[numbers]
        self.records.data[records] = STEADY.defaults
        self._free += records.tolist()
        self._record_of[numbers] = -1
        for number in numbers.tolist():
            self.earlier.pop(number, None)
        self.add_hws(numbers, self.hws[:0])

    def add_hws(self, read: I64, rose: Records) -> None:
        """HWs that rose with the rows of the partitions `read`, in place of those before."""
        hws = np.concatenate([self.hws[~np.isin(self._hws_of, read)], rose])
        self.hws = hws[np.argsort(hws[:, HWS.at.number], kind="stable")]
        self._hws_of = np.ascontiguousarray(self.hws[:, HWS.at.number])

    def tables(self) -> dict[str, pa.Table]:
        """Everything, as columns."""
        live = np.flatnonzero(self.records["number"] >= 0)
        records, members = Arrays(STEADY, count=len(live)), Arrays(MEMBERS, MOST_MEMBERS, len(live))
        records.data[: len(live)] = self.records.data[live]
        of_record = self.members.data[: self.members.count * MOST_MEMBERS].reshape(self.members.count, MOST_MEMBERS, -1)
        members.data[: len(live) * MOST_MEMBERS] = of_record[live].reshape(-1, of_record.shape[2])
        earlier = [(number, self.earlier[number]) for number in sorted(self.earlier)]
        terms = {"number": [number for number, _ in earlier], "json": [json for _, json in earlier]}
        schema = pa.schema([("number", pa.int64()), ("json", pa.binary())])
        made = (
            records.table(), members.table(), _table(STEPS.names, self.steps_of(live)),
            _table(HWS.names, self.hws), pa.table(terms, schema),
        )  # fmt: skip
        return dict(zip(TABLES, made, strict=True))

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> SteadyPartitions:
        """What `tables` returned. Raises ValueError naming a column that is not known here, or that is missing."""
        made = cls()
        records, members, steps, hws, terms = (tables[name] for name in TABLES)
        made.records = Arrays.from_table(STEADY, records)
        made.members = Arrays.from_table(MEMBERS, members, MOST_MEMBERS)
        for record, number in enumerate(made.records["number"].tolist()):
            made._enter(number, record)
        made.steps = _rows(steps, STEPS.names)
        made.add_hws(made.numbers()[:0], _rows(hws, HWS.names))
        made.used, count = len(made.steps), made.records["steps"]
        made.records["steps_at"][:], made.records["steps_room"][:] = np.cumsum(count) - count, count
        made.earlier = dict(zip(terms["number"].to_pylist(), terms["json"].to_pylist(), strict=True))
        return made


def _fits(one: SampledPartition, slots: Mapping[int, int]) -> bool:
    """Whether a record has room for all that is known of a partition."""
    if one.isr is None or one.min_isr is None or one.leader < 0 or one.gone or not one.terms:
        return False
    if one.unchecked or one.isrs:
        return False
    term, assigned = one.terms[-1], one.replicas or ()
    known = {*one.isr, *assigned, *one.sampled}
    return (
        (term.broker, term.epoch, term.topic_id) == (one.leader, one.epoch, one.topic_id)
        and set(term.fetchers) <= set(one.sampled)
        and all(replica.answers or one.replicas is None or b in assigned for b, replica in one.sampled.items())
        and known <= set(slots)
        and max(len(one.isr), len(assigned), len(one.sampled)) <= MOST_MEMBERS
    )


def _members(one: SampledPartition, term: SampledTerm, slots: Mapping[int, int]) -> Records:
    rows = np.tile(np.array(MEMBERS.defaults, dtype=np.int64), (MOST_MEMBERS, 1))
    rows[: len(one.isr or ()), _MEMBER.isr] = one.isr or ()
    rows[: len(one.replicas or ()), _MEMBER.assigned] = one.replicas or ()
    for k, (broker, replica) in enumerate(sorted(one.sampled.items())):
        follows = broker != one.leader and (one.replicas is None or broker in one.replicas)
        rows[k, _MEMBER.broker :] = (
            broker, slots[broker], follows, broker in (one.isr or ()), broker in term.fetchers, replica.first,
            replica.leo, replica.since, replica.log_epoch, replica.answers, replica.out_of_sync,
        )  # fmt: skip
    return rows


def _replica(row: Sequence[int]) -> Replica:
    return Replica(
        row[_MEMBER.first], row[_MEMBER.leo], row[_MEMBER.since], row[_MEMBER.log_epoch], bool(row[_MEMBER.answers]),
        bool(row[_MEMBER.out_of_sync]),
    )  # fmt: skip


def _spread(begins: I64, counts: I64) -> I64:
    """begins[k], begins[k] + 1, ... counts[k] of them, for each k."""
    total = int(counts.sum())
    found: I64 = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(total)
    return found


def _table(names: Sequence[str], rows: Records) -> pa.Table:
    return pa.table({name: np.ascontiguousarray(rows[:, k]) for k, name in enumerate(names)})


def _rows(table: pa.Table, names: Sequence[str]) -> Records:
    return np.stack([table[name].to_numpy().astype(np.int64) for name in names], axis=1)
