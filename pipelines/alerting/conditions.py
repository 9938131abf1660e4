"""Something wrong with one partition, replica or source, before grouping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from pipelines.alerting.state import NOT_KNOWN, RECORDING_ENDED
from pipelines.lake.queries import moment
from pipelines.verdict import words

SECOND = 1_000_000
"""Times of conditions are microseconds since 1970."""


@dataclass(frozen=True)
class Condition:
    """One item, what is wrong with it and since when; conditions of one cause become one alert.

    `fires` is when it may be reported, `seen` when it was last seen, `last` its end or, while `open`, the present. A
    state is seen until its end; an occurrence is seen once and stays reported until `last`.
    """

    rule: str
    cluster: str
    cause: str
    subject: str
    item: str
    first: int
    fires: int
    seen: int
    last: int
    open: bool
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether it holds now and must last longer to be reported."""
        return self.open and self.fires > self.last


class Ask(Protocol):
    """Rows of one SQL statement over the evidence; `$name` in it is a value."""

    def __call__(self, sql: str, **values: Any) -> list[dict[str, Any]]: ...


@contextmanager
def asking(tables: Mapping[str, pa.Table]) -> Iterator[Ask]:
    """Yield a function that queries these tables by name, in DuckDB."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET enable_progress_bar = false")  # it goes to stdout
        for name, table in tables.items():
            connection.register(name, table)
        yield lambda sql, **values: connection.sql(sql, params=values or None).to_arrow_table().to_pylist()


def partition(row: Mapping[str, Any]) -> str:
    """`orders-0`, as Kafka writes it."""
    return f"{row['topic']}-{row['partition']}"


def items(conditions: Iterable[Condition]) -> list[str]:
    """The items of the conditions, each once."""
    return sorted({c.item for c in conditions}, key=lambda item: (len(item), item))


def subjects(conditions: Iterable[Condition]) -> list[str]:
    """The subjects of the conditions, each once."""
    return sorted({c.subject for c in conditions}, key=lambda name: (len(name), name))


def missing_brokers(conditions: Iterable[Condition]) -> list[int]:
    """The brokers because of which a state holds."""
    return sorted({broker for c in conditions for broker in c.facts["missing"]})


def counted_partitions(conditions: Sequence[Condition]) -> str:
    """`3 partitions`."""
    return words.count(len(items(conditions)), "partition")


def ended_recording(conditions: Iterable[Condition]) -> str:
    """`recording ended, then: ` if the recording has ended, else empty."""
    return f"{RECORDING_ENDED}, then: " if any(c.facts["over"] for c in conditions) else ""


def not_known_since(at: int) -> str:
    """The `reason` of an open state whose rows retention removed, so that no end of it can show; `at`: microseconds."""
    return f"{NOT_KNOWN} {words.clock(moment(at))}: its rows are not kept any more"


def lost_range(condition: Condition) -> str:
    """`orders-0 [120, 300)` if offsets are lost, else empty."""
    lost_from, lost_to = condition.facts.get("lost_from"), condition.facts.get("lost_to")
    return "" if lost_from is None or lost_to is None else f"{condition.item} [{lost_from}, {lost_to})"
