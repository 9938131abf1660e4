"""What is written: each news once, and nothing when there is none."""

from dataclasses import replace

import pytest

from pipelines.alerting.outbox import keep_names, latest, news, stamp
from pipelines.alerting.state import AlertState, alert_id, from_arrow, to_arrow
from tests.unit.alerting.evidence_rows import at

FIRING = AlertState(
    "a1", "out_of_sync", "warning", "firing", "broker 3", at(0), at(600), "broker 3 gone", {"cluster": "c"}
)
RESOLVED = replace(FIRING, state="resolved", last_ts=at(700))


def test_a_new_alert_is_written():
    assert news([FIRING], []) == [FIRING]


def test_nothing_new_writes_nothing():
    assert news([FIRING], [FIRING]) == []


def test_time_alone_is_no_news():
    assert news([replace(FIRING, last_ts=at(900))], [FIRING]) == []


def test_a_changed_sentence_is_news():
    changed = replace(FIRING, summary="broker 3 gone: 2 partitions", last_ts=at(650))
    assert news([changed], [FIRING]) == [changed]


def test_firing_then_resolved():
    assert news([RESOLVED], [FIRING]) == [RESOLVED]
    assert news([RESOLVED], [FIRING, RESOLVED]) == []


def test_an_episode_that_nobody_saw_gets_both_states():
    assert news([RESOLVED], []) == [replace(FIRING, last_ts=at(0)), RESOLVED]


def test_the_next_episode_fires_again():
    again = replace(FIRING, first_ts=at(2000), last_ts=at(2600))
    assert news([RESOLVED, again], [FIRING, RESOLVED]) == [again]


def test_what_is_found_no_more_is_resolved_once():
    (withdrawn,) = news([], [FIRING])
    assert (withdrawn.state, withdrawn.summary) == ("resolved", "broker 3 gone (found no more)")
    assert news([], [FIRING, withdrawn]) == []


def test_a_resolved_alert_out_of_sight_stays_as_it_is():
    assert news([], [FIRING, RESOLVED]) == []


@pytest.mark.parametrize(
    ("stored", "found", "same"),
    [
        pytest.param(FIRING, replace(FIRING, first_ts=at(40)), True, id="of several only the first is over"),
        pytest.param(FIRING, replace(FIRING, alert_id="a2"), False, id="of another broker"),
        pytest.param(replace(FIRING, state="resolved"), replace(FIRING, first_ts=at(9)), False, id="it was over"),
    ],
)
def test_an_incident_stays_the_alert_that_it_was(stored, found, same):
    (state,) = keep_names([found], [stored])
    assert (state.episode == stored.episode) == same
    assert (state.subject == stored.subject) == (same or found.subject == stored.subject)
    assert len(news([state], [stored])) == (0 if same else 2 if stored.firing else 1)


def test_the_resolved_state_is_the_latest_of_its_moment():
    at_once = replace(RESOLVED, last_ts=FIRING.last_ts)
    assert latest([at_once, FIRING]) == {FIRING.episode: at_once}


def test_ids_are_stable_and_tell_their_parts_apart():
    assert alert_id("loss", "c", "unclean_loss", "s") == "88e23cfd71f7d353", "ids of written alerts may never change"
    assert alert_id("loss", "c", "a", "b") != alert_id("loss", "ca", "", "b")


def test_states_survive_the_table():
    assert from_arrow(to_arrow([FIRING, RESOLVED])) == [FIRING, RESOLVED]


def test_states_are_in_the_order_in_which_they_were_written():
    """A verdict that was withdrawn and is back has the event time that it had."""
    (withdrawn,) = stamp(news([], [FIRING]), [FIRING], at(900))
    (back,) = stamp(news([FIRING], [FIRING, withdrawn]), [FIRING, withdrawn], at(930))
    stored = [back, withdrawn, FIRING]
    assert latest(stored)[FIRING.episode].firing
    assert news([FIRING], stored) == []


def test_a_wall_clock_that_was_set_back_does_not_change_that_order():
    (first,) = stamp([FIRING], [], at(900))
    (second,) = stamp([RESOLVED], [first], at(100))
    assert second.written_at > first.written_at
