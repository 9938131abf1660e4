"""A Reconstructor's state as one blob: a version, then Arrow tables and a little JSON, Zstandard throughout."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from pipelines.replication.arrays import Arrays
from pipelines.replication.assignments import Assignments
from pipelines.replication.columns import whole
from pipelines.replication.first_terms import FirstTerms
from pipelines.replication.keys import Keys
from pipelines.replication.lanes import APART, HEARD, HW_ROWS, LANES, PARTITIONS, RECENT, RECORDED, REPLICAS, SERIES
from pipelines.replication.notes import Note, TermSeen
from pipelines.replication.rules import Rules
from pipelines.replication.sources import Source, Sources
from pipelines.replication.state import Names, State
from pipelines.replication.timeline import Timeline

MAGIC, VERSION = b"hwmark-state", 7
_ARRAYS = {
    "series": SERIES, "partitions": PARTITIONS, "lanes": LANES,
    "replicas": REPLICAS, "carry": HW_ROWS, "recent": RECENT,
    "recorded": RECORDED, "heard": HEARD, "apart": APART,
}  # fmt: skip
_KEYS = ("series_keys", "partition_keys", "lane_keys")
_NAMES = ("clusters", "topics", "topic_ids", "source_names")


def pack(state: State, rules: Rules, bucket: int, buckets: int) -> bytes:
    """The state as bytes."""
    tables: dict[str, pa.Table] = {name: getattr(state, name).table() for name in _ARRAYS}
    tables |= {name: pa.table({"key": getattr(state, name).keys}) for name in _KEYS}
    tables |= {"waiting": state.waiting, "assigned": state.assigned.table(), "first_terms": state.first_terms.table()}
    tables["starting"] = state.starting
    packed = {p: h.to_bytes() for p, h in state.histories.items()} | state.packed
    tables["histories"] = pa.table(
        {"partition": pa.array(packed.keys(), pa.int32()), "history": pa.array(packed.values(), pa.binary())}
    )
    tables["rest"] = pa.table({"json": [json.dumps(_rest(state, rules, bucket, buckets), separators=(",", ":"))]})
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


def _rest(state: State, rules: Rules, bucket: int, buckets: int) -> dict[str, Any]:
    return {
        "rules": asdict(rules), "bucket": bucket, "buckets": buckets, "width": state.replicas.width,
        **{name: [list(n) for n in getattr(state, name).all] for name in _NAMES},
        "sources": [asdict(s) for s in state.sources.known.values()], "settled": state.sources.settled,
        "brokers": [[*k, v] for k, v in state.timeline.brokers.items()],
        "configs": [[*k, v] for k, v in state.timeline.configs.items()],
        "notes": [[p, [[list(k), _note(n)] for k, n in notes]] for p, notes in state.notes.items()],
        "ended": [[*k, end, _seen(seen)] for k, (end, seen) in state.ended.items()],
        "due": list(state.due.items()), "gaps": list(state.gaps.items()), "told_lost": sorted(state.told_lost),
        "holds": [[*k, v] for k, v in state.holds.items()],
        "assigned": list(state.assigned.several.items()),
    }  # fmt: skip


def _note(note: Note) -> list[Any]:
    return [getattr(note, f.name) for f in fields(Note)]


def _seen(seen: TermSeen) -> list[Any]:
    return [seen.hmax, seen.leader_leo, sorted(seen.fetchers), seen.held, seen.level]


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
    rest = json.loads(tables["rest"]["json"][0].as_py())
    rules = Rules(**rest["rules"])
    return _state(tables, rest, rules), rules, rest["bucket"], rest["buckets"]


def _read(view: memoryview) -> dict[str, pa.Table]:
    tables, at = {}, 0
    while at < len(view):
        name = bytes(view[at + 1 : at + 1 + view[at]]).decode()
        at += 1 + view[at]
        size = int.from_bytes(view[at : at + 8], "little")
        tables[name] = pa.ipc.open_stream(pa.py_buffer(view[at + 8 : at + 8 + size])).read_all()
        at += 8 + size
    return tables


def _state(tables: dict[str, pa.Table], rest: dict[str, Any], rules: Rules) -> State:
    sources = Sources(rules.reorder_grace_ms * 1000)
    for row in rest["sources"]:
        row["ahead"], row["lost"] = ([tuple(run) for run in row[name]] for name in ("ahead", "lost"))
        sources.known[row["cluster"], row["source_id"], row["source_epoch"]] = Source(**row)
    sources.settled = rest["settled"]
    state = State(sources)
    for name, shape in _ARRAYS.items():
        setattr(state, name, Arrays.from_table(shape, tables[name], rest["width"] if name == "replicas" else 1))
    for name in _KEYS:
        setattr(state, name, Keys(tables[name]["key"].to_numpy()))
    for name in _NAMES:
        setattr(state, name, Names([tuple(n) for n in rest[name]]))
    state.timeline = Timeline(
        {(c, b): [tuple(s) for s in states] for c, b, states in rest["brokers"]},
        {(c, t): [tuple(e) for e in entries] for c, t, entries in rest["configs"]},
    )
    state.waiting, state.starting = whole(tables["waiting"]), whole(tables["starting"])
    histories = tables["histories"]
    state.packed = dict(zip(histories["partition"].to_pylist(), histories["history"].to_pylist(), strict=True))
    state.notes = {p: [(tuple(k), _to_note(n)) for k, n in notes] for p, notes in rest["notes"]}
    state.ended = {(lane, start): (end, _to_seen(seen)) for lane, start, end, seen in rest["ended"]}
    state.due = dict(rest["due"])
    state.gaps = {s: [tuple(g) for g in gaps] for s, gaps in rest["gaps"]}
    state.told_lost = {tuple(k) for k in rest["told_lost"]}
    state.holds = {(c, b): v for c, b, v in rest["holds"]}
    several = {p: [(ts, tuple(r)) for ts, r in told] for p, told in rest["assigned"]}
    state.assigned, state.first_terms = Assignments(tables["assigned"], several), FirstTerms(tables["first_terms"])
    return state


def _to_note(values: list[Any]) -> Note:
    named = dict(zip((f.name for f in fields(Note)), values, strict=True))
    for name in ("isr", "replicas"):
        named[name] = None if named[name] is None else tuple(named[name])
    return Note(**named)


def _to_seen(values: list[Any]) -> TermSeen:
    return TermSeen(values[0], values[1], frozenset(values[2]), values[3], values[4])
