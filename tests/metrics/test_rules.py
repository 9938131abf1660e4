"""The Prometheus rules of conf/prometheus by promtool: well formed, and they fire when they should, not before."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pipelines.alerting.rules import RULES as ALERT_RULES
from tests.metrics.servers import RULES
from tests.unit.metrics.scrape import exporter
from tests.unit.project.lakes import health, sound

TESTS = Path(__file__).with_name("rules_test.yml")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool of Debian's package prometheus"
)


def promtool(*words):
    done = subprocess.run(["promtool", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_promtool_accepts_the_rules():
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


@needs_promtool
def test_each_alert_fires_when_it_should(tmp_path):
    (tmp_path / "tests.yml").write_text(TESTS.read_text().replace("RULES]", f"{RULES}]"))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "tests.yml"))


def test_every_alert_has_a_test_that_it_fires():
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    fired = re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", TESTS.read_text())
    assert alerts
    assert alerts == set(fired)


def test_the_rules_name_metrics_and_alert_rules_that_there_are(tmp_path):
    sound(str(tmp_path), health("orders", 0))
    known = {family.name for family in exporter(tmp_path).metrics()}
    named = set(re.findall(r"(?<![:\w])hwmark_\w+", RULES.read_text()))
    assert {name for name in named if re.sub("_(total|bucket)$", "", name) not in known} == set()
    assert set(re.findall(r"rule: (\w+)", RULES.read_text())) <= set(ALERT_RULES)
