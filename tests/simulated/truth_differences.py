"""Comparison of facts with the truth: every high watermark, ISR change, out-of-sync stretch and loss that differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from generators.simulator.cluster.settings import START, Settings
from pipelines.replication import Facts, Rules

Row = dict[str, Any]
Term = tuple[str, int, str, int, int]
"""Topic, partition, topic id, leader, leader epoch."""
_FALL = ("topic", "partition", "leader_epoch", "class", "hw_before", "hw_after", "lost_from", "lost_to")
"""Columns of a fall that are compared."""
_LOSSES = ("unclean_loss", "committed_loss", "hw_moved_back")


def rules_of(settings: Settings, **more: Any) -> Rules:
    """The reconstruction's rules for the settings of a simulated cluster (its brokers' common version)."""
    by_messages = settings.version.lag_by_messages
    chosen = {
        "lag_max_ms": settings.lag_max_ms,
        "lag_max_messages": settings.lag_max_messages if by_messages else None,
        "strict_min_isr": settings.version.strict_min_isr,
        "strict_eligibility": not settings.version.admits_ineligible,
    }
    return Rules(**(chosen | more))


def differences(facts: Facts, truth: Mapping[str, pa.Table], race_window_ms: int = 150) -> list[str]:
    """Every difference, one sentence each, facts first; none where the reconstruction is complete.

    Compared are, to the millisecond of the leader's clock: the HWs of every term in order; ISR changes by partition
    epoch, with their causes; out-of-sync stretches within a term; losses with class and range. An HW that the facts
    call a `race` has a time within the race window only, and is compared so. A report that is the only witness is an
    HW, too: the last one of a broker that died before it printed its cause. An ISR change that only an active
    controller printed may never have been committed, and is marked so. No broker prints that a topic is deleted, so the
    followers of a deleted one may count as silent since. A member's cut below the HW is a loss only where its leader
    had less, too: it may be told as a loss that is not excluded, with the same HWs.
    """
    return [
        *_high_watermarks(facts, truth, race_window_ms),
        *_isr_changes(facts, truth),
        *_out_of_sync(facts, truth),
        *_regressions(facts, truth),
    ]


class Step(NamedTuple):
    """One HW of a term: its time (ms), whether it started the term, its value, and the tolerance of its time."""

    ts: int
    kind: str
    hw: int
    within: int = 0

    def fits(self, true: Step) -> bool:
        return (self.kind, self.hw) == (true.kind, true.hw) and abs(self.ts - true.ts) <= self.within

    def __str__(self) -> str:
        return f"{self.kind} to {self.hw} at {_seconds(self.ts)}"


def _high_watermarks(facts: Facts, truth: Mapping[str, pa.Table], race_window_ms: int) -> Iterator[str]:
    found: dict[Term, list[Step]] = defaultdict(list)
    true: dict[Term, list[Step]] = defaultdict(list)
    for row in facts.partition_hw.to_pylist():
        if row["kind"] in ("term_start", "advance"):
            within = race_window_ms if row["agreement"] == "race" else 0
            found[_term(row)].append(Step(_ms(row["ts"]), row["kind"], row["hw"], within))
        elif row["agreement"] == "only_witness":
            found[_term(row)].append(Step(_ms(row["ts"]), "advance", row["reported_hw"]))
    for row in truth["truth_hw"].to_pylist():
        true[_term(row)].append(Step(_ms(row["ts"]), row["kind"], row["hw"]))
    for term in sorted(set(found) | set(true)):
        found[term].sort(key=lambda step: step.ts)
        yield from _series(f"HW of {_term_name(term)}", found[term], true[term])


def _series(what: str, found: list[Step], true: list[Step]) -> Iterator[str]:
    """The first difference of two series, or of their lengths: later ones mostly follow from it."""
    for k, (mine, theirs) in enumerate(zip(found, true, strict=False)):
        if not mine.fits(theirs):
            yield f"{what}: change {k} is {mine}, true is {theirs}"
            return
    if len(found) != len(true):
        longer, state = (found, "not true") if len(found) > len(true) else (true, "missing")
        yield f"{what}: {abs(len(found) - len(true))} changes {state}, first {longer[min(len(found), len(true))]}"


def _isr_changes(facts: Facts, truth: Mapping[str, pa.Table]) -> Iterator[str]:
    latest = {_change(row): row for row in sorted(facts.isr_changes.to_pylist(), key=lambda row: row["revision"])}
    kept = {key: row for key, row in latest.items() if row["change"] != "retracted"}
    found = {key: row for key, row in kept.items() if row["removed"] or row["added"]}
    true = {_change(row): row for row in truth["truth_isr"].to_pylist()}
    for key in sorted(set(found) | set(true)):
        what = f"ISR of {key[0]}-{key[1]} at partition epoch {key[3]}"
        if key not in true and found[key]["witness"] != "controller_only":
            yield f"{what}: {_isr(found[key])} is not true"
        elif key in true and key not in found:
            yield f"{what}: {_isr(true[key])} is missing"
        elif key in true and _isr(found[key]) != _isr(true[key]):
            yield f"{what}: {_isr(found[key])}, true is {_isr(true[key])}"


def _out_of_sync(facts: Facts, truth: Mapping[str, pa.Table]) -> Iterator[str]:
    found = _stretches(facts)
    true: dict[tuple[Term, int], list[tuple[int, int | None]]] = defaultdict(list)
    for row in truth["truth_out_of_sync"].to_pylist():
        to = None if row["to_ts"] is None else _ms(row["to_ts"])
        true[_term(row), row["replica_id"]].append((_ms(row["from_ts"]), to))
    there = set(truth["truth_records"]["topic_id"].to_pylist())
    for term, replica in sorted(set(found) | set(true)):
        mine, theirs = found.get((term, replica), []), true.get((term, replica), [])
        what = f"replica {replica} out of sync in {_term_name(term)}"
        for stretch in sorted(set(mine) - set(theirs), key=_from):
            if stretch[1] is not None or term[2] in there:
                yield f"{what}: {_stretch(stretch)} is not true"
        for stretch in sorted(set(theirs) - set(mine), key=_from):
            yield f"{what}: {_stretch(stretch)} is missing"


def _stretches(facts: Facts) -> dict[tuple[Term, int], list[tuple[int, int | None]]]:
    """Out-of-sync stretches of the facts, cut where terms begin: a state lasts until the next row of the replica."""
    starts = [row for row in facts.partition_hw.to_pylist() if row["kind"] == "term_start"]
    rows = sorted([*starts, *facts.replica_sync.to_pylist()], key=lambda row: (row["ts"], "replica_id" in row))
    found: dict[tuple[Term, int], list[tuple[int, int | None]]] = defaultdict(list)
    out: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    """By leader of a partition: replicas out of sync, and since when in the current term."""
    terms: dict[tuple[Any, ...], Term] = {}
    for row in rows:
        leadership = (row["topic"], row["partition"], row["leader_id"])
        if leadership in terms and (terms[leadership] != _term(row) or row.get("kind") == "term_start"):
            for replica, since in out[leadership].items():
                found[terms[leadership], replica].append((since, None))
            out[leadership] = dict.fromkeys(out[leadership], _ms(row["ts"]))
        terms[leadership] = _term(row)
        if "replica_id" not in row:
            continue
        now, replica = _ms(row["ts"]), row["replica_id"]
        if row["state"] == "out_of_sync":
            out[leadership].setdefault(replica, now)
        elif out[leadership].get(replica, now) < now:
            found[_term(row), replica].append((out[leadership][replica], now))
        if row["state"] != "out_of_sync":
            out[leadership].pop(replica, 0)
    for leadership, replicas in out.items():
        for replica, since in replicas.items():
            found[terms[leadership], replica].append((since, None))
    return found


def _regressions(facts: Facts, truth: Mapping[str, pa.Table]) -> Iterator[str]:
    latest: dict[str, Row] = {}
    for row in sorted(facts.hw_regressions.to_pylist(), key=lambda row: row["revision"]):
        latest[row["regression_id"]] = row
    found, true = _falls(list(latest.values())), _falls(truth["truth_regressions"].to_pylist())
    cuts = [r for r in latest.values() if r["class"] == "loss_not_excluded" and r["replica_id"] is not None]
    told = found | _falls([{**row, "class": "hw_moved_back"} for row in cuts])
    for fall in sorted(set(found) | set(true), key=str):
        if fall not in true:
            yield f"{_fall(fall)} is not true"
        elif fall not in told:
            yield f"{_fall(fall)} is missing"


def _falls(rows: list[Row]) -> set[tuple[Any, ...]]:
    """Losses and low first HWs by their columns; other classes concern one replica's log and are not compared.

    Nor is an unproven unclean election whose leader has not reported its start offset.
    """
    kept = [row for row in rows if row["class"] in (*_LOSSES, "stale_leader_hw") and not _is_feared(row)]
    return {tuple(row[name] for name in _FALL) for row in kept}


def _is_feared(row: Row) -> bool:
    return row["class"] == "unclean_loss" and row["hw_after"] is None and row.get("proof") == "unproven"


def _term(row: Row) -> Term:
    return row["topic"], row["partition"], row["topic_id"] or "", row["leader_id"], row["leader_epoch"]


def _change(row: Row) -> tuple[str, int, str, int]:
    return row["topic"], row["partition"], row["topic_id"] or "", row["partition_epoch"]


def _isr(row: Row) -> str:
    return f"{sorted(row['isr_before'] or [])} -> {sorted(row['isr_after'] or [])} ({row['cause']})"


def _ms(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return round(moment.timestamp() * 1_000_000) // 1000


def _seconds(ms: int) -> str:
    """Time since the usual start of a simulation."""
    return f"{(ms * 1000 - START) / 1_000_000:.3f} s"


def _term_name(term: Term) -> str:
    return f"{term[0]}-{term[1]} led by {term[3]} in epoch {term[4]}"


def _from(stretch: tuple[int, int | None]) -> int:
    return stretch[0]


def _stretch(stretch: tuple[int, int | None]) -> str:
    start, end = stretch
    return f"from {_seconds(start)} " + ("until the term ended" if end is None else f"to {_seconds(end)}")


def _fall(fall: tuple[Any, ...]) -> str:
    topic, partition, epoch, what, before, after, lost_from, lost_to = fall
    lost = "" if lost_from is None else f", {lost_from} to {lost_to} lost"
    return f"{what} of {topic}-{partition} in epoch {epoch}, HW {before} -> {after}{lost},"
