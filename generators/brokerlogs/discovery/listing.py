"""The files of a series as they were listed last."""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generators.brokerlogs.discovery.log_series import Entry, Series

_LISTED_S = 1.0
"""A folder is listed again after so long, also where no file came or went."""
_TICK_S = 0.05
"""A change of a folder within so little of another one may leave its time as it is."""


class Listing:
    """The files of a series as one of its readers listed them, for as long as none came, went or was renamed."""

    def __init__(self) -> None:
        self._entries: Sequence[Entry] = ()
        self._at = 0.0
        self._changed: tuple[int, ...] = (0,)

    def take(self, series: Series) -> Sequence[Entry]:
        """List the files. Raises OSError."""
        self._at, self._changed = time(), _changed(series)
        self._entries = series.entries()
        return self._entries

    def kept(self, series: Series) -> Sequence[Entry]:
        """The last listing; empty if it may be another one now."""
        is_fresh = 0 <= time() - self._at < _LISTED_S and self._at - max(self._changed) / 1e9 > _TICK_S
        return self._entries if is_fresh and _changed(series) == self._changed else ()

    def forget(self) -> None:
        """Do not return it again."""
        self._entries = ()


def _changed(series: Series) -> tuple[int, ...]:
    return tuple(os.stat(one.folder).st_mtime_ns for one in (series, *series.others) if one.folder.exists())
