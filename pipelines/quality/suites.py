"""Suites of Great Expectations from JSON files: those of this package, and the user's own (`[check.suites]`)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipelines.errors import UsageError, nearest
from pipelines.quality import frames
from schemas import tables
from schemas.declaration import Table

NAME = "hwmark"
"""Our key in `meta`: the name of an expectation, the table and frame of a suite."""
FOLDER = Path(__file__).parent / "standard"
STANDARD = ("events", "quarantine", "hw", "losses", "gaps", "health")
"""The suites of this package, in the order in which people read them."""
PLACE = ("cluster", "topic", "partition", "ts")

ABOUT_THE_TABLE = ("expect_table_", "expect_column_to_exist", "expect_column_type_to_be")
"""A column that such an expectation names need not exist: whether it does is what is expected."""
REFUSED = re.compile(
    "creasing|other_table|query|outliers|divergence|p_value|cramers|multicolumn_values_to_be_unique|like"
)
"""Types whose outcome is neither a count of rows, added up over pieces, nor a value that SQL computes of a set: rows
have no order, there is one table, and the library has LIKE for databases only."""


@dataclass(frozen=True)
class Expectation:
    """One expectation of a suite; `name` is unique there: that of its metadata, or its type and its columns."""

    name: str
    type: str
    kwargs: Mapping[str, Any]
    meta: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The same for what expects the same, whatever its name and place in a suite."""
        content = json.dumps([self.type, self.kwargs], sort_keys=True, default=str)
        return sha256(content.encode()).hexdigest()[:16]

    @property
    def counts_rows(self) -> bool:
        """Whether it says something of a table to which nothing was added."""
        return self.type.startswith("expect_table_row_count_")

    @property
    def columns(self) -> list[str]:
        """The columns that it judges; none if it is about the table."""
        return [] if self.type.startswith(ABOUT_THE_TABLE) else columns_in(self.kwargs)


@dataclass(frozen=True)
class Suite:
    """The suite of one file for one table; `sample` are the columns that show which row failed.

    `part` says which rows are judged if these are only some of the file's expectations; else it is empty.
    """

    name: str
    table: Table
    path: str
    expectations: tuple[Expectation, ...]
    frame: frames.Frame = frames.AS_IT_IS
    sample: Sequence[str] = PLACE
    may_be_missing: bool = False
    part: str = ""

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """Its expectations as Great Expectations takes them."""
        return [{"type": e.type, "kwargs": {**e.kwargs}, "meta": {**e.meta, NAME: e.name}} for e in self.expectations]

    @property
    def needed_columns(self) -> list[str]:
        """The columns that its expectations need: all of the table if one is about the table or has a condition."""
        if any(not e.columns or e.kwargs.get("row_condition") for e in self.expectations):
            return [column.name for column in self.table.columns]
        return list(dict.fromkeys(column for expected in self.expectations for column in expected.columns))


def columns_in(kwargs: Mapping[str, Any]) -> list[str]:
    """The columns that arguments of an expectation name."""
    named = [kwargs[name] for name in ("column", "column_A", "column_B") if name in kwargs]
    return [*named, *kwargs.get("column_list", ())]


def standard_suites() -> tuple[Suite, ...]:
    """The suites of this package."""
    return tuple(_standard_suite(f"{name}.json") for name in STANDARD)


def _standard_suite(file: str) -> Suite:
    content = json.loads((FOLDER / file).read_text())
    about = content["meta"][NAME]
    expected = tuple(_named(_expectation(one) for one in content["expectations"]))
    frame, may_be_missing = getattr(frames, about.get("frame", "AS_IT_IS")), about.get("may_be_missing", False)
    return Suite(content["name"], _table(about["table"]), file, expected, frame, about["sample"], may_be_missing)


def own_suites(files: Mapping[str, str | list[str]]) -> tuple[Suite, ...]:
    """Read the suites of `[check.suites]`, which has one file or several for each table path. Raises UsageError."""
    named = [(table, path) for table, paths in files.items() for path in ([paths] if isinstance(paths, str) else paths)]
    found = tuple(_own_suite(_table(table), path) for table, path in named)
    for (name, table), count in Counter((suite.name, suite.table.path) for suite in found).items():
        if count > 1:
            raise UsageError(f"[check.suites] has {count} suites named {name} for {table}: give each a name of its own")
    return found


def _table(path: str) -> Table:
    by_path = {table.path: table for table in tables().values()}
    if path not in by_path:
        raise UsageError(f"[check.suites] names the table {path!r}, which no lake has; {nearest(path, by_path)}")
    return by_path[path]


def _own_suite(table: Table, path: str) -> Suite:
    content = _content(path)
    name = content.get("name", content.get("expectation_suite_name"))
    listed = content.get("expectations")
    if not isinstance(name, str) or not name:
        raise UsageError(f'suite {path}: "name" is missing; set it')
    if not isinstance(listed, list) or not listed:
        raise UsageError(f'suite {path}: "expectations" is empty; list at least one')
    if (name, table.path) in {(ours.name, ours.table.path) for ours in standard_suites()}:
        raise UsageError(f"suite {path} is named {name}, as is hwmark's own for {table.path}: give it another name")
    expected = tuple(_named(_expectation(one) for one in listed))
    for one in expected:
        _refuse(one, table, path)
    names = [column.name for column in table.columns]
    return Suite(name, table, path, expected, sample=tuple(name for name in PLACE if name in names))


def _content(path: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise UsageError(f"suite file {path} does not exist; fix [check.suites] or create the file") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"suite {path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"suite {path} is a {type(content).__name__}, not an object with name and expectations")
    return content


def _expectation(one: Any) -> Expectation:
    """One of the list of a file; versions of the library before 1.0 wrote `expectation_type`."""
    one = one if isinstance(one, dict) else {}
    kwargs, meta = dict(one.get("kwargs") or {}), dict(one.get("meta") or {})
    found = Expectation("", str(one.get("type", one.get("expectation_type"))), kwargs, meta)
    return replace(found, name=meta.get(NAME) or " ".join([found.type, *map(str, found.columns)]))


def _refuse(expected: Expectation, table: Table, path: str) -> None:
    """Raise UsageError if the expectation cannot be judged, or names a column that the table does not have."""
    if expected.type not in (known := _judged_types()):
        raise UsageError(
            f"suite {path} has the expectation {expected.type!r}, which can be judged neither by row nor over a set "
            f"of rows; {nearest(expected.type, known)}"
        )
    there = [column.name for column in table.columns]
    for column in expected.columns:
        if column not in there:
            raise UsageError(
                f"suite {path}: {expected.type} is about the column {column!r}, which {table.path} does not have"
                f"; {nearest(str(column), there)}"
            )


@cache
def _judged_types() -> frozenset[str]:
    """The types of the library that can be judged, by its files: to import it takes seconds."""
    found = find_spec("great_expectations")
    folder = Path(found.origin).parent / "expectations/core" if found and found.origin else Path()
    return frozenset(file.stem for file in folder.glob("expect_*.py") if not REFUSED.search(file.stem))


def _named(expectations: Iterable[Expectation]) -> Iterator[Expectation]:
    """The expectations, those of one name numbered."""
    seen: Counter[str] = Counter()
    for one in expectations:
        seen[one.name] += 1
        yield replace(one, name=f"{one.name} #{seen[one.name]}") if seen[one.name] > 1 else one
