"""Panels as data to dashboards as Grafana imports them, by Grafana's own builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    BigValueTextMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    VariableHide,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from pipelines.metrics.dashboards.panels import Board, Panel, Query

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT = 8


def document(board: Board) -> str:
    """The JSON of one dashboard."""
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.words)
        .tags(["hwmark", "kafka"])
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("utc")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_clusters())
    )
    for title, panels in board.rows.items():
        built = built.with_row(dashboard.Row(title))
        for panel in panels:
            built = built.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(built.build()) + "\n"


def _clusters() -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable("cluster")
        .label("Cluster")
        .query("label_values(hwmark_cluster_state, cluster)")
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .hide(VariableHide.DONT_HIDE)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(panel: Panel) -> Any:
    kinds: dict[str, Callable[[], Any]] = {"table": _table, "number": _number, "lines": _lines, "stack": _stack}
    built = (
        kinds[panel.kind]()
        .title(panel.title)
        .description(panel.words)
        .datasource(SOURCE)
        .unit(panel.unit)
        .no_value(panel.none)
        .span(panel.width)
        .height(HEIGHT)
    )
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        built = built.with_target(
            _target(query, letter, now=panel.kind in ("table", "number"), rows=panel.kind == "table")
        )
    return built


def _target(query: Query, letter: str, *, now: bool, rows: bool) -> prometheus.Dataquery:
    """`now`: only its present value; `rows`: its labels as columns."""
    target = prometheus.Dataquery().expr(query.expression).ref_id(letter).legend_format(query.legend)
    target = target.instant() if now else target.range()
    return target.format(PromQueryFormat.TABLE if rows else PromQueryFormat.TIME_SERIES)


def _lines() -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return timeseries.Panel().legend(legend.show_legend(True)).min(0)


def _stack() -> timeseries.Panel:
    return _lines().stacking(common.StackingConfig().mode(StackingMode.NORMAL)).fill_opacity(40)


def _number() -> stat.Panel:
    return stat.Panel().graph_mode(BigValueGraphMode.NONE).text_mode(BigValueTextMode.VALUE_AND_NAME)


def _table() -> table.Panel:
    """A table without the columns that every series of one scrape shares."""
    shared = dict.fromkeys(("Time", "__name__", "instance", "job"), True)
    organize = DataTransformerConfig(id_val="organize", options={"excludeByName": shared})
    return table.Panel().with_transformation(organize)
