"""How one loss came about: who was gone, who was alone, who was elected, what is lost, and what is known of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pipelines.verdict import words
from pipelines.verdict.losses import how

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One link of the chain; `ts` None: when is not known, or it is no moment."""

    name: str
    ts: datetime | None
    text: str

    @property
    def when(self) -> str:
        return "time not known" if self.ts is None else words.clock(self.ts)


@dataclass(frozen=True)
class Before:
    """Rows of one partition up to its loss, in order of time: of silver's isr_changes, replica_sync, partition_hw."""

    isr: Sequence[Row] = ()
    sync: Sequence[Row] = ()
    hw: Sequence[Row] = ()


def chain(loss: Row, before: Before) -> list[Step]:
    """The steps of a loss (the latest revision of a row of `silver/hw_regressions`), the earliest cause first."""
    before = replace(before, isr=[row for row in before.isr if not _by_election(loss, row)])
    return [
        _follower_gone(loss, before),
        _leader_alone(loss, before),
        Step("elected", loss["ts"], f"{_who(loss)}, leader epoch {_known(loss['leader_epoch'])}"),
        Step("lost", loss["ts"], _range(loss)),
        _written(loss, before),
        Step("acknowledged", None, "; ".join(_acknowledged(loss, before))),
        Step("judged", None, "; ".join(_judged(loss))),
    ]


def _by_election(loss: Row, row: Row) -> bool:
    """Whether an ISR change came with the new leader, or after it: it is what the election did, and no cause of it."""
    epoch, old, new = row["leader_epoch"], loss["leader_epoch_before"], loss["leader_epoch"]
    return None not in (epoch, old, new) and epoch >= new > old


def _follower_gone(loss: Row, before: Before) -> Step:
    """Since when the broker that lost the records was out of the ISR, and when it had last caught up."""
    replica = loss["leader_id"]
    changes = [row for row in before.isr if replica in (row["removed"] or ()) or replica in (row["added"] or ())]
    who = words.brokers(() if replica is None else (replica,))
    if not changes or replica not in (changes[-1]["removed"] or ()):
        return Step("follower gone", None, f"when {who} left the ISR is not known")
    left = changes[-1]
    caught_up = [
        row["last_caught_up_ts"]
        for row in before.sync
        if row["replica_id"] == replica and row["last_caught_up_ts"] is not None and row["ts"] <= left["ts"]
    ]
    last = f", last caught up at {words.clock(caught_up[-1])}" if caught_up else ", when it last caught up is not known"
    return Step("follower gone", left["ts"], f"{who} left the ISR ({left['cause'] or 'cause not known'}){last}")


def _leader_alone(loss: Row, before: Before) -> Step:
    """Since when the leader before was alone in the ISR, where it still was."""
    leader = loss["leader_id_before"]
    who = words.brokers(() if leader is None else (leader,))
    if not before.isr:
        return Step("leader alone", None, f"whether {who} was alone in the ISR is not known")
    since = None
    for row in before.isr:
        alone = row["isr_after"] == [leader]
        since = (since or row["ts"]) if alone else None
    if since is None:
        return Step("leader alone", None, f"{who} was not alone in the ISR, as far as is known")
    return Step("leader alone", since, f"{who} alone in the ISR")


def _who(loss: Row) -> str:
    return how(loss["class"], loss["leader_id"], loss["leader_id_before"], loss["start_offset"])


def _range(loss: Row) -> str:
    first, end = loss["lost_from"], loss["lost_to"]
    if first is None or end is None:
        return f"offsets below the HW {_known(loss['hw_before'])}: which is not known"
    bound = {"proven": "", "bounded": "at least "}.get(loss["proof"], "perhaps ")
    most = _evidence(loss).get("at_most")
    at_most = f", at most {most[0]}..{most[1] - 1}" if most and None not in most else ""
    return f"{bound}{words.count(end - first, 'offset')}, {first}..{end - 1}{at_most}"


def _written(loss: Row, before: Before) -> Step:
    """When the lost records were committed: while the HW passed them, under the leader before."""
    first, end = loss["lost_from"], loss["lost_to"]
    rose = [row for row in _term(loss, before.hw) if row["hw"] is not None]
    passed = [row["ts"] for row in rose if first is not None and row["hw"] > first]
    reached = [row["ts"] for row in rose if end is not None and row["hw"] >= end]
    if not passed:
        return Step("written", None, "when the lost records were written is not known")
    until = f"until {words.clock(reached[0])}" if reached else "until when is not known"
    return Step("written", passed[0], f"the HW passed the lost offsets from {words.clock(passed[0])} {until}")


def _acknowledged(loss: Row, before: Before) -> Iterator[str]:
    """Who was promised the records: below the HW everybody, above it only producers with acks=1 or 0."""
    if loss["lost_from"] is None:
        yield "which records were acknowledged is not known"
        return
    yield "every lost offset was below the HW: writes with acks=all were acknowledged, and consumers could read them"
    ends = [row["leader_leo"] for row in _term(loss, before.hw) if row["leader_leo"] is not None]
    if ends and loss["hw_before"] is not None and max(ends) > loss["hw_before"]:
        above = words.count(max(ends) - loss["hw_before"], "offset")
        yield f"{above} above the HW are gone with them, acknowledged with acks=1 only"
    elif not ends:
        yield "what stood above the HW, acknowledged with acks=1 only, is not known"
    under = before.isr[-1] if before.isr else None
    if under is not None and under["under_min_isr"]:
        yield f"under min ISR since {words.clock(under['ts'])}: writes with acks=all were refused from then on"
    elif under is None or under["under_min_isr"] is None:
        yield "whether the ISR was under min ISR is not known"


def _judged(loss: Row) -> Iterator[str]:
    yield f"{loss['proof']} at {words.level(loss['level'])}"
    if missing := _evidence(loss).get("missing"):
        yield "missing: " + ", ".join(map(str, missing))
    if (loss["revision"] or 1) > 1:
        yield f"revision {loss['revision']}: what came late changed the verdict"


def _term(loss: Row, rows: Sequence[Row]) -> list[Row]:
    """The rows of the term before the loss."""
    return [row for row in rows if row["leader_epoch"] == loss["leader_epoch_before"]]


def _evidence(loss: Row) -> dict[str, Any]:
    try:
        found = json.loads(loss["evidence"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _known(value: object) -> str:
    return "not known" if value is None else str(value)
