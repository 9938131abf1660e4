"""Rows that were read ahead, and a broker's settings file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from generators.brokerlogs.tailing.read_position import ReadPosition


@dataclass(frozen=True)
class BrokerSettings:
    """A broker's settings file: a digest of its contents, and its events at a time (us)."""

    digest: str
    events: Callable[[int], pa.Table]


@dataclass
class Chunk:
    """Rows of one piece of lines, and the state from which they can be read again; a `whole` one is never split."""

    rows: pa.Table
    running: np.ndarray
    read_position: ReadPosition | None
    parser: bytes
    taken: int = 0
    whole: bool = False
