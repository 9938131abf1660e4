"""The limit reads rows in the order in which they were reported, wherever they lie in a file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.bench.engines.answer import require_all_same
from pipelines.bench.engines.engine import parquet_files
from pipelines.bench.engines.limit import Limit
from pipelines.bench.engines.replay import Replay
from pipelines.bench.engines.turns import ROWS, turns
from pipelines.bench.workloads.load import rounds
from pipelines.bench.workloads.workload import write
from pipelines.lake.bronze import append_events
from pipelines.lake.row_groups import WORTH


def test_every_source_tells_its_rows_in_the_order_of_their_numbers(tmp_path):
    (events,) = rounds(2000, 25, step=25, stalled=0.01)
    append_events(str(tmp_path), events, app_id="test", version=0)
    (path,) = parquet_files(str(tmp_path))
    assert pq.ParquetFile(path).metadata.num_row_groups > 1
    assert len(events) > ROWS > WORTH
    found: dict[str, list[int]] = {}
    for rare, others, before in turns(path, ["event_type"]):
        rows = pa.concat_tables([rare, pa.Table.from_batches([others])])
        places = np.concatenate([before - 0.5, np.arange(len(others))])
        ordered = rows.select(["source_id", "source_seq"]).take(pa.array(np.argsort(places, kind="stable")))
        for source, number in zip(*(ordered[n].to_pylist() for n in ordered.column_names), strict=True):
            found.setdefault(source, []).append(number)
    assert sum(map(len, found.values())) == len(events)
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_the_limit_agrees_with_replay_on_a_commit_of_many_rows(tmp_path):
    load = write(str(tmp_path), 2 * WORTH)
    engines = [engine(load.lake, str(tmp_path)) for engine in (Replay, Limit)]
    for engine in engines:
        engine.prepare()
        engine.run()
    require_all_same({engine.NAME: engine.answers() for engine in engines})
    assert len(engines[1].answers()["ISR changes"])
