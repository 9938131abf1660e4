"""A scraped lake: the exporter's routes under uvicorn, and a real Prometheus with the rules of conf/prometheus."""

import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI

from pipelines.metrics.routes import router

RULES = Path(__file__).parents[2] / "conf/prometheus/hwmark.rules.yml"
WAIT_S = 60


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def serving(exporter):
    """The port of an application with the routes of one exporter."""
    app, port = FastAPI(docs_url=None, redoc_url=None), free_port()
    app.include_router(router(exporter))
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started, "uvicorn has started")
        yield port
    finally:
        server.should_exit = True
        thread.join(WAIT_S)


@contextmanager
def scraping(target, folder):
    """Asks a Prometheus that scrapes this port twice a second."""
    port = free_port()
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
        f"rule_files: ['{RULES}']\n"
        f"scrape_configs: [{{job_name: hwmark, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
    )
    with (folder / "prometheus.log").open("w") as log:
        running = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    asked = Prometheus(port)
    try:
        until(asked.ready, "Prometheus is ready")
        until(lambda: asked.value("count_over_time(hwmark_build_info[1m])") >= 4, "four scrapes are there")
        yield asked
    finally:
        running.terminate()
        running.wait(WAIT_S)


class Prometheus:
    """Questions to a Prometheus over HTTP."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path):
        """The data of an answer. Raises AssertionError where it is an error."""
        try:
            with urllib.request.urlopen(f"{self.url}/{path}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from error

    def query(self, expression):
        return self.get(f"query?query={quote(expression)}")["result"]

    def value(self, expression):
        """The one value of an expression; 0 where there is none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else 0

    def ready(self):
        try:
            with urllib.request.urlopen(self.url.replace("api/v1", "-/ready"), timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def firing(self):
        return {alert["labels"]["alertname"] for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"}

    def pending(self):
        return {alert["labels"]["alertname"] for alert in self.get("alerts")["alerts"]}

    def expressions(self):
        """The expression of every rule, by its name."""
        groups = self.get("rules")["groups"]
        return {rule["name"]: rule["query"] for group in groups for rule in group["rules"]}


def until(holds, what):
    """Waits until something holds. Raises AssertionError after a minute."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, f"not within {WAIT_S} s: {what}"
        time.sleep(0.2)
