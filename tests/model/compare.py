"""What the rules say of histories, against what is true."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pipelines.replication import Rules, replay
from tests.model.partition import Cut, Loss, Partition
from tests.model.printed import FULL, printed
from tests.model.taken import without
from tests.unit.replication.bronze import events_of, since_base

CRITICAL = ("unclean_loss", "committed_loss", "hw_moved_back")
TOLD = (*CRITICAL, "loss_not_excluded")


class View(NamedTuple):
    """What of a history is printed: the level of its brokers, what its controller logs (debug, info, none), and whether
    brokers tell of their starts, and of how they had stopped before."""

    level: int = FULL
    controller: str = "debug"
    starts: bool = True


@dataclass(frozen=True)
class Case:
    """A history as one cluster, `name`, printed it. `whole`: nothing is missing; `taken`: what was taken away of it."""

    name: str
    played: Partition
    level: int
    whole: bool
    rows: list[dict[str, Any]]
    taken: str = ""
    elections: bool = True
    """Whether the controller tells of every election."""


def case(name: str, played: Partition, view: View) -> Case:
    """All that a cluster prints of a history."""
    happenings = [h for h in played.happenings if view.starts or h.kind != "version"]
    rows = [row for source in printed(happenings, name, view.level, view.controller) for row in source.rows]
    elections = view.controller == "debug"
    whole = elections and view.starts and not played.untold
    return Case(name, played, view.level, whole, rows, elections=elections)


def spoiled(one: Case) -> Iterator[Case]:
    """The same with something taken away, a cluster each."""
    for k, (gone, rows) in enumerate(without(one.rows)):
        name = f"{one.name}-{k}"
        yield replace(one, name=name, whole=False, taken=gone, rows=[row | {"cluster": name} for row in rows])


def findings(cases: Sequence[Case]) -> Iterator[tuple[Case, str]]:
    """What the rules say of these that is not true; all in one replay."""
    rows = [row for one in cases for row in one.rows]
    said: dict[str, dict[str, dict[str, Any]]] = {}
    for row in replay(events_of(rows), Rules()).hw_regressions.to_pylist():
        known = said.setdefault(row["cluster"], {})
        last = known.get(row["regression_id"])
        if last is None or row["revision"] > last["revision"]:
            known[row["regression_id"]] = row
    for one in cases:
        rows = [row for row in said.get(one.name, {}).values() if "withdrawn" not in json.loads(row["evidence"])]
        for text in wrong(one, rows):
            yield one, text


def wrong(one: Case, said: list[dict[str, Any]]) -> Iterator[str]:
    """What is wrong in what is said of one history."""
    for loss in one.played.losses:
        yield from _of_a_loss(one, loss, said)
    for row in said:
        if row["severity"] == "critical":
            yield from _of_a_critical(one, row)
        elif row["class"] == "uncommitted_truncation":
            yield from _of_a_cut(one.played.cuts, row)
        elif row["class"] == "loss_not_excluded" and one.level == FULL and one.whole:
            begun = [ms for ms, *_ in one.played.starts if ms == since_base(row["ts"])]
            if begun and begun[0] < one.played.unsafe_since:
                yield f"alarm: loss_not_excluded of epoch {row['leader_epoch']}, where a member of the ISR was elected"


def _of_a_loss(one: Case, loss: Loss, said: list[dict[str, Any]]) -> Iterator[str]:
    """A loss is told, or not excluded; exactly, where every line is there, or as far as leader epochs show it, where it
    was said that records may differ. Where its start is not told the next one is no calm."""
    rows = [row for row in said if row["leader_epoch"] == loss.epoch]
    told = [row for row in rows if row["class"] in TOLD]
    begins = any(h.kind == "leader" and h.ms == loss.ms for h in one.played.happenings)
    elected = one.elections and (loss.ms, loss.epoch, 0) in one.played.starts
    if (begins or elected) and not told and not one.taken:
        yield f"silent: {_range(loss)} is lost"
    here = [row for row in rows if since_base(row["ts"]) == loss.ms]
    next_ms = min((ms for ms, *_ in one.played.starts if ms > loss.ms), default=None)
    after = [] if begins else [row for row in said if since_base(row["ts"]) == next_ms]
    for row in [*here, *(row for row in after if (row["hw_before"] or 0) > loss.first)]:
        if row["class"] == "stale_leader_hw":
            yield f"calm: stale_leader_hw ({row['proof']}), and {_range(loss)} is lost"
    if one.level < FULL or not one.whole or not told:
        return
    least = [(loss.shows, loss.end)] if any("equal records" in row["evidence"] for row in said) else []
    exact = [r for r in here if r["severity"] == "critical" and (r["lost_from"], r["lost_to"]) in [loss[2:4], *least]]
    if not exact and (loss.end, loss.end) not in least:
        yield f"not exact: {_range(loss)} is lost, said is {[_brief(r) for r in told]}"


def _of_a_critical(one: Case, row: dict[str, Any]) -> Iterator[str]:
    """What is called lost is lost."""
    ms = since_base(row["ts"]) or 0
    unseen = one.taken or one.played.untold  # a loss may have come with a start that nobody told
    same = [x for x in one.played.losses if x.epoch == row["leader_epoch"] or (unseen and x.ms <= ms)]
    if row["lost_from"] is None:
        if not same:
            yield f"false: {_brief(row)}, and nothing is lost in this epoch"
        return
    gone = {offset for loss in same for offset in range(loss.first, loss.end)}
    if not gone.issuperset(range(row["lost_from"], row["lost_to"])):
        true = [_range(loss) for loss in one.played.losses]
        yield f"false: {_brief(row)} is said, lost is {true or 'nothing'}"
        return
    end = json.loads(row["evidence"]).get("at_most")
    if (row["proof"] == "proven" or end) and not unseen:
        first, end = end or (row["lost_from"], row["lost_to"])
        if not any(first <= loss.first and loss.end <= end for loss in same):
            yield f"too short: {_brief(row)}, at most {[first, end]}, lost is {[_range(loss) for loss in same]}"


def _of_a_cut(cuts: list[Cut], row: dict[str, Any]) -> Iterator[str]:
    """Records that are called harmless were never below a leader's HW."""
    ms = since_base(row["ts"])
    for cut in cuts:
        if cut.ms == ms and cut.committed:
            yield f"calm: replica {cut.replica} cut [{cut.to}, {cut.end}), once committed, as uncommitted_truncation"


def _range(loss: Loss) -> str:
    return f"[{loss.first}, {loss.end}) of epoch {loss.epoch}"


def _brief(row: dict[str, Any]) -> str:
    lost = "" if row["lost_from"] is None else f" [{row['lost_from']}, {row['lost_to']})"
    return f"{row['class']} {row['severity']} {row['proof']}{lost} epoch {row['leader_epoch']}"
