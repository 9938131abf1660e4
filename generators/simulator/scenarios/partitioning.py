"""Which partition a producer sends a record to."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from generators.simulator.clients.partitioner import Partitioner, RoundRobin, Sticky, murmur2, to_positive
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario

TOPIC, PARTITIONS = "orders", 4
KEYS = ("21", "foobar", "abc", "21")
RECORD_BYTES, BATCH_SIZE = 100, 400


def partitioner(narrative: Narrative) -> str:
    topic = Topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
    settings = Settings(brokers=(1,), topics=(topic,), automatic=False)
    cluster = narrative.cluster(settings)
    random = Random(settings.seed)
    parts = _named(narrative, cluster, random), _keyed(narrative, cluster, random)
    round_robin = _keyless(narrative, cluster, RoundRobin(random), "one after the other, from a random start")
    sticky = _keyless(
        narrative, cluster, Sticky(random, BATCH_SIZE), f"the same until {BATCH_SIZE} bytes are sent to it"
    )
    return f"{'; '.join(parts)}; without a key round-robin sends to {round_robin}, sticky to {sticky}."


def _named(narrative: Narrative, cluster: Simulation, random: Random) -> str:
    chosen = Partitioner(PARTITIONS, RoundRobin(random)).partition(key=b"foobar", named=1)
    _send(cluster, [("foobar", chosen)])
    narrative.after(f"A record with key foobar names partition {chosen}: there it goes")
    return f"a named partition ({chosen}) is taken"


def _keyed(narrative: Narrative, cluster: Simulation, random: Random) -> str:
    by_key = Partitioner(PARTITIONS, RoundRobin(random))
    chosen = [(key, by_key.partition(key=key.encode())) for key in KEYS]
    _send(cluster, chosen)
    rows = [(key, murmur2(key.encode()), to_positive(murmur2(key.encode())), to) for key, to in chosen]
    narrative.table(("key", "murmur2", "without its sign", f"mod {PARTITIONS}"), rows)
    narrative.after("Records with a key: the hash of the key, the same for the same key")
    return "a key has its partition (" + ", ".join(f"{key} {to}" for key, to in dict(chosen).items()) + ")"


def _keyless(narrative: Narrative, cluster: Simulation, keyless: RoundRobin | Sticky, strategy: str) -> str:
    chooser = Partitioner(PARTITIONS, keyless)
    chosen = [chooser.partition(size=RECORD_BYTES) for _ in range(12)]
    _send(cluster, (("-", to) for to in chosen))
    shown = " ".join(map(str, chosen))
    narrative.annotate(f"partitions: {shown}")
    narrative.after(f"Records of {RECORD_BYTES} bytes without a key: {strategy}")
    return shown


def _send(cluster: Simulation, records: Iterable[tuple[str, int]]) -> None:
    for value, partition in records:
        cluster.produce(TOPIC, partition, batch=Batch(values=(value,)))


SCENARIOS = (
    Scenario("partitioner", 16, "A named partition, else the key's, else one by turns or by size", partitioner),
)
