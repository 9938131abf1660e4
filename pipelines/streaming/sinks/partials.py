"""Sums of the partials of `silver/minute_stats` by owner and minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.streaming.sinks.spans import Moves

I64 = npt.NDArray[np.int64]
Who = tuple[Any, ...]
AT = "@"
"""The separator between the name of a difference and its millisecond within the minute."""


def summed_counts(partials: pa.Table, who: Sequence[str]) -> dict[tuple[Who, datetime], dict[str, int]]:
    """Summed counts by name for each owner's minutes, also those without counts."""
    summed: dict[tuple[Who, datetime], dict[str, int]] = {}
    for row in partials.group_by([*who, "minute"]).aggregate([]).to_pylist():
        summed[_key(row, who)] = {}
    flat = _counts(partials, who)
    flat = flat.filter(pc.invert(pc.match_substring(flat["name"], AT)))
    for row in flat.group_by([*who, "minute", "name"]).aggregate([("value", "sum")]).to_pylist():
        summed[_key(row, who)][row["name"]] = row["value_sum"]
    return summed


def moves_within(partials: pa.Table, who: Sequence[str]) -> dict[tuple[Who, datetime], Moves]:
    """The summed differences, to the millisecond, of each owner's minutes that have any."""
    flat = _counts(partials, who)
    flat = flat.filter(pc.match_substring(flat["name"], AT))
    parts = pc.split_pattern(flat["name"], AT)
    flat = flat.set_column(flat.column_names.index("name"), "name", pc.list_element(parts, 0))
    flat = flat.append_column("ms", pc.list_element(parts, 1).cast(pa.int64()))
    keys = [*who, "minute", "name"]
    sums = flat.group_by([*keys, "ms"]).aggregate([("value", "sum")]).sort_by("ms")
    lists = sums.group_by(keys, use_threads=False).aggregate([("ms", "list"), ("value_sum", "list")])
    times, values = (lists[name].combine_chunks() for name in ("ms_list", "value_sum_list"))
    found: dict[tuple[Who, datetime], Moves] = {}
    for k, row in enumerate(lists.select(keys).to_pylist()):
        moves = times[k].values.to_numpy(), values[k].values.to_numpy()
        found.setdefault(_key(row, who), {})[row["name"]] = moves
    return found


def summed_histograms(
    partials: pa.Table, column: str, size: int, who: Sequence[str]
) -> dict[tuple[Who, datetime], I64]:
    """Summed histograms of each owner's minutes that have one."""
    lists = partials[column].combine_chunks()
    lengths = np.diff(lists.offsets)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    minutes, of_row = _minutes_of(partials, who)
    sums = np.zeros((len(minutes), size), np.int64)
    np.add.at(sums, (np.repeat(of_row, lengths), within), _values(lists, lists.values).to_numpy())
    return {minutes[i]: sums[i] for i in np.unique(of_row[lengths > 0])}


def _minutes_of(partials: pa.Table, who: Sequence[str]) -> tuple[list[tuple[Who, datetime]], I64]:
    """The minutes by owner, and the minute of each row."""
    codes = np.zeros(len(partials), np.int64)
    for name in (*who, "minute"):
        values = partials[name].combine_chunks().dictionary_encode()
        codes = codes * len(values.dictionary) + values.indices.to_numpy()
    _, first, of_row = np.unique(codes, return_index=True, return_inverse=True)
    rows = partials.select([*who, "minute"]).take(pa.array(first)).to_pylist()
    return [_key(row, who) for row in rows], of_row


def _counts(partials: pa.Table, who: Sequence[str]) -> pa.Table:
    """A row for each named count, with its owner's minute."""
    maps = partials["counts"].combine_chunks()
    flat = _at(partials, who, maps).append_column("name", _values(maps, maps.keys))
    return flat.append_column("value", _values(maps, maps.items))


def _at(partials: pa.Table, who: Sequence[str], nested: pa.ListArray | pa.MapArray) -> pa.Table:
    """The owner's minute of each element of a list or map column."""
    row = np.repeat(np.arange(len(nested)), np.diff(nested.offsets))
    return partials.select([*who, "minute"]).take(pa.array(row))


def _values(nested: pa.ListArray | pa.MapArray, child: pa.Array) -> pa.Array:
    first, last = nested.offsets[0].as_py(), nested.offsets[-1].as_py()
    return child if len(child) == last - first else child.slice(first, last - first)


def _key(row: Mapping[str, Any], who: Sequence[str]) -> tuple[Who, datetime]:
    return tuple(row[name] for name in who), row["minute"]
