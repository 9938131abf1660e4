"""Why cutting logs at the HW was not enough, and what leader epochs repair (KIP-101)."""

from __future__ import annotations

from generators.simulator.cluster.settings import Settings
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.scenarios.fixtures import at, dies, leader, manual, offsets, returns, rounds, send
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario

HIGH_WATERMARK, EPOCHS = VERSIONS["0.10"], VERSIONS["4.0"]


def cutting_at_the_hw(narrative: Narrative) -> str:
    lost = _loss(narrative, manual(2, version=HIGH_WATERMARK), "Loss, cutting at the HW (Kafka 0.10)")
    kept = _loss(narrative, manual(2, version=EPOCHS), "The same script with leader epochs (Kafka 4.0)")
    parted = _divergence(narrative, manual(2, version=HIGH_WATERMARK), "Divergence, cutting at the HW (Kafka 0.10)")
    agreed = _divergence(narrative, manual(2, version=EPOCHS), "The same script with leader epochs (Kafka 4.0)")
    return (
        f"a follower that restarts and is elected: cutting at the HW {lost}, with leader epochs {kept}; "
        f"two replicas after a power failure: cutting at the HW {parted}, with leader epochs {agreed}."
    )


def _loss(narrative: Narrative, settings: Settings, title: str) -> str:
    cluster = narrative.cluster(settings, title)
    send(cluster, "a")
    rounds(cluster, 2, 2)
    cluster.brokers[2].checkpoint()
    send(cluster, "b")
    cluster.fetch(2)
    cluster.park(2)
    cluster.brokers[1].checkpoint()
    before = narrative.after("a and b are on both replicas and committed; that b is, the follower has yet to be told")
    cluster.kill(2)
    returns(cluster, 2)
    narrative.after("Instead it is restarted, so quickly that it stays in the ISR")
    dies(cluster, 1)
    narrative.after("Before it can fetch again the leader dies, and it is elected")
    returns(cluster, 1)
    rounds(cluster, 3, 1)
    after = narrative.after("The old leader comes back and follows")
    new = at(after, leader(after))
    if new.leo >= at(before, 1).hw:
        return f"keeps {' '.join(new.records)}"
    return f"loses the committed offset {offsets(new.leo, at(before, 1).hw)}, though both replicas had it"


def _divergence(narrative: Narrative, settings: Settings, title: str) -> str:
    cluster = narrative.cluster(settings, title)
    send(cluster, "a")
    rounds(cluster, 2, 2)
    cluster.brokers[2].flush()
    cluster.brokers[2].checkpoint()
    send(cluster, "b")
    rounds(cluster, 2, 2)
    cluster.brokers[1].flush()
    cluster.brokers[1].checkpoint()
    narrative.after("a and b are on both replicas, but b is not yet on the follower's disk")
    cluster.power_off(1)
    cluster.power_off(2)
    cluster.expire(1)
    cluster.expire(2)
    narrative.after("The power fails for both")
    returns(cluster, 2)
    send(cluster, "c")
    narrative.after("Broker 2 is back first, without b, and leads; it takes c")
    returns(cluster, 1)
    rounds(cluster, 4, 1)
    after = narrative.after("Broker 1 comes back with a and b, and follows")
    mine, theirs = at(after, 1).records, at(after, 2).records
    parted = [offset for offset, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]]
    if parted:
        return f"they differ at offset {parted[0]} ({mine[parted[0]]} and {theirs[parted[0]]})"
    return f"they agree on {' '.join(theirs)}"


SCENARIOS = (
    Scenario(
        "cutting-at-the-hw", 12, "Cutting at the HW loses or diverges; leader epochs repair it", cutting_at_the_hw
    ),
)
