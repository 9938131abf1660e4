"""`server.properties` of a broker: what no log line says, `replica.lag.time.max.ms` above all."""

from __future__ import annotations

import pyarrow as pa

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.events.source_state import Known

_SETTINGS = {"min.insync.replicas": "min_isr", "replica.lag.time.max.ms": "lag_max_ms"}


def node_id(text: str) -> int | None:
    """The broker id that a `server.properties` names."""
    settings = _settings(text)
    said = settings.get("node.id", settings.get("broker.id", ""))
    return int(said) if said.isdecimal() else None


def server_properties_events(
    text: str, cluster: str, source_id: str, ts: int, broker_id: int | None = None
) -> pa.Table:
    """The `config` events of a `server.properties` in the schema EVENTS.

    `ts` in microseconds since 1970. A setting that is absent or no number tells nothing; neither do settings of a
    broker whose id is neither in the text nor given.
    """
    settings = _settings(text)
    broker = node_id(text) if broker_id is None else broker_id
    telling = Telling(len(_SETTINGS), Known(True), [])
    for key, column in _SETTINGS.items():
        if broker is not None and settings.get(key, "").isdecimal():
            telling.tell("config", ts // 1000, broker, 0, **{column: int(settings[key])})
    return telling.table(cluster, source_id) if telling.count else EVENTS.empty_table()


def _settings(text: str) -> dict[str, str]:
    """Key and value of each line that is not a comment; the last one counts, as in Java."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.replace(":", "=", 1).split("=", 1) if "=" not in line else line.split("=", 1) for line in lines)
    return {p[0].strip(): p[1].strip() for p in pairs if len(p) == 2 and not p[0].startswith(("#", "!"))}
