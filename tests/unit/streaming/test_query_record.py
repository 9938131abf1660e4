"""_run/query.json: which query wrote a lake's silver, by which version, and what it cannot go on with."""

import json
from contextlib import nullcontext
from dataclasses import make_dataclass
from datetime import UTC, datetime

import pytest

from pipelines.commands.exits import WRONG_USAGE, _one_line, _status
from pipelines.lake.lake import Lake
from pipelines.replication import Rules
from pipelines.replication.rules import EDITION
from pipelines.streaming.checkpoint import query
from pipelines.streaming.checkpoint.offsets import RECORD
from pipelines.streaming.checkpoint.query import Query, StateMismatch, UnfitSettings, open_query, record, recorded
from pipelines.streaming.reconstruction import reconstruction
from pipelines.streaming.tables import create_tables
from schemas import replication_events


@pytest.fixture
def lake(tmp_path):
    place = Lake(str(tmp_path / "lake"))
    create_tables(place, 900.0, 86_400.0)
    place.create(replication_events.TABLE)
    return place


def begun(lake, **more):
    known = Query("q", 4, 2, {}, False, "arrow", **more)
    record(lake, known)
    return known


def test_a_record_says_which_version_wrote_it(lake, monkeypatch):
    monkeypatch.setattr(query, "_version", lambda _: "7.1")
    assert recorded(lake) is None
    known = begun(lake)
    assert json.loads((lake.files().open_input_stream(RECORD)).read())[query._WRITER] == "7.1"
    assert recorded(lake) == known


def test_a_version_that_knows_no_writer_names_it_in_its_refusal(lake):
    """f6b275e makes the record's keys its arguments, and Python names the first of them that it does not know."""
    begun(lake)
    found = json.loads((lake.files().open_input_stream(RECORD)).read())
    of_f6b275e = "query_id", "buckets", "shuffle_partitions", "rules", "rebuild", "source", "keys", "follows", "start"
    earlier = make_dataclass("Query", of_f6b275e)
    with pytest.raises(TypeError, match="unexpected keyword argument 'a_later_hwmark_wrote_this_lake'"):
        earlier(**found)


def test_a_record_of_a_later_version_is_refused_by_its_name(lake):
    """It was a TypeError."""
    begun(lake)
    with lake.files().open_input_stream(RECORD) as stream:
        found = json.loads(stream.read())
    lake.write_durably(RECORD, json.dumps(found | {query._WRITER: "9.3", "plans": []}).encode())
    with pytest.raises(StateMismatch, match=r"this lake was written by hwmark 9\.3: plans in its .*query\.json"):
        recorded(lake)
    new = open_query(lake, Rules(), None, 2, "arrow", rebuild=True)
    assert recorded(lake) == new


def test_a_record_without_a_version_is_read(lake):
    """Those of earlier versions have none, or have it as `hwmark`."""
    begun(lake)
    with lake.files().open_input_stream(RECORD) as stream:
        found = json.loads(stream.read())
    del found[query._WRITER]
    lake.write_durably(RECORD, json.dumps(found | {"hwmark": "0.2.0"}).encode())
    assert recorded(lake).query_id == "q"
    lake.write_durably(RECORD, json.dumps(found).encode())
    assert recorded(lake).query_id == "q"


def test_a_lake_says_up_to_when_an_earlier_edition_of_the_rules_judged_it(lake, monkeypatch):
    begun(lake)
    monkeypatch.setattr(query, "_begun", lambda *_: True)
    monkeypatch.setattr(query, "presents", lambda _: {"prod": datetime(2026, 9, 1, tzinfo=UTC)})
    assert open_query(lake, Rules(), None, 2, "arrow", rebuild=False).edition == EDITION
    assert reconstruction(lake).older == {"prod": datetime(2026, 9, 1, tzinfo=UTC)}
    monkeypatch.setattr(query, "presents", lambda _: {"prod": datetime(2026, 9, 2, tzinfo=UTC)})
    assert open_query(lake, Rules(), None, 2, "arrow", rebuild=False).older == {"prod": "2026-09-01T00:00:00+00:00"}
    assert open_query(lake, Rules(), None, 2, "arrow", rebuild=True).older == {}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"source": "delta"}, "source is delta"),
        ({"buckets": 3}, "buckets is 3"),
        ({"tasks": 3}, "shuffle_partitions is 3"),
    ],
)
def test_settings_that_do_not_fit_the_lake_are_wrong_usage(lake, monkeypatch, asked, named):
    begun(lake)
    monkeypatch.setattr(query, "_begun", lambda *_: True)
    with pytest.raises(UnfitSettings) as refused:
        open_query(
            lake, Rules(), asked.get("buckets"), asked.get("tasks", 2), asked.get("source", "arrow"), rebuild=False
        )
    assert _status(refused.value) == WRONG_USAGE
    assert _one_line(refused.value).startswith(named)
    assert not _one_line(StateMismatch("silver of lake x is not its own")).startswith("StateMismatch")


@pytest.mark.parametrize(
    ("wrote", "here", "refused"),
    [
        ("4.1.4", "4.2.1", False), ("4.2.1", "4.3.0", False), ("4.1.4", "4.3.0", False), ("4.2.1", "4.2.0", False),
        ("4.2.1", "4.1.4", True), ("4.3.0", "4.2.1", True), ("4.10.0", "4.9.0", True), ("", "4.1.4", False),
        ("4.2.1", "4.3.0-SNAPSHOT", False),
    ],
)  # fmt: skip
def test_a_checkpoint_of_a_later_spark_is_refused(lake, wrote, here, refused):
    known, said = begun(lake, spark=wrote), f"Spark {wrote} wrote the checkpoint .*this is Spark {here}.*--rebuild"
    with pytest.raises(StateMismatch, match=said) if refused else nullcontext():
        query.record_spark(lake, known, here)
    assert recorded(lake).spark == (wrote if refused else here)


def test_the_spark_that_wrote_a_checkpoint_stays_until_the_jvm_has_told_its_own(lake, monkeypatch):
    """It was that of pip: "" where pyspark is not pip's, which stood for "not known" from then on."""
    begun(lake, spark="4.3.0")
    monkeypatch.setattr(query, "_begun", lambda *_: True)
    monkeypatch.setattr(query, "_version", lambda _: "")
    assert open_query(lake, Rules(), None, 2, "arrow", rebuild=False).spark == "4.3.0"
