"""May a broker be stopped now: asked by a press of a button, of the lake or, where that is allowed, of its cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.errors import UsageError
from pipelines.gate import gold, words
from pipelines.gate.facts import Facts
from pipelines.gate.judgement import judge
from pipelines.lake.queries import Row
from pipelines.verdict.known import refuse_unknown
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader

EVERY_S = 5.0
"""A broker's answer is given again to whoever asks sooner."""
MAX_AGE = timedelta(seconds=30)
AskCluster = Callable[[str, int], Facts | None]
"""What the cluster itself answers about a broker; None: of that cluster only the lake is asked."""


@dataclass(frozen=True)
class GateAnswer:
    """The answer in words, when it was given, and the partitions that do not keep min ISR for certain."""

    answer: str
    at: datetime
    text: str
    remarks: Sequence[str]
    partitions: Sequence[Row]


class Gate:
    """Asks at most once in EVERY_S for each broker. Safe to use from several threads; one asks at a time."""

    def __init__(self, ask_cluster: AskCluster | None = None) -> None:
        self._ask_cluster = ask_cluster
        self._lock = threading.Lock()
        self._given: dict[tuple[str, int], tuple[float, GateAnswer]] = {}

    def ask(self, reader: Reader, asked: Asked) -> GateAnswer:
        """Return the answer about a broker. Raises UsageError if none is named, or the lake does not know it."""
        if asked.cluster is None or asked.broker is None:
            raise UsageError("no broker is named: say cluster and broker in the URL")
        key = asked.cluster, asked.broker
        with self._lock:
            refuse_unknown(reader.snapshot(), asked.wanted)
            at, given = self._given.get(key, (0.0, None))
            if given is None or time.monotonic() - at >= EVERY_S:
                given = self._judged(reader, *key)
                self._given = {k: v for k, v in self._given.items() if time.monotonic() - v[0] < EVERY_S}
                self._given[key] = time.monotonic(), given
            return given

    def _judged(self, reader: Reader, cluster: str, broker: int) -> GateAnswer:
        now = reader.now()
        facts = self._ask_cluster(cluster, broker) if self._ask_cluster else None
        if facts is None:
            facts = gold.read(reader.snapshot(), gold.Asked(cluster, (broker,), None, MAX_AGE), reader.limits, now)
        judged = judge(facts)
        said = words.headline(judged, now).removeprefix(f"{facts.cluster}: ")
        rows = [] if facts.stale else words.rows(judged)
        return GateAnswer(judged.answer.value, now, said, list(words.remarks(judged)), rows)
