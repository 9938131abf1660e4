"""The HW of a partition as kafka-get-offsets printed it once: what consumers could read then, of no known epoch."""

from __future__ import annotations

from pipelines.replication.partition.events import PartitionEvent
from pipelines.replication.partition.loss import Verdict
from pipelines.replication.partition.stored_high_watermarks import StoredHw, store
from pipelines.replication.partition.terms import Terms

TIME_IS_OFF_US = 60_000_000
"""People say to the minute when a tool printed something."""


def count_printed_hw(event: PartitionEvent, terms: Terms) -> bool:
    """Count the HW for the last term that began before it was printed, if none began near that time; returns whether
    it did. A term that begins below it later has lost what lies between."""
    near = any(abs(t.ts - event.ts) <= TIME_IS_OFF_US for t in terms.terms)
    before = [t for t in terms.terms if t.ts < event.ts]
    if near or not before or event.hw is None:
        return False
    store(terms, before[-1].key, StoredHw(event.broker_id, event.hw, "printed by kafka-get-offsets", event.ts))
    return True


def judge_printed_hw(event: PartitionEvent, before: tuple[int, int], terms: Terms) -> Verdict | None:
    """A HW that is printed below an earlier one may be gone: a leader does not answer before it has reached what
    consumers could read (KIP-207). It is not proven, as no print says whether `--time` asked for the latest offsets.
    None where a start that is known has a verdict of its own."""
    ts, hw = before
    if event.hw is None or event.hw >= hw or event.ts - ts <= TIME_IS_OFF_US:
        return None
    between = [t.start_offset for t in terms.terms if t.ts > ts - TIME_IS_OFF_US]
    if any(start is not None and start <= event.hw for start in between):
        return None
    missing = [
        "that kafka-get-offsets printed the latest offsets both times",
        *([] if event.topic_id else ["the topic's id"]),
    ]
    evidence = {"broker": event.replica_id, "hw": [hw, event.hw], "printed": [ts, event.ts], "missing": missing}
    return Verdict("hw_moved_back", "unproven", evidence, None, hw, event.hw, None, event.hw, hw)
