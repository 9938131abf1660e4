"""A follower fails and comes back; a leader fails and another one takes over."""

from __future__ import annotations

from collections import Counter

from generators.simulator.cluster.settings import Settings
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.scenarios.fixtures import at, dies, isr, leader, manual, returns, rounds, send
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario

BEFORE = "Before leader epochs (Kafka 0.10): a replica cuts its log at the HW it has stored"
SINCE = "With leader epochs (Kafka 4.1): a replica cuts its log where it parts from the leader's"


def _both(brokers: int) -> tuple[tuple[Settings, str], tuple[Settings, str]]:
    return (manual(brokers, version=VERSIONS["0.10"]), BEFORE), (manual(brokers, version=VERSIONS["4.1"]), SINCE)


def follower_failure(narrative: Narrative) -> str:
    return "; ".join(_follower_failure(narrative, *act) for act in _both(2)) + "."


def _follower_failure(narrative: Narrative, settings: Settings, title: str) -> str:
    cluster = narrative.cluster(settings, title)
    send(cluster, *"abc")
    rounds(cluster, 2, 2)
    send(cluster, *"de")
    cluster.fetch(2)
    cluster.brokers[2].checkpoint()
    stored = narrative.after("Broker 2 has a to e, and has stored HW 3 on its disk")
    dies(cluster, 2)
    cluster.run(settings.lag_max_ms / 1000)
    send(cluster, *"fgh")
    gone = narrative.after("It dies and leaves the ISR; half a minute later the leader goes on with f, g and h")
    returns(cluster, 2)
    back = narrative.after("It comes back")
    cluster.fetch(2)
    narrative.after("It fetches from the end of its log")
    cluster.fetch(2)
    joined = narrative.after("It fetches again: its LEO has reached the HW")
    return (
        f"{settings.version.name}: with LEO {at(stored, 2).leo} and HW {at(stored, 2).hw} the follower left the ISR "
        f"({isr(gone)}), came back at LEO {at(back, 2).leo}, fetched from there, and was in the ISR ({isr(joined)}) "
        f"again at LEO {at(joined, 2).leo}, the partition's HW being {at(joined, 1).hw}"
    )


def leader_failure(narrative: Narrative) -> str:
    return "; ".join(_leader_failure(narrative, *act) for act in _both(3)) + "."


def _leader_failure(narrative: Narrative, settings: Settings, title: str) -> str:
    cluster = narrative.cluster(settings, title)
    send(cluster, *"abc")
    rounds(cluster, 3, 2, 3)
    send(cluster, *"de")
    cluster.fetch(2)
    cluster.fetch(3, take=1)
    send(cluster, "f")
    cluster.brokers[1].checkpoint()
    before = narrative.after(
        "The leader has a to f, broker 2 has a to e, broker 3 a to d; committed is what all have: a to c"
    )
    dies(cluster, 1)
    narrative.after("The leader dies, and one of the ISR takes over")
    send(cluster, "e")
    narrative.after("The producer of e was never answered, and sends it again")
    returns(cluster, 1)
    rounds(cluster, 4, 1, 3)
    after = narrative.after("The old leader comes back; both follow the new one")
    logs = [at(after, broker).records for broker in (1, 2, 3)]
    agree = "agree" if len(set(logs)) == 1 else "do not agree"
    lost = [value for value in at(before, 1).records if value not in logs[leader(after) - 1]]
    doubled = [value for value, times in Counter(logs[leader(after) - 1]).items() if times > 1]
    return (
        f"{settings.version.name}: broker {leader(after)} leads and all replicas {agree} on {' '.join(logs[0])}; "
        f"of the records above HW {at(before, 1).hw} {_named(lost)} lost and {_named(doubled)} doubled"
    )


def _named(values: list[str]) -> str:
    return f"{' and '.join(values)} {'are' if len(values) > 1 else 'is'}" if values else "none is"


SCENARIOS = (
    Scenario("follower-failure", 10, "A follower leaves the ISR, returns, and rejoins at the HW", follower_failure),
    Scenario("leader-failure", 11, "A new leader from the ISR: replicas agree, at a price", leader_failure),
)
