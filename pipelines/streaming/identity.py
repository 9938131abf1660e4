"""A lake remembers the query that wrote its silver tables, so that no other state is ever put behind them."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass

from pipelines.streaming.tables import KINDS, Lake

FOLDER = "_run"
RECORD = f"{FOLDER}/query.json"


class StateMismatch(RuntimeError):
    """Silver and the checkpoint do not belong together, or the checkpoint cannot go on as asked."""


@dataclass(frozen=True)
class Query:
    """One life of the streaming query: its id, its state's layout, and whether its first batch starts silver anew."""

    query_id: str
    buckets: int
    shuffle_partitions: int
    rebuild: bool

    def checkpoint(self, lake: str) -> str:
        return f"{lake.rstrip('/')}/{FOLDER}/{self.query_id}"


def open_query(lake: Lake, buckets: int, shuffle_partitions: int, *, rebuild: bool) -> Query:
    """The query that this lake goes on with, or a new one where it has none or `rebuild` asks for it.

    Raises StateMismatch where silver has rows that the checkpoint at hand did not write.
    """
    known = None if rebuild else _read(lake)
    if known:
        _require_its_checkpoint(lake, known)
        _require_its_layout(known, buckets, shuffle_partitions)
        return known
    if not rebuild and _written_kinds(lake):
        raise _mismatch(lake, "has rows, and no record of the query that wrote them")
    query = Query(uuid.uuid4().hex, buckets, shuffle_partitions, rebuild)
    _write(lake, query)
    return query


def _require_its_checkpoint(lake: Lake, query: Query) -> None:
    mine = any(lake.open(kind).transaction_version(query.query_id) is not None for kind in KINDS)
    started = _has_checkpoint(lake, query)
    if mine and not started:
        raise _mismatch(lake, f"was written by query {query.query_id}, and its checkpoint is missing")
    if not mine and not query.rebuild and _written_kinds(lake):
        raise _mismatch(lake, f"was not written by query {query.query_id} of {RECORD}")


def _require_its_layout(query: Query, buckets: int, shuffle_partitions: int) -> None:
    asked = {"buckets": buckets, "shuffle_partitions": shuffle_partitions}
    for name, value in asked.items():
        if (fixed := getattr(query, name)) != value:
            raise StateMismatch(
                f"{name} is {value}, and this lake's state has {fixed}: set it to {fixed}, or `run --rebuild`"
            )


def _mismatch(lake: Lake, why: str) -> StateMismatch:
    return StateMismatch(f"silver of lake {lake.root} {why}: start it anew from bronze with `run --rebuild`")


def _written_kinds(lake: Lake) -> list[str]:
    """Silver tables that have rows."""
    return [kind for kind in KINDS if kind != "quarantine" and lake.open(kind).file_uris()]


def _has_checkpoint(lake: Lake, query: Query) -> bool:
    return _is_file(lake, f"{FOLDER}/{query.query_id}/metadata")


def _is_file(lake: Lake, path: str) -> bool:
    from pyarrow.fs import FileType

    return bool(lake.files().get_file_info(path).type == FileType.File)


def _read(lake: Lake) -> Query | None:
    if not _is_file(lake, RECORD):
        return None
    with lake.files().open_input_stream(RECORD) as stream:
        return Query(**json.loads(stream.read()))


def _write(lake: Lake, query: Query) -> None:
    files = lake.files()
    files.create_dir(FOLDER)
    with files.open_output_stream(f"{RECORD}.new") as stream:
        stream.write(json.dumps(asdict(query)).encode())
    files.move(f"{RECORD}.new", RECORD)
