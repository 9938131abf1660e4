"""The dashboards of conf/grafana, as Grafana reads them."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "conf/grafana"
CLUSTERS, BROKERS = FOLDER / "hwmark-clusters.json", FOLDER / "hwmark-brokers.json"


def panels(path):
    """The panels with queries of one dashboard."""
    return [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]


def expressions(panel):
    """The queries of a panel."""
    return [target["expr"] for target in panel["targets"]]
