"""Runs in which clusters do, beside failing, what real ones were seen to do; drawn from one number too."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from random_runs import OF_REAL_CLUSTERS, RECENT, again, run_of

from generators.simulator.faults.chance import drawn
from generators.simulator.faults.script import checked, parse
from pipelines.settings import Simulate
from pipelines.simulate.plan import plan

Habit = Callable[[Random, Simulate], Simulate]
EVENTS = 20_000
"""At most so many in a run."""


def real_run_of(seed: int) -> Simulate:
    """The run of a seed with some of the habits; each draws for itself, so that a new one leaves the others alone."""
    run = run_of(seed, versions=RECENT)
    for name, (share, habit) in HABITS.items():
        random = Random(f"{name} {seed}")
        if random.random() < share:
            run = habit(random, run)
    return run


def _several_controllers(random: Random, run: Simulate) -> Simulate:
    """Three, on nodes of their own or on the first brokers, that fail."""
    combined = run.brokers >= 3 and random.random() < 0.5
    run = again(run, controllers=3, combined=combined)
    settings = plan(run).settings
    kind = random.choice(OF_REAL_CLUSTERS)
    faults = drawn(settings, {kind: random.choice((1.0, 4.0))}, run.duration - 5, run.seed)
    script = checked([*map(parse, run.fault), *faults], settings)
    return again(run, fault=[fault.written() for fault in script])


def _second_file(random: Random, run: Simulate) -> Simulate:
    return again(run, second_file=True)


HABITS: dict[str, tuple[float, Habit]] = {
    "several controllers": (0.5, _several_controllers),
    "second file": (0.3, _second_file),
}
"""With the share of runs that have each."""
