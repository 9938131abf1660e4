"""Processes that are started here, and ended: never any other."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def _print(line: str) -> None:
    print(line, flush=True)


class Journal:
    """Writes down every action the moment before it is done."""

    def __init__(self, folder: Path, say: Callable[[str], None] = _print) -> None:
        self.path, self._say = folder / "actions.jsonl", say

    def note(self, action: str, **what: Any) -> int:
        """Write an action down; returns its time in epoch milliseconds."""
        now = round(time.time() * 1000)
        line = {"ts_ms": now, "action": action, **what}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._say("  " + " ".join([time.strftime("%H:%M:%S"), action, *(f"{k}={v}" for k, v in what.items())]))
        return now


_started: list[subprocess.Popen[bytes]] = []


def start(
    command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command whose output goes behind what `output` holds."""
    with output.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
    _started.append(process)
    return process


def end(process: subprocess.Popen[bytes], within_s: float, first: signal.Signals = signal.SIGTERM) -> int:
    """Ask a process to end, and kill it when it has not after `within_s`; returns its exit status."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.send_signal(first)
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def wait_until(reached: object, within_s: float, what: str, every_s: float = 0.2) -> None:
    """Wait until the function `reached` returns something true. Raises TimeoutError naming what was waited for."""
    assert callable(reached)
    until = time.monotonic() + within_s
    while not reached():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(every_s)


@atexit.register
def _end_all() -> None:
    for process in _started:
        if process.poll() is None:
            process.kill()
