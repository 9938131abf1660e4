"""When a replica is out of sync: the rule by time, and the older one by messages."""

from __future__ import annotations

from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.scenarios.fixtures import PARTITION, TOPIC, at, isr, manual
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario


def lag_rules(narrative: Narrative) -> str:
    return f"{_by_time(narrative)}; {_by_messages(narrative)}."


def _by_time(narrative: Narrative) -> str:
    lag = 10
    settings = manual(2, lag_max_ms=lag * 1000)
    cluster = narrative.cluster(
        settings, f"By time: out of sync is who has not caught up for {lag} s (since Kafka 0.9)"
    )
    cluster.produce(TOPIC, PARTITION, 100)
    cluster.fetch(2, take=0)
    cluster.brokers[1].check_isr()
    far = narrative.after("A hundred records come in at once; the follower has none yet, and the leader checks its ISR")
    cluster.run(lag)
    cluster.fetch(2, take=30)
    cluster.brokers[1].check_isr()
    out = narrative.after(f"{lag} s later it has fetched, and not caught up; the leader checks again")
    cluster.fetch(2)
    cluster.fetch(2)
    back = narrative.after("It catches up")
    return (
        f"by time a replica {at(far, 1).leo - at(far, 2).leo} records behind stays in ISR {isr(far)}, leaves it "
        f"(ISR {isr(out)}) when it has not been level with its leader for more than {lag} s, and returns (ISR "
        f"{isr(back)}) when it has caught up"
    )


def _by_messages(narrative: Narrative) -> str:
    most = 4
    settings = manual(2, version=VERSIONS["0.8"], lag_max_messages=most)
    title = f"By messages: out of sync is who is more than {most} records behind (until Kafka 0.8)"
    cluster = narrative.cluster(settings, title)
    cluster.produce(TOPIC, PARTITION, most)
    cluster.fetch(2, take=0)
    cluster.brokers[1].check_isr()
    near = narrative.after(f"{most} records come in; the follower has none yet, and the leader checks its ISR")
    cluster.produce(TOPIC, PARTITION, 1)
    cluster.fetch(2, take=0)
    cluster.brokers[1].check_isr()
    out = narrative.after("One more comes in; the leader checks again")
    cluster.fetch(2)
    cluster.fetch(2)
    back = narrative.after("The follower catches up")
    return (
        f"by messages one {at(near, 1).leo - at(near, 2).leo} behind stays (ISR {isr(near)}), one "
        f"{at(out, 1).leo - at(out, 2).leo} behind leaves at once (ISR {isr(out)}), and returns (ISR {isr(back)})"
    )


SCENARIOS = (Scenario("lag-rules", 8, "Who is out of sync: by time, and by messages as it once was", lag_rules),)
