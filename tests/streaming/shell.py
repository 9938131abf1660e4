"""The road of the streaming job without Spark: pack, one Reconstructor per bucket, state as blobs in between."""

from collections import defaultdict

import numpy as np
import pyarrow as pa

from pipelines.replication import Facts, Reconstructor
from pipelines.streaming.source.blobs import pack_table, unpack


def reconstruct(batches, rules, buckets):
    """Facts of micro-batches, each a list of tables (one per packing task); buckets are restarted after each."""
    keys = list(range(buckets))
    blobs = [Reconstructor(rules, bucket=k, buckets=buckets).snapshot() for k in keys]
    facts = []
    for batch_id, tasks in enumerate(batches):
        packed = pa.Table.from_batches([packed for events in tasks for packed in pack_table(events, keys)])
        for key in keys:
            rows = packed.filter(pa.array(np.asarray(packed["key"]) == key))
            reconstructor = Reconstructor.restore(blobs[key])
            facts.append(reconstructor.update(*unpack(rows["kind"].to_pylist(), rows["blob"].to_pylist()), batch_id))
            blobs[key] = reconstructor.snapshot()
    return Facts.concat(facts)


def cut(events, seed, *, repeated, window_ms=20_000):
    """Micro-batches as they could come: windows of time of random length, in any order within, some rows twice."""
    random = np.random.default_rng(seed)
    ts = events["ts"].cast(pa.int64()).to_numpy()
    events, ts = events.take(np.argsort(ts, kind="stable")), np.sort(ts)
    batches, begin = [], 0
    while begin < len(ts):
        end = int(np.searchsorted(ts, ts[begin] + 1000 * random.integers(1, window_ms), side="right"))
        rows = random.permutation(np.arange(begin, end))
        again = random.choice(end, size=int(repeated * (end - begin)))
        tasks = np.array_split(np.concatenate([rows, again]), random.integers(1, 4))
        batches.append([events.take(pa.array(task)) for task in tasks if len(task)])
        begin = end
    return batches


def same_rows(table, but=()):
    """Rows of a table as a sorted list that two tables with the same rows share."""
    names = [name for name in table.column_names if name not in but]
    rows = table.select(names).to_pylist()
    if "from_ts" in names:  # silver/coverage: of one stretch the last row counts, however batches are cut
        rows.sort(key=lambda row: row.get("to_ts", row["from_ts"]))
        rows = list({tuple(row[name] for name in names if name != "to_ts"): row for row in rows}.values())
    return sorted(rows, key=lambda row: [str(row[name]) for name in names])


def added_up(minute_stats):
    """The partials of each broker and minute added up: how they are spread over batches and buckets does not count."""
    summed = defaultdict(lambda: defaultdict(int))
    for row in minute_stats.to_pylist():
        total = summed[row["cluster"], row["broker_id"], row["minute"]]
        for name, n in row["counts"]:
            total[name] += n
        for histogram in ("append_to_hw", "lag"):
            for bucket, n in enumerate(row[histogram] or ()):
                total[histogram, bucket] += n
    return {key: {name: n for name, n in total.items() if n} for key, total in summed.items() if any(total.values())}
