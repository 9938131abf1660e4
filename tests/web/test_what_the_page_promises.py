"""Sentences of the page's specification that no other test holds: cells, squares, links to a time, and words."""

import re
from html import unescape

import pytest

from tests.unit.project.lakes import at, health, sound, write
from tests.web import staged
from tests.web.conftest import client_of
from tests.web.lakes import ALERT, TOPIC, incident
from tests.web.test_views import words_of

OURS = re.compile(r"\b(controller_fenced|under_min_isr|no_answer|at_risk|not_in_metadata|osr|ar)\b|broker -1\b")


@pytest.fixture(scope="module", params=staged.KINDS)
def ask_one(request, tmp_path_factory):
    lake = str(tmp_path_factory.mktemp(request.param) / "lake")
    staged.write_lake(lake, request.param)
    return client_of(lake, 3600).get


def plain_words(page):
    """The words of a page without its folds of commands, SQL and JSON, which have names of tables and columns."""
    shown = re.sub(r'<details class="ask".*?</details>|<code>.*?</code>|<select.*?</select>', "", page.text, flags=re.S)
    return unescape(re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", shown.partition("<main")[2])))


@pytest.mark.parametrize("view", staged.VIEWS)
def test_no_view_has_words_that_only_we_use(view, ask_one):
    text = plain_words(ask_one(staged.VIEWS[view]))
    assert [match[0] for match in OURS.finditer(re.sub(r"alert \w+ \(\w+\)", "", text))] == []


@pytest.mark.parametrize(("partitions", "cells"), [(500, 500), (501, 0)])
def test_a_topic_has_a_cell_for_each_of_500_partitions_and_above_that_the_worst_100(partitions, cells, lake, ask):
    small = {"isr": [1, 3], "under_replicated": True}
    sound(lake, *(health("clicks", n, **small if n < 120 else {}) for n in range(partitions)))
    answer, page = ask(f"/api/v1/{TOPIC}").json(), ask(f"/{TOPIC}")
    assert (len(answer["cells"]), len(answer["unwell"]), answer["line"]["unwell"]) == (cells, 100, 120)
    assert page.text.count('<button name="partition"') == cells
    assert "20 more that are not OK" in words_of(page)


@pytest.mark.parametrize(("brokers", "tiles", "squares"), [(24, 24, 0), (25, 1, 24), (200, 1, 199), (201, 1, 0)])
def test_brokers_are_tiles_to_24_and_squares_to_200(brokers, tiles, squares, lake, ask):
    sound(lake, health("clicks", 0))
    row = {"cluster": "prod", "rack": "r"}
    write(
        lake,
        "brokers",
        *(row | {"broker_id": n, "state": "answers" if n else "fenced"} for n in range(brokers)),
    )
    page = ask("/").text
    assert (page.count('<a class="tile'), page.count('<a class="square')) == (tiles, squares)


def test_a_link_to_an_incident_opens_the_same_time_next_week(lake, ask):
    incident(lake)
    link = unescape(re.search(r'<a class="button" href="([^"]*)">link to this time', ask(f"/{ALERT}").text)[1])
    assert re.findall(r"(since|until)=2026-09-01T(\d\d%3A\d\d%3A\d\d)", link) == [
        ("since", "11%3A55%3A30"), ("until", "12%3A05%3A30"),
    ]  # fmt: skip
    page = ask(link)
    assert "not now. now" in words_of(page)
    assert re.search(
        r'href="[^"]*until=2026-09-01T12%3A05%3A30[^"]*">clicks-0<', page.text.replace('" title="clicks-0', "")
    )


def test_an_incident_has_the_notes_about_it_and_of_its_cluster_since(lake, ask):
    incident(lake)
    note = {"cluster": "prod", "text": "disk swapped", "author": "ops", "written_at": at(50), "handled": True}
    write(lake, "notes", note | {"incident_id": "a1b2"}, note | {"text": "of before", "written_at": at(-400)})
    page = words_of(ask(f"/{ALERT}"))
    assert "handled: disk swapped (ops)" in page
    assert "of before" not in page


def test_states_of_a_partition_stand_on_the_axis_of_its_offsets(lake):
    staged.write_lake(lake, "lost")
    spec = client_of(lake, 0).get("/charts/partition.json?cluster=prod&topic=clicks&partition=0").json()
    assert spec["resolve"]["scale"]["x"] == "shared"
    datasets = [one["data"]["values"] for one in spec["vconcat"][1:]]
    assert [sorted({row.get("series", row.get("state")) for row in rows}) for rows in datasets] == [
        ["broker 1", "broker 2", "broker 3"], ["offline", "under min ISR"],
    ]  # fmt: skip
    first = int(staged.BEGUN.timestamp() * 1000)
    assert min(row["ts"] for row in datasets[0]) == first


def test_what_a_broker_that_does_not_answer_is_behind_is_not_known(lake):
    staged.write_lake(lake, "gone")
    page = words_of(client_of(lake, 0).get(staged.VIEWS["partition"]))
    assert re.search(r"broker 2 ?does not answer since 11:56:00 ?no ?[0-9,]+ at 11:55:40 ?not known", page)
