"""The input of a verdict: small typed records that `pipelines.verdict.collect` reads from a lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from pipelines.verdict.since import Since
from schemas.brokers import CUT_OFF
from schemas.replication_events import WATCHER


class State(Enum):
    """The states of a cluster, the worst first; the order only sorts lines."""

    NOT_JUDGED = "NOT JUDGED"
    LOST = "LOST"
    LOSS_NOT_EXCLUDED = "LOSS NOT EXCLUDED"
    OFFLINE = "OFFLINE"
    UNDER_MIN_ISR = "UNDER MIN ISR"
    UNKNOWN = "UNKNOWN"
    HELD_BACK = "HELD BACK"
    AT_RISK = "AT RISK"
    OK = "OK"

    @property
    def rank(self) -> int:
        return list(State).index(self)


class Condition(Enum):
    """The conditions of a partition, the worst first; a partition in several counts in the first."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under min ISR"
    HELD_BACK = "held back"
    UNDER_REPLICATED = "under-replicated"
    OUT_OF_SYNC = "out of sync"
    IN_SYNC = "in sync"


@dataclass(frozen=True)
class Backlog:
    """The events of a cluster that `run` has not read, and the wall-clock time at which the oldest were committed."""

    events: int
    oldest: datetime


Stretch = tuple[datetime, datetime]
"""From when on and until when, event time."""


@dataclass(frozen=True)
class Source:
    """A telemetry writer, up to when (event time) it has reported everything, and the level at which it does."""

    source_id: str
    broker_id: int
    reported_to: datetime
    level: int | None = None
    holds_s: int | None = None
    """For how long a claim of the present may rest on a watcher's round; None: it is not said."""

    @property
    def watched(self) -> bool:
        return self.source_id.startswith(WATCHER)


LATE = "late"
"""The state of a broker whose last answer is older than two of its rounds, while others answer."""


@dataclass(frozen=True)
class Unheard:
    """A broker that does not answer a watcher.

    `state`: its state in `gold/brokers`, or LATE. `since`: the time at which the state began. `reason`: how the state
    is known.
    """

    state: str
    since: datetime | None
    reason: str


@dataclass(frozen=True)
class NotUnderstood:
    """Lines of one source, of a logger that carries evidence, whose shape is not known."""

    source_id: str
    lines: int
    shape: str


@dataclass(frozen=True)
class PartitionGroup:
    """Partitions that stand alike because of the same brokers, or `one_of` them; `unknown`: so they stood when last
    reported."""

    condition: Condition
    brokers: tuple[int, ...]
    partitions: int
    unknown: bool = False
    stalled_ms: int | None = None
    one_of: bool = False
    stops: int = 0
    """Of these refuse acks=all once one more of the in-sync replicas that answer fails."""
    ends: int = 0
    """Of these are offline then."""
    adding: bool = False
    """A reassignment may still be adding one of the brokers."""


@dataclass(frozen=True)
class FallGroup:
    """Falls of the HW with one class, proof and change of leader; `examples` describe some of them.

    `lost_records` is None if no range is known. `missing` names the evidence without which a loss is not excluded.
    `handled`: a person noted the alert on them as handled.
    """

    name: str
    severity: str
    proof: str
    leader_id: int | None
    leader_id_before: int | None
    partitions: int
    first: datetime
    last: datetime
    lost_records: int | None = None
    examples: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    handled: bool = False


@dataclass(frozen=True)
class Wait:
    """A state that holds and is not told yet, as the last evaluation found it: of how many partitions of a cluster.

    `since`: when it began; `fires`: when it will have lasted long enough to be told (event time, microseconds).
    """

    cluster: str
    rule: str
    partitions: int
    since: int
    fires: int


@dataclass(frozen=True)
class ClusterRecord:
    """One cluster of a lake; None and empty where nothing is known.

    `judged_from` and `judged_to` are its beginning and its present in event time, as far as the reconstruction has
    come; `reconstructed`: whether it ever read anything of it. `levels` counts partitions by the telemetry level of who
    led them last, `closed` is when a drain ended its telemetry. `rebuilding`: the command that makes its silver anew;
    `blind` says why its losses are not known; `lost_since` is from when on they are looked for, None: as asked. Groups
    and falls are of the `scope` asked for, such as a topic; `lost_in` and `suspect` count the partitions with a loss,
    and with one that is not proven. `unheard` are the brokers that do not answer a watcher; where none does, it is
    `cut_off`.
    """

    cluster: str
    reconstructed: bool = True
    judged_from: datetime | None = None
    judged_to: datetime | None = None
    backlog: Backlog | None = None
    closed: datetime | None = None
    rebuilding: str = ""
    blind: str = ""
    lost_since: datetime | None = None
    sources: tuple[Source, ...] = ()
    unheard: Mapping[int, Unheard] = field(default_factory=dict)
    quorum: tuple[str | None, datetime | None] = None, None
    """What a watcher was told of the controllers, and since when."""
    levels: Mapping[int | None, int] = field(default_factory=dict)
    gaps: Mapping[str, int] = field(default_factory=dict)
    not_understood: tuple[NotUnderstood, ...] = ()
    unread: tuple[str, ...] = ()
    """Sources of which a file, or all, could not be read, and why."""
    groups: tuple[PartitionGroup, ...] = ()
    falls: tuple[FallGroup, ...] = ()
    copies: tuple[str, ...] = ()
    """Sentences on brokers that are away and have what is lost."""
    told: tuple[tuple[str, str], ...] = ()
    """Rules and sentences of losses that fire and of which silver has no row any more."""
    lost_in: int = 0
    suspect: int = 0
    scope: str = ""
    replicas: frozenset[int] = frozenset()
    """Brokers that have replicas here, or are in an ISR."""
    former: frozenset[int] = frozenset()
    """Brokers that were in an ISR within the time asked for."""
    unassigned: int = 0
    """Partitions of which nobody told on which brokers they have replicas."""
    terms: Mapping[int, tuple[Stretch, ...]] = field(default_factory=dict)
    """By broker the stretches in which starts of terms on it could be seen."""
    down: Mapping[int, datetime] = field(default_factory=dict)
    """Since when brokers are down, as others tell."""
    ahead: Mapping[int, timedelta] = field(default_factory=dict)
    """By how much the clocks of brokers are ahead of the others'."""
    older: datetime | None = None
    """Up to when its rows were made by the rules of an earlier hwmark."""
    uncovered: str = ""
    """Why silver/coverage tells nothing; empty if it does."""
    unread_brokers: tuple[int, ...] = ()
    """Brokers that have replicas here and of which no source has told anything."""
    waits: Mapping[str, Wait] = field(default_factory=dict)
    """By alert rule, the states that are pending."""
    fires: Mapping[str, datetime] = field(default_factory=dict)
    """By alert rule, the begin (event time) of the first state that fires."""
    planned: str = ""
    """The planned downtimes that are open, in words."""
    alone: int = 0
    """Partitions of one replica."""
    unstarted: int = 0
    """Partitions of which no start of a term was told, so that no HW is known."""

    @property
    def cut_off(self) -> datetime | None:
        """Since when no broker has answered any watcher; None: one does, or nobody watches."""
        return max((one.since for one in self.unheard.values() if one.reason == CUT_OFF and one.since), default=None)

    @property
    def partitions(self) -> int:
        return sum(group.partitions for group in self.groups)


@dataclass(frozen=True)
class Limits:
    """When a source is silent and the job behind, in seconds of the wall clock, and since when history is asked for."""

    stale_after_s: float = 300
    behind_after_s: float = 300
    since: Since = timedelta(days=1)
    answer_s: float = 60
    """How old a watcher's last answer of a leader may be for a claim of the present, where its round does not say."""
