"""The rows of watchers about partitions in one micro-batch, in canonical order: as columns, and as objects."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.numbering import encode
from pipelines.replication.batch.rare_events import FIRST
from pipelines.replication.batch.read import Batch
from pipelines.replication.compiled.types import I8, I64, MS, NULL, NULL32
from pipelines.replication.events.columns import CODE, event_kinds, int32_column, int64_column, list_column, take_rows
from pipelines.replication.partition.events import rows_as_dicts
from pipelines.replication.samples.layout import SAMPLES
from pipelines.replication.samples.partition import NOT_KNOWN, Row
from pipelines.replication.samples.steady_bundles import Samples
from pipelines.replication.state.state import State
from schemas.event_types import EVENT_TYPES, LOG_EPOCH, TOPIC_GONE

_COLUMNS = (
    "ts", "event_type", "broker_id", "leader_id", "leader_epoch", "leo", "hw", "isr", "replicas", "topic_id", "detail",
    "seq", "ts_error_ms",
)  # fmt: skip
_FIRST = np.array([kind in FIRST for kind in EVENT_TYPES])
_DIGITS = 10
"""Of the largest leader epoch: no epoch comes near it."""
_LONGEST_MS = 100.0 * 365 * 24 * 3600 * 1000
"""A century: rows of other times are in quarantine."""
_OTHER_TOPIC = -2
"""A topic id that no partition has had so far."""


class SampledRows(NamedTuple):
    """Rows by partition: those of numbers[k] stand from bounds[k] to bounds[k + 1]. `positions`: where each stands in
    the micro-batch."""

    numbers: I64
    bounds: I64
    kinds: I8
    positions: I64
    samples: Samples
    events: pa.Table
    order: I64

    @property
    def only_samples(self) -> npt.NDArray[np.bool_]:
        """By partition whether all of its rows are samples."""
        found: npt.NDArray[np.bool_] = np.logical_and.reduceat(self.kinds == CODE["sample"], self.bounds[:-1])
        return found

    def of(self, chosen: I64) -> dict[int, list[Row]]:
        """The rows of some of these partitions, by number."""
        if not len(chosen):
            return {}
        spans = [np.arange(self.bounds[k], self.bounds[k + 1]) for k in chosen.tolist()]
        places = np.concatenate(spans)
        dicts = rows_as_dicts(take_rows(self.events, self.order[places]))
        data = self.samples.rows[places].tolist()
        rows = iter(map(_row, dicts, data, self.positions[places].tolist()))
        return {
            int(self.numbers[k]): [next(rows) for _ in span] for k, span in zip(chosen.tolist(), spans, strict=True)
        }


def microseconds(milliseconds: pa.ChunkedArray) -> I64:
    """A column of milliseconds, null as 0; what is no duration counts as the longest, of which nothing follows."""
    known = milliseconds.fill_null(0.0).to_numpy()
    is_duration = (known >= 0) & (known <= _LONGEST_MS)
    found: I64 = np.rint(np.where(is_duration, known, _LONGEST_MS) * MS).astype(np.int64)
    return found


def sampled_rows(state: State, batch: Batch, unled: I64) -> SampledRows | None:
    """The rows of watchers among those that no lane of the kernel reads; None where there are none."""
    watched = state.watched_series()
    rows = unled[watched[batch.series[unled]]] if watched is not None else unled[:0]
    if not len(rows):
        return None
    events, clock = take_rows(batch.events.select(_COLUMNS), rows), batch.clocks(rows)
    source, number = (state.series[name][batch.series[rows]] for name in ("source", "partition"))
    kinds = event_kinds(events)
    broker, seq = int32_column(events["broker_id"]), int64_column(events["seq"])
    order = np.lexsort((seq, _ranks(state)[source], ~_FIRST[kinds], broker, clock, number))
    samples = _samples(state, events, clock, source, order)
    numbers, begins = np.unique(number[order], return_index=True)
    return SampledRows(
        numbers, np.append(begins, len(rows)), kinds[order], rows[order], samples,
        events.drop_columns(["seq", "ts_error_ms"]), order,
    )  # fmt: skip


def _ranks(state: State) -> I64:
    """By number the place of a source in the order of ids and epochs."""
    names = [(str(source), int(epoch)) for _, source, epoch in state.source_names.all]
    place = {name: k for k, name in enumerate(sorted(set(names)))}
    return np.array([place[name] for name in names], dtype=np.int64)


def _samples(state: State, events: pa.Table, clock: I64, source: I64, order: I64) -> Samples:
    isr, assigned = list_column(events["isr"]), list_column(events["replicas"])
    known = {
        "clock": clock,
        "ts": int64_column(events["ts"]),
        "error": microseconds(events["ts_error_ms"]),
        "broker": int32_column(events["broker_id"]),
        "leader": _number(int32_column(events["leader_id"]), NULL32),
        "epoch": _number(int32_column(events["leader_epoch"]), NULL32),
        "leo": _number(int64_column(events["leo"]), NULL),
        "hw": _number(int64_column(events["hw"]), NULL),
        "log_epoch": encode(events["detail"], _log_epoch),
        "source": source,
        "topic_id": encode(events["topic_id"], lambda name: _known_topic(state, name)),
        "isr_at": isr[0][:-1],
        "isr_count": _counts(events["isr"], isr[0]),
        "assigned_at": assigned[0][:-1],
        "assigned_count": _counts(events["replicas"], assigned[0]),
    }
    rows = np.stack([known[name] for name in SAMPLES.names], axis=1).astype(np.int64)
    return Samples(np.ascontiguousarray(rows[order]), isr[1], assigned[1])


def _number(values: Any, null: int) -> Any:
    return np.where(values == null, NOT_KNOWN, values)


def _counts(column: pa.ChunkedArray, offsets: Any) -> Any:
    """How many values each list has, -1 for null."""
    return np.where(pc.is_valid(column).to_numpy(), np.diff(offsets), -1)


def _known_topic(state: State, name: str) -> int:
    number = state.topic_ids.find(name)
    return _OTHER_TOPIC if number < 0 else number


def _log_epoch(detail: str) -> int:
    epoch = detail.removeprefix(LOG_EPOCH)
    known = epoch != detail and epoch.isdecimal() and len(epoch) < _DIGITS
    return int(epoch) if known else NOT_KNOWN


def _row(row: dict[str, Any], sample: list[int], number: int) -> Row:
    of = dict(zip(SAMPLES.names, sample, strict=True))
    return Row(
        of["clock"], of["ts"], of["error"], row["event_type"], of["broker"], of["leader"], of["epoch"], of["leo"],
        of["hw"], row["isr"], row["replicas"], of["log_epoch"], row["topic_id"], of["source"], number,
        (row["detail"] or "").startswith(TOPIC_GONE),
    )  # fmt: skip
