"""The views as pages, and the files that they need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fastapi import APIRouter, Request
from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from pipelines.errors import UsageError
from pipelines.html import environment
from pipelines.verdict.words import span
from pipelines.web import assets
from pipelines.web.answers import alert, alerts, broker, overview, partition, partitions, quality
from pipelines.web.asked import Asked
from pipelines.web.parameters import Question, Source, timing
from pipelines.web.snapshot import Reader

router = APIRouter(include_in_schema=False)
VIEWS = {"/": "Overview", "/partitions": "Partitions", "/broker": "Brokers", "/alerts": "Alerts", "/quality": "Quality"}
PERIODS = ("15m", "1h", "6h", "1d", "7d", "all")
THEMES = ("auto", "light", "dark")
YEAR_S = 31_536_000


@cache
def templates() -> Environment:
    """The templates with what all of them use."""
    made = environment("pipelines.web")
    made.filters |= {"slug": _slug, "anchor": _anchor, "span": _span}
    made.globals |= {"asset": assets.url, "views": VIEWS, "periods": PERIODS, "themes": THEMES}
    return made


def _add(path: str, template: str, answer: Callable[[Reader, Asked], Any]) -> None:
    def get(request: Request, reader: Source, asked: Question) -> Response:
        return _page(request, reader, asked, template, answer)

    router.add_api_route(path, get)


for _path, _answer in {
    "/": overview.overview,
    "/partitions": partitions.partitions,
    "/partition": partition.partition,
    "/broker": broker.broker,
    "/alerts": alerts.alerts,
    "/alert": alert.alert,
    "/quality": quality.quality,
}.items():
    _add(_path, f"{_path[1:] or 'overview'}.html", _answer)


@router.get("/static/{name}")
def get_static(name: str) -> Response:
    found = assets.asset(name)
    if found is None:
        raise HTTPException(404)
    return Response(
        found.content, media_type=found.media_type, headers={"Cache-Control": f"public, max-age={YEAR_S}, immutable"}
    )


def error_page(request: Request, status: int, words: str, headers: Mapping[str, str]) -> Response:
    """What went wrong, in the frame of the page, with the way back."""
    reader: Reader = request.app.state.reader
    page = (
        templates()
        .get_template("error.html")
        .render(_frame(request, reader, Asked()), status=status, words=words, refreshes=False)
    )
    return HTMLResponse(page, status, dict(headers))


def _page(
    request: Request, reader: Reader, asked: Asked, template: str, answer: Callable[[Reader, Asked], Any]
) -> Response:
    theme = request.query_params.get("theme")
    if theme is not None and theme not in THEMES:
        raise UsageError(f"theme is {theme[:40]}; say {', '.join(THEMES)}")
    found = answer(reader, asked)
    frame = _frame(request, reader, asked)
    page = templates().get_template(template).render(frame, answer=found, refreshes=asked.refresh == "on")
    made = HTMLResponse(page, headers={"Cache-Control": "no-store", "Server-Timing": timing(asked)})
    if theme is not None:
        made.set_cookie("theme", theme, max_age=YEAR_S, httponly=True, samesite="strict")
    return made


def _frame(request: Request, reader: Reader, asked: Asked) -> dict[str, Any]:
    """What the frame of every page shows."""
    theme = request.query_params.get("theme") or request.cookies.get("theme", "auto")
    return {
        "asked": asked,
        "path": request.url.path,
        "theme": theme if theme in THEMES else "auto",
        "lake": reader.lake.root,
        "now": reader.now(),
        "every_s": max(1, round(reader.refresh_s)),
    }


def _slug(state: str) -> str:
    """A state as a class of CSS: `under-min-isr`."""
    return state.lower().replace(" ", "-").replace("_", "-")


def _anchor(text: object) -> str:
    """An id for an element about this text, the same at every refresh."""
    return "i" + hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest()[:10]


def _span(seconds: float) -> str:
    from datetime import timedelta

    return span(timedelta(seconds=seconds))
