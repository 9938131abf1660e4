"""How many replicas it takes to outlive n failures: Kafka's ISR, or the majority of a quorum."""

from __future__ import annotations

from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.fixtures import KEY, TOPIC, at, dies, manual, rounds, send, visible
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario

FAILURES = 2
FIRST = 3000
SECONDS = 20
"""Time enough for a quorum to find out what it can do."""


def isr_against_majority(narrative: Narrative) -> str:
    replicas = FAILURES + 1
    kept = _isr(narrative, replicas)
    few, enough = (_majority(narrative, controllers) for controllers in (FAILURES + 1, 2 * FAILURES + 1))
    rows = [(n, n + 1, 2 * n + 1) for n in (1, 2, 3)]
    narrative.table(("failures", "replicas with an ISR", "with a majority"), rows)
    narrative.after("What it takes: the ISR waits for its slowest member, the majority only for its fastest half")
    return (
        f"with an ISR {replicas} replicas outlive {FAILURES} failures ({kept}); a majority of {FAILURES + 1} {few}, "
        f"one of {2 * FAILURES + 1} {enough}."
    )


def _isr(narrative: Narrative, replicas: int) -> str:
    """Records are committed once all of the ISR have them: the last one that is left has everything."""
    cluster = narrative.cluster(manual(replicas), f"An ISR of {replicas}: committed is what all of it have")
    send(cluster, "a", "b")
    rounds(cluster, 2, *range(2, replicas + 1))
    narrative.after("a and b are on all replicas, and committed")
    for broker in range(1, FAILURES + 1):
        dies(cluster, broker)
        narrative.after(f"Broker {broker} dies; another member of the ISR leads")
    send(cluster, "c")
    last = narrative.after("Who is left has all that was committed, and takes c")
    return f"broker {replicas} has {visible(at(last, replicas))}"


def _majority(narrative: Narrative, controllers: int) -> str:
    """The same failures in the quorum of the controllers, which goes by majority (KRaft)."""
    nodes = tuple(range(FIRST, FIRST + controllers))
    topic = Topic(TOPIC, replication_factor=1, assignment=((1,),))
    settings = Settings(brokers=(1,), topics=(topic,), controllers=nodes)
    cluster = narrative.cluster(settings, f"A majority of {controllers}: the controllers' own log")
    _changes(cluster, min_isr=2)
    narrative.annotate(_standing(cluster, 2))
    narrative.after("A change of the metadata is committed")
    for node in nodes[:FAILURES]:
        cluster.quorum.kill(node)
    cluster.run(SECONDS)
    narrative.annotate(_standing(cluster, 2))
    narrative.after(f"{FAILURES} of them die")
    _changes(cluster, min_isr=3)
    narrative.annotate(_standing(cluster, 3))
    narrative.after("Another change is asked for")
    return "goes on" if _committed(cluster) == 3 else "does not: nothing is decided any more"


def _changes(cluster: Simulation, min_isr: int) -> None:
    cluster.configure(TOPIC, min_isr=min_isr)
    cluster.run(SECONDS)


def _committed(cluster: Simulation) -> int:
    return cluster.quorum.image().partitions[KEY].min_isr


def _standing(cluster: Simulation, wanted: int) -> str:
    quorum = cluster.quorum
    alive = sum(node.up for node in quorum.nodes.values())
    active = f"{quorum.active.id} is active" if quorum.active is not None else "none is active"
    done = "is committed" if _committed(cluster) == wanted else "is not committed"
    return f"{alive} of {len(quorum.nodes)} controllers are alive, {active}; min.insync.replicas={wanted} {done}"


SCENARIOS = (
    Scenario(
        "isr-against-majority", 19, "n+1 replicas with an ISR, 2n+1 with a majority, for n failures",
        isr_against_majority,
    ),
)  # fmt: skip
