"""Every view: what it shows, that it says what `show` says, and that the page and the JSON are one answer."""

import csv
import json
import re
from datetime import datetime
from html import unescape
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from pipelines.alerting.rules import RULES
from pipelines.cli import app
from pipelines.verdict import words
from pipelines.web import api
from pipelines.web.answers.incident import Affected
from pipelines.web.runbook import steps
from tests.unit.project.lakes import at, committed_at, drained, health, job_has_read, loss, reported, sound, write
from tests.web.lakes import ALERT, ANSWERS, BROKER, INCIDENT, NOW, PAGES, TOPIC, WHERE, alert, incident


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: NOW)


def words_of(response):
    assert response.status_code == 200, response.text
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", response.text)))


def hwmark(*words):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def silent(lake):
    write(lake, "partition_health", health("orders", 0), health("clicks", 0, leader_id=2))
    reported(lake, 1, to=-400)
    reported(lake, 2, 3)
    job_has_read(lake)


def never_run(lake):
    reported(lake, 1, 2, 3)
    committed_at(lake, 0, at(0))


def ended(lake):
    write(lake, "partition_health", health("clicks", 0, offline=True, leader_id=-1))
    reported(lake, 1, 2, 3)
    drained(lake, to=60)
    job_has_read(lake)


@pytest.mark.parametrize("make", [silent, never_run, ended])
def test_what_is_not_judged_silent_or_over_is_said_alike_by_show_page_json_and_report(make, lake, ask, tmp_path):
    make(lake)
    said = hwmark("show", "verdict", "--lake", lake, "--since", "1d").splitlines()
    assert said
    data = json.loads(hwmark("show", "verdict", "--lake", lake, "--since", "1d", "--format", "json"))
    answered = ask("/api/v1/verdict").json()
    assert [(one["cluster"], one["part"], one["text"]) for one in answered] == [
        (one["cluster"], one["part"], one["text"]) for one in data
    ]
    out = tmp_path / "report.html"
    hwmark("report", "--lake", lake, "--since", "1d", "--out", str(out))
    written = unescape(out.read_text())
    for path in ("/", "/partitions", "/incidents", "/quality"):
        page = words_of(ask(path))
        assert [line for line in said if line not in page] == []
    assert [line for line in said if line not in written] == []


def test_one_partition_says_what_show_says_of_it(lake, ask):
    incident(lake)
    said = hwmark("show", "verdict", "--lake", lake, "--topic", "clicks", "--partition", "0").splitlines()
    assert said[0].startswith("prod/clicks-0: LOST: 180 offsets")
    page = words_of(ask(f"/partition?{WHERE}"))
    assert [line for line in said if line not in page] == []
    assert hwmark("show", "health", "--lake", lake, "--topic", "clicks").splitlines()[-2] in page


def test_a_verdict_follows_the_time_asked_for(lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "hw_regressions", loss(ts=at(-3600)))
    told = alert(first_ts=at(-3600), last_ts=at(-3600))
    write(lake, "alerts", told | {"written_at": at(0)}, told | {"written_at": at(30), "state": "resolved"})
    assert "LOST" in ask("/api/v1/verdict?since=2h").text
    assert "LOST" not in ask("/api/v1/verdict?since=15m").text


_OLD = alert(first_ts=at(-3600), last_ts=at(-3600))
_WITHDRAWN = _OLD | {"state": "resolved", "labels": [*_OLD["labels"], ("end", "withdrawn")]}


@pytest.mark.parametrize("rows", [[], [_OLD], [_WITHDRAWN]], ids=["not told", "open", "withdrawn, and found again"])
def test_a_loss_that_was_not_told_yet_or_is_open_is_said_whatever_time_is_asked_for(rows, lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "hw_regressions", loss(ts=at(-3600)))
    if rows:
        write(lake, "alerts", *rows)
    assert "LOST" in ask("/api/v1/verdict?since=15m").text


def test_the_overview_has_a_present_and_records_that_hide_neither(lake, ask):
    incident(lake)
    write(lake, "partition_health", health("audit", 0, offline=True, leader_id=-1))
    line = ask("/api/v1/overview").json()["clusters"][0]
    assert (line["now"]["state"], line["records"]["state"], line["records"]["text"]) == (
        "OFFLINE",
        "LOST",
        "180 offsets",
    )
    assert line["records"]["since"] == "2026-09-01T12:00:30Z"


def test_the_overview_counts_what_is_wrong_and_what_is_not_known(lake, ask):
    incident(lake)
    minute = {"minute": at(0), "offline_max": 2, "under_min_isr_max": 0, "under_replicated": 1}
    write(lake, "cluster_minute", minute)
    counts = ask("/api/v1/overview").json()["counts"]
    assert {one["name"]: one["number"] for one in counts} == {
        "offline": 0, "under min ISR": 0, "under-replicated": 1, "held back": 1, "not known": 0, "lost offsets": 180,
    }  # fmt: skip
    assert [one["most"] for one in counts[:3]] == [2, 0, 1]


def test_a_loss_of_which_silver_has_no_row_any_more_is_lost_without_a_count(lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "alerts", alert())
    overview = ask("/api/v1/overview").json()
    assert overview["clusters"][0]["records"] == {
        "state": "LOST",
        "text": "",
        "since": None,
        "extent": "",
        "handled": False,
    }
    assert overview["counts"][-1]["number"] is None


def test_a_loss_of_which_no_range_is_known_is_nowhere_a_count_of_0(lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "hw_regressions", loss(lost_from=None, lost_to=None, lost_records=None))
    overview, topics = ask("/api/v1/overview").json(), ask("/api/v1/topics").json()["topics"]
    said = "offsets below an earlier HW"
    assert overview["clusters"][0]["records"]["text"] == said
    assert (overview["counts"][-1]["number"], topics[0]["lost"]) == (None, None)
    assert f"LOST {said}" in words_of(ask(f"/{TOPIC}"))
    assert '<p><svg class="shape lost"' in ask(f"/partition?{WHERE}").text


def test_of_a_broker_whose_isr_or_changes_are_not_known_nothing_is_counted(lake, ask):
    sound(lake, health("clicks", 0, isr=None, under_replicated=None))
    answer = ask(f"/api/v1/{BROKER}").json()
    assert (answer["in_isr"], answer["left"], answer["band"]) == (None, [], [])
    assert "of those known" in words_of(ask("/brokers"))


def test_a_page_as_of_then_says_nothing_of_now(lake, ask):
    incident(lake)
    write(lake, "partition_health", health("orders", 0, cluster="test"))
    reported(lake, 1, 2, 3, cluster="test")
    job_has_read(lake)
    then = "until=2026-09-01T11:59:00"
    fleet = words_of(ask(f"/?{then}"))
    assert [words for words in ("need somebody", "OK", "HELD BACK") if words in fleet] == []
    assert ask(f"/api/v1/incidents?{then}").json()["open"] == 0
    one = words_of(ask(f"/?cluster=prod&{then}"))
    assert "records, since 2026-08-31 12:01:00 UTC" in one
    assert "no alert fires" not in one
    titles = [re.search("<title>(.*)</title>", ask(f"/{path}&{then}").text)[1] for path in (BROKER, TOPIC)]
    assert titles == ["Broker 2, hwmark", "clicks, hwmark"]


def test_a_count_beside_partitions_that_are_not_known_says_so(lake, ask):
    write(lake, "partition_health", health("orders", 0, last_event_ts=at(-400)), health("clicks", 0, leader_id=2))
    reported(lake, 1, to=-400)
    reported(lake, 2, 3)
    job_has_read(lake)
    assert "offline of those known; 1 not known 0" in words_of(ask("/"))


def test_since_when_a_state_holds_is_told_by_its_alert(lake, ask):
    sound(lake, health("clicks", 0, offline=True, leader_id=-1))
    write(lake, "alerts", alert(rule="offline", first_ts=at(20)))
    assert ask("/api/v1/overview").json()["clusters"][0]["now"]["since"] == "2026-09-01T12:00:20Z"


def test_an_open_incident_is_told_once_with_what_to_type_and_a_loss_that_no_alert_tells_beside_it(lake, ask):
    incident(lake)
    write(lake, "hw_regressions", loss(ts=at(50), regression_id="r9", topic="orders", partition=2))
    opened = {
        "incident_id": "i1", "severity": "critical", "state": "open", "cause": "loss", "subject": "clicks-0",
        "first_ts": at(30), "last_ts": at(31), "summary": "LOST prod: 180 offsets of clicks", "alert_ids": ["a1b2"],
        "firing": ["a1b2"], "brokers": [], "topics": ["clicks"], "partitions": ["clicks-0"], "groups": ["billing"],
    }  # fmt: skip
    over = {"incident_id": "i0", "state": "ended", "summary": "OFFLINE prod: broker 2 gone", "last_ts": at(10)}
    write(lake, "incidents", opened, opened | over | {"alert_ids": [], "firing": []})
    shown = ask("/api/v1/overview").json()["incidents"]["shown"]
    assert [(one["kind"], one["text"].partition(":")[0], one["affected"]) for one in shown] == [
        ("incident", "LOST prod", "1 partition lost offsets (clicks-0); topic clicks"),
        ("loss", "prod/orders-2", ""),
    ]
    assert (shown[0]["groups"], shown[0]["next"]) == (
        ["billing"],
        "Note the ranges, and tell the owners of these topics",
    )
    assert shown[0]["command"].startswith("hwmark show loss --cluster prod --id r1 --lake ")
    page = words_of(ask("/"))
    assert "LOST prod: 180 offsets of clicks" in page
    assert "resolved, 24 h: 1" in page


def test_a_loss_before_the_one_that_an_alert_tells_is_shown_beside_it(lake, ask):
    incident(lake)
    write(lake, "hw_regressions", loss(ts=at(10), regression_id="r0"))
    shown = ask("/api/v1/overview").json()["incidents"]["shown"]
    assert [(one["kind"], one["ts"][14:19]) for one in shown] == [("alert", "00:30"), ("loss", "00:10")]


def test_the_overview_says_what_is_one_failure_away_as_show_does(lake, ask):
    incident(lake)
    said = hwmark("show", "health", "--lake", lake).splitlines()[-1]
    assert said == f"prod: {ask('/api/v1/overview').json()['one_failure_away']}"
    assert said in words_of(ask("/"))


def test_brokers_stand_by_rack_those_that_do_not_answer_first(lake, ask):
    incident(lake)
    states = {1: "answers", 2: "no_answer", 4: "answers"}
    write(
        lake,
        "brokers",
        *({"cluster": "prod", "broker_id": n, "rack": f"r{n % 2}", "state": s} for n, s in states.items()),
    )
    racks = ask("/api/v1/overview").json()["racks"]
    assert [(rack["rack"], [(b["broker_id"], b["words"]) for b in rack["brokers"]]) for rack in racks] == [
        ("r0", [(2, "does not answer"), (4, "answers")]),
        ("r1", [(1, "answers")]),
    ]


def test_hundreds_of_brokers_are_counted_by_rack(lake, ask):
    sound(lake, health("clicks", 0))
    states = [{"broker_id": n, "rack": "r", "state": "fenced" if n == 7 else "answers"} for n in range(201)]
    write(lake, "brokers", *({"cluster": "prod"} | state for state in states))
    page = words_of(ask("/"))
    assert "rack r: 200 of 201 answer" in page
    assert "7 fenced" in page


def test_a_broker_that_follows_nobody_has_no_lag(lake, ask):
    incident(lake)
    write(lake, "brokers", {"cluster": "prod", "broker_id": 1, "followed": 2}, {"cluster": "prod", "broker_id": 2})
    page = words_of(ask("/brokers?cluster=prod"))
    assert page.count("follows nobody") == 1
    assert "not known" in page


@pytest.mark.nightly
def test_many_clusters_are_a_line_each_the_worst_first_and_the_sound_ones_a_count(lake, ask):
    rows = [health("orders", 0, cluster=f"c{n:03}", offline=n in (20, 70)) for n in range(120)]
    write(lake, "partition_health", *rows)
    for n in range(120):
        reported(lake, 1, 2, 3, cluster=f"c{n:03}")
    job_has_read(lake)
    first = ask("/api/v1/overview").json()
    assert (first["matching"], first["pages"], len(first["sound"])) == (120, 1, 118)
    assert [(one["cluster"], one["now"]["state"]) for one in first["clusters"]] == [
        ("c020", "OFFLINE"),
        ("c070", "OFFLINE"),
    ]
    assert ask("/api/v1/overview?q=c11").json()["matching"] == 10
    assert ask("/api/v1/overview?limit=1").json()["pages"] == 2
    assert "118 clusters are OK" in ask("/").text
    assert "120 clusters, 118 OK" in ask("/").text


def test_silent_sources_come_first_and_are_called_silent(lake, ask):
    silent(lake)
    assert [(one["source_id"], one["silent"]) for one in ask("/api/v1/overview").json()["sources"]] == [
        ("broker-1/server.log", True),
        ("broker-2/server.log", False),
        ("broker-3/server.log", False),
    ]
    assert ">silent<" in ask("/").text


def test_a_cluster_that_has_ended_is_not_called_fine(lake, ask):
    ended(lake)
    sound_too = health("orders", 0, cluster="test")
    write(lake, "partition_health", sound_too)
    reported(lake, 1, 2, 3, cluster="test")
    job_has_read(lake)
    overview = ask("/api/v1/overview").json()
    assert [(one["cluster"], one["ended"], one["now"]["state"]) for one in overview["clusters"]] == []
    assert overview["sound"] == ["prod", "test"]
    assert ask("/api/v1/overview?cluster=prod").json()["clusters"][0]["now"]["state"] == "ended"


def test_partitions_are_found_by_any_part_of_their_name(lake, ask):
    incident(lake)
    assert [row["partition"] for row in ask("/api/v1/partitions?q=orders-").json()["partitions"]] == [0, 2, 1]
    assert ask("/api/v1/partitions?q=PROD/CLICKS-0").json()["matching"] == 1
    assert ask("/api/v1/partitions?q='").json()["matching"] == 0
    second = ask("/api/v1/partitions?limit=3&page=2").json()
    assert (second["matching"], second["pages"], len(second["partitions"])) == (4, 2, 1)


def test_a_partition_has_its_replicas_and_what_happened(lake, ask):
    incident(lake)
    answer = ask(f"/api/v1/partition?{WHERE}").json()
    assert [(one["broker_id"], one["leads"], one["leo"]) for one in answer["replicas"]] == [
        (2, True, 100),
        (1, False, 300),
        (3, False, None),
    ]
    assert [line["text"] for line in answer["lines"] if line["kind"] in ("ISR", "loss")] == [
        "broker 2 left the ISR (lag)",
        "180 offsets lost: unclean election of broker 2 after broker 1",
    ]
    assert ask("/api/v1/partition?topic=clicks&partition=0").json() == answer


def test_findings_of_the_last_audit_stand_with_their_partition_and_their_broker(lake, ask):
    incident(lake)
    row = {"topic": "clicks", "broker_id": 2, "kind": "diverges", "severity": "critical", "audited_at": at(9)}
    write(lake, "audits", row | {"detail": "ends at 120", "audited_at": at(1)}, row | {"detail": "ends at 300"})
    for view in (f"/partition?{WHERE}", f"/{BROKER}"):
        page = words_of(ask(view))
        assert "diverges, clicks-0 of broker 2: ends at 300" in page
        assert "ends at 120" not in page
    elsewhere = {"audited_at": at(20), "severity": "info", "kind": "recovery", "detail": "not stopped cleanly"}
    write(lake, "audits", row | elsewhere)
    assert "ends at 300" in words_of(ask(f"/{BROKER}")), "the later audit says nothing of this finding"
    write(lake, "audits", row | {"audited_at": at(30), "severity": "info", "detail": "no longer found"})
    for view in (f"/partition?{WHERE}", f"/{BROKER}"):
        assert "ends at 300" not in words_of(ask(view)), "a later audit found no such thing"


def test_a_lake_without_gold_brokers_has_them_from_its_partitions(lake, ask):
    incident(lake)
    answer = ask("/api/v1/brokers?cluster=prod").json()
    assert answer["complete"] is False
    assert [
        (b["broker_id"], b["led"], b["followed"], b["outside_isr"], b["holds_back"]) for b in answer["brokers"]
    ] == [
        (1, 3, 1, 0, 0),
        (2, 1, 3, 0, 1),
        (3, 0, 4, 1, 0),
    ]
    assert "this lake has no gold/brokers yet" in ask("/brokers?cluster=prod").text


def test_a_broker_shows_what_it_is_the_cause_of(lake, ask):
    incident(lake)
    write(lake, "brokers", {"cluster": "prod", "broker_id": 3, "rack": "r1", "state": "fenced"})
    answer = ask("/api/v1/broker?cluster=prod&broker=3").json()
    assert [row["sentence"].partition(":")[0] for row in answer["partitions"]] == ["prod/orders-2"]
    assert (answer["complete"], answer["tile"]["rack"], answer["tile"]["words"]) == (True, "r1", "fenced")


def test_incidents_are_listed_the_open_ones_first_with_alerts_that_are_in_none(lake, ask):
    sound(lake, health("clicks", 0))
    row = {"severity": "critical", "cause": "loss", "subject": "clicks-0", "alert_ids": [], "firing": [], "brokers": []}
    row |= {"topics": [], "partitions": [], "cluster": "prod"}
    over = [
        row | {"incident_id": f"i{n:02}", "state": "ended", "summary": f"over {n}", "last_ts": at(n)} for n in range(60)
    ]
    write(lake, "incidents", *over, row | {"incident_id": "now", "state": "open", "summary": "LOST prod"})
    write(lake, "alerts", alert(alert_id="003b"))
    answer = ask("/api/v1/incidents").json()
    assert (answer["matching"], answer["open"], answer["pages"]) == (62, 2, 1)
    assert ask("/api/v1/incidents?limit=50").json()["pages"] == 2
    assert [one["kind"] for one in answer["shown"][:3]] == ["incident", "alert", "incident"]
    assert ask("/api/v1/incidents?q=003b").json()["matching"] == 1
    assert ask("/api/v1/incidents?cluster=prod&topic=clicks").json()["matching"] == 62


def test_an_incident_is_as_it_was_at_the_end_of_the_time_asked_for_and_has_its_partitions_as_csv(lake, ask):
    incident(lake)
    row = {"incident_id": "i1", "cluster": "prod", "severity": "critical", "cause": "loss", "subject": "clicks-0"}
    row |= {"first_ts": at(30), "last_ts": at(31), "alert_ids": ["a1b2"], "firing": ["a1b2"], "brokers": [2]}
    row |= {"topics": ["clicks"], "partitions": ["clicks-0"], "summary": "LOST prod"}
    ended = row | {"state": "ended", "firing": [], "summary": "LOST prod, over", "written_at": at(80)}
    write(lake, "incidents", row | {"state": "open", "written_at": at(40)}, ended)
    of = "/api/v1/incident?incident_id=i1"
    assert [ask(url).json()["card"]["text"] for url in (of, f"{of}&until=2026-09-01T12:01:00")] == [
        "LOST prod, over", "LOST prod",
    ]  # fmt: skip
    assert ask("/incident.csv?incident_id=i1").text.splitlines() == [
        "topic,partition,state,lost,proof,owner,read_by",
        '"clicks","0","OK","120..299","proven","",""',
    ]


def test_a_cell_of_an_incident_that_a_spreadsheet_would_run_is_text_and_a_quote_stays_one(lake, monkeypatch):
    affected = Affected("-orders", 3, "=1+1", "0..2", "proven", 'the "blue" team', None)
    monkeypatch.setattr(api.incident, "incident_view", lambda *_, every: SimpleNamespace(partitions=[affected]))
    (row,) = csv.reader([api.get_partitions(None, None).body.decode().splitlines()[1]])
    assert row == ["'-orders", "3", "'=1+1", "0..2", "proven", 'the "blue" team', ""]


def test_every_runbook_has_a_first_step_and_what_not_to_do():
    assert [rule for rule in RULES if not (steps(rule).safe and steps(rule).never)] == []


def test_an_alert_has_the_chain_of_its_loss_and_what_was_sent_of_it(lake, ask):
    incident(lake)
    row = {"channel": "chat", "alert_id": "a1b2", "state": "firing", "sent_at": at(40)}
    write(lake, "deliveries", row | {"outcome": "failed", "attempt": 1, "error": "HTTP 503"})
    write(lake, "deliveries", row | {"outcome": "sent", "attempt": 2}, row | {"alert_id": "other", "outcome": "sent"})
    page, answer = words_of(ask(f"/{ALERT}")), ask(f"/api/v1/{INCIDENT}").json()
    steps = json.loads(hwmark("show", "loss", "--lake", lake, "--id", "r1", "--format", "json"))
    assert len(steps) == 10
    assert [one["text"] for one in answer["loss"]["steps"]] == [one["text"] for one in steps]
    assert [one["text"] for one in steps if one["text"] not in page and not one["text"].endswith(":")] == []
    assert [(one["outcome"], one["error"]) for one in answer["sent"]["rows"]] == [
        ("failed", "HTTP 503"),
        ("sent", None),
    ]
    assert "failed: HTTP 503" in page
    assert f"hwmark report --lake {lake} --alert a1b2" in page


def test_an_alert_lists_what_was_lost_by_the_same_change_of_leader(lake, ask):
    incident(lake)
    row = json.loads(hwmark("show", "regressions", "--lake", lake, "--format", "json"))[0]
    write(
        lake, "hw_regressions", row | {"ts": datetime.fromisoformat(row["ts"]), "regression_id": "r9", "partition": 9}
    )
    page = words_of(ask(f"/{ALERT}"))
    assert "2 partitions lost 360 offsets by it" in page
    assert "clicks-9, 180 offsets" in page


def test_a_chart_that_has_the_first_day_alone_says_where_it_ends(lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "alerts", alert(first_ts=at(-2 * 86_400)))
    write(lake, "cluster_minute", {"minute": at(-2 * 86_400), "offline_max": 2})
    assert "2026-08-30 11:55:002026-08-31 11:56:00" in words_of(ask(f"/{ALERT}"))


def test_an_alert_of_which_nothing_was_sent_says_so(lake, ask):
    incident(lake)
    assert "hwmark notify has recorded no delivery in this lake" in words_of(ask(f"/{ALERT}"))
    write(lake, "deliveries", {"channel": "chat", "outcome": "began"})
    assert "ops/deliveries has no row of this alert" in words_of(ask(f"/{ALERT}"))


def test_an_alert_on_what_is_no_loss_any_more_has_no_chain(lake, ask):
    incident(lake)
    write(lake, "hw_regressions", loss(revision=2, severity="info", **{"class": "stale_leader_hw"}))
    assert ask(f"/api/v1/{INCIDENT}").json()["loss"] is None
    assert 'id="chain"' not in ask(f"/{ALERT}").text


def test_what_never_ran_is_said_and_not_shown_as_nothing(lake, ask):
    reported(lake, 1)
    assert "Nothing was ever checked" in ask("/quality").text
    assert "expectations failed" not in ask("/quality").text
    never = "Alerts were never evaluated"
    assert [never in page for page in (ask("/").text, ask("/incidents").text)] == [True, True]
    sound(lake, health("clicks", 0))
    hwmark("check", "--lake", lake)
    assert [never in page for page in (ask("/").text, ask("/incidents").text)] == [False, False]


def test_quality_has_failed_expectations_gaps_and_quarantine(lake, ask):
    incident(lake)
    answer = ask("/api/v1/quality").json()
    assert [(row["expectation"], row["success"]) for row in answer["expectations"]] == [("isr_within_ar", False)]
    assert [(row["kind"], row["times"]) for row in answer["gaps"]] == [("gap", 1)]
    assert [(row["reason"], row["events"]) for row in answer["quarantined"]] == [("offset -7 is below -1", 1)]


def test_a_time_that_two_sources_cover_counts_once(lake, ask):
    sound(lake, health("clicks", 0))
    write(lake, "coverage", {"kind": "terms", "broker_id": 1, "from_ts": at(0), "to_ts": at(60)})
    assert [one["bars"] for one in ask("/api/v1/quality").json()["coverage"]] == [[[0, 999]]] * 3


def test_charts_come_as_vega_lite_and_as_svg(lake, ask):
    incident(lake)
    spec = ask(f"/charts/partition.json?{WHERE}").json()
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    assert "lost (shaded): 120..299" in json.dumps(spec)
    assert ask(f"/charts/partition.svg?{WHERE}").text.startswith("<svg ")
    assert "append to HW as leader, p99" in ask("/charts/broker.json?cluster=prod&broker=1").text
    assert ask(f"/charts/partition.json?{WHERE}&since=2026-09-02").status_code == 204


def test_an_answer_says_where_its_time_went(lake, ask):
    incident(lake)
    parts = dict(part.strip().split(";") for part in ask("/").headers["server-timing"].split(","))
    assert parts.keys() == {"verdict", "incidents", "counts", "brokers", "timeline", "sources"}


def test_tables_that_grow_are_seen_at_the_next_look(lake, ask):
    sound(lake, health("clicks", 0))
    assert "LOST" not in ask("/").text
    write(lake, "hw_regressions", loss(ts=at(5)))
    assert "LOST" in ask("/").text


def test_links_keep_the_state_and_the_theme_is_a_cookie(lake, ask):
    incident(lake)
    page = ask("/partitions?cluster=prod&since=6h&refresh=off")
    assert "/partition?cluster=prod&amp;topic=orders&amp;partition=0&amp;since=6h&amp;refresh=off" in page.text
    assert "hx-trigger" not in page.text
    dark = ask("/?theme=dark")
    assert 'data-theme="dark"' in dark.text
    assert dark.cookies["theme"] == "dark"
    assert 'data-theme="dark"' in ask("/").text


@pytest.mark.parametrize("path", [*PAGES, *(f"/api/v1/{name}" for name in ANSWERS)])
@pytest.mark.sampled(3)
def test_a_lake_of_an_earlier_version_is_shown(lake, ask, path, tmp_path):
    """Its gold/partition_health lacks the level, and it has no later table."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    incident(lake)
    table = f"{lake}/gold/partition_health"
    old = DeltaTable(table).to_pyarrow_table().drop_columns(["level", "min_isr", "one_failure_away"])
    write_deltalake(table, pa.table(old), mode="overwrite", schema_mode="overwrite")
    answered = ask(path)
    assert answered.status_code == 200, answered.text


@pytest.mark.parametrize("path", PAGES)
def test_each_section_ends_with_what_to_ask_oneself(path, lake, ask):
    incident(lake)
    sections = re.findall("<section.*?</section>", ask(path).text, re.DOTALL)
    assert sections
    assert [one for one in sections if not re.search(r"</details>\n?(</div>)?\s*</section>$", one)] == []
    assert [one for one in sections if one.count('<details class="ask"') != 1] == []


def test_titles_of_cards_have_at_most_80_characters_and_their_sentence_stands_below(lake, ask):
    name = "payments-settlement-reconciliation-eu-central-" * 4
    sound(lake, health(name, 0))
    write(lake, "hw_regressions", loss(topic=name, ts=at(10)))
    labels = [("cluster", "prod"), ("topic", name), ("partitions", f"{name}-0")]
    write(lake, "alerts", alert(rule="offline", labels=labels, summary=f"prod: OFFLINE: {name}"))
    shown = ask("/api/v1/overview").json()["incidents"]["shown"]
    assert [one["kind"] for one in shown] == ["alert", "loss"]
    assert max(len(one["text"]) for one in shown) <= 80
    assert [name in one["cause"] for one in shown] == [True, True]


def test_the_next_step_names_the_brokers(lake, ask):
    sound(lake, health("clicks", 0, offline=True, leader_id=-1))
    row = {"incident_id": "i1", "state": "open", "cause": "offline", "brokers": [3, 2], "summary": "OFFLINE prod"}
    row |= {"alert_ids": [], "firing": [], "topics": ["clicks"], "partitions": ["clicks-0"], "first_ts": at(30)}
    write(lake, "incidents", row | {"cluster": "prod", "severity": "critical"})
    assert ask("/api/v1/overview").json()["incidents"]["shown"][0]["next"] == "Start brokers 2, 3"
    assert ask(f"/api/v1/{TOPIC}").json()["since"] == "2026-09-01T12:00:30Z"


def test_a_topic_says_who_reads_it_as_far_as_somebody_asked(lake, ask):
    incident(lake)
    assert "not asked" in words_of(ask(f"/{TOPIC}"))
    row = {"incident_id": "i1", "state": "ended", "cause": "loss", "brokers": [], "alert_ids": [], "firing": []}
    row |= {"topics": ["clicks"], "partitions": ["clicks-0"], "groups": ["billing", "fraud"], "cluster": "prod"}
    write(lake, "incidents", row)
    assert "billing, fraud" in words_of(ask(f"/{TOPIC}"))


def test_a_planned_downtime_stands_below_the_states_of_its_broker(lake, ask):
    incident(lake)
    window = {"cluster": "prod", "begins": at(5), "until": at(25), "reason": "upgrade", "brokers": [2]}
    write(lake, "downtimes", window, window | {"downtime_id": "other", "brokers": [1], "reason": "not of this one"})
    assert [one["words"] for one in ask(f"/api/v1/{BROKER}").json()["planned"]] == ["upgrade"]


def test_an_incident_says_until_when_it_is_planned_and_how_often_it_came_again(lake, ask):
    incident(lake)
    row = {"incident_id": "i1", "state": "planned", "cause": "at_risk", "brokers": [2], "alert_ids": [], "firing": []}
    row |= {"cluster": "prod", "first_ts": at(5), "planned_until": at(600), "returns": 12, "severity": "warning"}
    write(lake, "incidents", row | {"topics": [], "partitions": [], "summary": "AT RISK prod: broker 2"})
    said = f"planned downtime until {words.clock(at(600))}, again, 12 times since {words.clock(at(5))}"
    for page in ("/", "/incidents", "/incident?incident_id=i1"):
        assert said in words_of(ask(page)), page


def test_what_a_loss_came_of_stands_in_order_of_time_and_what_is_not_known_apart(lake, ask):
    incident(lake)
    page = ask(f"/{ALERT}").text
    came, known = (re.search(f'id="{name}">.*?</section>', page, re.DOTALL)[0] for name in ("came", "known"))
    times = re.findall(r'<time datetime="([^"]*)"', came.partition("<ol")[2])
    assert times == sorted(times)
    assert len(times) > 2
    assert "records were written is not known" not in came
    assert "when the lost records were written is not known" in known


def test_a_broker_that_does_not_answer_is_not_known_as_of_now(lake, ask):
    incident(lake)
    write(lake, "brokers", {"broker_id": 2, "state": "unknown", "ts": at(20), "led": 1, "replicas": 2})
    assert "Last known, at 12:00:20" in words_of(ask(f"/{BROKER}"))


def test_the_log_of_a_silent_broker_is_what_would_tell(lake, ask):
    silent(lake)
    assert "prod: nothing of broker 1 after 2026-09-01 11:53:20 UTC: its log would tell" in words_of(ask("/quality"))


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(1, [(48, 0)] * 4, id="polled: a bracket without teeth"),
        pytest.param(3, [(0, None), (48, None), (0, None), (48, None)], id="traced: the lag itself"),
    ],
)
def test_a_sampled_lag_is_a_bracket(level, expected, lake, ask):
    sound(lake, health("clicks", 0))
    row = {"broker_id": 2, "level": level, "followed": 1}
    write(lake, "broker_lag", *(row | {"ts": at(n), "lag_records": 48 * (n % 2)} for n in range(4)))
    layers = ask("/charts/broker.json?cluster=prod&broker=2").json()["vconcat"][0]["layer"]
    values = next(one["data"]["values"] for one in layers if "low" in one.get("data", {}).get("values", [{}])[0])
    assert [(one["number"], one["low"]) for one in values] == expected
