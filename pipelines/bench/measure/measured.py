"""One engine in a process of its own, kept warm between rounds: its time and CPU time, and its peak memory apart."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.bench.engines.engine import ASKED, Asked, Engine
from pipelines.bench.measure.processes import cpu_seconds, memory_bytes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import pyarrow as pa

SAMPLE_S = 0.25


@dataclass(frozen=True)
class Measured:
    """One round of one engine; None where the system does not report it."""

    seconds: float
    cpu_seconds: float | None
    written: int
    parts: dict[str, float]
    answers: dict[str, pa.Table]


class Runner:
    """The process of one engine. Raises RuntimeError with the engine's own words where it fails."""

    def __init__(self, engine: type[Engine], lake: str, folder: str, asked: Asked = ASKED) -> None:
        context = multiprocessing.get_context("spawn")
        self._name = engine.NAME
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(engine, lake, folder, asked, theirs))
        self._process.start()
        theirs.close()
        self._hear()

    def measure(self) -> Measured:
        """One round."""
        pid = self._process.pid or 0
        self._ask("prepare")
        before = cpu_seconds(pid)
        seconds = self._ask("run")
        after = cpu_seconds(pid)
        cpu = None if before is None or after is None else after - before
        return Measured(seconds, cpu, self._ask("written"), self._ask("parts"), self._ask("answers"))

    def peak_bytes(self) -> int | None:
        """The most memory in a round that is not timed: to look at that of a JVM takes up to 0.1 s of a core."""
        self._ask("prepare")
        with watching(self._process.pid or 0) as peak:
            self._ask("run")
        return peak()

    def close(self) -> None:
        """Ends the engine and its process."""
        if self._process.is_alive():
            self._ask("close")
        self._process.join()

    def _ask(self, method: str) -> Any:
        self._pipe.send(method)
        return self._hear()

    def _hear(self) -> Any:
        try:
            failure, measured = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"{self._name}: its process ended by itself") from None
        if failure:
            self._process.join()
            raise RuntimeError(f"{self._name}: {failure}")
        return measured


def _serve(engine: type[Engine], lake: str, folder: str, asked: Asked, pipe: Connection) -> None:
    """Makes the engine and calls the methods it is sent, `close` last; answers (failure, result or seconds)."""
    try:
        if asked.cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])
        made = engine(lake, folder, asked)
        pipe.send((None, None))
        method = ""
        while method != "close":
            method = pipe.recv()
            begun = time.perf_counter()
            result = getattr(made, method)()
            seconds = time.perf_counter() - begun
            pipe.send((None, seconds if method == "run" else result))
    except Exception as failure:
        pipe.send((f"{type(failure).__name__}: {failure}", None))


@contextmanager
def watching(pid: int, every_s: float = SAMPLE_S) -> Iterator[Callable[[], int | None]]:
    """Samples the memory of a process and its descendants; what is yielded returns the peak so far."""
    done, peak = threading.Event(), [memory_bytes(pid)]

    def watch() -> None:
        while not done.wait(every_s):
            peak.append(memory_bytes(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: max((p for p in peak if p is not None), default=None)
    finally:
        done.set()
        thread.join()
