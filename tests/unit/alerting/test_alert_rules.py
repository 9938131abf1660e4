"""The rules file: what it says holds, and what it cannot mean is refused by name."""

from importlib.resources import files
from pathlib import Path

import pytest

from pipelines.alerting.rules import AlertRules, load, parse
from pipelines.errors import UsageError


def test_the_packaged_file_states_the_defaults():
    assert load() == AlertRules()


def test_conf_and_the_packaged_file_are_the_same():
    conf = Path(__file__).parents[3] / "conf" / "alerts.toml"
    assert conf.read_text() == files("pipelines.alerting").joinpath("alerts.toml").read_text()


def test_what_is_left_out_keeps_its_default():
    rules = parse({"offline": {"for_s": 60}})
    assert (rules.offline.for_s, rules.offline.severity, rules.out_of_sync) == (
        60,
        "critical",
        AlertRules().out_of_sync,
    )


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"ofline": {}}, r"\[ofline\]; did you mean offline"),
        ({"offline": {"for": 3}}, "offline.for is not known; did you mean for_s"),
        ({"offline": {"for_s": -1}}, "offline.for_s is -1"),
        ({"offline": {"for_s": "5m"}}, "offline.for_s is '5m'; it must be a whole number of seconds"),
        ({"offline": {"severity": "loud"}}, "severity is 'loud'; it must be one of info, warning, critical"),
        ({"offline": {"enabled": 1}}, "offline.enabled is 1; it must be true or false"),
        ({"offline": 300}, r"offline is 300; write a section \[offline\]"),
        ({"job_behind": {"intervals": 0}}, "job_behind.intervals is 0; it must be a whole number, 1 or more"),
        ({"gap": {"kinds": ["hole"]}}, "gap.kinds is .*hole.*; it must be a list out of gap, late"),
        ({"history": {"silver_s": 600}}, "history.silver_s is 600; it must exceed every rule"),
    ],
)
def test_a_bad_rule_is_named(sections, words):
    with pytest.raises(UsageError, match=words):
        parse(sections)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        load(tmp_path / "none.toml")
