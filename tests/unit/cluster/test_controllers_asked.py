"""The controllers as brokers tell of them that answer the watcher."""

from types import SimpleNamespace

import pytest

from generators.cluster import controllers
from generators.cluster.asking.stopping import QuorumSeen
from generators.cluster.controllers import Controllers, Told
from tests.unit.cluster.clusters import partitions

NONE = QuorumSeen(error=-1)


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch):
    monkeypatch.setattr(controllers, "FORWARDED_S", 0.0)


@pytest.fixture
def answers():
    """The next answers, the last one again and again; None: the question fails."""
    return [Told(NONE)]


@pytest.fixture
def brokers_asked(monkeypatch, answers):
    """The brokers that were asked; each has answered by the next step, that no controller is there if nothing else."""
    asked = []

    def link(address, *_):
        def begin(*_, done):
            asked.append(address.broker_id)
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            return SimpleNamespace(is_done=True, exception=None if answer else TimeoutError(), value=answer)

        return SimpleNamespace(address=address, begin=begin, close=lambda: None)

    monkeypatch.setattr(controllers, "BrokerLink", link)
    return asked


@pytest.mark.parametrize(
    ("answering", "said"),
    [
        ([{1, 2, 3}] * 3, [None, None, (2, "quorum: none is reached by brokers 1, 2")]),
        ([{1}] * 2, [None, (1, "quorum: none is reached by broker 1")]),
        ([{1, 2, 3}, set(), set()], [None, None, None]),
        ([{1, 2, 3}, {2, 3}, {2, 3}], [None, None, None]),
        ([{1, 2, 3}, {1, 2, 3}, {2}], [None, None, (2, "quorum: none is reached by broker 2")]),
    ],
    ids=["two of three", "the only one", "no broker answers", "the one asked is gone", "one of two asked is gone"],
)
def test_only_brokers_that_answer_the_watcher_tell_that_no_controller_is_reached(brokers_asked, answering, said):
    """A watcher that was cut off paged that the cluster had no controller, on the word of a broker that was silent."""
    one = Controllers(None)
    steps = [{b: SimpleNamespace(broker_id=b) for b in brokers} for brokers in answering]
    assert [one.step(brokers, lambda: None, {}) for brokers in steps] == said


def test_brokers_that_list_others_than_the_rest_do_not_tell_alone_that_no_controller_is_reached(brokers_asked):
    """Brokers 1 to 3 are cut off from the controllers, which have fenced them: 4 and 5 list each other only."""
    stale = dict.fromkeys((1, 2, 3), (1, 2, 3, 4, 5))
    one, brokers = Controllers(None), {b: SimpleNamespace(broker_id=b) for b in range(1, 6)}
    said = [one.step(brokers, lambda: None, stale | dict.fromkeys((4, 5), (4, 5))) for _ in range(5)]
    assert said == [None] * 4 + [(4, "quorum: none is reached by brokers 1, 2, 3, 4")]


@pytest.mark.parametrize(("changes", "said"), [(False, "none is reached by brokers 1, 2"), (True, "not known")])
def test_none_is_there_once_no_broker_reached_one_for_as_long_as_a_hanging_one_keeps_their_questions(
    brokers_asked, monkeypatch, changes, said
):
    """Brokers forwarded to a frozen controller for 50 s, another one led after 3 s and elected leaders meanwhile."""
    monkeypatch.setattr(controllers, "FORWARDED_S", 40.0)
    monkeypatch.setattr(controllers, "AGAIN_S", 0.0)
    one, brokers, now = Controllers(None), {b: SimpleNamespace(broker_id=b) for b in (1, 2)}, 100.0
    told = []
    for now in range(100, 150, 7):
        monkeypatch.setattr(controllers, "monotonic", lambda now=now: float(now))
        if changes and now == 121:
            one.see_change()
        if found := one.step(brokers, lambda: None, {}):
            told.append(found[1])
    assert told[0] == "quorum: not known, brokers 1, 2 got no answer of a controller"
    assert told[-1].startswith(f"quorum: {said}")


def test_none_is_there_at_once_if_the_last_answer_had_no_majority(brokers_asked, answers, monkeypatch):
    """Two of three controllers were killed: no other one can lead, so nobody waits for one that hangs."""
    monkeypatch.setattr(controllers, "FORWARDED_S", 40.0)
    monkeypatch.setattr(controllers, "EVERY_S", 0.0)
    one, brokers = Controllers(None), {1: SimpleNamespace(broker_id=1)}
    answers[:] = [Told(QuorumSeen({1: True, 2: False, 3: False})), Told(NONE)]
    said = [one.step(brokers, lambda: None, {}) for _ in range(3)]
    assert said[-1] == (1, "quorum: none is reached by broker 1")


def test_a_replica_counts_again_once_nobody_tells_that_it_is_being_added(brokers_asked, answers, monkeypatch):
    """It may be in the assignment by then, and have left the ISR. One question that fails says nothing."""
    monkeypatch.setattr(controllers, "EVERY_S", 0.0)
    answers[:] = [Told(QuorumSeen({1: True}), {("orders", 0): frozenset({3})}), None]
    one, seen = Controllers(None), partitions({("orders", "o1"): [(1, 0, [1, 2], [1, 2, 3])]})
    told = []
    for kept_s in (45.0, 45.0, 45.0, 0.0):
        monkeypatch.setattr(controllers, "KEPT_S", kept_s)
        one.step({1: SimpleNamespace(broker_id=1)}, lambda: None, {})
        told.append(one.settle(seen).assignment.values.tolist())
    assert told == [[1, 2, 3], [1, 2], [1, 2], [1, 2, 3]]


def test_a_question_about_reassignments_that_fails_does_not_say_that_no_controller_is_there(monkeypatch):
    async def found(link):
        return QuorumSeen({1: True})

    async def fails(link):
        raise TimeoutError

    monkeypatch.setattr(controllers, "ask_quorum", found)
    monkeypatch.setattr(controllers, "ask_adding", fails)
    with pytest.raises(StopIteration) as ended:  # nothing of it waits
        controllers._ask(None).send(None)
    assert ended.value.value == Told(QuorumSeen({1: True}))


@pytest.mark.parametrize(
    ("registered", "words"),
    [
        ([None], ["", "", ""]),
        ([{1: False, 2: True}], ["", "fenced", ""]),
        ([{1: False, 2: False, 3: False}, {1: False, 2: True}], ["", "fenced", "unregistered"]),
    ],
    ids=["it cannot be told", "a broker that has just come", "one that was registered once"],
)
def test_a_broker_is_fenced_or_unregistered_as_the_controllers_say(
    brokers_asked, answers, monkeypatch, registered, words
):
    monkeypatch.setattr(controllers, "EVERY_S", 0.0)
    answers[:] = [Told(QuorumSeen({1: True}), {}, one) for one in registered]
    one = Controllers(None)
    for _ in range(3):
        one.step({1: SimpleNamespace(broker_id=1)}, lambda: None, {})
    assert [one.registration(broker) for broker in (1, 2, 3)] == words


def test_whom_others_list_no_more_is_asked_about_again_if_the_last_answer_is_older(brokers_asked, answers):
    answers[:] = [
        Told(QuorumSeen({1: True}), {}, {1: False, 2: False}),
        Told(QuorumSeen({1: True}), {}, {1: False, 2: True}),
    ]
    one, brokers = Controllers(None), {1: SimpleNamespace(broker_id=1)}
    said = []
    for _ in range(4):
        one.step(brokers, lambda: None, {})
        said.append(one.registration(2))
    assert said == ["", "", "", "fenced"], "15 s before it would be due"
