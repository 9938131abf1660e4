"""The evidence of a loss, down to the events of brokers' logs around it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, View, instant, select_first, select_rows
from pipelines.verdict import sentences
from pipelines.verdict.incident import Step
from pipelines.verdict.loss_rows import steps
from schemas import hw_regressions, replication_events

BEFORE, AFTER = timedelta(seconds=30), timedelta(seconds=15)
"""Around a loss: within these, events of its partition are evidence."""
EVENTS = 60
"""At most so many of each loss."""
FALLS = 12
"""At most so many losses of a report have their evidence written out."""
_FREQUENT = "'append', 'fetch', 'hw', 'progress'"
_COLUMNS = (
    "ts, source_id, source_epoch, source_seq, broker_id, event_type, leader_id, leader_epoch, replica_id, leo, hw, "
    "isr, detail"
)
_VIEW = View(replication_events.TABLE, "ts", "")


@dataclass(frozen=True)
class Fall:
    """One loss: its sentence, how it came about, what the verdict rests on, and the events around it.

    `left_out` of the events are not here.
    """

    row: Row
    sentence: str
    steps: tuple[Step, ...]
    rests_on: tuple[tuple[str, str], ...]
    events: tuple[Row, ...]
    left_out: int = 0


def falls(lake: Lake, wanted: Filter) -> tuple[list[Fall], int]:
    """The falls of a HW that lost something or may have, the weightiest first, and how many more there are."""
    view = VIEWS["serious"]
    order = f"{view.first}, lost_records DESC, topic, partition"
    found, matching = select_first(lake, hw_regressions.TABLE, view.select(wanted), order, FALLS)
    return [_fall(lake, row) for row in found], matching - len(found)


def _fall(lake: Lake, row: Row) -> Fall:
    events, left_out = _events(lake, row)
    rests = tuple(rests_on(row["evidence"]))
    sentence, chain = sentences.regression(row), tuple(steps(lake, row))
    return Fall(row, sentence, chain, rests, tuple(events), left_out)


def rests_on(evidence: str | None) -> Iterator[tuple[str, str]]:
    """The evidence of a verdict as names and values: `hw.broker` `1`."""
    try:
        found = json.loads(evidence or "{}")
    except ValueError:
        found = evidence
    yield from _flat("", found)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value))
    else:
        yield name or "evidence", str(value)


def _events(lake: Lake, row: Row) -> tuple[list[Row], int]:
    """Return the rare events of the partition around its loss with the last HW reported before it, and how many more
    there are."""
    place = Filter(row["cluster"], row["topic"], row["partition"])
    near = replace(place, since=row["ts"] - BEFORE, until=row["ts"] + AFTER).where(_VIEW)
    nearest = f"abs(extract(epoch FROM ts) - extract(epoch FROM {instant(row['ts'])}))"
    rare = f"SELECT {_COLUMNS} FROM t WHERE event_type NOT IN ({_FREQUENT}) AND {near}"
    order = f"{nearest}, source_id, source_epoch, source_seq"
    found, matching = select_first(lake, replication_events.TABLE, rare, order, EVENTS)
    left_out = matching - len(found)
    reported = f"SELECT {_COLUMNS} FROM t WHERE event_type = 'hw' AND {_until(place, row['ts'])}"
    found += select_rows(lake, replication_events.TABLE, f"{reported} ORDER BY hw DESC, ts LIMIT 1")
    return sorted(found, key=lambda event: (event["ts"], event["source_id"], event["source_seq"])), left_out


def _until(place: Filter, ts: datetime) -> str:
    return replace(place, since=ts - timedelta(hours=1), until=ts).where(_VIEW)
