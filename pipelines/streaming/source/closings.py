"""Files of closing rows beside a bronze that another engine writes; the job reads them last."""

from __future__ import annotations

from typing import Any

from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.offsets import FOLDER

OURS = f"{FOLDER}/"
"""The folder of the job's own files, below the lake."""


def closing_path(number: int) -> str:
    """The path of the closing rows of the k-th drain."""
    return f"{OURS}closing/{number}.parquet"


def count_closings(lake: Lake) -> int:
    """The number of files of closing rows."""
    from pyarrow.fs import FileSelector

    folder = closing_path(0).rpartition("/")[0]
    found = lake.files().get_file_info(FileSelector(folder, allow_not_found=True))
    return sum(entry.base_name.endswith(".parquet") and entry.base_name[0] != "." for entry in found)


def closings(lake: Lake) -> list[dict[str, Any]]:
    """The rows of all files of closing rows."""
    rows: list[dict[str, Any]] = []
    files = lake.files()
    for number in range(count_closings(lake)):
        import pyarrow.parquet as pq

        with files.open_input_file(closing_path(number)) as file:
            rows += pq.read_table(file).to_pylist()
    return rows


def remove_cluster(lake: Lake, cluster: str) -> None:
    """Remove a cluster's rows from the files, which stay since they are counted."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for number in range(count_closings(lake)):
        with lake.files().open_input_file(closing_path(number)) as file:
            rows = pq.read_table(file)
        others = rows.filter(pc.fill_null(pc.not_equal(rows["cluster"], cluster), True))
        if len(others) == len(rows):
            continue
        out = pa.BufferOutputStream()
        pq.write_table(others, out)
        lake.write_durably(closing_path(number), out.getvalue().to_pybytes())
