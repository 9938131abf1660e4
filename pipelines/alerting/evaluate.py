"""Alerts of a lake: read the evidence, apply the rules, write what is new to `ops/alerts` and `ops/incidents`."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.alerting.alerts import carried_states, conditions, group_conditions, told_states, waits
from pipelines.alerting.conditions import SECOND, Condition
from pipelines.alerting.episodes import Episode, states
from pipelines.alerting.evidence import SCHEMAS, Evidence
from pipelines.alerting.incidents import LOSSES, Incident
from pipelines.alerting.incidents import to_arrow as incidents_to_arrow
from pipelines.alerting.lookup import read_incidents, read_states, untold_incidents
from pipelines.alerting.outbox import Note, forget, keep_names, latest, news, not_covered, settle, stamp, without_end
from pipelines.alerting.reading import MADE_ANEW, Reading, read
from pipelines.alerting.rules import RULES, AlertRules, load
from pipelines.alerting.silence import STALE_SOURCE
from pipelines.alerting.state import END, LABELLED, AlertState, to_arrow
from pipelines.alerting.step import Step, last_step, take_step
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.lake import Lake
from pipelines.lake.queries import microseconds, moment
from pipelines.lake.roles import Held, hold
from pipelines.verdict import words
from pipelines.verdict.judged import REBUILT
from schemas import alerts, incidents

_log = logging.getLogger("hwmark.alerting")
RESTORED_S = 60
"""A present that lies this many seconds before the last evaluation of its cluster shows tables from a backup."""
OF_ANOTHER_S = 3_600
"""Seconds for which a rule that is off here counts as judged by another evaluator with its own settings."""


def evaluate(
    lake: str,
    *,
    rules_file: str | Path | None = None,
    now: datetime | None = None,
    interval_s: float = 0,
    storage_options: StorageOptions | None = None,
    wait_s: float = 30,
    write: bool = True,
) -> list[AlertState]:
    """Return firing alerts and those that this evaluation resolved; `ops/alerts` and `ops/incidents` get new rows.

    Without `write` the lake stays as it is, and if reported states cannot be read, all present ones fire anew.

    `now` is the wall clock (aware), for the freshness of sources and of the job, which takes what is new every
    `interval_s` seconds, or as it says itself, and for how long losses are notified. A loss, and whatever else holds,
    fires at its first evaluation, however late. With nothing new the table stays as it is.
    Raises UsageError for bad rules, RoleHeld while another process evaluates for longer than `wait_s` seconds.
    """
    place, now = Lake(lake, storage_options or {}), now or datetime.now(UTC)
    found = evaluate_all(place, load(rules_file), now, interval_s, wait_s=wait_s, write=write, anew=not write)[0]
    resolved = [state for state in latest(found.new).values() if not state.firing]
    return [state for state in found.present if state.firing] + resolved


def evaluate_all(
    place: Lake,
    rules: AlertRules,
    now: datetime,
    interval_s: float,
    *,
    wait_s: float = 30,
    write: bool = True,
    anew: bool = False,
) -> tuple[Assessment, list[Incident], str]:
    """Evaluate once; return the assessment, the states of all incidents, and why these cannot be read, or empty.

    Without `write` the lake stays as it is; `anew`: if reported states cannot be read, all present ones fire anew.
    Raises RoleHeld as `evaluate` does.
    """
    with hold(place.root, "alerts", place.storage_options, wait_s=wait_s) if write else nullcontext(Held()) as held:
        try:
            step, stored = last_step(place), read_states(place)
        except Exception as error:
            if not anew:
                raise
            _log.warning("what was told cannot be read: %s", error)
            step, stored = Step(), []
        found = decide(read(place, rules, step, now, interval_s), rules, stored, step, now)
        held.check()
        if write and found.new:
            place.append(alerts.TABLE, to_arrow(found.new))
            held.check()
        told = _incidents(place, found.stored + found.new, now, write=write)
        if write:
            held.check()
            take_step(place, found.step)
    _log.debug("%d alerts: %d new states", len(found.present), len(found.new))
    return found, *told


def _incidents(place: Lake, states: Sequence[AlertState], now: datetime, *, write: bool) -> tuple[list[Incident], str]:
    """Append the rows that `ops/incidents` lacks; after a kill the next evaluation appends the same.

    If the table cannot be read, alerts are reported one by one.
    """
    try:
        stored = read_incidents(place)
    except Exception as error:
        why = f"ops/incidents cannot be read, so alerts are told one by one: {' '.join(str(error).split())[:300]}"
        _log.warning(why)
        return [], why
    try:
        if (started := untold_incidents(place, stored, states, now)) and write:
            place.append(incidents.TABLE, incidents_to_arrow(started))
        return [*stored, *started], ""
    except Exception as error:
        _log.warning("ops/incidents cannot be written: %s", error)
        return stored, ""


@dataclass(frozen=True)
class Assessment:
    """The states in `ops/alerts`, those that hold now, the rows to append, and the record for the next evaluation."""

    stored: list[AlertState]
    present: list[AlertState]
    new: list[AlertState]
    step: Step


def decide(seen: Reading, rules: AlertRules, stored: list[AlertState], before: Step, now: datetime) -> Assessment:
    """Return the rows to write and the next step; equal arguments give equal results."""
    evidence = {**seen.evidence, "fired": _firing_sources(stored)}

    def found_in(evidence: Evidence) -> tuple[list[Condition], list[Episode], list[AlertState]]:
        each = conditions(evidence, rules, now, seen.blind)
        found = group_conditions(each, rules, stored)
        return each, found, keep_names(states(found, rules.severities), stored)

    each, found, present = found_in(evidence)
    looked_at = {
        (key.partition(" ")[0], cluster): at for key, one in before.clocks.items() for cluster, at in one.items()
    }
    judged = {n for n, one in rules.settings.items() if one.enabled and not set(RULES[n].needs) & seen.blind.keys()}
    if not before.clocks:  # the last step is lost, and with it what lasts and began before the rows that are kept
        left = [
            one
            for one in not_covered(stored, present)
            if one.rule in judged and one.labels.get("cluster") in seen.clocks
        ]
        if carried := told_states(left, evidence["health"]):
            each, found, present = found_in(evidence | {"carried": carried})
    clusters = _known_clusters(seen)
    present += [
        forget(one)
        for one in not_covered(stored, present)
        if not seen.blind and one.labels.get("cluster", "") not in clusters
    ]
    anew = before.query not in (None, seen.after.query)

    def why(state: AlertState) -> str | None:
        """Why it is not known whether an alert that nothing shows is over; None where it is known, empty for now."""
        not_known = _not_known(state, seen, looked_at, judged, now)
        return _rows_gone(state, seen, anew=anew) if not_known is None else not_known

    present += without_end(stored, present, why)
    read = {n: one for n, one in rules.settings.items() if not set(RULES[n].needs) & seen.blind.keys()}
    lasts_s = {n: getattr(one, "resolve_after_s") for n, one in read.items() if RULES[n].from_told}  # noqa: B009
    present = settle(present, stored, lasts_s, _notes(seen, stored), now)

    told_of = set() if before.clocks else {state.labels.get("cluster", "") for state in stored}

    def was_over(state: AlertState) -> bool:
        """Whether it ended before the rule was first evaluated, or last evaluated with other settings."""
        cluster = state.labels.get("cluster", "")
        if cluster in before.clocks.get(rules.key(state.rule), {}):
            return False
        at = looked_at.get((state.rule, cluster))
        return cluster not in told_of if at is None else microseconds(state.last_ts) <= at

    noted = pc.max(seen.handled["written_at"]).as_py()  # a note ends only rows that were written before it
    rows = [_end_silence(one, now) for one in news(present, stored, was_over)]
    new = stamp(rows, stored, now, noted, before.written_at)
    clocks = {key: one for key, one in before.clocks.items() if key.partition(" ")[0] not in judged}
    for key in (rules.key(name) for name in rules.settings if name in judged):
        earlier = before.clocks.get(key, {}) if before.query == seen.after.query else {}
        kept = {c: at for c, at in before.clocks.get(key, {}).items() if c == seen.rebuilt}
        clocks[key] = kept | {cluster: max(at, earlier.get(cluster, at)) for cluster, at in seen.clocks.items()}
    unjudged = [row for row in before.carried if row["rule"] not in judged or row["cluster"] == seen.rebuilt]
    carried = [*(row for row in carried_states(found) if row["cluster"] != seen.rebuilt), *unjudged]
    written_at = new[0].written_at if new else before.written_at
    after = replace(seen.after, carried=carried, clocks=clocks, waits=waits(each), written_at=written_at)
    return Assessment(stored, present, new, after)


def _known_clusters(seen: Reading) -> set[str]:
    """Return the clusters in bronze or gold, and "", which alerts on all clusters have."""
    of_bronze = (pc.unique(seen.evidence[name]["cluster"]).to_pylist() for name in ("reported", "backlog"))
    return {"", *seen.clocks, *chain.from_iterable(of_bronze)}


def _firing_sources(stored: Iterable[AlertState]) -> pa.Table:
    """Return `fired` of the evidence; an alert that does not name all its sources counts for any in its cluster."""
    rows = [
        (state.labels.get("cluster"), state.rule, state.labels.get("cause"), source, state.last_ts)
        for state in latest(stored).values()
        if state.firing
        for source in (state.names if state.names and (state.size[0] or 0) <= LABELLED else [None])
    ]
    schema = SCHEMAS["fired"]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def _end_silence(state: AlertState, now: datetime) -> AlertState:
    """Return the end of a silence, dated to when it was noticed, and not to the last report before the silence."""
    ended = state.rule == STALE_SOURCE.name and not state.firing and END not in state.labels
    return replace(state, last_ts=max(state.last_ts, now)) if ended else state


def _not_known(
    state: AlertState, seen: Reading, looked_at: Mapping[tuple[str, str], int], judged: Collection[str], now: datetime
) -> str | None:
    """The time since when it is not known if an alert is over, and why; None if it is known, empty for now."""
    cluster = state.labels.get("cluster", "")
    needs = RULES[state.rule].needs if state.rule in RULES else ()
    at = looked_at.get((state.rule, cluster), microseconds(state.last_ts))
    since = words.clock(moment(at))
    for name in needs:
        if name in seen.blind:
            return f"{since}: {seen.blind[name]}"
    if cluster == seen.rebuilt and {*needs} & {*MADE_ANEW}:
        return f"{since}: {REBUILT}"
    if state.rule not in judged:
        about = cluster or min(seen.clocks, default="")  # of an alert of all clusters any name does
        note = ("hwmark", "note", "rule is off", "--handled", "--cluster", about, "--incident", state.alert_id)
        off = f"{since}: the rule is off; `{shlex.join(note)}` ends it"
        return off if seen.clocks.get(cluster, microseconds(now)) > at + OF_ANOTHER_S * SECOND else ""
    clock = seen.clocks.get(cluster)
    if clock and {*needs} & {*MADE_ANEW} and max(at, microseconds(state.first_ts)) > clock + RESTORED_S * SECOND:
        return f"{since}: silver is of {words.clock(moment(clock))}, as after a restore"
    if {"disagreements", "gaps"} & set(needs) and state.first_ts < seen.kept_from.get(cluster, state.first_ts):
        return f"{since}: its rows are not kept any more"
    of = seen.evidence["reported"].filter(pc.field("cluster") == cluster)["source_id"].to_pylist()
    if "reported" in needs and cluster in seen.clocks and (not of or state.names - {*of}):
        return f"{since}: its reports are not kept any more"
    return None


def _rows_gone(state: AlertState, seen: Reading, *, anew: bool) -> str | None:
    """Say that silver no longer has a row of a reported loss; None if it has one or needs none.

    Only a revised row, or silver rebuilt from telemetry of that time, withdraws a loss.
    """
    if state.rule not in RULES or "regressions" not in RULES[state.rule].needs:
        return None
    cluster, near = state.labels.get("cluster", ""), timedelta(minutes=1)
    kept_from = seen.kept_from.get(cluster)
    if anew and kept_from is not None and kept_from <= state.first_ts:
        return None
    rows = seen.evidence["regressions"]
    ts, of = rows["ts"], pc.equal(rows["cluster"], cluster)
    found = rows.filter(
        pc.and_(of, pc.and_(pc.greater_equal(ts, state.first_ts - near), pc.less_equal(ts, state.last_ts + near)))
    )
    names = {
        f"{topic}-{n}" for topic, n in zip(found["topic"].to_pylist(), found["partition"].to_pylist(), strict=True)
    }
    if names & state.names or (names and not state.names):
        return None
    return f"{words.clock(state.written_at or state.last_ts)}: silver has no row of it any more"


def _notes(seen: Reading, stored: Sequence[AlertState]) -> list[Note]:
    """Return the alerts that people noted as handled.

    A note on a cluster or an incident ends only its losses and silent sources, a note on an alert id ends that alert.
    """
    rows = seen.handled.filter(seen.handled["handled"]).sort_by("written_at").to_pylist()
    ended_by_people = {state.alert_id for state in stored if state.rule in LOSSES or state.rule == STALE_SOURCE.name}
    several: dict[str | None, Sequence[str]] = {None: sorted(ended_by_people)}
    several.update(seen.alerts_of)
    return [
        Note(None if row["incident_id"] else row["cluster"], alert, row["text"], row["told_to"] or row["written_at"])
        for row in rows
        for alert in several.get(row["incident_id"], [row["incident_id"]])
        if row["incident_id"] not in several or alert in ended_by_people
    ]
