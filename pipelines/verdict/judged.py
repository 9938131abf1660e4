"""The first part of a verdict: up to when a cluster is judged, how well it is seen, and whether it is judged at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipelines.verdict import words
from pipelines.verdict.records import LATE, ClusterRecord, Limits, NotUnderstood, Source, State, Unheard
from schemas.brokers import CUT_OFF

ANEW = "anew"
"""The kind of gap where a source's numbers start anew inside an epoch: nothing of what it reports since counts."""


@dataclass(frozen=True)
class Judged:
    """Up to when and how well a cluster is judged; `silent` are sources that report no more."""

    state: State
    to: datetime | None
    ended: bool
    silent: tuple[Source, ...]
    text: str
    answered: timedelta | None = None
    """How old the oldest of the last answers to a watcher is."""
    age: timedelta | None = None
    """How old what is said of partitions is: answers that `run` has not read say nothing of them."""
    blind: timedelta | None = None
    """For how long watchers have seen nothing, where nothing else keeps the cluster from being judged."""
    unanswered: frozenset[int] = frozenset()
    """Brokers that only watchers tell of, and whose last answer is too old for a claim of the present."""


def judged(record: ClusterRecord, limits: Limits, now: datetime) -> Judged:
    """Whether a cluster is judged at the moment `now` of the wall clock, and its sentence."""
    behind, blind = _behind(record, limits, now), blind_since(record, limits, now)
    why, seen_nothing = None, None
    if record.blind:
        why = unreadable(record.blind)
    elif blind and not behind:
        why, seen_nothing = cut_off(*blind), now - blind[0]
    state = State.NOT_JUDGED if behind or why else State.OK
    quiet = silent(record, limits, now)
    said = _not_judged(record, why, now) if state is State.NOT_JUDGED else _judged(record, quiet, now)
    answered = answers_age(record, now)
    age = answered if answered is None or record.judged_to is None else max(answered, now - record.judged_to)
    told = ended(record), quiet, "; ".join(said), answered, age
    return Judged(state, record.judged_to, *told, seen_nothing, frozenset(unanswered(record, limits, now)))


def ended(record: ClusterRecord) -> bool:
    """Whether a drain has closed the cluster, the job has read that and all else, and nothing was reported since."""
    if record.closed is None or record.backlog is not None:
        return False
    return all(source.reported_to <= record.closed for source in record.sources)


def silent(record: ClusterRecord, limits: Limits, now: datetime) -> tuple[Source, ...]:
    """The sources that report no more, by the wall clock; none of a cluster that has ended."""
    if ended(record):
        return ()
    oldest = now - timedelta(seconds=limits.stale_after_s)
    return tuple(source for source in record.sources if source.reported_to < oldest)


def unanswered(record: ClusterRecord, limits: Limits, now: datetime) -> set[int]:
    """The brokers that only watchers tell of, none of which had an answer lately; none of a cluster that has ended."""
    last = {b: max((s for s in record.sources if s.broker_id == b), key=_told) for b in _brokers(record)}
    watched = {b: one for b, one in last.items() if one.watched and not ended(record)}
    return {b for b, one in watched.items() if now - one.reported_to > holds(one, limits)}


def late(record: ClusterRecord, limits: Limits, now: datetime) -> dict[int, Unheard]:
    """Return the brokers with a last answer too old to tell their present state.

    Empty if all watched brokers are late: then the watcher itself is silent. A broker that is in `record.unheard` is
    not returned again.
    """
    last = _last_answers(record)
    found = unanswered(record, limits, now)
    return {} if found >= last.keys() else {b: Unheard(LATE, last[b], "") for b in found - record.unheard.keys()}


def told_by_logs(record: ClusterRecord, limits: Limits, now: datetime) -> ClusterRecord:
    """The record without what a watcher that is cut off says of brokers, where logs of the cluster are read, too."""
    oldest = now - timedelta(seconds=limits.stale_after_s)
    if all(source.watched or source.reported_to < oldest for source in record.sources):
        return record
    return replace(record, unheard={b: one for b, one in record.unheard.items() if one.reason != CUT_OFF})


def blind_since(record: ClusterRecord, limits: Limits, now: datetime) -> tuple[datetime, bool] | None:
    """Since when the watchers of a cluster see nothing of it, and whether they say so themselves; None: they see it, it
    has ended, or logs of it are read, too."""
    if ended(record):
        return None
    if record.cut_off:
        return record.cut_off, True
    brokers = _brokers(record)
    if not brokers or unanswered(record, limits, now) < brokers:
        return None
    missed = [one.since for broker, one in record.unheard.items() if broker in brokers and one.since]
    if len(missed) == len(brokers):
        return max(missed), True
    return max(source.reported_to for source in record.sources), False


def holds(source: Source, limits: Limits) -> timedelta:
    """For how long a claim of the present may rest on the last round of a watcher's source."""
    return timedelta(seconds=limits.answer_s if source.holds_s is None else source.holds_s)


def answers_age(record: ClusterRecord, now: datetime) -> timedelta | None:
    """The age of the oldest last answer, among brokers that answer a watcher; None without a watcher."""
    last = [ts for broker, ts in _last_answers(record).items() if broker not in record.unheard]
    return now - min(last) if last else None


def _last_answers(record: ClusterRecord) -> dict[int, datetime]:
    """The last answer of each broker to any watcher."""
    last: dict[int, datetime] = {}
    for source in record.sources:
        if source.watched:
            last[source.broker_id] = max(source.reported_to, last.get(source.broker_id, source.reported_to))
    return last


def _told(source: Source) -> datetime:
    return source.reported_to


def _brokers(record: ClusterRecord) -> set[int]:
    return {source.broker_id for source in record.sources}


def not_judged_from(reconstructed: bool, oldest: datetime, behind_after_s: float) -> datetime:
    """From when on (wall clock) a cluster counts as not judged whose `oldest` commit of bronze waits to be read.

    At once, where nothing of it was ever reconstructed: there is no earlier verdict that could still hold.
    """
    return oldest + timedelta(seconds=behind_after_s) if reconstructed else oldest


def not_judged(reconstructed: bool, oldest: datetime) -> str:
    """Why a cluster is not judged; nothing in it changes while only time passes."""
    why = (
        f"`hwmark run` has not read what bronze got since {words.clock(oldest)}"
        if reconstructed
        else "nothing of it is reconstructed, so neither its state nor its losses are known"
    )
    return f"{State.NOT_JUDGED.value}: {why}"


def cut_off(since: datetime, says_so: bool) -> str:
    """That no broker answers the watcher, or that it tells nothing itself; nothing in it changes while only time
    passes."""
    if says_so:
        return (
            f"{State.NOT_JUDGED.value}: no broker has answered the watcher since {words.clock(since)}: its host or "
            "network is cut off, or all brokers are down; a second watcher elsewhere, or a broker's log, would tell"
        )
    return (
        f"{State.NOT_JUDGED.value}: the watcher has told nothing since {words.clock(since)}: it is late, stopped, "
        f"paused or cut off from the lake; look at its host and start `hwmark watch` again, or {CLOSING}"
    )


CLOSING = "`hwmark run --once --drain` closes a recording that is complete"
REBUILT = "silver is being made anew from bronze"
TAKEN_OUT = "its rows are being taken out"


def unreadable(why: str) -> str:
    """That a cluster is not judged because of a table that is missing, or cannot be read."""
    return f"{State.NOT_JUDGED.value}: {restore(why)}"


def restore(why: str) -> str:
    """Why a file or table is of no use, and what to do."""
    anew = ", or start anew with `hwmark run --rebuild`" if why.startswith(("silver/", "gold/", "_run/")) else ""
    return f"{why}: restore it{anew}"


def silence(sources: Sequence[Source]) -> str:
    """The sources that no longer report, and since when; it does not change while only time passes."""
    first, last = (words.clock(end(source.reported_to for source in sources)) for end in (min, max))
    since = f"silent since {first}" if first == last else f"silent, the first since {first}"
    names = words.listed(sorted(source.source_id for source in sources))
    who = words.brokers(source.broker_id for source in sources if source.broker_id >= 0)
    of = f" of {who}" if any(source.broker_id >= 0 for source in sources) else ""
    return f"{words.count(len(sources), 'source')}{of} {since}: {names}"


def _behind(record: ClusterRecord, limits: Limits, now: datetime) -> bool:
    if record.rebuilding or record.backlog is None:
        return bool(record.rebuilding)
    return not_judged_from(record.reconstructed, record.backlog.oldest, limits.behind_after_s) < now


def _not_judged(record: ClusterRecord, blind: str | None, now: datetime) -> Iterator[str]:
    if record.rebuilding:
        what = TAKEN_OUT if record.rebuilding.startswith("hwmark forget") else REBUILT
        yield f"{State.NOT_JUDGED.value}: {what} by `{record.rebuilding}`"
    elif blind:
        yield blind
    elif backlog := record.backlog:
        yield not_judged(record.reconstructed, backlog.oldest)
        yield f"{words.count(backlog.events, 'event')} to read, the oldest for {words.span(now - backlog.oldest)}"
    if record.judged_to:
        yield f"judged up to {words.clock(record.judged_to)}, at {words.levels(record.levels)}"


def _judged(record: ClusterRecord, quiet: Sequence[Source], now: datetime) -> Iterator[str]:
    if record.judged_to is None:
        yield "nothing has been reported of any partition yet"
    elif ended(record):
        yield f"judged up to its end at {words.clock(record.judged_to)}, at {words.levels(record.levels)}"
    else:
        ago = words.span(now - record.judged_to)
        yield f"judged up to {words.clock(record.judged_to)}, {ago} ago, at {words.levels(record.levels)}"
    if quiet:
        yield silence(quiet)
    yield from missing(record)


def missing(record: ClusterRecord) -> Iterator[str]:
    """The known gaps of the telemetry."""
    if gaps := record.gaps.get("gap", 0):
        yield f"{words.count(gaps, 'gap')} in its telemetry"
    if clocks := record.gaps.get("clock", 0):
        yield f"{words.count(clocks, 'clock')} found wrong"
    if others := record.gaps.get("contradiction", 0):
        yield f"{words.count(others, 'row')} that contradict others: one log or disk is of another cluster, or damaged"
    for broker, by in record.ahead.items():
        yield f"the clock of {words.brokers([broker])} is at least {int(by.total_seconds()):,} s ahead"
    if anew := record.gaps.get(ANEW, 0):
        yield f"{words.count(anew, 'source')} that began numbers anew inside an epoch, and counts as repeats since"
    if record.unread:
        yield f"not read: {words.listed([why.partition(', its first line')[0] for why in record.unread])}"
    if record.not_understood:
        yield _not_understood(record.not_understood)


def _not_understood(found: Sequence[NotUnderstood]) -> str:
    most = max(found, key=lambda one: one.lines)
    lines = words.count(sum(one.lines for one in found), "line")
    sources = words.listed([one.source_id for one in found])
    return f'{lines} of {sources} not understood, such as "{most.shape}"'
