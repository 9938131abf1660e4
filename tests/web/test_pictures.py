"""What the pictures of the staged lakes said wrongly, twice, or at too great length."""

import re
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from pipelines.web.answers.overview import _share
from tests.unit.project.lakes import at, health, loss, reported, sound, write
from tests.web import staged
from tests.web.test_five_seconds import look  # noqa: F401
from tests.web.test_views import words_of


def section(page, name):
    return page.text.partition(f'id="{name}"')[2].partition("</section>")[0]


def test_partitions_that_stand_alike_are_one_line_and_each_of_them_is_folded(look):  # noqa: F811
    shown = section(look("gone", "topic"), "cells")
    lines = re.findall(r"<li>(.*?)</li>", shown.partition("<details")[0], re.S)
    assert [re.sub(r"\s+", " ", re.sub("<[^>]*>", "", one)).strip() for one in lines] == [
        "AT RISK 0..47 without broker 2 in the ISR"
    ]
    assert "<table" not in shown.partition("<details")[0]
    assert shown.count('<th scope="row">') == 48


def test_a_broker_names_its_partitions_by_topic_and_those_that_stand_alone_with_how_they_stand(look):  # noqa: F811
    shown = section(look("gone", "broker"), "concerned")
    lines = [re.sub(r"\s+", " ", re.sub("<[^>]*>", "", one)).strip() for one in re.findall("<li>(.*?)</li>", shown)]
    assert lines == [
        "OFFLINE audit-1 nobody leads (epoch 5), HW 5179 (1 below the log end), last ISR 2 of 2",
        "AT RISK audit 0, 2, 3 3 partitions without broker 2 in the ISR",
        "AT RISK clicks 0..47 48 partitions without broker 2 in the ISR",
        "AT RISK orders 0..11 12 partitions without broker 2 in the ISR",
        "AT RISK payments-settlem…tion-eu-central 0..5 6 partitions without broker 2 in the ISR",
    ]


def test_partitions_can_be_asked_for_by_broker(look):  # noqa: F811
    answer = look("healthy", "/api/v1/partitions?cluster=prod&broker=1").json()
    assert answer["matching"] == 69
    page = look("healthy", "/partitions?cluster=prod&broker=1")
    assert "69 partitions of broker 1" in words_of(page)
    assert 'name="broker"' in section(page, "list")
    assert "/partitions?cluster=prod&amp;broker=2" in section(look("gone", "broker"), "concerned")
    nothing = words_of(look("healthy", "/partitions?cluster=prod&broker=9"))
    assert "No partition is on broker 9" in nothing
    assert "holds no events" not in nothing


def test_a_topic_in_the_list_says_how_many_partitions_are_in_which_state(look):  # noqa: F811
    rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", look("gone", "topics").text, re.S)
    cells = [[re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)] for row in rows]
    assert cells[:2] == [["audit", "OFFLINE 1, AT RISK 3", "4", "0", ""], ["clicks", "AT RISK", "48", "0", ""]]
    for kind in ("gone", "cut_off", "healthy"):
        assert "not well" not in words_of(look(kind, "topics"))


def test_up_to_when_all_was_judged_is_no_state(look):  # noqa: F811
    for view, place in (("quality", "missing"), ("incident", "known"), ("overview", "cluster")):
        shown = re.findall(r"<li>(.*?)</li>", section(look("gone", view), place), re.S)
        judged = [one for one in shown if "judged up to" in one]
        assert judged, view
        assert not any("#ok" in one for one in judged), view
    assert "#not-judged" in section(look("cut_off", "quality"), "missing")


def test_counts_that_are_not_known_are_not_a_dash(look):  # noqa: F811
    shown = section(look("cut_off", "overview"), "counts")
    values = [one for one in re.findall(r"<dd[^>]*>([^<]*)</dd>", shown) if one]
    assert values == ["not known", "not known", "not known", "not known", "70", "not known"]
    assert "in the hour to" in words_of(look("cut_off", "overview"))
    assert "–" not in shown


def test_a_count_says_the_most_of_the_hour_where_that_is_more(look):  # noqa: F811
    shown = section(look("healthy", "overview"), "counts")
    assert [re.sub("<.*?>", "", one) for one in re.findall(r"<dt>(.*?)</dt>", shown)] == [
        "offline", "under min ISR", "under-replicated", "held back at most 2 in the hour", "not known",
        "lost offsets, 2 h 1 min",
    ]  # fmt: skip


def test_a_new_cluster_is_not_judged_and_says_once_why(lake, ask):
    staged.write_fleet(lake, 25)
    row = next(one for one in re.findall(r"<li id=.*?</li>", ask("/").text, re.S) if "new-0" in one)
    assert re.findall(r'class="word ([a-z-]*)"', row) == ["not-judged"]
    assert "nothing has been reported of any partition yet" in row


def test_a_list_of_one_cluster_has_no_column_of_clusters(look):  # noqa: F811
    for view in ("topics", "brokers"):
        assert ">cluster</th>" not in look("gone", view).text
        assert ">cluster</th>" in look("gone", f"/{view}").text


def test_the_cause_of_a_card_does_not_repeat_its_cluster_and_state(look):  # noqa: F811
    card = look("gone", "/api/v1/overview").json()["incidents"]["shown"][0]
    assert (card["text"], card["cause"]) == (
        "OFFLINE prod: broker 2, 1 partition of audit",
        "broker 2 gone: 1 of 70 partitions offline",
    )


def test_what_happened_to_a_partition_does_not_name_it_in_every_line(look):  # noqa: F811
    shown = section(look("lost", "partition"), "happened")
    assert "nobody leads" in shown
    assert "nobody leads: clicks-0" not in shown


def test_what_one_more_failure_does_is_a_sentence(look):  # noqa: F811
    assert "One more failure puts it under min ISR." in words_of(look("gone", "partition"))
    assert "One more failure breaks nothing." in words_of(look("healthy", "partition"))


def test_silent_sources_of_one_time_are_missed_in_one_line(look):  # noqa: F811
    answer = look("cut_off", "/api/v1/quality").json()
    assert answer["missing"] == [
        "prod: nothing of brokers 1, 2, 3 after 2026-09-01 11:56:00 UTC: their logs would tell"
    ]


def test_a_partition_that_is_not_known_says_once_when_it_was_last_reported(look):  # noqa: F811
    row = re.search(r"<tr[^>]*>\s*<th scope=.row.>.*?</tr>", look("cut_off", "partitions").text, re.S)[0]
    assert row.count("11:56:00") == 1


def test_a_sound_partition_is_one_line_on_a_phone(lake, ask):
    sound(lake, health("orders", 0), health("orders", 1, isr=[1, 2], under_replicated=True))
    write(lake, "telemetry_gaps", {"kind": "gap", "source_id": "broker-1/server.log", "ts": at(40)})
    reported(lake, 1, 2, 3)
    assert re.findall(r"<tr( class=.well.)?>\s*<th scope=.row.", ask("/partitions").text) == ["", ' class="well"']


def test_each_panel_of_the_chart_of_a_broker_says_what_it_shows(look):  # noqa: F811
    panels = look("healthy", "/charts/broker.json?cluster=prod&broker=2").json()["vconcat"]
    assert [one["title"] for one in panels] == ["largest lag behind its leaders"]
    lines = [one for one in panels[0]["layer"] if one["mark"]["type"] == "line"]
    assert [one["encoding"]["color"]["legend"] for one in lines] == [None], "the page says which broker it is"


def test_a_card_names_its_partitions_if_they_are_few(look):  # noqa: F811
    cards = [look(kind, "/api/v1/overview").json()["incidents"]["shown"][0]["affected"] for kind in ("gone", "lost")]
    assert cards == [
        "1 partition offline (audit-1), 69 at risk; topics audit, clicks, orders and 1 more",
        "1 partition lost offsets (clicks-0); topic clicks",
    ]


def test_an_open_incident_says_what_is_not_known_and_what_would_tell(look):  # noqa: F811
    said = "nothing of broker 2 after 2026-09-01 11:56:00 UTC: its log would tell"
    assert said in section(look("gone", "incident"), "known")
    assert look("cut_off", "/api/v1" + staged.VIEWS["incident"]).json()["lacking"] == [], "the verdict says it"


def test_sources_say_from_when_on_their_broker_is_covered(look):  # noqa: F811
    row = re.search(r"<tr><th scope=.row.>watch/main/broker-2</th>.*?</tr>", look("gone", "quality").text, re.S)[0]
    assert re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", row)).split()[:5] == [
        "watch/main/broker-2", "2", "2026-08-25", "12:00:00", "11:56:00",
    ]  # fmt: skip


def test_an_alert_among_what_happened_leads_to_its_incident(look):  # noqa: F811
    shown = section(look("gone", "broker"), "happened")
    assert (
        re.findall(r'<a href="([^"]*)">alert</a>', shown)
        == ["/incident?cluster=prod&amp;incident_id=3f2a9c0d11aa22bb"] * 2
    )


def test_a_loss_that_is_handled_stands_behind_the_present(lake, ask):
    sound(lake, health("orders", 0), health("audit", 0, offline=True, leader_id=-1))
    write(lake, "hw_regressions", loss(ts=at(-100)))
    labels = {
        "cluster": "prod",
        "partitions": "orders-0",
        "loss": "r1",
        "end": "handled",
        "count": "1",
        "offsets": "180",
    }
    told = {"alert_id": "a1", "rule": "loss", "severity": "critical", "state": "resolved", "summary": "x"}
    write(lake, "alerts", told | {"labels": list(labels.items()), "first_ts": at(-200), "last_ts": at(0)})
    page = ask("/")
    assert "<title>OFFLINE, LOST, hwmark</title>" in page.text
    assert re.search(r"<dt>records.*?LOST 180 offsets, handled", page.text, re.S)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("healthy", "100 % of the time covered on brokers 1, 2, 3, 0 gaps"),
        ("gone", "95 % of the time covered on broker 2, more on the others, 0 gaps"),
        ("cut_off", "95 % of the time covered on brokers 1, 2, 3, 0 gaps"),
    ],
)
def test_the_row_of_telemetry_says_what_share_of_the_time_it_covers(kind, said, look):  # noqa: F811
    assert said in words_of(look(kind, "overview"))


@pytest.mark.parametrize(
    ("stretches", "share"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([(at(50), at(950))], 100, id="ends within a minute, as rows come each minute"),
        pytest.param([(at(-500), at(100)), (at(200), at(2000))], 90, id="a hole of 100 s of 1,000"),
        pytest.param([(at(0), at(935))], 93, id="rounded down"),
    ],
)
def test_a_share_of_the_time_is_that_outside_holes(stretches, share):
    assert _share(stretches, at(0), at(1000)) == share


VIEW_FORMS = ("overview", "incidents", "partitions", "topic")


@pytest.mark.parametrize("view", VIEW_FORMS)
def test_each_form_keeps_the_time_and_whether_the_page_refreshes(view, look):  # noqa: F811
    page = look("gone", staged.VIEWS[view] + "&since=6h&refresh=off&until=2026-09-01T12:00:00").text
    forms = [one for one in re.findall("<form.*?</form>", page, re.S) if 'method="post"' not in one]
    assert len(forms) >= 2
    kept = {"cluster": "prod", "since": "6h", "refresh": "off", "until": "2026-09-01T12:00:00"}
    for one in forms:
        hidden = re.findall('<input type="hidden" name="([^"]*)" value="([^"]*)">', one)
        assert kept.items() <= dict(hidden).items(), one
        assert len(dict(hidden)) == len(hidden), one


@pytest.mark.parametrize("view", ["brokers", "topics", "partitions", "quality"])
def test_a_list_of_a_page_as_of_then_says_that_its_states_are_of_now(view, look):  # noqa: F811
    page = look("gone", staged.VIEWS[view] + "&until=2026-09-01T11:00:00")
    said = "As of 11:00:00 UTC, not now, but for states, which are of 12:01:25. now"
    assert said in words_of(page)
    assert "the verdict of now: " in words_of(page)


def intervals(look, panel):  # noqa: F811
    """What a panel of the chart of broker 2 draws: from, to and the number."""
    layers = look(f"/charts/broker.json?{staged.VIEWS['broker'].partition('?')[2]}").json()["vconcat"][panel]["layer"]
    line = next(one for one in layers if one["mark"]["type"] == "line")
    assert line["mark"]["interpolate"] == "step-before"
    values = [(datetime.fromtimestamp(one["ts"] / 1000, at(0).tzinfo), one["number"]) for one in line["data"]["values"]]
    pairs = pairwise(values)
    return [(one[0], other[0], other[1]) for one, other in pairs if None not in (one[1], other[1])]


def test_what_happened_within_a_minute_stands_there_in_a_chart_of_a_day(lake, ask):
    sound(lake, health("clicks", 0))
    row = {"broker_id": 2, "partitions": 7}
    write(
        lake,
        "broker_minute",
        *(row | {"minute": at(-60 * n), "max_lag_records": 900 if n == 100 else 5} for n in range(1, 1400)),
    )
    (since, until, _), *others = [one for one in intervals(ask, 0) if one[2] == 900]
    assert others == []
    assert since <= at(-6000) < at(-5940) <= until
    assert until - since <= timedelta(minutes=6)


def test_minutes_of_which_nothing_is_known_have_no_line_and_the_first_has_one(lake, ask):
    sound(lake, health("clicks", 0))
    minutes = [at(-3600), at(-3540), at(-600)]
    write(lake, "broker_minute", *({"broker_id": 2, "minute": one, "max_lag_records": 5} for one in minutes))
    assert [one[:2] for one in intervals(ask, 0)] == [
        (at(-3600), at(-3540)), (at(-3540), at(-3480)), (at(-600), at(-540)),
    ]  # fmt: skip


def test_what_left_a_broker_shows_stands_below_its_states_at_the_same_time(lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "replication_events", {"event_type": "progress", "partition": -1, "ts": at(-3600), "broker_id": 1})
    shrink = {"change": "shrink", "cause": "lag", "removed": [2], "isr_before": [1, 2], "isr_after": [1]}
    write(lake, "isr_changes", shrink | {"topic": "clicks", "added": [], "ts": at(20), "revision": 1})
    answer = ask(f"/api/v1{staged.VIEWS['broker']}&since=15m").json()
    since, until = map(datetime.fromisoformat, answer["within"])
    assert until - since > timedelta(minutes=14)
    ends = [int(end) for y, end in re.findall(r"([\d.]+)H(\d+)", answer["left"][0][2]) if float(y) == 1]
    shown = float(
        re.search(r'class="bands s0" viewBox="0 0 ([0-9.]*) 28"', ask(f"{staged.VIEWS['broker']}&since=15m").text)[1]
    )
    assert [end - 1 <= shown * ((at(20) - since) / (until - since)) <= end for end in ends] == [True]


def test_an_incident_names_its_topics_once_and_a_partition_itself(look):  # noqa: F811
    affected = section(look("gone", "incident"), "affected")
    assert affected.count(">clicks<") == 1
    assert "<dd>1 partition offline (audit-1), 69 at risk</dd>" in affected
    lost = words_of(look("lost", "partition"))
    assert "prod/clicks-0: offsets 4973..5152" not in lost.partition("the verdict")[0]


def test_a_range_that_is_lost_says_who_reads_it(look):  # noqa: F811
    assert "read by billing, fraud" in words_of(look("lost", "partition"))
    assert "read by" not in words_of(look("gone", "partition"))


def test_what_a_polled_follower_is_behind_is_at_most_that(look):  # noqa: F811
    rows = re.findall(r"<tr>.*?</tr>", section(look("healthy", "partition"), "replicas"), re.S)
    assert [re.sub("<[^>]*>", "", row.rpartition("<td")[2].partition(">")[2]) .strip() for row in rows[1:]] == [
        "", "at most 1", "at most 1",
    ]  # fmt: skip


def test_a_broker_that_does_not_answer_says_since_when_and_its_age_goes_on(look):  # noqa: F811
    shown = section(look("gone", "overview"), "brokers")
    assert re.search(r'does not answer <span class="age">since <time datetime="2026-09-01T11:56:00.000Z">', shown)
    assert 'class="age" data-at="2026-09-01T11:56:00.000Z"' in shown
    sources = section(look("gone", "quality"), "sources")
    assert sources.count('class="age" data-at=') == 3


def test_times_of_a_chart_are_in_the_zone_of_its_axis(look):  # noqa: F811
    for view in ("partition", "broker"):
        spec = look("lost", f"/charts{staged.VIEWS[view].replace('?', '.json?')}").text
        told = re.findall(r'\{[^{}]*"format":"%Y-[^{}]*(?:\{[^{}]*\}[^{}]*)?\}', spec)
        assert told
        assert [one for one in told if '"scale":{"type":"utc"}' not in one] == [], "Vega tells it in the browser's zone"


@pytest.mark.parametrize("view", ["broker", "topic", "partition"])
def test_what_an_open_incident_concerns_leads_to_it_and_says_what_to_do(view, look):  # noqa: F811
    shown = section(look("gone", view), "title")
    assert re.search(
        r'<a href="/incident[^"]*3f2a9c0d11aa22bb">OFFLINE prod: broker 2, 1 partition of audit</a>', shown
    )
    assert '<span class="next">Start broker 2</span>' in shown
    assert "/incident" not in section(look("healthy", view), "title")


def test_a_sound_partition_is_not_shown_an_incident_of_another_one(look):  # noqa: F811
    opened = {
        number: look("lost", f"/api/v1/partition?cluster=prod&topic=clicks&partition={number}").json()["opened"]
        for number in (0, 5)
    }
    assert [[one["text"] for one in opened[number]] for number in (0, 5)] == [
        ["LOST prod: unclean election, 180 offsets of clicks"],
        [],
    ]
