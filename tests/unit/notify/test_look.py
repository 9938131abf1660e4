"""What keeps the watchdog from being sent: anything that is not judged, or not fresh."""

from datetime import timedelta

import pytest

from pipelines.notify.look import not_fresh
from pipelines.verdict import Backlog, ClusterRecord, Limits, Source, verdict
from tests.unit.alerting.evidence_rows import at

NOW = at(1000)
FRESH = ClusterRecord("prod", judged_from=at(0), judged_to=at(990), sources=(Source("broker-1/x", 1, at(990)),))


def changed(**values):
    return ClusterRecord(**{**vars(FRESH), **values})


@pytest.mark.parametrize(
    ("record", "why"),
    [
        pytest.param(FRESH, None, id="judged and fresh"),
        pytest.param(changed(backlog=Backlog(5, at(990))), None, id="something to read, not for long"),
        pytest.param(changed(backlog=Backlog(5, at(0))), "prod: NOT JUDGED: `hwmark run` has not", id="job behind"),
        pytest.param(
            changed(reconstructed=False, judged_to=None, backlog=Backlog(5, at(990))),
            "prod: NOT JUDGED: nothing of it was ever reconstructed", id="never read",
        ),
        pytest.param(changed(judged_to=None), "prod: judged, but nothing was reported of any", id="no present"),
        pytest.param(
            changed(sources=(*FRESH.sources, Source("broker-2/x", 2, at(0)))),
            "prod: 1 source of broker 2 silent since", id="a silent source",
        ),
        pytest.param(changed(closed=at(995)), None, id="a cluster that was closed"),
    ],
)  # fmt: skip
def test_the_watchdog_is_withheld_where_anything_is_not_judged_or_not_fresh(record, why):
    said = list(not_fresh([verdict(FRESH, Limits(), NOW), verdict(record, Limits(), NOW)]))
    assert len(said) == (0 if why is None else 1)
    assert why is None or said[0].startswith(why)


def test_a_lake_without_a_cluster_is_not_judged():
    assert list(not_fresh([])) == ["the lake holds no cluster: nothing is judged"]


def test_silence_counts_from_the_limit_of_its_alert():
    quiet = changed(sources=(Source("broker-1/x", 1, NOW - timedelta(seconds=61)),))
    limits = Limits(stale_after_s=60)
    assert len(list(not_fresh([verdict(quiet, limits, NOW)]))) == 1
