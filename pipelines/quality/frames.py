"""SQL for DuckDB that selects the rows to judge: the new rows of a table, with differences as extra columns.

The SQL reads three views. `new_rows` has the new rows. `all_rows` has the new rows and the older rows that a frame
reads as context; `is_new` tells them apart. `measured` is one row: `new` is the number of new rows, `events` the number
of events with which quarantined rows are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pipelines.lake.changes import Change, of_files, rows_of
from pipelines.lake.lake import Lake
from pipelines.lake.queries import moment
from schemas.declaration import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from duckdb import DuckDBPyConnection

PORTION = 1_000_000
"""Rows judged at a time."""
MEMORY = "1GB"
"""What DuckDB may take; beyond that it sorts on disk, in the folder for temporary files."""


@dataclass(frozen=True)
class Frame:
    """The SQL of the rows to judge; `context`: how far back older rows are read with them."""

    sql: str
    context: timedelta | None = None


def _outside(replicas: str) -> str:
    """SQL: members of the ISR that are not among the assigned replicas; null where either is not known."""
    return f"len(list_filter(isr, lambda broker: NOT list_contains({replicas}, broker))) AS isr_outside_ar"


AS_IT_IS = Frame("SELECT * FROM new_rows")
"""The new rows."""
EVENTS = Frame(f"SELECT *, {_outside('replicas')} FROM new_rows")
"""isr_outside_ar: members of the ISR that are not assigned."""
HEALTH = Frame(f"SELECT *, {_outside('ar')}, hw - leader_leo AS hw_above_leo FROM new_rows")
"""isr_outside_ar as in `EVENTS`; hw_above_leo: offsets by which the HW exceeds the leader's LEO."""
VERDICTS = Frame("""
SELECT * FROM (
  SELECT * FROM new_rows
  QUALIFY row_number() OVER (PARTITION BY cluster, regression_id ORDER BY revision DESC NULLS LAST) = 1
) WHERE severity = 'critical'""")
"""The last revision of each new verdict of critical severity: a loss that is only possible is for the alerts."""

# Of a term and of one instant the lower HW is taken to be the earlier: rows of a table have no order. A report left
# over shows the value reconstructed then: lower than before where it had been one's only witness.
HW = Frame(
    """
SELECT *, hw - leader_leo AS hw_above_leo, CASE WHEN moves THEN hw - last_value(known IGNORE NULLS) OVER (
    PARTITION BY cluster, topic, topic_id, partition, leader_id, leader_epoch, term
    ORDER BY ts, kind <> 'term_start', hw NULLS FIRST, NOT is_new ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) END AS hw_step
FROM (
  SELECT *, kind IN ('advance', 'term_start') AND hw IS NOT NULL AS moves,
    CASE WHEN moves OR kind = 'report' THEN hw END AS known,
    count(*) FILTER (kind = 'term_start') OVER (
      PARTITION BY cluster, topic, topic_id, partition, leader_id, leader_epoch
      ORDER BY ts, kind <> 'term_start', hw NULLS FIRST, NOT is_new
    ) AS term
  FROM all_rows
) QUALIFY is_new""",
    context=timedelta(hours=1),
)
"""hw_step: what the HW rose since the row before in its term, the first new one included; hw_above_leo as in
`HEALTH`."""

QUARANTINE_SHARE = Frame("""
SELECT new AS quarantined, events, new / greatest(events, new) AS share, (
  SELECT string_agg(concat(reason, ': ', number), '; ' ORDER BY number DESC, reason) FROM (
    SELECT reason, count(*) AS number FROM (SELECT unnest(reasons) AS reason FROM new_rows)
    GROUP BY reason ORDER BY number DESC, reason LIMIT 5
  )) AS reasons
FROM measured""")
"""One row: quarantined, events, share of the two, and the reasons with the number of rows they are given for."""


@dataclass(frozen=True)
class Rows:
    """Rows to judge: the view `judged` in a database of its own; `sample` are the columns that show a row."""

    connection: DuckDBPyConnection
    sample: Sequence[str]
    _asked: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def pieces(self) -> Iterator[pa.Table]:
        """The rows, as many at a time as fit a frame, however many files they are from."""
        import pyarrow as pa

        batches: list[pa.RecordBatch] = []
        for batch in self.connection.sql("SELECT * FROM judged").to_arrow_reader(PORTION):
            batches.append(batch)
            if sum(map(len, batches)) >= PORTION:
                yield pa.Table.from_batches(batches)
                batches = []
        if batches:
            yield pa.Table.from_batches(batches)

    def ask(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a query, which is run once."""
        if (known := f"{query}{parameters}") not in self._asked:
            found = self.connection.sql(query, params=parameters or None).to_arrow_table()
            self._asked[known] = [tuple(row.values()) for row in found.to_pylist()]
        return self._asked[known]


@dataclass(frozen=True)
class New:
    """The new rows of one table of a lake; `events` is the number of events they are measured by.

    `has_declared`: its files can be read by its declared schema (`table.has_declared`).
    """

    lake: Lake
    table: Table
    change: Change
    events: int
    has_declared: bool = True

    @contextmanager
    def open_frame(self, frame: Frame, columns: Sequence[str], sample: Sequence[str]) -> Iterator[Rows]:
        """The rows of a frame, these columns of them."""
        import duckdb

        with (
            TemporaryDirectory(prefix="hwmark-check-") as scratch,
            duckdb.connect(config={"temp_directory": scratch, "memory_limit": MEMORY}) as connection,
        ):
            connection.execute("SET enable_progress_bar = false")  # it goes to stdout
            self._register(connection, frame)
            names = ", ".join(f'"{name}"' for name in dict.fromkeys([*columns, *sample]))
            connection.execute(f"CREATE VIEW judged AS SELECT {names} FROM ({frame.sql})")
            yield Rows(connection, sample)

    def rows(self) -> ds.Dataset:
        """The new rows."""
        return rows_of(self.lake, self.table, self.change, has_declared=self.has_declared)

    def _register(self, connection: DuckDBPyConnection, frame: Frame) -> None:
        connection.register("new_rows", self.rows())
        connection.execute(f"CREATE VIEW measured AS SELECT {self.change.rows} AS new, {self.events} AS events")
        every = "SELECT *, true AS is_new FROM new_rows"
        if frame.context is not None and self.change.files is not None:
            [(first,)] = connection.sql("SELECT epoch_us(min(ts)) FROM new_rows").fetchall()
            start = moment(first) - frame.context
            older = of_files(self.lake, self.table, self.change, wanted=False)
            connection.register("older_rows", older)
            every += f" UNION ALL SELECT *, false FROM older_rows WHERE ts >= TIMESTAMPTZ '{start.isoformat()}'"
        connection.execute(f"CREATE VIEW all_rows AS {every}")
