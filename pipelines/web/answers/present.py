"""A cluster in two fields, NOW and RECORDS, and six counts with the worst of each minute of the last hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.charts.steps import step_path
from pipelines.lake.queries import moment
from pipelines.verdict import ClusterRecord, Condition, State, Verdict, losses
from pipelines.verdict.present import STATES, since
from pipelines.web.answers import last_hour
from pipelines.web.answers.common import Sentence, sentence
from pipelines.web.snapshot import Reader

_RULES = {
    State.NOT_JUDGED: ("job_behind", "watcher_cut_off"),
    State.UNKNOWN: ("stale_source", "broker_no_answer", "broker_unread"),
    State.AT_RISK: ("at_risk", "broker_no_answer", "no_controller"),
}
"""The alert rules that tell since when a state holds, where they have another name."""
_COUNTED = (
    (Condition.OFFLINE, "offline", "offline"),
    (Condition.UNDER_MIN_ISR, "under min ISR", "under_min_isr"),
    (Condition.UNDER_REPLICATED, "under-replicated", "under_replicated"),
    (Condition.HELD_BACK, "held back", "held_back"),
)
"""The name of a count, and its line over the last hour."""


@dataclass(frozen=True)
class Field:
    """A state, its sentence, its begin, the partitions in it (`1 of 70, 4 not known`), and whether it is handled."""

    state: str
    text: str
    since: datetime | None = None
    extent: str = ""
    handled: bool = False

    @property
    def rank(self) -> float:
        """Its sort weight, the worst first; a handled loss comes after every present state but OK."""
        return State.OK.rank - 0.5 if self.handled else State(self.state).rank


@dataclass(frozen=True)
class ClusterLine:
    """One cluster: its present, its records within the time asked for, and every sentence of its verdict.

    `unreached`: since when no broker has answered its watcher.
    """

    cluster: str
    ended: bool
    judged_to: datetime | None
    now: Field
    records: Field
    unreached: datetime | None
    lines: Sequence[Sentence]

    @property
    def sound(self) -> bool:
        """Whether nobody is needed."""
        return not self.wrong

    @property
    def fields(self) -> Sequence[tuple[str, Field]]:
        """The two by name, the records first if they alone are not well."""
        both = ("now", self.now), ("records", self.records)
        return both[::-1] if self.wrong == [self.records] and not self.records.handled else both

    @property
    def wrong(self) -> Sequence[Field]:
        """The fields of the present and of the records that are not well, the worse first."""
        found = [one for one in (self.now, self.records) if one.state not in ("OK", "ended")]
        return sorted(found, key=lambda one: one.rank)


@dataclass(frozen=True)
class Count:
    """A number of now of those known, and of those not known; `line` is SVG of the last hour."""

    name: str
    number: int | None
    unknown: int = 0
    most: int = 0
    line: str = ""


def cluster_line(record: ClusterRecord, one: Verdict) -> ClusterLine:
    """The line of a cluster."""
    of_now = [line for line in one.lines if line.part != "history"]
    worst = min(of_now, key=lambda line: (line.state.rank, line.part == "judged"))
    said = worst.text.removeprefix(f"{worst.state.value}: ").replace(since(record, worst.state), "")
    now = Field(worst.state.value, said, _since(record, worst.state), _extent(record, worst.state))
    if worst.state is State.OK and not any(line.part == "present" for line in of_now):
        now = Field(State.NOT_JUDGED.value, said)
    elif one.judged.ended and worst.state is State.OK:
        now = Field("ended", said, record.judged_to)
    lines = [sentence(line) for line in one.lines]
    records = records_field(record, one)
    return ClusterLine(record.cluster, one.judged.ended, one.judged.to, now, records, record.cut_off, lines)


def _extent(record: ClusterRecord, state: State) -> str:
    unknown = sum(group.partitions for group in record.groups if group.unknown)
    found = (
        unknown
        if state is State.UNKNOWN
        else sum(one.partitions for one in record.groups if not one.unknown and STATES.get(one.condition) is state)
    )
    beside = f", {unknown:,} not known" if unknown and state is not State.UNKNOWN else ""
    return f"{found:,} of {record.partitions:,}{beside}" if found else ""


def _since(record: ClusterRecord, state: State) -> datetime | None:
    rules = _RULES.get(state, (state.name.lower(),))
    told = [record.fires[rule] for rule in rules if rule in record.fires]
    told += [moment(one.since) for rule in rules if (one := record.waits.get(rule))]
    if not told and state is State.NOT_JUDGED:
        return record.cut_off or (record.backlog.oldest if record.backlog else None)
    if not told and state in (State.AT_RISK, State.UNKNOWN):
        told = [one.since for one in record.unheard.values() if one.since]
    return min(told, default=None)


def records_field(record: ClusterRecord, one: Verdict) -> Field:
    """The worst state of the records within the time asked for, with the offsets known to be lost."""
    history = [line for line in one.lines if line.part == "history"]
    line = min(history, key=lambda line: line.rank, default=None)
    worst, handled = (line.state, line.handled) if line else (State.NOT_JUDGED, False)
    gone = [group for group in record.falls if group.severity == "critical" and group.handled is handled]
    if worst is State.LOST:
        least = "at least " if record.told or any(group.proof != "proven" for group in gone) else ""
        said = f"{least}{losses.amount(gone)}" if gone else ""  # of a loss that is only told, no range is known
        said = f"{said}, handled".removeprefix(", ") if handled else said
        return Field(worst.value, said, min((group.first for group in gone), default=None), handled=handled)
    if worst is State.LOSS_NOT_EXCLUDED:
        first = min((group.first for group in record.falls if group.severity != "info"), default=None)
        return Field(worst.value, "handled" if handled else "", first, handled=handled)
    if worst is State.OK and one.judged.state is not State.NOT_JUDGED:
        return Field(worst.value, "none known lost")
    return Field(State.NOT_JUDGED.value, "")


def counts(reader: Reader, record: ClusterRecord, one: Verdict, until: datetime | None) -> list[Count]:
    """The six counts of a cluster; None if it is not judged, the requested time is over, or a loss has no count.

    If a cluster is not judged, all its partitions count as not known.
    """
    to = until or record.judged_to
    unjudged = one.judged.state is State.NOT_JUDGED or until is not None or not record.partitions
    gone = sum(group.lost_records or 0 for group in record.falls if group.severity == "critical")
    sure = not unjudged and records_field(record, one).state == State.OK.value
    lost = gone or (0 if sure else None)
    unknown = record.partitions if unjudged else sum(g.partitions for g in record.groups if g.unknown)
    lines: dict[str, last_hour.Values] = {}
    if to:
        hour = record.cluster, to - timedelta(hours=1), to
        lines = last_hour.minutes(reader, *hour) | last_hour.more_minutes(reader, *hour, lost)

    def of(name: str, number: int | None, unknown: int = 0, line: str = "", last: int | None = None) -> Count:
        values = lines.get(line or name, [])
        values = values if last is None else [*values[:-1], last][: len(values)]
        most = max([value or 0 for value in values], default=0)
        return Count(name, number, unknown, most, step_path(values, most))

    def known(condition: Condition) -> int:
        return sum(g.partitions for g in record.groups if g.condition is condition and not g.unknown)

    return [
        *(of(name, None if unjudged else known(one), unknown, line) for one, name, line in _COUNTED),
        of("not known", unknown if record.partitions and not until else None, last=None if until else unknown),
        of("lost offsets", lost),
    ]


def worst_first(lines: Iterable[ClusterLine]) -> list[ClusterLine]:
    """Clusters that need somebody, then the others by name."""
    return sorted(lines, key=lambda line: (min([one.rank for one in line.wrong], default=len(State)), line.cluster))
