"""`gold/timeline` has the lines that silver and bronze tell, whatever comes when, and is read for as far as it goes."""

import pytest
from deltalake import DeltaTable

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.lake.records import write_record
from pipelines.streaming.checkpoint.offsets import RECORD, QueryRecord
from pipelines.timeline import happenings, writing
from pipelines.timeline.happenings import timeline
from pipelines.timeline.stored import WRITTEN
from pipelines.timeline.writing import write_timeline
from tests.unit.project.lakes import at, write
from tests.unit.timeline.test_timeline import shrink, state

HOUR = Filter("prod", since=at(0))


@pytest.fixture
def lake(tmp_path):
    place = Lake(str(tmp_path / "lake"))
    place.create("timeline")
    write_record(place, RECORD, QueryRecord("q", rules={}))
    write(place.root, "isr_changes", *(shrink(n, n) for n in range(3)))
    write(place.root, "replication_events", state(5, "no_answer: refused"))
    return place


def rows(lake):
    found = (
        DeltaTable(f"{lake.root}/gold/timeline")
        .to_pyarrow_table()
        .sort_by([("ts", "ascending"), ("kind", "ascending")])
    )
    return [((row["ts"] - at(0)).total_seconds(), row["summary"]) for row in found.to_pylist()]


def told(lake, wanted=HOUR):
    return [
        (line.ts, line.kind, line.weight, line.summary, line.topic, line.broker_id)
        for line in timeline(lake, wanted, 99).lines
    ]


def from_silver(lake, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(happenings, "last_write", lambda lake: None)
        return told(lake)


LINES = [
    (0, "broker 3 left the ISR (lag): orders-0"), (1, "broker 3 left the ISR (lag): orders-1"),
    (2, "broker 3 left the ISR (lag): orders-2"), (5, "broker 3: no answer: refused"),
]  # fmt: skip


def test_the_lines_that_come_of_events_are_written(lake):
    write_timeline(lake)
    assert rows(lake) == LINES


def test_a_second_write_adds_what_is_new_and_no_row_twice(lake):
    write_timeline(lake)
    version = lake.open("timeline").version()
    write_timeline(lake)
    assert (rows(lake), lake.open("timeline").version()) == (LINES, version)
    write(lake.root, "isr_changes", shrink(5, 90_000), shrink(4, 600))
    write_timeline(lake)
    late = [(600, "broker 3 left the ISR (lag): orders-4"), (90_000, "broker 3 left the ISR (lag): orders-5")]
    assert rows(lake) == [*LINES, *late]
    assert len(lake.open("timeline").file_uris()) == 2, "a file for each day"


def test_a_write_that_was_killed_before_its_record_is_made_again(lake, monkeypatch):
    write_timeline(lake)
    write(lake.root, "isr_changes", shrink(4, 600))
    with monkeypatch.context() as patched:
        patched.setattr(writing, "write_record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_timeline(lake)
    write_timeline(lake)
    assert rows(lake) == [*LINES, (600, "broker 3 left the ISR (lag): orders-4")]


def test_a_later_revision_takes_the_place_of_a_line(lake):
    write_timeline(lake)
    write(lake.root, "isr_changes", shrink(1, 1, cause="controller_fenced", revision=2))
    write_timeline(lake)
    assert rows(lake)[1] == (1, "broker 3 left the ISR (fenced by the controller): orders-1")
    assert len(rows(lake)) == len(LINES)


def test_what_is_read_is_the_same_with_the_table_and_without(lake, monkeypatch):
    """Whatever came since the last write is read from silver: nothing waits for the next."""
    write_timeline(lake)
    write(lake.root, "isr_changes", shrink(4, 4_000), shrink(7, 2.5, cluster="other"))
    write(lake.root, "replication_events", state(4_001, "answers"))
    assert told(lake) == from_silver(lake, monkeypatch)
    assert [line[3] for line in told(lake)][-2:] == ["broker 3 left the ISR (lag): orders-4", "broker 3: answers"]


def test_what_the_table_has_is_not_read_from_silver(lake, monkeypatch):
    write_timeline(lake)
    seen = told(lake)
    monkeypatch.setattr(happenings, "event_lines", lambda *_, **__: ([], 0))
    assert told(lake) == seen


@pytest.mark.parametrize("lost", [WRITTEN, RECORD])
def test_without_the_record_all_is_read_from_silver(lake, lost, monkeypatch):
    write_timeline(lake)
    lake.files().delete_file(lost)
    assert told(lake) == from_silver(lake, monkeypatch)
    write(lake.root, "isr_changes", shrink(4, 600))
    write_timeline(lake)
    assert rows(lake) == [*LINES, (600, "broker 3 left the ISR (lag): orders-4")]


def test_a_lake_that_has_no_such_table_has_its_timeline(tmp_path):
    write(str(tmp_path), "isr_changes", shrink(0, 0))
    assert [line[3] for line in told(Lake(str(tmp_path)))] == [LINES[0][1]]
