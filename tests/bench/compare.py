"""Engines on one load, each in a process of its own, round after round; no time is told before they agree."""

import multiprocessing
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pipelines.commands.show.tables import as_table
from tests.bench.answers import require_same
from tests.bench.engines import ASKED
from tests.bench.processes import cpu_seconds, watching

COLUMNS = ["engine", "seconds", "spread", "events/s", "ratio", "CPU s", "events/CPU s", "peak memory", "written"]
BESIDE = "DuckDB window"
"""Whose speed the others are given as a multiple of, where it ran."""


class Measured(NamedTuple):
    """One round of an engine: `written` is in bytes."""

    seconds: float
    cpu_seconds: float
    written: int
    answers: dict


class Runner:
    """The process of one engine. Raises RuntimeError with the engine's own words where it fails."""

    def __init__(self, engine, lake, folder, asked):
        context = multiprocessing.get_context("spawn")
        self.name = engine.NAME
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(engine, lake, folder, asked, theirs))
        self.process.start()
        theirs.close()
        self._hear()

    def measure(self):
        self.ask("prepare")
        before = cpu_seconds(self.process.pid)
        seconds = self.ask("run")
        cpu = cpu_seconds(self.process.pid) - before
        return Measured(seconds, cpu, self.ask("written"), self.ask("answers"))

    def peak_bytes(self):
        """The most memory in a round that is not timed: to look at that of a JVM takes up to 0.1 s of a core."""
        self.ask("prepare")
        with watching(self.process.pid) as peak:
            self.ask("run")
        return peak()

    def close(self):
        if self.process.is_alive():
            self.ask("close")
        self.process.join()

    def ask(self, method):
        self.pipe.send(method)
        return self._hear()

    def _hear(self):
        try:
            failure, found = self.pipe.recv()
        except EOFError:
            raise RuntimeError(f"{self.name}: its process ended by itself") from None
        if failure:
            self.process.join()
            raise RuntimeError(f"{self.name}: {failure}")
        return found


def _serve(engine, lake, folder, asked, pipe):
    """Makes the engine and calls the methods it is sent, `close` last; answers (failure, result or seconds)."""
    try:
        if asked.cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])
        made, method = engine(lake, folder, asked), ""
        pipe.send((None, None))
        while method != "close":
            method = pipe.recv()
            begun = time.perf_counter()
            result = getattr(made, method)()
            pipe.send((None, time.perf_counter() - begun if method == "run" else result))
    except Exception as failure:
        pipe.send((f"{type(failure).__name__}: {failure}", None))


def compare(load, engines, rounds, asked=ASKED):
    """The table of so many rounds of each engine after one that warms it, in turns. Raises Disagreement."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hwmark-bench-"))
        runners = []
        for engine in engines:
            runners.append(Runner(engine, load.lake, str(Path(folder, engine.__name__)), asked))
            stack.callback(runners[-1].close)
            runners[-1].measure()
        made = []
        for _ in range(rounds):
            made.append({engine.NAME: runner.measure() for engine, runner in zip(engines, runners, strict=True)})
            answers = {name: one.answers for name, one in made[-1].items() if one.answers}
            require_same(answers)
        peaks = {engine.NAME: runner.peak_bytes() for engine, runner in zip(engines, runners, strict=True)}
    found = {question: len(rows) for question, rows in next(iter(answers.values())).items()}
    counted = "\n".join(f"  {engine.NAME}: {engine.COUNTED}" for engine in engines)
    agreed = ", ".join(f"{count:,} {question}" for question, count in found.items())
    return (
        f"{load.events:,} events of {load.partitions:,} partitions in {load.seconds} s of their time; "
        f"HW at {f'a resolution of {asked.resolution_ms / 1000:g} s' if asked.resolution_ms else 'every change'}, "
        f"a row of the answer per {load.events / sum(found.values()):,.1f} events; {rounds} rounds in turns\n\n"
        f"{as_table(table(load.events, made, peaks), COLUMNS)}\n\n"
        f"All agree on {agreed}: compared row by row in every round, before any time was told.\nCounted:\n{counted}"
    )


def table(events, rounds, peaks):
    """A row for each engine; `ratio` is the median of the rounds' own ratios to BESIDE."""
    rows = []
    for name, peak in peaks.items():
        found = [one[name] for one in rounds]
        seconds, cpu = [m.seconds for m in found], median(m.cpu_seconds for m in found)
        written = max(m.written for m in found)
        ratios = [one[BESIDE].seconds / one[name].seconds for one in rounds if BESIDE in one]
        rows.append(
            {
                "engine": name,
                "seconds": f"{median(seconds):.2f}",
                "spread": f"{min(seconds):.2f} to {max(seconds):.2f}",
                "events/s": f"{events / median(seconds):,.0f}",
                "ratio": f"{median(ratios):.2f}" if ratios else None,
                "CPU s": f"{cpu:.1f}",
                "events/CPU s": f"{events / max(cpu, 0.01):,.0f}",
                "peak memory": f"{peak / 1e6:,.0f} MB",
                "written": f"{written / 1e6:,.1f} MB" if written else "none",
            }
        )
    return rows
