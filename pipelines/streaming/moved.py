"""A lake that was moved, or restored from a copy in another place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from generators.files import write_durably
from pipelines.streaming import checkpoint
from pipelines.streaming.hadoop import spark_uri

if TYPE_CHECKING:
    from pipelines.streaming.tables import Lake


def follow_move(lake: Lake, query_id: str) -> bool:
    """Has Spark look for the schema of its state where the lake is now; whether it was elsewhere before.

    Spark's record of an operator names that file by where it lay when the batch was run.
    """
    from pyarrow.fs import FileSelector

    folder, files = f"{checkpoint.FOLDER}/{query_id}", lake.files()
    here = spark_uri(f"{lake.root.rstrip('/')}/{folder}/")
    here = here if "://" in here else f"file:{here}"
    operators = files.get_file_info(FileSelector(f"{folder}/state", allow_not_found=True))
    records = [
        entry.path
        for operator in operators
        for entry in files.get_file_info(FileSelector(f"{operator.path}/_metadata/v2", allow_not_found=True))
        if entry.base_name.isdigit()
    ]
    moved = False
    for path in records:
        with files.open_input_stream(path) as stream:
            told = stream.read().decode()
        now = re.sub(rf'"[^"]*/{re.escape(folder)}/', lambda _: f'"{here}', told)
        if now != told:
            moved = True
            write_durably(lake.root, path, now.encode(), lake.storage_options)
            checksum = "/.".join(path.rsplit("/", 1)) + ".crc"  # of Hadoop, on a local disk
            if files.get_file_info(checksum).is_file:
                files.delete_file(checksum)
    return moved
