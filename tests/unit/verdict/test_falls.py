"""Falls of a HW as a lake has them, grouped by what they came of: each thing once."""

import json
from dataclasses import replace

import pytest

from pipelines.alerting.evaluate import evaluate
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.verdict import Limits, verdict
from pipelines.verdict.collect import survey
from pipelines.verdict.falls import falls, not_told, with_handled
from pipelines.verdict.losses import NOT_EXCLUDED, may_be_lost, not_excluded
from pipelines.verdict.records import FallGroup
from schemas import hw_regressions
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import LOSS, health, put

OPEN = {
    "cluster": "c", "topic": "clicks", "class": "loss_not_excluded", "severity": "info", "proof": "unproven",
    "leader_id": 2, "revision": 1, "evidence": json.dumps({"missing": ["a HW"]}),
}  # fmt: skip
MEASURED = {"proof": "bounded", "class": "unclean_loss", "severity": "critical", "lost_from": 1, "lost_to": 3}


@pytest.fixture
def found(tmp_path):
    def groups(*rows):
        lake = str(tmp_path / "lake")
        rows = [OPEN | row | {"ts": at(k), "regression_id": f"r{k}"} for k, row in enumerate(rows)]
        put(lake, hw_regressions, *rows)
        return falls(Lake(lake), Filter())["c"]

    return groups


def test_a_list_names_one_thing_once(found):
    """It said "clicks-0, clicks-0, clicks-1" and "in 2 partitions" of elections after different leaders."""
    rows = [{"partition": p, "leader_id_before": before} for p in (0, 0, 1, 1) for before in (1, 3)]
    (group,) = found(*rows).groups
    assert (group.partitions, group.examples, group.leader_id_before) == (2, ("clicks-0", "clicks-1"), None)
    assert "in 2 partitions (clicks-0, clicks-1)" in not_excluded([group])


@pytest.mark.parametrize(("before", "named"), [((1, 1), 1), ((1, None), None), ((None, None), None)])
def test_who_led_before_is_named_where_it_is_the_same_of_all(found, before, named):
    (group,) = found(*({"partition": 0, "leader_id_before": one} for one in before)).groups
    assert group.leader_id_before == named


def test_one_change_of_leader_is_proven_only_where_every_loss_is(found):
    whole = MEASURED | {"partition": 0, "proof": "proven", "lost_records": 2}
    (group,) = found(whole, MEASURED | {"partition": 1, "lost_records": 2}).groups
    assert (group.proof, group.partitions, group.lost_records) == ("bounded", 2, 4)


def test_an_election_that_may_have_been_unclean_warns_and_is_said_once(found):
    """Nothing bounds what is lost: it is no amount that may be gone, and the sentence is that of a start not judged."""
    fallen = found(OPEN | {"partition": 0, "severity": "warning"}, OPEN | {"partition": 1})
    assert fallen.partitions == {}
    assert sorted(group.severity for group in fallen.groups) == ["info", "warning"]
    (warning,) = [group for group in fallen.groups if group.severity == "warning"]
    assert may_be_lost([warning], 0) == not_excluded([warning])
    lost = found(MEASURED | {"partition": 2, "severity": "warning", "lost_records": 2}).groups[-1]
    assert "in 1 partition, unproven: " in (both := may_be_lost([lost, warning], 1))
    assert "missing: a HW" in both


def test_a_loss_that_fires_and_whose_rows_are_gone_is_in_the_verdict(tmp_path):
    """It said that no loss is known, beside the alert."""
    lake, limits = str(tmp_path / "lake"), Limits()
    put(lake, hw_regressions, LOSS | {"hw_before": 9, "hw_after": 5})
    health(lake, 10)
    evaluate(lake, now=at(10))

    def history():
        (record,) = survey(Lake(lake), Filter(), limits.since, limits, at(20)).records
        return [line.text for line in verdict(record, limits, at(20)).lines if line.part == "history"]

    (known,) = history()
    slight = {"class": "loss_not_excluded", "severity": "info", "proof": "unproven", "lost_records": None}
    put(lake, hw_regressions, LOSS | slight | {"partition": 1, "regression_id": "s"}, mode="overwrite")
    gone, other = history()
    assert other.startswith("LOSS NOT EXCLUDED: "), "what happened at that time beside it is no row of it"
    what = known.partition(" (from ")[0]
    told = f"{what}; told at 2026-11-21 12:00:10 UTC, silver has no row of it any more"
    assert (what[:31], gone.partition(" (from ")[0]) == ("LOST: 4 offsets in 1 partition:", told)


LOST = FallGroup("unclean_loss", "critical", "bounded", 2, 1, 1, at(10), at(10), 180)
HANDLED = {"rule": "loss", "first_ts": at(10), "last_ts": at(20), "state": "resolved", "handled": True}
HANDLED |= {"falls": "1", "offsets": "180"}

ELECTED = replace(LOST, name=NOT_EXCLUDED, severity="warning", lost_records=None)
"""An election that is not known to be clean: its rule is `unproven_loss`, and a note never marked it as handled."""


@pytest.mark.parametrize(
    ("groups", "told", "handled"),
    [
        ([LOST], [HANDLED], [True]),
        ([LOST, replace(LOST, leader_id=3, first=at(15), last=at(15))], [HANDLED], [False, False]),
        ([replace(LOST, lost_records=181)], [HANDLED], [False]),
        ([LOST], [HANDLED, HANDLED | {"handled": False, "state": "firing"}], [False]),
        ([LOST], [HANDLED | {"rule": "unproven_loss"}], [False]),
        ([LOST, replace(LOST, first=at(30), last=at(30))], [HANDLED], [True, False]),
        ([replace(LOST, name=NOT_EXCLUDED, severity="info", lost_records=None)],
         [HANDLED | {"rule": "loss_not_excluded", "offsets": None}], [True]),
        ([ELECTED], [HANDLED | {"rule": "unproven_loss", "offsets": None}], [True]),
        ([ELECTED], [HANDLED | {"rule": "loss_not_excluded", "offsets": None}], [False]),
    ],
    ids=["its own", "another one meanwhile", "more than was told", "one that fires meanwhile", "another rule",
         "a later one", "without a range", "an election that was unclean", "of others, that were clean"],
)  # fmt: skip
def test_a_note_handles_what_its_alert_told_and_no_other_loss_of_that_time(groups, told, handled):
    """A loss on other partitions within the time of an alert that was handled stood behind the present, as handled."""
    assert [one.handled for one in with_handled(groups, told)] == handled


TWICE = replace(LOST, name=NOT_EXCLUDED, severity="info", lost_records=None, last=at(40))
FIRST = HANDLED | {"rule": "loss_not_excluded", "offsets": None}
SECOND = FIRST | {"first_ts": at(40), "last_ts": at(50)}


@pytest.mark.parametrize(
    ("told", "falls", "handled"),
    [
        ([FIRST, SECOND], [10, 40], True),
        ([FIRST], [10, 40], False),
        ([FIRST, SECOND], [10, 30, 40], False),
        ([FIRST, SECOND], [10, 10, 40], False),
        ([FIRST, SECOND, SECOND | {"first_ts": at(45), "handled": False, "state": "firing"}], [10, 40], True),
        ([FIRST, SECOND, SECOND | {"handled": False, "state": "firing"}], [10, 40], False),
    ],
    ids=["both", "one of them", "another between", "more than was told", "a later one fires", "one fires again"],
)
def test_falls_of_one_leader_that_several_alerts_told_are_handled_once_all_are(told, falls, handled):
    """Two resumptions of one broker, both noted as handled, stood above all as LOSS NOT EXCLUDED."""
    (group,) = with_handled([TWICE], told, {"loss_not_excluded": [at(ts) for ts in falls]})
    assert group.handled == handled


def test_a_note_handles_no_second_loss_within_its_alert_though_each_alone_is_no_more_than_it_told():
    other = replace(LOST, leader_id=3, first=at(15), last=at(15), lost_records=0)
    found = with_handled([LOST, other], [HANDLED], {"loss": [at(10), at(15)]})
    assert [one.handled for one in found] == [False, False]


TOLD = HANDLED | {"handled": False, "falls": "2"}


@pytest.mark.parametrize(
    ("told", "first"),
    [
        ([], 10),
        ([TOLD], 500),
        ([TOLD | {"falls": "1"}], 10),
        ([TOLD | {"falls": None}], 500),
        ([TOLD | {"rule": "loss_not_excluded"}], 10),
        ([TOLD, TOLD | {"first_ts": at(12), "state": "firing"}], 15),
        ([TOLD | {"last_ts": at(12), "falls": "1"}], 15),
    ],
    ids=["never", "both", "one of them", "by a version that did not count", "by another rule, which left others open",
         "and one fires", "the first"],
)  # fmt: skip
def test_a_loss_is_looked_for_until_its_own_alert_has_told_it(told, first):
    """One that was never told, or fires, passed for told if any alert on a loss of that time was over."""
    times = {("c", "loss"): [at(10), at(15)], ("c", "unproven_loss"): [at(600)], ("d", "loss"): [at(1)]}
    assert not_told({"c": told}, times, {"c": at(500), "e": at(0)}) == {"c": at(first), "e": at(0)}
