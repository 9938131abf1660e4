"""The plan of a simulation: the settings of `[simulate]`, read and checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from generators.simulator.clients import load
from generators.simulator.clients.load import Load
from generators.simulator.cluster.settings import LOADED, MS, Clock, Retention, Settings, Topic
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults import chance, spans
from generators.simulator.faults import script as faults
from generators.simulator.faults.forms import nearest_version
from generators.simulator.faults.injection import ROLLING
from generators.simulator.faults.script import SHAPES, Fault
from pipelines.errors import UsageError, nearest

if TYPE_CHECKING:
    from pipelines.settings import Simulate

REPLICAS = 3
CONTROLLER = 3000
"""The id of the first controller that is no broker."""
TILE = 500
"""Above so many partitions a cluster is made of tiles of at most so many."""
RECORDS = 10
"""So many at a time come to a partition of a tile."""

_SAME = {
    *("cluster", "seed", "lag_max_ms", "lag_max_messages", "session_timeout_ms", "fetch_max_records", "flush_ms"),
    *("log_dirs", "thread_stalls", "thread_overtakes", "alter_partition_errors", "retention_check_ms"),
}
"""Keys of `[simulate]` that a simulated cluster has under the same name."""


@dataclass(frozen=True)
class Plan:
    """A cluster, its loads, its faults, and for how long it runs."""

    settings: Settings
    loads: tuple[Load, ...]
    faults: tuple[Fault, ...]
    seconds: float
    level: int
    fetch_every_ms: int = 0
    """Interval (ms) of rows for fetches that change nothing; 0: every one has a row."""
    second_file: bool = False
    """Whether brokers write their stock files too."""
    tiles: int = 1
    """Copies of the simulated partitions in the telemetry."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The partitions of the topics that the tiles make up."""

    @property
    def partitions(self) -> int:
        return sum(self.sizes.get(topic.name, topic.partitions) for topic in self.settings.topics)

    @property
    def alike(self) -> tuple[int, ...]:
        """Brokers of which nothing that is set or done to them tells one from the other."""
        apart = {*self.settings.clocks, *self.settings.controllers}
        for fault in self.faults:
            form = SHAPES[fault.do].on
            apart.update({"broker": (fault.on,), "link": fault.on}.get(form, ()))
            apart.update(self.settings.brokers if fault.do in ROLLING else ())
        return tuple(broker for broker in self.settings.brokers if broker not in apart)


def plan(section: Simulate) -> Plan:
    """Read every value. Raises UsageError naming the first that cannot be."""
    if section.version not in VERSIONS:
        near, known = nearest_version(section.version), ", ".join(VERSIONS)
        raise UsageError(f"version {section.version} has no rules here: {near}, known are {known}")
    settings = Settings(
        **section.model_dump(include=_SAME),
        brokers=_brokers(section),
        topics=_topics(section),
        version=VERSIONS[section.version],
        controllers=_controllers(section),
        racks={broker: f"rack-{(broker - 1) % section.racks + 1}" for broker in _brokers(section) if section.racks},
        clocks=_clocks(section),
        controller_us=(MS, section.controller_ms * MS),
        alter_us=LOADED if section.commits == "loaded" else {},
        metadata_us=(MS // 2, section.metadata_ms * MS),
        elr=_elr(section),
        retention=Retention(section.retention_bytes, section.segment_bytes, section.record_bytes)
        if section.retention_bytes
        else None,
    )
    wrong = _faults(section, settings)
    loads = tuple(load.parse(text) for text in section.load)
    _check_loads(loads, settings, wrong)
    every = _fetch_every(section)
    return Plan(
        settings,
        loads,
        tuple(wrong),
        section.duration,
        section.level,
        every,
        section.second_file,
    )


def tiled(plan: Plan, most: int = TILE) -> Plan:
    """The plan of the tile that is simulated of a large cluster: all brokers, and of its partitions at most so many.

    What happens to a partition happens to that of the same place in every tile.
    """
    count = -(-plan.partitions // most)

    def smaller(topic: Topic) -> Topic:
        return replace(topic, partitions=-(-topic.partitions // count))

    def shared(fault: Fault) -> Fault:
        if fault.do == "create-topic":
            return fault._replace(on=smaller(fault.on))
        if SHAPES[fault.do].on == "partition" and fault.on is not None:
            return fault._replace(on=(fault.on[0], fault.on[1] // count))
        return fault

    topics = (*plan.settings.topics, *(fault.on for fault in plan.faults if fault.do == "create-topic"))
    return replace(
        plan,
        settings=replace(plan.settings, topics=tuple(map(smaller, plan.settings.topics))),
        loads=tuple(
            replace(load, rate=load.rate / count, records=1 if load.producers else max(load.records, RECORDS))
            for load in plan.loads
        ),
        faults=tuple(map(shared, plan.faults)),
        fetch_every_ms=plan.fetch_every_ms or (plan.settings.lag_max_ms // 3 if plan.level == 3 else 0),
        tiles=count,
        sizes={topic.name: topic.partitions for topic in topics},
    )


def _brokers(section: Simulate) -> tuple[int, ...]:
    return tuple(range(1, section.brokers + 1))


def _topics(section: Simulate) -> tuple[Topic, ...]:
    if not section.topics:
        return (Topic("orders", section.partitions, min(REPLICAS, section.brokers)),)
    found = tuple(spans.topic(text.strip()) for text in section.topics.split(","))
    for topic in found:
        if topic.replication_factor > section.brokers:
            raise UsageError(
                f"topic {topic.name} wants {topic.replication_factor} replicas of {section.brokers} brokers; "
                f"the nearest allowed is {section.brokers}"
            )
    for name in {topic.name for topic in found}:
        if sum(topic.name == name for topic in found) > 1:
            raise UsageError(f"topics: {section.topics} has {name} twice")
    return found


def _elr(section: Simulate) -> bool | None:
    if section.elr == "on" and not VERSIONS[section.version].has_elr:
        known = ", ".join(name for name, version in VERSIONS.items() if version.has_elr)
        raise UsageError(f"version {section.version} has no eligible leader replicas: elr is on, which {known} have")
    return {"on": True, "off": False}.get(section.elr)


def _controllers(section: Simulate) -> tuple[int, ...]:
    """Nodes of their own, or the first brokers."""
    if not section.combined:
        return tuple(range(CONTROLLER, CONTROLLER + section.controllers))
    if section.controllers < 3:
        raise UsageError(f"combined with {section.controllers} controllers: the nearest allowed is controllers = 3")
    if section.controllers > section.brokers:
        raise UsageError(
            f"{section.controllers} of {section.brokers} brokers cannot be controllers; the nearest allowed is "
            f"brokers = {section.controllers}"
        )
    return tuple(range(1, section.controllers + 1))


def _clocks(section: Simulate) -> dict[int, Clock]:
    """Each broker's clock is wrong by up to `clock_skew_ms`, and drifts by up to `clock_drift_ppm`, either way.

    Those in `clock_offsets` are wrong by that much more.
    """
    most, drift = section.clock_skew_ms * MS, section.clock_drift_ppm
    skews, drifts = Random(f"{section.seed}/clocks"), Random(f"{section.seed}/drifts")
    clocks = {
        id: Clock(skews.randint(-most, most), round(drifts.uniform(-drift, drift), 3))
        for id in (range(1, section.brokers + 1) if most or drift else ())
    }
    for id, offset in _offsets(section).items():
        known = clocks.get(id, Clock())
        clocks[id] = Clock(known.skew_us + offset, known.drift_ppm)
    return clocks


def _offsets(section: Simulate) -> dict[int, int]:
    nodes = (*range(1, section.brokers + 1), *_controllers(section))
    found = {}
    for name, offset in section.clock_offsets.items():
        if not name.isdecimal() or int(name) not in nodes:
            raise UsageError(f"clock_offsets: there is no broker {name}; {nearest(name, map(str, nodes))}")
        found[int(name)] = spans.span(offset)
    return found


def _faults(section: Simulate, settings: Settings) -> list[Fault]:
    """Those of the file, of single lines, and by chance."""
    file = Path(section.faults) if section.faults else None
    written = faults.read(file) if file else []
    written += [faults.parse(line) for line in section.fault]
    rates = (faults.content(file).get("rates", {}) if file else {}) | section.rates
    by_chance = chance.drawn(settings, faults.rates(rates, chance.DRAWS), section.duration, section.seed)
    return faults.checked([*written, *by_chance], settings)


def _fetch_every(section: Simulate) -> int:
    every, most = section.fetch_every_ms, section.lag_max_ms // 3
    if every > most:
        raise UsageError(f"fetch_every_ms {every} is more than a third of lag_max_ms; the nearest allowed is {most}")
    if every and section.level != 3:
        raise UsageError(f"fetch_every_ms {every} is for level 3: level {section.level} has no fetches")
    return every


def _check_loads(loads: Sequence[Load], settings: Settings, wrong: Sequence[Fault]) -> None:
    topics = {topic.name for topic in settings.topics} | {f.on.name for f in wrong if f.do == "create-topic"}
    for one in loads:
        if one.topic is not None and one.topic not in topics:
            raise UsageError(f"load on {one.topic}: there is no such topic; {nearest(one.topic, topics)}")
