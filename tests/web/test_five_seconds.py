"""What a reader who saw only pictures read wrong, or did not find, in the staged lakes."""

import re

import pytest

from tests.unit.project.lakes import at, health, job_has_read, reported, sound, write
from tests.web import staged
from tests.web.conftest import client_of
from tests.web.test_views import words_of


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    """Asks a view of a staged lake."""
    clients = {}

    def asking(kind, view):
        if kind not in clients:
            lake = str(tmp_path_factory.mktemp(kind) / "lake")
            staged.write_lake(lake, kind)
            clients[kind] = client_of(lake, 3600).get
        return clients[kind](staged.VIEWS.get(view, view))

    return asking


def headings(page):
    return [
        re.sub(r"\s+", " ", re.sub("<[^>]*>", "", one)).strip() for one in re.findall("<h1.*?</h1>", page.text, re.S)
    ]


def test_the_card_of_an_incident_counts_its_partitions_by_state(look):
    card = look("gone", "/api/v1/overview").json()["incidents"]["shown"][0]
    assert card["affected"] == "1 partition offline (audit-1), 69 at risk; topics audit, clicks, orders and 1 more"
    counts = {one["name"]: one["number"] for one in look("gone", "/api/v1/overview").json()["counts"]}
    assert (counts["offline"], counts["under-replicated"]) == (1, 69)


def test_an_incident_of_more_partitions_than_its_alerts_name_has_them_all(lake, ask):
    small = {"isr": [1, 3], "osr": [2], "under_replicated": True}
    sound(lake, *(health("orders", n, **small) for n in range(150)))
    labels = {"cluster": "prod", "brokers": "2", "count": "150", "topic": "orders"}
    labels["partitions"] = ", ".join(f"orders-{n}" for n in range(100)) + " and 50 more"
    told = {"alert_id": "a1", "rule": "at_risk", "severity": "warning", "state": "firing", "summary": "x"}
    write(lake, "alerts", told | {"labels": list(labels.items()), "first_ts": at(0), "last_ts": at(60)})
    row = {"incident_id": "i1", "cluster": "prod", "severity": "warning", "cause": "at_risk", "state": "open"}
    row |= {"first_ts": at(0), "last_ts": at(60), "alert_ids": ["a1"], "firing": ["a1"], "brokers": [2]}
    row |= {"topics": ["orders"], "partitions": [f"orders-{n}" for n in range(100)], "summary": "AT RISK prod"}
    write(lake, "incidents", row)
    answer = ask("/api/v1/incident?incident_id=i1").json()
    assert answer["card"]["affected"] == "150 partitions at risk; topic orders"
    assert (answer["topics"], len(answer["partitions"])) == ([["orders", 150]], 150)
    assert len(ask("/incident.csv?incident_id=i1").text.splitlines()) == 151


def test_records_that_are_not_well_stand_before_a_present_that_is(look):
    page = look("lost", "overview")
    assert re.search(r'<dd class="state"><span class="word lost">.*?LOST 180 offsets', page.text)
    assert re.search(r'<dt>now</dt><dd><span class="word ok">', page.text)
    assert headings(look("lost", "topic"))[0].startswith("clicks: LOST 180 offsets since 11:56:40")
    assert headings(look("lost", "partition"))[0].startswith("prod/clicks-0 LOST")
    assert '<dt>now</dt><dd><span class="word ok">' in look("lost", "partition").text


def test_a_present_that_is_not_well_stands_first_beside_records_that_are_not(lake, ask):
    from tests.web.lakes import incident

    incident(lake)
    write(lake, "partition_health", health("audit", 0, offline=True, leader_id=-1))
    states = re.findall(r'<dd(?: class="state")?><span class="word ([a-z-]*)">', ask("/").text)
    assert states == ["offline", "lost"]


def test_the_line_of_a_cluster_begins_with_the_worst_of_its_two_fields(lake, ask):
    staged.write_fleet(lake, 25)
    rows = re.findall(r"<li id=.*?</li>", ask("/").text.partition('class="lines"')[2], re.S)
    words = [re.findall(r'class="word ([a-z-]*)"', row) for row in rows]
    assert words == [
        *[["not-judged"]] * 3, ["lost"], ["lost", "offline"], ["offline"], ["under-min-isr"], ["held-back"],
        ["at-risk"],
    ]  # fmt: skip
    assert "OFFLINE 1 of 1" in rows[5]
    assert "now OK" in rows[3]


def test_a_state_says_of_how_many_partitions_it_is(look):
    assert "OFFLINE 1 of 70" in words_of(look("gone", "overview"))


def test_a_range_that_is_gone_says_which_of_its_offsets_were_given_out_again(look):
    page = words_of(look("lost", "partition"))
    assert "offsets 4973..5152 (180) are gone" in page
    assert "Offsets 4973..5028 are given out again: other records have them" in page


def test_the_partition_says_who_holds_the_hw(look, lake, ask):
    assert "HW5,210 held by one of brokers 2, 3" in words_of(look("healthy", "partition"))
    sound(lake, health("clicks", 0))
    assert "HW100 at the log end" in words_of(ask("/partition?cluster=prod&topic=clicks&partition=0"))


def test_the_line_of_what_is_not_known_ends_at_its_number(lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "broker_minute", {"broker_id": 9, "minute": at(-3000), "partitions": 7})
    count = next(one for one in ask("/api/v1/overview").json()["counts"] if one["name"] == "not known")
    assert (count["number"], count["most"]) == (0, 7)
    assert count["line"].endswith("V27.0H61")


def test_what_is_covered_ends_where_the_watcher_was_cut_off_before_the_axis_does(look):
    answer = look("cut_off", "/api/v1/quality").json()
    assert answer["until"] == "2026-09-01T12:01:25Z"
    assert [sum(one["bars"][-1]) < 970 for one in answer["coverage"]] == [True] * 9
    band = look("cut_off", "/api/v1/broker?cluster=prod&broker=2").json()["band"]
    assert [(one["state"], one["left"] + one["width"]) for one in band] == [("ok", 955), ("unknown", 1000)]


@pytest.mark.parametrize("chart", ["partition", "broker"])
def test_the_axis_of_a_chart_goes_on_to_now_where_nothing_is_told_since(chart, look):
    place = "broker=2" if chart == "broker" else "topic=clicks&partition=0"
    spec = look("cut_off", f"/charts/{chart}.json?cluster=prod&{place}").text
    assert f'"data":{{"values":[{{"ts":{int(at(85).timestamp() * 1000)}}}]}}' in spec


def test_the_states_of_a_broker_begin_with_what_was_found_first(look):
    band = look("gone", "/api/v1/broker?cluster=prod&broker=2").json()["band"]
    assert [(one["state"], one["since"][11:19]) for one in band] == [("ok", "10:00:00"), ("offline", "11:56:00")]
    assert band[0]["left"] + band[0]["width"] == band[1]["left"]


def test_a_recording_that_ended_long_ago_has_no_axis_to_now(lake, ask):
    write(lake, "partition_health", health("clicks", 0, last_event_ts=at(-7200)))
    reported(lake, 1, to=-7200)
    write(lake, "cluster_minute", {"minute": at(-9000)})
    job_has_read(lake)
    assert ask("/api/v1/quality").json()["until"] < "2026-09-01T10:30"


def test_a_time_is_not_called_24_h_if_less_of_it_is_judged(look):
    assert "Up and down, 2 h 1 min" in words_of(look("healthy", "broker"))
    overview = words_of(look("healthy", "overview"))
    assert "records, 2 h 1 min" in overview
    assert "lost offsets, 2 h 1 min" in overview
    assert "Last losses, 2 h 1 min" in words_of(look("healthy", "topic"))


def test_what_copy_command_copies_is_shown_at_every_width(look):
    page = look("gone", "overview").text
    copied = re.search(r'data-copy="([^"]*)"', page)[1]
    assert f"<code>{copied}</code>" in page


def test_open_incidents_stand_by_weight(lake, ask):
    sound(lake, health("clicks", 0))
    row = {"cluster": "prod", "state": "open", "alert_ids": [], "firing": [], "brokers": [], "topics": []}
    row |= {"partitions": []}
    told = [("i1", "warning", "at_risk", 50), ("i2", "critical", "offline", 40), ("i3", "critical", "loss", 30)]
    told += [("i4", "info", "out_of_sync", 60)]
    write(
        lake,
        "incidents",
        *(
            row | {"incident_id": one, "severity": severity, "cause": cause, "first_ts": at(s), "last_ts": at(s)}
            for one, severity, cause, s in told
        ),
    )
    for view in ("/api/v1/incidents", "/api/v1/overview"):
        answer = ask(view).json()
        shown = answer["shown"] if "shown" in answer else answer["incidents"]["shown"]
        assert [one["incident_id"] for one in shown] == ["i3", "i2", "i1", "i4"]


def test_the_chart_of_an_incident_has_the_seconds_within_each_minute(look):
    answer = look("gone", "/api/v1/incident?cluster=prod&incident_id=3f2a9c0d11aa22bb").json()
    offline = answer["series"][0]
    assert (offline["values"][4:7], offline["seconds"][4:7]) == ([0, 1, 1], [0, 55, 60])


def test_the_partition_that_is_offline_stands_before_those_at_risk_that_are_folded(look):
    page = look("gone", "incident").text.partition('id="partitions"')[2]
    before, _, folded = page.partition("<details")
    assert re.findall(r'title="([^"]*)"', before) == ["audit-1"]
    assert "<summary>69 AT RISK</summary>" in folded


def test_the_chart_of_an_incident_begins_with_the_minute_that_it_says(look):
    answer = look("lost", "/api/v1/incident?cluster=prod&incident_id=3f2a9c0d11aa22bb").json()
    assert [one["values"][0] for one in answer["series"]] == [0, 1, 69]
    shown = words_of(look("lost", "incident")).partition("How it came")[2]
    assert "11:51:0012:02:00" in shown.replace(" ", "")


def test_each_line_of_the_chart_of_an_incident_is_seen_and_has_its_most(look):
    page = look("lost", "incident")
    drawn = re.findall(r'<path class="s\d" data-name="([^"]*)".*?stroke-width="(\d)"', page.text)
    assert drawn == [("under-replicated", "6"), ("under min ISR", "4"), ("offline", "2")]
    assert "offline, at most 1" in words_of(page)


def test_whom_an_incident_affects_is_not_known_while_nothing_is_judged(look):
    page = words_of(look("cut_off", "incident"))
    assert "what not known" in re.sub(r"what(?=not)", "what ", page)
    assert "topicsnone" not in page


def test_what_was_lost_is_seen_where_partitions_are_searched_for(look):
    answer = look("lost", "/api/v1/partitions?cluster=prod").json()
    assert [(one["topic"], one["partition"], one["lost"]) for one in answer["partitions"][:2]] == [
        ("clicks", 0, 180),
        ("audit", 0, 0),
    ]
    page = words_of(look("lost", "partitions"))
    assert page.count("LOST 180 offsets") == 2, "beside the topic, and beside the partition"


def test_all_partitions_of_a_broker_that_is_unknown_are_not_known(look):
    page = words_of(look("cut_off", "broker"))
    assert "Its partitions that are not OK, or not known: 70" in page
    assert "all its partitions, the worst first" in page


@pytest.mark.parametrize(("kind", "word"), [("cut_off", "UNKNOWN"), ("gone", "OFFLINE")])
def test_the_state_of_a_partition_is_said_once_in_its_line(kind, word, look):
    page = look(kind, "broker").text.partition('id="concerned"')[2]
    line = re.search("<li>.*?</li>", page, re.S)[0]
    assert line.count(word) == 1


def test_counts_of_brokers_that_are_unknown_are_called_those_last_known(look):
    said = "the counts are those last known"
    assert said in words_of(look("cut_off", "brokers"))
    assert said not in words_of(look("gone", "brokers"))
    assert "does not answer since 11:56:00" in words_of(look("gone", "brokers"))


def test_a_loss_of_a_topic_leads_to_its_partition(look):
    losses = look("lost", "topic").text.partition('id="losses"')[2]
    assert re.search(r'<li><a href="/partition\?[^"]*partition=0[^"]*"[^>]*>clicks-0</a>: offsets 4973..5152', losses)


def test_a_topic_says_since_when_it_is_unknown_and_links_to_no_list_that_it_has(look):
    page = words_of(look("cut_off", "topic"))
    assert "clicks UNKNOWN since 11:56:00" in page
    assert "all 48 partitions" not in page
    assert "all 48 partitions" in words_of(look("healthy", "topic"))


def test_quality_does_not_say_that_nothing_is_missing_beside_a_silent_source(look):
    assert "None is recorded in this time, beside the source that is silent now." in words_of(look("gone", "quality"))
    assert "beside the 3 sources that are silent now" in words_of(look("cut_off", "quality"))
    assert "None is recorded in this time." in words_of(look("healthy", "quality"))


@pytest.mark.parametrize(("kind", "view"), [("gone", "overview"), ("gone", "incident"), ("lost", "partition")])
def test_what_happened_says_when_a_partition_had_no_leader_any_more(kind, view, look):
    assert f"nobody leads{': audit-1' if kind == 'gone' else ''}" in words_of(look(kind, view))
