"""What keeps the watchdog from being sent: anything that is not judged, or not fresh."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pipelines.lake.lake import Lake
from pipelines.notify.look import look, not_fresh
from pipelines.verdict import Backlog, ClusterRecord, Limits, Source, verdict
from pipelines.verdict.records import State
from schemas import downtimes, notes, replication_events
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import health, progress, put

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
            "prod: NOT JUDGED: nothing of it is reconstructed", id="never read",
        ),
        pytest.param(changed(judged_to=None), "prod: nothing has been reported of any partition yet", id="no present"),
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


def test_a_silent_source_that_a_person_has_dealt_with_withholds_nothing(tmp_path):
    lake = str(tmp_path)
    health(lake, 900)
    put(lake, replication_events, progress(0) | {"topic": None}, progress(899, "broker-2/x") | {"topic": None})
    limits = Limits()

    def seen(seconds):
        return look(Lake(lake), limits, "", 0, at(seconds))

    assert [why[:36] for why in seen(900).wrong] == ["c: 1 source of broker 1 silent since"]
    (alert,) = seen(905).episodes
    said = {
        "cluster": "c",
        "incident_id": alert.first.alert_id,
        "handled": True,
        "text": "moved",
        "written_at": at(910),
    }
    put(lake, notes, said)
    assert seen(920).wrong == ()
    later = {"source_seq": 5, "seq": 5, "topic": None}
    put(lake, replication_events, progress(950) | later)
    assert seen(960).wrong == ()
    assert "2 sources" in seen(2000).wrong[0], "it has reported since, and is silent anew"


def planned(lake, brokers):
    row = {"cluster": "c", "downtime_id": "d", "reason": "kernel", "begins": at(-60), "until": at(1_000)}
    put(lake, downtimes, row | {"brokers": brokers, "written_at": at(-60)})


def test_a_source_that_is_silent_by_a_downtime_withholds_nothing(tmp_path):
    """The dead man's switch paged in a planned downtime, as the broker's log said nothing."""
    lake = str(tmp_path)
    health(lake, 900)
    put(lake, replication_events, progress(0) | {"topic": None}, progress(899, "broker-2/x") | {"topic": None})
    planned(lake, [1])
    assert look(Lake(lake), Limits(), "", 0, at(900)).wrong == ()
    assert [why[:25] for why in look(Lake(lake), Limits(), "", 0, at(1_001)).wrong] == ["c: 1 source of broker 1 s"]


def test_watchers_that_see_nothing_by_a_downtime_of_all_brokers_withhold_nothing(tmp_path):
    lake = str(tmp_path)
    health(lake, 0)
    watched = progress(0, "watch/main/broker-1", "holds 10 s")
    put(lake, replication_events, watched | {"topic": None, "level": 1})
    planned(lake, None)
    assert look(Lake(lake), Limits(), "", 0, at(200)).wrong == ()
    assert [why[:13] for why in look(Lake(lake), Limits(), "", 0, at(1_001)).wrong] == ["c: NOT JUDGED"]


@pytest.mark.parametrize(("seconds", "sentences"), [(59, 0), (60, 1)])
def test_a_watcher_that_has_paused_briefly_withholds_nothing(seconds, sentences):
    watched = Source("watch/main/broker-1", 1, NOW - timedelta(seconds=seconds), 1, 10)
    record = replace(FRESH, sources=(watched,))
    found = verdict(record, Limits(), NOW)
    assert found.judged.state is State.NOT_JUDGED
    assert len(list(not_fresh([found]))) == sentences
