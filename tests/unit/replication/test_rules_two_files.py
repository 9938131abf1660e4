"""A lane that several files of a broker tell of reads none of them past what waits behind a hole in another."""

from bronze import Told, events_of

from pipelines.replication import replay


def test_a_copy_of_a_start_is_not_read_ahead_of_older_rows_that_wait_behind_a_hole():
    """Old rows, read behind the start of a new topic of the same name, would move its HW."""
    told = Told().leader(0, 0, 0, 0, [1], replicas=[1, 2]).append(10, 90).hw(10, 90).skip().append(20, 110).hw(20, 110)
    told.on(topic_id="second-id").leader(3_000, 0, 0, 0, [1], replicas=[1, 2]).append(3_100, 2).hw(3_100, 2)
    copy = next(r for r in told.rows if r["topic_id"] == "second-id")
    second = copy | {"source_id": "broker-1/state-change.log", "level": 0, "seq": 0, "source_seq": 0}
    facts = replay(events_of([*told.progress(60_000).rows, second]))
    new = [r for r in facts.partition_hw.to_pylist() if r["topic_id"] == "second-id"]
    assert [(r["kind"], r["hw"], r["agreement"]) for r in new] == [
        ("term_start", 0, "unreported"),
        ("advance", 2, "exact"),
    ]
