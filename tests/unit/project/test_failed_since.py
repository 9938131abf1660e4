"""What an expectation that failed before says at the next check, whatever came of it in between."""

from datetime import UTC, datetime

import pyarrow as pa

from pipelines.quality.results import failed_since
from schemas import quality_results

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def outcome(minute, success, version=None):
    row = dict.fromkeys(quality_results.ARROW.names)
    row |= {"suite": "hw", "table": "silver/partition_hw", "expectation": "hw_at_most_leader_leo"}
    row |= {"run_id": f"{minute}", "run_ts": NOON.replace(minute=minute), "success": success, "version_to": version}
    return row | {"observed": "1 of 9", "unexpected": int(not success)}


def lines(*rows):
    return failed_since(pa.Table.from_pylist(list(rows), quality_results.ARROW), NOON, "another")


def test_a_failure_is_said_though_it_could_not_be_judged_after_it():
    failed, not_judged, good = outcome(1, False, 10), outcome(2, False), outcome(3, True, 12)
    assert len(lines(failed, not_judged, good)) == 1
    assert lines(not_judged, good) == []
    assert len(lines(failed, not_judged)) == 2


def test_silent_sources_are_said_once_though_another_check_has_found_them_too():
    earlier, now = (outcome(minute, False, 10) | {"suite": "sources"} for minute in (1, 2))
    assert len(lines(earlier)) == 1
    assert lines(earlier, now | {"run_id": "another"}) == []
    assert len(lines(earlier, now | {"run_id": "another", "success": True})) == 1
