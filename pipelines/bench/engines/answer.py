"""What every engine must say: HWs, ISR changes and stretches out of sync, each as rows in one order."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication import Facts

_KEY = [("topic", pa.string()), ("partition", pa.int32())]
_IDS = pa.list_(pa.int32())
ANSWER = pa.schema([*_KEY, ("us", pa.int64()), ("hw", pa.int64())])
"""The HW at the end of each stretch of the resolution in which it rose, by the stretch's begin; so also the last."""
ISR_CHANGES = pa.schema([*_KEY, ("us", pa.int64()), ("isr_before", _IDS), ("isr_after", _IDS)])
OUT_OF_SYNC = pa.schema([*_KEY, ("replica_id", pa.int32()), ("since", pa.int64()), ("until", pa.int64())])
QUESTIONS = {"HWs": ANSWER, "ISR changes": ISR_CHANGES, "stretches out of sync": OUT_OF_SYNC}


class Disagreement(RuntimeError):
    """Two engines answer differently for the same events."""


def of_facts(facts: Facts, resolution_us: int) -> dict[str, pa.Table]:
    """The answers in the tables of the reconstruction."""
    return {
        "HWs": answer(facts.partition_hw, resolution_us),
        "ISR changes": _changes(facts.isr_changes),
        "stretches out of sync": _stretches(facts.replica_sync),
    }


def answer(partition_hw: pa.Table, resolution_us: int = 1_000_000) -> pa.Table:
    """Rows of ANSWER from `silver/partition_hw`."""
    rows = partition_hw.filter(pc.equal(partition_hw["kind"], "advance"))
    us = rows["ts"].cast(pa.int64())
    if resolution_us:
        us = pc.multiply(pc.divide(us, resolution_us), resolution_us)
    rose = rows.select(["topic", "partition", "hw"]).append_column("us", us)
    last = rose.group_by(["topic", "partition", "us"]).aggregate([("hw", "max")]).rename_columns({"hw_max": "hw"})
    return ordered(last)


def _changes(isr_changes: pa.Table) -> pa.Table:
    """Of each change its first revision: those after it have another cause."""
    rows = isr_changes.filter(pc.equal(isr_changes["revision"], pc.min(isr_changes["revision"])))
    return ordered(rows.append_column("us", rows["ts"].cast(pa.int64())), ISR_CHANGES)


def _stretches(replica_sync: pa.Table) -> pa.Table:
    """From each `out_of_sync` to the `in_sync` after it."""
    edges = replica_sync.filter(
        pc.or_(pc.equal(replica_sync["state"], "out_of_sync"), pc.equal(replica_sync["previous_state"], "out_of_sync"))
    )
    keys = ["topic", "partition", "replica_id", "ts"]
    edges = edges.select([*keys, "state"]).sort_by([(k, "ascending") for k in keys])
    begins = pc.equal(edges["state"], "out_of_sync")
    since = edges.filter(begins)
    until = edges.filter(pc.invert(begins))["ts"]
    if len(until) != len(since):
        raise Disagreement(f"{len(since):,} stretches out of sync begin and {len(until):,} end")
    return ordered(
        since.append_column("since", since["ts"].cast(pa.int64())).append_column("until", until.cast(pa.int64())),
        OUT_OF_SYNC,
    )


def ordered(rows: pa.Table, schema: pa.Schema = ANSWER) -> pa.Table:
    """The rows of one answer in one order for all engines."""
    plain = [f.name for f in schema if not pa.types.is_list(f.type)]
    rows = rows.select(schema.names).cast(schema)
    return rows.sort_by([(name, "ascending") for name in plain]).combine_chunks()


def require_same(answers: Mapping[str, pa.Table], what: str = "HWs") -> None:
    """Raises Disagreement naming the first engines and row that differ."""
    (first, expected), *others = answers.items()
    if what == "HWs" and not len(expected):
        raise Disagreement(f"{first} gives no high watermark at all")
    for name, answer in others:
        if not answer.equals(expected):
            raise Disagreement(f"{first} and {name} disagree: {_difference(expected, answer)}")


def require_all_same(given: Mapping[str, Mapping[str, pa.Table]]) -> None:
    """Raises Disagreement where the engines' answers (by engine, then by question) differ in any of the questions."""
    for question in QUESTIONS:
        require_same({engine: answers[question] for engine, answers in given.items()}, question)


def _difference(one: pa.Table, other: pa.Table) -> str:
    """The first row that only one of them has."""
    for left, right in zip(one.to_pylist(), other.to_pylist(), strict=False):
        if left != right:
            return f"{left} and {right}"
    return f"{len(one):,} and {len(other):,} rows"
