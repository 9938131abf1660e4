"""A lake that was moved, or restored from a copy in another place."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pipelines.lake.file_systems import local_path
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.hadoop import spark_uri

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake


def follow_move(lake: Lake, query_id: str) -> bool:
    """Point Spark to the schema of its state at the lake's present path; returns whether the path had changed.

    Spark's record of an operator has the file's full path at the time of the batch.
    """
    from pyarrow.fs import FileSelector

    folder, files = f"{offsets.FOLDER}/{query_id}", lake.files()
    local = local_path(lake.root)
    here = spark_uri(lake.root) if local is None else f"file:{local.absolute()}"
    here = json.dumps(f"{here.rstrip('/')}/{folder}/")[1:-1]
    operators = files.get_file_info(FileSelector(f"{folder}/state", allow_not_found=True))
    moved = False
    for operator in operators:
        entries = files.get_file_info(FileSelector(f"{operator.path}/_metadata/v2", allow_not_found=True))
        numbers = sorted(int(entry.base_name) for entry in entries if entry.base_name.isdigit())
        paths = [f"{operator.path}/_metadata/v2/{number}" for number in numbers]
        # The newest is rewritten last: if it is right, so are the others.
        if paths and _changed(lake, paths[-1], folder, here) is not None:
            moved = True
            for path in paths:
                _rewrite(lake, path, _changed(lake, path, folder, here))
    return moved


def _changed(lake: Lake, path: str, folder: str, here: str) -> str | None:
    """A record with the lake's present path (`here`, as JSON writes it); None if it already has it."""
    with lake.files().open_input_stream(path) as stream:
        record = stream.read().decode()
    now = re.sub(rf'"[^"]*/{re.escape(folder)}/', lambda _: f'"{here}', record)
    return None if now == record else now


def _rewrite(lake: Lake, path: str, record: str | None) -> None:
    if record is None:
        return
    files = lake.files()
    lake.write_durably(path, record.encode())
    checksum = "/.".join(path.rsplit("/", 1)) + ".crc"  # of Hadoop, on a local disk
    if files.get_file_info(checksum).is_file:
        files.delete_file(checksum)
