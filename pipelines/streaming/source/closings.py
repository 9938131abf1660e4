"""Closing rows that lie beside bronze, as another engine writes that: files of the lake that the job reads last."""

from __future__ import annotations

from typing import Any

from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.offsets import FOLDER

OURS = f"{FOLDER}/"
"""Where the job keeps files of its own, below the lake."""


def closing_path(number: int) -> str:
    """Where the closing rows of the k-th drain lie."""
    return f"{OURS}closing/{number}.parquet"


def count_closings(lake: Lake) -> int:
    """How many such files there are."""
    from pyarrow.fs import FileSelector

    folder = closing_path(0).rpartition("/")[0]
    found = lake.files().get_file_info(FileSelector(folder, allow_not_found=True))
    return sum(entry.base_name.endswith(".parquet") and entry.base_name[0] != "." for entry in found)


def closings(lake: Lake) -> list[dict[str, Any]]:
    """Their rows."""
    rows: list[dict[str, Any]] = []
    files = lake.files()
    for number in range(count_closings(lake)):
        import pyarrow.parquet as pq

        with files.open_input_file(closing_path(number)) as file:
            rows += pq.read_table(file).to_pylist()
    return rows


def remove_cluster(lake: Lake, cluster: str) -> None:
    """Takes the rows of a cluster out of them; the files stay, as they are counted."""
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
