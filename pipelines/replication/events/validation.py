"""Splits events into those that satisfy every row rule and those that do not, with all reasons."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.events.checked_slice import CheckedSlice
from pipelines.replication.events.row_rules import ROW_RULES, RowRule
from pipelines.replication.events.row_slices import RowSlice, row_slices
from schemas.event_types import DETAILS, REQUIRED

LONGEST_VALUE = 300
"""The most characters of a bad value that a reason shows."""


def split(events: pa.Table, slices: list[RowSlice] | None = None) -> tuple[pa.BooleanArray | None, pa.Table]:
    """(mask of the valid rows, None where all are; the invalid rows with `reasons: list<string>`).

    `slices`: the slices of `events`, where the caller has them already.
    """
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for rows in row_slices(events) if slices is None else slices:
        for rule, mask in _broken_rules(rows):
            found.setdefault(rule.name, np.zeros(len(events), dtype=np.bool_))[rows.rows] = mask
    if not found:
        return None, events.slice(0, 0).append_column("reasons", pa.array([], pa.list_(pa.string())))
    rules = [rule for rule in ROW_RULES if rule.name in found]
    broken = np.stack([found[rule.name] for rule in rules])
    bad = np.flatnonzero(broken.any(axis=0))
    rejected = events.take(bad)
    reasons = _reasons(rules, broken[:, bad], rejected)
    good = np.ones(len(events), bool)
    good[bad] = False
    return pa.array(good), rejected.append_column("reasons", reasons)


def _broken_rules(rows: RowSlice) -> list[tuple[RowRule, npt.NDArray[np.bool_]]]:
    """The rules that rows of this slice break, and which rows."""
    checked, found = CheckedSlice(rows, frozenset(REQUIRED), tuple(DETAILS)), []
    for rule in ROW_RULES:
        mask = rule.broken(checked)
        if mask is not None and pc.any(mask).as_py():
            found.append((rule, np.asarray(pc.fill_null(mask, False))))
    return found


def _reasons(rules: list[RowRule], broken: np.ndarray, rejected: pa.Table) -> pa.ListArray:
    reasons: list[list[str]] = [[] for _ in range(len(rejected))]
    for rule, mask in zip(rules, broken, strict=True):
        at = np.flatnonzero(mask)
        shown = rejected.select(rule.shows).take(at).to_pydict()
        for i, row in enumerate(at):
            values = ", ".join(f"{name} = {_shown(shown[name][i])}" for name in rule.shows)
            reasons[row].append(f"{rule.name}: {values}")
    return pa.array(reasons, pa.list_(pa.string()))


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    text = "null" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
