"""A limit of the files that the readers of one call hold open."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generators.brokerlogs.tailing.reader import SeriesReader

_OPEN = 256
"""Files that are open at once, and no more than half of what the process may open."""


class OpenFiles:
    """The readers that have a file open: beyond `most` the one that was read longest ago is closed."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most or min(_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._readers: dict[int, SeriesReader] = {}

    def use(self, reader: SeriesReader) -> None:
        """Note that this one was read just now."""
        self._readers.pop(id(reader), None)
        if reader.is_open:
            self._readers[id(reader)] = reader
        while len(self._readers) > self._most:
            self._readers.pop(next(iter(self._readers))).close()
