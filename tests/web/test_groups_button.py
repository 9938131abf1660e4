"""The button "who reads it?": the page of an incident asks the watched cluster, if it may ask that at all."""

import pytest
from starlette.testclient import TestClient

from pipelines.lake.lake import Lake
from pipelines.verdict import Limits
from pipelines.web.answers.groups import Groups
from pipelines.web.app import create_app
from pipelines.web.snapshot import Reader
from tests.web.lakes import ALERT, NOW, incident
from tests.web.test_views import words_of

URL = ALERT.replace("alert", "/groups", 1)
SAME = {"Sec-Fetch-Site": "same-origin"}
SAID = "Groups that have read what is gone, or may have:\nclicks-0  billing"


def client(lake, groups=None):
    incident(lake)
    return TestClient(create_app(Reader(Lake(lake), Limits(), lambda: NOW, 0), groups=groups))


def test_the_groups_of_an_incident_are_asked_for_by_a_press_of_a_button_once_in_half_a_minute(lake):
    asked = []
    page = client(lake, Groups("prod", lambda now: asked.append(now) or SAID))
    assert "who reads it?" in words_of(page.get(f"/{ALERT}"))
    answers = [words_of(page.post(URL, headers=SAME)) for _ in range(2)]
    assert asked == [NOW]
    assert all("who reads it? again asked 12:01:25 Groups that have read what is gone" in one for one in answers)


def test_a_cluster_that_does_not_answer_is_said(lake):
    def ask_groups(now):
        raise ConnectionError("no broker\nanswers")

    assert "not known: no broker answers" in words_of(client(lake, Groups("prod", ask_groups)).post(URL, headers=SAME))


@pytest.mark.parametrize("watched", ["", "other"])
def test_the_groups_of_another_cluster_cannot_be_asked_for(lake, watched):
    page = client(lake, Groups(watched, lambda now: SAID))
    assert "who reads it?" not in words_of(page.get(f"/{ALERT}"))


def test_a_page_that_may_not_ask_has_no_button_and_no_other_site_may_ask(lake):
    page = client(lake)
    assert "who reads it?" not in words_of(page.get(f"/{ALERT}"))
    assert page.post(URL, headers=SAME).status_code == 404
    assert client(lake, Groups("prod", lambda now: SAID)).post(URL, headers={}).status_code == 403
