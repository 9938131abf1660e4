"""A process that runs one command of `hwmark` after the other: what comes after a fault needs no start of Spark each.

It reads `{"words", "settings", "log"}` as a line of JSON from its input and answers with the exit status.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.faults.stages import HANGS_S, Ended

COMMANDS = 40
"""So many, then a new process: what one of them keeps does not add up."""


class Warm:
    """Such a process, started with the first command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._done = 0

    def __call__(
        self, words: Sequence[str], lake: Path, logs: Path, log: Path, environment: Mapping[str, str], limit: float
    ) -> Ended:
        """As `stages.command`."""
        process = self._running()
        named = [word.replace("LAKE", str(lake)).replace("LOGS", str(logs)) for word in words]
        asked = {"words": named, "settings": dict(environment), "log": str(log)}
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            answer = process.stdout.readline() if ready.select(limit) else ""
        if not answer:
            self.close()
        self._done += 1
        return Ended(int(answer) if answer else None, log.read_text(errors="replace"))

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None and self._done >= COMMANDS:
            self.close()
        if self._process is None:
            self._done = 0
            call = [sys.executable, "-m", "tests.faults.warm"]
            self._process = subprocess.Popen(
                call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        return self._process

    def close(self) -> None:
        """Ends the process; the next command gets a new one."""
        if self._process is not None:
            assert self._process.stdin
            self._process.stdin.close()
            try:
                self._process.wait(HANGS_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


_of_thread = threading.local()


def warm() -> Warm:
    """That of this thread, which ends with the input that this process keeps open for it."""
    if not hasattr(_of_thread, "warm"):
        _of_thread.warm = Warm()
    found: Warm = _of_thread.warm
    return found


def main() -> None:
    """Answers until its input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    for line in sys.stdin:
        answers.write(f"{_status(json.loads(line))}\n")
        answers.flush()


def _status(asked: Mapping[str, Any]) -> int:
    before = dict(os.environ)
    os.environ.update(asked["settings"])
    os.dup2(os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    try:
        _keep_session(asked["words"][0])
        from pipelines.cli import app

        app(asked["words"], prog_name="hwmark")
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stderr.flush()
        os.environ.clear()
        os.environ.update(before)


def _keep_session(command: str) -> None:
    """A session that runs already is used by `run` and left running."""
    if command == "run":
        from pipelines.commands.jobs import spark_session
        from pipelines.settings import load

        spark_session(load())


if __name__ == "__main__":
    main()
