"""Records that still wait at a watcher's newest round, which `run` has not read: held back once they wait 10 s."""

from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from pipelines.verdict import waits
from pipelines.verdict.waits import goes_on
from schemas import replication_events
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import PLACE, put
from tests.unit.verdict.test_unheard import SOUND, said

WAITING = SOUND | {
    "leader_id": 1, "leader_epoch": 4, "hw": 100, "leader_leo": 150, "stalled_ms": 5_000, "holding_replicas": [2],
}  # fmt: skip
"""As of the last report of broker 1 that `run` has read, at 100 s; the watcher's last is of 105 s."""
LEADER = {"event_type": "sample", "broker_id": 1, "leader_id": 1, "leader_epoch": 4, "hw": 100, "leo": 170}
READ_TO = at(100)
HOLDER = LEADER | {"broker_id": 2, "hw": None, "leo": 100, "leader_epoch": None}


@pytest.mark.parametrize(
    ("told", "waits"),
    [
        ([], True),
        ([LEADER, HOLDER], True),
        ([LEADER | {"hw": 130}], False),
        ([LEADER | {"hw": None}], False),
        ([LEADER | {"leader_epoch": 5}], False),
        ([HOLDER | {"leo": 101}], False),
        ([HOLDER | {"broker_id": 3, "leo": 170}], True),
        ([LEADER | {"event_type": "isr"}], False),
        ([LEADER | {"leader_epoch": None}], False),
    ],
    ids=[
        "nothing",
        "grows",
        "moved",
        "no HW",
        "another epoch",
        "holder goes on",
        "another goes on",
        "another ISR",
        "no epoch",
    ],
)
def test_a_record_waits_until_a_later_row_says_more_than_that_others_came(told, waits):
    assert goes_on(WAITING, told) is waits


def test_a_follower_that_fetched_again_may_have_been_cleared():
    assert not goes_on(WAITING, [HOLDER | {"leo": None}])


def held_back(tmp_path, *rows, last_reported_ts=READ_TO, **values):
    for row in rows:
        known = PLACE | row | {"ts": at(row.get("ts", 105)), "source_id": "watch/main/broker-1", "level": 1}
        put(tmp_path / "lake", replication_events, known | {"source_epoch": 0, "source_seq": 1, "seq": 1})
    lines = said(tmp_path, {}, places=[WAITING | values], last_reported_ts=last_reported_ts)
    return [line for line in lines if line.startswith("HELD BACK")]


def test_a_wait_that_goes_on_at_a_round_which_run_has_not_read_is_as_long_as_it_is(tmp_path):
    assert held_back(tmp_path) == [
        "HELD BACK: broker 2 holds back 1 partition, the longest for 10 s, as of 5 s ago at most"
    ]


def test_a_wait_that_the_newest_round_ends_is_none(tmp_path):
    assert held_back(tmp_path, LEADER | {"hw": 150}) == []


def test_rows_that_run_has_read_end_no_wait(tmp_path):
    assert held_back(tmp_path, LEADER | {"hw": 90, "ts": 100})


def test_a_row_that_run_has_read_and_not_applied_ends_a_wait(tmp_path):
    """It waits for the earliest source, while the last report of its leader is later: a healthy broker was blamed."""
    known = {"last_reported_ts": at(103), "stalled_ms": 9_000}
    assert held_back(tmp_path / "none", **known)
    assert held_back(tmp_path, LEADER | {"hw": 150, "ts": 102}, **known) == []


def test_nobody_is_blamed_where_run_knew_of_nobody(tmp_path):
    assert held_back(tmp_path, holding_replicas=[]) == []


def test_a_wait_that_is_still_shorter_is_none(tmp_path):
    assert held_back(tmp_path, stalled_ms=4_000) == []


def test_of_more_partitions_than_are_looked_at_what_run_has_read_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(waits, "LOOKED_AT", 0)
    assert held_back(tmp_path) == []


@pytest.mark.parametrize(("partitions", "brokers", "told"), [(7, 7, 1), (6, 7, 1), (8, 7, 0)])
def test_partitions_of_a_later_batch_than_the_brokers_wait_as_they_say(
    tmp_path, monkeypatch, partitions, brokers, told
):
    """`run` commits one table after the other: their ages would be added that are of the batch before."""
    batches = {"gold/partition_health": partitions, "gold/brokers": brokers}
    monkeypatch.setattr(waits, "reconstruction", lambda lake: SimpleNamespace(query="q"))
    monkeypatch.setattr(
        DeltaTable, "transaction_version", lambda self, query: batches["/".join(self.table_uri.split("/")[-3:-1])]
    )
    assert len(held_back(tmp_path)) == told
