"""Metrics of clusters from their verdicts: judged or not, states of partitions, losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pipelines.alerting.rule import GAP_KINDS
from pipelines.metrics.families.family import gauge, seconds
from pipelines.verdict import ClusterRecord, Condition, State, Verdict
from pipelines.verdict.losses import NOT_EXCLUDED

if TYPE_CHECKING:
    from prometheus_client import Metric

Judged = Sequence[tuple[ClusterRecord, Verdict]]

UNKNOWN, NOT_JUDGED, ENDED = "unknown", "not_judged", "ended"
CONDITIONS = (*(condition.name.lower() for condition in Condition), UNKNOWN, NOT_JUDGED, ENDED)
"""How a partition stands: each counts once, as the first that fits."""

_OF_CLUSTERS: tuple[tuple[str, str, Callable[[ClusterRecord, Verdict], float | int | None]], ...] = (
    (
        "cluster_ended",
        "Whether a drain closed the telemetry of the cluster: it is history",
        lambda _, v: v.judged.ended,
    ),
    (
        "judged_until_timestamp_seconds",
        "Event time up to which the cluster is judged",
        lambda _, v: seconds(v.judged.to),
    ),
    (
        "unread_events",
        "Events in bronze that the streaming job has not read",
        lambda r, _: r.backlog.events if r.backlog else 0,
    ),
    (
        "unread_since_timestamp_seconds",
        "When (wall clock) the oldest commit of bronze was made that the job has not read; absent: it read all",
        lambda r, _: seconds(r.backlog.oldest) if r.backlog else None,
    ),
)


def standing(record: ClusterRecord, verdict: Verdict) -> Counter[str]:
    """Partitions by condition; of a cluster that is not judged, or has ended, nothing is said of the present."""
    found = Counter(dict.fromkeys(CONDITIONS, 0))
    for group in record.groups:
        found[present(verdict) or (UNKNOWN if group.unknown else group.condition.name.lower())] += group.partitions
    return found


def present(verdict: Verdict) -> str | None:
    """Why nothing is said of a cluster's present, None where something is."""
    if verdict.judged.ended:
        return ENDED
    return NOT_JUDGED if verdict.judged.state is State.NOT_JUDGED else None


def verdicts(judged: Judged) -> Iterator[Metric]:
    """The state of each cluster's verdict, its time, and the unread events."""
    states = {verdict.cluster: {line.state for line in verdict.lines} for _, verdict in judged}
    yield gauge(
        "cluster_state",
        "Whether the verdict on the cluster has a sentence of this state; ok: no other",
        ("cluster", "state"),
        (
            ((v.cluster, state.name.lower()), v.state is State.OK if state is State.OK else state in states[v.cluster])
            for _, v in judged
            for state in State
        ),
    )
    for name, words, value in _OF_CLUSTERS:
        yield gauge(name, words, ("cluster",), (((r.cluster,), value(r, v)) for r, v in judged))


def partitions(judged: Judged) -> Iterator[Metric]:
    """The numbers of partitions by state and responsible broker."""
    yield gauge(
        "partitions",
        "Partitions by how they stand, each once: the worst that holds, or unknown, not_judged, ended",
        ("cluster", "condition"),
        (((r.cluster, name), n) for r, v in judged for name, n in standing(r, v).items()),
    )
    yield gauge(
        "broker_partitions",
        "Partitions that stand so because of this broker: it is missing, holds back, is out of sync, or led and "
        "reports nothing (unknown)",
        ("cluster", "broker", "condition"),
        (((r.cluster, *key), n) for r, v in judged for key, n in _because(r, v).items()),
    )
    yield gauge(
        "partitions_by_level",
        "Partitions by the telemetry level of the broker that leads them",
        ("cluster", "level"),
        (((r.cluster, level), n) for r, _ in judged for level, n in r.levels.items()),
    )


def _because(record: ClusterRecord, verdict: Verdict) -> Counter[tuple[int, str]]:
    """Partitions by broker and condition; every broker that is known has all conditions, so that 0 is a value."""
    if present(verdict):
        return Counter()
    known = {source.broker_id for source in record.sources if source.broker_id >= 0}
    known |= {broker for group in record.groups for broker in group.brokers}
    names = [c.name.lower() for c in Condition if c is not Condition.IN_SYNC] + [UNKNOWN]
    found = Counter({(broker, name): 0 for broker in sorted(known) for name in names})
    for group in record.groups:
        for broker in group.brokers:
            found[broker, UNKNOWN if group.unknown else group.condition.name.lower()] += group.partitions
    return found


def losses(judged: Judged) -> Iterator[Metric]:
    """The losses within the period of verdicts."""
    lost: Counter[tuple[str, str, str]] = Counter()
    unjudged: Counter[str] = Counter({record.cluster: 0 for record, _ in judged})
    for record, _ in judged:
        for group in record.falls:
            if group.name == NOT_EXCLUDED:
                unjudged[record.cluster] += group.partitions
            elif group.lost_records is not None:
                lost[record.cluster, group.name, group.proof] += group.lost_records
    yield gauge(
        "lost_offsets",
        "Offsets known to be gone (proof unproven: that may be gone) in the last 24 hours judged or not told yet; "
        "at least so many",
        ("cluster", "class", "proof"),
        lost.items(),
    )
    yield gauge(
        "partitions_with_loss",
        "Partitions of which something is lost (severity critical) or may be (warning), in the last 24 hours judged or "
        "not told yet",
        ("cluster", "severity"),
        (((r.cluster, s), n) for r, _ in judged for s, n in (("critical", r.lost_in), ("warning", r.suspect))),
    )
    yield gauge(
        "partitions_loss_not_excluded",
        "Partitions with a start of a leader that could not be judged, in the last 24 hours judged or not told yet",
        ("cluster",),
        (((cluster,), n) for cluster, n in unjudged.items()),
    )


def sources(judged: Judged) -> Iterator[Metric]:
    """The end of each broker's telemetry and its gaps. Broker -1 is the metadata log."""
    reported: dict[tuple[str, int], float] = {}
    there: Counter[tuple[str, int]] = Counter()
    quiet: Counter[tuple[str, int]] = Counter()
    for record, verdict in judged:
        quiet.update((record.cluster, source.broker_id) for source in verdict.judged.silent)
        for source in record.sources:
            key = record.cluster, source.broker_id
            there[key] += 1
            reported[key] = min(source.reported_to.timestamp(), reported.get(key, source.reported_to.timestamp()))
    labels = ("cluster", "broker")
    yield gauge(
        "source_reported_until_timestamp_seconds",
        "Event time up to which every source of the broker has reported: of the one that is furthest behind",
        labels,
        reported.items(),
    )
    yield gauge("sources", "Telemetry sources of the broker", labels, there.items())
    yield gauge("sources_silent", "Of these, those that report no more", labels, ((k, quiet[k]) for k in there))
    yield gauge(
        "telemetry_gaps",
        "Gaps in the last 24 hours judged: telemetry missing, late, begun anew, or with a wrong clock",
        ("cluster", "kind"),
        (((r.cluster, kind), r.gaps.get(kind, 0)) for r, _ in judged for kind in GAP_KINDS),
    )
    yield gauge(
        "lines_not_understood",
        "Log lines of loggers that carry evidence whose shape is not known, in the last 24 hours judged",
        ("cluster",),
        (((r.cluster,), sum(one.lines for one in r.not_understood)) for r, _ in judged),
    )
