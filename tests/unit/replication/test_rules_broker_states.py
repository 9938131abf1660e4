"""States of brokers (docs/kafka-rules.md): who does not answer a watcher is not yet down."""

from itertools import permutations

import pytest

from pipelines.replication import Reconstructor
from pipelines.replication.metadata.broker_states import add_answer, broker_states
from tests.unit.replication.bronze import events_of, since_base
from tests.unit.replication.test_rules_samples_hw import caught_up
from tests.unit.replication.watching import cluster, in_time, rounds

S = 1_000_000
TIMED_OUT, REFUSED, GONE = "no_answer: timed out", "no_answer: refused", "no_answer: refused, not listed"


def states(logged=(), whole=(), silent=(), **answers):
    """By broker (state, since in seconds); `b3=((5, detail), ...)` is what a watcher found of broker 3."""
    known = {int(name[1:]): [(ts * S, detail) for ts, detail in rows] for name, rows in answers.items()}
    logs = {broker: (ts * S, detail) for broker, ts, detail in logged}
    found = broker_states(known, logs, {broker: ts * S for broker, ts in whole}, silent)
    return {b: (one.state, None if one.since is None else one.since // S) for b, one in sorted(found.items())}


UP = ((0, "answers"),)


def third(*rows, **more):
    return states(b1=UP, b2=UP, b3=((0, "answers"), *rows), **more)[3]


def test_a_broker_that_answers_does_since_it_said_so():
    assert third() == ("answers", 0)


def test_one_slow_answer_changes_nothing_and_the_second_missed_one_does():
    assert third((5, TIMED_OUT)) == ("answers", 0)
    assert third((5, TIMED_OUT), (10, TIMED_OUT)) == ("no_answer", 5)


def test_a_refused_connection_counts_at_once():
    assert third((5, REFUSED)) == ("no_answer", 5)


def test_who_does_not_answer_and_is_listed_no_more_is_down():
    assert third((5, REFUSED), (10, REFUSED), (15, GONE)) == ("down", 5)


def test_without_a_controller_metadata_lists_who_is_down():
    """The route to it was to be looked at, of a broker that was killed after two of three controllers."""
    answers = {1: [(0, "answers")], 2: [(S, REFUSED), (60 * S, REFUSED)]}
    assert broker_states(answers, {}, {})[2].state == "not_reached"
    for told in ("quorum: none is reached by broker 1", "quorum: 3 voters, 1 caught up, without 2 3, none to spare"):
        assert broker_states(answers, {}, {}, quorum=(told, 0))[2].state == "no_answer"


@pytest.mark.parametrize(("again", "state"), [(2, "not_reached"), (41, "not_reached"), (42, "no_answer")])
def test_whom_controllers_could_not_fence_until_lately_is_not_called_not_reached(again, state):
    """Of three controllers two were away until 36 s after the kill: the route to a dead broker was to be looked at."""
    answers = {1: [(0, "answers")], 2: [(S, REFUSED), (60 * S, REFUSED)]}
    told = "quorum: 3 voters, 2 caught up, without 2, none to spare", again * S
    assert broker_states(answers, {}, {}, quorum=told)[2].state == state


@pytest.mark.parametrize(
    "told", ["none is reached by brokers 1, 3", "not known, brokers 1, 3 got no answer of a controller"]
)
def test_nobody_is_called_not_reached_while_no_controller_may_be_there_to_fence(told):
    answers = {1: [(0, "answers")], 2: [(S, REFUSED), (60 * S, REFUSED)]}
    assert broker_states(answers, {}, {}, quorum=(f"quorum: {told}", S))[2].state == "no_answer"


def test_who_does_not_answer_and_is_listed_for_longer_than_two_sessions_is_not_reached_from_here():
    """That time passes shows nothing: others must have listed it then."""
    assert third(*[(ts, TIMED_OUT) for ts in (5, 10, 15, 20)]) == ("no_answer", 5)
    assert third(*[(ts, TIMED_OUT) for ts in (5, 10, 15, 20, 25)]) == ("not_reached", 5)


def test_whom_nobody_listed_all_the_while_is_not_called_not_reached():
    """The only other broker was gone, too, and came back: it was to list who was dead."""
    missed = [(ts, TIMED_OUT) for ts in (5, 10, 15, 20, 25)]
    found = states(b2=((0, "answers"), (10, REFUSED), (25, "answers")), b3=((0, "answers"), *missed))
    assert found == {2: ("answers", 25), 3: ("no_answer", 5)}


def test_who_answers_and_is_not_listed_may_be_cut_off_from_the_controllers():
    assert third((10, "answers, not listed")) == ("not_in_metadata", 10)
    assert third((10, "answers, not listed"), (15, "answers")) == ("answers", 15)


def test_who_answers_and_is_fenced_by_the_controllers_is_fenced():
    assert third((10, "answers, not listed"), (25, "answers, not listed, fenced")) == ("fenced", 25)
    assert third((10, "answers, not listed, fenced"), (15, "answers")) == ("answers", 15)


@pytest.mark.parametrize(
    ("registration", "words"),
    [
        ("", ""),
        (", fenced", ", fenced by the controllers"),
        (", unregistered", ", no longer registered for this listener"),
    ],
)
def test_why_a_broker_is_down_says_what_the_controllers_say_of_it(registration, words):
    """It is down since it did not answer, and not since the controllers were asked."""
    missed = [(0, "answers"), (5 * S, REFUSED), (10 * S, GONE), (20 * S, GONE + registration)]
    found = broker_states({1: [(0, "answers")], 2: missed}, {}, {})[2]
    assert (found.state, found.since) == ("down", 5 * S)
    assert found.reason == f"does not answer (refused, not listed by the others{words})"


def test_no_broker_is_blamed_where_none_answers():
    missed = ((0, "answers"), (5, REFUSED), (10, REFUSED))
    assert {state for state, _ in states(b1=missed, b2=missed, b3=missed).values()} == {"unknown"}


def test_whom_the_watcher_never_heard_is_unknown_until_the_second_round():
    assert states(b1=UP, b3=((5, TIMED_OUT),))[3] == ("unknown", 5)
    assert states(b1=UP, b3=((5, TIMED_OUT), (10, TIMED_OUT)))[3] == ("no_answer", 5)


@pytest.mark.parametrize(
    ("detail", "state"),
    [("started", "answers"), ("unfenced", "answers"), ("fenced", "fenced"), ("controlled_shutdown", "stopping"),
     ("unregistered", "unregistered")],
)  # fmt: skip
def test_logs_alone_tell_a_state(detail, state):
    assert states([(3, 7, detail)]) == {3: (state, 7)}


def test_a_fenced_broker_may_go_on_answering_and_one_that_nobody_hears_is_down():
    assert third(logged=[(3, 7, "fenced")]) == ("fenced", 7)
    assert third((5, REFUSED), (10, REFUSED), logged=[(3, 7, "fenced")]) == ("down", 5)


def test_who_answers_after_it_was_to_stop_has_come_back():
    assert third(logged=[(3, 7, "controlled_shutdown")]) == ("stopping", 7)
    assert third((10, REFUSED), (20, "answers"), logged=[(3, 7, "controlled_shutdown")]) == ("answers", 20)


def test_a_lake_whose_watcher_wrote_no_row_for_a_missed_round():
    assert states(whole=[(1, 60), (2, 60), (3, 10)], silent={3}) == {
        1: ("answers", None), 2: ("answers", None), 3: ("no_answer", 10),
    }  # fmt: skip


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_what_is_kept_of_answers_does_not_depend_on_their_order(order):
    rows = [(0, "answers"), (1, TIMED_OUT), (2, TIMED_OUT), (3, TIMED_OUT), (4, TIMED_OUT)]
    known = []
    for k in order:
        add_answer(known, rows[k])
        add_answer(known, rows[k])
    assert known == [rows[0], rows[1], rows[2], rows[4]]


def test_nobody_waits_for_a_broker_whose_silence_is_a_row():
    """What is known of partitions was ten seconds old while a broker was gone: each waited for its grace."""
    one, two, three = (one.round(-20_000) for one in caught_up())
    for second in range(7, 10):
        three.event(second * 1000, "broker_state", True, replica_id=3, detail="no_answer: refused")
    one.leads(8000, 0, 200, 200)
    two.follows(8000, 200)
    rounds(9000, one, two, since=7000)
    machine = Reconstructor()
    machine.update(events_of(in_time(one, two, three)))
    (row,) = machine.health().to_pylist()
    assert (row["hw"], row["out_of_sync"]) == (200, None)
    found = {row["broker_id"]: (row["state"], row["witness"]) for row in machine.present().brokers.to_pylist()}
    assert found == {1: ("answers", "watcher"), 2: ("answers", "watcher"), 3: ("no_answer", "watcher")}
    again = Reconstructor.restore(machine.snapshot())
    assert again.present().brokers.equals(machine.present().brokers)


def test_what_was_told_last_of_the_controllers_holds_since_it_was_told_first():
    """Whichever broker was asked; whether brokers answer is another matter."""
    one, two = cluster(1, 2)
    for watched, ms, detail in (
        (one, 0, "3 voters"),
        (two, 5_000, "none"),
        (one, 20_000, "none"),
        (two, 35_000, "none"),
    ):
        watched.event(ms, "broker_state", True, replica_id=watched.broker, detail=f"quorum: {detail}", ts_error_ms=1.0)
    one.config(0, detail="rack=a", replica_id=1)
    rounds(36_000, one, two)
    machine = Reconstructor()
    machine.update(events_of(in_time(one, two)))
    again = Reconstructor.restore(machine.snapshot())
    for rows in (machine.present().brokers.to_pylist(), again.present().brokers.to_pylist()):
        assert [(row["quorum"], since_base(row["quorum_since"])) for row in rows] == [("quorum: none", 5_000)]
        assert [row["state"] for row in rows] == ["answers"]
