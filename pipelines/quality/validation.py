"""Great Expectations at work: a suite and the rows that it is judged on to the library's results."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import UsageError
from pipelines.lake.table import is_missing_file
from pipelines.quality.suites import NAME, Suite

if TYPE_CHECKING:
    from pipelines.quality.frames import Rows

SAMPLES = 5
"""Failed rows shown."""
DETAILS = {"result_format": "SUMMARY", "partial_unexpected_count": SAMPLES, "return_unexpected_index_query": False}


class Library:
    """A context of Great Expectations: of the project in that folder, or one that keeps nothing.

    The library is imported, which takes seconds, when the first row is to be judged.
    """

    def __init__(self, project: str | None = None) -> None:
        self._project = project

    def judge(self, suite: Suite, rows: Rows, parameters: Mapping[str, Any], run: str) -> dict[str, Any]:
        """The library's result for each expectation of a suite, by its name.

        Raises UsageError if the library does not take them, and the error of reading if a file of the rows has gone.
        """
        context, source = self._context
        from great_expectations.core.run_identifier import RunIdentifier

        from pipelines.quality.engine import judging

        with judging(rows, suite.needed_columns) as frame:
            checkpoint = _checkpoint(suite, context, source, docs=self._project is not None)
            ran = checkpoint.run({"dataframe": frame}, dict(parameters), RunIdentifier(run_name=run))
        (judged,) = ran.run_results.values()
        for result in judged.results:
            if is_missing_file(error := OSError(error_of(result))):
                raise error
        return {result.expectation_config.meta[NAME]: result for result in judged.results}

    @property
    def data_docs(self) -> str | None:
        """The page of the Data Docs to begin with; None if nothing is kept, or was judged."""
        if self._project is None or "_context" not in vars(self):
            return None
        return next((site["site_url"] for site in self._context[0].get_docs_sites_urls()), None)

    @cached_property
    def _context(self) -> tuple[Any, Any]:
        """The context and its source of data."""
        # Read when the library is imported, which would send usage events without it.
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        logging.getLogger("great_expectations").setLevel(logging.CRITICAL)  # it explains itself on every call
        # The library looks whether there is Spark Connect, whose import ends a process that has no main file, as of
        # `python -c`, with status 0.
        connect = sys.modules.get("pyspark.sql.connect")
        sys.modules["pyspark.sql.connect"] = None  # type: ignore[assignment]
        import great_expectations as gx

        del sys.modules["pyspark.sql.connect"]
        if connect is not None:
            sys.modules["pyspark.sql.connect"] = connect
        from great_expectations.data_context.types.base import ProgressBarsConfig

        if self._project is not None:
            Path(self._project).mkdir(parents=True, exist_ok=True)
        kept = {"mode": "file", "project_root_dir": self._project} if self._project else {"mode": "ephemeral"}
        context = gx.get_context(**kept)
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        return context, context.data_sources.add_or_update_pandas("lake")


def _checkpoint(suite: Suite, context: Any, source: Any, docs: bool) -> Any:
    """The Checkpoint of a suite, with its Data Docs as action if there is a project."""
    import great_expectations as gx
    from great_expectations.checkpoint import UpdateDataDocsAction

    name, title = f"{suite.name}{suite.part}", f"{suite.name} of {suite.table.path.replace('/', '.')}{suite.part}"
    if title in source.get_asset_names():  # judged once more, or in a project
        source.delete_asset(title)
    data = source.add_dataframe_asset(title)
    try:
        made = gx.ExpectationSuite(name=name, expectations=suite.arguments)
    except Exception as error:  # of the library's own model, whose errors have no common class
        raise UsageError(f"suite {suite.path} is none of Great Expectations: {one_line(error)}") from error
    if len(made.expectations) != len(suite.expectations):
        raise UsageError(f"suite {suite.path} has an expectation that Great Expectations does not take (--debug)")
    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(
            name=title,
            data=data.add_batch_definition_whole_dataframe("new rows"),
            suite=context.suites.add_or_update(made),
        )
    )
    actions = [UpdateDataDocsAction(name="Data Docs")] if docs else []
    return context.checkpoints.add_or_update(
        gx.Checkpoint(name=title, validation_definitions=[definition], actions=actions, result_format=DETAILS)
    )


def error_of(result: Any) -> str | None:
    """The message of an expectation that could not be judged at all, which is not the same as one that failed."""
    info = result.exception_info or {}  # one, or one for each metric
    raised = [one for one in (info, *info.values()) if isinstance(one, dict) and one.get("raised_exception")]
    return str(raised[0]["exception_message"]) if raised else None


def one_line(error: object) -> str:
    """The message of an error, or its type."""
    return " ".join(str(error).split())[:300] or type(error).__name__
