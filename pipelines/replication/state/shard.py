"""A state that is filled with partitions of other states: whatever is numbered gets new numbers on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Arrays
from pipelines.replication.compiled.types import I64, LOW
from pipelines.replication.metadata.assignments import UNCHANGED, Assignments
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE
from pipelines.replication.partition.encoded import ENCODED, EncodedHistories
from pipelines.replication.partition.first_terms import STARTS, FirstTerms
from pipelines.replication.samples.layout import SAMPLED, TERMS
from pipelines.replication.state.state import Names, State

HELD = ("held_hws", "held_changes")
LANE_ROWS = ("pending_rows", "recent_hws", "earlier_terms", *HELD)
Chosen = npt.NDArray[np.bool_]


class Shard:
    """Takes partitions of states until it is finished. Broker-wide facts of each state are added, too, once each."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._unchanged, self._histories = [UNCHANGED.empty_table()], [ENCODED.empty_table()]
        self._starts = [STARTS.empty_table()]

    def take(self, old: State, partitions: Chosen, waiting: Chosen, without: str | None = None) -> None:
        """Add these partitions of a state, and these of its rows that wait; nothing has the cluster `without`."""
        numbers = _Numbers(old, self.state, partitions, without)
        _add_broker_wide(old, self.state, numbers)
        _add_records(old, self.state, numbers)
        _add_by_partition(old, self.state, numbers)
        self.state.waiting = pa.concat_tables([self.state.waiting, old.waiting.filter(pa.array(waiting))])
        starts = numbers.of_table(old.pending_starts, "number")
        self.state.pending_starts = pa.concat_tables([self.state.pending_starts, starts])
        self._starts.append(numbers.of_table(old.first_terms.table(), "number"))
        self._unchanged.append(numbers.of_table(old.assignments.table(), "partition"))
        touched = {p: history.to_bytes() for p, history in old.histories.items()}
        self._histories.append(numbers.of_table(old.encoded_histories.table(touched), "partition"))
        for partition, changes in old.assignments.changed.items():
            if (number := int(numbers.partitions[partition])) >= 0:
                self.state.assignments.changed[number] = changes

    def finish(self) -> State:
        """The state with all that was taken."""
        state, changed = self.state, self.state.assignments.changed
        state.number_series()
        state.assignments = Assignments(pa.concat_tables(self._unchanged), changed)
        state.encoded_histories = EncodedHistories(pa.concat_tables(self._histories))
        state.first_terms = FirstTerms(pa.concat_tables(self._starts))
        return state


class _Numbers:
    """By number in an old state the number in the new one, -1 for what does not go there."""

    def __init__(self, old: State, new: State, chosen: Chosen, without: str | None) -> None:
        self.clusters = _all(old.clusters, new.clusters, without)
        self.sources = _all(old.source_names, new.source_names, without)
        keys = old.partition_keys.keys
        self.topics = _named(old.topics, new.topics, np.unique(keys[chosen] >> 32))
        self._topic_ids = old.topic_ids, new.topic_ids
        self.partitions = _from(new.partition_keys.count, chosen)
        self.lanes = _from(new.lane_keys.count, self.partitions[old.lanes["partition"]] >= 0)
        self.series = _from(new.series.count, self.partitions[old.series["partition"]] >= 0)
        for index, wanted in self._keys(old, new):
            index.number(wanted)

    def _keys(self, old: State, new: State) -> list[tuple[Keys, I64]]:
        """The keys that the new state numbers from here on, in the order of their numbers."""
        partitions = old.partition_keys.keys[self.partitions >= 0]
        return [
            (new.partition_keys, self.topics[partitions >> 32] << 32 | partitions & LOW),
            (new.lane_keys, self.high(old.lane_keys.keys[self.lanes >= 0])),
        ]

    def high(self, keys: I64) -> I64:
        """Keys whose upper half is the number of a partition that goes there."""
        moved: I64 = self.partitions[keys >> 32] << 32 | keys & LOW
        return moved

    def topic_ids(self, numbers: I64) -> I64:
        """Numbers of topic ids, which get their names as they come."""
        old, new = self._topic_ids
        return _of(numbers, _named(old, new, np.unique(numbers[numbers >= 0])))

    def of_table(self, table: pa.Table, column: str) -> pa.Table:
        """The rows of a table whose partitions go there."""
        number = self.partitions[table[column].to_numpy()]
        at = table.schema.get_field_index(column)
        field = table.schema.field(at)
        renumbered = table.set_column(at, field, pa.array(number).cast(field.type))
        return renumbered.filter(pa.array(number >= 0))


def _from(first: int, chosen: Chosen) -> I64:
    """Numbers from `first` on for what is chosen, -1 for the rest."""
    return np.where(chosen, first + np.cumsum(chosen) - 1, -1)


def _all(old: Names, new: Names, without: str | None) -> I64:
    return _named(old, new, np.array([k for k, name in enumerate(old.all) if name[0] != without], dtype=np.int64))


def _named(old: Names, new: Names, used: I64) -> I64:
    """The new number of each name that is used."""
    numbers = np.full(len(old.all), -1, dtype=np.int64)
    numbers[used] = [new.number(*old.all[k]) for k in used.tolist()]
    return numbers


def _of(values: I64, numbers: I64) -> I64:
    """`numbers[values]`, and -1 where a value is none."""
    found = np.full(len(values), -1, dtype=np.int64)
    found[values >= 0] = numbers[values[values >= 0]]
    return found


def _add_records(old: State, new: State, of: _Numbers) -> None:
    """The tables of records; their order stays, so that what is sorted stays sorted."""
    lane_of = {name: getattr(old, name)["lane"] for name in LANE_ROWS}
    lanes = {name: {"lane": of.lanes[lane]} for name, lane in lane_of.items()}
    for name in ("pending_rows", *HELD):
        lanes[name]["topic_id"] = of.topic_ids(getattr(old, name)["topic_id"])
    _append(old.partitions, new.partitions, of.partitions >= 0, {"topic_id": of.topic_ids(old.partitions["topic_id"])})
    _append(old.series, new.series, of.series >= 0, {
        "partition": of.partitions[old.series["partition"]], "source": _of(old.series["source"], of.sources),
        "lane": _of(old.series["lane"], of.lanes),
    })  # fmt: skip
    _append(old.lanes, new.lanes, of.lanes >= 0, {
        "partition": of.partitions[old.lanes["partition"]], "topic": _of(old.lanes["topic"], of.topics),
        "cluster": _of(old.lanes["cluster"], of.clusters), "home": _of(old.lanes["home"], of.sources),
        "topic_id": of.topic_ids(old.lanes["topic_id"]), "told_by": _of(old.lanes["told_by"], of.series),
    })  # fmt: skip
    _append(old.replicas, new.replicas, of.lanes >= 0, {})
    for name, columns in lanes.items():
        _append(getattr(old, name), getattr(new, name), columns["lane"] >= 0, columns)
    _add_epochs(old, new, of)
    line = old.lines_read["partition"]
    placed = _of(line, of.partitions)
    _append(old.lines_read, new.lines_read, placed >= 0, {
        "partition": placed, "source": _of(old.lines_read["source"], of.sources),
    })  # fmt: skip


def _add_epochs(old: State, new: State, of: _Numbers) -> None:
    """Partition epochs and clocks of brokers, whose keys begin with a partition."""
    for name in ("recorded_epochs", "reported_epochs", "requested_epochs", "clock_offsets"):
        rows = getattr(old, name)
        mine = of.partitions[rows["key"] >> 32] >= 0
        columns = {"key": of.high(rows["key"])}
        if name != "clock_offsets":
            columns["topic_id"] = of.topic_ids(rows["topic_id"])
        if name in ("reported_epochs", "requested_epochs"):
            columns["series"] = _of(rows["series"], of.series)
        _append(rows, getattr(new, name), mine, columns)


def _append(old: Arrays, new: Arrays, mine: Chosen, columns: Mapping[str, I64]) -> None:
    """Append rows of one table to another, these columns with other values."""
    width, fields = old.width, len(old.layout.names)
    rows = old.data[: old.count * width].reshape(old.count, width * fields)[mine]
    for name, values in columns.items():
        rows[:, getattr(old.layout.at, name)] = values[mine]
    first = new.count
    new.grow(first + len(rows))
    new.data[first * width : new.count * width] = rows.reshape(-1, fields)


def _add_by_partition(old: State, new: State, of: _Numbers) -> None:
    """Add the dictionaries by partition, lane or series."""
    new.queued_events |= _renumbered(old.queued_events, of.partitions)
    new.due |= _renumbered(old.due, of.partitions)
    new.lost_numbers |= _renumbered(old.lost_numbers, of.series)
    new.ended_terms |= _renumbered_pairs(old.ended_terms, of.lanes)
    new.wrong_clocks |= _renumbered_pairs(old.wrong_clocks, of.partitions)
    _add_sampled(old, new, of)


def _add_sampled(old: State, new: State, of: _Numbers) -> None:
    """Add the samples of partitions."""
    tables, at = old.sampled.rows(np.flatnonzero(of.partitions[old.sampled.records["number"]] >= 0)), SAMPLED.at
    records, terms = tables["sampled"], tables["sampled_terms"]
    places = (
        (at.number, of.partitions), (at.cluster, of.clusters), (at.lane, of.lanes), (at.source, of.sources),
    )  # fmt: skip
    for column, numbers in places:
        records[:, column] = _of(records[:, column], numbers)
    for rows, column in (records, at.topic_id), (terms, TERMS.at.topic_id):
        rows[:, column] = of.topic_ids(rows[:, column])
    new.sampled.add(tables)


def _renumbered(found: Mapping[int, Any], numbers: I64) -> dict[int, Any]:
    return {int(numbers[key]): value for key, value in found.items() if numbers[key] >= 0}


def _renumbered_pairs(found: Mapping[tuple[int, int], Any], numbers: I64) -> dict[tuple[int, int], Any]:
    return {(int(numbers[key]), other): value for (key, other), value in found.items() if numbers[key] >= 0}


def _add_broker_wide(old: State, new: State, of: _Numbers) -> None:
    """Add the facts that every bucket reads, each once, from any state that has it."""
    for (cluster, broker), times in old.gap_times.items():
        for ts in times:
            new.record_gap(int(of.clusters[cluster]), broker, ts)
    for (cluster, broker), times in old.misread_times.items():
        for ts in times:
            new.record_misread(int(of.clusters[cluster]), broker, ts)
    for found, last in ((old.last_gaps, new.last_gaps), (old.last_misreads, new.last_misreads)):
        for (cluster, broker), ts in found.items():
            place = int(of.clusters[cluster]), broker
            last[place] = max(ts, last.get(place, ts))
    new.watched.add_rounds(old.watched)
    new.reported_losses |= {(int(of.sources[source]), number) for source, number in old.reported_losses}
    _add_timeline(old, new, of)


def _add_timeline(old: State, new: State, of: _Numbers) -> None:
    for (cluster, broker), states in old.timeline.brokers.items():
        for ts, detail, epoch, source, source_epoch, number in states:
            by = source, source_epoch, number
            new.timeline.record_broker_state(int(of.clusters[cluster]), broker, ts, detail, epoch, by)
    for cluster, by_source in old.timeline.roles.items():
        for writer, roles in by_source.items():
            for role in roles:
                new.timeline.record_role(int(of.clusters[cluster]), writer, role)
    for (cluster, broker), answers in old.timeline.answers.items():
        for ts, detail in answers:
            new.timeline.record_broker_state(int(of.clusters[cluster]), broker, ts, detail, None, ("", 0, 0))
    for (cluster, topic), configs in old.timeline.configs.items():
        number = CLUSTER_WIDE if topic == CLUSTER_WIDE else new.topics.number(*old.topics.all[topic])
        rows = old.timeline.set_by.get((cluster, topic), {})
        for entry in configs:
            known = -1 if entry[3] < 0 else new.topic_ids.number(*old.topic_ids.all[entry[3]])
            new.timeline.record_config(int(of.clusters[cluster]), number, (*entry[:3], known), rows.get(entry))
    for (cluster, topic), deletions in old.timeline.deletions.items():
        number = new.topics.number(*old.topics.all[topic])
        for topic_id, ts in deletions.items():
            known = -1 if topic_id < 0 else new.topic_ids.number(*old.topic_ids.all[topic_id])
            new.timeline.record_deletion(int(of.clusters[cluster]), number, ts, known)
    for (cluster, broker), versions in old.timeline.versions.items():
        for ts, reported, value in versions:
            new.timeline.record_version(int(of.clusters[cluster]), broker, ts, reported, value)
    for (cluster, broker), (ts, rack) in old.timeline.racks.items():
        new.timeline.record_rack(int(of.clusters[cluster]), broker, ts, rack)
