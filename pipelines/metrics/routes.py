"""`/metrics`, `/livez` and `/healthz`, to be mounted into an application of FastAPI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from pipelines.metrics.exporter import Exporter

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric


def router(exporter: Exporter) -> APIRouter:
    """The routes of one lake. None takes a parameter, and none writes anything."""
    routes = APIRouter()

    @routes.get("/metrics", response_class=Response, summary="Metrics in the text format of Prometheus")
    def metrics(request: Request) -> Response:
        content, media_type = _encoded(exporter.metrics(), request.headers.get("accept", ""))
        return Response(content, media_type=media_type)

    @routes.get("/livez", response_class=PlainTextResponse, summary="Whether the process answers")
    async def livez() -> str:  # on the event loop: it answers while every thread waits for a lake
        return "alive\n"

    @routes.get("/healthz", response_class=PlainTextResponse, summary="Whether everything is judged")
    def healthz() -> PlainTextResponse:
        found = exporter.health()
        return PlainTextResponse(str(found), status_code=200 if found.healthy else 503)

    return routes


class _Collected:
    """A collector for prometheus-client with given families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = list(families)

    def collect(self) -> list[Metric]:
        return self.families


def _encoded(families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """The families in the format that the client asks for, and its media type."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.exposition import choose_encoder

    registry = _registry()
    registry.register(_Collected(families))
    try:
        encode, media_type = choose_encoder(accept)
    except (ValueError, TypeError):  # a version in the header that is none
        encode, media_type = generate_latest, CONTENT_TYPE_LATEST
    return encode(registry), media_type


def _registry() -> CollectorRegistry:
    """An empty registry with what the process itself takes: memory, time, files."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return registry
