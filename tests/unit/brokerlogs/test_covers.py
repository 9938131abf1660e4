"""`covers`: kinds of evidence count from the first line on that shows that they are printed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from generators.brokerlogs.messages.coverage import covers
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing.progress import interleave
from tests.unit.brokerlogs.log_lines import CONTROLLER, LOG, PARTITION, STATE, T0, advanced, leader, line, partition


def shown(*lines):
    parser = SourceParser("c", "broker-1/server.log", broker_id=1)
    parser.feed("".join(lines).encode(), last=True)
    restored = SourceParser.restore(parser.snapshot())
    assert restored.shown == parser.shown
    return {kind: us // 1000 - T0 for kind, us in parser.shown.items()}


@pytest.mark.parametrize(
    ("logger", "message", "kinds"),
    [
        (STATE, "[Broker id=1] Transitioning 3 partition(s) to local followers.", {"terms"}),
        (STATE, "[Broker id=1] Unable to start fetching orders-1 (kafka.server.ReplicaManager)", set()),
        (STATE, "[Broker id=1] Add 3 partitions and deleted 0 partitions from metadata cache", set()),
        (PARTITION, partition("Log loaded for partition orders-1 with initial high watermark 0"), {"isr"}),
        (PARTITION, partition("orders-1 starts at Leader Epoch 3 from offset 0. Previous Leader Epoch was: -1"),
         {"terms"}),
        (LOG, "[UnifiedLog partition=orders-1, dir=/d] Loading producer state till offset 0 with message format 2",
         {"truncations", "hw_falls", "brokers"}),
        ("kafka.log.Log", "[Log partition=orders-1, dir=/d] Loading producer state till offset 0 with message format 2",
         {"truncations", "brokers"}),
        (CONTROLLER, "[QuorumController id=1] Replayed TopicRecord for topic orders with topic ID x.",
         {"unclean_elections", "assignments", "topics"}),
        (CONTROLLER, "[QuorumController id=1] UNCLEAN partition change for orders-1 with topic ID x: leader: 1 -> 2",
         {"unclean_elections", "assignments", "topics"}),
        (CONTROLLER, "[QuorumController id=1] partition change for orders-1 with topic ID x: isr: [1] -> [2]",
         {"unclean_elections", "assignments", "topics", "elections", "isr"}),
    ],
)  # fmt: skip
def test_a_line_shows_the_kinds_that_its_logger_prints(logger, message, kinds):
    named = line("[Broker id=1] Creating nothing", "kafka.server.ReplicaManager")
    assert set(shown(named, line(message, logger, ms=5))) == kinds


def test_a_server_log_alone_shows_no_starts_of_terms():
    lines = [line("[KafkaServer id=1] started", "kafka.server.KafkaServer"),
             line("[UnifiedLog partition=orders-1, dir=/d] Rolled new log segment at offset 7", LOG)]  # fmt: skip
    assert "terms" not in shown(*lines)


def test_a_kind_counts_from_its_first_line_on():
    assert shown(leader(ms=7), leader(epoch=1, ms=9_000))["terms"] == 7


def test_high_watermarks_are_shown_by_the_level_of_the_lines():
    assert "hw" not in shown(leader())
    assert "hw" in shown(leader(), advanced(0, 1, ms=10), advanced(1, 2, ms=20_000))


def test_progress_covers_what_was_shown_at_the_progress_before():
    rows = covers({"terms": 10, "isr": 20}, np.array([5, 10, 19, 20]))
    assert rows.to_pylist() == [[], ["terms"], ["terms"], ["terms", "isr"]]


def test_times_of_missing_lines_are_covered_by_nothing():
    parser = SourceParser("c", "broker-1/server.log", broker_id=1)
    told = parser.feed((leader() + leader(epoch=1, ms=2_000)).encode(), last=True)
    lost = parser.note("lost", "7 lines")
    later = parser.feed((leader(epoch=2, ms=9_000) + leader(epoch=3, ms=12_000)).encode(), last=True)
    defaults = {"cluster": "c", "source_id": "broker-1/server.log", "broker_id": 1, "level": 0}
    rows = interleave(pa.concat_tables([told, lost, later]), 0, defaults, parser.shown).to_pylist()
    found = {(row["ts"].timestamp() * 1000 - T0) // 1000: row["covers"] for row in rows if row["covers"] is not None}
    assert {second for second, kinds in found.items() if kinds == ["terms"]} == {0, 1, 9, 10, 11}
    assert {second for second, kinds in found.items() if kinds == []} >= {2, 3, 7}
