"""May I stop it: asked by the page itself alone, seldom, and of the cluster only where that is allowed."""

import pytest
from starlette.testclient import TestClient

from pipelines.commands.dashboard import app
from pipelines.errors import UsageError
from pipelines.gate.facts import Facts
from pipelines.settings import load
from pipelines.verdict import Limits
from pipelines.web.app import create_app
from pipelines.web.snapshot import Reader
from tests.unit.project.lakes import at, health, sound, write
from tests.web.lakes import NOW
from tests.web.test_views import words_of

URL = "/gate?cluster=prod&broker=1"
SAME = {"Sec-Fetch-Site": "same-origin"}


def client(lake, ask_cluster=None):
    from pipelines.lake.lake import Lake

    return TestClient(create_app(Reader(Lake(lake), Limits(), lambda: NOW, 0), ask_cluster=ask_cluster))


@pytest.fixture
def two_of_three(lake):
    sound(lake, health("orders", 0, isr=[1, 2], under_replicated=True, min_isr=2))
    write(
        lake,
        "brokers",
        *({"cluster": "prod", "broker_id": n, "ts": at(80), "last_reported_ts": at(80)} for n in (1, 2, 3)),
    )
    return lake


def test_the_answer_is_that_of_the_gate_on_the_lake(two_of_three):
    page = words_of(client(two_of_three).post(URL, headers=SAME))
    assert "asked 12:01:25: NO: broker 1 must not be stopped now: 1 of 1 partition would not keep min ISR" in page
    assert "orders-0: breaks, under min ISR then" in page


def test_a_broker_that_is_down_may_stay_away_or_not_and_is_not_to_be_stopped(lake):
    sound(lake, health("orders", 0, isr=[1], under_replicated=True, under_min_isr=True))
    states = {1: "answers", 2: "no_answer", 3: "answers"}
    told = {"cluster": "prod", "ts": at(80), "last_reported_ts": at(80)}
    write(lake, "brokers", *(told | {"broker_id": n, "state": state} for n, state in states.items()))
    page = words_of(client(lake).post(URL.replace("broker=1", "broker=2"), headers=SAME))
    assert "may it stay away? again" in page
    assert "NO: broker 2 is down already: start it; without it 1 of 1 partition would not keep min ISR" in page
    assert "must not be stopped" not in page


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {}])
def test_no_other_site_may_ask(two_of_three, headers):
    assert client(two_of_three).post(URL, headers=headers).status_code == 403


def test_a_browser_that_only_says_its_origin_may_ask(two_of_three):
    assert client(two_of_three).post(URL, headers={"Origin": "http://testserver"}).status_code == 200


def test_nothing_is_asked_by_a_link(two_of_three):
    assert client(two_of_three).get(URL).status_code == 405


def test_whoever_asks_again_at_once_gets_the_same_answer(two_of_three):
    asked = []

    def ask_cluster(cluster, broker):
        asked.append((cluster, broker))
        return Facts(cluster, frozenset({broker}), (), NOW, "the cluster itself", stale="nobody answers")

    asking = client(two_of_three, ask_cluster)
    pages = [words_of(asking.post(URL, headers=SAME)) for _ in range(2)]
    assert "nobody answers" in pages[0]
    assert pages[0] == pages[1]
    asking.post(URL.replace("broker=1", "broker=2"), headers=SAME)
    assert asked == [("prod", 1), ("prod", 2)]


def test_the_cluster_is_asked_only_with_a_token_and_an_address(two_of_three):
    settings = load(None, {"lake": {"path": two_of_three}, "dashboard": {"gate": True}})
    with pytest.raises(UsageError, match="set a token, and \\[watch\\] bootstrap"):
        app(settings)
