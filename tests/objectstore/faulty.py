"""moto's S3 server behind a layer that refuses, delays and repeats requests by a seed.

`python -m tests.objectstore.faulty` says its address. A POST to /faults of {"seed": 1, "rate": 0.1} begins, of {} ends
it and answers how many requests met each fault; {"repeat": "_delta_log/"} repeats the next write to such a path.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

START, Answer = Callable[..., Any], Iterable[bytes]
FAULTS = ("refused", "failed", "delayed", "repeated")
"""503 and 500 before anything is done; an answer that comes late; and a write that is done and then answered by 500,
so that the client does it again."""
LATE_S = 0.3
CHANGES = ("PUT", "POST", "DELETE")


class Faulty:
    """A WSGI application in front of another one."""

    def __init__(self, store: Callable[[dict[str, Any], START], Answer]) -> None:
        self._store, self._lock = store, threading.Lock()
        self._chance, self._rate, self._repeat = random.Random(0), 0.0, ""
        self._met: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start: START) -> Answer:
        if environ["PATH_INFO"] == "/faults":
            return self._told(environ, start)
        fault = self._next(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if fault == "refused":
            return _refuse(start, "503 Slow Down", "SlowDown")
        if fault == "failed":
            return _refuse(start, "500 Internal Server Error", "InternalError")
        if fault == "delayed":
            time.sleep(LATE_S)
        if fault == "repeated":
            for _ in self._store(environ, lambda *_: None):
                pass
            return _refuse(start, "500 Internal Server Error", "InternalError")
        return self._store(environ, start)

    def _next(self, method: str, path: str) -> str | None:
        with self._lock:
            if self._repeat and method in CHANGES and self._repeat in path:
                self._repeat = ""
                self._met["repeated"] += 1
                return "repeated"
            if self._chance.random() >= self._rate:
                return None
            fault = self._chance.choice(FAULTS if method in CHANGES else FAULTS[:3])
            self._met[fault] += 1
            return fault

    def _told(self, environ: dict[str, Any], start: START) -> Answer:
        asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        with self._lock:
            answer, self._met = dict(self._met), Counter()
            self._chance, self._rate = random.Random(asked.get("seed", 0)), asked.get("rate", 0.0)
            self._repeat = asked.get("repeat", "")
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]


def _refuse(start: START, status: str, code: str) -> Answer:
    start(status, [("Content-Type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>a fault of the test</Message></Error>".encode()]


def _once(handler: BaseHTTPRequestHandler) -> bool:
    """werkzeug answers `Expect: 100-continue` itself; a second "100 Continue" is taken for the answer by S3A."""
    return True


def main() -> None:
    """Serves until it is ended."""
    BaseHTTPRequestHandler.handle_expect_100 = _once  # type: ignore[method-assign]
    server = make_server("127.0.0.1", 0, Faulty(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
