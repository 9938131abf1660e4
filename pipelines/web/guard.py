"""Access to the page: host names, a token, and headers that limit what a browser may do with a response."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "::1", "localhost")
OPEN = ("/livez",)
"""What needs no token: it says nothing of a lake."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """An ASGI application in front of another.

    `hosts`: the names under which it may be asked, against names of others that lead here (DNS rebinding); none: any.
    `token`: what a client must know, as Bearer token or as the password of Basic; empty: nothing.
    """

    def __init__(self, app: App, hosts: Collection[str] = (), token: str = "") -> None:
        self.app, self.hosts, self.token = app, frozenset(hosts), token

    async def __call__(self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if self.hosts and host_of(headers.get(b"host", "")) not in self.hosts:
            await _refuse(send_guarded, 421, "this page is served on the loopback address: ask for it as localhost")
        elif self.token and scope["path"] not in OPEN and not _knows(headers.get(b"authorization", ""), self.token):
            words = "a token is required: as Bearer token, or as the password of any user"
            await _refuse(send_guarded, 401, words, (b"www-authenticate", b'Basic realm="hwmark", charset="UTF-8"'))
        else:
            await self.app(scope, receive, send_guarded)


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of this host asks; what is no browser has to say so itself."""
    if site := headers.get("sec-fetch-site"):
        return site == "same-origin"
    origin = headers.get("origin", "").partition("://")[2]
    return bool(origin) and origin == headers.get("host")


def host_of(header: str) -> str:
    """The name in a Host header, without its port: `localhost`, `::1`."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.rpartition(":")[0].lower() if ":" in header else header.lower()


def _knows(header: str, token: str) -> bool:
    """Whether an Authorization header has the token; takes as long whatever it has."""
    scheme, _, given = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode("utf-8").partition(":")[2]
        except (binascii.Error, ValueError):
            given = ""
    elif scheme.lower() != "bearer":
        given = ""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8"))


async def _refuse(send: Callable[..., Any], status: int, words: str, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"hwmark: {words}\n".encode()})
