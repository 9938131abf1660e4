"""A Reconstructor's state as one blob: a version, then Arrow tables and a little JSON, Zstandard throughout.

Names of tables, of columns and of the fields of `Rest` are part of the format: to rename one is a new version.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pyarrow as pa
from msgspec import Struct, ValidationError
from msgspec.json import Decoder, Encoder

from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Arrays, RecordLayout
from pipelines.replication.compiled.types import LOW
from pipelines.replication.events.columns import with_all_columns
from pipelines.replication.metadata.assignments import Assignment, Assignments
from pipelines.replication.metadata.brokers_and_configs import BrokerState, Config, Timeline, Version
from pipelines.replication.metadata.deposed import Role, Row
from pipelines.replication.metadata.layout import CLOCK_OFFSETS, RECORDED_EPOCHS, REPORTED_EPOCHS, REQUESTED_EPOCHS
from pipelines.replication.partition.encoded import EncodedHistories
from pipelines.replication.partition.events import PartitionEvent, TermSummary
from pipelines.replication.partition.first_terms import FirstTerms
from pipelines.replication.rules import Rules
from pipelines.replication.samples import partitions
from pipelines.replication.samples.layout import HELD_HWS
from pipelines.replication.samples.watched import Watched
from pipelines.replication.state.state import Names, OrderKey, State
from pipelines.replication.telemetry.closings import Closings, Held
from pipelines.replication.telemetry.source import Source
from pipelines.replication.telemetry.sources import Sources
from pipelines.replication.term.layout import (
    EARLIER,
    HW_ROWS,
    LANES,
    LINES_READ,
    PARTITIONS,
    RECENT,
    REPLICAS,
    SERIES,
    SYNC_ROWS,
)

MAGIC, VERSION = b"hwmark-state", 8


RECORDS: dict[str, RecordLayout] = {
    "series": SERIES, "partitions": PARTITIONS, "lanes": LANES, "replicas": REPLICAS, "pending_rows": HW_ROWS,
    "recent_hws": RECENT, "recorded_epochs": RECORDED_EPOCHS, "reported_epochs": REPORTED_EPOCHS,
    "requested_epochs": REQUESTED_EPOCHS, "clock_offsets": CLOCK_OFFSETS, "lines_read": LINES_READ,
    "earlier_terms": EARLIER,
}  # fmt: skip
"""Tables of records, each an attribute of State."""
_ADDED_COLUMNS = {
    "series": frozenset({"leads_from", "leads_since"}),
    "lanes": frozenset({
        "reported", "witnessed", "witnessed_ts", "last_unmatched", "witnessed_from", "chain_from", "min_isr_told",
        "level_before", "told_by", "told_ts", "assigned_told", "few_assigned", "held_back", "held_back_from",
    }),
    "replicas": frozenset({"first_fetch", "passed"}),
    "recent_hws": frozenset({"reported"}),
    "lines_read": frozenset({"bypassed"}),
    "recorded_epochs": frozenset({"led"}),
    "reported_epochs": frozenset({"led"}),
}  # fmt: skip
"""Columns that the first blobs of this version lack: nothing was known of them, which is what the defaults say."""
_KEYS = ("partition_keys", "lane_keys")
_OF_SERIES = "series_keys"
"""The table of (topic, partition, source) in 20, 23 and 20 bits, which only earlier versions read."""
_NAMES = ("clusters", "topics", "topic_ids", "source_names")
_OTHERS = ("waiting", "assignments", "first_terms", "pending_starts", "histories", "rest")
CLOSINGS, HELD = "closings", ("held_events", "held_runs")
"""The tables of closing rows and of what waits behind them, in the states of lakes that have any."""
WATCHED = "watched"
"""The table of when brokers answered watchers, in the states of lakes that have any."""
SAMPLES_HELD: dict[str, RecordLayout] = {"held_hws": HELD_HWS, "held_changes": SYNC_ROWS}
"""Tables of records, likewise, which the first blobs of this version lack."""
_KNOWN = frozenset(
    {*RECORDS, _OF_SERIES, *_KEYS, *_OTHERS, CLOSINGS, *HELD, WATCHED, *partitions.TABLES, *SAMPLES_HELD}
)
_WAY_OUT = "use the version of hwmark that wrote it, or start silver anew from bronze with `hwmark run --rebuild`"
_EVENT_FIELDS = PartitionEvent.__struct_fields__
_TUPLES = tuple(_EVENT_FIELDS.index(name) for name in ("isr", "replicas", "reported_by"))
_event_values = attrgetter(*_EVENT_FIELDS)


def pack(state: State, rules: Rules, bucket: int, buckets: int) -> bytes:
    """The state as bytes."""
    tables: dict[str, pa.Table] = {name: getattr(state, name).table() for name in RECORDS}
    keys = state.series_keys.keys
    tables[_OF_SERIES] = pa.table({"key": keys >> 32 << 43 | (keys & LOW) << 20 | state.series["source"]})
    tables |= {name: pa.table({"key": getattr(state, name).keys}) for name in _KEYS}
    tables["waiting"] = state.waiting
    tables |= {"assignments": state.assignments.table(), "first_terms": state.first_terms.table()}
    tables["pending_starts"] = state.pending_starts
    tables["histories"] = state.encoded_histories.table({p: h.to_bytes() for p, h in state.histories.items()})
    tables["rest"] = pa.table({"json": pa.array([_encoder.encode(_rest(state, rules, bucket, buckets))], pa.string())})
    if state.closings.last or state.closings.waiting:
        tables[CLOSINGS] = pa.table({"json": pa.array([_encoder.encode(state.closings)], pa.string())})
    if len(state.held.events) or len(state.held.runs):
        tables |= zip(HELD, state.held, strict=True)
    if state.watched or state.sampled:
        tables[WATCHED] = pa.table({"json": pa.array([_encoder.encode(state.watched)], pa.string())})
        tables |= state.sampled.tables() | {name: getattr(state, name).table() for name in SAMPLES_HELD}
    sink = pa.BufferOutputStream()
    sink.write(MAGIC + VERSION.to_bytes(2, "little"))
    for name, table in tables.items():
        _write(sink, name, table)
    return bytes(sink.getvalue())


def _write(sink: Any, name: str, table: pa.Table) -> None:
    part = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(part, table.schema, options=options) as writer:
        writer.write_table(table)
    body = part.getvalue()
    sink.write(len(name).to_bytes(1, "little") + name.encode() + body.size.to_bytes(8, "little"))
    sink.write(body)


class Rest(Struct, forbid_unknown_fields=True):
    """The small parts of a state, as JSON."""

    rules: Rules
    bucket: int
    buckets: int
    width: int
    clusters: list[tuple[Any, ...]]
    topics: list[tuple[Any, ...]]
    topic_ids: list[tuple[Any, ...]]
    source_names: list[tuple[Any, ...]]
    sources: list[Source]
    settled: dict[str, int]
    brokers: list[tuple[int, int, list[BrokerState]]]
    configs: list[tuple[int, int, list[Config]]]
    queued_events: list[tuple[int, list[tuple[OrderKey, list[Any]]]]]
    ended_terms: list[tuple[int, int, int, TermSummary]]
    due: list[tuple[int, int]]
    lost_numbers: list[tuple[int, list[tuple[int, int]]]]
    reported_losses: list[tuple[int, int]]
    gap_times: list[tuple[int, int, list[int]]]
    reassigned: list[tuple[int, list[Assignment]]]
    misread_times: list[tuple[int, int, list[int]]] = []
    versions: list[tuple[int, int, list[Version]]] = []
    wrong_clocks: list[tuple[int, int, int]] = []
    racks: list[tuple[int, int, tuple[int, str]]] = []
    answers: list[tuple[int, int, list[tuple[int, str]]]] = []
    last_gaps: list[tuple[int, int, int]] = []
    last_misreads: list[tuple[int, int, int]] = []
    deletions: list[tuple[int, int, dict[int, int]]] = []
    roles: list[tuple[int, str, int, list[Role]]] = []
    set_by: list[tuple[int, int, list[tuple[Config, Row]]]] = []


_encoder, _decoder, _watched, _closings = Encoder(), Decoder(Rest), Decoder(Watched), Decoder(Closings)


def _rest(state: State, rules: Rules, bucket: int, buckets: int) -> Rest:
    queued = state.queued_events.items()
    return Rest(
        rules, bucket, buckets, state.replicas.width,
        **{name: getattr(state, name).all for name in _NAMES},
        sources=list(state.sources.known.values()), settled=state.sources.settled,
        brokers=[(*k, v) for k, v in state.timeline.brokers.items()],
        configs=[(*k, v) for k, v in state.timeline.configs.items()],
        queued_events=[(p, [(key, list(_event_values(event))) for key, event in events]) for p, events in queued],
        ended_terms=[(*k, *v) for k, v in state.ended_terms.items()],
        due=list(state.due.items()),
        lost_numbers=list(state.lost_numbers.items()),
        reported_losses=sorted(state.reported_losses),
        gap_times=[(*k, v) for k, v in state.gap_times.items()],
        reassigned=list(state.assignments.changed.items()),
        misread_times=[(*k, v) for k, v in state.misread_times.items()],
        versions=[(*k, v) for k, v in state.timeline.versions.items()],
        wrong_clocks=[(*k, v) for k, v in state.wrong_clocks.items()],
        racks=[(*k, v) for k, v in state.timeline.racks.items()],
        answers=[(*k, v) for k, v in state.timeline.answers.items()],
        last_gaps=[(*k, v) for k, v in state.last_gaps.items()],
        last_misreads=[(*k, v) for k, v in state.last_misreads.items()],
        deletions=[(*k, v) for k, v in state.timeline.deletions.items()],
        roles=[(c, *k, v) for c, roles in state.timeline.roles.items() for k, v in roles.items()],
        set_by=[(*k, list(rows.items())) for k, rows in state.timeline.set_by.items() if rows],
    )  # fmt: skip


def unpack(blob: bytes) -> tuple[State, Rules, int, int]:
    """(state, rules, bucket, buckets). Raises ValueError naming a version that this program does not read."""
    if not blob.startswith(MAGIC):
        raise ValueError(f"not a snapshot of hwmark: it begins with {blob[:12]!r}")
    version = int.from_bytes(blob[len(MAGIC) : len(MAGIC) + 2], "little")
    if version != VERSION:
        raise ValueError(f"state has version {version}, and this hwmark reads {VERSION}: {_WAY_OUT}")
    tables = _read(memoryview(blob)[len(MAGIC) + 2 :])
    if unknown := sorted(tables.keys() - _KNOWN):
        raise ValueError(f"state {unknown[0]} is not known to this version: {_WAY_OUT}")
    try:
        rest = _decoder.decode(tables["rest"]["json"][0].as_py())
        return _state(tables, rest), rest.rules, rest.bucket, rest.buckets
    except ValidationError as error:
        raise ValueError(f"state is not of this version ({error}): {_WAY_OUT}") from error


def _read(view: memoryview) -> dict[str, pa.Table]:
    tables, at = {}, 0
    while at < len(view):
        name = bytes(view[at + 1 : at + 1 + view[at]]).decode()
        at += 1 + view[at]
        size = int.from_bytes(view[at : at + 8], "little")
        tables[name] = pa.ipc.open_stream(pa.py_buffer(view[at + 8 : at + 8 + size])).read_all()
        at += 8 + size
    return tables


def _state(tables: dict[str, pa.Table], rest: Rest) -> State:
    sources = Sources(rest.rules.reorder_grace_ms * 1000)
    sources.known = {(s.cluster, s.source_id, s.source_epoch): s for s in rest.sources}
    sources.settled = rest.settled
    state = State(sources)
    for name, layout in RECORDS.items():
        width, added = rest.width if name == "replicas" else 1, _ADDED_COLUMNS.get(name, frozenset())
        try:
            if name in tables or name != "earlier_terms":  # which the first blobs of this version lack
                setattr(state, name, Arrays.from_table(layout, tables[name], width, added))
        except ValueError as error:
            raise ValueError(f"state {name}: {error}: {_WAY_OUT}") from error
    for name in _KEYS:
        setattr(state, name, Keys(tables[name]["key"].to_numpy()))
    state.number_series()
    for name in _NAMES:
        setattr(state, name, Names(getattr(rest, name)))
    roles = dict[int, dict[tuple[str, int], list[Role]]]()
    for cluster, source, source_epoch, of_source in rest.roles:
        roles.setdefault(cluster, {})[source, source_epoch] = of_source
    state.timeline = Timeline(
        {(c, b): states for c, b, states in rest.brokers},
        {(c, t): entries for c, t, entries in rest.configs},
        {(c, b): entries for c, b, entries in rest.versions},
        {(c, b): rack for c, b, rack in rest.racks},
        {(c, b): answers for c, b, answers in rest.answers},
        {(c, t): deleted for c, t, deleted in rest.deletions},
        roles,
        {(c, t): dict(rows) for c, t, rows in rest.set_by},
    )
    state.waiting, state.pending_starts = (
        with_all_columns(tables["waiting"]),
        with_all_columns(tables["pending_starts"]),
    )
    state.encoded_histories = EncodedHistories(tables["histories"])
    state.queued_events = {p: [(key, _event(values)) for key, values in events] for p, events in rest.queued_events}
    state.ended_terms = {(lane, start): (end, summary) for lane, start, end, summary in rest.ended_terms}
    state.due, state.lost_numbers = dict(rest.due), dict(rest.lost_numbers)
    state.reported_losses = set(rest.reported_losses)
    state.gap_times = {(c, b): times for c, b, times in rest.gap_times}
    state.wrong_clocks = {(p, b): ahead for p, b, ahead in rest.wrong_clocks}
    state.misread_times = {(c, b): times for c, b, times in rest.misread_times}
    state.last_gaps = {(c, b): ts for c, b, ts in rest.last_gaps}
    state.last_misreads = {(c, b): ts for c, b, ts in rest.last_misreads}
    state.assignments = Assignments(tables["assignments"], dict(rest.reassigned))
    state.first_terms = FirstTerms(tables["first_terms"])
    if CLOSINGS in tables:
        state.closings = _closings.decode(tables[CLOSINGS]["json"][0].as_py())
    if HELD[0] in tables:
        state.held = Held(with_all_columns(tables[HELD[0]]), tables[HELD[1]])
    if WATCHED in tables:
        state.watched = _watched.decode(tables[WATCHED]["json"][0].as_py())
        try:
            state.sampled = partitions.SampledPartitions.from_tables(tables)
            for name in SAMPLES_HELD.keys() & tables.keys():
                setattr(state, name, Arrays.from_table(SAMPLES_HELD[name], tables[name]))
        except ValueError as error:
            raise ValueError(f"state {partitions.TABLES[0]}: {error}: {_WAY_OUT}") from error
    return state


def _event(values: list[Any]) -> PartitionEvent:
    for place in _TUPLES:
        values[place] = None if values[place] is None else tuple(values[place])
    return PartitionEvent(*values)
