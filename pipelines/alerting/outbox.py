"""New alert states: those that `ops/alerts` does not hold yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pipelines.alerting.rule import WITHDRAWN as RULE_WITHDRAWN
from pipelines.alerting.rule import About, OccurrenceSettings
from pipelines.alerting.rules import RULES
from pipelines.alerting.state import END, FORGOTTEN, NOT_KNOWN, WITHDRAWN, AlertState, Size

HANDLED = "handled"


def latest(stored: Iterable[AlertState]) -> dict[tuple[str, datetime], AlertState]:
    """The last state of each episode."""
    return {state.episode: state for state in in_order(stored)}


def in_order(stored: Iterable[AlertState]) -> list[AlertState]:
    """The states as they were written; event time does not order them, as a verdict revised twice may fire again."""
    return sorted(stored, key=lambda s: (s.written_at or NEVER, s.last_ts, not s.firing))


NEVER = datetime.min.replace(tzinfo=UTC)
"""Rows of earlier versions do not say when they were written."""


def next_moment(stored: Iterable[AlertState], now: datetime) -> datetime:
    """The time `now` of the wall clock, or a later one behind all that are stored: clocks differ, and are set back."""
    return max(now, last_moment(stored) + timedelta(microseconds=1))


def last_moment(stored: Iterable[AlertState]) -> datetime:
    """The time when the last of these rows was written, or 1970."""
    return max((state.written_at for state in stored if state.written_at), default=datetime(1970, 1, 1, tzinfo=UTC))


def stamp(
    rows: Iterable[AlertState], stored: Iterable[AlertState], now: datetime, *before: datetime | None
) -> list[AlertState]:
    """Return new rows with `written_at` later than that of all stored rows and than these moments before."""
    at = max([next_moment(stored, now), *(one + timedelta(microseconds=1) for one in before if one)])
    return [replace(state, written_at=at) for state in rows]


@dataclass(frozen=True)
class Telling:
    """The last state of an episode, with time (wall clock) and size of the state that was reported last."""

    last: AlertState
    at: datetime
    size: Size

    def is_less_than(self, state: AlertState) -> bool:
        """Whether a state is about more than was told."""
        return state.exceeds(self.size) or state.adds_to(self.last)


def tellings(stored: Iterable[AlertState]) -> dict[tuple[str, datetime], Telling]:
    """The last telling of each episode; a new one begins if it fires again, or about more."""
    found: dict[tuple[str, datetime], Telling] = {}
    for state in in_order(stored):
        before = found.get(state.episode)
        found[state.episode] = next_telling(before, state)
    return found


def next_telling(before: Telling | None, state: AlertState) -> Telling:
    """Return the telling of an episode after its next row: a new one if it fires, and did not or is about more."""
    if before is None or (state.firing and (not before.last.firing or before.is_less_than(state))):
        return Telling(state, state.written_at or NEVER, state.size)
    return replace(before, last=state)


def keep_names(present: Iterable[AlertState], stored: Iterable[AlertState]) -> list[AlertState]:
    """The states under the names by which they were first reported, though their beginning is known better now."""
    known, states, found = latest(stored), list(present), []
    there = {state.episode for state in states}
    left = {s.alert_id: s for s in known.values() if s.firing and s.episode not in there}
    for state in states:
        if state.episode not in known and any(_was_told_within(state, one) for one in known.values()):
            continue
        if state.episode not in known and (before := left.pop(state.alert_id, None)):
            again = RULES[state.rule].about is About.SOURCES and state.first_ts > before.last_ts
            state = state if again else replace(state, subject=before.subject, first_ts=before.first_ts)
        found.append(state)
    return found


def _was_told_within(state: AlertState, whole: AlertState) -> bool:
    """Whether the state is part of an episode that was reported as over.

    A state with the same partitions and time is, whatever its name: a deleted topic changes the missing brokers.
    """
    if state.rule != whole.rule or state.firing or whole.firing or state.labels["cluster"] != whole.labels["cluster"]:
        return False
    rule, same = RULES[state.rule], state.alert_id == whole.alert_id
    if not same and (rule.about is not About.BROKERS or "sync" in rule.needs):
        return False
    named = whole.covers(state.names) if same or state.first_ts == whole.first_ts else whole.names >= state.names
    return named and whole.first_ts <= state.last_ts <= whole.last_ts


def handled_sources(stored: Iterable[AlertState]) -> dict[tuple[str, str], datetime]:
    """(cluster, source) of the silent sources that a person noted as handled, with the time up to which each reported.

    A source that has reported since then is no longer handled.
    """
    of_sources = [state for state in latest(stored).values() if "sources" in state.labels]
    return {
        (state.labels["cluster"], one): state.last_ts
        for state in sorted(of_sources, key=lambda state: (state.last_ts, state.firing))
        if state.labels.get(END) == HANDLED
        for one in state.names
    }


class Note(NamedTuple):
    """A person's note that an alert is handled; `cluster` is None if the id alone names the alert.

    What was told after `told_to` is not handled: an evaluation that went on meanwhile may tell it with an earlier time.
    """

    cluster: str | None
    alert_id: str
    text: str
    told_to: datetime


def settle(
    present: Iterable[AlertState],
    stored: Iterable[AlertState],
    lasts_s: Mapping[str, int],
    handled: Sequence[Note],
    now: datetime,
) -> list[AlertState]:
    """Return the states with losses expired and handled alerts ended.

    An alert that is about more than was reported fires again, and so does one that was withdrawn. A single occurrence
    that was reported as over stays over, even if this evaluator would let it fire for longer, unless the clock of the
    evaluator that ended a loss was ahead by half the time that a loss fires.

    Args:
        lasts_s: by rule, for how many seconds after it was told a loss fires.
        handled: people's notes.
        now: the wall clock.
    """
    told = tellings(stored)

    def of_one(state: AlertState) -> AlertState:
        before, lasts = told.get(state.episode), lasts_s.get(state.rule)
        if before is None or before.last.withdrawn or not state.firing or before.is_less_than(state):
            return state
        if before.last.labels.get(END) == HANDLED:
            return _handled(state, before.last.summary)
        of = (None, state.labels.get("cluster"))
        notes = [note for note in handled if note.alert_id == state.alert_id and note.cluster in of]
        if notes := [note for note in notes if note.told_to >= before.at]:
            return _handled(state, f"{state.summary}; {HANDLED}: {notes[-1].text}")
        over = lasts is not None and now >= before.at + timedelta(seconds=lasts)
        occurs = state.rule in RULES and isinstance(RULES[state.rule].defaults, OccurrenceSettings)
        told_over = occurs and not before.last.firing and (lasts is not None or state.last_ts <= before.last.last_ts)
        ahead = lasts is not None and (before.last.written_at or now) > now + timedelta(seconds=lasts / 2)
        told_over = told_over and not ahead
        return replace(state, state="resolved") if over or told_over else state

    return [of_one(state) for state in present]


def not_covered(stored: Iterable[AlertState], present: Iterable[AlertState]) -> list[AlertState]:
    """Return the stored alerts that fire and are not found at present."""
    covered = {state.episode for state in present}
    return [state for state in latest(stored).values() if state.firing and state.episode not in covered]


def without_end(
    stored: Iterable[AlertState], present: Iterable[AlertState], why: Callable[[AlertState], str | None]
) -> list[AlertState]:
    """Return firing alerts without a known end; `why` returns what is not known, None if the alert is over."""
    reasons = [(state, why(state)) for state in not_covered(stored, present)]
    return [
        replace(state, summary=f"{state.summary}; {NOT_KNOWN} {words}")
        if words and NOT_KNOWN not in state.summary
        else state
        for state, words in reasons
        if words is not None
    ]


def forget(state: AlertState) -> AlertState:
    """Return the end of an alert on a cluster that is no longer in bronze or gold."""
    words = f"{state.summary} (the cluster was forgotten)"
    return replace(state, state="resolved", summary=words, labels={**state.labels, END: FORGOTTEN})


def news(
    present: Iterable[AlertState],
    stored: Iterable[AlertState],
    was_over: Callable[[AlertState], bool] = lambda _: False,
) -> list[AlertState]:
    """The rows to append, so that a reader of the table sees `present`; none when it already does.

    An episode that began and ended, or grew and ended, between two evaluations gets both its states. If it `was_over`
    before the first one, it gets only its end: that is history, and sent to nobody. A stored alert that fires and is
    no longer found (a revised verdict, a source that reports again) is resolved.
    """
    known, rows, covered = latest(stored), [], set()
    for state in present:
        covered.add(state.episode)
        before = known.get(state.episode)
        if before is not None and before.says_the_same(state):
            continue
        more = before is not None and (state.exceeds(before.size) or state.adds_to(before))
        unseen = not was_over(state) if before is None else not before.firing and more
        if unseen and not state.firing:
            labels = {name: value for name, value in state.labels.items() if name != END}
            rows.append(replace(state, state="firing", last_ts=state.first_ts, labels=labels))
        rows.append(state)
    rows.extend(_withdrawn(state) for key, state in known.items() if state.firing and key not in covered)
    return rows


def _withdrawn(state: AlertState) -> AlertState:
    why = RULES[state.rule].withdrawn if state.rule in RULES else RULE_WITHDRAWN
    labels = {**state.labels, END: WITHDRAWN} if why == RULE_WITHDRAWN else state.labels
    return replace(state, state="resolved", summary=f"{state.summary} ({why})", labels=labels)


def _handled(state: AlertState, summary: str) -> AlertState:
    return replace(state, state="resolved", summary=summary, labels={**state.labels, END: HANDLED})
