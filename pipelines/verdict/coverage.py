"""The stretch of time for which a verdict may say that no loss is known: every start of a term in it was readable.

Whether a start is safe is judged when it is read (`loss_not_excluded`); that none was missed is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from pipelines.lake.queries import Row
from pipelines.verdict import words
from pipelines.verdict.records import ClusterRecord, Source, Stretch
from schemas.levels import POLLED

JOINT = timedelta(minutes=1)
"""Stretches that far apart are one: rows of silver/coverage come each minute, and a start takes as long."""
SHORT = timedelta(minutes=10)
"""Logs of brokers begin and end at different times; above it that is a hole, and not only a shorter claim."""
LOGS = "server.log, state-change.log and controller.log"


@dataclass(frozen=True)
class Covered:
    """The stretch in which the starts on all brokers were readable, and what is missing of what is asked for."""

    since: datetime | None
    until: datetime
    holes: tuple[str, ...]


def join(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The stretches in order; those with no more than JOINT between them are one."""
    found: list[Stretch] = []
    for since, until in sorted(stretches):
        if found and since <= found[-1][1] + JOINT:
            found[-1] = found[-1][0], max(found[-1][1], until)
        else:
            found.append((since, until))
    return tuple(found)


def terms_seen(sources: Iterable[Source], rows: Iterable[Row]) -> dict[int, tuple[Stretch, ...]]:
    """Return by broker the stretches in which starts of terms were readable, from rows of silver/coverage.

    A stretch that ends at most JOINT before its source's last report is extended to the report.
    """
    reported = {source.source_id: source.reported_to for source in sources}
    found: dict[int, list[Stretch]] = {}
    for row in rows:
        until: datetime = row["to_ts"]
        now = reported.get(row["source_id"], until)
        goes_on = until <= now <= until + JOINT  # a row comes each minute
        found.setdefault(row["broker_id"], []).append((row["from_ts"], now if goes_on else until))
    return {broker: join(stretches) for broker, stretches in found.items()}


def coverage(record: ClusterRecord, first: datetime | None, judged_to: datetime) -> Covered:
    """The covered stretch of a cluster from `first` (None: its beginning) until `judged_to`."""
    read = {b: record.terms.get(b, ()) for b in sorted(record.replicas) if b not in record.unread_brokers}
    known = {broker: stretches for broker, stretches in read.items() if stretches}
    begins = {broker: max(first, stretches[0][0]) if first else stretches[0][0] for broker, stretches in known.items()}
    ends = {broker: _end(record, broker, stretches[-1][1], judged_to) for broker, stretches in known.items()}
    blank = {*read, *record.former} - {b for b, seen in record.terms.items() if seen} - {*record.unread_brokers}
    holes = [*_unread(record), *_blank(blank, record), *_holes(known, begins, ends, judged_to)]
    until = min(ends.values(), default=judged_to)
    until = until if until < judged_to - JOINT else judged_to
    return Covered(max(begins.values(), default=first), until, tuple(holes))


def _end(record: ClusterRecord, broker: int, until: datetime, judged_to: datetime) -> datetime:
    """Until when starts on a broker are known: one that is known to be down starts nothing."""
    down = record.down.get(broker)
    return judged_to if down is not None and abs(down - until) <= JOINT else min(until, judged_to)


def _unread(record: ClusterRecord) -> Iterator[str]:
    if not (record.partitions or record.scope):
        yield f"nothing was told of any partition: lay {LOGS} of all brokers beside"
    if record.unassigned:
        yield (
            f"the replicas of {words.count(record.unassigned, 'partition')} (of {record.partitions}) are not known: "
            "lay controller.log beside"
        )
    if record.unread_brokers:
        who = words.brokers(record.unread_brokers)
        yield f"nothing was read of {who}: lay its {LOGS} beside"
    if record.unstarted:
        of = f"of {words.count(record.unstarted, 'partition')} (of {record.partitions})"
        polled = f"no HW {of} is known since its leader changed: the watcher's next rounds tell it"
        read = f"no start of a term was read {of}: state-change.log has them"
        yield polled if record.levels.keys() == {POLLED} else read


def _blank(brokers: set[int], record: ClusterRecord) -> Iterator[str]:
    if brokers:
        unless = "" if record.terms else ", unless retention took what told of them"
        why = record.uncovered or f"lay state-change.log beside{unless}"
        yield f"starts of terms on {words.brokers(brokers)} could not be seen: {why}"


def _holes(
    known: Mapping[int, tuple[Stretch, ...]],
    begins: Mapping[int, datetime],
    ends: Mapping[int, datetime],
    judged_to: datetime,
) -> Iterator[str]:
    earliest = min(begins.values(), default=judged_to)
    if late := {broker: since for broker, since in begins.items() if since > earliest + SHORT}:
        since = words.clock(max(late.values()))
        yield f"starts of terms on {words.brokers(late)} could not be seen before {since}: lay older logs beside"
    for broker, stretches in known.items():
        for (_, ends_at), (begins_at, _) in pairwise(stretches):
            if begins_at > earliest:
                between = f"from {words.clock(ends_at)} to {words.clock(begins_at)}"
                yield f"starts of terms on {words.brokers([broker])} could not be seen {between}"
    if gone := {broker: until for broker, until in ends.items() if until < judged_to - SHORT}:
        last = words.clock(min(gone.values()))
        yield f"nothing of {words.brokers(gone)} was read after {last}: lay later logs beside, or what says it was down"
