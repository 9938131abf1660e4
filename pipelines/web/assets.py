"""Scripts and styles of the page: from this package and from vl-convert's, never from elsewhere."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

HTMX_SHA256 = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""Of dist/htmx.min.js in htmx.org 2.0.11 of the npm registry (Zero-Clause BSD); a test compares the file with it."""

_EMBED = 'window.hwmarkEmbed = vegaEmbed; window.dispatchEvent(new Event("hwmark-embed"));'
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
FILES = ("htmx.min.js", "page.js", "page.css", "icon.svg")
VEGA = "vega.js"
_BUNDLING = threading.Lock()


@dataclass(frozen=True)
class Asset:
    """One file as it is sent."""

    content: bytes
    media_type: str


@cache
def asset(name: str) -> Asset | None:
    """A file by its name; None where there is no such. The first call for Vega takes seconds."""
    media_type = _TYPES.get(name.rpartition(".")[2], "")
    if name == VEGA:
        with _BUNDLING:
            return Asset(_vega(), media_type)
    if name not in FILES:
        return None
    content = (files("pipelines.web") / "static" / name).read_bytes()
    if name == "page.css":
        content = (files("pipelines.charts") / "templates" / "tokens.css").read_bytes() + content
    return Asset(content, media_type)


@cache
def url(name: str) -> str:
    """The URL of a file, which changes when the file does, so that browsers keep it."""
    found = asset(name) if name != VEGA else None
    version = hashlib.sha256(found.content if found else _vega_version().encode()).hexdigest()[:12]
    return f"/static/{name}?v={version}"


@cache
def _vega() -> bytes:
    """Vega, Vega-Lite and vega-embed in one script, out of vl-convert."""
    import vl_convert

    return vl_convert.javascript_bundle(_EMBED).encode()


def _vega_version() -> str:
    from importlib.metadata import version

    return f"{version('vl-convert-python')} {_EMBED}"


def warm() -> threading.Thread:
    """Bundles Vega in the background, so that the first view of a chart need not wait for it."""
    thread = threading.Thread(target=lambda: asset(VEGA), name="vega", daemon=True)
    thread.start()
    return thread
