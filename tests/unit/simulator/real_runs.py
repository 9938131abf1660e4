"""Runs in which clusters do, beside failing, what real ones were seen to do; drawn from one number too."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults.chance import drawn
from generators.simulator.faults.script import checked, parse
from pipelines.commands.simulate.plan import plan
from pipelines.settings import Simulate
from tests.unit.simulator.random_runs import OF_CONTROLLERS, RECENT, again, run_of

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
    return _with_fault(again(run, controllers=3, combined=combined), random, random.choice(OF_CONTROLLERS), (1.0, 4.0))


def _with_fault(run: Simulate, random: Random, kind: str, rates: tuple[float, ...]) -> Simulate:
    """The run with faults of one more kind."""
    settings = plan(run).settings
    faults = drawn(settings, {kind: random.choice(rates)}, run.duration - 5, run.seed)
    script = checked([*map(parse, run.fault), *faults], settings)
    return again(run, fault=[fault.written() for fault in script])


def _second_file(random: Random, run: Simulate) -> Simulate:
    return again(run, second_file=True)


def _threads(random: Random, run: Simulate) -> Simulate:
    return again(run, thread_stalls=random.choice((0.0, 0.002, 0.02)), thread_overtakes=random.choice((0.0, 0.02, 0.2)))


def _killed_between_lines(random: Random, run: Simulate) -> Simulate:
    return _with_fault(run, random, "kill-between-lines", (2.0, 6.0))


def _reconfigured(random: Random, run: Simulate) -> Simulate:
    """min.insync.replicas and unclean elections changed while the ISR may be too small."""
    return _with_fault(run, random, "configure", (4.0, 12.0))


def _slow_commits(random: Random, run: Simulate) -> Simulate:
    return again(run, commits="loaded")


def _failing_directories(random: Random, run: Simulate) -> Simulate:
    return _with_fault(again(run, log_dirs=random.choice((1, 2, 3))), random, "lose-log-dir", (2.0, 6.0))


def _clock_offset(random: Random, run: Simulate) -> Simulate:
    """One broker in a wrong zone, or without anybody to set its clock."""
    wrong = random.choice(("-2h", "-1h", "-70s", "65s", "10m", "1h"))
    return again(run, clock_offsets={str(random.randint(1, run.brokers)): wrong})


def _elr(random: Random, run: Simulate) -> Simulate:
    """Eligible leader replicas, or none, where the version has the choice."""
    return again(run, elr=random.choice(("on", "off"))) if VERSIONS[run.version].has_elr else run


HABITS: dict[str, tuple[float, Habit]] = {
    "several controllers": (0.5, _several_controllers),
    "second file": (0.3, _second_file),
    "threads": (0.3, _threads),
    "killed between lines": (0.2, _killed_between_lines),
    "reconfigured": (0.3, _reconfigured),
    "slow commits": (0.3, _slow_commits),
    "failing directories": (0.2, _failing_directories),
    "clock offset": (0.1, _clock_offset),
    "eligible leader replicas": (0.5, _elr),
}
"""With the share of runs that have each."""
