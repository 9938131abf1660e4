"""Real processes: `hwmark notify`, and Debian's Alertmanager."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests.unit.notify.receivers import until

ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
needs_alertmanager = pytest.mark.skipif(
    ALERTMANAGER is None, reason="no Alertmanager (Debian: prometheus-alertmanager)"
)


def command(*words):
    return [sys.executable, "-m", "hwmark", "notify", *map(str, words)]


def hwmark(*words, status=0):
    """Runs `hwmark notify` to its end in this process; what it printed."""
    done = CliRunner().invoke(app, ["notify", *map(str, words)])
    assert done.exit_code == status, done.output
    return done.output


@contextmanager
def notifier(output, *words, **environment):
    """A `hwmark notify` that goes on; killed at the end, unless it has ended."""
    with open(output, "ab") as file:
        process = subprocess.Popen(command(*words), env=os.environ | environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


_CONFIG = """
route:
  receiver: hook
  group_by: [cluster]
  group_wait: 300ms
  group_interval: 500ms
  repeat_interval: 1h
receivers:
  - name: hook
    webhook_configs:
      - url: {url}
"""


def shipped_config(receiver):
    """The shipped configuration with intervals of half a second, and every receiver below the address of one."""
    text = (Path(__file__).parents[2] / "conf/alertmanager-hwmark.yml").read_text()
    head = re.sub(r"(group_\w+): \d+[sm]$", r"\1: 500ms", text.partition("\nreceivers:")[0], flags=re.MULTILINE)
    head = head.replace("  receiver: team\n", "  receiver: team\n  group_wait: 500ms\n  group_interval: 500ms\n", 1)
    each = (f"  - {{name: {n}, webhook_configs: [{{url: {receiver.url}/{n}}}]}}" for n in ("team", "oncall", "deadman"))
    return "\n".join([head, "receivers:", *each, "  - name: nobody", ""])


class Alertmanager:
    """One that notifies a receiver: grouped by cluster, or as its configuration says."""

    def __init__(self, folder, receiver, config=None):
        self.folder, self.receiver, self.port = folder, receiver, free_port()
        self.url, self.process = f"http://127.0.0.1:{self.port}", None
        folder.mkdir()
        (folder / "am.yml").write_text(config or _CONFIG.format(url=f"{receiver.url}/hook"))

    def start(self):
        words = [ALERTMANAGER, f"--config.file={self.folder}/am.yml", f"--storage.path={self.folder}/data"]
        words += [f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address=", "--log.level=warn"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        until(self._ready)

    def _ready(self):
        try:
            return urllib.request.urlopen(f"{self.url}/-/ready", timeout=1).status == 200
        except OSError:
            return False

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait()

    def ask(self, path, body=None):
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}", None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.loads(answer.read() or b"null")

    def alerts(self):
        """What it has now, by alertname."""
        return {alert["labels"]["alertname"]: alert for alert in self.ask("alerts")}

    def states_of(self, name):
        """The states of an alert in the order in which the receiver got them."""
        got = [alert for request in list(self.receiver.requests) for alert in request.json["alerts"]]
        return [alert["status"] for alert in got if alert["labels"]["alertname"] == name]


@contextmanager
def alertmanager(folder, receiver, config=None):
    one = Alertmanager(folder, receiver, config)
    one.start()
    try:
        yield one
    finally:
        one.stop(signal.SIGKILL)
