"""Each kind of channel against a receiver of our own: what Apprise sends there, and its URL nowhere else."""

import json
import logging
import xml.etree.ElementTree as ET
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from apprise.plugins.base import NotifyBase

from pipelines.errors import UsageError
from pipelines.notify.apprise_sender import sender
from pipelines.notify.http import NotAccepted
from pipelines.notify.notice import Notice
from pipelines.secret import Secret
from tests.unit.notify.receivers import receiver, smtp

SECRET = "s3cr3ttoken0123456789abc"
MESSAGE = Notice("k3y", "a1b2", "critical", "[FIRING] critical loss: prod (k3y)", "prod: LOST: 180 offsets\nKey: k3y")
OVER = Notice("k4y", "a1b2", "over", "[RESOLVED] critical offline: prod (k4y)", "prod: fine\nKey: k4y", ("a1b2",))


@pytest.fixture
def there():
    with receiver() as one:
        yield one


@pytest.fixture(autouse=True)
def in_no_hurry(monkeypatch):
    """Services that ask to be called seldom are called at once."""
    monkeypatch.setattr(NotifyBase, "throttle", lambda *_, **__: None)


@pytest.fixture
def rerouted(there, monkeypatch):
    """Requests to any host reach the receiver, at the lowest level that requests has; `hosts` has where to."""
    there.hosts, send = [], requests.adapters.HTTPAdapter.send

    def reroute(adapter, request, **how):
        parts = urlsplit(request.url)
        there.hosts.append(f"{parts.scheme}://{parts.netloc}")
        request.url = parts._replace(scheme="http", netloc=f"127.0.0.1:{there.port}").geturl()
        return send(adapter, request, **how)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", reroute)
    return there


def send(monkeypatch, url, *messages):
    monkeypatch.setenv("CHANNEL", url)
    through = sender(Secret("env:CHANNEL", "notify.channels.c.url"), "c")
    for message in messages or (MESSAGE,):
        through(message)


def test_json(there, monkeypatch):
    send(monkeypatch, f"json://user:{SECRET}@127.0.0.1:{there.port}/hook")
    (request,) = there.requests
    assert (request.method, request.path) == ("POST", "/hook")
    assert (request.json["title"], request.json["message"], request.json["type"]) == (
        MESSAGE.title, MESSAGE.body, "failure",
    )  # fmt: skip


def test_xml(there, monkeypatch):
    send(monkeypatch, f"xml://127.0.0.1:{there.port}/{SECRET}")
    (request,) = there.requests
    texts = [element.text for element in ET.fromstring(request.body).iter()]
    assert MESSAGE.title in texts
    assert MESSAGE.body in texts


def test_form(there, monkeypatch):
    send(monkeypatch, f"form://127.0.0.1:{there.port}/{SECRET}")
    fields = parse_qs(there.requests[0].text)
    assert (fields["title"], fields["message"]) == ([MESSAGE.title], [MESSAGE.body])


def test_slack(rerouted, monkeypatch):
    rerouted.says = b"ok"
    send(monkeypatch, f"slack://T1JJ3T3L2/A1BRTD4JD/{SECRET}/#alerts")
    assert rerouted.hosts == ["https://hooks.slack.com"]
    said = json.dumps(rerouted.requests[0].json)
    assert MESSAGE.title in said
    assert "prod: LOST: 180 offsets" in said


def test_pagerduty_gets_one_incident_for_an_alert_and_its_end(rerouted, monkeypatch):
    send(monkeypatch, f"pagerduty://{SECRET[:20]}@{SECRET}?action=map", MESSAGE, MESSAGE, OVER)
    assert set(rerouted.hosts) == {"https://events.pagerduty.com"}
    sent = [request.json for request in rerouted.requests]
    assert [event["event_action"] for event in sent] == ["trigger", "trigger", "resolve"]
    assert {event["dedup_key"] for event in sent} == {"a1b2"}
    assert MESSAGE.title in sent[0]["payload"]["summary"]
    assert sent[0]["payload"]["severity"] == "critical"


def test_pagerduty_gets_one_incident_for_each_severity_and_the_end_of_all(rerouted, monkeypatch):
    raised, each = replace(MESSAGE, alert_id="a1-critical"), ("a1-warning", "a1-critical")
    told = replace(MESSAGE, alert_id="a1-warning"), raised, replace(raised, weight="over", ended=each)
    send(monkeypatch, f"pagerduty://{SECRET[:20]}@{SECRET}?action=map", *told)
    events = [(request.json["event_action"], request.json["dedup_key"]) for request in rerouted.requests]
    assert events == [
        ("trigger", "a1-warning"), ("trigger", "a1-critical"), ("resolve", "a1-warning"), ("resolve", "a1-critical"),
    ]  # fmt: skip


def test_pagerduty_is_told_the_end_of_a_loss_and_of_one_that_was_withdrawn(rerouted, monkeypatch):
    """The end of a loss is no good news, and was sent as an incident of its own."""
    withdrawn = replace(MESSAGE, alert_id="a1-critical", ended=("a1-critical-lost",))
    told = withdrawn, replace(withdrawn, weight="info", ended=("a1-critical",))
    send(monkeypatch, f"pagerduty://{SECRET[:20]}@{SECRET}?action=map", *told)
    events = [(request.json["event_action"], request.json["dedup_key"]) for request in rerouted.requests]
    assert events == [("resolve", "a1-critical-lost"), ("trigger", "a1-critical"), ("resolve", "a1-critical")]


def test_teams(rerouted, monkeypatch):
    send(monkeypatch, f"workflows://prod.westus.logic.azure.com:443/{SECRET}/{SECRET}/")
    assert rerouted.hosts == ["https://prod.westus.logic.azure.com:443"]
    said = json.dumps(rerouted.requests[0].json)
    assert MESSAGE.title in said
    assert "prod: LOST: 180 offsets" in said


def test_mail(monkeypatch):
    with smtp() as server:
        url = (
            f"mailto://127.0.0.1:{server.port}?from=hwmark@example.com&to=oncall@example.com&mode=insecure&format=text"
        )
        send(monkeypatch, url)
        ((commands, mail),) = server.mails
    assert "rcpt TO:<oncall@example.com>" in commands
    assert MESSAGE.title in mail
    assert "prod: LOST: 180 offsets" in mail


def test_a_long_message_is_cut_not_refused(rerouted, monkeypatch):
    long = Notice("k3y", "a1", "critical", MESSAGE.title, "x" * 5000)
    send(monkeypatch, f"pagerduty://{SECRET[:20]}@{SECRET}", long)
    (request,) = rerouted.requests
    assert MESSAGE.title in request.json["payload"]["summary"]
    assert len(request.json["payload"]["summary"]) <= 1024


@pytest.mark.parametrize(
    ("answer", "said"),
    [(500, "HTTP 500"), (404, "HTTP 404"), ((302, {"Location": "http://127.0.0.1/login"}), "HTTP 302")],
)
def test_what_is_not_accepted_says_why_and_no_secret(there, monkeypatch, capfd, caplog, answer, said):
    there.answer = lambda request: answer
    with caplog.at_level(logging.DEBUG), pytest.raises(NotAccepted) as refused:
        send(monkeypatch, f"json://user:{SECRET}@127.0.0.1:{there.port}/{SECRET}")
    assert str(refused.value) == said
    assert len(there.requests) == 1, "a redirect is not followed"
    assert SECRET not in caplog.text + str(capfd.readouterr())


def test_nobody_there(monkeypatch, capfd):
    with receiver() as gone:
        port = gone.port
    with pytest.raises(NotAccepted, match=r"^no connection$"):
        send(monkeypatch, f"json://127.0.0.1:{port}/{SECRET}")
    assert SECRET not in str(capfd.readouterr())


@pytest.mark.parametrize("url", [f"nothing://{SECRET}", SECRET, f"slack://{SECRET}"])
def test_what_is_no_url_of_apprise_is_named_by_its_setting(monkeypatch, capfd, url):
    with pytest.raises(UsageError) as refused:
        send(monkeypatch, url)
    assert str(refused.value) == "notify.channels.c.url: Secret(env:CHANNEL) contains no URL that Apprise knows"
    assert SECRET not in str(capfd.readouterr())


def test_a_rotated_secret_counts(there, monkeypatch, tmp_path):
    file = tmp_path / "url"
    file.write_text(f"json://127.0.0.1:{there.port}/old\n")
    through = sender(Secret(f"file:{file}", "s"), "c")
    through(MESSAGE)
    file.write_text(f"json://127.0.0.1:{there.port}/new\n")
    through(MESSAGE)
    assert [request.path for request in there.requests] == ["/old", "/new"]
    file.unlink()
    with pytest.raises(NotAccepted, match="which cannot be read: No such file"):
        through(MESSAGE)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "which cannot be read: No such file or directory"), (b" \n", "is empty"), (b"\xff", "no text in UTF-8")],
)
def test_a_file_that_holds_no_secret_is_named(tmp_path, content, words):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=words) as refused:
        Secret(f"file:{file}", "notify.heartbeat").reveal()
    assert str(refused.value).startswith(f"notify.heartbeat is 'file:{file}', ")
