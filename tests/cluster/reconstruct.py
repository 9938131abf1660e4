"""What a row of a watcher costs to reconstruct: `python -m tests.cluster.reconstruct --partitions 20000 --changed 0.1`.

Three brokers and three replicas of each partition; in each round some partitions have grown, on all of their replicas.
Micro-batches of ten rounds go into one Reconstructor. The first rounds make every partition known, and are not counted.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pyarrow as pa

from pipelines.replication import Reconstructor, Rules
from schemas import replication_events
from schemas.levels import POLLED

BROKERS, OF_A_TOPIC = (1, 2, 3), 20
BEGIN_US, SECOND_US = 1_700_000_000_000_000, 1_000_000


class Rows:
    """Rows of a watcher of a cluster whose leaders never change."""

    def __init__(self, partitions: int) -> None:
        self.random = np.random.default_rng(1)
        number = np.arange(partitions)
        self.replicas = np.stack([(number + r) % len(BROKERS) + 1 for r in range(3)], axis=1).astype(np.int32)
        self.leo = np.full(partitions, 1_000)
        self.topics = pa.array([f"topic-of-somebody-{k:05}" for k in range(partitions // OF_A_TOPIC + 1)])
        self.ids = pa.array([f"{k:022}" for k in range(partitions // OF_A_TOPIC + 1)])
        self.seq = np.zeros((len(BROKERS) + 1, partitions), dtype=np.int64)
        self.rounds = np.zeros(len(BROKERS) + 1, dtype=np.int64)
        self.source_seq = np.zeros(len(BROKERS) + 1, dtype=np.int64)
        self.ts = BEGIN_US

    def round(self, changed: float) -> list[pa.Table]:
        """What one round changes."""
        grown = np.flatnonzero(self.random.random(len(self.leo)) < changed)
        self.leo[grown] += self.random.integers(1, 50, len(grown))
        found = []
        for broker in BROKERS:
            leads = self.replicas[grown, 0] == broker
            found += [self._samples(broker, grown[leads], True), self._samples(broker, grown[~leads], False)]
            found.append(self._progress(broker))
        self.ts += SECOND_US
        return found

    def metadata(self) -> pa.Table:
        """Leaders and ISRs, as broker 1 answers."""
        rows = np.arange(len(self.leo))
        return self._table(1, "isr", rows, {"detail": pa.repeat("metadata", len(rows)), **self._led(rows)})

    def _samples(self, broker: int, rows: np.ndarray, leads: bool) -> pa.Table:
        columns = {
            "replica_id": np.full(len(rows), broker),
            "leo": self.leo[rows] - (0 if leads else self.random.integers(0, 4, len(rows))),
            "detail": pa.repeat("log_epoch=0", len(rows)),
        }
        if leads:
            columns |= {"hw": self.leo[rows] - self.random.integers(0, 3, len(rows)), **self._led(rows)}
        return self._table(broker, "sample", rows, columns)

    def _led(self, rows: np.ndarray) -> dict[str, object]:
        ends = pa.array(np.arange(len(rows) + 1) * 3, pa.int32())
        replicas = pa.ListArray.from_arrays(ends, pa.array(self.replicas[rows].ravel()))
        epochs = np.zeros(len(rows), np.int32)
        return {"leader_id": self.replicas[rows, 0], "leader_epoch": epochs, "isr": replicas, "replicas": replicas}

    def _progress(self, broker: int) -> pa.Table:
        self.rounds[broker] += 1
        return self._with_names(broker, "progress", 1, {"partition": [-1], "seq": [self.rounds[broker] - 1]})

    def _table(self, broker: int, kind: str, rows: np.ndarray, columns: dict[str, object]) -> pa.Table:
        seq = self.seq[broker, rows]
        self.seq[broker, rows] += 1
        topic = pa.array(rows // OF_A_TOPIC)
        place = {"topic": self.topics.take(topic), "topic_id": self.ids.take(topic), "partition": rows % OF_A_TOPIC}
        return self._with_names(broker, kind, len(rows), {**columns, **place, "seq": seq})

    def _with_names(self, broker: int, kind: str, count: int, columns: dict[str, object]) -> pa.Table:
        same = {"cluster": "c", "source_id": f"watch/main/broker-{broker}", "event_type": kind, "source_epoch": 0}
        same |= {"broker_id": broker, "level": POLLED, "ts_error_ms": 1.0}
        arrays: dict[str, object] = {name: pa.repeat(value, count) for name, value in same.items()}
        arrays |= {"source_seq": self.source_seq[broker] + np.arange(count), "ts": np.full(count, self.ts)} | columns
        self.source_seq[broker] += count
        schema = replication_events.ARROW
        made = [
            pa.array(arrays[field.name]).cast(field.type) if field.name in arrays else pa.nulls(count, field.type)
            for field in schema
        ]
        return pa.table(made, schema=schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--changed", type=float, default=0.1)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=10, help="in a micro-batch")
    chosen = parser.parse_args()
    rows, machine = Rows(chosen.partitions), Reconstructor(Rules())
    began = time.process_time()
    machine.update(pa.concat_tables([rows.metadata(), *rows.round(1.0)]))
    for _ in range(3):
        machine.update(pa.concat_tables(rows.round(1.0)))
    print(f"every partition known: {time.process_time() - began:.1f} s")
    for _ in range(chosen.batches):
        events = pa.concat_tables([table for _ in range(chosen.rounds) for table in rows.round(chosen.changed)])
        spent = [time.process_time()]
        machine.update(events)
        spent.append(time.process_time())
        machine.present()
        spent.append(time.process_time())
        blob = machine.snapshot()
        spent.append(time.process_time())
        update, present, snapshot = np.diff(spent)
        print(
            f"{len(events):,} rows of {chosen.rounds} rounds: {update / len(events) * 1e6:.1f} us a row, "
            f"{sum((update, present, snapshot)) / chosen.rounds:.3f} s CPU a round (present {present:.2f} s, snapshot "
            f"{snapshot:.2f} s and {len(blob):,} bytes), {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB"
        )


if __name__ == "__main__":
    main()
