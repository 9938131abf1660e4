"""The views as pages, and the files that they need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from fastapi import APIRouter, Request
from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from pipelines.alerting.incident_title import cut
from pipelines.errors import UsageError
from pipelines.html import environment, iso
from pipelines.verdict.words import span
from pipelines.web import api, assets
from pipelines.web.answers import broker, incident
from pipelines.web.answers.gate import Gate
from pipelines.web.answers.groups import Groups
from pipelines.web.asked import Asked
from pipelines.web.guard import is_same_origin
from pipelines.web.parameters import Question, Source, timing
from pipelines.web.snapshot import Reader

router = APIRouter(include_in_schema=False)
VIEWS = {"/": "Overview", "/incidents": "Incidents", "/brokers": "Brokers", "/topics": "Topics", "/quality": "Quality"}
_PLACES = {"/gate": "/broker", "/alert": "/incident", "/groups": "/incident"}
"""Paths that show another one's view."""
PERIODS = ("15m", "1h", "6h", "1d", "7d", "all")
CHOICES = {"theme": ("auto", "light", "dark"), "zone": ("utc", "browser")}
"""What a cookie keeps, the default first."""
YEAR_S = 31_536_000


@cache
def templates() -> Environment:
    """The templates with what all of them use."""
    made = environment("pipelines.web")
    made.filters |= {
        "anchor": _anchor, "span": _span, "clock": _clock, "cut": cut,
    }  # fmt: skip
    made.globals |= {"asset": assets.url, "views": VIEWS, "periods": PERIODS, "themes": CHOICES["theme"]}
    return made


def _add(path: str, template: str, answer: Callable[[Reader, Asked], Any]) -> None:
    def get(request: Request, reader: Source, asked: Question) -> Response:
        return _page(request, reader, asked, template, answer)

    router.add_api_route(path, get)


for _view in api.VIEWS:
    if _view.name != "verdict":  # every page has that
        _add("/" if _view.name == "overview" else f"/{_view.name}", f"{_view.name}.html", _view.answer)
_add("/alert", "incident.html", incident.incident_view)


@router.get("/static/{name}")
def get_static(name: str) -> Response:
    found = assets.asset(name)
    if found is None:
        raise HTTPException(404)
    return Response(
        found.content, media_type=found.media_type, headers={"Cache-Control": f"public, max-age={YEAR_S}, immutable"}
    )


@router.post("/gate")
def post_gate(request: Request, reader: Source, asked: Question) -> Response:
    """The page of a broker with the answer whether it may be stopped; asked by this page alone."""
    _refuse_others(request)
    gate: Gate = request.app.state.gate
    return _page(request, reader, asked, "broker.html", broker.broker, gate=gate.ask(reader, asked))


@router.post("/groups")
def post_groups(request: Request, reader: Source, asked: Question) -> Response:
    """The page of an incident with the consumer groups of its cluster; asked by this page alone."""
    _refuse_others(request)
    groups: Groups | None = request.app.state.groups
    if groups is None:
        raise HTTPException(404)
    return _page(request, reader, asked, "incident.html", incident.incident_view, groups=groups.ask(reader.now()))


def _refuse_others(request: Request) -> None:
    if not is_same_origin(request.headers):
        raise HTTPException(403, "this is asked by the page itself, and by no other site")


def error_page(request: Request, status: int, words: str, headers: Mapping[str, str]) -> Response:
    """The error in the frame of the page, with the way back."""
    reader: Reader = request.app.state.reader
    frame = _frame(request, reader, Asked())
    page = templates().get_template("error.html").render(frame, status=status, words=words, refreshes=False)
    return HTMLResponse(page, status, dict(headers))


def _page(
    request: Request, reader: Reader, asked: Asked, template: str, answer: Callable[[Reader, Asked], Any], **more: Any
) -> Response:  # fmt: skip
    chosen = {name: value for name in CHOICES if (value := request.query_params.get(name)) is not None}
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            raise UsageError(f"{name} is {value[:40]}; say {', '.join(CHOICES[name])}")
    found = answer(reader, asked)
    frame = {"gate": None, "groups": None, **_frame(request, reader, asked), **more}
    refreshes = asked.refresh == "on" and asked.until is None
    page = templates().get_template(template).render(frame, answer=found, refreshes=refreshes)
    made = HTMLResponse(page, headers={"Cache-Control": "no-store", "Server-Timing": timing(asked)})
    for name, value in chosen.items():
        made.set_cookie(name, value, max_age=YEAR_S, httponly=True, samesite="strict")
    return made


def _frame(request: Request, reader: Reader, asked: Asked) -> dict[str, Any]:
    """The values in the frame of every page."""
    chosen = {name: request.query_params.get(name) or request.cookies.get(name) for name in CHOICES}
    return {
        **{name: value if (value := chosen[name]) in CHOICES[name] else CHOICES[name][0] for name in CHOICES},
        "asked": asked,
        "path": _PLACES.get(request.url.path, request.url.path),
        "lake": reader.lake.root,
        "now": reader.now(),
        "every_s": max(1, round(reader.refresh_s)),
        "asks_of": request.app.state.groups.cluster if request.app.state.groups else None,
    }


def _anchor(text: object) -> str:
    """An id for an element about this text, the same at every refresh."""
    return "i" + hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest()[:10]


def _span(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


@pass_context
def _clock(context: Context, ts: datetime | None) -> Markup | str:
    """A time of day in UTC, with its date where that is not today's; a script may say it in the browser's zone."""
    if ts is None:
        return "not known"
    today = context.resolve("now").date() == ts.date()
    return Markup('<time datetime="{}">{}</time>').format(
        iso(ts), f"{ts:%H:%M:%S}" if today else f"{ts:%Y-%m-%d %H:%M:%S}"
    )
