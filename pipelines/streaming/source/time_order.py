"""Unread files of bronze in the order of time: the part for one batch if they are too much for it.

Each row has a *key*, the largest time of its source so far, by source_seq. A batch reads the rows with keys up to a
time, of every file that has some: so no source is read further than another, however the rows lie in files and commits.
A clock that jumps ahead for less than the grace and comes back moves no key; a row whose time no rule accepts has the
key of the row before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.bucket_layout import coverage_in
from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US, KEY_COLUMNS, SourcedRows
from pipelines.streaming.source.bronze_commits import Cut, File
from pipelines.streaming.source.bronze_file import footer_of, read
from pipelines.streaming.source.bronze_log import VersionVanishedError
from pipelines.streaming.source.cut import have_source
from pipelines.streaming.source.suitable import UnreadableFileError
from schemas.replication_events import DRAIN, FIRST, LAST

if TYPE_CHECKING:
    import numpy.typing as npt

    from pipelines.streaming.source.bronze_log import BronzeLog

    I64 = npt.NDArray[np.int64]
    Units = npt.NDArray[Any]

GRACE_US = 10_000_000
EARLIEST_US, LATEST_US = (int(time.timestamp()) * 1_000_000 for time in (FIRST, LAST))
NEVER = -(1 << 62)
ROWS_OF_A_STEP = 64
STEP_US = 1_000_000
"""The rows and the longest time of a step; a file is cut between steps."""
_SEQUENCE = 1 << 44
NO_SOURCE = -1
"""The unit of rows without source or number, which are read with the first key of their file."""

_UNIT = np.dtype([
    (name, np.int64)
    for name in ("file", "source", "seq_from", "seq_to", "since", "top", "rows", "low", "high", "exact", "base", "flat")
])  # fmt: skip
"""Consecutive rows of one source in one file. `since`, `top`: the first and the largest time; `low`, `high`: the
first and the last key; `exact`: it is read as a whole; `base`: the largest time before it, `flat`: that is its key."""

Source = tuple[str, str, int]


class TimeOrder:
    """The rows of some files by their keys. Each file is read once, and again if a batch ends inside it.

    The readable rows of a skipped file go on giving keys to others: with other keys some rows of a window that was
    begun would be read twice, or never.
    """

    def __init__(self, log: BronzeLog, files: Sequence[File]) -> None:
        self._log, self._files = log, files
        self._numbers: dict[Source, int] = {}
        self._coverage: dict[int, pa.Table] = {}
        """The coverage of all rows of files that tasks read in part."""
        self._unnamed: set[int] = set()
        """The sources of closing rows that do not name the rows they close."""
        skipped = [k for k, file in enumerate(files) if file.path in log.skipped]
        units = np.concatenate([_units(0), *(self._stretches(k) for k in range(len(files)) if k not in skipped)])
        units = np.concatenate([units, *map(self._readable_stretches, skipped)])
        first = {number for (_, source_id, _), number in self._numbers.items() if source_id == DRAIN} - self._unnamed
        units = _with_keys(units, first)
        self._units = units[~np.isin(units["file"], skipped)]
        self._bytes_of_a_row = np.array([file.size / max(1, file.rows) for file in files])

    def batch_end(self, after: int | None, max_bytes: int, max_rows: int) -> int | None:
        """The largest key of a batch that begins after a key (None: the start); None if it takes all the rest.

        It keeps to the limits, except for the rows of its first step.
        """
        begin = NEVER if after is None else after
        self._make_exact(begin)
        if self._fits(begin, None, max_bytes, max_rows) and not self._unnamed:
            return None
        while True:
            left = self._units[self._units["high"] > begin]
            least, most = max(begin, int(left["low"].min()) - 1), int(left["high"].max())
            while most - least > 1:
                middle = (least + most) // 2
                least, most = (middle, most) if self._fits(begin, middle, max_bytes, max_rows) else (least, middle)
            end = max(least, int(np.where(left["exact"], left["high"], left["low"]).min()))
            # A closing row that names nothing closes the rows before it and of its own time.
            closing = left["high"][np.isin(left["source"], list(self._unnamed))]
            end = min([end, *closing.tolist()])
            if not self._make_exact(end):
                return end if end < int(self._units["high"].max()) else None

    def rows(self, after: int | None, upto: int | None) -> int:
        """The number of rows with keys after one and up to another."""
        return int(self._counted(NEVER if after is None else after, upto).sum())

    def files(self, after: int | None, upto: int | None) -> list[File]:
        """The files with rows whose keys are after one and up to another, each cut to these rows."""
        begin = NEVER if after is None else after
        self._make_exact(begin)
        if upto is not None:
            self._make_exact(upto)
        units = self._units
        inside = (units["high"] > begin) & (True if upto is None else units["high"] <= upto)
        count = np.bincount(units["file"], minlength=len(self._files))
        found = []
        for number, own in _groups(units[inside][np.argsort(units["file"][inside], kind="stable")], "file"):
            whole, file = len(own) == count[number], self._files[number]
            found.append(file if whole else replace(file, cut=self._cut(number, own)))
        return found

    def _fits(self, begin: int, upto: int | None, max_bytes: int, max_rows: int) -> bool:
        rows = self._counted(begin, upto)
        return bool(rows.sum() <= max_rows and (rows * self._bytes_of_a_row[self._units["file"]]).sum() <= max_bytes)

    def _counted(self, begin: int, upto: int | None) -> npt.NDArray[np.float64]:
        """The rows of each unit in the range; in a unit that is not exact, as if its rows were spread evenly."""
        units, end = self._units, 1 << 62 if upto is None else upto
        length = np.maximum(1, units["high"] - units["low"]).astype(float)
        share = (np.minimum(end, units["high"]) - units["low"]) / length
        inside = (units["high"] > begin) & (units["low"] <= end)
        part = np.where(units["exact"] | (units["high"] <= end), units["high"] <= end, np.clip(share, 0, 1))
        counted: npt.NDArray[np.float64] = np.where(inside, part, 0) * units["rows"]
        return counted

    def _make_exact(self, key: int) -> bool:
        """Read the files that a key cuts in two; returns False if there are none."""
        units = self._units
        cut = np.unique(units["file"][(units["exact"] == 0) & (units["low"] <= key) & (key < units["high"])])
        for number in cut.tolist():
            mine = self._units["file"] == number
            steps = self._steps(number, self._units[mine])
            self._units = np.concatenate([self._units[~mine], steps])
        return bool(len(cut))

    def _stretches(self, number: int) -> Units:
        """The units of a file, from its footer or its rows."""
        file = self._files[number]
        covered = coverage_in(footer_of(self._log, file.part))
        if covered is None:
            sources, columns, rest = self._columns(file)
            return self._without_source(number, rest, _stretches_of(number, sources, *columns))
        self._coverage[number] = covered
        made = _units(len(covered))
        made["file"], made["source"] = number, self._numbered(covered)
        for name, column in (("seq_from", "seq_from"), ("seq_to", "seq_to"), ("since", "since"), ("top", "latest")):
            made[name] = covered[column].to_numpy()
        made["rows"] = made["seq_to"] - made["seq_from"] + 1
        return made

    def _readable_stretches(self, number: int) -> Units:
        """The units of a skipped file; empty if it cannot be read."""
        try:
            return self._stretches(number)
        except (UnreadableFileError, VersionVanishedError):
            return _units(0)

    def _without_source(self, number: int, rows: int, units: Units) -> Units:
        if not rows:
            return units
        one = _units(1)
        one["file"], one["source"], one["rows"] = number, NO_SOURCE, rows
        one["since"] = one["top"] = units["since"].min() if len(units) else EARLIEST_US
        return np.concatenate([one, units])

    def _steps(self, number: int, stretches: Units) -> Units:
        """The units of a file again, small enough to be read as a whole."""
        sources, columns, _ = self._columns(self._files[number])
        steps = _steps_of(number, sources, *columns)
        stretches = stretches[np.lexsort((stretches["seq_from"], stretches["source"]))]
        of_source = dict(_groups(stretches, "source"))
        if not of_source.keys() >= set(sources.tolist()):
            raise UnreadableFileError(self._files[number].path, "its footer names other sources than its rows have")
        for source, own in _groups(steps, "source"):
            within = np.searchsorted(of_source[source]["seq_from"], own["seq_from"], side="right") - 1
            for name in ("base", "flat"):
                own[name] = of_source[source][name][np.maximum(within, 0)]
        _set_keys(steps)
        steps["low"], steps["exact"] = steps["high"], 1
        return np.concatenate([stretches[stretches["source"] == NO_SOURCE], steps])

    def _columns(self, file: File) -> tuple[I64, tuple[I64, I64], int]:
        """(source, (source_seq, time)) of each row of a file by source and number, and the number of other rows."""
        tables, rest = [], 0
        for events in read(self._log, file.part, columns=(*KEY_COLUMNS, "closes")):
            told = events.filter(have_source(events))
            rest += len(events) - len(told)
            tables.append(told.select(KEY_COLUMNS))
            self._unnamed |= self._closing_without_names(told)
        rows = SourcedRows(pa.concat_tables(tables, promote_options="default")) if sum(map(len, tables)) else None
        if rows is None:
            nothing = np.zeros(0, np.int64)
            return nothing, (nothing, nothing), rest
        known = np.array([self._number(name) for name in rows.names], np.int64)
        source = np.concatenate([known[of] for of in rows.source_of])
        seq = np.concatenate([part.int64("source_seq") for part in rows.slices])
        times = pc.fill_null(rows.events["ts"].cast(pa.int64()), NEVER).to_numpy()
        order = _by_number(source, seq)
        return source[order], (seq[order], times[order]), rest

    def _closing_without_names(self, events: pa.Table) -> set[int]:
        closing = events.filter(pc.equal(events["source_id"], DRAIN))
        if "closes" in closing.column_names:
            closing = closing.filter(closing["closes"].is_null())
        return set(self._numbered(closing))

    def _numbered(self, coverage: pa.Table) -> list[int]:
        names = (coverage[name].to_pylist() for name in ("cluster", "source_id", "source_epoch"))
        return [self._number(name) for name in zip(*names, strict=True)]

    def _number(self, source: Source) -> int:
        return self._numbers.setdefault(source, len(self._numbers))

    def _cut(self, number: int, units: Units) -> Cut:
        """The cut of a file that has some of its units."""
        names = list(self._numbers)
        bounds: dict[Source, tuple[int, int]] = {}
        began, ended = {}, {}
        units = units[np.argsort(units["source"], kind="stable")]
        for source, own in _groups(units[units["source"] != NO_SOURCE], "source"):
            first, last = own[own["seq_from"].argmin()], own[own["seq_to"].argmax()]
            name = names[source]
            bounds[name] = int(first["seq_from"]), int(last["seq_to"])
            began[name], ended[name] = int(first["since"]), int(last["top"])
        covered = None
        if number in self._coverage:
            covered = [_clipped(run, bounds, began, ended) for run in self._coverage[number].to_pylist()]
        return {
            "bounds": [(*name, *ends) for name, ends in bounds.items()],
            "rest": bool((units["source"] == NO_SOURCE).any()),
            "coverage": None if covered is None else [run for run in covered if run is not None],
        }


def _clipped(
    run: Mapping[str, Any],
    bounds: Mapping[Source, tuple[int, int]],
    began: Mapping[Source, int],
    ended: Mapping[Source, int],
) -> dict[str, Any] | None:
    """The part of a run of coverage between the numbers that are read; None if there is none."""
    name = run["cluster"], run["source_id"], run["source_epoch"]
    first, last = bounds.get(name, (0, -1))
    if run["seq_to"] < first or run["seq_from"] > last:
        return None
    return {
        **run,
        "seq_from": max(first, run["seq_from"]),
        "seq_to": min(last, run["seq_to"]),
        "since": began[name] if run["seq_from"] < first else run["since"],
        "latest": ended[name] if run["seq_to"] > last else run["latest"],
    }


def _units(count: int) -> Units:
    return np.zeros(count, _UNIT)


def _groups(units: Units, name: str) -> Iterator[tuple[int, Units]]:
    """Views of the units by the value of a column, in whose order they are."""
    values, starts = np.unique(units[name], return_index=True)
    for value, start, end in zip(values.tolist(), starts.tolist(), np.append(starts, len(units))[1:], strict=True):
        yield value, units[start:end]


def _by_number(source: I64, seq: I64) -> npt.NDArray[np.intp]:
    """The order of rows by source and number, from one sort if both fit into 63 bits."""
    if seq.min() < 0 or seq.max() >= _SEQUENCE or source.max() >= 1 << 19:
        return np.lexsort((seq, source))
    return np.argsort(source * _SEQUENCE + seq)


def _stretches_of(file: int, source: I64, seq: I64, ts: I64) -> Units:
    """Units that end where the clock of a source jumps; rows by source and number."""
    return _cut_at(file, source, seq, *_running(source, ts))


def _steps_of(file: int, source: I64, seq: I64, ts: I64) -> Units:
    """Units of some rows of a short time."""
    filled, top, begins = _running(source, ts)
    if len(top):
        steps = len(top) // ROWS_OF_A_STEP + 1
        step = min(STEP_US, max(1, (int(top.max()) - int(top.min())) // steps))
        begins[1:] |= (top[1:] // step != top[:-1] // step) & (seq[1:] != seq[:-1])
    return _cut_at(file, source, seq, filled, top, begins)


def _cut_at(file: int, source: I64, seq: I64, ts: I64, top: I64, begins: npt.NDArray[np.bool_]) -> Units:
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(source))[: len(starts)]
    made = _units(len(starts))
    made["file"], made["source"], made["rows"] = file, source[starts], ends - starts
    made["seq_from"], made["seq_to"] = seq[starts], seq[ends - 1]
    made["since"], made["top"] = ts[starts], top[ends - 1]
    return made


def _running(source: I64, ts: I64) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
    """(time, largest time since a stretch began, whether one begins) of each row.

    A row without a time that is accepted has that of the row before it, or of the one after where none is before.
    """
    count = len(source)
    begins = np.ones(count, bool)
    begins[1:] = source[1:] != source[:-1]
    accepted = (ts >= EARLIEST_US) & (ts <= LATEST_US)
    if not accepted.all():
        ts = _filled(ts, accepted, begins)
    begins[1:] |= np.abs(ts[1:] - ts[:-1]) > CLOCK_JUMP_US
    top = ts.copy()
    starts = np.flatnonzero(begins)
    for start, end in zip(starts.tolist(), np.append(starts[1:], count).tolist(), strict=True):
        np.maximum.accumulate(ts[start:end], out=top[start:end])
    return ts, top, begins


def _filled(ts: I64, accepted: npt.NDArray[np.bool_], begins: npt.NDArray[np.bool_]) -> I64:
    at = np.arange(len(ts))
    first = np.maximum.accumulate(np.where(begins, at, 0))
    before = np.maximum.accumulate(np.where(accepted, at, -1))
    after = np.minimum.accumulate(np.where(accepted, at, len(ts))[::-1])[::-1]
    ends = np.append(np.flatnonzero(begins)[1:], len(ts))
    last = ends[np.cumsum(begins) - 1]
    chosen = np.where(before >= first, before, np.where(after < last, after, -1))
    filled: I64 = np.where(chosen >= 0, ts[chosen], EARLIEST_US)
    return filled


def _with_keys(units: Units, first: Collection[int]) -> Units:
    """The units of all files with their keys; those of the sources `first` have the smallest."""
    units = units[np.lexsort((units["seq_from"], units["source"]))]
    for source, own in _groups(units, "source"):
        if source in first:
            own["flat"], own["base"] = 1, EARLIEST_US
        elif source != NO_SOURCE:
            _set_base(own)
    _set_keys(units)
    return units


def _set_keys(units: Units) -> None:
    for key, time in (("low", "since"), ("high", "top")):
        units[key] = np.where(units["flat"], units["base"], np.maximum(units["base"], units[time]))


def _set_base(own: Units) -> None:
    """Set `base` and `flat` of the units of one source, which are in the order of their first numbers.

    One that overlaps another by its numbers does not come after it: a commit may spread a source over several files.
    """
    later = np.append(np.minimum.accumulate(own["since"][::-1])[::-1][1:], 1 << 62).tolist()
    first, last, since, top = (own[name].tolist() for name in ("seq_from", "seq_to", "since", "top"))
    flat, base = [False] * len(own), [NEVER] * len(own)
    ended = sorted(range(len(own)), key=last.__getitem__)
    passed, carry, ahead_since = 0, NEVER, None
    for k in range(len(own)):
        while last[ended[passed]] < first[k]:
            carry = carry if flat[ended[passed]] else max(carry, top[ended[passed]])
            passed += 1
        jumps = since[k] > carry + CLOCK_JUMP_US and later[k] < since[k] - CLOCK_JUMP_US
        ahead_since = (since[k] if ahead_since is None else ahead_since) if jumps else None
        flat[k] = not EARLIEST_US <= since[k] <= LATEST_US or (
            ahead_since is not None and top[k] - ahead_since < GRACE_US
        )
        base[k] = max(EARLIEST_US, min(later[k], LATEST_US)) if flat[k] and carry == NEVER else carry
    own["flat"], own["base"] = flat, base
