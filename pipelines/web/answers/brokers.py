"""Brokers as tiles: the state of each in a word and a shape, by rack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.lake.queries import Row, View
from pipelines.web.answers.common import rows
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import brokers, partition_health

TILES, SQUARES = 24, 200
"""Up to so many brokers each has a tile, or a square; of more than that racks are counted."""
STATES = {
    "answers": ("ok", "answers"), "unfenced": ("ok", "unfenced"), "started": ("ok", "started"),
    "stopping": ("stopping", "stopping"), "controlled_shutdown": ("stopping", "stopping"),
    "no_answer": ("offline", "does not answer"), "fenced": ("offline", "fenced"), "down": ("offline", "down"),
    "not_reached": ("unknown", "not reached from here"),
    "not_in_metadata": ("under min ISR", "answers, but is not in the metadata"),
    "unregistered": ("ended", "unregistered"), "unknown": ("unknown", "unknown"),
}  # fmt: skip
"""The shape of a state, and its words."""
_FROM_PARTITIONS = """
SELECT cluster, broker_id, sum(leads) AS led, count(*) - sum(leads) AS followed, sum(CASE WHEN isr IS NULL THEN 0 WHEN
  array_has(isr, broker_id) THEN 0 ELSE 1 END) AS outside_isr,
  count(*) - count(isr) AS isr_unknown,
  sum(CASE WHEN array_has(out_of_sync, broker_id) THEN 1 ELSE 0 END) AS out_of_sync,
  sum(CASE WHEN stalled_ms > {stalled_ms} AND array_has(holding_replicas, broker_id)
    AND NOT coalesce({one_of}, false) THEN 1 ELSE 0 END) AS holds_back
FROM (SELECT *, CASE WHEN broker_id = leader_id THEN 1 ELSE 0 END AS leads
  FROM (SELECT cluster, unnest(ar) AS broker_id, leader_id, isr, out_of_sync, stalled_ms, holding_replicas, level
    FROM t WHERE {where}))
GROUP BY cluster, broker_id ORDER BY cluster, broker_id
"""


@dataclass(frozen=True)
class Tile:
    """One broker: its state as a shape and in words, and its counts."""

    cluster: str
    broker_id: int
    state: str
    words: str
    since: datetime | None
    rack: str | None
    led: int
    followed: int


@dataclass(frozen=True)
class Rack:
    """The brokers of a rack, those that do not answer first; None: the rack is not known."""

    rack: str | None
    brokers: Sequence[Tile]

    @property
    def sound(self) -> int:
        """The number of brokers that answer."""
        return sum(tile.state == "ok" for tile in self.brokers)


def broker_rows(reader: Reader, asked: Asked) -> tuple[list[Row], bool]:
    """Rows of gold/brokers; of a lake without it of the partitions, which know neither racks nor states."""
    wanted = asked.wanted
    where = wanted.where(View(brokers.TABLE, "ts", ""))
    found = rows(reader, brokers.TABLE, f"SELECT * FROM t WHERE {where} ORDER BY cluster, broker_id")
    if found:
        return found, True
    place = wanted.where(View(partition_health.TABLE, "last_event_ts", ""))
    sql = _FROM_PARTITIONS.format(where=place, one_of=partition_health.ONE_OF, stalled_ms=partition_health.STALLED_MS)
    return rows(reader, partition_health.TABLE, sql), False


def tile(row: Row) -> Tile:
    """A broker's row as a tile."""
    told = row.get("state")
    state, said = STATES.get(told or "unknown", ("unknown", str(told).replace("_", " ")))
    since = row.get("since") or row.get("state_ts")
    return Tile(row["cluster"], row["broker_id"], state, said if told else "state not known", since, row.get("rack"),
                row["led"], row["followed"])  # fmt: skip


def racks(found: Iterable[Row]) -> list[Rack]:
    """Brokers by rack, the known ones by name."""
    together: dict[str | None, list[Tile]] = {}
    for row in found:
        together.setdefault(row.get("rack"), []).append(tile(row))
    ordered = sorted(together.items(), key=lambda item: (item[0] is None, item[0] or ""))
    return [Rack(name, sorted(tiles, key=lambda one: (one.state == "ok", one.broker_id))) for name, tiles in ordered]


def quorum(found: Iterable[Row]) -> tuple[str, datetime | None]:
    """The last words about the controllers, and since when; empty if nobody asked."""
    told = [row for row in found if row.get("quorum")]
    last = max(told, key=lambda row: (row["quorum_since"] is not None, row["quorum_since"]), default=None)
    return (str(last["quorum"]).partition(": ")[2], last["quorum_since"]) if last else ("", None)
