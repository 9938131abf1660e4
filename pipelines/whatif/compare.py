"""Every partition as it was, beside what other rules would have made of the same events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication import Facts, Rules, replay
from pipelines.whatif.change import Change
from pipelines.whatif.course import Course, Follower, Window
from pipelines.whatif.items import OF_PARTITIONS, Items, Place, place_of

LEVEL = 3
"""Only there every fetch, append and LEO is reported."""


@dataclass(frozen=True)
class Compared:
    """One partition; where `unknown` says why, nothing is estimated."""

    cluster: str
    topic: str
    partition: int
    unknown: str = ""
    was: Course | None = None
    would: Course | None = None


def compare(
    events: pa.Table, rules: Rules, change: Change, window: Window, gaps: Mapping[Place, str] | None = None
) -> list[Compared]:
    """Every partition of `events` (bronze schema), in order of names; `window` is what counts, in microseconds.

    `rules`: what was assumed. `gaps`: partitions of whose telemetry something is missing, and what; of these, and of
    those that were not reported at level 3 throughout, nothing is estimated.
    """
    other = change.rules(rules)
    was, would = replay(events, rules), replay(change.events(events), other)
    unknown = _levels(events, was) | _missing(was) | dict(gaps or {})
    as_were, as_would = Items(events, was), Items(change.events(events), would)
    found = []
    for place in as_were.places:
        if why := unknown.get(place):
            found.append(Compared(*place, unknown=why))
            continue
        of, other_of = rules.of(place[0])[0], other.of(place[0])[0]
        recorded = Follower(window, of.min_isr or 1, recorded=True, strict=of.strict_min_isr)
        computed = Follower(window, other_of.min_isr or 1, recorded=False, strict=other_of.strict_min_isr)
        sides = recorded.follow(as_were.of(place)), computed.follow(as_would.of(place))
        found.append(Compared(*place, was=sides[0], would=sides[1]))
    return found


def _levels(events: pa.Table, facts: Facts) -> dict[Place, str]:
    """The partitions that were not at level 3 throughout, by the facts about their HW and replicas."""
    lowest: dict[Place, int] = {}
    for table in (facts.partition_hw, facts.replica_sync):
        keys = ["cluster", "topic", "partition"]
        for row in table.group_by(keys).aggregate([("level", "min")]).to_pylist():
            if row["level_min"] is not None:
                lowest[place_of(row)] = min(row["level_min"], lowest.get(place_of(row), LEVEL))
    every = events.filter(pc.is_in(events["event_type"].cast(pa.string()), pa.array(OF_PARTITIONS)))
    places = [place_of(row) for row in every.group_by(["cluster", "topic", "partition"]).aggregate([]).to_pylist()]
    words = {place: f"level {lowest[place]}" if place in lowest else "an unknown level" for place in places}
    return {place: f"not known at {words[place]}" for place in places if lowest.get(place) != LEVEL}


def _missing(facts: Facts) -> dict[Place, str]:
    """The partitions in whose own telemetry something is missing."""
    rows = [row for row in facts.telemetry_gaps.to_pylist() if row["kind"] in ("gap", "reset")]
    return {place_of(row): "not known: telemetry is missing" for row in rows if row["partition"] >= 0}
