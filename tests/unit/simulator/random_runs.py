"""A cluster, its load and its faults, all drawn from one number: a run that can be written as a command and reduced."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from random import Random
from shlex import quote

from generators.simulator.clients.load import Driver
from generators.simulator.cluster.settings import MS, SECOND, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import Observer
from generators.simulator.cluster.versions import VERSIONS, Version
from generators.simulator.faults.chance import DRAWS, drawn
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import Fault, checked
from generators.simulator.faults.spans import topic_written, written
from pipelines.commands.simulate.plan import Plan, plan
from pipelines.settings import Simulate

LOSING = frozenset({"power-off", "lose-disk"})
"""Faults by which records that were written are gone."""
OF_CONTROLLERS = ("freeze-controller", "isolate-controller", "kill-controller")
OF_REAL_CLUSTERS = (*OF_CONTROLLERS, "kill-between-lines", "lose-log-dir")
"""Faults that `real_runs` draws, apart from the others: so those of a seed stay what they are."""
KINDS = (*sorted(set(DRAWS) - set(OF_REAL_CLUSTERS)), "delete-records", "recreate-topic", "rolling-upgrade")
RECENT = ("3.6", "3.9", "4.0", "4.1")
"""Versions of brokers in use; the rules of those before are compared with `replay` in calm clusters."""
_FLAGS = ("seed", "brokers", "topics", "version", "load", "fault")


def seeds(few: int) -> range:
    """`few` seeds, or as many as HWMARK_SEEDS says, from HWMARK_FIRST_SEED on."""
    first = int(os.environ.get("HWMARK_FIRST_SEED", "0"))
    return range(first, first + int(os.environ.get("HWMARK_SEEDS", str(few))))


def command(run: Simulate) -> str:
    """How to have that run again."""
    changed = {key: getattr(run, key) for key in Simulate.model_fields if key in run.model_fields_set}
    environment = [
        f"HWMARK_SIMULATE__{key.upper()}={quote(json.dumps(value)) if isinstance(value, dict) else value}"
        for key, value in changed.items()
        if key not in _FLAGS
    ]
    flags = []
    for key in [key for key in _FLAGS if key in changed]:
        values = changed[key] if isinstance(changed[key], list) else [changed[key]]
        flags += [f"--{key} {quote(str(value))}" for value in values]
    return " ".join([*environment, "hwmark simulate --lake lake --truth truth", *flags])


def begin(planned: Plan, observers: Iterable[Observer] = ()) -> Simulation:
    """The simulation of a plan, started and with everything planned; `run(planned.seconds)` is left to do."""
    simulation = Simulation(planned.settings, observers)
    for observer in simulation.observers:
        if follow := getattr(observer, "follow", None):
            follow(simulation)
    simulation.start()
    Injection(simulation, planned.faults)
    Driver(simulation, planned.loads, planned.seconds, planned.settings.seed)
    return simulation


def minimal(run: Simulate, fails: Callable[[Simulate], bool]) -> Simulate:
    """A run that still fails with as few faults, topics and seconds as trying one after the other finds."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(run):
            if fails(candidate):
                run, smaller = candidate, True
                break
    return run


def _smaller(run: Simulate) -> Iterable[Simulate]:
    for k in range(len(run.fault)):
        yield again(run, fault=run.fault[:k] + run.fault[k + 1 :])
    topics = run.topics.split(",")
    for topic in topics if len(topics) > 1 else ():
        name = topic.split(":")[0]
        left = [fault for fault in run.fault if f" {name}" not in fault]
        load = [one for one in run.load if not one.startswith(f"{name}=")]
        yield again(run, topics=",".join(t for t in topics if t != topic), fault=left, load=load)
    if run.duration > 5:
        yield again(run, duration=run.duration - 5)


def again(run: Simulate, **changed: object) -> Simulate:
    """The run with other settings."""
    return Simulate(**{key: getattr(run, key) for key in run.model_fields_set} | changed)


def clocks_right(run: Simulate) -> Simulate:
    """The run with clocks that agree."""
    return again(run, clock_skew_ms=0, clock_offsets={}, fault=[line for line in run.fault if "clock-jump" not in line])


def loses_records(planned: Plan) -> bool:
    """Whether what was written may be gone, or cut where it should not be, by the faults or the rules themselves."""
    upgraded = {VERSIONS[f.options["to"]] for f in planned.faults if f.do == "rolling-upgrade"}
    cutting = any(version.truncates_to_high_watermark for version in {planned.settings.version} | upgraded)
    return cutting or any(fault.do in LOSING for fault in planned.faults)


def run_of(seed: int, kinds: Iterable[str] = KINDS, versions: Iterable[str] = tuple(VERSIONS)) -> Simulate:
    """The run of a seed, with faults of some of these kinds."""
    random = Random(f"run {seed}")
    brokers = random.choice((2, 3, 3, 3, 4, 5))
    topics = [_topic(random, name, brokers) for name in ("orders", "clicks-v2")[: random.choice((1, 1, 2))]]
    session = random.choice((5_000, 9_000, 20_000))
    seconds = random.choice((10, 20, 30))
    run = Simulate(
        seed=seed,
        brokers=brokers,
        topics=",".join(map(topic_written, topics)),
        version=random.choice([*versions, "4.1", "4.1"]),
        load=[_load(random, topic) for topic in topics],
        duration=seconds + 10,
        lag_max_ms=random.choice((2_000, 6_000, 10_000, 30_000)),
        lag_max_messages=random.choice((5, 100)),
        session_timeout_ms=session,
        clock_skew_ms=random.choice((0, 0, 5_000)),
        fetch_max_records=random.choice((5, 50, 1_000)),
        flush_ms=random.choice((5_000, 60_000)),
        controller_ms=random.choice((20, 20, 300)),
        metadata_ms=random.choice((20, 20, 100)),
        alter_partition_errors=random.choice((0.0, 0.0, 0.0, 0.3)),
    )
    faults = _faults(random, plan(run).settings, list(kinds), seconds)
    return again(run, fault=[fault.written() for fault in faults])


def _topic(random: Random, name: str, brokers: int) -> Topic:
    copies = min(brokers, random.choice((1, 2, 3, 3, 3)))
    least = min(copies, random.choice((1, 2, 2)))
    return Topic(name, random.choice((1, 2)), copies, least, unclean=random.random() < 0.15)


def _load(random: Random, topic: Topic) -> str:
    """Few requests with several records each: every request costs a fetch per follower."""
    shape, acks = random.choice(("steady", "steady", "bursts")), random.choice(("0", "1", "all", "all"))
    rate, tick = random.choice((2, 20, 100)), random.choice((200_000, 1_000_000))
    return f"{topic.name}={shape}:{rate},acks={acks},every=6s,tick={written(tick)}"


def _faults(random: Random, settings: Settings, kinds: list[str], seconds: int) -> list[Fault]:
    chosen = sorted(random.sample(kinds, min(len(kinds), random.choice((0, 1, 2, 3, 5)))))
    rates = {kind: random.choice((2.0, 6.0)) for kind in chosen}
    by_chance = {kind: rate for kind, rate in rates.items() if kind in DRAWS}
    found = drawn(settings, by_chance, seconds, settings.seed)
    for kind in chosen:
        if kind not in DRAWS:
            found += _MORE[kind](random, settings, random.randint(1, seconds * 1_000) * MS)
    return checked(found, settings)


def _delete_records(random: Random, settings: Settings, at: int) -> list[Fault]:
    topic = random.choice(settings.topics)
    place = topic.name, random.randrange(topic.partitions)
    return [Fault(at, "delete-records", place, {"to": random.choice((5, 50, 500))})]


def _recreate_topic(random: Random, settings: Settings, at: int) -> list[Fault]:
    topic = random.choice(settings.topics)
    later = at + random.choice((0, 2_000)) * MS
    return [Fault(at, "delete-topic", topic.name), Fault(later, "create-topic", topic)]


def _rolling_upgrade(random: Random, settings: Settings, at: int) -> list[Fault]:
    """To a newer version whose brokers move the HW by the same rules."""
    names = list(VERSIONS)
    newer = [VERSIONS[name] for name in names[names.index(settings.version.name) :]]
    alike = [version for version in newer if _moves_alike(version, settings.version)]
    to = random.choice(alike).name
    return [Fault(at, "rolling-upgrade", None, {"to": to, "for": SECOND, "every": 5 * SECOND})]


def _moves_alike(one: Version, other: Version) -> bool:
    rules = [(v.strict_min_isr, v.admits_ineligible, v.lag_by_messages) for v in (one, other)]
    return rules[0] == rules[1]


_MORE: dict[str, Callable[[Random, Settings, int], list[Fault]]] = {
    "delete-records": _delete_records, "recreate-topic": _recreate_topic, "rolling-upgrade": _rolling_upgrade,
}  # fmt: skip
"""Kinds that do not come by chance."""
