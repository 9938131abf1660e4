"""The answers of the views as JSON, and the specs of the charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from pipelines.charts.style import Spec
from pipelines.charts.svg import svg
from pipelines.verdict.known import UnknownNameError
from pipelines.web.answers import alert, alerts, broker, overview, partition, partitions, quality
from pipelines.web.answers.alert import AlertAnswer
from pipelines.web.answers.alerts import Alerts
from pipelines.web.answers.broker import BrokerAnswer
from pipelines.web.answers.common import Sentence
from pipelines.web.answers.overview import Overview
from pipelines.web.answers.partition import PartitionAnswer
from pipelines.web.answers.partitions import Partitions
from pipelines.web.answers.quality import Quality
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
    View("overview", Overview, overview.overview, "Clusters, incidents, who holds back whom, sources"),
    View("partitions", Partitions, partitions.partitions, "Partitions, the worst first"),
    View("partition", PartitionAnswer, partition.partition, "One partition, its replicas and what happened to it"),
    View("broker", BrokerAnswer, broker.broker, "One broker, or all of a cluster"),
    View("alerts", Alerts, alerts.alerts, "Alerts, what fires first"),
    View("alert", AlertAnswer, alert.alert, "One alert, how its loss came about, what was sent of it"),
    View("quality", Quality, quality.quality, "Expectations, gaps in telemetry, quarantine"),
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
