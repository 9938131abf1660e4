"""Who holds back whom: brokers, and racks where they are known, as a matrix of partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.lake.queries import Row, text
from pipelines.verdict.records import Condition
from pipelines.web.answers.common import rows, standings
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import brokers

SIDE = 16
"""Rows and columns that are shown; the others are counted."""
NOBODY = "nobody leads"


@dataclass(frozen=True)
class Cell:
    """Partitions of one leader that one broker holds back: how many in which condition, the worst first."""

    counts: Mapping[str, int]

    @property
    def worst(self) -> str:
        return next(iter(self.counts), "")


@dataclass(frozen=True)
class Matrix:
    """`cells` by the broker (or rack) that is the cause, then by the one that leads."""

    of: str
    causes: Sequence[str]
    leaders: Sequence[str]
    cells: Mapping[str, Mapping[str, Cell]]
    left_out: int = 0


def matrices(reader: Reader, asked: Asked) -> list[Matrix]:
    """Brokers of the cluster asked for, and its racks where `gold/brokers` knows any; none where all are in sync."""
    select = "condition, leader_id, who, count(*) AS partitions"
    found = standings(
        reader, asked, select, "rank < 5 AND NOT unknown", "GROUP BY condition, leader_id, who ORDER BY condition, who"
    )
    if not found:
        return []
    racks = racks_of(reader, asked)
    by_broker = matrix("broker", found, {})
    return [by_broker, matrix("rack", found, racks)] if racks else [by_broker]


def racks_of(reader: Reader, asked: Asked) -> dict[int, str]:
    """The racks of brokers, as far as they are known."""
    where = f"cluster = {text(asked.cluster)}" if asked.cluster is not None else "true"
    sql = f"SELECT broker_id, rack FROM t WHERE rack IS NOT NULL AND {where} ORDER BY broker_id"
    return {row["broker_id"]: row["rack"] for row in rows(reader, brokers.TABLE, sql)}


def matrix(of: str, found: Sequence[Row], racks: Mapping[int, str]) -> Matrix:
    """The matrix of groups of partitions; `racks` are empty for one of brokers."""
    counts: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for row in found:
        leader = _name(row["leader_id"], racks)
        for cause in {_name(int(broker), racks) for broker in row["who"].split(",") if broker}:
            counts[cause][leader][row["condition"]] += row["partitions"]
    totals = {cause: sum(sum(cell.values()) for cell in line.values()) for cause, line in counts.items()}
    causes = sorted(counts, key=lambda cause: (-totals[cause], _order(cause)))
    leaders = sorted({leader for line in counts.values() for leader in line}, key=_order)
    cells = {
        cause: {
            leader: Cell({c.value: counts[cause][leader][c.name] for c in Condition if c.name in counts[cause][leader]})
            for leader in leaders[:SIDE]
            if leader in counts[cause]
        }
        for cause in causes[:SIDE]
    }
    left_out = max(0, len(causes) - SIDE) + max(0, len(leaders) - SIDE)
    return Matrix(of, causes[:SIDE], leaders[:SIDE], cells, left_out)


def _name(broker: int | None, racks: Mapping[int, str]) -> str:
    if broker is None or broker < 0:
        return NOBODY
    return racks.get(broker, "rack not known") if racks else str(broker)


def _order(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.isdigit() else (1, 0, name)
