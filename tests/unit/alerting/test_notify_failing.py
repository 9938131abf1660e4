"""Channels that take no notification, from what the notifier wrote of its attempts."""

import pytest

from pipelines.alerting.rules import AlertRules
from tests.unit.alerting.evidence_rows import alert_states, at, evidence, states

A, B = ({"alert_id": name, "episode": 0} for name in "ab")


def row(second, outcome, channel="oncall", **values):
    return {"channel": channel, "outcome": outcome, "sent_at": second, "error": "HTTP 500", **values}


def failing(*rows, now):
    return [state[2:4] for state in states(evidence(deliveries=rows), now=now)]


@pytest.mark.parametrize(
    ("rows", "now", "alerts"),
    [
        pytest.param([row(0, "failed", **A)], 300, [], id="not for long enough"),
        pytest.param([row(0, "failed", **A)], 301, [("oncall", 0)], id="for five minutes"),
        pytest.param([row(0, "failed"), row(200, "failed")], 301, [("oncall", 0)], id="the channel as a whole"),
        pytest.param([row(0, "failed", **A), row(60, "sent", **A)], 400, [], id="accepted since"),
        pytest.param([row(0, "failed", **A), row(60, "sending", **A)], 400, [("oncall", 0)], id="cut off by a kill"),
        pytest.param([row(0, "failed", **A), row(60, "sent", **B)], 400, [("oncall", 0)], id="another was accepted"),
        pytest.param([row(0, "failed", **A), row(60, "skipped", **A)], 400, [], id="not to be sent any more"),
        pytest.param([row(0, "failed"), row(9, "sent"), row(50, "failed")], 351, [("oncall", 50)], id="once more"),
        pytest.param([row(0, "failed", **A)], 3601, [], id="nobody tries any more"),
        pytest.param(
            [row(0, "failed", **A), row(5, "failed", "am")], 400, [("oncall", 0), ("am", 5)], id="an alert for each"
        ),
    ],
)
def test_a_channel_is_failing_while_something_of_it_is_not_accepted(rows, now, alerts):
    assert failing(*rows, now=now) == alerts


def test_its_sentence_is_about_the_channel_and_no_cluster():
    (state,) = alert_states(evidence(deliveries=[row(0, "failed", **A)]), AlertRules(), at(400))
    assert (state.rule, state.severity) == ("notify_failing", "warning")
    assert state.summary == "notifications to oncall fail since 2026-11-21 12:00:00 UTC: HTTP 500"
    assert state.labels == {"cluster": "", "cause": "failing", "channel": "oncall"}
