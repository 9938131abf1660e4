"""Great Expectations at work: rows and the expectations on them to outcomes."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.quality.suites import Expectation

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLES = 5
"""Failed rows shown."""
DETAILS = {"result_format": "SUMMARY", "partial_unexpected_count": SAMPLES}


@dataclass(frozen=True)
class Outcome:
    """Whether an expectation held; if not, on how many rows it did not, and a few of them as JSON.

    `observed`: of one about all rows together, what was observed, in words.
    """

    expectation: str
    success: bool
    unexpected: int = 0
    sample: str | None = None
    observed: str | None = None


@dataclass
class _Found:
    """The rows that failed an expectation so far: how many, and a few of them."""

    unexpected: int = 0
    sample: list[dict[str, Any]] = field(default_factory=list)


def outcome(expectation: str, unexpected: int, sample: Sequence[dict[str, Any]]) -> Outcome:
    """Of an expectation that this many rows failed."""
    shown = json.dumps(sample[:SAMPLES], default=str) if unexpected else None
    return Outcome(expectation, not unexpected, unexpected, shown)


class Validator:
    """One ephemeral context of Great Expectations, which writes nothing and phones nobody.

    The library is imported, which takes seconds, when the first row is to be judged.
    """

    def validate(
        self, portions: Iterable[pa.Table], expectations: Sequence[Expectation], sample: Sequence[str]
    ) -> list[Outcome]:
        """Judges the rows, portion by portion; of those that fail the columns of `sample` are shown."""
        found = {expected.name: _Found() for expected in expectations}
        for rows in portions:
            for expected, result in zip(expectations, self._judge(rows, expectations), strict=True):
                if not result["success"]:
                    so_far, shown = found[expected.name], [*dict.fromkeys((*sample, expected.column))]
                    so_far.unexpected += result["unexpected_count"]
                    failed = result["partial_unexpected_index_list"][: SAMPLES - len(so_far.sample)]
                    so_far.sample += rows.select(shown).take(failed).to_pylist() if failed else []
        return [outcome(name, rows.unexpected, rows.sample) for name, rows in found.items()]

    def _judge(self, rows: pa.Table, expectations: Sequence[Expectation]) -> Iterator[dict[str, Any]]:
        """The library's result for each expectation. Raises RuntimeError naming one that could not be judged."""
        frame = rows.select([*dict.fromkeys(expected.column for expected in expectations)]).to_pandas()
        with quiet():
            batch = self._frames.get_batch(batch_parameters={"dataframe": frame})
            results = batch.validate(_suite(expectations), result_format=DETAILS).results
        by_name = {result.expectation_config.meta["name"]: result for result in results}
        for expected in expectations:
            result = by_name[expected.name]
            if (error := error_of(result)) is not None:
                raise RuntimeError(f"expectation {expected.name} could not be judged: {error}")
            yield {**result.result, "success": result.success}

    @cached_property
    def _frames(self) -> Any:
        gx = library()
        with quiet():
            context = gx.get_context(mode="ephemeral")
            context.variables.progress_bars = no_bars()
            asset = context.data_sources.add_pandas("lake").add_dataframe_asset("new")
            return asset.add_batch_definition_whole_dataframe("rows")


def library() -> Any:
    """Great Expectations, imported as it has to be."""
    # Read when the library is imported, which would send usage events without it.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with _without("pyspark.sql.connect"):
        import great_expectations as gx
    return gx


def _suite(expectations: Sequence[Expectation]) -> Any:
    import great_expectations as gx

    return gx.ExpectationSuite(name="new", expectations=[_expectation(expected) for expected in expectations])


def _expectation(expected: Expectation) -> Any:
    import great_expectations.expectations as gxe

    meta = {"name": expected.name}
    if expected.forbidden:
        return gxe.ExpectColumnValuesToNotBeInSet(column=expected.column, value_set=list(expected.forbidden), meta=meta)
    return gxe.ExpectColumnValuesToBeBetween(
        column=expected.column, min_value=expected.least, max_value=expected.most, meta=meta
    )


def error_of(result: Any) -> str | None:
    """The message of an expectation that could not be judged at all, which is not the same as one that failed."""
    raised = (result.exception_info or {}).values() if result.exception_info else ()
    messages = [info["exception_message"] for info in raised if isinstance(info, dict) and info.get("raised_exception")]
    return str(messages[0]).strip().splitlines()[0] if messages else None


def no_bars() -> Any:
    from great_expectations.data_context.types.base import ProgressBarsConfig

    return ProgressBarsConfig(globally=False)


@contextmanager
def _without(module: str) -> Iterator[None]:
    """Has a module not be there for a while.

    Great Expectations looks whether there is Spark Connect, whose import ends a process that has no main file, as of
    `python -c`, with status 0.
    """
    known = sys.modules.get(module)
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
        if known is not None:
            sys.modules[module] = known


@contextmanager
def quiet() -> Iterator[None]:
    """The library explains itself at INFO and WARNING on every call."""
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
