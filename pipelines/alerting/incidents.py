"""Incidents: alerts with one first cause, put together. A function of the rows of `ops/alerts` and `ops/downtimes`.

An alert joins an open incident of its cluster that had it before, that names one of its brokers, or that began within
JOINS of it. If one of the two names no broker, a shared partition is enough. Another broker later is another
incident, linked; two never become one. An incident ends once none of its alerts fired for WELL. A loss keeps it open
for longer. After WELL with nothing but losses, a new alert opens another incident: it would send no message otherwise.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from pipelines.alerting.downtime import Downtime, end_of_downtime
from pipelines.alerting.incident_title import title, weight
from pipelines.alerting.outbox import in_order
from pipelines.alerting.rule import SEVERITIES
from pipelines.alerting.rules import RULES
from pipelines.alerting.state import LABELLED, AlertState
from pipelines.verdict import words
from schemas import incidents as schema

WELL = timedelta(seconds=300)
JOINS = timedelta(seconds=60)
FLAPPING = 5
"""From so many returns on an incident is flapping, a warning at least."""
OPEN, PLANNED, ENDED = "open", "planned", "ended"
OWN_RULES = frozenset({"job_behind", "notify_failing", "watcher_cut_off"})
"""Rules about hwmark itself: their alerts are incidents of no cluster."""
LOSSES = frozenset(name for name, rule in RULES.items() if rule.from_told)
"""Rules with alerts that no telemetry ends; they end a fixed time after they were reported, or by a note."""


@dataclass(frozen=True)
class Incident:
    """One row of `ops/incidents`; `incident_id` is that of all its states, times are aware and in UTC."""

    incident_id: str
    cluster: str
    severity: str
    state: str
    cause: str
    first_ts: datetime
    last_ts: datetime
    subject: str
    summary: str
    alert_ids: Sequence[str]
    firing: Sequence[str]
    brokers: Sequence[int]
    topics: Sequence[str]
    partitions: Sequence[str]
    offline: int
    lost_offsets: int | None
    returns: int
    linked: str | None
    well_since: datetime | None
    planned_until: datetime | None
    written_at: datetime
    groups: Sequence[str] | None = None
    groups_asked: datetime | None = None
    readers: Mapping[str, str] | None = None


def standing(returns: int, first_ts: datetime, planned_until: datetime | None = None) -> str:
    """`planned downtime until …`, or `again, 12 times since …`; empty if neither holds."""
    planned = f"planned downtime until {words.clock(planned_until)}" if planned_until else ""
    again = f"again, {words.count(returns, 'time')} since {words.clock(first_ts)}" if returns else ""
    return ", ".join(filter(None, (planned, again)))


def incidents(
    states: Iterable[AlertState], windows: Sequence[Downtime], now: datetime, stored: Iterable[Incident] = ()
) -> list[Incident]:
    """Every state of every incident up to `now` (wall clock), in the order in which they came about.

    An alert stays in the incident that it has joined in `stored`, by whatever rules: that one was told.
    """
    by_moment = defaultdict[datetime, list[AlertState]](list)
    for state in in_order(states):
        by_moment[state.written_at or _BEFORE].append(state)
    now = max([now, *by_moment])
    turns = {moment for window in windows for moment in (window.begins, window.until) if moment <= now}
    opened, rows, joined = list[_Open](), list[Incident](), _joined(stored)
    for moment in sorted({*by_moment, *turns, now}):
        rows += _ended(opened, moment)
        opened = [one for one in opened if one.row is None or one.row.state != ENDED]
        changed = {id(_take(state, opened, windows, joined)) for state in by_moment.get(moment, ())}
        of_moment = [one for one in opened if id(one) in changed or moment in turns]
        rows += [row for one in of_moment for row in (one.turn(moment, windows), one.was_over(moment)) if row]
    return rows


def untold(
    stored: Iterable[Incident], states: Iterable[AlertState], windows: Sequence[Downtime], now: datetime
) -> list[Incident]:
    """The states that are not stored; what only differs from the last one stored comes about `now`, behind it.

    So nothing is passed over that a clock set back, a window that was ended late or an earlier version dates before
    what is stored; an incident that is stored as open, and that no row of `ops/alerts` makes any more, ends.
    """
    stored = list(stored)
    last = {row.incident_id: row for row in stored}
    quiet = _quiet_until(stored)
    states = [one for one in states if (one.written_at or _BEFORE) >= quiet.get(_cluster(one), _BEFORE)]
    now = max([now, *(row.written_at + timedelta(microseconds=1) for row in last.values())])
    computed, news = dict[str, Incident](), list[Incident]()
    for each in incidents(states, windows, now, stored):
        before = last.get(each.incident_id)
        row = each if before is None else _keep_groups(each, before)
        computed[row.incident_id] = row
        news += [row] if before is None or row.written_at > before.written_at else []
    told = last | {row.incident_id: row for row in news}
    gone = (replace(row, state=ENDED, firing=[]) for name, row in last.items() if name not in computed)
    open_ones = (row for row in gone if last[row.incident_id].state != ENDED)
    differ = [row for row in (*computed.values(), *open_ones) if not _is_same(row, told[row.incident_id])]
    return [*news, *(replace(row, written_at=now) for row in differ)]


def _keep_groups(row: Incident, before: Incident) -> Incident:
    """Return it with the consumer groups of the state before, unless only now something is lost."""
    if before.lost_offsets is None and row.lost_offsets is not None:
        return row
    return replace(row, groups=before.groups, groups_asked=before.groups_asked, readers=before.readers)


def _quiet_until(stored: Iterable[Incident]) -> dict[str, datetime]:
    """Return by cluster the last beginning of a stored incident before which all others had ended.

    What `ops/alerts` got before that is of these alone. Incidents are computed anew from there on, not from the
    beginning of the lake.
    """
    begun, ends = dict[str, Incident](), dict[str, datetime]()
    for row in sorted(stored, key=lambda row: row.written_at):
        begun.setdefault(row.incident_id, row)
        ends[row.incident_id] = row.written_at if row.state == ENDED else _NEVER
    quiet, busy_until = dict[str, datetime](), dict[str, datetime]()
    for name, row in begun.items():
        before = busy_until.get(row.cluster, _BEFORE)
        if before < row.written_at:
            quiet[row.cluster] = row.written_at
        busy_until[row.cluster] = max(before, ends[name])
    return quiet


def _is_same(row: Incident, other: Incident) -> bool:
    return replace(row, written_at=other.written_at) == other


def to_arrow(rows: Iterable[Incident]) -> pa.Table:
    """Rows in the schema of `ops/incidents`."""
    each = [vars(row) | {"readers": row.readers and sorted(row.readers.items())} for row in rows]
    return pa.Table.from_pylist(each, schema=schema.ARROW)


def from_arrow(rows: pa.Table) -> list[Incident]:
    """The states that `ops/incidents` holds, in the order in which they came about."""
    found = [
        Incident(**row | {"readers": None if row["readers"] is None else dict(row["readers"])})
        for row in rows.select(schema.ARROW.names).to_pylist()
    ]
    each = {(row.incident_id, row.written_at): row for row in found}  # two who evaluated at once wrote the same twice
    return sorted(each.values(), key=lambda row: row.written_at)


_BEFORE, _NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass
class _Open:
    """An incident that has not ended, and `members`, the last state of the last episode of each of its alerts."""

    incident_id: str
    cluster: str
    linked: str | None
    head: AlertState
    brokers: set[int] = field(default_factory=set)
    members: dict[tuple[str, datetime], AlertState] = field(default_factory=dict)
    alert_ids: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    partitions: set[str] = field(default_factory=set)
    vast: set[str] = field(default_factory=set)
    first_ts: datetime = _NEVER
    last_ts: datetime = _BEFORE
    severity: str = SEVERITIES[0]
    returns: int = 0
    returned: bool = False
    well_since: datetime | None = None
    only_lost_since: datetime | None = None
    row: Incident | None = None

    def takes(self, state: AlertState) -> bool:
        """Whether a new alert may join: a loss always, another one until only losses have fired for WELL.

        Except that of losses of severity info alone and what is graver none joins the other: it would stay open for a
        day.
        """
        if state.rule in LOSSES:
            slight = state.severity == SEVERITIES[0] != self.severity
            return not slight or any(one.rule in LOSSES for one in self.members.values())
        if self.severity == SEVERITIES[0] != state.severity and self.head.rule in LOSSES:
            return False
        since = self.only_lost_since
        return since is None or (state.written_at or _BEFORE) < since + WELL

    def update(self, state: AlertState) -> None:
        """Take the next state of one of its alerts."""
        before = self.members.get(state.episode)
        again = self.well_since is not None and state.alert_id in self.alert_ids
        self.returned |= state.firing and again and not (before and before.firing)
        earlier = self.alert_ids.get(state.alert_id, state.episode)
        if earlier != state.episode and not self.members[earlier].firing:
            del self.members[earlier]  # or what flaps for days costs more with each return
        self.alert_ids[state.alert_id] = state.episode
        self.members[state.episode] = state
        self.partitions |= _partitions(state)
        self.vast |= _vast(state)
        if not self.brokers or abs(state.first_ts - self.head.first_ts) <= JOINS:
            self.brokers |= state.brokers
        self.first_ts, self.last_ts = min(self.first_ts, state.first_ts), max(self.last_ts, state.last_ts)
        if state.firing:
            self.severity = max(self.severity, state.severity, key=SEVERITIES.index)

    def turn(self, at: datetime, windows: Sequence[Downtime]) -> Incident | None:
        """Its state from a moment on; None if nothing in it is new."""
        firing = [state for state in self.members.values() if state.firing]
        if firing:
            self.well_since = None
        elif self.well_since is None:
            self.well_since = at
        if any(state.rule not in LOSSES for state in firing):
            self.only_lost_since = None
        elif self.only_lost_since is None:
            self.only_lost_since = at
        self.returns, self.returned = self.returns + self.returned, False  # once, whatever returned together
        if self.returns >= FLAPPING:
            self.severity = max(self.severity, "warning", key=SEVERITIES.index)
        until = self._planned(firing, windows, at)
        # What was told as an incident is none that was planned.
        sent = self.row is not None and self.row.state == OPEN
        planned = until is not None or (not firing and self.row is not None and self.row.state == PLANNED)
        return self._as(PLANNED if planned and not sent else OPEN, firing, until, at)

    def was_over(self, at: datetime) -> Incident | None:
        """Return the ended state of one that was well for WELL by the time it was first seen."""
        over = self.row is not None and self.row.state == OPEN and self.row.written_at == at and self.well_since == at
        if not over or at - self.last_ts < WELL:
            return None
        return self._as(ENDED, [], None, at + timedelta(microseconds=1))

    def end(self) -> Incident | None:
        """Return the ended state, dated WELL after its last alert stopped firing."""
        assert self.well_since is not None
        return self._as(ENDED, [], None, self.well_since + WELL)

    def _planned(self, firing: Sequence[AlertState], windows: Sequence[Downtime], at: datetime) -> datetime | None:
        """The time until which downtimes explain all that fires; None if they do not."""
        untils = [_planned_until(state, windows, at) for state in firing]
        return min((until for until in untils if until), default=None) if all(untils) else None

    def _as(self, state: str, firing: Sequence[AlertState], until: datetime | None, at: datetime) -> Incident | None:
        each = list(self.members.values())
        remaining = [one for one in each if not one.withdrawn] or each
        topics = _topics(self.partitions)
        lost = [size for one in remaining if one.rule == "loss" and (size := one.size[1]) is not None]
        row = Incident(
            self.incident_id, self.cluster, self.severity, state, self.head.rule,
            self.first_ts, self.last_ts, self.head.subject,
            title(self.cluster, firing or remaining, self.returns >= FLAPPING),
            list(self.alert_ids), list(dict.fromkeys(one.alert_id for one in firing)),
            sorted(self.brokers), sorted(topics), sorted(self.partitions, key=lambda name: (len(name), name)),
            sum(one.size[0] or 0 for one in firing if one.rule == "offline"), sum(lost) if lost else None,
            self.returns, self.linked, self.well_since, until, at,
        )  # fmt: skip
        if self.row is not None and _is_same(row, self.row):
            return None
        self.row = row
        return row


def _ended(opened: Iterable[_Open], by: datetime) -> Iterator[Incident]:
    """The ends of incidents in which nothing has fired for WELL at the moment `by`, in order of time."""
    due = [one for one in opened if one.well_since is not None and one.well_since + WELL <= by]
    yield from (row for one in sorted(due, key=lambda one: one.well_since or by) if (row := one.end()))


def _planned_until(state: AlertState, windows: Sequence[Downtime], at: datetime) -> datetime | None:
    return end_of_downtime(state, [window for window in windows if window.begins <= at < window.until])


def _joined(stored: Iterable[Incident]) -> dict[tuple[str, datetime], str]:
    """The ids of incidents, by alert and the moment in which it joined."""
    found, before = dict[tuple[str, datetime], str](), defaultdict[str, Sequence[str]](tuple)
    for row in stored:
        found |= {(one, row.written_at): row.incident_id for one in row.alert_ids[len(before[row.incident_id]) :]}
        before[row.incident_id] = row.alert_ids
    return found


def _take(
    state: AlertState, opened: list[_Open], windows: Sequence[Downtime], joined: Mapping[tuple[str, datetime], str]
) -> _Open | None:
    """Hand an alert's state to its incident, or open one, and return that; None if the state is in no incident."""
    own = next((one for one in reversed(opened) if state.episode in one.members), None)
    if state.firing and (own is None or not (own.members[state.episode].firing or own.takes(state))):
        planned = _planned_until(state, windows, state.written_at or _BEFORE) is not None
        stored = joined.get((state.alert_id, state.written_at or _BEFORE))
        own = next((one for one in opened if one.incident_id == stored), None)
        own = own or (None if stored == _name(state) else _find_to_join(state, opened, planned=planned))
        own = own or _open(state, opened)
    if own is not None:
        own.update(state)
    return own


def _find_to_join(state: AlertState, opened: Iterable[_Open], *, planned: bool) -> _Open | None:
    """Return an incident that had the alert, or else shares a broker or partition, or else began at about that time.

    One that is `planned` joins none that was told of others, or of what is less grave, which a message would raise.
    """
    cluster, brokers, partitions, vast = _cluster(state), state.brokers, _partitions(state), _vast(state)
    shares = near = None
    for one in opened:
        if one.cluster != cluster or not one.takes(state):
            continue
        if state.alert_id in one.alert_ids:
            return one
        told = planned and one.row is not None and one.row.state == OPEN
        if told and not (brokers & one.brokers and weight(state) <= max(map(weight, one.members.values()))):
            continue
        by_broker = brokers and one.brokers
        if shares is None and (brokers & one.brokers if by_broker else _share(partitions, vast, one)):
            shares = one
        if near is None and abs(state.first_ts - one.head.first_ts) <= JOINS:
            near = one
    return shares or near


def _share(partitions: set[str], vast: set[str], one: _Open) -> bool:
    """Whether an alert and an incident share a partition, or may, as one names only part of a topic's."""
    same = partitions & one.partitions or (one.vast and one.vast & _topics(partitions))
    return bool(same or (vast and vast & _topics(one.partitions)))


def _topics(partitions: Iterable[str]) -> set[str]:
    return {name.rpartition("-")[0] for name in partitions}


def _vast(state: AlertState) -> set[str]:
    """The topics of an alert that names only part of its partitions; it may be about any partition of theirs."""
    return state.topics if (state.size[0] or 0) > LABELLED else set()


def _partitions(state: AlertState) -> set[str]:
    return state.names if "partitions" in state.labels else set()


def _open(state: AlertState, opened: list[_Open]) -> _Open:
    cluster = _cluster(state)
    names = _partitions(state)
    linked = next((one.incident_id for one in opened if one.cluster == cluster and names & one.partitions), None)
    opened.append(_Open(_name(state), cluster, linked, state))
    return opened[-1]


def _name(state: AlertState) -> str:
    """The id of the incident that a state opens."""
    own = "\0".join((_cluster(state), state.alert_id, state.first_ts.isoformat(), str(state.written_at)))
    return hashlib.sha256(own.encode()).hexdigest()[:16]


def _cluster(state: AlertState) -> str:
    return "" if state.rule in OWN_RULES else state.labels.get("cluster", "")
