"""Random walks of a directory, each known by its seed.

`python -m tests.unit.ingest.walks 0 2000` plays seeds 0 to 1999, and prints the fewest steps with which one fails.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tests.unit.ingest.test_directory import DirectoryInParts

LENGTH = 40
"""Steps of a walk."""
Step = tuple[str, Mapping[str, Any]]


@cache
def _rules() -> list[Any]:
    return sorted(DirectoryInParts.setup_state().rules, key=lambda rule: rule.function.__name__)


def _draw(strategy: Any, draw: random.Random) -> Any:
    strategy = getattr(strategy, "wrapped_strategy", strategy)
    if hasattr(strategy, "elements"):
        return draw.choice(list(strategy.elements))
    return draw.randint(strategy.start, strategy.end) if hasattr(strategy, "start") else draw.random() < 0.5


def steps_of(seed: int) -> list[Step]:
    """Return the walk of a seed; those of its steps that cannot be done when they come are left out as it is played."""
    draw = random.Random(seed)
    first: Step = ("begin", {"rising": draw.random() < 0.5, "coarse": draw.random() < 0.5})
    chosen = draw.choices(_rules(), k=draw.randint(3, LENGTH))
    return [first, *((r.function.__name__, {n: _draw(s, draw) for n, s in r.arguments.items()}) for r in chosen)]


def play(steps: Sequence[Step]) -> str | None:
    """Return what is wrong after these steps; None if nothing is."""
    one = DirectoryInParts()
    conditions = {rule.function.__name__: rule.preconditions for rule in _rules()}
    try:
        for name, arguments in steps:
            if all(holds(one) for holds in conditions.get(name, ())):
                getattr(one, name)(**arguments)
        one.teardown()
    except Exception as error:  # whatever it is, the walk fails
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        shutil.rmtree(one.folder, ignore_errors=True)
        shutil.rmtree(one.other, ignore_errors=True)
    return None


def fewest(steps: Sequence[Step]) -> list[Step]:
    """Return those of the steps without which the walk does not fail."""
    left, size = [*steps], len(steps)
    while size:
        for k in range(len(left) - size, -1, -size):
            fewer = left[:k] + left[k + size :]
            if play(fewer):
                left = fewer
        size //= 2
    return left


if __name__ == "__main__":
    begin, end = map(int, sys.argv[1:])
    failed = 0
    for seed in range(begin, end):
        if why := play(steps_of(seed)):
            failed += 1
            left = fewest(steps_of(seed))
            print(f"{seed}: {why}\n  now {play(left)}", *left, sep="\n  ", flush=True)
    print(f"{end - begin} walks, {failed} failed")
