"""Engines that know no Delta read the files of the events as they were reported."""

from __future__ import annotations

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.bench.engines.engine import parquet_files
from pipelines.bench.workloads.load import rounds
from pipelines.lake.bronze import append_events


def test_files_come_in_the_order_of_their_time_whatever_they_are_called(tmp_path):
    lake = str(tmp_path)
    for version, table in enumerate(rounds(4, 24, step=2)):
        append_events(lake, table, app_id="test", version=version)
    files = parquet_files(lake)
    first = [pc.min(pq.read_table(f, columns=["ts"])["ts"]).as_py() for f in files]
    assert len(files) == 12
    assert first == sorted(first)
