"""Rows as a watcher writes them, for tests: one source per broker, at level 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.unit.replication.bronze import Source

ISR = [1, 2, 3]


class Watched(Source):
    """What a watcher writes of one broker; times in milliseconds of the watcher's clock."""

    def __init__(self, broker: int, source_epoch: int = 0, **columns: Any) -> None:
        super().__init__(f"watch/main/broker-{broker}", source_epoch, **{"level": 1, **columns})

    def seen(self, ms: float, leader: int, epoch: int, isr: list[int] = ISR, **more: Any) -> Watched:
        """The metadata that this broker answered with."""
        columns = {"replicas": ISR, "detail": "metadata", "ts_error_ms": 1000.0, **more}
        self.event(ms, "isr", leader_id=leader, leader_epoch=epoch, isr=isr, **columns)
        return self

    def began(self, ms: float, epoch: int, leo: int, isr: list[int] = ISR, **more: Any) -> Watched:
        """This broker leads in an epoch that begins at `leo`; which HW it began with nobody says."""
        columns = {"leader_id": self.broker, "replicas": ISR, "replica_id": self.broker, "ts_error_ms": 1000.0, **more}
        self.event(ms, "leader", leader_epoch=epoch, leo=leo, hw=-1, isr=isr, **columns)
        return self

    def leads(
        self, ms: float, epoch: int, leo: int, hw: int | None, isr: list[int] = ISR, error: float = 1.0, **more: Any
    ) -> Watched:
        """The sample of the leader."""
        columns = {"leader_id": self.broker, "replicas": ISR, "detail": f"log_epoch={epoch}", **more}
        known = {"replica_id": self.broker, "leader_epoch": epoch, "isr": isr, "ts_error_ms": error}
        self.event(ms, "sample", leo=leo, hw=hw, **known, **columns)
        return self

    def follows(self, ms: float, leo: int, log_epoch: int = 0, error: float = 1.0) -> Watched:
        """The sample of another replica."""
        detail = f"log_epoch={log_epoch}"
        self.event(ms, "sample", replica_id=self.broker, leo=leo, detail=detail, ts_error_ms=error)
        return self

    def unanswered(self, ms: float, detail: str = "not answered: LEADER_NOT_AVAILABLE") -> Watched:
        """The replica was asked for and not answered."""
        self.event(ms, "lost", replica_id=self.broker, detail=detail, ts_error_ms=1.0)
        return self

    def hung(self, ms: float) -> Watched:
        """Rounds before this one were not answered at all."""
        self.event(ms, "lost", True, detail="asked 3 times without an answer: timed out")
        return self

    def round(self, *ms: float) -> Watched:
        """Rounds that were answered in full."""
        for at in ms:
            self.event(at, "progress", True, ts_error_ms=1.0)
        return self


def rounds(until: int, *watched: Watched, since: int = 1000, every: int = 1000) -> None:
    """Answered rounds of several brokers, besides their rows."""
    for one in watched:
        one.round(*range(since, until + 1, every))


def each_partition(count: int, *watched: Watched) -> Iterator[None]:
    """All of them at one partition after the other."""
    for partition in range(count):
        for one in watched:
            one.on(partition=partition)
        yield


def cluster(*brokers: int) -> list[Watched]:
    return [Watched(broker) for broker in brokers or (1, 2, 3)]


def in_time(*watched: Source) -> list[dict[str, Any]]:
    """All rows, those of each source renumbered by time: rounds may be added after the rows."""
    found = []
    for source in watched:
        rows = sorted(source.rows, key=lambda row: (row["ts"], row["event_type"] == "progress"))
        numbers: dict[tuple[Any, Any], int] = {}
        for number, row in enumerate(rows):
            place = (row["topic"], row["partition"])
            seq = numbers.get(place, 0)
            numbers[place] = seq + 1
            found.append(row | {"source_seq": number, "seq": seq})
    return found
