"""Measure `replay` and the Spark job beside other engines on the same events: `make bench`, all by `make bench-full`.

`python -m tests.bench PART...` measures some parts: dense, sparse, fine, logs, live, incident, cores.
"""

import argparse
import tempfile

from pipelines.commands.simulate.plan import plan, tiled
from pipelines.commands.simulate.run import run
from pipelines.commands.simulate.sinks import bronze_sink
from pipelines.lake.bronze import read_events
from pipelines.settings import Simulate
from tests.bench import live, logs
from tests.bench.compare import compare
from tests.bench.engines import ASKED, Asked, DuckDBWindow, Limit, Replay, SparkJob, SparkWindow
from tests.bench.load import DENSE, LAG_MAX_MS, PARTITIONS, SPARSE, Load, write

ENGINES = (Replay, SparkJob, DuckDBWindow, SparkWindow, Limit)
FEW = (Replay, SparkJob, DuckDBWindow, Limit)
MASTERS = {1: "local[1]", 2: "local[2]", 4: "local[4]", 8: "local[8]"}


def engines(chosen, of=ENGINES, appends=DENSE, asked=ASKED):
    """The engines on one load, which is made or, with --lake, there already."""
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
        return compare(
            _given(chosen) or write(folder, chosen.events, chosen.partitions, appends), of, chosen.rounds, asked
        )


def incident(chosen, brokers=12, seconds=165):
    """A rolling restart, in which leaders and ISRs change; the windows know no leader epochs."""
    asked = Simulate(
        cluster="incident", brokers=brokers, topics=f"orders:{chosen.partitions or PARTITIONS}x3", duration=seconds,
        load=["bursts:100,every=1h,length=130s"], fault=["10s rolling-restart"], lag_max_ms=LAG_MAX_MS,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as lake:
        load = _given(chosen)
        if load is None:
            planned = tiled(plan(asked))
            run(planned, bronze_sink(planned, lake), lambda words: None)
            load = Load(lake, len(read_events(lake, columns=["partition"])), planned.partitions, seconds)
        return compare(load, (Replay, SparkJob), chosen.rounds)


def cores(chosen):
    """The Spark job with so many tasks at a time, on as many cores as there are."""
    parts = []
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
        load = _given(chosen) or write(folder, chosen.events, chosen.partitions)
        for count, master in MASTERS.items():
            asked = Asked(master=master, cores=count)
            parts.append(f"{master}\n\n{compare(load, (SparkJob,), chosen.rounds, asked)}")
    return "\n\n".join(parts)


PARTS = {
    "dense": engines,
    "sparse": lambda chosen: engines(chosen, FEW, SPARSE),
    "fine": lambda chosen: engines(chosen, FEW, asked=Asked(resolution_ms=0)),
    "logs": lambda chosen: logs.measure(),
    "live": lambda chosen: live.measure(chosen.rate, chosen.seconds),
    "incident": incident,
    "cores": cores,
}


def _given(chosen):
    if chosen.lake is None:
        return None
    events = read_events(chosen.lake, columns=["partition", "topic", "ts"])
    seconds = (max(events["ts"].to_pandas()) - min(events["ts"].to_pandas())).total_seconds()
    partitions = events.group_by(["topic", "partition"]).aggregate([]).num_rows - 1
    return Load(chosen.lake, len(events), partitions, round(seconds))


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=300_000, help="of live, events a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long live counts")
    parser.add_argument("--lake", help="events that are there, such as those kept of an earlier load")
    chosen = parser.parse_args()
    if unknown := [part for part in chosen.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}: {', '.join(PARTS)}")
    for part in chosen.parts or ["dense"]:
        print(f"{part}\n{'=' * len(part)}\n\n{PARTS[part](chosen)}\n", flush=True)


if __name__ == "__main__":
    main()
