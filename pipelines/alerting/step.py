"""What the next evaluation goes on from, recorded before a table has what this one found."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from pipelines.alerting.evidence import CARRIED, CLOSED, REPORTED, in_microseconds
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.lake import Lake
from pipelines.lake.table import add_files, committing
from schemas import alerts, tables
from schemas.declaration import Table

RECORD = "_alerts/step.json"
APP = "hwmark/alerts"
"""The writer by whose transactions a table knows which step it has."""

_log = logging.getLogger("hwmark.alerting")
_TABLES = {"carried": CARRIED, "reported": REPORTED, "closed": CLOSED}


@dataclass(frozen=True)
class Step:
    """One evaluation. Times are microseconds since 1970.

    `clocks`: by cluster up to when, in event time, it was evaluated; a cluster without one never was. `carried` are
    the lasting states that were open then, so that their beginnings need not be read again. `reported` and `closed`
    are what bronze had at `bronze`, its table's id and version, and `arrived` when (wall clock) it last got something.
    `files` are what the tables get of this step, in commits that say its `number`.
    """

    number: int = 0
    clocks: Mapping[str, int] = field(default_factory=dict)
    carried: pa.Table = field(default_factory=CARRIED.empty_table)
    reported: pa.Table = field(default_factory=REPORTED.empty_table)
    closed: pa.Table = field(default_factory=CLOSED.empty_table)
    arrived: Mapping[str, int] = field(default_factory=dict)
    bronze: tuple[str, int] | None = None
    files: tuple[Written, ...] = ()


def last_step(lake: Lake) -> Step:
    """The last step of a lake, each table of it as it should be. Where its record is gone, everything is read anew."""
    step = recorded_step(lake)
    for file in step.files:
        _commit(lake, file, step.number)
    return step


def recorded_step(lake: Lake) -> Step:
    """The last step as it was recorded, whether or not every table has it."""
    try:
        with lake.files().open_input_stream(RECORD) as stream:
            found: dict[str, Any] = json.loads(stream.read())
        made = {name: pa.Table.from_pylist(found.pop(name), schema) for name, schema in _TABLES.items()}
        files = tuple(Written(**file) for file in found.pop("files"))
        bronze = found.pop("bronze")
        return Step(**found, **made, files=files, bronze=None if bronze is None else (bronze[0], bronze[1]))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError) as damaged:
        _log.warning("%s/%s is damaged (%s): the tables are read anew", lake.root, RECORD, damaged)
    table = lake.find(alerts.TABLE)
    return Step((table.transaction_version(APP) or 0) if table else 0)


def take_step(lake: Lake, step: Step, rows: Mapping[Table, pa.Table]) -> None:
    """Records what the tables get, then has each of them get it; a kill in between leaves the rest to `last_step`."""
    files = []
    for table, new in rows.items():
        lake.create_with_columns(table)
        files.append(write_file(lake.files(table), table.path, table.arrow(), [new.cast(table.arrow())]))
    taken = replace(step, number=step.number + bool(files), files=tuple(files))
    made = {name: in_microseconds(getattr(taken, name)).to_pylist() for name in _TABLES}
    plain = {name: value for name, value in vars(taken).items() if name not in _TABLES}
    content = plain | made | {"files": [asdict(file) for file in files]}
    lake.write_durably(RECORD, json.dumps(content).encode())
    for file in files:
        _commit(lake, file, taken.number)


def _commit(lake: Lake, file: Written, number: int) -> None:
    """Adds a file to its table, unless that has it, or is there no more."""
    table = next(one for one in tables().values() if one.path == file.kind)

    def commit() -> None:
        opened = lake.find(table)
        if opened is not None and (opened.transaction_version(APP) or 0) < number:
            add_files(opened, [file], table.arrow(), {APP: number})

    committing(commit)
