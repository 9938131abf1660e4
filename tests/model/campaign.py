"""Goes through histories until it has played so many, or the time is over: python -m tests.model.campaign."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from random import Random

from tests.model.compare import View
from tests.model.histories import Scope, drawn, every
from tests.model.search import Finding, Numbers, alone, found, smallest

WHOLE = [Scope(2, 2), Scope(2, 2, min_isr=(2, 1))]
"""Scopes that are played whole."""
DRAWN = [
    Scope(2, 4, 2, (1, 2), (0, 1, 2), (0, 3, 1, 2), (0, 1, 2)),
    Scope(3, 2, 1, (1, 2), (0, 1), (0, 3, 1), (0, 1)),
    Scope(3, 4, 2, (1, 2, 3), (0, 1, 2), (0, 3, 1, 2), (0, 1, 2)),
    Scope(3, 4, 2, (1, 2, 3), (0, 1, 2), (0, 3, 1, 2), (0, 1, 2), restored=True, configured=(1, 2)),
    Scope(3, 3, 1, (1, 2, 3), present=True),
]
"""Scopes that are too large for that."""
VIEWS = [View(3), View(2), View(0), View(3, "none"), View(0, "info"), View(0, "none")]
SPOILED = 200
"""One history of so many is looked at with something of its telemetry taken away, too."""
CHUNK = 500
SHOWN = 3

Task = tuple[Scope, list[Numbers]]


def tasks(seed: int) -> Iterator[Task]:
    """Histories in chunks, without end: of every scope in turns, of the whole ones until they are through."""
    random = Random(seed)
    turns = [(scope, drawn(scope, random)) for scope in DRAWN] + [(scope, every(scope)) for scope in WHOLE]
    while True:
        for scope, paths in turns:
            if chunk := [tuple(path) for path in islice(paths, CHUNK)]:
                yield scope, chunk


def look(task: Task) -> tuple[int, list[Finding]]:
    """How many histories there were, and what is wrong about them when each is looked at alone."""
    scope, paths = task
    views = VIEWS[:2] if scope.present else [VIEWS[0], VIEWS[1 + sum(paths[-1]) % (len(VIEWS) - 1)]]
    spoiled = found(scope, paths[::SPOILED], [View(3), View(0)], taken=True)
    new = [*found(scope, paths, views), *spoiled]
    return len(paths), [one for one in new if alone(one)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    until, played, all_found = time.monotonic() + asked.minutes * 60, 0, list[Finding]()
    with ProcessPoolExecutor(asked.processes, get_context("spawn")) as pool:
        chunks = tasks(asked.seed)
        while played < asked.histories and time.monotonic() < until:
            for count, new in pool.map(look, islice(chunks, 2 * asked.processes)):
                played += count
                all_found += new
            print(f"\r{played:,} histories, {len(all_found)} findings", end="", file=sys.stderr, flush=True)
    print(f"\n{played:,} histories, at level 3 and in one more view each, {len(all_found)} findings")
    for kind, count in Counter(one.kind for one in all_found).items():
        print(f"{kind}: {count}")
        for one in sorted((f for f in all_found if f.kind == kind), key=lambda f: len(f.numbers))[:SHOWN]:
            least = smallest(one)
            print(f"  {least.text}\n    Kept({least.kind!r}, {least.scope}, {least.numbers}, {least.view})")
    return bool(all_found)


if __name__ == "__main__":
    sys.exit(main())
