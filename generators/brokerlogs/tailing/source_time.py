"""The time up to which a source has told all, and the `progress` rows that say so, with what its log shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.messages.coverage import Shown
from generators.brokerlogs.tailing.progress import are_holes, interleave, progress, quiet_seconds


class SourceTime:
    """A source's own time, as far as its rows were taken; `state` is what `as_json` returned.

    `defaults` are the columns of progress rows until the source's own rows give them. For `shown` see
    progress.progress.
    """

    def __init__(self, state: Mapping[str, Any], defaults: dict[str, Any]) -> None:
        self.max_ts: int = state.get("high", 0)
        self.defaults: dict[str, Any] = state.get("like", defaults)
        self._progress_ts: int = state.get("progressed", 0)
        self._after_hole: bool = state.get("hole", False)

    def as_json(self) -> dict[str, Any]:
        """The state as a JSON value."""
        hole = {"hole": True} if self._after_hole else {}
        return {"high": self.max_ts, "progressed": self._progress_ts, **hole, "like": self.defaults}

    def interleave(self, rows: pa.Table, shown: Shown) -> pa.Table:
        """The next rows, with progress rows between them."""
        names = ("cluster", "source_id", "broker_id", "level")
        self.defaults = {name: rows[name][rows.num_rows - 1].as_py() for name in names}
        return interleave(rows, self.max_ts, self.defaults, shown, after_hole=self._after_hole)

    def advance(self, rows: pa.Table, ts: int) -> None:
        """Note that these rows, which end at `ts`, were taken."""
        self._after_hole = bool(are_holes(rows)[-1])
        self.max_ts, self._progress_ts = max(self.max_ts, ts), 0

    def quiet_rows(self, until: int, shown: Shown) -> list[pa.Table]:
        """Progress rows for the quiet seconds after the last row, before `until` (us)."""
        stamps = quiet_seconds(self.max_ts, until if self.max_ts else 0)
        return self._rows(stamps, shown) if len(stamps) > 1 else []

    def rows_up_to(self, ts: int, shown: Shown) -> list[pa.Table]:
        """Return progress rows up to `ts` (us), or to the last row if it is later; none if that was told already."""
        ts = max(ts, self.max_ts)
        return self._rows(np.unique(np.append(quiet_seconds(self.max_ts or ts, ts), ts)), shown)

    def row_at(self, ts: int, shown: Shown) -> list[pa.Table]:
        """A progress row at `ts` (us) if that is later than the last row; none of a dumped metadata log."""
        later = 0 < self.max_ts < ts and self.defaults.get("broker_id") != METADATA_LOG
        return self._rows(np.array([ts]), shown) if later else []

    def _rows(self, stamps: np.ndarray, shown: Shown) -> list[pa.Table]:
        stamps = stamps[stamps > self._progress_ts]
        if not len(stamps) or not self.defaults:
            return []
        told = {} if self._after_hole else shown  # how long lines are missing shows the next one
        rows = progress(stamps, self.defaults, EVENTS, told, self.max_ts or int(stamps[0]))
        self.max_ts = self._progress_ts = int(stamps[-1])
        return [rows]
