"""What was done to the cluster and when: `actions.jsonl`, a line each, on the wall clock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
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
