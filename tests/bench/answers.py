"""Answers of every engine: HWs, ISR changes and stretches out of sync, each as rows in one order."""

import pyarrow as pa
import pyarrow.compute as pc

_KEY = [("topic", pa.string()), ("partition", pa.int32())]
_IDS = pa.list_(pa.int32())
QUESTIONS = {
    "HWs": pa.schema([*_KEY, ("us", pa.int64()), ("hw", pa.int64())]),
    "ISR changes": pa.schema([*_KEY, ("us", pa.int64()), ("isr_before", _IDS), ("isr_after", _IDS)]),
    "stretches out of sync": pa.schema(
        [*_KEY, ("replica_id", pa.int32()), ("since", pa.int64()), ("until", pa.int64())]
    ),
}
"""An HW stands at the begin of each stretch of the resolution in which it rose, as it was at its end."""


class Disagreement(RuntimeError):
    """Two engines answer differently for the same events."""


def answers_of(facts, resolution_us):
    """The answers in tables of the reconstruction, by question."""
    return {
        "HWs": _hws(facts["partition_hw"], resolution_us),
        "ISR changes": _changes(facts["isr_changes"]),
        "stretches out of sync": _stretches(facts["replica_sync"]),
    }


def _hws(partition_hw, resolution_us):
    rows = partition_hw.filter(pc.equal(partition_hw["kind"], "advance"))
    us = rows["ts"].cast(pa.int64())
    if resolution_us:
        us = pc.multiply(pc.divide(us, resolution_us), resolution_us)
    rose = rows.select(["topic", "partition", "hw"]).append_column("us", us)
    last = rose.group_by(["topic", "partition", "us"]).aggregate([("hw", "max")]).rename_columns({"hw_max": "hw"})
    return in_order(last, "HWs")


def _changes(isr_changes):
    """Of each change its first revision: those after it have another cause."""
    rows = isr_changes.filter(pc.equal(isr_changes["revision"], pc.min(isr_changes["revision"])))
    return in_order(rows.append_column("us", rows["ts"].cast(pa.int64())), "ISR changes")


def _stretches(replica_sync):
    """From each `out_of_sync` to the `in_sync` after it."""
    edges = replica_sync.filter((pc.field("state") == "out_of_sync") | (pc.field("previous_state") == "out_of_sync"))
    keys = ["topic", "partition", "replica_id", "ts"]
    edges = edges.select([*keys, "state"]).sort_by([(k, "ascending") for k in keys])
    since, until = edges.filter(pc.field("state") == "out_of_sync"), edges.filter(pc.field("state") != "out_of_sync")
    if len(until) != len(since):
        raise Disagreement(f"{len(since):,} stretches out of sync begin and {len(until):,} end")
    times = {"since": since["ts"].cast(pa.int64()), "until": until["ts"].cast(pa.int64())}
    return in_order(pa.table({**{k: since[k] for k in keys[:3]}, **times}), "stretches out of sync")


def in_order(rows, question):
    """The rows of an answer in one order for all engines."""
    schema = QUESTIONS[question]
    plain = [f.name for f in schema if not pa.types.is_list(f.type)]
    return rows.select(schema.names).cast(schema).sort_by([(name, "ascending") for name in plain]).combine_chunks()


def require_same(given):
    """Raises Disagreement where answers (by engine, then by question) differ in any of the questions."""
    for question in QUESTIONS:
        (first, expected), *others = ((engine, answers[question]) for engine, answers in given.items())
        if question == "HWs" and not len(expected):
            raise Disagreement(f"{first} gives no high watermark at all")
        for name, answer in others:
            if not answer.equals(expected):
                raise Disagreement(f"{first} and {name} disagree: {_difference(expected, answer)}")


def _difference(one, other):
    """The first row that only one of them has."""
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=False)
    return next((f"{a} and {b}" for a, b in pairs if a != b), f"{len(one):,} and {len(other):,} rows")
