"""What every engine must say: the high watermark after each second, wherever it changed; so also the final one."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

ANSWER = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("second", pa.int64()), ("hw", pa.int64())])


class Disagreement(RuntimeError):
    """Two engines tell different high watermarks."""


def answer(partition_hw: pa.Table) -> pa.Table:
    """Rows of ANSWER from `silver/partition_hw` at a resolution of one second."""
    rows = partition_hw.filter(pc.equal(partition_hw["kind"], "advance"))
    second = pc.divide(rows["ts"].cast(pa.int64()), 1_000_000)
    changed = rows.select(["topic", "partition", "hw"]).append_column("second", second)
    last = (
        changed.group_by(["topic", "partition", "second"]).aggregate([("hw", "max")]).rename_columns({"hw_max": "hw"})
    )
    return ordered(last)


def ordered(rows: pa.Table) -> pa.Table:
    """Rows of ANSWER in one order for all engines."""
    keys = [(name, "ascending") for name in ("topic", "partition", "second")]
    return rows.select(ANSWER.names).cast(ANSWER).sort_by(keys).combine_chunks()


def require_same(answers: Mapping[str, pa.Table]) -> None:
    """Raises Disagreement naming the first engines and row that differ."""
    (first, expected), *others = answers.items()
    if not len(expected):
        raise Disagreement(f"{first} tells no high watermark at all")
    for name, told in others:
        if not told.equals(expected):
            raise Disagreement(f"{first} and {name} disagree: {_difference(expected, told)}")


def _difference(one: pa.Table, other: pa.Table) -> str:
    """The first row that only one of them has."""
    for left, right in zip(one.to_pylist(), other.to_pylist(), strict=False):
        if left != right:
            return f"{left} and {right}"
    return f"{len(one):,} and {len(other):,} rows"
