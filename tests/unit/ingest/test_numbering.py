"""Rows are numbered without holes: over all rows of a source, and per topic and partition."""

import json
from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.tailing.sequence_numbers import Numbering

PLACES = st.sampled_from([(None, -1), ("orders", 0), ("orders", 1), ("my-topic_1.x", 0)])


def _rows(places: list[tuple[str | None, int]]) -> pa.Table:
    fixed = {"cluster": "c", "source_id": "s", "ts": 0, "broker_id": 1, "event_type": "fetch", "level": 3}
    return pa.Table.from_pylist([{**fixed, "topic": t, "partition": p} for t, p in places], schema=EVENTS)


@given(st.lists(st.lists(PLACES, max_size=12), max_size=6))
def test_numbers_have_no_hole_however_rows_come(batches: list[list[tuple[str | None, int]]]) -> None:
    numbering, counts, following = Numbering(epoch=3), Counter(), 0
    for places in batches:
        numbered = numbering.number(_rows(places))
        expected = []
        for place in places:
            expected.append((3, following, counts[place]))
            following, counts[place] = following + 1, counts[place] + 1
        reported = zip(*(numbered[name].to_pylist() for name in ("source_epoch", "source_seq", "seq")), strict=True)
        assert list(reported) == expected
        numbering = Numbering(**json.loads(json.dumps(numbering.as_json())))
