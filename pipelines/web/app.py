"""The application: pages, the same answers as JSON, and the charts of both. It only reads."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, Response

from pipelines.errors import UsageError
from pipelines.printable import printable
from pipelines.verdict.known import UnknownNameError
from pipelines.web import api, assets, pages
from pipelines.web.answers.gate import AskCluster, Gate
from pipelines.web.answers.groups import Groups
from pipelines.web.guard import Guard
from pipelines.web.snapshot import Reader, UnreadableError

_LOG = logging.getLogger("hwmark")
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (UnknownNameError, 404),
    (UsageError, 400),
    (UnreadableError, 503),
)


def create_app(
    reader: Reader,
    *,
    hosts: Collection[str] = (),
    token: str = "",
    routers: Sequence[APIRouter] = (),
    ask_cluster: AskCluster | None = None,
    groups: Groups | None = None,
) -> FastAPI:
    """The application over one lake; `hosts` and `token` as in Guard, `routers` are mounted beside, such as metrics.

    `ask_cluster` answers whether a broker may be stopped in place of the lake, `groups` which consumer groups read what
    is lost.
    """
    from importlib.metadata import version

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        assets.warm()
        yield

    made = FastAPI(
        title="hwmark", version=version("hwmark"), docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json",
        description="What a lake holds, read-only.", lifespan=lifespan,
        middleware=[Middleware(Guard, hosts=hosts, token=token), Middleware(GZipMiddleware, minimum_size=2048)],
    )  # fmt: skip
    made.state.reader, made.state.gate, made.state.groups = reader, Gate(ask_cluster), groups
    for router in (pages.router, api.router, *routers):
        made.include_router(router)
    for kind in (UsageError, UnreadableError, HTTPException, Exception):
        made.add_exception_handler(kind, _failed)
    return made


def _failed(request: Request, error: Exception) -> Response:
    """One sentence, as a page or as JSON, and never a trace."""
    status, words = _said(error)
    headers = {"Retry-After": "5"} if status == 503 else {"Cache-Control": "no-store"}
    if request.url.path.startswith(("/api/", "/charts/")):
        return JSONResponse({"error": words}, status, headers)
    return pages.error_page(request, status, words, headers)


def _said(error: Exception) -> tuple[int, str]:
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status, printable(str(error))
    if isinstance(error, HTTPException):
        known = {404: "there is no such page", 405: "this page is read-only: it can only be asked for, by GET"}
        return error.status_code, known.get(error.status_code, str(error.detail))
    _LOG.error("hwmark: %s: %s", type(error).__name__, error, exc_info=_LOG.isEnabledFor(logging.DEBUG))
    return 500, "something went wrong in hwmark itself; `hwmark dashboard --debug` prints its trace"
