"""The third part of a verdict: the losses of a cluster within the requested time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from pipelines.verdict import losses, words
from pipelines.verdict.coverage import coverage
from pipelines.verdict.judged import Judged, missing, unreadable
from pipelines.verdict.present import pending_since
from pipelines.verdict.records import ClusterRecord, FallGroup, Limits, State
from pipelines.verdict.since import Since


def history(record: ClusterRecord, judged: Judged, limits: Limits) -> list[tuple[State, str, bool]]:
    """Return (state, sentence, whether it is on a handled loss) for each state of a cluster's history.

    Empty for a cluster that was never reconstructed.
    """
    if not record.reconstructed or record.judged_to is None:
        return []
    when = _when(record, limits.since, record.judged_to)
    if record.blind:
        return [(State.NOT_JUDGED, f"{unreadable(record.blind)}; whether anything was lost is not known", False)]
    found = [
        (
            state,
            f"{sentence} ({_when(record, limits.since, record.judged_to, groups)})",
            bool(groups) and groups[0].handled,
        )
        for state, groups, text in _found(record)
        for sentence in (words.sentences(text, f"{text.partition(': ')[0]}: ") if groups else [text])
    ]
    # These sentences are as grave as the first one on a loss.
    beside = [*record.copies, *_by_earlier_rules(record, limits.since)]
    found += [(found[0][0], one, found[0][2]) for text in beside if found for one in words.sentences(text)]
    if judged.state is State.NOT_JUDGED:
        after = f"whether anything was lost after {words.clock(record.judged_to)} is not judged"
        before = "" if found else f"; before that no loss was found ({when})"
        return [*found, (State.OK, after + before, False)]
    return found or [(*one, False) for one in _none(record, limits.since, record.judged_to)]


def start(since: Since, judged_to: datetime) -> datetime | None:
    """The beginning of the requested time, of a cluster judged up to `judged_to`; None: since the cluster began."""
    return judged_to - since if isinstance(since, timedelta) else since


def _found(record: ClusterRecord) -> Iterator[tuple[State, Sequence[FallGroup], str]]:
    for rule, text in record.told:
        yield State.LOST if rule == "loss" else State.LOSS_NOT_EXCLUDED, (), text
    yield from _lost(record, [group for group in record.falls if not group.handled])
    for rule in ("unproven_loss", "loss_not_excluded"):
        for text in pending_since(State.LOSS_NOT_EXCLUDED, rule, record):
            yield State.LOSS_NOT_EXCLUDED, (), text
    for state, groups, text in _lost(record, [group for group in record.falls if group.handled]):
        yield state, groups, text.replace(": ", ", handled: ", 1)


def _lost(record: ClusterRecord, falls: Sequence[FallGroup]) -> Iterator[tuple[State, Sequence[FallGroup], str]]:
    gone = [group for group in falls if group.severity == "critical"]
    suspect = [group for group in falls if group.severity == "warning" and group.name != losses.NOT_EXCLUDED]
    open_ = [group for group in falls if group.name == losses.NOT_EXCLUDED]
    if gone:
        yield State.LOST, gone, losses.lost(gone, min(record.lost_in, sum(group.partitions for group in gone)))
    if suspect:
        within = min(record.suspect, sum(group.partitions for group in suspect))
        yield State.LOSS_NOT_EXCLUDED, suspect, losses.may_be_lost(suspect, within)
    if open_:
        yield State.LOSS_NOT_EXCLUDED, open_, losses.not_excluded(open_)


def _none(record: ClusterRecord, since: Since, judged_to: datetime) -> list[tuple[State, str]]:
    """The sentences if nothing shows a loss: OK names only the time in which a loss would have been seen."""
    first = _first(record, since, judged_to)
    seen, level = coverage(record, first, judged_to), f"at {words.levels(record.levels)}"
    holes = [*seen.holes, *missing(record), *_by_earlier_rules(record, since)]
    if not holes:
        return [(State.OK, f"no loss is known {_from_to(seen.since, seen.until)}, {level}")]
    state, said = State.LOSS_NOT_EXCLUDED, "a loss is not excluded"
    if record.partitions and (record.unstarted == record.partitions or not record.terms):
        state, said = State.NOT_JUDGED, "whether anything was lost is not known"
    said = f"{said} {_from_to(first, judged_to)}, {level}"
    why = "; ".join(holes)
    whole = f"{said}: {why}"
    return [(state, text) for text in ([whole] if len(whole) <= words.SENTENCE else [said, *words.sentences(why)])]


def _by_earlier_rules(record: ClusterRecord, since: Since) -> Iterator[str]:
    """The sentence on the part of the requested time that an earlier hwmark judged."""
    first = _first(record, since, record.judged_to) if record.judged_to else None
    if record.older and (first is None or first < record.older):
        yield f"judged by an earlier hwmark until {words.clock(record.older)}: `hwmark run --rebuild` judges it anew"


def _first(record: ClusterRecord, since: Since, judged_to: datetime) -> datetime | None:
    """The beginning of the time that sentences are about, not before the telemetry; None: since the cluster began."""
    first, begun = record.lost_since or start(since, judged_to), record.judged_from
    return begun if begun is not None and (first is None or first < begun) else first


def _from_to(first: datetime | None, last: datetime) -> str:
    return f"from {words.clock(first) if first else 'its beginning'} to {words.clock(last)}"


def _when(record: ClusterRecord, since: Since, judged_to: datetime, falls: Sequence[FallGroup] = ()) -> str:
    """The time that a sentence is about, with all of these falls in it."""
    first = _first(record, since, judged_to)
    first = first and min([first, *(fall.first for fall in falls)])
    return _from_to(first, max([judged_to, *(fall.last for fall in falls)]))
