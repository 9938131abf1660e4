"""Suites of the user's own, judged as Great Expectations judges them, and kept as a project of it on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import UsageError
from pipelines.quality.own_suites import OwnExpectation, OwnSuite
from pipelines.quality.validation import DETAILS, SAMPLES, Outcome, error_of, library, no_bars, outcome, quiet

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "hwmark"
"""Under this key an expectation's metadata has its name."""


class OwnValidator:
    """One context of Great Expectations; `project`: the folder of one that keeps suites, results and Data Docs."""

    def __init__(self, project: str | None = None) -> None:
        self._project = project
        self._used = False

    def validate(self, suite: OwnSuite, portions: Iterable[pa.Table], run: str) -> list[Outcome]:
        """Judges the rows, portion by portion: an expectation holds where it holds for each. `run` names the run.

        Raises UsageError naming an expectation that cannot be judged.
        """
        found: dict[str, Outcome] = {}
        with quiet():
            definition = self._definition(suite)
            for rows in portions:
                for name, now in self._judge(suite, definition, rows, run):
                    found[name] = _joined(found[name], now) if name in found else now
        return [found.get(expected.name, outcome(expected.name, 0, ())) for expected in suite.expectations]

    def data_docs(self) -> str | None:
        """Builds the Data Docs of the project; the page to begin with. None where nothing is kept, or was judged."""
        if self._project is None or not self._used:
            return None
        with quiet():
            sites = self._context.build_data_docs()
        return next(iter(sites.values()), None)

    def _definition(self, suite: OwnSuite) -> Any:
        """What the library runs: the suite, for a batch of rows of its table."""
        gx = library()
        self._used = True
        expected = [
            {"type": one.type, "kwargs": dict(one.kwargs), "meta": {**one.meta, NAME: one.name}}
            for one in suite.expectations
        ]
        try:
            made = gx.ExpectationSuite(name=suite.name, expectations=expected)
        except Exception as error:  # of the library's own model, whose errors have no common class
            raise UsageError(f"suite {suite.path} is none of Great Expectations: {_one_line(error)}") from error
        if len(made.expectations) != len(expected):
            raise UsageError(f"suite {suite.path} has an expectation that Great Expectations does not take (--debug)")
        title = f"{suite.name} of {_key(suite)}"
        data = self._source.add_dataframe_asset(title).add_batch_definition_whole_dataframe("new rows")
        wanted = gx.ValidationDefinition(name=title, data=data, suite=self._context.suites.add_or_update(made))
        return self._context.validation_definitions.add_or_update(wanted)

    def _judge(self, suite: OwnSuite, definition: Any, rows: pa.Table, run: str) -> Iterator[tuple[str, Outcome]]:
        from great_expectations.core.run_identifier import RunIdentifier

        judged = definition.run(
            batch_parameters={"dataframe": rows.to_pandas()}, result_format=DETAILS, run_id=RunIdentifier(run_name=run)
        )
        by_name = {result.expectation_config.meta[NAME]: result for result in judged.results}
        for expected in suite.expectations:
            result = by_name[expected.name]
            if (error := error_of(result)) is not None:
                raise UsageError(f"suite {suite.path}: {expected.name} cannot be judged on {suite.table.path}: {error}")
            yield expected.name, _outcome(expected, result, rows)

    @cached_property
    def _context(self) -> Any:
        gx = library()
        if self._project is None:
            context = gx.get_context(mode="ephemeral")
        else:
            Path(self._project).mkdir(parents=True, exist_ok=True)
            context = gx.get_context(mode="file", project_root_dir=self._project)
        context.variables.progress_bars = no_bars()
        return context

    @cached_property
    def _source(self) -> Any:
        return self._context.data_sources.add_or_update_pandas("lake")


def _outcome(expected: OwnExpectation, result: Any, rows: pa.Table) -> Outcome:
    """The library's result for one expectation, with a few of the rows that it did not expect."""
    details = result.result
    shown = [
        *dict.fromkeys(
            (*(n for n in ("cluster", "topic", "partition", "ts") if n in rows.column_names), *expected.columns)
        )
    ]
    unexpected = int(details.get("unexpected_count") or 0)
    where = [index for index in details.get("partial_unexpected_index_list") or () if isinstance(index, int)][:SAMPLES]
    sample = rows.select(shown).take(where).to_pylist() if where else []
    observed = details.get("observed_value")
    words = None if observed is None else f"{observed} observed in"
    base = outcome(expected.name, unexpected, sample)
    return Outcome(base.expectation, bool(result.success), unexpected, base.sample if sample else None, words)


def _joined(before: Outcome, now: Outcome) -> Outcome:
    """One outcome of two portions: of what was observed that which failed, or else the last."""
    return Outcome(
        now.expectation,
        before.success and now.success,
        before.unexpected + now.unexpected,
        before.sample or now.sample,
        now.observed if before.success else before.observed,
    )


def _key(suite: OwnSuite) -> str:
    """The table in names that become files."""
    return suite.table.path.replace("/", ".")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
