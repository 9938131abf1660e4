"""Incidents as notifications: what is told of one, how often, and in which words."""

from dataclasses import replace
from datetime import timedelta
from time import process_time

import pytest

from pipelines.alerting.incident_title import LONGEST
from pipelines.alerting.incidents import incidents, untold
from pipelines.alerting.owners import Owner, owners_of
from pipelines.alerting.state import AlertState
from pipelines.lake.lake import Lake
from pipelines.notify.alertmanager import Alertmanager, labels
from pipelines.notify.episodes import INCIDENT, episodes
from pipelines.notify.http import NotAccepted
from pipelines.notify.incidents import GROWTH, groups_of, incident_episodes
from pipelines.notify.look import Round, left_out, look
from pipelines.notify.messages import Messages
from pipelines.notify.notice import incident_line, notice
from pipelines.verdict import Limits
from pipelines.verdict.words import shorten
from tests.unit.alerting.evidence_rows import NOON, at
from tests.unit.alerting.test_incidents import LOST, OFFLINE, UNDER, again, over, state, window
from tests.unit.notify.notified import LINKS, Desk, ago, fresh, lost

OWNERS = {"*": Owner("platform"), "ord*": Owner("data", "#data-oncall")}
GONE = replace(OFFLINE, severity="warning")


def seen_at(desk, *states, windows=(), owners=OWNERS):
    states = [one for one in states if one.written_at <= desk.clock()]
    alerts = {one.alert_id: one for one in states}
    rows = incidents(states, windows, desk.clock())
    return Round(
        desk.clock(), tuple(incident_episodes(rows, states, owners, desk.clock())), {"prod": "prod: judged"}, (),
        INCIDENT, alerts,
    )  # fmt: skip


@pytest.fixture
def desk():
    one = Desk()
    one.clock.now = OFFLINE.first_ts - timedelta(seconds=60)
    return one


class Phone:
    """A channel that looks every ten seconds until a moment; `got` has what it was sent."""

    def __init__(self, desk, least="info"):
        self.desk, self.got = desk, []
        self.channel = Messages(desk.post(), LINKS, self.got.append, least)

    def watch(self, seconds, *states, **how):
        for _ in range(0, seconds, 10):
            self.channel.deliver(seen_at(self.desk, *states, **how))
            self.desk.clock.pass_(10)
        return [one.title for one in self.got]


def test_a_broker_that_is_killed_and_comes_back_is_two_messages(desk):
    titles = Phone(desk).watch(1_000, OFFLINE, UNDER, over(OFFLINE, 60), over(UNDER, 90))
    assert titles == [
        "OFFLINE prod: broker 2, 1 partition of orders",
        "ENDED OFFLINE prod: broker 2, 1 partition of orders",
    ]


def test_a_message_says_how_the_cluster_stands_now_and_its_end_what_was(desk):
    """A warning of the controllers came while a partition was offline, and said nothing of that."""
    now = {"prod": ["OFFLINE: broker 2 gone: 1 of 6 partitions offline"]}
    desk.clock.pass_(1_000)
    firing, ended = (replace(seen_at(desk, *rows), present=now) for rows in ([OFFLINE], [OFFLINE, over(OFFLINE, 60)]))
    bodies = [
        notice(seen.episodes[-1], LINKS, seen, unseen=False, again=False).body.splitlines() for seen in (firing, ended)
    ]
    assert bodies[0][1:3] == ["prod: offline", f"Now: {now['prod'][0]}"]
    assert bodies[1][1] == "was: prod: offline"
    assert not any(line.startswith("Now: ") for line in bodies[1])


def test_a_long_sentence_ends_before_a_clause_that_has_no_room():
    clause = (
        "LOSS NOT EXCLUDED: broker 2 resumed leading in 1 partition (audit-0); missing: an upper bound of the HW before"
    )
    assert shorten(f"{clause}; {'a' * 30}; {'b' * 60}") == f"{clause}; {'a' * 30} …"
    assert shorten("a" * 200) == "a" * 200
    assert len(shorten("a" * 201)) == 200


def test_the_end_of_a_recording_is_no_good_end(desk):
    ended = over(OFFLINE, 60)
    ended = replace(ended, labels={**ended.labels, "end": "recording ended"})
    phone = Phone(desk)
    assert phone.watch(1_000, OFFLINE, ended)[1] == "RECORDING ENDED OFFLINE prod: broker 2, 1 partition of orders"
    assert [one.weight for one in phone.got] == ["critical", "info"]


def test_an_end_is_sent_before_what_fires_again_and_says_that_it_does(desk):
    """The last message of a broker that is down was an end, where both were found in one round."""
    phone = Phone(desk)
    phone.watch(100, OFFLINE)
    desk.clock.pass_(3_600)
    titles = phone.watch(20, OFFLINE, over(OFFLINE, 60), again(OFFLINE, 3_000))
    assert [title.split(" prod")[0] for title in titles] == ["OFFLINE", "ENDED OFFLINE", "OFFLINE"]
    assert "again, in another incident: " in phone.got[1].body


def test_the_first_line_of_an_end_keeps_the_whole_title():
    """What went before the title cut it behind 80 characters."""
    title = "x" * LONGEST
    ends = [{"end": end} for end in ("handled", "recording ended", "forgotten")] + [{"cause": "loss"}, {}]
    for labels_ in (*ends, {"withdrawn": "true"}):
        line = incident_line(AlertState("i", INCIDENT, "critical", "resolved", "", NOON, NOON, title, labels_))
        assert line.endswith(title)
        assert len(line) <= 100


def test_what_began_and_was_over_between_two_rounds_is_named(desk):
    phone = Phone(desk)
    desk.clock.pass_(200)
    phone.watch(10, OFFLINE, LOST, over(OFFLINE, 60))
    (told,) = phone.got
    assert "Runbook: https://wiki/runbooks/loss.md" in told.body
    assert f"; over since {OFFLINE.first_ts + timedelta(seconds=60):%Y-%m-%d %H:%M:%S} UTC" in told.body


def test_what_to_type_and_the_runbook_are_of_what_fires(desk):
    """A graver alert of the incident is over: its runbook stood below a title that does not name it."""
    phone = Phone(desk)
    desk.clock.pass_(200)
    assert phone.watch(10, OFFLINE, UNDER, over(OFFLINE, 60))[0].startswith("UNDER MIN ISR prod: ")
    assert "runbooks/under_min_isr.md" in phone.got[0].body


def test_what_is_raised_and_the_first_loss_are_a_message_each(desk):
    raised = state("under_min_isr", 30, "2", "orders-0, orders-1")
    titles = Phone(desk).watch(200, GONE, raised, replace(LOST, written_at=LOST.written_at + timedelta(seconds=60)))
    assert [title.split(" prod")[0] for title in titles] == ["OFFLINE", "UNDER MIN ISR", "LOST"]


def test_a_second_outage_is_told_while_a_loss_keeps_the_first_incident_open(desk):
    titles = Phone(desk).watch(1_000, OFFLINE, LOST, over(OFFLINE, 60), again(OFFLINE, 600))
    assert [title.split(" prod")[0] for title in titles] == ["OFFLINE", "LOST", "OFFLINE"]


def test_what_is_graver_of_the_same_severity_is_told_and_what_is_not_is_not(desk):
    offline = state("offline", 100, "1, 2", "clicks-0")
    assert [t.split(" prod")[0] for t in Phone(desk).watch(300, UNDER, offline)] == ["UNDER MIN ISR", "OFFLINE"]
    other = Desk()
    other.clock.now = OFFLINE.first_ts
    assert len(Phone(other).watch(300, OFFLINE, UNDER)) == 1


def test_each_further_loss_is_told(desk):
    second = state("loss", 300, partitions="orders-7, orders-0")
    assert len(Phone(desk).watch(600, LOST, second)) == 2
    of_unknown_size = state("loss", 300, partitions="orders-0", offsets="0")
    other = Desk()
    other.clock.now = OFFLINE.first_ts
    assert [t.split(" prod")[0] for t in Phone(other).watch(600, OFFLINE, of_unknown_size)] == ["OFFLINE", "LOST"]


def test_the_loss_is_in_its_message_however_much_else_fires(desk):
    others = [state("under_min_isr", 5 + n, "2", f"t-{n}") for n in range(8)]
    phone = Phone(desk)
    phone.watch(200, *others, LOST)
    assert "prod: loss" in phone.got[-1].body.splitlines()


def test_the_end_of_a_loss_is_no_good_news(desk):
    phone = Phone(desk)
    phone.watch(500, LOST, over(LOST, 100))
    assert (phone.got[-1].title.split(" prod")[0], phone.got[-1].weight) == ("NO LONGER NOTIFIED LOST", "info")
    unseen = Desk()
    unseen.clock.now = OFFLINE.first_ts
    late = Phone(unseen)
    late.watch(10)
    unseen.clock.pass_(1_000)
    late.watch(20, LOST, over(LOST, 100))
    assert [one.weight for one in late.got] == ["critical"]


def test_the_note_that_handles_a_loss_is_in_its_message_however_long_the_loss_is(desk):
    long = replace(LOST, summary=f"prod: LOST: {', '.join(f'orders-{n} offsets 120..299' for n in range(9))}")
    said = "sent again from the source; see OPS-12"
    noted = {"labels": {**long.labels, "end": "handled"}, "summary": f"{long.summary}; handled: {said}"}
    phone = Phone(desk)
    phone.watch(500, long, replace(over(long, 100), **noted))
    assert phone.got[-1].title.startswith("HANDLED LOST")
    assert f"Handled: {said}" in phone.got[-1].body.splitlines()


def withdrawn(one, seconds):
    ended = over(one, seconds)
    return replace(ended, summary=f"{one.summary} (found no more)", labels={**one.labels, "end": "withdrawn"})


def test_a_loss_that_is_withdrawn_is_told_though_its_incident_goes_on(desk):
    """The incident went on with `loss_not_excluded`, nothing was sent, and its end was called LOST."""
    open_, phone = state("loss_not_excluded", 50, severity="info"), Phone(desk)
    rows = LOST, open_, withdrawn(LOST, 100), over(open_, 400)
    assert [title.split(" prod")[0] for title in phone.watch(1_000, *rows)] == [
        "LOST", "LOSS WITHDRAWN, now LOSS NOT EXCLUDED", "NO LONGER NOTIFIED LOSS NOT EXCLUDED",
    ]  # fmt: skip
    assert "WITHDRAWN: prod: loss (found no more); over since 2026-11-21 12:01:40 UTC" in phone.got[1].body.splitlines()
    assert phone.watch(20, *rows) == [one.title for one in phone.got]


def test_a_message_names_what_ended_for_who_keeps_an_incident_of_each(desk):
    """PagerDuty kept the loss that was withdrawn, and that of a note, for ever."""
    phone = Phone(desk)
    phone.watch(1_000, OFFLINE, LOST, withdrawn(LOST, 100), over(OFFLINE, 200))
    about = phone.got[0].alert_id
    assert about.endswith("-critical")
    assert [(one.alert_id, one.ended) for one in phone.got] == [
        (about, ()), (f"{about}-lost", ()), (about, (f"{about}-lost",)), (f"{about}-lost", (about, f"{about}-lost")),
    ]  # fmt: skip


def test_a_loss_that_is_found_again_after_it_was_withdrawn_is_told_again(desk):
    rows = OFFLINE, LOST, withdrawn(LOST, 100), again(LOST, 200)
    titles = Phone(desk).watch(600, *rows)
    assert [title.split(" prod")[0] for title in titles] == ["OFFLINE", "LOST", "LOSS WITHDRAWN, now OFFLINE", "LOST"]


def test_a_loss_that_is_found_to_be_more_once_it_was_handled_is_told(desk):
    """Its incident was still open, and a half more was no growth: nobody heard of what was lost beside."""
    handled = replace(over(LOST, 100), labels={**LOST.labels, "end": "handled"})
    more = again(replace(LOST, labels={**LOST.labels, "offsets": "270"}), 200)
    titles = Phone(desk).watch(600, LOST, handled, more)
    assert [title.split(" prod")[0] for title in titles] == ["LOST", "LOST"]


def test_an_incident_that_opens_again_under_its_name_is_told(desk):
    rows = incidents([OFFLINE, over(OFFLINE, 60)], [], OFFLINE.first_ts + timedelta(seconds=400))
    back = replace(rows[0], written_at=rows[-1].written_at + timedelta(seconds=9))
    keys = {incident_episodes(rows[:n], [], {}, back.written_at)[0].key for n in (1, len(rows))}
    assert incident_episodes([*rows, back], [], {}, back.written_at)[0].key not in keys


def test_what_fires_and_is_in_no_incident_is_told_by_itself():
    rows = incidents([OFFLINE], [], OFFLINE.written_at)
    assert left_out([OFFLINE, LOST, over(UNDER, 90)], rows) == [LOST]
    assert left_out([OFFLINE, LOST], []) == [OFFLINE, LOST]


def test_where_incidents_or_downtimes_cannot_be_read_alerts_are_told(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    fresh(lake.root)
    lost(lake.root)
    first = look(lake, Limits(), "", 0, ago(0), per=INCIDENT)
    assert [one.first.rule for one in first.episodes] == [INCIDENT]
    for path in ("downtimes", "incidents"):
        broken = tmp_path / "lake/ops" / path / "_delta_log/00000000000000000009.json"
        broken.parent.mkdir(parents=True, exist_ok=True)
        broken.write_text("{")
    found = look(lake, Limits(), "", 0, ago(0), per=INCIDENT)
    assert [one.last.rule for one in found.episodes] == ["loss"]
    assert any(why.startswith("ops/incidents cannot be read") for why in found.wrong)


def test_flapping_is_told_once_and_not_each_time(desk):
    rows, warned = [], state("under_min_isr", 0, "2", severity="info")
    for turn in range(12):
        rows += [again(warned, 40 * turn + 1), over(warned, 40 * turn + 20)]
    phone = Phone(desk)
    titles = phone.watch(1_000, *rows)
    assert len(titles) == 3
    assert "Again, 11 times since 2026-11-21 12:00:00 UTC" in phone.got[-1].body.splitlines()
    assert ["flapping" in title for title in titles] == [False, True, True]
    assert titles[-1].startswith("ENDED")


def test_what_flaps_for_days_costs_no_more_with_each_return(desk):
    """6,000 rows of one incident took 25 s at each round."""
    turns = [again(replace(OFFLINE, first_ts=at(40 * n)), 40 * n) for n in range(3_000)]
    states = [row for n, one in enumerate(turns) for row in (one, over(one, 40 * n + 20))]
    now, began = states[-1].written_at, process_time()
    (episode,) = incident_episodes(untold([], states, (), now), states, {}, now)
    assert process_time() - began < 5
    assert (episode.first.first_ts, episode.last.last_ts, episode.changes) == (at(0), states[-1].last_ts, 0)


def test_what_ended_a_week_ago_is_not_looked_at_any_more():
    """4,000 incidents of a year took 3 s at each round."""
    rows = incidents([OFFLINE, over(OFFLINE, 60)], (), at(400))
    for seconds, count in ((400, 1), (7 * 86_400, 1), (8 * 86_400, 0)):
        assert len(incident_episodes(rows, [OFFLINE, over(OFFLINE, 60)], {}, at(seconds))) == count
        assert len(incident_episodes(rows[:1], [OFFLINE], {}, at(seconds))) == 1


def test_growth_is_told_when_it_doubled_and_at_most_every_quarter_of_an_hour(desk):
    grown = [
        replace(again(OFFLINE, 20 * n), labels={**OFFLINE.labels, "count": str(n)}, summary=f"{n} partitions")
        for n in range(1, 9)
    ]
    phone = Phone(desk)
    assert len(phone.watch(900, OFFLINE, *grown)) == 1
    assert len(phone.watch(300, OFFLINE, *grown)) == 2
    assert len(phone.watch(int(GROWTH.total_seconds()), OFFLINE, *grown)) == 2


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        pytest.param("loss", {"count": "1"}, {"count": "60"}, id="nobody knows how much"),
        pytest.param("loss", {"count": "1"}, {"count": "1", "offsets": "5900000"}, id="it was not known how much"),
        pytest.param("unproven_loss", {"count": "1"}, {"count": "60"}, id="what may be lost"),
    ],
)
def test_a_loss_that_grows_is_told_also_where_its_size_is_not_known(desk, rule, before, after):
    labels = {name: text for name, text in state(rule, 0).labels.items() if name not in ("count", "offsets")}
    first = replace(state(rule, 0), labels=labels | before)
    more = replace(again(first, 20), labels=labels | after, summary="more")
    phone = Phone(desk)
    assert len(phone.watch(900, first, more)) == 1
    assert len(phone.watch(300, first, more)) == 2


UNPROVEN = state("unproven_loss", 30, "2", severity="warning")


def test_what_may_be_lost_in_a_graver_incident_is_told(desk):
    """It is no graver state than offline: who starts the old leader would cut what it alone has. Its first line was
    that of the message before, and the end was good news."""
    phone = Phone(desk)
    titles = phone.watch(700, OFFLINE, UNPROVEN, over(OFFLINE, 60), over(UNPROVEN, 100))
    assert [(one.weight, one.title) for one in phone.got] == [
        ("critical", "OFFLINE prod: broker 2, 1 partition of orders"),
        ("critical", "OFFLINE prod: broker 2, 1 partition of orders, loss not excluded"),
        ("info", "NO LONGER NOTIFIED OFFLINE prod: broker 2, 1 partition of orders, loss not excluded"),
    ]
    assert "prod: unproven_loss" in phone.got[1].body.splitlines()
    assert phone.got[0].alert_id != phone.got[1].alert_id, "PagerDuty notifies nobody of one that it has open"
    assert set(phone.got[2].ended) == {phone.got[0].alert_id, phone.got[1].alert_id}
    assert len(titles) == 3


def test_an_alertmanager_has_an_alert_of_what_may_be_lost_in_a_graver_incident(desk):
    posted = []
    channel = Alertmanager(desk.post(), LINKS, posted.append)
    desk.clock.now = at(60)
    channel.deliver(seen_at(desk, OFFLINE, UNPROVEN))
    named = [one["labels"].get("loss") for one in posted[-1] if "incident" in one["labels"]]
    assert sorted(named, key=str) == [None, "unproven"]


def test_a_loss_that_is_proven_is_told_as_lost(desk):
    """The first line of its page began with LOSS WITHDRAWN, as what was not proven was found no more."""
    proven = replace(LOST, written_at=at(100))
    titles = Phone(desk).watch(500, UNPROVEN, withdrawn(UNPROVEN, 100), proven)
    assert [title.split(" prod")[0] for title in titles] == ["LOSS NOT EXCLUDED", "LOST"]
    other = Desk()
    other.clock.now = OFFLINE.first_ts
    titles = Phone(other).watch(500, LOST, withdrawn(LOST, 100), replace(UNPROVEN, written_at=at(100)))
    assert [title.split(" prod")[0] for title in titles] == ["LOST", "LOSS WITHDRAWN, now LOSS NOT EXCLUDED"]


@pytest.mark.parametrize("ahead_s", [0, 3_600, 86_400])
def test_rows_by_a_clock_that_is_ahead_hide_no_later_outage(desk, ahead_s):
    """Who writes after them writes a microsecond later each: times of rows do not tell how long anything lasted."""
    later = timedelta(hours=3)
    again_down = replace(OFFLINE, first_ts=OFFLINE.first_ts + later, last_ts=OFFLINE.last_ts + later)
    rows = []
    for number, (seconds, one) in enumerate([(5, OFFLINE), (120, over(OFFLINE, 120)), (10_805, again_down)]):
        moment = OFFLINE.first_ts + timedelta(seconds=seconds)
        first = OFFLINE.written_at + timedelta(seconds=ahead_s, microseconds=number)
        rows.append((moment, replace(one, written_at=max(moment, first))))
    got = []
    channel = Messages(desk.post(), LINKS, got.append, "info")
    for _ in range(250):
        states = [one for moment, one in rows if moment <= desk.clock()]
        told = incident_episodes(incidents(states, (), desk.clock()), states, OWNERS, desk.clock()) if states else ()
        channel.deliver(Round(desk.clock(), tuple(told), {}, (), INCIDENT, {one.alert_id: one for one in states}))
        desk.clock.pass_(60)
    assert [one.title.partition(" prod")[0] for one in got] == ["OFFLINE", "ENDED OFFLINE", "OFFLINE"]


def test_what_was_told_only_as_it_grew_was_told_before_it_was_over(desk):
    more = replace(again(OFFLINE, 20), labels={**OFFLINE.labels, "count": "2"}, summary="2 partitions")
    phone, refused = Phone(desk), [1]
    accept, phone.channel._send = phone.channel._send, lambda notice: accept(notice) if not refused else refuse()

    def refuse():
        raise NotAccepted("HTTP 503")

    phone.watch(int(GROWTH.total_seconds()) + 60, OFFLINE, more)
    refused.clear()
    phone.watch(200, OFFLINE, more)
    assert [one.title.split(" prod")[0] for one in phone.got] == ["OFFLINE"]
    phone.watch(600, OFFLINE, more, over(OFFLINE, 1_200))
    assert "It was over before it could be sent." not in phone.got[-1].body
    assert phone.got[-1].title.startswith("ENDED")


def test_a_planned_downtime_sends_nothing_unless_it_outlasts_its_window(desk):
    assert Phone(desk).watch(900, OFFLINE, over(OFFLINE, 400), windows=[window(-10, 600)]) == []
    late = Desk()
    late.clock.now = OFFLINE.first_ts - timedelta(seconds=60)
    assert len(Phone(late).watch(900, OFFLINE, windows=[window(-10, 600)])) == 1


def test_a_channel_for_criticals_begins_where_an_incident_is_raised(desk):
    titles = Phone(desk, "critical").watch(200, GONE, state("under_min_isr", 60, "2"))
    assert titles == ["UNDER MIN ISR prod: broker 2, 1 partition of orders"]


def test_what_had_ended_before_incidents_were_first_told_is_not_sent(desk):
    desk.clock.pass_(1_000)
    assert Phone(desk).watch(100, OFFLINE, over(OFFLINE, 60)) == []


def test_a_message_has_its_alerts_owner_next_step_and_incident(desk):
    phone = Phone(desk)
    phone.watch(120, OFFLINE, UNDER, LOST)
    lines = phone.got[-1].body.splitlines()
    assert lines[0] == "Since: 2026-11-21 12:00:00 UTC"
    assert {"prod: offline", "prod: under_min_isr", "prod: loss"} <= {*lines}
    assert "Owner: data (#data-oncall)" in lines
    assert any(line.startswith("Consumer groups: not asked; ") for line in lines)
    assert any(line.startswith("Type: hwmark show loss --cluster prod") for line in lines)
    assert any(line.startswith("Runbook: ") and line.endswith("/loss.md") for line in lines)
    assert "prod: judged" in lines
    assert len(phone.got[-1].title) <= 80


def test_a_message_says_since_when_also_in_the_time_zone_of_who_reads_it(desk):
    phone, there = [], replace(LINKS, timezone="Asia/Kolkata")
    desk.clock.pass_(120)
    Messages(desk.post(), there, phone.append).deliver(seen_at(desk, OFFLINE))
    assert phone[0].body.splitlines()[0] == "Since: 2026-11-21 12:00:00 UTC (17:30:00 IST)"


@pytest.mark.parametrize(("last", "first_line"), [(0, "At: {0}"), (60, "From {0} to 2026-11-21 12:01:00 UTC")])
def test_a_loss_is_of_one_moment(last, first_line):
    """Its end said: From T to T."""
    desk, fallen = Desk(), replace(state("loss", 0), last_ts=OFFLINE.first_ts + timedelta(seconds=last))
    desk.clock.now = OFFLINE.first_ts + timedelta(seconds=1_000)
    seen = seen_at(desk, fallen, replace(fallen, state="resolved", written_at=OFFLINE.first_ts + timedelta(seconds=90)))
    body = notice(seen.episodes[0], LINKS, seen, unseen=False, again=False).body
    assert body.splitlines()[0] == first_line.format("2026-11-21 12:00:00 UTC")


def test_a_message_says_once_which_sources_are_silent(desk):
    quiet = replace(state("stale_source", 0, "2"), summary="prod: 1 source of broker 2 silent since noon: s")
    seen = seen_at(Desk(), quiet)
    judged = {"prod": "prod: judged up to noon; 1 source of broker 2 silent since noon: s; 1 gap in its telemetry"}
    body = notice(seen.episodes[0], LINKS, replace(seen, judged=judged), unseen=False, again=False).body.splitlines()
    assert [line for line in body if "silent" in line] == ["prod: 1 source of broker 2 silent since noon: s"]
    assert {"prod: judged up to noon", "1 gap in its telemetry"} <= {*body}


def test_the_link_is_to_the_incident_as_it_stood_at_the_message(desk):
    """Of a loss since and until were one moment, before the incident was written: the page knew its alert alone."""
    links, phone = replace(LINKS, page_url="https://hwmark/?{alert_id}&since={since}&until={until}"), []
    Messages(desk.post(), links, phone.append).deliver(seen_at(desk, OFFLINE, LOST))
    desk.clock.pass_(105)
    Messages(desk.post(), links, phone.append).deliver(seen_at(desk, OFFLINE, LOST))
    times = "since=2026-11-21T12%3A00%3A00Z&until=2026-11-21T12%3A00%3A45Z"
    assert f"Page: https://hwmark/?{LOST.alert_id}&{times}" in phone[-1].body.splitlines()


def test_a_loss_has_one_name_whatever_is_known_of_it():
    for rule in ("unproven_loss", "loss_not_excluded"):
        assert incidents([state(rule, 0)], (), LOST.first_ts)[-1].summary.startswith("LOSS NOT EXCLUDED prod: ")


def test_the_groups_of_a_loss_are_not_asked_or_those_that_read_it_and_when():
    row = incidents([LOST], (), LOST.written_at)[-1]
    assert groups_of(row) == "not asked; `hwmark show loss --bootstrap HOST:PORT` asks the cluster"
    asked = replace(row, groups=["billing", "search"], groups_asked=LOST.first_ts)
    read = "billing, search have read what is gone, or what was written in its place, asked at 2026-11-21 12:00:40 UTC"
    assert groups_of(asked) == read
    assert groups_of(replace(asked, groups=[])) == "none read what is gone, asked at 2026-11-21 12:00:40 UTC"


def test_who_reads_an_offline_partition_is_said_and_asked_anew_once_it_loses():
    row = incidents([OFFLINE], (), OFFLINE.written_at)[-1]
    assert groups_of(row) == "not asked; `hwmark show loss --bootstrap HOST:PORT` asks the cluster"
    back = replace(row, offline=0, written_at=OFFLINE.written_at + timedelta(seconds=5))
    known = replace(back, groups=["billing"], groups_asked=LOST.first_ts)
    assert groups_of(back) == ""
    assert groups_of(known) == "billing read what is or was offline, asked at 2026-11-21 12:00:40 UTC"
    assert untold([row, known], [OFFLINE], (), LOST.written_at)[-1].groups == ["billing"]
    assert groups_of(untold([row, known], [OFFLINE, LOST], (), LOST.written_at)[-1]) == groups_of(row)


def test_of_several_owners_a_message_names_all_and_no_label_is_one_of_them(desk):
    both = state("offline", 0, "2", "orders-0, clicks-0")
    desk.clock.pass_(100)
    (episode,) = seen_at(desk, both).episodes
    assert "owner" not in labels(episode.first, {})
    phone = Phone(desk)
    phone.watch(20, both)
    assert "Owner: data (#data-oncall), platform" in phone.got[-1].body.splitlines()


def test_the_longest_pattern_says_who_owns_a_topic():
    assert owners_of(["orders", "clicks", "orders"], OWNERS) == [Owner("data", "#data-oncall"), Owner("platform")]
    assert owners_of(["orders"], {"audit*": Owner("data")}) == []


def test_an_alertmanager_has_an_alert_for_each_severity_that_fires_until_the_end(desk):
    sent = []
    manager = Alertmanager(desk.post("am"), LINKS, sent.append)

    def fires(*states):
        manager.deliver(seen_at(desk, *states))
        return [one for one in sent[-1] if one["labels"]["alertname"] == "HwmarkIncident"]

    states = [GONE, state("under_min_isr", 30, "2"), over(GONE, 60), over(state("under_min_isr", 30, "2"), 60)]
    desk.clock.pass_(70)
    (first,) = fires(*states)
    assert first["labels"].keys() == {"lake", "alertname", "cluster", "incident", "severity", "owner"}
    assert first["labels"]["owner"] == "data"
    assert "Owner: data (#data-oncall)" in first["annotations"]["description"].splitlines()
    desk.clock.pass_(30)
    both = fires(*states)
    assert [one["labels"]["severity"] for one in both] == ["warning", "critical"]
    assert all(one["endsAt"] > desk.clock().isoformat() for one in both)
    assert both[0]["labels"] == first["labels"]
    desk.clock.pass_(400)
    assert all(one["endsAt"] <= desk.clock().isoformat() for one in fires(*states))


def test_owners_edited_while_an_incident_fires_send_no_message_and_reach_the_new_owner_by_a_label(desk):
    """An Alertmanager takes other labels for another alert; the one of the former owner ends within an hour."""
    sent, phone = [], Phone(desk)
    manager, edited = Alertmanager(desk.post("am"), LINKS, sent.append), {"*": Owner("other", "#other")}
    phone.watch(120, OFFLINE)
    for owners in (OWNERS, edited):
        manager.deliver(seen_at(desk, OFFLINE, owners=owners))
    before, after = ([one for one in each if "incident" in one["labels"]] for each in sent)
    assert [one["labels"]["owner"] for one in (*before, *after)] == ["data", "other"]
    assert before[0]["endsAt"] <= (desk.clock() + timedelta(hours=1)).isoformat()
    assert len(phone.watch(600, OFFLINE, owners=edited)) == 1
    manager.deliver(seen_at(desk, OFFLINE, over(OFFLINE, 300), owners=edited))
    desk.clock.pass_(600)
    manager.deliver(seen_at(desk, OFFLINE, over(OFFLINE, 300), owners=edited))
    (ended,) = [one for one in sent[-1] if "incident" in one["labels"]]
    assert (ended["labels"]["owner"], ended["endsAt"] <= desk.clock().isoformat()) == ("other", True)
    phone.watch(10, OFFLINE, over(OFFLINE, 300), owners=edited)
    assert "Owner: other (#other)" in phone.got[-1].body


def test_the_first_loss_is_an_alert_of_its_own_so_that_an_alertmanager_notifies(desk):
    sent = []
    manager = Alertmanager(desk.post("am"), LINKS, sent.append)
    desk.clock.pass_(70)
    manager.deliver(seen_at(desk, OFFLINE))
    desk.clock.pass_(60)
    manager.deliver(seen_at(desk, OFFLINE, LOST))
    each = [[one["labels"].get("loss") for one in alerts if "incident" in one["labels"]] for alerts in sent]
    assert each == [[None], [None, "true"]]


def test_an_alertmanager_has_no_alert_of_a_loss_that_was_withdrawn(desk):
    sent = []
    manager = Alertmanager(desk.post("am"), LINKS, sent.append)
    desk.clock.pass_(200)
    manager.deliver(seen_at(desk, OFFLINE, LOST, withdrawn(LOST, 100)))
    assert [one["labels"].get("loss") for one in sent[-1] if "incident" in one["labels"]] == [None]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"end": "handled"}, "LOSS HANDLED, now OFFLINE prod: broker 2, 1 partition of orders"),
        ({}, "NO LONGER NOTIFIED LOST prod: at least 180 offsets of orders"),
    ],
)
def test_an_alertmanager_has_no_alert_of_a_loss_that_is_handled_while_an_outage_goes_on(desk, end, words):
    """It fired for as long as its incident was open. One of which no more messages come ends with its incident."""
    sent, said = [], []
    manager, told_over = Alertmanager(desk.post("am"), LINKS, sent.append), over(LOST, 1_100)
    rows = OFFLINE, LOST, replace(told_over, labels=told_over.labels | end), over(OFFLINE, 3_300)
    for _ in range(50):
        desk.clock.pass_(100)
        manager.deliver(seen_at(desk, *rows))
        found = [one for one in sent[-1] if one["labels"].get("loss")]
        said += [one["annotations"]["summary"] for one in found if one["endsAt"] <= desk.clock().isoformat()]
        ends = told_over if end else rows[-1]
        assert bool(said) == (desk.clock() > ends.written_at + (timedelta(0) if end else timedelta(seconds=300)))
    assert {*said} == {words}


def test_an_alertmanager_is_told_the_end_of_a_loss_however_often_it_is_withdrawn(desk):
    """The alert of a loss that was withdrawn held for an hour, and one found again had no end at all."""
    sent = []
    manager = Alertmanager(desk.post("am"), LINKS, sent.append)
    rows = OFFLINE, LOST, withdrawn(LOST, 1_100), again(LOST, 2_200), over(LOST, 3_300), over(OFFLINE, 3_300)
    said = []
    for _ in range(50):
        desk.clock.pass_(100)
        manager.deliver(seen_at(desk, *rows))
        found = [one for one in sent[-1] if one["labels"].get("loss")]
        said += ["fires" if one["endsAt"] > desk.clock().isoformat() else "over" for one in found]
    assert [said[n] for n in range(len(said)) if n == 0 or said[n] != said[n - 1]] == ["fires", "over"] * 2


def test_an_alertmanager_is_told_the_end_of_an_incident_that_opened_again_under_its_name(desk):
    sent, states = [], [OFFLINE, over(OFFLINE, 60)]
    manager = Alertmanager(desk.post("am"), LINKS, sent.append)
    first = incidents(states, [], at(2_000))
    again_ = [replace(row, written_at=row.written_at + timedelta(seconds=3_000)) for row in first]
    for n, row in enumerate((*first, *again_), 1):
        desk.clock.now = row.written_at
        found = incident_episodes([*first, *again_][:n], states, {}, desk.clock())
        manager.deliver(Round(desk.clock(), tuple(found), {}, (), INCIDENT, {OFFLINE.alert_id: states[-1]}))
    assert sent[-1][-1]["endsAt"] == desk.clock().isoformat()


def test_an_alertmanager_that_is_new_gets_no_history(desk):
    sent = []
    desk.clock.pass_(5_000)
    raised = state("under_min_isr", 30, "2")
    history = [GONE, raised, LOST, over(GONE, 60), over(raised, 60), over(LOST, 90)]
    Alertmanager(desk.post("am"), LINKS, sent.append).deliver(seen_at(desk, *history))
    assert [one for one in sent[-1] if "incident" in one["labels"]] == []


def test_a_channel_begins_anew_when_what_is_told_changes(desk):
    phone = Phone(desk)
    phone.watch(20)
    desk.clock.pass_(5_000)
    told = [OFFLINE, over(OFFLINE, 60)]
    per_rule = Round(desk.clock(), tuple(episodes(told, desk.clock())), {}, (), None, {})
    phone.channel.deliver(per_rule)
    assert phone.got == []


def test_a_message_of_a_loss_says_first_whose_start_would_cut_the_last_copy(desk):
    desk.clock.now = LOST.written_at
    text = "broker 1 is down and has offsets 120..299 of orders-0: copy its log directory before you start it; or run …"
    seen = replace(seen_at(desk, OFFLINE, LOST), copies={"prod": [text], "other": ["not of this cluster"]})
    body = notice(seen.episodes[0], LINKS, seen, unseen=False, again=False).body.splitlines()
    assert [line for line in body if "copy its log" in line] == [f"Before any start: {text}"]
    quiet = replace(seen_at(desk, OFFLINE), copies={"prod": [text]})
    assert "copy its log" not in notice(quiet.episodes[0], LINKS, quiet, unseen=False, again=False).body
