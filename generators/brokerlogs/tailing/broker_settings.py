"""The settings file of a broker, which becomes rows whenever it has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from generators.brokerlogs.discovery.server_properties import server_properties_events
from generators.brokerlogs.discovery.sources import Source


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
