"""One request over HTTP, whose failure is said in words that hold no secret."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

TIMEOUT_S = 10


class NotAccepted(Exception):
    """A receiver did not take what it was sent; the words are safe to print and to keep."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: a redirected POST becomes a GET, and a login page that answers it has accepted nothing."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def request(
    url: str, method: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, ca_file: str = ""
) -> None:
    """Send one request. Raises NotAccepted unless it is answered with 2xx at that address."""
    if not url.startswith(("http://", "https://")):
        raise NotAccepted("its URL is neither http:// nor https://")
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
        asked = urllib.request.Request(url, body, dict(headers or {}), method=method)
        with opener.open(asked, timeout=TIMEOUT_S) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotAccepted(f"HTTP {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise NotAccepted(_reason(error)) from None


def _reason(error: Exception) -> str:
    """Return the reason of a failure, without the URL that messages of some errors contain."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.strerror:
        return f"no connection: {cause.strerror}"
    return f"no connection: {type(cause).__name__}"
