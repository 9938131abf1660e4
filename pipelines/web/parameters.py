"""The parameters that every view takes, as FastAPI hands them over and its OpenAPI file lists them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from pipelines.web.asked import Asked, asked_of
from pipelines.web.snapshot import Reader


def _asked(
    cluster: Annotated[str | None, Query(description="Only this cluster.")] = None,
    topic: Annotated[str | None, Query(description="Only this topic.")] = None,
    partition: Annotated[str | None, Query(description="Only this partition.")] = None,
    broker: Annotated[str | None, Query(description="Only this broker.")] = None,
    alert_id: Annotated[str | None, Query(description="The alert of the view alert.")] = None,
    incident_id: Annotated[str | None, Query(description="The incident of the view incident.")] = None,
    kind: Annotated[str | None, Query(description="Only lines of this kind in the timeline.")] = None,
    since: Annotated[
        str | None,
        Query(description="History since 15m, 2h, 3d before the present of each cluster, an ISO time, or all."),
    ] = None,
    until: Annotated[str | None, Query(description="An ISO time: history ends there, and nothing is of now.")] = None,
    q: Annotated[str | None, Query(description="Only what has this in its name.")] = None,
    page: Annotated[str | None, Query(description="Which page, from 1.")] = None,
    limit: Annotated[str | None, Query(description="Rows of a page, at most 1,000.")] = None,
    refresh: Annotated[str | None, Query(description="Whether the page looks again by itself: on or off.")] = None,
) -> Asked:
    given = {name: value for name, value in locals().items() if value is not None}
    return asked_of(given)


def _reader(request: Request) -> Reader:
    reader: Reader = request.app.state.reader
    return reader


Question = Annotated[Asked, Depends(_asked)]
Source = Annotated[Reader, Depends(_reader)]


def timing(asked: Asked) -> str:
    """The times of an answer's parts, as the header Server-Timing."""
    return ", ".join(f"{name};dur={ms:.1f}" for name, ms in asked.timings.items())
