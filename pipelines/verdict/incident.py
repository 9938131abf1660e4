"""The history of one loss: who was gone, who was alone, who was elected, what is lost, and how that is known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pipelines.verdict import words
from pipelines.verdict.losses import how, lacking

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
        lost_step(loss),
        _written(loss, before),
        *_acknowledged(loss, before),
        Step("judged", None, "; ".join(_judged(loss))),
    ]


def _by_election(loss: Row, row: Row) -> bool:
    """Return True if an ISR change came with the new leader or later, and so is no cause of the election."""
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
    return Step("follower gone", left["ts"], f"{who} left the ISR ({words.isr_cause(left['cause'])}){last}")


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


def lost_step(loss: Row) -> Step:
    """Tell the offsets that are gone, and since when."""
    return Step("lost", loss["ts"], _range(loss))


def _range(loss: Row) -> str:
    first, end = loss["lost_from"], loss["lost_to"]
    if first is None or end is None:
        return f"offsets below the HW {_known(loss['hw_before'])}: which is not known"
    bound = {"proven": "", "bounded": "at least "}.get(loss["proof"], "perhaps ")
    most = read_evidence(loss).get("at_most")
    at_most = f", at most {most[0]}..{most[1] - 1}" if most and None not in most else ""
    return f"{bound}{words.count(end - first, 'offset')}, {first}..{end - 1}{at_most}"


def _written(loss: Row, before: Before) -> Step:
    """When the lost records were committed: while the HW passed them, under the leader before."""
    first, end = loss["lost_from"], loss["lost_to"]
    rose = [row for row in _term(loss, before.hw) if row["hw"] is not None]
    passed = [row["ts"] for row in rose if first is not None and row["hw"] > first]
    reached = [row["ts"] for row in rose if end is not None and row["hw"] >= end]
    return written(passed[0] if passed else None, reached[0] if reached else None)


def written(since: datetime | None, until: datetime | None) -> Step:
    """When the HW passed the first and the last of the lost records."""
    if since is None:
        return Step("written", None, "when the lost records were written is not known")
    to = f"until {words.clock(until)}" if until else "until when is not known"
    return Step("written", since, f"the HW passed the lost offsets from {words.clock(since)} {to}")


def _acknowledged(loss: Row, before: Before) -> Iterator[Step]:
    """The possible losses of producers, a step for each setting of acks."""
    if loss["lost_from"] is None:
        yield Step("acknowledged", None, "which records were acknowledged is not known")
        return
    yield Step("acknowledged", None, "brokers do not know which writes were acknowledged; by the producers' settings:")
    below = "every lost offset was below the HW: these writes were acknowledged, and consumers could read them"
    yield Step("acks=all", None, below)
    yield Step("acks=1", None, f"the same, acknowledged earlier; {_above(loss, before)}")
    under = before.isr[-1] if before.isr else None
    if under is not None and under["under_min_isr"]:
        text = f"under it since {words.clock(under['ts'])}: writes with acks=all were refused from then on"
        yield Step("min ISR", under["ts"], text)
    else:
        known = under is not None and under["under_min_isr"] is not None
        refused = "it held at the last ISR change: no write with acks=all was refused for it then"
        yield Step("min ISR", None, refused if known else "whether the ISR was under it is not known")


def _above(loss: Row, before: Before) -> str:
    """Tell the offsets above the HW, which only the leader had promised."""
    ends = [row["leader_leo"] for row in _term(loss, before.hw) if row["leader_leo"] is not None]
    if not ends or loss["hw_before"] is None:
        return "what stood above the HW is not known"
    if (above := max(ends) - loss["hw_before"]) <= 0:
        return "nothing is known to have stood above the HW"
    return f"{words.count(above, 'offset')} above the HW {'is' if above == 1 else 'are'} gone with them"


def _judged(loss: Row) -> Iterator[str]:
    yield f"{loss['proof']} at {words.level(loss['level'])}"
    if missing := read_evidence(loss).get("missing"):
        yield f"missing: {lacking([str(one) for one in missing])}"
    if (loss["revision"] or 1) > 1:
        yield f"revision {loss['revision']}: telemetry that came late changed the verdict"


def _term(loss: Row, rows: Sequence[Row]) -> list[Row]:
    """The rows of the term before the loss."""
    return [row for row in rows if row["leader_epoch"] == loss["leader_epoch_before"]]


def read_evidence(loss: Row) -> dict[str, Any]:
    """The evidence of a row of silver/hw_regressions; empty if it is no JSON object."""
    try:
        found = json.loads(loss["evidence"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _known(value: object) -> str:
    return "not known" if value is None else str(value)
