"""Run with an environment's own Python: what a lake's events come to, and the present of its partitions, as JSON.

python reconstruct.py LAKE
"""

import json
import sys
from hashlib import sha256

from pipelines.lake.bronze import read_events
from pipelines.replication import Reconstructor, replay


def rows_of(table):
    """Rows as text in which a time is a time, whichever class a version of pyarrow gives its zone."""
    return sorted(json.dumps(row, default=str) for row in table.to_pylist())


if __name__ == "__main__":
    events = read_events(sys.argv[1])
    reconstructor = Reconstructor()
    reconstructor.update(events)
    found = {name: rows_of(table) for name, table in vars(replay(events)).items()}
    found["partition_health"] = rows_of(Reconstructor.restore(reconstructor.snapshot()).health())
    found["events"] = rows_of(events)
    print(json.dumps({name: [len(rows), sha256("".join(rows).encode()).hexdigest()] for name, rows in found.items()}))
