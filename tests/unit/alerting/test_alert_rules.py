"""The rules file: what it says holds, and what it cannot mean is refused by name."""

import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from pipelines.alerting.rules import AlertRules, load, parse
from pipelines.errors import UsageError

CONF = Path(__file__).parents[3] / "conf" / "alerts.toml"


def test_conf_states_every_default():
    assert load(CONF) == load() == AlertRules()
    stated, rules = tomllib.loads(CONF.read_text()), AlertRules()
    common = {"controlled_restart": rules.controlled_restart, "history": rules.history}
    declared = {name: asdict(section) for name, section in {**rules.settings, **common}.items()}
    assert {name: set(section) for name, section in stated.items()} == {n: set(s) for n, s in declared.items()}
    assert list(stated) == list(declared)


def test_what_is_left_out_keeps_its_default():
    rules = parse({"offline": {"for_s": 60}})
    offline, others = rules.settings["offline"], AlertRules().settings
    assert (offline.for_s, offline.severity) == (60, "critical")
    assert {**rules.settings, "offline": None} == {**others, "offline": None}


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
        ({"gap": {"kinds": "gap"}}, "gap.kinds is 'gap'; it must be a list out of gap, late"),
        ({"gap": {"kinds": [["gap"]]}}, r"gap.kinds is \[\['gap'\]\]; it must be a list out of gap, late"),
        ({"controlled_restart": {"limit": 3}}, "controlled_restart.limit is not known; did you mean limit_s"),
        ({"history": {"silver_s": 2.5}}, "history.silver_s is 2.5; it must be a whole number of seconds, 0 or more"),
        ({"history": {"silver_s": 600}}, "history.silver_s is 600; it must exceed every rule"),
    ],
)
def test_a_bad_rule_is_named(sections, words):
    with pytest.raises(UsageError, match=words):
        parse(sections)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        load(tmp_path / "none.toml")
