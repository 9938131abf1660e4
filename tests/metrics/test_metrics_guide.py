"""docs/metrics.md lists the metrics that there are, each with its labels and what it is."""

import re
from pathlib import Path

from tests.metrics.dashboards import BROKERS, CLUSTERS, expressions, panels
from tests.unit.metrics.scrape import exporter, sound

GUIDE = Path(__file__).parents[2] / "docs/metrics.md"


def families(lake):
    sound(str(lake))
    return list(exporter(lake).metrics())


def test_the_guide_lists_every_metric(tmp_path):
    rows = re.findall(r"^\| `(hwmark_\w+)` \| (.*?) \| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    named = {f.name + "_total" * (f.type == "counter"): f for f in families(tmp_path)}
    given = [(name, ", ".join(family._labelnames), family.documentation) for name, family in named.items()]
    assert rows == given


def test_every_metric_is_on_a_dashboard_or_in_a_rule(tmp_path):
    shown = " ".join(expr for path in (CLUSTERS, BROKERS) for panel in panels(path) for expr in expressions(panel))
    rules = (GUIDE.parents[1] / "conf/prometheus/hwmark.rules.yml").read_text()
    named = set(re.findall(r"hwmark_\w+", shown + rules))
    names = {family.name for family in families(tmp_path)}
    assert names - {re.sub("_(total|bucket)$", "", name) for name in named} == {
        "hwmark_sources", "hwmark_unread_since_timestamp_seconds",
    }  # fmt: skip
