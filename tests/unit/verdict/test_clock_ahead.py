"""A broker whose clock is ahead of the others': its time is nobody's present, and it is named."""

import pytest

from pipelines.alerting.evaluate import evaluate
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.verdict import Limits, sources, verdict
from pipelines.verdict.collect import survey
from schemas import brokers, partition_hw
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import freeze, health, no_counts, progress, put
from tests.unit.verdict.test_silent_sources import reported

AHEAD = 600
SECOND = "broker-2/server.log"


@pytest.fixture
def lake(tmp_path):
    """Under min ISR since half a second before NOON; the clock of broker 2 is ten minutes ahead."""
    place = str(tmp_path / "lake")
    reported(place, progress(0), progress(AHEAD, SECOND) | {"broker_id": 2})
    put(place, partition_hw, freeze(-0.5))
    health(place, 0)
    put(place, brokers, no_counts("c", 1, ts=at(AHEAD)), no_counts("c", 2, ts=at(AHEAD)))
    return place


def judge(lake, seconds):
    sources._seen.clear()
    (record,) = survey(Lake(lake), Filter(), Limits().since, Limits(), at(seconds)).records
    return record.judged_to, verdict(record, Limits(), at(seconds)).judged.text


@pytest.mark.parametrize("evaluated", [False, True])
def test_judged_up_to_comes_from_no_clock_that_is_ahead(lake, evaluated):
    if evaluated:
        evaluate(lake, now=at(0.2))
    to, said = judge(lake, 0.2)
    assert to == at(0)
    assert "the clock of broker 2 is at least 599 s ahead" in said


def test_no_state_has_lasted_by_a_clock_that_is_ahead(lake):
    assert evaluate(lake, now=at(0.2)) == []
    reported(lake, progress(310, number=1), progress(310 + AHEAD, SECOND, number=1) | {"broker_id": 2})
    put(lake, brokers, no_counts("c", 1, ts=at(310 + AHEAD)), mode="overwrite")
    assert [one.rule for one in evaluate(lake, now=at(310.2))] == ["under_min_isr"]


def test_where_all_tell_later_times_it_is_the_clock_of_this_host(lake):
    reported(lake, progress(AHEAD, number=1))
    to, said = judge(lake, 0.2)
    assert to == at(AHEAD)
    assert "the clock of broker" not in said


def test_who_told_nothing_for_long_shows_no_clock_to_be_ahead(tmp_path):
    """The host's clock is behind, and one broker has been down since."""
    place = str(tmp_path / "lake")
    reported(place, progress(-7200), progress(AHEAD, SECOND) | {"broker_id": 2})
    health(place, AHEAD)
    assert judge(place, 0)[0] == at(AHEAD)
