"""When nobody of the ISR is left: wait, or buy availability with committed records."""

from __future__ import annotations

from generators.simulator.scenarios.fixtures import KEY, PARTITION, TOPIC, at, dies, manual, offsets, returns, rounds
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario


def unclean_election(narrative: Narrative) -> str:
    off = _nobody_left(narrative, unclean=False, title="unclean.leader.election.enable=false")
    on = _nobody_left(narrative, unclean=True, title="unclean.leader.election.enable=true: the same script")
    return f"off: {off}; on: {on}."


def _nobody_left(narrative: Narrative, unclean: bool, title: str) -> str:
    cluster = narrative.cluster(manual(2, unclean=unclean), title)
    cluster.produce(TOPIC, PARTITION, 120)
    rounds(cluster, 2, 2)
    narrative.after("120 records on both replicas")
    dies(cluster, 2)
    cluster.produce(TOPIC, PARTITION, 180)
    alone = narrative.after("The follower dies; the leader, alone in the ISR, takes and commits 180 more")
    dies(cluster, 1)
    narrative.after("The leader dies too")
    returns(cluster, 2)
    after = narrative.after("The follower comes back, with what it had")
    committed, elected = at(alone, 1).hw, after.partitions[KEY].leader
    if elected is None:
        return f"the partition stays offline until broker 1 is back, and its {committed} committed records are safe"
    returns(cluster, 1)
    rounds(cluster, 3, 1)
    back = narrative.after("The old leader comes back and follows")
    start = at(after, elected).leo
    return (
        f"broker {elected} leads from offset {start}, and the committed offsets {offsets(start, committed)} "
        f"({committed - start}) are gone, from broker 1 (LEO {at(back, 1).leo}) too"
    )


SCENARIOS = (Scenario("unclean-election", 13, "Nobody of the ISR is left: offline, or back without", unclean_election),)
