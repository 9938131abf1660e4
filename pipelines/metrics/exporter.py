"""The exporter of one lake: reads it again where a table or the job has gone on, and answers from memory elsewhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pipelines.lake.lake import Lake
from pipelines.lake.versions import Versions
from pipelines.metrics import families
from pipelines.metrics.families.upkeep import Reading, unreadable
from pipelines.metrics.snapshot import Snapshot, last_evaluation, read
from pipelines.metrics.totals import Running
from pipelines.printable import printable
from pipelines.streaming.checkpoint.offsets import committed_offset
from pipelines.streaming.source.closings import count_closings
from pipelines.verdict import ClusterRecord, Limits, State, verdict
from pipelines.verdict.judged import silent

if TYPE_CHECKING:
    from prometheus_client import Metric


@dataclass(frozen=True)
class Health:
    """Whether everything is judged, and a sentence for each cluster: where not, what is wrong with it."""

    healthy: bool
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f"{printable(sentence)}\n" for sentence in self.sentences)


def health(records: Sequence[ClusterRecord], limits: Limits, now: datetime) -> Health:
    """The judgement at the moment `now`: it fails where a cluster is not judged, or a source of it is silent.

    What the verdicts say of the clusters themselves is no part of it: a loss that is reported is reported.
    """
    if not records:
        return Health(False, (f"{State.NOT_JUDGED.value}: the lake holds no events yet",))
    found = [(record, verdict(record, limits, now).judged) for record in records]
    failing = [(r, j) for r, j in found if j.state is State.NOT_JUDGED or j.silent]
    return Health(not failing, tuple(f"{record.cluster}: {judged.text}" for record, judged in failing or found))


def not_readable(why: str) -> Health:
    """The health of a lake whose tables cannot be read."""
    return Health(False, (f"{State.NOT_JUDGED.value}: {why}",))


_log = logging.getLogger("hwmark.metrics")

Silent = tuple[tuple[str, str], ...]


class Unreadable(Exception):
    """The lake cannot be read; the message is one line."""


@dataclass
class Exporter:
    """Metrics and health of one lake. `limits` and `now` are asked at each scrape; `severities` by alert rule.

    `worst`: at most so many partitions have metrics of their own. May be used by several threads.
    """

    lake: Lake
    limits: Callable[[], Limits]
    severities: Mapping[str, str]
    now: Callable[[], datetime]
    worst: int = 20
    _lock: Lock = field(default_factory=Lock)
    _running: Running = field(default_factory=Running)
    _state: Any = None
    _snapshot: Snapshot = field(default_factory=Snapshot)
    _silent: Silent = ()
    _reading: Reading = field(default_factory=Reading)

    def __post_init__(self) -> None:
        self._versions = Versions(self.lake)

    def metrics(self) -> Iterator[Metric]:
        """Every metric family at this moment; of a lake that cannot be read only that."""
        now = self.now()
        try:
            limits, snapshot = self._current(now)
        except Unreadable:
            return unreadable()
        return families.families(snapshot, limits, self.severities, self._reading, now)

    def health(self) -> Health:
        """Whether every cluster of the lake is judged, by sources that report."""
        now = self.now()
        try:
            limits, snapshot = self._current(now)
        except Unreadable as error:
            return not_readable(str(error))
        return health(snapshot.records, limits, now)

    def _current(self, now: datetime) -> tuple[Limits, Snapshot]:
        """The limits in force and the lake as it is. Raises Unreadable."""
        with self._lock:
            try:
                return self._read(now)
            except Exception as error:
                self._state = None
                said = " ".join(str(error).split())[:300] or type(error).__name__
                _log.warning("lake %s cannot be read: %s", self.lake.root, said)
                raise Unreadable(f"the tables of {self.lake.root} cannot be read: {said}") from error

    def _read(self, now: datetime) -> tuple[Limits, Snapshot]:
        """Read where something was committed, or where a source fell silent or reports again as time passes."""
        limits, state = self.limits(), self._look()
        if (state, limits) != self._state or self._silent != _silent(self._snapshot, limits, now):
            began = perf_counter()
            self._snapshot = read(self.lake, limits, self.worst, self._running, now)
            self._reading = Reading(self._reading.readings + 1, perf_counter() - began)
            self._state, self._silent = (state, limits), _silent(self._snapshot, limits, now)
        # With nothing new an evaluation writes no table.
        return limits, replace(self._snapshot, evaluated=last_evaluation(self.lake))

    def _look(self) -> tuple[object, ...]:
        """A value that changes whenever a reading would: versions of tables, the job's offset, closed sources."""
        versions = tuple(self._versions.now().items())
        if not versions:
            raise FileNotFoundError("there are none")
        return versions, json.dumps(committed_offset(self.lake), sort_keys=True), count_closings(self.lake)


def _silent(snapshot: Snapshot, limits: Limits, now: datetime) -> Silent:
    return tuple((r.cluster, source.source_id) for r in snapshot.records for source in silent(r, limits, now))
