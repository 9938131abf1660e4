"""Rounds: every channel on its own, whatever the others do, and no all-clear where the lake cannot be read."""

import threading

import pytest

from pipelines.errors import UsageError
from pipelines.lake.lease import LeaseLost
from pipelines.notify.episodes import episodes
from pipelines.notify.heartbeat import Heartbeat
from pipelines.notify.http import NotAccepted
from pipelines.notify.ledger import Delivery, Outcome
from pipelines.notify.look import Round
from pipelines.notify.rounds import Schedule, rounds
from tests.unit.notify.notified import FIRING, START, Desk
from tests.unit.notify.receivers import until


class Kept:
    """A channel that keeps the rounds it is given, and does something first."""

    def __init__(self, name="kept", first=lambda: None):
        self.name, self.rounds, self._first = name, [], first

    def deliver(self, seen):
        self._first()
        self.rounds.append(seen)
        return True

    def test(self):
        raise AssertionError


class Going:
    """Rounds on a thread of their own, one after the other, until the block ends."""

    def __init__(self, look, *channels):
        self.stop, self.said, self.result, self.error = threading.Event(), [], None, None
        self.how = Schedule(0.01, False, lambda: START)
        self.thread = threading.Thread(target=self._run, args=[look, channels], daemon=True)

    def _run(self, look, channels):
        try:
            self.result = rounds(look, channels, self.how, self.stop, self.said.append)
        except Exception as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def seen(now, **values):
    return Round(now, tuple(episodes([FIRING])), **values)


def once(look, *channels):
    return rounds(look, channels, Schedule(1, True, lambda: START), threading.Event(), lambda text: None)


def test_no_thread_of_a_channel_is_left_behind():
    """One a day, in a process that calls `notify --once` again and again."""
    once(seen, Kept("ended", lambda: None))
    until(lambda: "notify ended" not in {thread.name for thread in threading.enumerate()})


def test_a_channel_that_hangs_holds_up_no_other():
    release = threading.Event()
    hanging, other = Kept("hanging", release.wait), Kept()
    with Going(seen, hanging, other):
        until(lambda: len(other.rounds) >= 3)
        assert hanging.rounds == []
        release.set()
        until(lambda: hanging.rounds)


def test_a_channel_with_a_bug_holds_up_no_other_and_its_words_are_not_printed(caplog):
    def fail():
        raise ValueError("https://token@host")

    broken, other = Kept("broken", fail), Kept()
    with Going(seen, broken, other) as going:
        until(lambda: len(other.rounds) >= 3)
    assert going.result == ["broken"]
    assert "broken: ValueError while sending" in caplog.text
    assert "token" not in caplog.text


def test_a_single_round_waits_and_names_who_did_not_accept_everything():
    refusing = Kept("refusing")
    refusing.deliver = lambda seen: False
    assert once(seen, Kept(), refusing) == ["refusing"]


def test_what_fired_stays_notified_where_the_lake_cannot_be_read_any_more_and_nothing_is_fresh():
    looks = []

    def look(now):
        looks.append(now)
        if len(looks) > 1:
            raise OSError("the disk\nis gone")
        return seen(now)

    channel = Kept()
    with Going(look, channel) as going:
        until(lambda: len(channel.rounds) >= 3)
    assert [len(one.episodes) for one in channel.rounds[:3]] == [1, 1, 1]
    assert channel.rounds[-1].wrong == ("the lake cannot be read: OSError: the disk is gone",)
    assert not channel.rounds[-1].fresh
    assert going.said == ["watchdog withheld: the lake cannot be read: OSError: the disk is gone"]


def test_nothing_is_sent_before_the_lake_could_be_read_once():
    """What had ended by then would else be sent as news."""
    looks = []

    def look(now):
        looks.append(now)
        if len(looks) <= 3:
            raise OSError("the disk is gone")
        return seen(now)

    channel = Kept()
    with Going(look, channel) as going:
        until(lambda: channel.rounds)
    assert all(len(one.episodes) == 1 for one in channel.rounds)
    assert going.said[0] == "watchdog withheld: the lake cannot be read: OSError: the disk is gone"


def test_a_single_round_fails_where_the_lake_cannot_be_read():
    def look(now):
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        once(look, Kept())


def test_wrong_rules_end_a_notifier_at_its_start_only():
    def look(now):
        if looked:
            raise UsageError("alerts.toml: not TOML")
        looked.append(now)
        return seen(now)

    looked, channel = [], Kept()
    with Going(look, channel) as going:
        until(lambda: channel.rounds and not channel.rounds[-1].fresh)
    assert going.error is None
    with Going(look, channel) as going:
        going.thread.join()
    assert isinstance(going.error, UsageError)


def test_a_lost_role_ends_the_notifier():
    def lose():
        raise LeaseLost("_locks/notify.lease", "another host")

    with Going(seen, Kept("kept", lose)) as going:
        going.thread.join()
    assert isinstance(going.error, LeaseLost)


class Clinic:
    def __init__(self):
        self.desk, self.beats, self.error = Desk(), 0, None
        self.heartbeat = Heartbeat(self.desk.post("heartbeat"), self._beat, ["am", "oncall"])

    def _beat(self):
        self.beats += 1
        if self.error:
            raise self.error

    def record(self, channel, outcome):
        self.desk.clock.pass_(1)
        self.desk.ledger.record(Delivery(channel, outcome, 1, self.desk.clock()))

    def round(self, **values):
        return self.heartbeat.deliver(seen(self.desk.clock(), **values))


def test_the_heart_beats_where_everything_is_judged_and_fresh_and_nowhere_else():
    clinic = Clinic()
    clinic.round()
    assert clinic.beats == 1
    clinic.round(wrong=("prod: NOT JUDGED",))
    assert clinic.beats == 1


def test_the_heart_stands_still_while_no_channel_accepts_anything():
    clinic = Clinic()
    clinic.record("am", Outcome.FAILED)
    clinic.round()
    assert clinic.beats == 1
    clinic.record("oncall", Outcome.FAILED)
    clinic.round()
    assert clinic.beats == 1
    clinic.record("am", Outcome.SENT)
    clinic.round()
    assert clinic.beats == 2


def test_a_heartbeat_that_is_refused_is_recorded():
    clinic = Clinic()
    clinic.error = NotAccepted("HTTP 410")
    assert not clinic.round()
    clinic.error = None
    assert clinic.round()
    assert [(str(row.outcome), row.error) for row in clinic.desk.rows] == [("failed", "HTTP 410"), ("sent", None)]
