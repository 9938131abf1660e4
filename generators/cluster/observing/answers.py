"""One broker's answers in one round, as columns: the input of `Observer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from generators.cluster.metadata.lists import I32, I64, Mask
from generators.cluster.metadata.partitions import Partitions
from generators.cluster.metadata.replicas import Replicas

F64 = npt.NDArray[np.float64]

UNKNOWN = -1
"""An offset or epoch that was not answered."""
NO_ANSWER = -2
"""The error code of a requested partition that is not in the answer; not one of Kafka's."""


class Instant(NamedTuple):
    """A moment on the watcher's clock, in microseconds since 1970, and how far it may be off, in milliseconds."""

    ts_us: int
    error_ms: float


class Terms(NamedTuple):
    """The rows of partitions whose leader is asked for the start of its term.

    `told`: for each, the last leader epoch with a reported HW, or UNKNOWN. The end of that epoch in the leader's log
    shows a loss in terms without a watcher.
    """

    rows: I64
    told: I64


@dataclass(frozen=True, eq=False)
class Answer:
    """One broker's answer about its replicas; every column has one value for each of `slots`, which ascend.

    The answer of a round that broke off has the replicas read until then, and is not `complete`.
    """

    broker: int
    partitions: Partitions
    replicas: Replicas
    """The replicas as they were known when the request was sent."""
    slots: I64
    leo: I64
    error: I32
    """Kafka's error code for the LEO, 0 for none."""
    log_epoch: I32
    """The latest leader epoch in that replica's log."""
    leads: Mask
    """Whether it was asked as the leader, for the HW."""
    hw: I64
    hw_error: I32
    term_start: I64
    """The start offset of a leader's term; UNKNOWN if not requested or not known."""
    ts_us: I64
    ts_error_ms: F64
    at: Instant
    """The last moment of the round."""
    complete: bool = True
    epochs: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By row with a requested term start: leader epochs, each with its start offset in the leader's log."""

    def only(self, rows: Mask) -> Answer:
        """The answer for some of the replicas."""
        columns = (
            "slots",
            "leo",
            "error",
            "log_epoch",
            "leads",
            "hw",
            "hw_error",
            "term_start",
            "ts_us",
            "ts_error_ms",
        )
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})
