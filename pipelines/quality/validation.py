"""Great Expectations at work: a frame and its expectations to outcomes, in the main Spark session."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.quality.suites import Expectation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLES = 5
"""Failed rows shown."""


@dataclass(frozen=True)
class Outcome:
    """Whether an expectation held; if not, on how many rows it did not, and a few of them as JSON."""

    expectation: str
    success: bool
    unexpected: int = 0
    sample: str | None = None


class Validator:
    """One ephemeral context of Great Expectations, which writes nothing and phones nobody."""

    def __init__(self) -> None:
        # Read when the library is imported, which would send usage events without it.
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        import great_expectations as gx

        with _quiet():
            context = gx.get_context(mode="ephemeral")
            context.variables.progress_bars = _no_bars()
            # Persisting would hold a copy of a big table for a handful of aggregates.
            self._source = context.data_sources.add_spark("lake", persist=False)
        self._frames = 0

    def validate(self, frame: DataFrame, expectations: Sequence[Expectation], sample: Sequence[str]) -> list[Outcome]:
        """Judges every expectation in one pass without details; rows are looked for only where one failed."""
        with _quiet():
            batch = self._batch(frame)
            held = batch.validate(_suite(expectations), result_format="BOOLEAN_ONLY").results
            by_name = {result.expectation_config.meta["name"]: result for result in held}
            return [
                Outcome(expected.name, True)
                if by_name[expected.name].success
                else _failed(batch, expected, _error(by_name[expected.name]), sample)
                for expected in expectations
            ]

    def _batch(self, frame: DataFrame) -> Any:
        self._frames += 1
        asset = self._source.add_dataframe_asset(f"frame-{self._frames}")
        definition = asset.add_batch_definition_whole_dataframe("new")
        return definition.get_batch(batch_parameters={"dataframe": frame})


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


def _error(result: Any) -> str | None:
    """The message of an expectation that could not be judged at all, which is not the same as one that failed."""
    raised = (result.exception_info or {}).values() if result.exception_info else ()
    messages = [info["exception_message"] for info in raised if isinstance(info, dict) and info.get("raised_exception")]
    return str(messages[0]).strip().splitlines()[0] if messages else None


def _failed(batch: Any, expected: Expectation, error: str | None, sample: Sequence[str]) -> Outcome:
    if error is not None:
        raise RuntimeError(f"expectation {expected.name} could not be judged: {error}")
    details = {
        "result_format": "SUMMARY",
        "partial_unexpected_count": SAMPLES,
        "unexpected_index_column_names": list(dict.fromkeys(sample)),
    }
    result = batch.validate(_expectation(expected), result_format=details).result
    rows = result.get("partial_unexpected_index_list") or result.get("unexpected_index_list") or []
    return Outcome(expected.name, False, result["unexpected_count"], json.dumps(rows[:SAMPLES], default=str))


def _no_bars() -> Any:
    from great_expectations.data_context.types.base import ProgressBarsConfig

    return ProgressBarsConfig(globally=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """The library explains itself at INFO and WARNING on every call."""
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
