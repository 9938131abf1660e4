"""Drawn schedules of brokers that stop, freeze, come back and answer late, and of a watcher that is cut off or paused:
nobody is blamed whom the truth excludes, and no claim is older than said."""

from dataclasses import dataclass, field
from random import Random

import pytest

from pipelines.replication.metadata.broker_states import add_answer, broker_states

EVERY, SESSION = 5_000_000, 9_000_000
BROKERS = (1, 2, 3)


@dataclass
class Truth:
    """The simulated cluster: when each broker went away and how, and whom the controllers list."""

    away: dict[int, str] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    """Brokers whose route from the watcher is cut."""

    def listed(self, broker, now):
        return broker not in self.away or now - self.since[broker] <= SESSION

    def answer(self, broker, random):
        """How a broker answers a round, retry included."""
        if broker in self.cut:
            return "timed out"
        if self.away.get(broker) == "killed":
            return "refused"
        if self.away.get(broker) == "frozen" or random.random() < 0.03:
            return "timed out"
        return None


def play(seed, rounds=60):
    """(now, truth, how each answered in its last rounds, the states that are claimed) after each round."""
    random, truth = Random(seed), Truth()
    known, last, now = {b: [] for b in BROKERS}, {b: [] for b in BROKERS}, 1_000 * EVERY
    for _ in range(rounds):
        now += EVERY
        for broker in BROKERS:
            if random.random() < 0.08:
                if broker in truth.away:
                    del truth.away[broker]
                else:
                    truth.away[broker], truth.since[broker] = random.choice(("killed", "frozen")), now
            if random.random() < 0.05:
                truth.cut ^= {broker}
        if random.random() < 0.04:
            truth.cut = set() if truth.cut else set(BROKERS)
        if random.random() < 0.05:
            now += random.randrange(3, 20) * EVERY  # the watcher is paused
            continue
        told = {broker: truth.answer(broker, random) for broker in BROKERS}
        others = [b for b in BROKERS if told[b] is None]
        for broker in BROKERS:
            last[broker].append(told[broker])
            who = [b for b in others if b != broker]
            alone = bool(who) and not truth.listed(broker, now)
            detail = "answers" if told[broker] is None else f"no_answer: {told[broker]}"
            if told[broker] is not None or not known[broker] or known[broker][-1][1] != "answers":
                add_answer(known[broker], (now, detail + (", not listed" if alone and told[broker] else "")))
        yield now, truth, last, broker_states(known, {}, {})


@pytest.mark.parametrize("seed", range(100))
def test_nobody_is_blamed_whom_the_truth_excludes(seed):
    blamed = 0
    for now, truth, last, states in play(seed):
        if all(last[b][-1] for b in BROKERS):
            assert {one.state for one in states.values()} <= {"unknown", "answers"}, "it may be the watcher"
            if all(last[b][-2:].count(None) == 0 for b in BROKERS):
                assert {one.state for one in states.values()} == {"unknown"}, "the watcher is cut off, or all are down"
        for broker, one in states.items():
            missed = [told for told in last[broker][-2:] if told is not None]
            if one.state in ("no_answer", "not_reached", "down"):
                assert len(missed) == 2 or last[broker][-1] == "refused", "it answered"
                assert one.since is not None
                assert one.since <= now
            if one.state == "down":
                assert broker in truth.away
                assert not truth.listed(broker, now)
            if one.state == "not_reached":
                assert truth.listed(broker, now)
            if one.state == "answers":
                assert len(missed) < 2, "a claim is at most two rounds old"
                assert last[broker][-1] != "refused"
            blamed += one.state in ("no_answer", "not_reached", "down")
    assert blamed, "a schedule in which nobody goes away shows nothing"
