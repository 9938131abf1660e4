"""Notifiers as processes: killed at any point, two at once, asked to stop, and what of their secrets is visible."""

import base64
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

from pipelines.alerting.state import from_arrow
from pipelines.lake.lake import Lake
from pipelines.notify import ledger
from pipelines.notify.episodes import episodes
from schemas import alerts, deliveries
from tests.notify.processes import command, notifier
from tests.unit.notify.notified import fresh, frozen, lost, settings
from tests.unit.notify.receivers import receiver, until

SEED = 20261123


class Killing:
    """A receiver that can kill whoever sends to it; `accepted` has the keys of what it answered with 200."""

    def __init__(self, there):
        self.there, self.accepted, self.answers, self.victim, self.when = there, [], 200, None, ""
        there.answer = self._answer

    def _answer(self, request):
        key = re.search(r"\((\w{12})\)", request.json["title"])[1]
        if self.answers == 200:
            self.accepted.append(key)
        if self.victim and self.when == "before it answers":
            self._kill()
        return self.answers

    def kill(self, process, when):
        self.victim, self.when = process, when

    def _kill(self):
        victim, self.victim = self.victim, None
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()


@pytest.fixture
def channels():
    with receiver() as one, receiver() as other:
        yield Killing(one), Killing(other)


@pytest.fixture
def lake(tmp_path):
    place = str(tmp_path / "lake")
    fresh(place)
    return place


def configured(tmp_path):
    return settings(tmp_path, every="200ms", channels='{ a = { url = "env:A_URL" }, b = { url = "env:B_URL" } }')


def urls(channels):
    return {
        name: f"json://127.0.0.1:{channel.there.port}/"
        for name, channel in zip(("A_URL", "B_URL"), channels, strict=True)
    }


def test_kills_lose_nothing_and_double_one_message_each_at_most(tmp_path, lake, channels):
    print(f"seed {SEED}")
    chance, (a, b), words = random.Random(SEED), channels, ("--lake", lake, "--config", configured(tmp_path))
    with notifier(tmp_path / "out", *words, **urls(channels)):  # from here on everything is news
        until(lambda: begun(lake) == {"a", "b"})
    b.answers, kills = 503, 1
    lost(lake, 90)
    frozen(lake)
    for number in range(1, 7):
        with notifier(tmp_path / "out", *words, **urls(channels)) as process:
            if number <= 2:
                a.kill(process, "before it answers")
                process.wait()
            else:
                until(lambda: a.there.requests)
                time.sleep(chance.random())  # any moment
        kills += 1
        if number == 3:
            frozen(lake, 0, "thaw")
            fresh(lake)
        if number == 5:
            lost(lake, 5, regression_id="r2", topic="orders", partition=1)
    b.answers = 200
    with notifier(tmp_path / "out", *words, **urls(channels)):
        until(lambda: len(found := known(lake)) == 3 and {(c, e.key) for c in "ab" for e in found} <= sent(lake))
    keys = {key for episode in known(lake) for key in (episode.key, *episode.earlier)}
    for channel in (a, b):
        assert {episode.key for episode in known(lake)} <= set(channel.accepted) <= keys
        assert sum(times - 1 for times in Counter(channel.accepted).values()) <= kills
    assert max(Counter(a.accepted).values()) > 1, "a kill before the answer makes a double"


def recorded(lake):
    return ledger.from_arrow(Lake(lake).read(deliveries.TABLE, deliveries.ARROW))


def begun(lake):
    """The channels that were used: of one that was not, what had ended by its first round is never sent."""
    return {row.channel for row in recorded(lake) if row.outcome is ledger.Outcome.BEGAN}


def sent(lake):
    """Channel and key of everything that counts as sent."""
    return {(row.channel, row.key) for row in recorded(lake) if row.outcome is ledger.Outcome.SENT}


def known(lake):
    """The episodes of the alerts that the lake has."""
    return episodes(from_arrow(Lake(lake).read(alerts.TABLE, alerts.ARROW)))


def test_two_notifiers_of_one_lake(tmp_path, lake, channels):
    words = ("--lake", lake, "--config", configured(tmp_path))
    with notifier(tmp_path / "out", *words, **urls(channels)):
        until(lambda: os.path.exists(f"{lake}/ops/deliveries"))
        done = subprocess.run(
            [*command(*words), "--once"], env=os.environ | urls(channels), capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (75, "")
        assert done.stderr.startswith(f"hwmark: notify of lake {lake} is held by process ")
        lost(lake)
        until(lambda: channels[0].accepted and channels[1].accepted)
    assert len(channels[0].accepted) == 1


DRIP = """
from pipelines.commands.notify import transports
from hwmark.__main__ import main
transports.PATIENCE_S = 1
main()
"""


def test_a_receiver_that_drips_its_answer_holds_up_neither_the_others_nor_the_end(tmp_path, lake, channels):
    a, b = channels
    over = threading.Event()
    lost(lake)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=[server, over], daemon=True).start()
        given = urls(channels) | {"A_URL": f"json://127.0.0.1:{server.getsockname()[1]}/"}
        call = [sys.executable, "-c", DRIP, "notify", "--lake", lake, "--config", configured(tmp_path), "--once"]
        with notifier(tmp_path / "baseline", "--lake", lake, "--config", configured(tmp_path), **urls(channels)):
            until(lambda: a.accepted and b.accepted)
        lost(lake, 500, regression_id="r2")
        done = subprocess.run(call, env=os.environ | given, capture_output=True, text=True)
        assert not over.is_set()
        over.set()
    assert (done.returncode, len({*b.accepted})) == (1, 2)  # the first notifier was killed: it may have left a double
    assert "notify: a: attempt 1 not accepted: no answer in time: [FIRING] critical loss: prod (" in done.stderr


def drip(server, over):
    """Answers with a byte now and then, for ever."""
    connection, _ = server.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not over.wait(0.5):
        connection.sendall(b"x")


def test_a_notifier_that_is_asked_to_stop_ends(tmp_path, lake, channels):
    with notifier(tmp_path / "out", "--lake", lake, "--config", configured(tmp_path), **urls(channels)) as process:
        until(lambda: os.path.exists(f"{lake}/ops/deliveries"))
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_no_secret_is_in_the_lake_the_output_or_a_command_line(tmp_path, lake):
    names = ("CHANNEL_URL", "BEARER", "PASSWORD", "BEAT_URL")
    secrets = {name: f"{name.lower()}{uuid.uuid4().hex}" for name in names}
    with receiver() as there, receiver() as refusing:
        refusing.answer = lambda request: 500
        given = secrets | {
            "CHANNEL_URL": f"json://me:{secrets['CHANNEL_URL']}@127.0.0.1:{refusing.port}/{secrets['CHANNEL_URL']}",
            "BEAT_URL": f"{there.url}/{secrets['BEAT_URL']}",
        }
        file = tmp_path / "password"
        file.write_text(secrets["PASSWORD"])
        one = f'{{ url = "{there.url}", bearer = "env:BEARER" }}'
        other = f'{{ url = "{refusing.url}", username = "me", password = "file:{file}" }}'
        config = settings(
            tmp_path, alertmanagers=f"{{ one = {one}, other = {other} }}", heartbeat='"env:BEAT_URL"',
            channels='{ oncall = { url = "env:CHANNEL_URL" } }',
        )  # fmt: skip
        lost(lake)
        with notifier(tmp_path / "out", "--lake", lake, "--config", config, "--debug", **given) as process:
            until(lambda: len(refusing.requests) > 3 and any(secrets["BEAT_URL"] in r.path for r in there.requests))
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
        authorized = {r.headers.get("Authorization") for r in there.requests if r.path == "/api/v2/alerts"}
        basic = {r.headers.get("Authorization") for r in refusing.requests if r.path == "/api/v2/alerts"}
    assert authorized == {f"Bearer {secrets['BEARER']}"}
    assert basic == {"Basic " + base64.b64encode(f"me:{secrets['PASSWORD']}".encode()).decode()}
    printed = (tmp_path / "out").read_text()
    assert "oncall: attempt 1 not accepted: HTTP 500" in printed
    kept = [path.read_bytes().decode("latin-1") for path in Path(lake).rglob("*") if path.is_file()]
    for text in (printed, shown, *kept):
        assert [name for name, secret in secrets.items() if secret in text] == []
