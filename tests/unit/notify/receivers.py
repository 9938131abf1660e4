"""Local receivers of notifications: HTTP and SMTP, on ports of their own, which keep what they got."""

import json
import socketserver
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENCE_S = 300


def until(holds, seconds=PATIENCE_S):
    """Waits until `holds()` is true, and returns that; fails after long."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


class Request:
    def __init__(self, handler):
        self.method, self.path, self.headers = handler.command, handler.path, dict(handler.headers)
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()


class Receiver:
    """An HTTP server; `answer` makes of a request the status, and headers where there are any; `says` is the body."""

    def __init__(self):
        self.requests, self.answer, self.says = [], lambda request: 200, b""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self):
                request = Request(self)
                receiver.requests.append(request)
                status = receiver.answer(request)
                status, headers = status if isinstance(status, tuple) else (status, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(receiver.says)))
                self.end_headers()
                self.wfile.write(receiver.says)

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *words):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiver():
    there = Receiver()
    try:
        yield there
    finally:
        there.close()


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self):
        self.say("220 here")
        lines, data = [], None
        while line := self.rfile.readline():
            if data is not None:
                if line == b".\r\n":
                    self.server.mails.append((lines, b"".join(data).decode()))
                    data = None
                    self.say("250 ok")
                else:
                    data.append(line)
                continue
            lines.append(line.decode().strip())
            word = lines[-1][:4].upper()
            if word == "DATA":
                data = []
                self.say("354 go on")
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def say(self, words):
        self.wfile.write(f"{words}\r\n".encode())


@contextmanager
def smtp():
    """A mail server: `.mails` has the commands and the text of each, `.port` is where it listens."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp)
    server.daemon_threads, server.mails, server.port = True, [], server.server_address[1]
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
