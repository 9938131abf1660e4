"""The settings file of a broker, which becomes rows whenever it has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from generators.brokerlogs.discovery.sources import Source
from generators.brokerlogs.events.event_builder import EventBuilder, TopicIds
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.events.source_state import PartitionStates
from schemas.event_types import RACK
from schemas.replication_events import as_int

_SETTINGS = {"min.insync.replicas": "min_isr", "replica.lag.time.max.ms": "lag_max_ms"}


def node_id(text: str) -> int | None:
    """The broker id in a `server.properties`, None where it has none."""
    settings = _settings(text)
    stated = settings.get("node.id", settings.get("broker.id", ""))
    return as_int(stated)


def server_properties_events(
    text: str, cluster: str, source_id: str, ts: int, broker_id: int | None = None
) -> pa.Table:
    """The `config` events of a `server.properties` in the schema EVENTS.

    `ts` in microseconds since 1970. A setting that is absent or not a number makes no event; without a broker id, in
    the text or as argument, there are none.
    """
    settings = _settings(text)
    broker = node_id(text) if broker_id is None else broker_id
    events = EventBuilder(len(_SETTINGS), PartitionStates(True), TopicIds())
    for key, column in _SETTINGS.items():
        if broker is not None and (value := as_int(settings.get(key, ""))) is not None:
            events.append("config", ts // 1000, broker, 0, **{column: value})
    if broker is not None and (rack := settings.get("broker.rack")):
        events.append("config", ts // 1000, broker, 0, replica_id=broker, detail=RACK + rack)
    return events.table(cluster, source_id) if events.count else EVENTS.empty_table()


def _settings(text: str) -> dict[str, str]:
    """Key and value of each line that is not a comment; the last of equal keys counts, as in Java."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.replace(":", "=", 1).split("=", 1) if "=" not in line else line.split("=", 1) for line in lines)
    return {p[0].strip(): p[1].strip() for p in pairs if len(p) == 2 and not p[0].startswith(("#", "!"))}


@dataclass(frozen=True)
class BrokerSettings:
    """The text of a broker's settings file, for rows of this source."""

    text: str
    cluster: str
    source_id: str

    @property
    def digest(self) -> str:
        """A digest of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def events(self, ts: int) -> pa.Table:
        """The settings as rows of the time `ts` (us)."""
        return server_properties_events(self.text, self.cluster, self.source_id, ts)


def settings_by_source(sources: Sequence[Source], cluster: str) -> dict[str, BrokerSettings]:
    """Settings by the source that has them: each broker's replication log, else its first source."""
    by_file: dict[Path, Source] = {}
    for source in sorted(sources, key=lambda one: "replication" not in one.series.live):
        if source.properties is not None:
            by_file.setdefault(source.properties, source)
    return {
        source.source_id: BrokerSettings(path.read_text(errors="replace"), cluster, source.source_id)
        for path, source in by_file.items()
    }
