"""The answers of the views as JSON, and the specs of the charts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from pipelines.charts.style import Spec
from pipelines.charts.svg import svg
from pipelines.printable import spreadsheet_text
from pipelines.verdict.known import UnknownNameError
from pipelines.web.answers import broker, incident, incidents, overview, partition, partitions, quality, topic
from pipelines.web.answers.broker import BrokerAnswer, Brokers
from pipelines.web.answers.common import Sentence
from pipelines.web.answers.incident import IncidentAnswer
from pipelines.web.answers.incidents import Incidents
from pipelines.web.answers.overview import Overview
from pipelines.web.answers.partition import PartitionAnswer
from pipelines.web.answers.partitions import Partitions
from pipelines.web.answers.quality import Quality
from pipelines.web.answers.topic import TopicAnswer, Topics
from pipelines.web.asked import Asked
from pipelines.web.parameters import Question, Source, timing
from pipelines.web.snapshot import Reader

router = APIRouter()
NOT_STORED = {"Cache-Control": "no-store"}


class View(NamedTuple):
    """One answer: the last part of its path, its type, what makes it, and what it holds in one line."""

    name: str
    model: Any
    answer: Callable[[Reader, Asked], Any]
    summary: str


VIEWS = (
    View("verdict", list[Sentence], overview.all_sentences, "Every sentence of the verdicts, the worst cluster first"),
    View("overview", Overview, overview.overview, "One cluster as it is and was in the last hour, or all clusters"),
    View("incidents", Incidents, incidents.incident_list, "Incidents, and alerts in none, the open ones first"),
    View("incident", IncidentAnswer, incident.incident_view, "One incident or alert, and how it came"),
    View("brokers", Brokers, broker.broker_list, "Brokers, those that do not answer first"),
    View("broker", BrokerAnswer, broker.broker, "One broker, its history and its partitions"),
    View("topics", Topics, topic.topics, "Topics, the worst first"),
    View("topic", TopicAnswer, topic.topic, "One topic and its partitions"),
    View("partitions", Partitions, partitions.partitions, "Partitions, the worst first"),
    View("partition", PartitionAnswer, partition.partition, "One partition, its replicas and what happened to it"),
    View("quality", Quality, quality.quality, "Sources, coverage, expectations, gaps in telemetry, quarantine"),
)


def _add(view: View) -> None:
    def get(reader: Source, asked: Question, response: Response) -> Any:
        found = view.answer(reader, asked)
        response.headers.update(NOT_STORED | {"Server-Timing": timing(asked)})
        return found

    router.add_api_route(
        f"/api/v1/{view.name}", get, response_model=view.model, summary=view.summary, name=f"get_{view.name}"
    )


for _view in VIEWS:
    _add(_view)


@router.get("/incident.csv", include_in_schema=False)
def get_partitions(reader: Source, asked: Question) -> Response:
    """The partitions of an incident, all of them, as CSV."""
    found = incident.incident_view(reader, asked, every=True).partitions
    out = io.StringIO()
    out.write(",".join(field.name for field in fields(incident.Affected)) + "\n")
    table = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for one in found:
        table.writerow(spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in vars(one).values())
    return Response(out.getvalue(), media_type="text/csv; charset=utf-8", headers=NOT_STORED)


@router.get("/charts/{view}.{form}", include_in_schema=False)
def get_chart(view: str, form: str, reader: Source, asked: Question) -> Response:
    """The chart of a view as Vega-Lite (json) or drawn (svg)."""
    charts: dict[str, Callable[[Reader, Asked], Spec | None]] = {"partition": partition.chart, "broker": broker.chart}
    if view not in charts or form not in ("json", "svg"):
        raise UnknownNameError(f"there is no chart {view}.{form}; partition and broker have one, as json and svg")
    spec = charts[view](reader, asked)
    if spec is None and form == "json":  # for a script a 404 would be an error of the page's
        return Response(status_code=204, headers=NOT_STORED)
    if spec is None:
        raise UnknownNameError("nothing was reported in this time; a longer one may have something")
    if form == "json":
        return JSONResponse(spec, headers=NOT_STORED)
    drawn = reader.answer(("svg", view, asked), lambda _: svg(spec, view, f"{view} over time"))
    return Response(drawn, media_type="image/svg+xml", headers=NOT_STORED)
