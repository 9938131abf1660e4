"""What the high watermark is, who moves it, and how followers learn of it."""

from __future__ import annotations

from generators.simulator.scenarios.fixtures import (
    KEY,
    at,
    dies,
    ids,
    leader,
    manual,
    offsets,
    returns,
    rounds,
    send,
    visible,
)
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario


def who_decides(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(3))
    send(cluster, "a", "b", "c", "d")
    narrative.after("The leader takes a, b, c and d")
    cluster.fetch(2)
    cluster.fetch(3, take=2)
    narrative.after("Broker 2 fetches all of them, broker 3 only two")
    cluster.fetch(3, take=0)
    cluster.fetch(2)
    cluster.fetch(3, take=0)
    before = narrative.after("Both fetch again: now the leader knows how long their logs are")
    dies(cluster, 1)
    after = narrative.after("The leader dies, and broker 2 leads")
    led = leader(after)
    return (
        f"the leader has {' '.join(at(before, 1).records)} and its shortest in-sync replica "
        f"{' '.join(at(before, 3).records)}, so consumers see {visible(at(before, 1))}; "
        f"with broker {led} in its place they see {visible(at(after, led))}."
    )


def hw_travels_with_fetches(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(3))
    send(cluster, *"ab")
    narrative.after("The leader takes two records")
    cluster.park(2)
    cluster.park(3, take=1)
    cluster.answer(2)
    cluster.answer(3)
    first = narrative.after("Both followers fetch at 0; broker 2 gets two records, broker 3 one")
    send(cluster, "c")
    narrative.after("The leader takes a third record")
    cluster.park(2)
    cluster.park(3, take=1)
    cluster.answer(2)
    cluster.answer(3)
    second = narrative.after(
        f"Both fetch again, at {at(first, 2).leo} and {at(first, 3).leo}, and are answered after that"
    )
    hw, leo = at(second, 1).hw, at(second, 1).leo
    return (
        f"the leader's HW is max({at(first, 1).hw}, min({leo}, {at(first, 2).leo}, {at(first, 3).leo})) = {hw}: "
        f"it knows of a follower's log only what the last fetch asked for; the followers, now at LEO "
        f"{at(second, 2).leo} and {at(second, 3).leo}, have learned HW {at(second, 2).hw} and {at(second, 3).hw}."
    )


def two_rounds(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(2))
    send(cluster, "a")
    narrative.after("The leader takes one record")
    cluster.fetch(2)
    first = narrative.after("Its follower fetches at 0: it takes the record, and the leader knows of nothing yet")
    cluster.fetch(2)
    second = narrative.after("It fetches at 1: so it has the record, the HW moves, and the answer says so")
    return (
        f"after the first fetch the record is on both and the HW is still {at(first, 1).hw}; "
        f"the second fetch moves it to {at(second, 1).hw} and brings HW {at(second, 2).hw} to the follower."
    )


def follower_hw(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(3))
    dies(cluster, 3)
    send(cluster, *"abcdefghij")
    cluster.fetch(2)
    cluster.fetch(2)
    narrative.after("Broker 3 is down; the others go on to 10 records, all of them committed")
    returns(cluster, 3)
    narrative.after("It comes back with nothing")
    cluster.fetch(3, take=3)
    behind = narrative.after("It fetches three records, and is told the leader's HW with them")
    cluster.fetch(3)
    level = narrative.after("It fetches the rest")
    return (
        f"told HW {at(behind, 1).hw}, a follower with {at(behind, 3).leo} records has HW "
        f"min({at(behind, 1).hw}, {at(behind, 3).leo}) = {at(behind, 3).hw}, and with all {at(level, 3).leo} "
        f"of them HW {at(level, 3).hw}."
    )


def alone_in_the_isr(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(2))
    send(cluster, *"abc")
    before = narrative.after("The leader takes three records; its follower, in the ISR, has none of them")
    dies(cluster, 2)
    alone = narrative.after("The follower dies and leaves the ISR")
    send(cluster, *"de")
    grown = narrative.after("The leader takes two more")
    return (
        f"with its follower in the ISR the HW stood at {at(before, 1).hw}; alone in it, the leader's HW jumps to its "
        f"LEO at once: to {at(alone, 1).hw}, and with the next append to {at(grown, 1).hw}."
    )


def in_sync_and_out_of_sync_replicas(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(3))
    send(cluster, *"abc")
    rounds(cluster, 3, 2, 3)
    narrative.after("Three records on all three replicas: AR = ISR = 1,2,3, nobody is out of sync")
    send(cluster, *"de")
    cluster.fetch(2)
    cluster.fetch(3, take=1)
    cluster.fetch(2)
    cluster.fetch(3, take=0)
    cluster.fetch(2)
    behind = narrative.after("Two more come in; broker 2 fetches both, broker 3 one, and the leader learns of it")
    rounds(cluster, 2, 3, 2)
    level = narrative.after("Broker 3 fetches the other one, and again")
    view = behind.partitions[KEY]
    osr = [b for b in view.replicas if b not in view.isr]
    leos = ", ".join(str(at(behind, b).leo) for b in view.replicas)
    return (
        f"AR {ids(view.replicas)} = ISR {ids(view.isr)} + OSR {ids(osr) or 'nobody'}; at LEO {leos} the HW is "
        f"{at(behind, 1).hw} ({offsets(0, at(behind, 1).hw)} are visible), and once broker 3 has caught up "
        f"{at(level, 1).hw}."
    )


def above_the_hw(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(2))
    send(cluster, *"abcdef")
    rounds(cluster, 2, 2)
    narrative.after("Six records, on both replicas")
    send(cluster, *"ghi")
    above = narrative.after("The leader takes three more")
    cluster.fetch(2)
    fetched = narrative.after("Its follower fetches them, though they are above the HW")
    log = at(above, 1)
    return (
        f"of a log from {log.log_start} to LEO {log.leo} with HW {log.hw} consumers see "
        f"{offsets(log.log_start, log.hw)} and not {offsets(log.hw, log.leo)}; a broker is not bounded by "
        f"the HW: the follower has all {at(fetched, 2).leo} while its HW is {at(fetched, 2).hw}."
    )


SCENARIOS = (
    Scenario("who-decides", 1, "Consumers see what the shortest in-sync replica has", who_decides),
    Scenario(
        "hw-travels-with-fetches", 2, "The leader learns of LEOs, and followers of the HW", hw_travels_with_fetches
    ),
    Scenario("two-rounds", 3, "A record is committed by the second fetch of its follower", two_rounds),
    Scenario("follower-hw", 4, "A follower's HW is the leader's, or its own LEO if that is lower", follower_hw),
    Scenario("alone-in-the-isr", 5, "Alone in the ISR, a leader commits whatever it takes", alone_in_the_isr),
    Scenario(
        "in-sync-and-out-of-sync-replicas",
        6,
        "All replicas are the in-sync and the out-of-sync ones",
        in_sync_and_out_of_sync_replicas,
    ),
    Scenario("above-the-hw", 7, "What is above the HW: not for consumers, but for brokers", above_the_hw),
)
