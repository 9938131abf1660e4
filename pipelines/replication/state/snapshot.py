"""A Reconstructor's state as one blob: a version, then Arrow tables and a little JSON, Zstandard throughout."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

import pyarrow as pa
from msgspec import Struct, ValidationError
from msgspec.json import Decoder, Encoder

from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Arrays
from pipelines.replication.events.columns import whole
from pipelines.replication.metadata import assignments, brokers_and_configs
from pipelines.replication.metadata.layout import APART, ASKED, HEARD, RECORDED
from pipelines.replication.partition.encoded import Packed
from pipelines.replication.partition.events import Note, TermSeen
from pipelines.replication.partition.first_terms import FirstTerms
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import Names, OrderKey, State
from pipelines.replication.telemetry.sources import Source, Sources
from pipelines.replication.term.layout import HW_ROWS, LANES, LINES_READ, PARTITIONS, RECENT, REPLICAS, SERIES

MAGIC, VERSION = b"hwmark-state", 7
_ARRAYS = {
    "series": SERIES, "partitions": PARTITIONS, "lanes": LANES,
    "replicas": REPLICAS, "carry": HW_ROWS, "recent": RECENT,
    "recorded": RECORDED, "heard": HEARD, "asked": ASKED, "apart": APART, "lines_read": LINES_READ,
}  # fmt: skip
_LATER = frozenset({"lines_read", "asked"})
"""Arrays that blobs of earlier versions lack."""
_LATER_COLUMNS = {
    "series": frozenset({"follower_epoch", "ahead_most", "ahead_least", "apart"}),
    "lanes": frozenset(
        {"isr_doubted", "thawed", "missed", "version", "reports_open", "gap_low", "gap_high", "cut_off", "cut_off_ts",
         "cut_off_until", "cut_off_isr"}
    ),
    "carry": frozenset({"before", "awaited"}),
    "recorded": frozenset({"isr"}),
    "heard": frozenset({"series"}),
}  # fmt: skip
"""Columns that they lack: as nothing was kept of them, their defaults, which say that nothing is known, are right."""
_KEYS = ("series_keys", "partition_keys", "lane_keys")
_NAMES = ("clusters", "topics", "topic_ids", "source_names")
_OTHERS = ("waiting", "assigned", "first_terms", "starting", "histories", "rest")
_KNOWN = frozenset({*_ARRAYS, *_KEYS, *_OTHERS})
_WAY_OUT = "use the version of hwmark that wrote it, or start silver anew from bronze with `hwmark run --rebuild`"
_FIELDS = tuple(field.name for field in fields(Note))
_LISTS = tuple(_FIELDS.index(name) for name in ("isr", "replicas", "place"))
_values = attrgetter(*_FIELDS)


def pack(state: State, rules: Rules, bucket: int, buckets: int) -> bytes:
    """The state as bytes."""
    tables: dict[str, pa.Table] = {name: getattr(state, name).table() for name in _ARRAYS}
    tables |= {name: pa.table({"key": getattr(state, name).keys}) for name in _KEYS}
    tables |= {"waiting": state.waiting, "assigned": state.assigned.table(), "first_terms": state.first_terms.table()}
    tables["starting"] = state.starting
    tables["histories"] = state.packed.table({p: h.to_bytes() for p, h in state.histories.items()})
    tables["rest"] = pa.table({"json": pa.array([_encoder.encode(_rest(state, rules, bucket, buckets))], pa.string())})
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
    """What of a state is few."""

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
    brokers: list[tuple[int, int, list[brokers_and_configs.State]]]
    configs: list[tuple[int, int, list[brokers_and_configs.Config]]]
    notes: list[tuple[int, list[tuple[OrderKey, list[Any]]]]]
    ended: list[tuple[int, int, int, TermSeen]]
    due: list[tuple[int, int]]
    gaps: list[tuple[int, list[tuple[int, int]]]]
    told_lost: list[tuple[int, int]]
    holds: list[tuple[int, int, list[int]]]
    assigned: list[tuple[int, list[assignments.Told]]]
    unread: list[tuple[int, int, list[int]]] = []
    versions: list[tuple[int, int, list[brokers_and_configs.Version]]] = []
    clocks_apart: list[tuple[int, int, int]] = []


_encoder, _decoder = Encoder(), Decoder(Rest)


def _rest(state: State, rules: Rules, bucket: int, buckets: int) -> Rest:
    return Rest(
        rules, bucket, buckets, state.replicas.width,
        **{name: getattr(state, name).all for name in _NAMES},
        sources=list(state.sources.known.values()), settled=state.sources.settled,
        brokers=[(*k, v) for k, v in state.timeline.brokers.items()],
        configs=[(*k, v) for k, v in state.timeline.configs.items()],
        notes=[(p, [(key, list(_values(note))) for key, note in notes]) for p, notes in state.notes.items()],
        ended=[(*k, *v) for k, v in state.ended.items()],
        due=list(state.due.items()), gaps=list(state.gaps.items()), told_lost=sorted(state.told_lost),
        holds=[(*k, v) for k, v in state.holds.items()],
        assigned=list(state.assigned.several.items()),
        unread=[(*k, v) for k, v in state.unread.items()],
        versions=[(*k, v) for k, v in state.timeline.versions.items()],
        clocks_apart=[(*k, v) for k, v in state.clocks_apart.items()],
    )  # fmt: skip


def unpack(blob: bytes) -> tuple[State, Rules, int, int]:
    """(state, rules, bucket, buckets). Raises ValueError naming a version this code does not read."""
    if not blob.startswith(MAGIC):
        raise ValueError(f"not a snapshot of hwmark: it begins with {blob[:12]!r}")
    version = int.from_bytes(blob[len(MAGIC) : len(MAGIC) + 2], "little")
    if version != VERSION:
        raise ValueError(
            f"snapshot has version {version}, this hwmark reads {VERSION}: rebuild with `hwmark run --rebuild`"
        )
    tables = _read(memoryview(blob)[len(MAGIC) + 2 :])
    if unknown := sorted(tables.keys() - _KNOWN):
        raise ValueError(f"state {unknown[0]} is not known to this version: {_WAY_OUT}")
    try:
        rest = _decoder.decode(tables["rest"]["json"][0].as_py())
    except ValidationError as error:
        raise ValueError(f"state is not of this version ({error}): {_WAY_OUT}") from error
    return _state(tables, rest), rest.rules, rest.bucket, rest.buckets


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
    for name, shape in _ARRAYS.items():
        if name not in tables and name in _LATER:
            continue
        width, later = rest.width if name == "replicas" else 1, _LATER_COLUMNS.get(name, frozenset())
        try:
            setattr(state, name, Arrays.from_table(shape, tables[name], width, later))
        except ValueError as error:
            raise ValueError(f"state {name}: {error}: {_WAY_OUT}") from error
    for name in _KEYS:
        setattr(state, name, Keys(tables[name]["key"].to_numpy()))
    for name in _NAMES:
        setattr(state, name, Names(getattr(rest, name)))
    state.timeline = brokers_and_configs.Timeline(
        {(c, b): states for c, b, states in rest.brokers},
        {(c, t): entries for c, t, entries in rest.configs},
        {(c, b): entries for c, b, entries in rest.versions},
    )
    state.waiting, state.starting = whole(tables["waiting"]), whole(tables["starting"])
    state.packed = Packed(tables["histories"])
    state.notes = {p: [(key, _note(values)) for key, values in notes] for p, notes in rest.notes}
    state.ended = {(lane, start): (end, seen) for lane, start, end, seen in rest.ended}
    state.due, state.gaps, state.told_lost = dict(rest.due), dict(rest.gaps), set(rest.told_lost)
    state.holds = {(c, b): times for c, b, times in rest.holds}
    state.clocks_apart = {(p, b): ahead for p, b, ahead in rest.clocks_apart}
    state.unread = {(c, b): times for c, b, times in rest.unread}
    state.assigned = assignments.Assignments(tables["assigned"], dict(rest.assigned))
    state.first_terms = FirstTerms(tables["first_terms"])
    return state


def _note(values: list[Any]) -> Note:
    for place in _LISTS:
        values[place] = None if values[place] is None else tuple(values[place])
    return Note(*values)
