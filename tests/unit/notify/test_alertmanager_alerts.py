"""What an Alertmanager is sent: labels that never change while an alert fires, and ends that are no false all-clear."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from pipelines.notify.alertmanager import RESENT, Alertmanager, alertname
from pipelines.notify.episodes import episodes
from pipelines.notify.http import NotAccepted
from pipelines.notify.look import Round
from tests.unit.notify.notified import FIRING, LINKS, LOSS, TIMING, Desk, ended, later

JUDGED = {"prod": "prod: judged up to noon"}


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def manager(desk):
    """An Alertmanager that has been used before; `sent` has what each round posted, by alertname."""
    made = Alertmanager(desk.post("am"), LINKS, lambda alerts: made.sent.append({_name(a): a for a in alerts}))
    made.sent = []
    made.deliver(Round(desk.clock()))
    made.sent.clear()
    return made


def _name(alert):
    return alert["labels"]["alertname"]


def give(manager, desk, *states, wrong=()):
    manager.deliver(Round(desk.clock(), tuple(episodes(states)), JUDGED, wrong))
    return manager.sent[-1] if manager.sent else {}


def ends(alert, desk):
    return datetime.fromisoformat(alert["endsAt"]) - desk.clock()


def test_labels_identify_and_everything_else_is_an_annotation(manager, desk):
    alert = give(manager, desk, FIRING)["HwmarkUnderMinIsr"]
    assert alert["labels"] == {
        "alertname": "HwmarkUnderMinIsr", "cluster": "prod", "alert_id": "a1", "severity": "critical", "broker": "3",
        "lake": "eu",
    }  # fmt: skip
    assert alert["annotations"] == {
        "summary": FIRING.summary,
        "since": f"{FIRING.first_ts:%Y-%m-%d %H:%M:%S} UTC",
        "judged": "prod: judged up to noon",
        "command": "hwmark show health --cluster prod --topic orders --lake /data/lake",
        "runbook_url": "https://wiki/runbooks/under_min_isr.md",
        "page": "https://hwmark/a/a1?c=prod",
        "count": "2", "partitions": "orders-0, orders-1", "topic": "orders", "cause": "broker 3", "brokers": "3",
    }  # fmt: skip
    assert alert["generatorURL"] == alert["annotations"]["page"]


def test_labels_stay_those_of_the_first_state(manager, desk):
    first = give(manager, desk, FIRING)["HwmarkUnderMinIsr"]
    grown = later(FIRING, subject="brokers 2, 3", severity="info", summary="more", labels={"cluster": "prod"})
    then = give(manager, desk, FIRING, grown)["HwmarkUnderMinIsr"]
    assert then["labels"] == first["labels"]
    assert (then["annotations"]["summary"], then["annotations"]["brokers"]) == ("more", "2, 3")


def test_a_subject_that_is_no_single_broker_is_no_label(manager, desk):
    labels = give(manager, desk, replace(FIRING, subject="brokers 2, 3"))["HwmarkUnderMinIsr"]["labels"]
    assert "broker" not in labels


def test_a_firing_alert_holds_and_is_renewed_at_each_round(manager, desk):
    for _ in range(3):
        assert ends(give(manager, desk, FIRING)["HwmarkUnderMinIsr"], desk) == TIMING.hold
        desk.clock.pass_(30)
    assert desk.outcomes() == ["began", "sent"], "only news is recorded"


def test_an_alert_begins_when_it_was_first_told(manager, desk):
    """One that began longer ago than group_wait would be notified at once, without those that are posted beside it."""
    told = desk.clock()
    for states in ((FIRING,), (FIRING, later(FIRING, summary="more")), (FIRING, ended(FIRING))):
        alert = give(manager, desk, *states)["HwmarkUnderMinIsr"]
        assert datetime.fromisoformat(alert["startsAt"]) == told > FIRING.first_ts
        desk.clock.pass_(30)


def test_an_alert_of_a_clock_that_is_ahead_begins_before_it_ends(manager, desk):
    ahead = replace(FIRING, first_ts=desk.clock() + timedelta(hours=5))
    alert = give(manager, desk, ahead)["HwmarkUnderMinIsr"]
    assert alert["startsAt"] < alert["endsAt"]


def test_what_ended_is_sent_with_its_end_until_accepted_and_for_a_while_after(manager, desk):
    give(manager, desk, FIRING)
    over = (FIRING, ended(FIRING))
    alert = give(manager, desk, *over)["HwmarkUnderMinIsr"]
    assert ends(alert, desk) == timedelta(0)
    desk.clock.pass_(RESENT.total_seconds())
    assert give(manager, desk, *over)["HwmarkUnderMinIsr"]["endsAt"] == alert["endsAt"]
    desk.clock.pass_(1)
    manager.sent.clear()
    assert "HwmarkUnderMinIsr" not in give(manager, desk, *over)


def test_an_end_that_was_not_accepted_is_sent_again(desk):
    def refuse(alerts):
        raise NotAccepted("HTTP 503")

    took = []
    broken, whole = Alertmanager(desk.post("am"), LINKS, refuse), Alertmanager(desk.post("am"), LINKS, took.append)
    seen = Round(desk.clock(), tuple(episodes([FIRING])), JUDGED)
    whole.deliver(seen)
    over = Round(desk.clock(), tuple(episodes([FIRING, ended(FIRING)])), JUDGED)
    assert not broken.deliver(over)
    desk.clock.pass_(7200)
    assert whole.deliver(over)
    assert [alert["endsAt"] for alert in took[-1] if _name(alert) != "HwmarkWatchdog"] == [desk.clock().isoformat()]
    assert desk.outcomes() == ["began", "sent", "failed", "sent", "sent"]


def test_an_end_never_goes_over_the_same_alert_that_fires_again(manager, desk):
    give(manager, desk, FIRING)
    again = later(FIRING, 3, first_ts=FIRING.first_ts + timedelta(minutes=3))
    alert = give(manager, desk, FIRING, ended(FIRING), again)["HwmarkUnderMinIsr"]
    assert ends(alert, desk) == TIMING.hold


def test_a_verdict_that_was_withdrawn_and_is_back_fires(manager, desk):
    """Event time orders these states wrongly: the order in which they were written counts."""
    back = later(ended(LOSS, 0), 2, state="firing")
    alert = give(manager, desk, LOSS, later(ended(LOSS, 0), 1), back)["HwmarkLoss"]
    assert ends(alert, desk) == TIMING.hold


def test_a_loss_ends_as_no_longer_notified(manager, desk):
    give(manager, desk, LOSS)
    alert = give(manager, desk, LOSS, ended(LOSS))["HwmarkLoss"]
    assert alert["annotations"]["summary"] == f"{LOSS.summary}; no more messages come; the records are still lost"
    assert "resolved" not in str(alert)


def test_what_began_and_ended_between_two_rounds_is_notified(manager, desk):
    alert = give(manager, desk, FIRING, ended(FIRING))["HwmarkUnderMinIsr"]
    assert ends(alert, desk) == TIMING.hold
    assert "before it could be sent" in alert["annotations"]["summary"]
    desk.clock.pass_(30)
    assert give(manager, desk, FIRING, ended(FIRING))["HwmarkUnderMinIsr"]["endsAt"] == alert["endsAt"]


def test_what_had_ended_before_the_first_round_is_history(desk):
    took = []
    manager = Alertmanager(desk.post("am"), LINKS, took.append)
    for _ in range(2):
        manager.deliver(Round(desk.clock(), tuple(episodes([FIRING, ended(FIRING), LOSS])), JUDGED))
    assert [sorted(map(_name, alerts)) for alerts in took] == [["HwmarkLoss", "HwmarkWatchdog"]] * 2


def test_the_watchdog_ends_before_any_alert(manager, desk):
    alerts = give(manager, desk, FIRING)
    assert alerts["HwmarkWatchdog"]["labels"] == {"alertname": "HwmarkWatchdog", "severity": "none", "lake": "eu"}
    assert ends(alerts["HwmarkWatchdog"], desk) == timedelta(seconds=120)
    assert ends(alerts["HwmarkWatchdog"], desk) < ends(alerts["HwmarkUnderMinIsr"], desk)


def test_the_watchdog_counts_from_the_look_at_the_lake(manager, desk):
    seen = Round(desk.clock(), (), JUDGED)
    desk.clock.pass_(60)
    manager.deliver(seen)
    assert ends(manager.sent[-1]["HwmarkWatchdog"], desk) == timedelta(seconds=60)


def test_the_watchdog_is_withheld_where_anything_is_not_judged(manager, desk):
    assert "HwmarkWatchdog" not in give(manager, desk, FIRING, wrong=("prod: NOT JUDGED",))


def test_names_of_alerts():
    assert (alertname("loss"), alertname("loss_not_excluded")) == ("HwmarkLoss", "HwmarkLossNotExcluded")
