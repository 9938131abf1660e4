"""Replicas moved to other log directories of their brokers, recorded on a Kafka 4.1 with log starts of 1000."""

from generators.brokerlogs.ingest import read_logs
from tests.unit.field.cases import facts_of, rows, unpack


def test_a_move_between_log_directories_cuts_nothing(tmp_path):
    """Each future log was cut to 1000, and its HW fell from there to 943, the leader's as well."""
    case = unpack("moved-directory", tmp_path)
    assert "to (offset=943" in (case / "broker-1/server.log").read_text()
    events = [row for row in read_logs([case], "c").to_pylist() if row["topic"] == "orders"]
    assert [row for row in events if row["hw_before"] is not None and row["hw_before"] > row["hw"]] == []
    assert [row for row in events if row["event_type"] == "truncate" and row["leo"] > 0] == []
    assert [row for row in rows(facts_of(case)) if row["topic"] == "orders"] == []
