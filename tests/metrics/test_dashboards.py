"""The dashboards of conf/grafana ask for metrics and labels that there are, in panels that do not overlap."""

import json
import re

import pytest

from tests.metrics.dashboards import BROKERS, CLUSTERS, FOLDER, expressions, panels
from tests.unit.metrics.scrape import exporter, sound

OF_OTHERS = {"instance", "job", "le", "quantile"}
"""Labels that Prometheus and its kinds of metrics bring."""
EACH = pytest.mark.parametrize("path", [CLUSTERS, BROKERS], ids=lambda path: path.name)


def labels_by_name(lake):
    """The labels of each metric, by its name in a query."""
    sound(str(lake))
    found = {}
    for family in exporter(lake).metrics():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        found |= {family.name + ending: set(family._labelnames) for ending in endings}
    return found


def test_no_other_dashboard_lies_there():
    assert set(FOLDER.iterdir()) == {CLUSTERS, BROKERS}


@EACH
def test_every_query_asks_for_metrics_and_labels_that_there_are(path, tmp_path):
    known = labels_by_name(tmp_path / "lake")
    for expression in [expression for panel in panels(path) for expression in expressions(panel)]:
        names = set(re.findall(r"hwmark_\w+", expression))
        assert names - known.keys() == set(), expression
        grouped = re.findall(r"\b(?:by|on) \((.*?)\)", expression)
        labels = {label.strip() for group in grouped for label in group.split(",")}
        assert labels - OF_OTHERS - set().union(*(known[name] for name in names)) == set(), expression
        for name, matchers in re.findall(r"(hwmark_\w+)\{(.*?)\}", expression):
            assert set(re.findall(r"(\w+)[=!]~?\"", matchers)) - known[name] - OF_OTHERS == set(), expression


@EACH
def test_every_query_is_of_the_clusters_that_are_chosen(path):
    """Those without the label `cluster` are about hwmark itself."""
    of_itself = r"hwmark_(lake|run|check|expectation|build)_"
    for expression in [expression for panel in panels(path) for expression in expressions(panel)]:
        asked = re.sub(r" unless on \(instance, cluster\) hwmark_cluster_ended == 1", "", expression)
        for name, rest in re.findall(r"(hwmark_\w+)(.{0,20})", asked):
            assert rest.startswith('{cluster=~"$cluster"') or re.match(of_itself, name), expression


@EACH
def test_panels_do_not_overlap(path):
    grids = [panel["gridPos"] for panel in json.loads(path.read_text())["panels"]]
    cells = [(x, y) for g in grids for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@EACH
def test_a_dashboard_is_imported_under_the_name_of_its_file(path):
    board = json.loads(path.read_text())
    assert board["uid"] == path.stem
    assert {panel["datasource"]["uid"] for panel in panels(path)} == {"${datasource}"}
