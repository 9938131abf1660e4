"""For a person on call: one sentence per finding, or per partition in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.verdict.losses import how
from pipelines.verdict.words import clock
from schemas.partition_health import STALLED_MS, is_one_of

Row = dict[str, Any]


def regression(row: Row) -> str:
    """`prod/clicks-0: offsets 120..299 (180) are gone, critical, unclean election of broker 2 after broker 1 at …`."""
    who = how(row["class"], row["leader_id"], row["leader_id_before"], row["start_offset"])
    return f"{name(row)}: {_happening(row)}, {_weight(row)}, {who} at {clock(row['ts'])}"


def harmless(found: Sequence[Row]) -> list[str]:
    """One sentence that counts the falls of a HW that cost nothing, where there are any."""
    counts = ", ".join(f"{row['rows']} {row['class']}" for row in found)
    return [f"Harmless: {counts}."] if counts else []


def partition(row: Row, *, ended: bool = False) -> str:
    """The sentence about one partition, at present or at the end of its cluster's telemetry."""
    behind = (row["leader_leo"] or 0) - (row["hw"] or 0)
    below = f" ({behind} below the log end)" if row["leader_leo"] is not None and behind > 0 else ""
    leads = "nobody leads" if row["offline"] else f"broker {_number(row['leader_id'])} leads"
    parts = [
        f"{leads} (epoch {_number(row['leader_epoch'])})",
        f"HW {_number(row['hw'])}{below}",
        f"{'last ISR' if row['offline'] else 'in sync'} {_ids(row['isr'])} of {_ids(row['ar'])}",
        *([] if ended else _troubles(row)),
    ]
    state = ", ".join(parts)
    if row["unknown"]:
        return f"{name(row)}: UNKNOWN; when last reported, at {clock(row['last_event_ts'])}: {state}"
    return f"{name(row)}: {'at its end, ' if ended else ''}{state}"


def name(row: Row) -> str:
    """`cluster/topic-partition`."""
    return f"{row['cluster']}/{row['topic']}-{row['partition']}"


def _happening(row: Row) -> str:
    first, end, count = row["lost_from"], row["lost_to"], row["lost_records"]
    if first is not None and end is not None and end > first:
        are = "are gone" if row["severity"] == "critical" else "may be gone"
        bound = "at least " if row["proof"] == "bounded" else ""
        return f"offsets {bound}{first}..{end - 1} ({count}) {are}"
    return f"HW {_number(row['hw_before'])} -> {_number(row['hw_after'])}"


def _weight(row: Row) -> str:
    return row["severity"] if row["proof"] == "proven" else f"{row['severity']} ({row['proof']})"


def _troubles(row: Row) -> list[str]:
    found = []
    if row["offline"]:
        found.append("OFFLINE")
    elif row["under_min_isr"]:
        found.append("UNDER MIN ISR: writes with acks=all are refused")
    if row["out_of_sync"]:
        found.append(f"out of sync: {_ids(row['out_of_sync'])}")
    if (row["stalled_ms"] or 0) > STALLED_MS:
        one_of = "one of " if is_one_of(row) else ""
        held = f", held back by {one_of}{_ids(row['holding_replicas'])}" if row["holding_replicas"] else ""
        found.append(f"HW stands for {row['stalled_ms'] / 1000:.0f} s{held}")
    return found


def _ids(ids: Sequence[int] | None) -> str:
    """`1,2,3`; `?` when unknown."""
    return "?" if ids is None else ",".join(map(str, ids)) or "none"


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
