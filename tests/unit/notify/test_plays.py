"""Whole plays, from the evidence of the alert rules to messages: which are sent, and how long their sentences are."""

import pytest

from pipelines.alerting.downtime import Downtime
from pipelines.alerting.evaluate import decide
from pipelines.alerting.evidence import evidence_of
from pipelines.alerting.incidents import untold
from pipelines.alerting.owners import Owner
from pipelines.alerting.reading import Reading
from pipelines.alerting.rules import AlertRules
from pipelines.alerting.step import Step
from pipelines.notify.episodes import INCIDENT
from pipelines.notify.incidents import incident_episodes
from pipelines.notify.look import Round
from pipelines.notify.messages import Messages
from pipelines.verdict import words
from tests.unit.alerting.evidence_rows import at, rows
from tests.unit.notify.notified import LINKS, Desk

HOUR, DAY = 3_600, 86_400


class Play:
    """Clusters that are evaluated, and a channel, by default a phone; `sent` has (seconds, title) of its messages."""

    def __init__(self, channel=None, windows=()):
        self.stored, self.rows, self.step, self.desk, self.sent = [], [], Step(), Desk(), []
        self.windows = windows
        self.now, self.bodies = 0, []
        self.channel = channel(self.desk) if channel else Messages(self.desk.post(), LINKS, self._send)

    def _send(self, message):
        self.sent.append((self.now, message.title))
        self.bodies.append(message.body)

    def round(self, seconds, clusters=("prod",), **found):
        """One round of `notify`, with all rows of evidence up to then."""
        now = at(seconds)
        seen = evidence_of(
            clock=rows("clock", *({"cluster": one, "clock": seconds} for one in clusters)),
            carried=self.step.carried,
            **{name: rows(name, *({"cluster": "prod"} | row for row in given)) for name, given in found.items()},
        )
        self.now = seconds
        self.evaluate(seen, clusters, now)

    def evaluate(self, seen, clusters, now):
        """One round, at `now`, which is the present of all of these clusters, too."""
        self.desk.clock.now = now
        clocks = dict.fromkeys(clusters, int(now.timestamp() * 1_000_000))
        done = decide(Reading(seen, self.step, clocks), AlertRules(), self.stored, self.step, now)
        self.stored += done.new
        self.step = done.step
        self.rows += untold(self.rows, self.stored, self.windows, now)
        alerts = {state.alert_id: state for state in self.stored}
        owners = {f"*{number}": Owner(f"team-{number}" * 5, "#channel") for number in range(10)}
        told = incident_episodes(self.rows, self.stored, owners, now)
        late = "; ".join(f"{n} sources silent since {words.clock(now)}: {'watch/a-long-name/' * 12}" for n in range(9))
        judged = {one: f"{one}: judged up to {words.clock(now)}; {late}" for one in clusters}
        self.channel.deliver(Round(now, tuple(told), judged, (), INCIDENT, alerts))

    @property
    def titles(self):
        return [title for _, title in self.sent]


def led(seconds, leader, epoch, **more):
    return {"ts": seconds, "leader_id": leader, "leader_epoch": epoch} | more


def well_formed(play):
    """Whether the first line of each message has at most 100 characters, and each sentence below at most 200."""
    below = [line for body in play.bodies for line in body.splitlines() if not line.startswith(("Type: ", "Runbook: "))]
    return max(map(len, play.titles)) <= 100 and max(map(len, below)) <= 200


def flap(play, lasting=HOUR):
    """A leader that goes and comes back every 40 s, and ten quiet minutes."""
    turns = [led(0, 1, 0)]
    for seconds in range(20, lasting + 600, 20):
        if seconds <= lasting:
            turns.append(led(seconds - 5, (-1, 1)[len(turns) % 2 == 0], len(turns)))
        play.round(seconds, leaderships=turns, health=[{"ar": [1, 2], "isr": [1], "offline": False}])
    return play


def lose_20_of_200_clusters(play):
    """The leaders of 20 of 200 clusters go, and do not come back; returns the names of these clusters."""
    clusters = [f"cluster-{number:03}" for number in range(200)]
    down = clusters[::10]
    turns = [led(0, 1, 0, cluster=one) for one in clusters] + [led(50, -1, 1, cluster=one) for one in down]
    health = [{"cluster": one, "ar": [1, 2], "isr": [1], "offline": one in down} for one in clusters]
    for seconds in (40, 60, 80, 100, HOUR):
        known = [row for row in turns if row["ts"] <= seconds]
        play.round(seconds, clusters, leaderships=known, health=health if seconds > 50 else [])
    return down


DEATHS = (
    "OUT OF SYNC prod: broker 2, 1 partition of orders",
    "UNDER MIN ISR prod: brokers 2, 3, 1 partition of orders",
)


def die_twice(play):
    """Broker 2 stays away, three days later broker 3 goes, too; what is told of it is DEATHS."""
    first = {"ts": 0, "replica_id": 2, "state": "out_of_sync", "reason": "silent"}
    freeze = {"ts": 3 * DAY, "kind": "freeze", "isr": [1], "frozen": True, "leader_id": 1}
    for seconds in (660, DAY, 3 * DAY - 60, 3 * DAY + 60, 3 * DAY + 310, 4 * DAY):
        more = {"min_isr": [freeze]} if seconds > 3 * DAY else {}
        play.round(seconds, sync=[first], health=[{"ar": [1, 2, 3]}], **more)


@pytest.mark.nightly
def test_flapping_every_40_s_for_an_hour_is_two_messages():
    play = flap(Play())
    assert [title.split(" ")[0] for title in play.titles] == ["OFFLINE", "ENDED"]
    assert "flapping" in play.titles[-1]
    assert well_formed(play)


def test_a_second_death_after_days_is_told_and_the_first_is_not_told_again():
    play = Play()
    die_twice(play)
    assert play.sent == [(660, DEATHS[0]), (3 * DAY + 310, DEATHS[1])]
    assert well_formed(play)


def test_a_second_death_that_only_thins_the_isr_is_told():
    """At level 1 with min ISR 1 nobody was told of the last copy: the risk of the first death went on as it was."""
    play, first = Play(), {"ts": 0, "isr_after": [1, 3], "revision": 1}
    for seconds in (660, DAY, 3 * DAY + 60, 3 * DAY + 610, 4 * DAY):
        more = [{"ts": 3 * DAY, "isr_after": [1], "revision": 1}] if seconds > 3 * DAY else []
        present = {"ar": [1, 2, 3], "isr": ([first, *more])[-1]["isr_after"], "last_event_ts": seconds}
        play.round(seconds, isr=[first, *more], health=[present])
    said = "AT RISK prod: broker {}, 1 partition of orders"
    assert play.sent == [(660, said.format(2)), (3 * DAY + 610, said.format(3))]
    assert play.rows[-1].linked == play.rows[0].incident_id


def test_a_planned_downtime_of_the_first_broker_hides_no_second_one_of_a_frozen_partition():
    """min ISR 3 of 3: all that was known of the partition was that broker 2, which was planned, is gone."""
    planned = Downtime("d", "prod", (2,), None, at(-60), at(2 * DAY), "new disks", None, at(-60))
    play, frozen = Play(windows=[planned]), {"ts": 0, "kind": "freeze", "isr": [1, 3], "frozen": True, "leader_id": 1}
    thinned = {"ts": DAY, "partition_epoch": 9, "isr_before": [1, 3], "isr_after": [1], "revision": 1}
    for seconds in (310, DAY - 60, DAY + 60, DAY + 310, 2 * DAY - 60):
        place = {"ar": [1, 2, 3], "isr": [1] if seconds > DAY else [1, 3], "under_min_isr": True}
        play.round(seconds, min_isr=[frozen], isr=[thinned] if seconds > DAY else [], health=[place])
    assert play.sent == [(DAY + 310, "UNDER MIN ISR prod: broker 3, 1 partition of orders")]
    play.round(2 * DAY + 10, min_isr=[frozen], isr=[thinned], health=[place])
    assert play.titles[1:] == ["UNDER MIN ISR prod: broker 2, 1 partition of orders"], "it stays away at the end"


def test_who_came_back_in_its_downtime_is_not_blamed_for_another_one_as_that_ends():
    planned = Downtime("d", "prod", (2,), None, at(-60), at(2_000), "new disks", None, at(-60))
    play, frozen = Play(windows=[planned]), {"ts": 0, "kind": "freeze", "isr": [1, 3], "frozen": True, "leader_id": 1}
    changes = [(400, [1, 3], [1]), (800, [1], [1, 2])]
    for seconds in (310, 690, 710, 810, 1_990, 2_010, 3_000):
        known = [one for one in changes if one[0] < seconds]
        isr = known[-1][2] if known else [1, 3]
        rows = [
            {"ts": ts, "partition_epoch": ts, "isr_before": was, "isr_after": now, "revision": 1}
            for ts, was, now in known
        ]
        play.round(seconds, min_isr=[frozen], isr=rows, health=[{"ar": [1, 2, 3], "isr": isr, "under_min_isr": True}])
    assert play.sent == [(710, "UNDER MIN ISR prod: broker 3, 1 partition of orders")]


def test_20_of_200_clusters_down_are_20_messages_and_none_of_the_others():
    play = Play()
    down = lose_20_of_200_clusters(play)
    assert sorted(play.titles) == [f"OFFLINE {one}: broker 1, 1 partition of orders" for one in down]
    assert {seconds for seconds, _ in play.sent} == {60}
    assert well_formed(play)


def test_a_long_name_is_cut_in_the_first_line_and_whole_below():
    play, name = Play(), "a-name-of-a-topic-that-is-longer-than-others"
    turns = [led(0, 1, 0, topic=name), led(50, -1, 1, topic=name)]
    play.round(60, leaderships=turns, health=[{"topic": name, "ar": [1, 2], "isr": [1], "offline": True}])
    assert play.titles == ["OFFLINE prod: broker 1, 1 partition of a-name-of-a-topi…ger-than-others"]
    assert any(f"{name}-0" in line for line in play.bodies[0].splitlines())


def test_a_message_of_long_names_and_many_partitions_keeps_its_lines_short():
    names = [f"{'a-long-name-of-a-topic-' * 8}{number}" for number in range(40)]
    place = [{"topic": name, "cluster": "prod", "topic_id": None} for name in names]
    turns = [led(seconds, leader, epoch) | one for one in place for seconds, leader, epoch in ((0, 1, 0), (50, -1, 1))]
    play = Play()
    play.round(60, leaderships=turns, health=[{"ar": [1, 2], "isr": [1], "offline": True} | one for one in place])
    assert len(play.sent) == 1
    assert well_formed(play)
