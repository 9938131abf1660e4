"""Log lines as tests write them, and the events they become."""

from typing import Any

from generators.brokerlogs.parsing.parser import SourceParser

T0 = 1795224426000
PARTITION, STATE = "kafka.cluster.Partition", "state.change.logger"
ALTER, FETCHER = "kafka.server.DefaultAlterPartitionManager", "kafka.server.ReplicaFetcherThread"
LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
CONTROLLER = "org.apache.kafka.controller.ReplicationControlManager"
ID = "8x30CauwR6S1Ou0qiySY3A"


def line(message: str, logger: str = PARTITION, ms: int = 0, thread: str = "handler-1", sn: int | None = None) -> str:
    """One line in the pattern with threads; `ms` after T0."""
    number = "" if sn is None else f"{sn}|"
    return f"{T0 + ms}|{thread}|DEBUG|{logger}|{number}{message}\n"


def partition(message: str, name: str = "orders-1", broker: int = 1) -> str:
    return f"[Partition {name} broker={broker}] {message}"


def recorded(replica: int, leo: int, **at: Any) -> str:
    name = at.pop("name", "orders-1")
    text = f"Recorded replica {replica} log end offset (LEO) position {leo} and log start offset 0."
    return line(partition(text, name), **at)


def advanced(before: int, after: int, **at: Any) -> str:
    name = at.pop("name", "orders-1")
    text = f"High watermark updated from (offset={before}, segment=[0:7]) to (offset={after}, segment=[0:9])"
    return line(partition(text, name), **at)


def skipped(leos: dict[int, int], **at: Any) -> str:
    name = at.pop("name", "orders-1")
    reported = ", ".join(f"replica {r}: (offset={o}, segment=[0:{o}])" for r, o in leos.items())
    text = "Skipping update high watermark since new hw (offset=0, segment=[0:0]) is not larger than old value. "
    return line(partition(f"{text}All current LEOs are Set({reported})", name), **at)


def leader(leo: int = 0, hw: int = 0, isr: str = "1,2,3", epoch: int = 0, name: str = "orders-1", **at: Any) -> str:
    text = (
        f"[Broker id=1] Leader {name} with topic id Some({ID}) starts at leader epoch {epoch} from offset {leo} with "
        f"partition epoch {epoch}, high watermark {hw}, ISR [{isr}], adding replicas [] and removing replicas [] . "
        "Previous leader None and previous leader epoch was -1."
    )
    return line(text, STATE, **at)


def events(*lines: str, **settings: Any) -> list[dict[str, Any]]:
    """Events of these lines without the columns that say nothing; ts in ms after T0."""
    parser = SourceParser("c", "s", **settings)
    return plain(parser.feed("".join(lines).encode(), last=True))


def plain(table: Any) -> list[dict[str, Any]]:
    """Rows as dictionaries without nulls, cluster and source; ts in ms after T0."""
    rows = [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]
    for row in rows:
        del row["cluster"], row["source_id"]
        row["ts"] = round(row["ts"].timestamp() * 1000) - T0
    return rows


def short(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """event_type and the named columns of each row."""
    return [(row["event_type"], *(row.get(c) for c in columns)) for row in rows]
