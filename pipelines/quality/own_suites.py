"""Suites of the user's own: files as Great Expectations exports them, each for a table of the lake."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipelines.errors import UsageError
from pipelines.quality.suites import PLACE, Limits, suites
from schemas import tables
from schemas.declaration import Table

OF_ONE_COLUMN = ("column", "column_A", "column_B")
OF_THE_TABLE = ("expect_table_", "expect_column_to_exist")
"""What such an expectation names need not be there: whether it is, is what it is about."""


@dataclass(frozen=True)
class OwnExpectation:
    """One expectation of a suite: `name` is its type and what it is about, once in its suite."""

    name: str
    type: str
    kwargs: Mapping[str, Any]
    meta: Mapping[str, Any]

    @property
    def columns(self) -> list[str]:
        """The columns that it judges, as far as it names them."""
        if self.type.startswith(OF_THE_TABLE):
            return []
        return [
            *(self.kwargs[name] for name in OF_ONE_COLUMN if name in self.kwargs),
            *self.kwargs.get("column_list", []),
        ]


@dataclass(frozen=True)
class OwnSuite:
    """The suite of one file, for one table."""

    name: str
    table: Table
    path: str
    expectations: tuple[OwnExpectation, ...]

    @property
    def columns(self) -> list[str]:
        """Those that it needs, and those that say which row failed; all where one is about the table as a whole."""
        there = [column.name for column in self.table.columns]
        if any(not e.columns or "row_condition" in e.kwargs for e in self.expectations):
            return there
        needed = {column for expected in self.expectations for column in expected.columns} | set(PLACE)
        return [name for name in there if name in needed]


def own_suites(files: Mapping[str, str | list[str]]) -> tuple[OwnSuite, ...]:
    """The suites of `[check.suites]`: by the path of a table a file, or several. Raises UsageError."""
    named = [(table, path) for table, paths in files.items() for path in ([paths] if isinstance(paths, str) else paths)]
    found = tuple(_suite(_table(table), path) for table, path in named)
    for (name, table), count in Counter((suite.name, suite.table.path) for suite in found).items():
        if count > 1:
            raise UsageError(f"[check.suites] has {count} suites named {name} for {table}: give each a name of its own")
    return found


def _table(path: str) -> Table:
    by_path = {table.path: table for table in tables().values()}
    if path not in by_path:
        near = get_close_matches(path, by_path, 1, 0.4)
        raise UsageError(
            f"[check.suites] names the table {path!r}, which no lake has"
            + (f": do you mean {near[0]}?" if near else f": there are {', '.join(by_path)}")
        )
    return by_path[path]


def _suite(table: Table, path: str) -> OwnSuite:
    content = _content(path)
    name = content.get("name", content.get("expectation_suite_name"))
    listed = content.get("expectations")
    if not isinstance(name, str) or not name or not isinstance(listed, list) or not listed:
        raise UsageError(
            f"suite {path} has no name or no expectations: it is to be a suite of Great Expectations as JSON, as "
            "gx/expectations/<name>.json of a project"
        )
    if (name, table.path) in {(ours.name, ours.table.path) for ours in suites(Limits())}:
        raise UsageError(f"suite {path} is named {name}, as is hwmark's own for {table.path}: give it another name")
    return OwnSuite(name, table, path, tuple(_named(_expectation(one, table, path) for one in listed)))


def _content(path: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise UsageError(f"suite {path} is not there: look at [check.suites], or write it") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"suite {path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(
            f"suite {path} is a {type(content).__name__}: it is to be an object with name and expectations"
        )
    return content


def _expectation(one: Any, table: Table, path: str) -> OwnExpectation:
    """One of the list of a file; those of versions of the library before 1.0 are called `expectation_type`."""
    kind = one.get("type", one.get("expectation_type")) if isinstance(one, dict) else None
    if kind not in _known():
        near = get_close_matches(str(kind), _known(), 1)
        raise UsageError(
            f"suite {path} has the expectation {kind!r}, which Great Expectations does not know"
            + (f": do you mean {near[0]}?" if near else "")
        )
    expected = OwnExpectation(kind, kind, dict(one.get("kwargs") or {}), dict(one.get("meta") or {}))
    there = [column.name for column in table.columns]
    for column in expected.columns:
        if column not in there:
            near = get_close_matches(str(column), there, 1)
            raise UsageError(
                f"suite {path}: {kind} is about the column {column!r}, which {table.path} does not have"
                + (f": do you mean {near[0]}?" if near else f": it has {', '.join(there)}")
            )
    return expected


@cache
def _known() -> frozenset[str]:
    """The types of the library by its files: to import it takes seconds."""
    found = find_spec("great_expectations")
    folder = Path(found.origin).parent / "expectations/core" if found and found.origin else Path()
    return frozenset(file.stem for file in folder.glob("expect_*.py"))


def _named(expectations: Iterable[OwnExpectation]) -> Iterable[OwnExpectation]:
    """Each with a name that says what it is about, and which of several of that type."""
    seen: Counter[str] = Counter()
    for one in expectations:
        name = " ".join([one.type, *one.columns])
        seen[name] += 1
        name += f" #{seen[name]}" if seen[name] > 1 else ""
        yield OwnExpectation(name, one.type, one.kwargs, one.meta)
