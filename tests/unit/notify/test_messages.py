"""Messages to people: one for each change, retried, in nobody's way; what a kill leaves is sent once more."""

from dataclasses import replace

import pytest

from pipelines.lake.lease import LeaseLost
from pipelines.notify.episodes import episodes
from pipelines.notify.http import NotAccepted
from pipelines.notify.ledger import Ledger, Outcome, from_arrow, to_arrow
from pipelines.notify.look import Round
from pipelines.notify.messages import Messages
from tests.unit.notify.notified import FIRING, LINKS, LOSS, Desk, ended, later

JUDGED = {"prod": "prod: judged up to noon"}


class Killed(BaseException):
    """The process is gone in the middle of sending."""


class Office:
    """A channel and its ledger; `refuses` has the error for messages whose title contains a word."""

    def __init__(self, least="info"):
        self.desk, self.least, self.sent, self.refuses = Desk(), least, [], {}
        self.start()
        self.round()

    def start(self):
        self.channel = Messages(self.desk.post(), LINKS, self._send, self.least)

    def restart(self):
        self.desk.again()
        self.start()

    def _send(self, message):
        self.sent.append(message)
        for word, error in self.refuses.items():
            if word in message.title:
                raise error

    def round(self, *states, seconds=0):
        self.desk.clock.pass_(seconds)
        return self.channel.deliver(Round(self.desk.clock(), tuple(episodes(states, self.desk.clock())), JUDGED))

    def titles(self):
        return [message.title.partition(":")[0] for message in self.sent]


@pytest.fixture
def office():
    return Office()


def test_one_message_for_each_change_of_state(office):
    for states in ([FIRING], [FIRING, later(FIRING, summary="more")], [FIRING, ended(FIRING, 2)]):
        for _ in range(2):
            assert office.round(*states, seconds=30)
    assert office.titles() == ["[FIRING] critical under_min_isr", "[RESOLVED] critical under_min_isr"]
    assert [message.weight for message in office.sent] == ["critical", "over"]
    assert len({message.key for message in office.sent}) == 2


def test_growth_is_told_at_most_every_ten_minutes(office):
    """59 partitions more sent nothing."""
    grown = [later(FIRING, n, labels=FIRING.labels | {"count": str(20 * n)}, summary=f"{20 * n}") for n in (1, 2, 3)]
    office.round(FIRING)
    office.round(FIRING, *grown, seconds=60)
    assert len(office.sent) == 1
    for _ in range(3):
        office.round(FIRING, *grown, seconds=360)
    assert [message.body.splitlines()[0] for message in office.sent] == [FIRING.summary, "60"]
    fewer = later(grown[-1], 20, labels=FIRING.labels | {"count": "1"})
    office.round(FIRING, *grown, fewer, seconds=3600)
    assert len(office.sent) == 2
    office.round(FIRING, *grown, fewer, ended(fewer, 30), seconds=3600)
    assert office.titles()[2:] == ["[RESOLVED] critical under_min_isr"]


def test_a_message_has_the_sentence_what_to_type_and_where_to_read(office):
    office.round(FIRING)
    (message,) = office.sent
    assert message.title == f"[FIRING] critical under_min_isr: prod ({message.key})"
    assert message.body.splitlines() == [
        FIRING.summary,
        f"Since {FIRING.first_ts:%Y-%m-%d %H:%M:%S} UTC",
        "Type: hwmark show health --cluster prod --topic orders --lake /data/lake",
        "Runbook: https://wiki/runbooks/under_min_isr.md",
        "Page: https://hwmark/a/a1?c=prod",
        "prod: judged up to noon",
        f"Key: {message.key}",
    ]


def test_names_that_others_chose_move_no_cursor(office):
    evil = "x\x1b[2J\nsudo rm"
    office.round(replace(FIRING, summary=evil, labels={"cluster": evil}))
    assert "\x1b" not in office.sent[0].title + office.sent[0].body
    assert "Type: hwmark show health --cluster 'x\\x1b[2J\\x0asudo rm' --lake /data/lake" in office.sent[0].body


def test_a_loss_ends_as_no_longer_notified_never_as_resolved(office):
    office.round(LOSS)
    office.round(LOSS, ended(LOSS))
    end = office.sent[1]
    assert end.title.startswith("[NO LONGER NOTIFIED] critical loss: prod ")
    assert f"{LOSS.summary}; no more messages come; the records are still lost\n" in end.body
    assert "resolved" not in (end.title + end.body).lower()
    assert end.weight == "info", "green would be an all-clear"


def test_a_loss_that_never_was_ends_as_withdrawn(office):
    office.round(LOSS)
    office.round(LOSS, replace(ended(LOSS), labels={**LOSS.labels, "end": "withdrawn"}))
    assert "still lost" not in office.sent[1].body


def test_what_was_refused_is_sent_again_later_and_later(office):
    office.refuses = {"FIRING": NotAccepted("HTTP 500")}
    due = ((0, 1), (29, 1), (1, 2), (59, 2), (1, 3), (119, 3), (1, 4), (240, 5), (480, 6), (599, 6), (1, 7))
    for seconds, attempts in due:
        assert not office.round(FIRING, seconds=seconds)
        assert len(office.sent) == attempts
    office.refuses = {}
    office.restart()
    assert office.round(FIRING, seconds=600)
    assert len({message.key for message in office.sent}) == 1
    assert office.desk.rows[-1].outcome is Outcome.SENT
    assert (office.desk.rows[-1].attempt, office.desk.rows[-3].error) == (8, "HTTP 500")


def test_a_message_that_is_never_accepted_holds_up_no_other(office):
    office.refuses = {"under_min_isr": NotAccepted("HTTP 400")}
    office.round(FIRING, LOSS)
    assert "[FIRING] critical loss" in office.titles()


def test_a_channel_that_accepts_nothing_is_left_in_peace_until_the_next_round(office):
    office.refuses = {"": NotAccepted("no connection")}
    alerts = [replace(FIRING, alert_id=f"a{n}") for n in range(5)]
    office.round(*alerts)
    assert len(office.sent) == 2
    office.round(*alerts)
    assert len(office.sent) == 4, "those that were not tried yet come first"
    office.refuses = {}
    for _ in range(3):
        office.round(*alerts, seconds=600)
    assert len({message.key for message in office.sent}) == 5


def test_what_ended_before_it_was_sent_is_one_message(office):
    office.round(FIRING, ended(FIRING))
    (message,) = office.sent
    assert message.title.startswith("[RESOLVED]")
    assert "before it could be sent" in message.body


def test_a_loss_that_nobody_was_notified_of_weighs_what_it_did(office):
    office.round(LOSS, ended(LOSS))
    assert office.sent[0].weight == "critical"


def test_an_alert_that_fires_again_is_notified_again(office):
    states = [FIRING, later(ended(FIRING, 0), 1), later(FIRING, 2)]
    for number in range(1, 4):
        office.round(*states[:number])
    assert office.titles() == [f"[{word}] critical under_min_isr" for word in ("FIRING", "RESOLVED", "FIRING")]
    assert len({message.key for message in office.sent}) == 3


def test_what_had_ended_before_the_first_round_is_history():
    office = Office.__new__(Office)
    office.desk, office.least, office.sent, office.refuses = Desk(), "info", [], {}
    office.start()
    office.round(FIRING, ended(FIRING), LOSS)
    office.restart()
    office.round(FIRING, ended(FIRING), LOSS)
    assert office.titles() == ["[FIRING] critical loss"]


def test_a_channel_gets_what_is_severe_enough():
    office = Office("critical")
    warning = replace(FIRING, alert_id="w", severity="warning")
    office.round(warning, LOSS)
    assert office.titles() == ["[FIRING] critical loss"]
    office.least = "info"
    office.restart()
    office.round(warning, LOSS)
    assert len(office.sent) == 1, "a lower severity counts for what comes"
    office.round(warning, ended(warning), LOSS)
    assert office.titles()[1:] == ["[RESOLVED] warning under_min_isr"]


@pytest.mark.parametrize("point", ["before it is recorded", "before it is sent", "before that is recorded"])
def test_a_kill_loses_nothing_and_makes_at_most_one_double(office, point):
    rows = office.desk.rows
    if point == "before it is sent":
        office.refuses = {"": Killed()}
    else:
        left = [1 if point == "before it is recorded" else 2]

        def write(new):
            left[0] -= 1
            if not left[0]:
                raise Killed
            rows.extend(new)

        office.desk.ledger = Ledger(rows, write)
        office.start()
    with pytest.raises(Killed):
        office.round(FIRING)
    office.refuses = {}
    office.restart()
    assert office.round(FIRING)
    assert office.round(FIRING)
    assert len(office.sent) == (1 if point == "before it is recorded" else 2)
    assert len({message.key for message in office.sent}) == 1
    assert ("Sent again: hwmark was stopped" in office.sent[-1].body) == (point != "before it is recorded")


def test_a_lake_that_takes_no_rows_holds_up_no_message(office):
    def refuse(rows):
        raise OSError("no space left on device")

    office.desk.ledger = ledger = Ledger(office.desk.rows, refuse)
    office.start()
    assert office.round(FIRING)
    assert office.round(FIRING)
    assert (len(office.sent), ledger.unsaved) == (1, True)
    ledger._write = office.desk.rows.extend
    office.round(FIRING, LOSS)
    assert ledger.unsaved is False
    assert office.desk.outcomes() == ["began", "sending", "sent", "sending", "sent"]


def test_a_process_that_lost_its_role_sends_nothing_more(office):
    def refuse(rows):
        raise LeaseLost("_locks/notify.lease", "another host")

    office.desk.ledger = Ledger(office.desk.rows, refuse)
    office.start()
    with pytest.raises(LeaseLost):
        office.round(FIRING)
    assert office.sent == []


def test_a_clock_that_was_set_back_makes_no_double(office):
    office.round(FIRING)
    office.desk.rows[-1] = replace(office.desk.rows[-1], sent_at=office.desk.rows[0].sent_at)
    office.restart()
    office.round(FIRING, seconds=-3600)
    assert len(office.sent) == 1


def test_what_was_refused_by_a_clock_that_was_ahead_is_sent_once_it_is_right(office):
    """It waited until the right clock reached the time of that attempt: an hour, or a day."""
    office.desk.clock.pass_(86_400)
    office.refuses = {"": NotAccepted("HTTP 500")}
    assert not office.round(FIRING)
    office.refuses = {}
    assert office.round(FIRING, seconds=-86_400)


def test_deliveries_survive_the_table(office):
    office.refuses = {"loss": NotAccepted("HTTP 500")}
    office.round(FIRING, LOSS)
    assert from_arrow(to_arrow(office.desk.rows)) == office.desk.rows
