"""Great Expectations' engine for a range of rows that fits no frame: rows in pieces, whole sets by SQL.

The library's expectations ask an engine for metrics and judge those. Here counts of rows and lists of unexpected ones
are its own, of each piece, and added up; what is a value of the whole set, such as a mean, is a query in DuckDB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from great_expectations.datasource.fluent import PandasDatasource
from great_expectations.exceptions import MetricResolutionError
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.pandas_batch_data import PandasBatchData
from great_expectations.expectations import core
from great_expectations.validator.metric_configuration import MetricConfiguration

from pipelines.quality.suites import columns_in
from pipelines.quality.validation import SAMPLES

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.quality.frames import Rows

LATER = object()
"""A metric that is one value per row: it is computed for each piece."""
PER_ROW = (".condition", ".map")
COUNTS = (".unexpected_count", ".filtered_row_count")
LISTS = (".unexpected_values", ".unexpected_index_list")
FROM_METRICS = (
    "table.columns", "table.column_types", "table.column_count", "column.unique_proportion",
    "column.non_null_proportion",
)  # fmt: skip
"""Metrics that need no row, only the columns or other metrics."""
UNIQUE = ("column_values.unique.", "compound_columns.unique.")

COUNTED = "SELECT {c} AS v, count(*) AS n FROM {rows} WHERE {c} IS NOT NULL GROUP BY v"
WANTED = "SELECT unnest(CAST($value_set AS {type}[])) AS v"
UNEXPECTED = f"SELECT {{c}} AS v FROM {{rows}} WHERE {{c}} IS NOT NULL EXCEPT {WANTED}"
MISSING = f"{WANTED} EXCEPT SELECT {{c}} FROM {{rows}}"
LISTED = "SELECT coalesce(list(v), []) FROM"
SETS = {
    "table.row_count": "SELECT count(*) FROM {rows}",
    "column.non_null_count": "SELECT count({c}) FROM {rows}",
    "column.max": "SELECT max({c}) FROM {rows}",
    "column.min": "SELECT min({c}) FROM {rows}",
    "column.mean": "SELECT avg({c}) FROM {rows}",
    "column.sum": "SELECT coalesce(sum({c}), 0) FROM {rows}",
    "column.standard_deviation": "SELECT stddev_samp({c}) FROM {rows}",
    "column.distinct_values.count": f"SELECT count(*) FROM ({COUNTED})",
    "column.most_common_value": f"WITH c AS ({COUNTED}) {LISTED} c WHERE n = (SELECT max(n) FROM c)",
    "column.distinct_values.not_in_set.count": f"SELECT count(*) FROM ({UNEXPECTED})",
    "column.distinct_values.not_in_set": f"{LISTED} ({UNEXPECTED} ORDER BY v LIMIT {SAMPLES})",
    "column.distinct_values.missing_from_column.count": f"SELECT count(*) FROM ({MISSING})",
    "column.distinct_values.missing_from_column": f"{LISTED} ({MISSING} ORDER BY v LIMIT {SAMPLES})",
}
"""Metrics of the whole set: {c} is the column of that type, {rows} the rows that meet the condition."""


class RangeEngine(PandasExecutionEngine):  # type: ignore[misc]
    """Computes metrics of `rows`; its batch is a frame of their columns without a row."""

    rows: ClassVar[Rows]

    def resolve_metrics(
        self, metrics_to_resolve: Iterable[Any], metrics: Any = None, runtime_configuration: Any = None
    ) -> dict[Any, Any]:
        """Return the value of each metric by its id."""
        known, values, of_rows = metrics or {}, {}, []
        for metric in metrics_to_resolve:
            name = metric.metric_name
            if name.endswith(PER_ROW):
                values[metric.id] = LATER
            elif name.endswith(".unexpected_index_query"):
                values[metric.id] = None
            elif name in SETS or name.startswith(("column.quantile_values", "column.median", *UNIQUE)):
                values[metric.id] = self._of_set(metric)
            elif name.endswith((*COUNTS, *LISTS)):
                of_rows.append(metric)
            elif name in FROM_METRICS:
                values |= super().resolve_metrics([metric], known, runtime_configuration)
            else:
                raise MetricResolutionError(f"{name} is computed neither in pieces nor by SQL", [metric])
        return values | (self._of_rows(of_rows, known, runtime_configuration) if of_rows else {})

    def _of_rows(self, wanted: list[Any], known: Mapping[Any, Any], configuration: Any) -> dict[Any, Any]:
        """The metrics that are added up over pieces."""
        sums: dict[Any, Any] = {metric.id: 0 if metric.metric_name.endswith(COUNTS) else [] for metric in wanted}
        lists: dict[Any, pa.Table] = {}
        failing = wanted
        try:
            for piece in self._pieces():
                here = {key: value for key, value in known.items() if value is not LATER}
                for metric in wanted:
                    failing = [metric]
                    found = self._of_piece(_of_all(metric, len(piece)), here, configuration)
                    if metric.metric_name.endswith(".unexpected_index_list"):
                        columns = dict.fromkeys([*self.rows.sample, *columns_in(metric.metric_domain_kwargs)])
                        if found:
                            lists[metric.id] = _first(piece.select([*columns]).take(found), lists.get(metric.id))
                        continue
                    both = sums[metric.id] + found
                    sums[metric.id] = both[:SAMPLES] if isinstance(both, list) else both
                failing = wanted
        # The library passes over an error of another kind, or about a metric that it did not ask for, without a word.
        except Exception as error:
            raise MetricResolutionError(str(error), failing) from error
        return sums | {key: rows.to_pylist() for key, rows in lists.items()}

    def _of_piece(self, metric: Any, here: dict[Any, Any], configuration: Any) -> Any:
        """A metric of the piece that is the batch, as the library computes it, its dependencies first."""
        if metric.id not in here:
            for needed in metric.metric_dependencies.values():
                self._of_piece(needed, here, configuration)
            here |= super().resolve_metrics([metric], here, configuration)
        return here[metric.id]

    def _pieces(self) -> Iterator[pa.Table]:
        """Pieces of the rows, each one the batch while it is used."""
        batch, empty = self.batch_manager.active_batch_data_id, self.dataframe
        try:
            for piece in self.rows.pieces():
                self.load_batch_data(batch, PandasBatchData(self, piece.select(list(empty.columns)).to_pandas()))
                yield piece
        finally:
            self.load_batch_data(batch, PandasBatchData(self, empty))

    def _of_set(self, metric: Any) -> Any:
        """A metric of the whole set, or of all rows that meet its condition."""
        domain, kwargs = metric.metric_domain_kwargs, metric.metric_value_kwargs
        column = _quoted(domain.get("column", ""))
        try:
            rows = self._meeting({k: domain[k] for k in ("row_condition", "condition_parser") if domain.get(k)})
            if metric.metric_name.startswith(UNIQUE):
                return self._duplicates(metric.metric_name.rpartition(".")[2], domain, rows)
            if metric.metric_name == "column.median":
                return self._quantile(column, rows, 0.5, "linear")
            if metric.metric_name == "column.quantile_values":
                how = kwargs.get("allow_relative_error") or "nearest"
                return [self._quantile(column, rows, share, how) for share in kwargs["quantiles"]]
            values = {"value_set": [*kwargs["value_set"]]} if "value_set" in kwargs else {}
            kind = self.rows.connection.sql(f"SELECT {column} FROM judged").types[0] if values else None
            ((value,),) = self.rows.ask(SETS[metric.metric_name].format(c=column, rows=rows, type=kind), values)
        except Exception as error:
            raise MetricResolutionError(str(error), [metric]) from error
        return value

    def _meeting(self, condition: dict[str, Any]) -> str:
        """The relation of the rows that meet a condition of pandas, which DuckDB could not evaluate."""
        if not condition:
            return "judged"
        into, table = self.rows.connection.cursor(), _quoted(str(condition))
        if not into.execute("FROM duckdb_tables() WHERE table_name = ?", [str(condition)]).fetchall():
            for piece in self._pieces():
                into.register("kept", piece.take(self.get_domain_records(condition).index.to_numpy()))
                into.execute(f"CREATE TABLE IF NOT EXISTS {table} AS FROM kept LIMIT 0; INSERT INTO {table} FROM kept")
        return table

    def _duplicates(self, wanted: str, domain: Mapping[str, Any], rows: str) -> Any:
        """Counts and samples of rows whose values are not unique."""
        columns = columns_in(domain)
        null = [f"{_quoted(column)} IS NULL" for column in columns]
        ignored = {"never": "false", "any_value_is_missing": " OR ".join(null)}
        there = f"FROM {rows} WHERE NOT ({ignored.get(domain.get('ignore_row_if', ''), ' AND '.join(null))})"
        names = ", ".join(map(_quoted, columns))
        if wanted == "filtered_row_count":
            return self.rows.ask(f"SELECT count(*) {there}")[0][0]
        twice = f"SELECT {names}, count(*) AS rows {there} GROUP BY {names} HAVING count(*) > 1"
        found = self.rows.ask(f"SELECT *, sum(rows) OVER () FROM ({twice}) ORDER BY rows DESC, {names} LIMIT {SAMPLES}")
        if wanted == "unexpected_count":
            return int(found[0][-1]) if found else 0
        if wanted == "unexpected_index_list":
            return [dict(zip((*columns, "rows"), row, strict=False)) for row in found]
        return [row[0] if "column" in domain else dict(zip(columns, row, strict=False)) for row in found]

    def _quantile(self, column: str, rows: str, share: float, how: str) -> Any:
        """As pandas interpolates it, from the values that the quantile lies between."""
        import pandas as pd

        there = f"FROM {rows} WHERE {column} IS NOT NULL"
        ((count,),) = self.rows.ask(f"SELECT count(*) {there}")
        if not count:
            return None
        place = share * (count - 1)
        first = math.floor(place) // 2 * 2  # the nearest of two that are as near is the even one
        near = self.rows.ask(f"SELECT {column} {there} ORDER BY {column} LIMIT 3 OFFSET {first}")
        values = pd.Series([value for (value,) in near])
        return values.quantile([(place - first) / max(len(values) - 1, 1)], how).tolist()[0]


class ExpectColumnQuantileValuesToBeBetween(core.ExpectColumnQuantileValuesToBeBetween):  # type: ignore[misc]
    """Takes the place of the library's, which as of 1.24.1 leaves a bool of numpy that its store cannot write."""

    def _validate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        found = super()._validate(*args, **kwargs)
        return {**found, "success": bool(found["success"])}


@contextmanager
def judging(rows: Rows, columns: Sequence[str]) -> Iterator[Any]:
    """Has frames judged as these rows, of these columns; the frame to give the library."""
    RangeEngine.rows, PandasDatasource.execution_engine_override = rows, RangeEngine
    try:
        yield rows.connection.sql("SELECT * FROM judged LIMIT 0").to_arrow_table().select(list(columns)).to_pandas()
    finally:
        PandasDatasource.execution_engine_override = None
        del RangeEngine.rows


def _of_all(metric: Any, rows: int) -> Any:
    """The metric for all unexpected rows of a piece with so many, if it lists only the first."""
    if not metric.metric_name.endswith(".unexpected_index_list"):
        return metric
    asked = {**metric.metric_value_kwargs["result_format"], "partial_unexpected_count": rows}
    whole = MetricConfiguration(
        metric.metric_name, metric.metric_domain_kwargs, {**metric.metric_value_kwargs, "result_format": asked}
    )
    whole.metric_dependencies = metric.metric_dependencies
    return whole


def _first(rows: pa.Table, others: pa.Table | None) -> pa.Table:
    """Return the first SAMPLES of these rows by their values: a table has no order, and a rebuild another one."""
    import pyarrow as pa

    both = rows if others is None else pa.concat_tables([others, rows])
    by = [(column.name, "ascending") for column in both.schema if not pa.types.is_nested(column.type)]
    return (both.sort_by(by) if by else both).slice(0, SAMPLES)


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
